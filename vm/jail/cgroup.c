/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, version 2 or 1, as far as this host permits. */
#include "cgroup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "cell.h"
#include "cgroup_stat.h"
#include "vm/base/cgroups.h"
#include "vm/base/io.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Each of the three controllers is searched separately, because a host may have them in different
 * places: mounted as version 1, or listed in our own group of version 2. Below our own group a group
 * is made for this spawner, and below that one for each jail, with names that don't conflict with
 * those of another daemon.
 *
 * Version 2 enables controllers only for children of a group without processes. If our group only
 * contains the daemon and us (a service with Delegate=yes, or a scope), both move to a new leaf
 * group; if it contains others, we must not move them, and the limit is absent.
 *
 * An unavailable controller is an ABSENT layer with its errno in the report. The limits set by
 * setrlimit(2) apply in any case. If a controller works, there is no sandbox without its limit: if its
 * group can't be made or limited, it does not start.
 *
 * Processor time is counted where that is cheap: every group of version 2 counts it, even without
 * controllers, and cloning into one is free. Moving a process into a group of version 1 is not, but is
 * done if there is no other.
 *
 * A spawner holds a lock on its group as long as it lives. When a spawner makes its group, it removes
 * sibling groups that are not locked. A group that still has processes can't be removed, and is left
 * for the next one.
 */

#define CLAIM_TRIES    50
#define SWEEP_TRIES    100
#define SWEEP_PAUSE_NS 10000000
#define CPU_PERIOD_US  100000u

static const char *const controller[] = {
	[JAIL_C_MEMORY] = "memory",
	[JAIL_C_PIDS] = "pids",
	[JAIL_C_CPU] = "cpu",
	[JAIL_C_COUNT] = "cpuacct",
};

/* Which file of a group counts what, for versions 1 and 2. */
static const struct {
	enum jail_control control;
	const char *file[2];
} counted[] = {
	[CGROUP_STAT_OOM] = {JAIL_C_MEMORY, {"memory.oom_control", "memory.events"}},
	[CGROUP_STAT_CPU] = {JAIL_C_COUNT, {"cpuacct.usage", "cpu.stat"}},
	[CGROUP_STAT_WAIT] = {JAIL_C_COUNT, {NULL, "cpu.pressure"}},
};
static_assert(ARRAY_SIZE(counted) == CGROUP_STAT_NFILES, "each with its file");

/* Where the spawner's own group is; `dir` is open once looked for, if there is one. */
static struct group {
	bool looked;
	int version, error;
	int parent, dir;
} groups[JAIL_NCONTROLS];

/* ---- limits ---- */

/* For versions 1 and 2. */
static const char *const limit_file[][2] = {
	[JAIL_C_MEMORY] = {"memory.limit_in_bytes", "memory.max"},
	[JAIL_C_PIDS] = {"pids.max", "pids.max"},
	[JAIL_C_CPU] = {"cpu.cfs_quota_us", "cpu.max"},
};
static_assert(ARRAY_SIZE(limit_file) == JAIL_NLIMITS, "a file for each limit");

/* Return: 0 or -errno. */
static int write_file(int dir, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Does the kernel support the limit? It may have a controller without it. */
static bool has_limit(int dir, enum jail_control c, int version)
{
	return faccessat(dir, limit_file[c][version - 1], F_OK, 0) == 0;
}

static int limit_memory(int dir, int version, uint64_t value)
{
	const char *file = limit_file[JAIL_C_MEMORY][version - 1];
	static const char with_swap[] = "memory.memsw.limit_in_bytes";
	char text[48];
	int r;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	r = write_file(dir, file, text);
	/* Without swap, or without accounting for it, there is no such file. */
	if (version == 2) {
		(void)write_file(dir, "memory.swap.max", "0");
		return r;
	}
	/* In a group that was left, the limit of both together may be a lower one, and has to go up first. */
	if (write_file(dir, with_swap, text) == 0 && r == -EINVAL)
		r = write_file(dir, file, text);
	/* What is in sockets' buffers is counted by itself, on top. */
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value / 4);
	(void)write_file(dir, "memory.kmem.tcp.limit_in_bytes", text);
	return r;
}

static int set_limit(int dir, enum jail_control c, int version, uint64_t value)
{
	const unsigned long long us = value * CPU_PERIOD_US / 100;
	char text[48];
	int r;

	if (c == JAIL_C_COUNT)
		return 0;
	if (c == JAIL_C_MEMORY)
		return limit_memory(dir, version, value);
	if (c == JAIL_C_PIDS)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	else if (version == 2)
		snprintf(text, sizeof(text), "%llu %u", us, CPU_PERIOD_US);
	else
		snprintf(text, sizeof(text), "%llu", us);
	r = write_file(dir, limit_file[c][version - 1], text);
	/* Version 1 takes no more than a group above has; that one's limit is the lower one, and holds. */
	if (r == -EINVAL && c == JAIL_C_CPU && version == 1)
		r = write_file(dir, limit_file[c][0], "-1");
	return r;
}

