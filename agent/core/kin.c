/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of random bytes, and whose they are. See kin.h. */
#include "kin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "proc.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * Each thread has a stream of its own, so that what one draws does not depend on what others do meanwhile. Its key follows from that of
 * its process, and that from its parent's, and from how many children that had made before. So two programs that do the same have the
 * same streams, whatever else goes on beside them, and in whatever order children of one process get to run. Numbers of processes
 * would not do: threads have some as well, and libraries make threads when they like.
 *
 * That a process makes another one we hear before it has a number. But numbers are given out in order: it lies between the newest that
 * there was then, and the newest that there is at the next. Of one whose parent has gone before it asks for anything, that is who
 * has made one last before it got its number, if others did so at the same time perhaps wrongly.
 *
 * The interpreter begins another stream with each run: one draws the same whatever earlier ones have drawn. While it is on its way
 * up, it has a stream that is always the same, for when that is, and how often, is nobody's doing.
 */

#define FRESH_US 100000u /* a number is not given to another thread so soon */

/* Kinds of keys. */
enum { OF_START = 1, OF_RUN, OF_JOB, OF_CHILD, OF_ORPHAN, OF_THREAD, OF_INTERP };

static bool has_ended(const struct kin *k)
{
	return kill(k->pid, 0) < 0 && errno == ESRCH;
}

/* Makes room for one more: those go that have ended, or, if nobody has, whoever is known for longest. */
static void make_room(struct kin_all *all)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (!has_ended(&all->v[i]))
			all->v[n++] = all->v[i];
	}
	if (n == KIN_MAX)
		memmove(all->v, all->v + 1, --n * sizeof(*all->v));
	all->n = n;
}

/* @start: 0: whoever had the number last. */
static struct kin *find(struct kin_all *all, pid_t tid, uint64_t start)
{
	for (size_t i = all->n; i > 0; i--) {
		if (all->v[i - 1].tid == tid && (all->v[i - 1].start == start || !start))
			return &all->v[i - 1];
	}
	return NULL;
}

static bool job_is_known(const struct kin_all *all, uint32_t job)
{
	uint8_t key[CHACHA_KEY];

	chacha_derive(all->key, OF_JOB, job, key);
	for (size_t i = 0; i < all->n; i++) {
		if (memcmp(all->v[i].key, key, sizeof(key)) == 0)
			return true;
	}
	return false;
}

/* Which child of @parent is @pid, counted from 0? Return: that, or -1 if it is not known. */
static int64_t rank_of(const struct kin *parent, pid_t pid)
{
	const uint32_t known = parent->forks < KIN_FORKS ? parent->forks : KIN_FORKS;

	for (uint32_t i = 1; i <= known; i++) {
		const uint32_t n = parent->forks - i;

		if (parent->newest[n % KIN_FORKS] < pid)
			return n;
	}
	return -1;
}

/* Who made @pid, which has lost its parent? Return: it, or NULL. */
static const struct kin *parent_by_number(const struct kin_all *all, pid_t pid)
{
	const struct kin *best = NULL;
	pid_t before = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct kin *k = &all->v[i];
		const int64_t rank = k->pid == pid ? -1 : rank_of(k, pid);

		if (rank < 0 || k->newest[rank % KIN_FORKS] < before)
			continue;
		best = k;
		before = k->newest[rank % KIN_FORKS];
	}
	return best;
}

static void run_key(const struct kin_all *all, uint8_t key[CHACHA_KEY])
{
	chacha_derive(all->key, all->begun ? OF_RUN : OF_START, all->begun ? all->run : 0, key);
}

/* The key of the process @k, whose parent is @ppid. */
static void process_key(struct kin_all *all, struct kin *k, pid_t ppid, uint32_t job)
{
	const struct kin *parent = find(all, ppid, 0);
	int64_t rank;

	if (!parent)
		parent = parent_by_number(all, k->pid);
	rank = parent ? rank_of(parent, k->pid) : -1;
	if (k->pid == all->interp) {
		run_key(all, k->key);
	} else if (job && !job_is_known(all, job)) { /* the program itself: nobody asks before it */
		chacha_derive(all->key, OF_JOB, job, k->key);
	} else if (rank >= 0) {
		chacha_derive(parent->key, OF_CHILD, (uint64_t)rank, k->key);
	} else {
		chacha_derive(all->key, OF_ORPHAN, all->run, k->key);
		chacha_derive(k->key, OF_CHILD, (uint64_t)(k->pid - all->interp), k->key);
	}
}

static void thread_key(const uint8_t process[CHACHA_KEY], struct kin *k)
{
	if (k->tid == k->pid)
		memcpy(k->key, process, CHACHA_KEY);
	else
		chacha_derive(process, OF_THREAD, (uint64_t)(k->tid - k->pid), k->key);
}

/* Return: this thread, which is added if it is not known, behind its process; NULL if it has gone. */
static struct kin *add(struct kin_all *all, pid_t tid, pid_t pid, uint32_t job)
{
	struct kin k = {.tid = tid, .pid = pid}, *known, *process;
	struct proc_stat st;
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	if (proc_read_stat(path, &st) < 0)
		return NULL;
	k.start = st.start;
	known = find(all, tid, st.start);
	if (known)
		return known;
	if (all->n == KIN_MAX)
		make_room(all);
	if (tid == pid) {
		process_key(all, &k, st.parent, job);
	} else {
		process = add(all, pid, pid, job); /* not deeper than that */
		if (!process)
			return NULL;
		thread_key(process->key, &k);
		if (all->n == KIN_MAX)
			make_room(all);
	}
	all->v[all->n] = k;
	return &all->v[all->n++];
}

struct kin *kin_find(struct kin_all *all, pid_t tid, uint32_t job)
{
	const uint64_t now = now_us();
	struct kin *k = find(all, tid, 0);
	char path[48];
	pid_t pid;

	if (k && now - k->seen < FRESH_US)
		return k;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	pid = (pid_t)proc_number(path, "Tgid:", 10);
	k = pid > 0 ? add(all, tid, pid, job) : NULL;
	if (k)
		k->seen = now;
	return k;
}

void kin_fork(struct kin_all *all, pid_t tid, uint32_t job)
{
	const pid_t newest = proc_last_pid();
	struct kin *k = kin_find(all, tid, job);

	if (k && k->tid != k->pid)
		k = add(all, k->pid, k->pid, job);
	if (k)
		k->newest[k->forks++ % KIN_FORKS] = newest;
}

void kin_interp(struct kin_all *all, pid_t pid)
{
	all->interp = pid;
	all->begun = false;
}

bool kin_run(struct kin_all *all, uint32_t run, uint8_t ret_seed[CHACHA_KEY])
{
	const bool first = !all->begun;
	uint8_t key[CHACHA_KEY];

	all->begun = true;
	all->run = run;
	run_key(all, key);
	for (size_t i = 0; i < all->n; i++) {
		struct kin *k = &all->v[i];

		if (k->pid != all->interp)
			continue;
		thread_key(key, k);
		k->at = 0;
		k->opens = k->forks = 0;
	}
	if (first)
		chacha_derive(all->key, OF_INTERP, run, ret_seed);
	return first;
}
