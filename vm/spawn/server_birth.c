/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's children, from the request for one to its program. See server.c, and birth.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "server_internal.h"
#include "vm/base/log.h"
#include "vm/jail/cgroup.h"
#include "vm/jail/cgroup_stat.h"

static void spawn_failed(struct server *s, uint32_t id, const struct spawn_error *e)
{
	struct spawn_note note = {.op = SPAWN_NOTE_FAILED,
				  .id = id,
				  .step = e->step,
				  .error = e->error,
				  .jail_step = e->fault.step};

	memcpy(note.what, e->fault.what, sizeof(note.what));
	log_debug("not started, step %u: %s", e->step, strerror(-e->error));
	server_last_note(s, &note);
}

/* It runs; the daemon gets a hold on it, and on what counts what it uses. Return: 0 or -errno. */
static int spawn_started(struct server *s, uint32_t id, pid_t pid, int pidfd,
			 const struct jail_cell *cell, int kept)
{
	struct spawn_note note = {
		.op = SPAWN_NOTE_STARTED, .id = id, .pid = pid, .report = cell->report};
	int fds[SPAWN_NOTE_FDS] = {pidfd}, r;
	struct cgroup_stat g = CGROUP_STAT_NONE;
	size_t n = 1;

	if (cell->taken)
		jail_cgroup_watch(cell, &g);
	for (int i = 0; i < CGROUP_STAT_NFILES; i++) {
		if (g.fd[i] < 0)
			continue;
		note.stats |= 1u << i;
		fds[n++] = g.fd[i];
	}
	note.kept = kept >= 0;
	if (kept >= 0)
		fds[n++] = kept;
	r = server_note(s, &note, fds, n);
	cgroup_stat_close(&g);
	return r;
}

/* Return: the process id, or 0 with @e filled in. Does not return in the child. */
static pid_t give_birth(const struct server *s, const struct spawn_job *job, struct birth *b,
			int status, struct jail_cell *cell, struct spawn_error *e)
{
	int go = -1;
	pid_t pid;

	e->step = SPAWN_STEP_FORK;
	if (job->jail) {
		e->step = SPAWN_STEP_JAIL;
		e->error = jail_place(job->jail, cell, &e->fault);
		if (e->error < 0)
			return 0;
		pid = jail_clone(job->jail, cell, &b->pidfd, &go, &e->fault);
	} else {
		/* Without what libraries want done at a fork: they had their descriptors closed. */
		pid = _Fork();
		if (pid < 0)
			pid = -errno;
	}
	if (pid == 0) {
		server_leave(s);
		close(b->status);
		spawner_exec(job, status, cell, go);
	}
	if (pid > 0 && b->pidfd < 0)
		b->pidfd = pidfd_open(pid, 0);
	if (pid > 0)
		return pid;
	e->error = pid;
	return 0;
}

/* To the end of what has to succeed of a child that was born. Return: false with @e filled in. */
static bool raise_kid(struct server *s, struct kid *k, int given_up, struct spawn_error *e)
{
	const struct birth *b = k->birth;
	_cleanup_close_ int kept = -1;

	if (!birth_end(b, given_up, k->pid, &k->cell, &kept, e))
		return false;
	*e = (struct spawn_error){.step = SPAWN_STEP_FORK, .error = -EMFILE};
	if (b->pidfd < 0)
		return false;
	/* What the daemon has not got a hold on nobody could end. */
	e->step = SPAWN_STEP_DESCRIPTORS;
	log_debug("%s runs in process %d", b->program, (int)k->pid);
	e->error = spawn_started(s, k->id, k->pid, b->pidfd, &k->cell, kept);
	return e->error == 0;
}

void server_settle(struct server *s, struct kid *k, int given_up)
{
	struct spawn_error e = {0};

	s->about = k->id;
	if (!raise_kid(s, k, given_up, &e)) {
		/* When it is gone, it is reaped as any other. */
		kill(k->pid, SIGKILL);
		hung_note(&s->hung, k->birth->what, server_now() + s->patience_ms, &e);
		spawn_failed(s, k->id, &e);
	}
	s->about = 0;
	kids_born(&s->kids, k);
}