/* ---- groups of daemons that were killed with everybody who would have cleared up ---- */

/* Removes the groups in a group once their processes are gone, for which it waits a little, @tries
 * times for each, and then itself. */
static void remove_group(int parent, const char *name, int dir, unsigned tries)
{
	const struct timespec pause = {0, SWEEP_PAUSE_NS};
	_cleanup_dir_ DIR *list = fileio_list(dir, ".");
	const struct dirent *e;

	while (list && (e = readdir(list))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		for (unsigned i = 0; unlinkat(dir, e->d_name, AT_REMOVEDIR) < 0; i++) {
			if (errno != EBUSY || i + 1 >= tries)
				break;
			nanosleep(&pause, NULL);
		}
	}
	if (list)
		(void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Of its processes the last may still be ending. */
static void sweep_one(int parent, const char *name)
{
	_cleanup_close_ int dir =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0)
		remove_group(parent, name, dir, SWEEP_TRIES);
}

/* Removes groups below @parent that dead spawners left behind, except @ours. */
static void sweep_dead(int parent, const char *ours)
{
	_cleanup_dir_ DIR *list = fileio_list(parent, ".");
	const struct dirent *e;

	while (list && (e = readdir(list))) {
		_cleanup_close_ int dir = -1;

		if (strncmp(e->d_name, JAIL_GROUP_PREFIX, strlen(JAIL_GROUP_PREFIX)) != 0 ||
		    strcmp(e->d_name, ours) == 0)
			continue;
		dir = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			remove_group(parent, e->d_name, dir, 1);
	}
}

/* Makes a group that is ours as long as we live. Return: its descriptor, or -errno. */
static int claim(int parent, const char *name)
{
	const struct timespec pause = {0, 1000000};

	for (int i = 0; i < CLAIM_TRIES; i++) {
		_cleanup_close_ int dir = -1;

		if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* Another may have come in between, found no lock, and removed it. */
		if (dir >= 0 && flock(dir, LOCK_SH | LOCK_NB) == 0 &&
		    fileio_is_at(dir, parent, name))
			return steal_fd(&dir);
		if (dir < 0 && errno != ENOENT)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}

/* ---- where the groups are ---- */

static void group_name(char out[32])
{
	snprintf(out, 32, JAIL_GROUP_PREFIX "%08x", jail_instance_id());
}

/* The group where we were before step_aside(). */
static void cut_aside(char *path)
{
	char name[32], aside[48];
	size_t len = strlen(path), n;

	group_name(name);
	n = (size_t)snprintf(aside, sizeof(aside), "/%s/self", name);
	if (len >= n && strcmp(path + len - n, aside) == 0)
		path[len - n] = '\0';
}

struct sought {
	int version, dir;
};

static int open_place(void *data, const char *point, const char *own)
{
	char full[2 * PATH_MAX];
	struct sought *s = data;

	snprintf(full, sizeof(full), "%s%s", point, own);
	if (s->version == 2)
		cut_aside(full);
	s->dir = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		s->dir = -errno;
	return 1;
}

/* Opens the directory of our own group, where it is seen first. Return: descriptor or -errno. */
static int open_own(const char *name, int version)
{
	struct sought s = {version, -ENOENT};

	(void)cgroups_find("", version == 2 ? "" : name, open_place, &s);
	return s.dir;
}

/* Is a controller listed in the own group of version 2? */
static bool listed(int parent, const char *name)
{
	_cleanup_close_ int fd = openat(parent, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	return cgroups_has_word(text, name, " \n");
}

static int make_group(int parent)
{
	char name[32];

	group_name(name);
	sweep_dead(parent, name);
	return claim(parent, name);
}

/* The daemon, the guard and this process step aside, if there is nobody else. */
static int step_aside(int dir)
{
	const pid_t all[] = {jail_instance_daemon(), getppid(), getpid()};
	char pid[16];
	int leaf, r = 0;

	if (mkdirat(dir, "self", 0755) < 0 && errno != EEXIST)
		return -errno;
	leaf = openat(dir, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++) {
		snprintf(pid, sizeof(pid), "%d", (int)all[i]);
		r = write_file(leaf, "cgroup.procs", pid);
	}
	close(leaf);
	return r;
}

static int enable(struct group *g, const char *name)
{
	char word[32];
	int r;

	snprintf(word, sizeof(word), "+%s", name);
	r = write_file(g->parent, "cgroup.subtree_control", word);
	if (r == -EBUSY && step_aside(g->dir) == 0)
		r = write_file(g->parent, "cgroup.subtree_control", word);
	return r < 0 ? r : write_file(g->dir, "cgroup.subtree_control", word);
}

static int look_for(struct group *g, enum jail_control c)
{
	const char *name = controller[c];
	int r;

	g->version = 1;
	g->parent = open_own(name, 1);
	if (g->parent < 0) {
		g->version = 2;
		g->parent = open_own(name, 2);
		if (g->parent >= 0 && !listed(g->parent, name))
			return -ENOENT;
	}
	if (g->parent < 0)
		return g->parent;
	g->dir = make_group(g->parent);
	if (g->dir < 0)
		return g->dir;
	r = g->version == 2 ? enable(g, name) : 0;
	/* A kernel may have the controller but not this limit. */
	if (r == 0 && !has_limit(g->dir, c, g->version))
		r = -ENOENT;
	return r;
}

/* Is somebody in the group who is not of the daemon? The top of all groups may hold processes. */
static bool others_inside(int parent)
{
	_cleanup_file_ FILE *f = NULL;
	char path[64], name[32];
	bool others = false;
	int fd, pid;

	if (faccessat(parent, "cgroup.type", F_OK, 0) < 0)
		return false;
	fd = openat(parent, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	f = fdopen(fd, "re");
	if (!f) {
		close(fd);
		return false;
	}
	while (!others && fscanf(f, "%d", &pid) == 1) {
		_cleanup_file_ FILE *comm = NULL;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		comm = fopen(path, "re");
		others = comm && fgets(name, sizeof(name), comm) && strncmp(name, "xsbxfs", 6) != 0;
	}
	return others;
}

int jail_cgroup_look(enum jail_control c, int *ret_version)
{
	_cleanup_close_ int one = open_own(controller[c], 1);
	_cleanup_close_ int two = one < 0 ? open_own(controller[c], 2) : -1;

	*ret_version = one < 0 ? 2 : 1;
	if (one >= 0)
		return faccessat(one, ".", W_OK, 0) < 0 ? -errno : 0;
	if (two < 0 || !listed(two, controller[c]))
		return -ENOENT;
	if (faccessat(two, "cgroup.subtree_control", W_OK, 0) < 0)
		return -errno;
	return others_inside(two) ? -EBUSY : 0;
}

const char *jail_control_str(enum jail_control c)
{
	return controller[c];
}

/* A group of version 2 without any controller, or one of version 1. */
static int look_for_count(struct group *g)
{
	g->version = 2;
	g->parent = open_own("", 2);
	g->dir = g->parent < 0 ? g->parent : make_group(g->parent);
	if (g->dir >= 0)
		return 0;
	if (g->parent >= 0)
		close(g->parent);
	g->version = 1;
	g->parent = open_own(controller[JAIL_C_COUNT], 1);
	g->dir = g->parent < 0 ? g->parent : make_group(g->parent);
	return MIN(g->dir, 0);
}

static void look(struct group *g, enum jail_control c)
{
	*g = (struct group){.looked = true, .parent = -1, .dir = -1};
	g->error = c == JAIL_C_COUNT ? look_for_count(g) : look_for(g, c);
}

static struct group *group_of(enum jail_control c)
{
	if (!groups[c].looked)
		look(&groups[c], c);
	return &groups[c];
}

/* Of a group that somebody has removed, which can only be while there is no cell in it. What could be had once
 * has to be had again. Return: 0 or -errno. */
static int make_again(enum jail_control c)
{
	struct group old = groups[c], anew;

	look(&anew, c);
	if (anew.error == 0)
		groups[c] = anew;
	else
		old = anew;
	if (old.parent >= 0)
		close(old.parent);
	if (old.dir >= 0)
		close(old.dir);
	return anew.error;
}

static int make_cell(const struct group *g, enum jail_control c, unsigned index, uint64_t value)
{
	char name[16];
	int dir, r;

	snprintf(name, sizeof(name), "%u", index);
	/* One is there if it could not be removed at once when its last process had ended. */
	if (mkdirat(g->dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir = openat(g->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = set_limit(dir, c, g->version, value);
	if (r == 0)
		return dir;
	close(dir);
	(void)unlinkat(g->dir, name, AT_REMOVEDIR);
	return r;
}

/* Keeps the directory of a group to be born in; there is one, whatever controllers it has. */
static void keep(struct jail_cell *cell, enum jail_control c, int dir)
{
	cell->groups |= 1u << c;
	if (groups[c].version == 2 && cell->into < 0) {
		cell->into = dir;
		cell->into_counts = c == JAIL_C_COUNT;
	} else {
		close(dir);
	}
}

/* Return: the directory of a cell where the controller works, or -errno. */
static int make_in_group(enum jail_control c, unsigned index, uint64_t value)
{
	int dir = make_cell(&groups[c], c, index, value);

	if (dir == -ENOENT || dir == -ENODEV) {
		dir = make_again(c);
		if (dir == 0)
			dir = make_cell(&groups[c], c, index, value);
	}
	return dir;
}

/* That nobody counts is no lack of a limit. */
static void make_count(struct jail_cell *cell)
{
	const struct group *g = group_of(JAIL_C_COUNT);
	const int dir = g->error < 0 ? g->error : make_in_group(JAIL_C_COUNT, cell->index, 0);

	if (dir >= 0)
		keep(cell, JAIL_C_COUNT, dir);
}

int jail_cgroup_make(const struct jail_spec *spec, struct jail_cell *cell, struct jail_fault *fault)
{
	const uint64_t value[] = {[JAIL_C_MEMORY] = spec->memory,
				  [JAIL_C_PIDS] = spec->pids,
				  [JAIL_C_CPU] = spec->cpu_percent};

	for (enum jail_control c = 0; c < JAIL_NLIMITS; c++) {
		struct jail_finding *f = &cell->report.layer[(unsigned)JAIL_L_MEMORY + c];
		const struct group *g;
		int dir;

		if (!value[c])
			continue;
		g = group_of(c);
		if (g->error < 0) {
			f->state = JAIL_ABSENT;
			f->error = (int16_t)-g->error;
			if (c == JAIL_C_MEMORY && (spec->flags & JAIL_DATA_LIMIT))
				f->value = value[c];
			continue;
		}
		dir = make_in_group(c, cell->index, value[c]);
		if (dir < 0) {
			jail_cgroup_remove(cell);
			return jail_fault_set(fault, JAIL_STEP_CGROUP, dir, controller[c]);
		}
		*f = (struct jail_finding){
			.state = JAIL_HOLDS, .version = (uint8_t)g->version, .value = value[c]};
		keep(cell, c, dir);
	}
	make_count(cell);
	return 0;
}

void jail_cgroup_watch(const struct jail_cell *cell, struct cgroup_stat *ret_stat)
{
	char path[64];

	*ret_stat = CGROUP_STAT_NONE;
	for (int i = 0; i < CGROUP_STAT_NFILES; i++) {
		const enum jail_control c = counted[i].control;
		const char *file = counted[i].file[groups[c].version == 2];

		if (!(cell->groups & 1u << c) || !file)
			continue;
		snprintf(path, sizeof(path), "%u/%s", cell->index, file);
		ret_stat->fd[i] = openat(groups[c].dir, path, O_RDONLY | O_CLOEXEC);
	}
}

/* A process with one thread that moves itself needs no lock that all of the host's forks and exits
 * take: moved by another one it would wait for the kernel's grace period, five milliseconds or more. */
int jail_cgroup_enter(const struct jail_cell *cell)
{
	char path[48];

	snprintf(path, sizeof(path), "%u/tasks", cell->index);
	for (enum jail_control c = 0; c < JAIL_NCONTROLS; c++) {
		int r;

		if (!(cell->groups & 1u << c) || groups[c].version == 2)
			continue;
		r = write_file(groups[c].dir, path, "0");
		if (r < 0)
			return r;
	}
	return 0;
}

void jail_cgroup_remove(struct jail_cell *cell)
{
	char name[16];

	if (cell->into >= 0)
		close(cell->into);
	cell->into = -1;
	snprintf(name, sizeof(name), "%u", cell->index);
	for (enum jail_control c = 0; c < JAIL_NCONTROLS; c++) {
		if (cell->groups & 1u << c)
			(void)unlinkat(groups[c].dir, name, AT_REMOVEDIR);
	}
	cell->groups = 0;
}

/* The leaf that step_aside() made stays, with us in it, and goes with the service's own group. */
void jail_cgroup_remove_all(void)
{
	char name[32];

	group_name(name);
	for (enum jail_control c = 0; c < JAIL_NCONTROLS; c++) {
		if (groups[c].looked && groups[c].dir >= 0)
			(void)unlinkat(groups[c].parent, name, AT_REMOVEDIR);
	}
}

void jail_cgroup_sweep(void)
{
	char name[32];

	group_name(name);
	for (enum jail_control c = 0; c < JAIL_NCONTROLS; c++) {
		for (int version = 1; version <= 2; version++) {
			_cleanup_close_ int parent = open_own(controller[c], version);

			if (parent >= 0)
				sweep_one(parent, name);
		}
	}
}