void server_settle_all(struct server *s, int given_up)
{
	for (size_t i = 0; s->kids.nbirths && i < s->kids.n; i++) {
		struct kid *k = &s->kids.item[i];
		struct pollfd p = {.events = POLLIN};

		if (!k->birth)
			continue;
		p.fd = k->birth->status;
		if (poll(&p, 1, 0) > 0)
			server_settle(s, k, 0);
		else if (given_up < 0)
			server_settle(s, k, given_up);
		else if (server_now() >= k->birth->until)
			server_settle(s, k, -ETIMEDOUT);
	}
}

/* Forks; what becomes of that is heard later. */
static void spawn(struct server *s, uint32_t id, const struct spawn_job *job)
{
	struct spawn_error e = {.step = SPAWN_STEP_FORK, .error = kids_reserve(&s->kids)};
	struct jail_cell cell = {.into = -1};
	struct birth *b = NULL;
	int status = -1;
	pid_t pid;

	if (e.error == 0)
		e.error = birth_new(job, &status, &b);
	if (e.error != 0) {
		spawn_failed(s, id, &e);
		return;
	}
	pid = give_birth(s, job, b, status, &cell, &e);
	close(status);
	if (!pid) {
		jail_release(&cell);
		hung_note(&s->hung, b->what, server_now() + s->patience_ms, &e);
		spawn_failed(s, id, &e);
		birth_free(b);
		return;
	}
	log_debug("%s forked, process %d: %s", job->jail ? "jail" : "child", (int)pid, b->program);
	b->until = server_now() + s->patience_ms;
	kids_add(&s->kids,
		 &(struct kid){id, pid, cell, b, job->jail && job->jail->use == JAIL_QEMU});
}

static enum spawn_step step_of(int error)
{
	switch (-error) {
	case EPERM:
	case EBADMSG:
	case EINVAL: return SPAWN_STEP_REFUSED;
	case EMFILE: return SPAWN_STEP_DESCRIPTORS;
	default: return SPAWN_STEP_PROGRAM;
	}
}

/* The memory of a machine is copied by its number, which stays its own as long as it was not reaped
 * here. The copier gets a pidfd, to know for how long that is. Return: 0 or -errno. */
static int find_machine(const struct server *s, struct spawn_job *job)
{
	for (size_t i = 0; i < s->kids.n; i++) {
		const struct kid *k = &s->kids.item[i];
		int fd;

		if (k->id != job->ram.machine || !k->machine || k->birth)
			continue;
		if (job->nfds >= SPAWN_FDS_MAX || job->ntargets >= SPAWN_FDS_MAX)
			return -EMFILE;
		fd = pidfd_open(k->pid, 0);
		if (fd < 0)
			return -errno;
		job->ram.pid = k->pid;
		job->target[job->ntargets++] =
			(struct spawn_target){(uint32_t)job->nfds, RAM_COPY_PIDFD};
		job->fds[job->nfds++] = fd; /* closed with the others */
		return 0;
	}
	return -ESRCH;
}

void server_judge(struct server *s, uint32_t id, const char *request, size_t len,
		  struct spawn_job *job)
{
	struct spawn_error e = {0};

	e.error = s->rules->job(s->rules->data, request, len, job->nfds, job);
	if (e.error == 0 && (job->flags & SPAWN_RAM))
		e.error = find_machine(s, job);
	if (e.error == 0)
		e.error = spawner_check(job);
	e.step = step_of(e.error);
	if (e.error == 0 && !hung_lately(&s->hung, hung_paths(job), server_now(), &e))
		spawn(s, id, job);
	else
		spawn_failed(s, id, &e);
	if (job->secret.value)
		explicit_bzero(job->secret.value, strlen(job->secret.value));
}
