/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of a job. */
#include "job.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/learn.h"
#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"
#include "agent/files/files.h"
#include "agent/interp/interp.h"
#include "holder.h"
#include "program.h"

/*
 * Theory of operation
 * -------------------
 *
 *	STARTING --started--> ACTIVE --ended--> DRAINING --> ENDED --forget--> CLEARING --> gone
 *	    |                   |                  ^           `--nothing is left--> gone
 *	    |                   `--deadline, KILL--> KILLING
 *	    `--failed--> ENDED
 *
 * A job's program is the child of a holder (holder.c), and so is, in the end, all that it leaves behind: that is how we
 * know what belongs to which job. The program has ended when its holder says so. Its output is then what is in its pipes,
 * as with a run. What it has started goes on until the job is forgotten.
 *
 * A holder shares the user's id in some jails, and can be killed there by user code. How its program ends is not known
 * then, and said to be so (PROTO_HOW_LOST); what is left of the job belongs to nobody, as what a run leaves behind.
 *
 * A job is gone when it has ended and its holder has, which ends by itself when nothing is left below it. What is
 * forgotten is killed, so that this comes soon.
 *
 * In a copy of the machine the host knows of no job. What those that have ended have left behind goes on there, as all user code
 * does: they are let go, and their holders are user code like the rest, until nothing is left below them.
 */

#define GONE_US \
	1000000u /* from its last child to its end a holder needs no time; stopped by somebody, it is killed */

#define LOOK_US	 5000000u /* what the kernel has killed twice as long ago says nothing of a job */

#define START_US 2000000u /* a holder that has not started its program by then is ended with it */

static const char *const state_names[] = {
	[JOB_STARTING] = "starting", [JOB_ACTIVE] = "active", [JOB_KILLING] = "being killed",
	[JOB_DRAINING] = "draining", [JOB_ENDED] = "ended",   [JOB_CLEARING] = "being cleared",
};
_Static_assert(ARRAY_SIZE(state_names) == JOB_NSTATES, "each state has a name");

static void job_set(struct job *j, enum job_state state)
{
	log_trace("job %x: %s", j->id & ~PROTO_JOB_ID, state_names[state]);
	j->state = state;
}

/* ---- its end ---- */

static void send_gone(struct job *j)
{
	struct frame *f = frame_new(PROTO_JOB_GONE, j->id, 0);

	if (f)
		conn_send(j->all->conn, f);
	else
		loop_stop(j->all->loop, -ENOMEM);
}

/* Its pipes and timers are no more; the holder may be. */
static void job_close(struct job *j)
{
	loop_disarm(j->all->loop, &j->deadline);
	if (j->open)
		output_leave(&j->output);
	j->open = false;
	tty_close(&j->tty);
	drain_listen(&j->all->drains);
	stdin_stop(&j->in);
	close_fd(&j->pidfd);
	j->pid = 0;
}

static void job_free(struct job *j)
{
	job_close(j);
	loop_disarm(j->all->loop, &j->killer.timer);
	loop_close(j->all->loop, &j->report);
	output_fini(&j->output);
	if (j->holder)
		proc_let_go(j->holder);
	origin_end(&j->all->files->origin, j->id,
		   j->holder || j->adrift ? ORIGIN_LEFT : ORIGIN_CLOSED);
	TAILQ_REMOVE(&j->all->list, j, link);
	j->all->n--;
	free(j);
}

static bool has_tty(const struct job *j)
{
	return j->tty.master.fd >= 0;
}

static void job_drain(struct job *j)
{
	if (!(has_tty(j) ? tty_drain(&j->tty) : output_drain(&j->output)))
		return;
	watch_drain(&j->all->files->watch);
	learn_tell(j->all->conn);
	output_send_exit(&j->output, files_full(j->all->files), &j->result);
	job_close(j);
	job_set(j, JOB_ENDED);
}

static void job_settle(struct job *j, enum proto_how how, uint32_t status)
{
	loop_disarm(j->all->loop, &j->deadline);
	j->result.how = how;
	j->result.status = status;
	if (!j->result.wall_us)
		j->result.wall_us = now_us() - j->began;
	if (has_tty(j))
		tty_settle(&j->tty);
	else
		output_settle(&j->output);
	job_set(j, JOB_DRAINING);
	job_drain(j);
}

static void on_killed(struct killer *k);

static void job_end(struct job *j, uint64_t grace_us)
{
	assert(j->holder);
	if (!j->ending)
		j->ending = now_us();
	j->killer.done = on_killed;
	killer_start(&j->killer, &(struct proc_scope){.holder = j->holder}, grace_us);
}

/* Nothing is below the holder any more. */
static void on_killed(struct killer *k)
{
	struct job *j = container_of(k, struct job, killer);

	if (!j->heard && j->holder && j->report.fd >= 0) {
		/* Nothing yet: it has still to start the program. One that says nothing was stopped, and goes as well. */
		if (now_us() - j->ending > j->grace_ms * 1000ull + START_US)
			kill(j->holder, SIGKILL);
		job_end(j, 0);
	} else if (j->state == JOB_KILLING)
		job_settle(j, (enum proto_how)j->result.how, j->result.status);
	else if (j->holder)
		loop_arm(j->all->loop, &j->deadline, GONE_US); /* jobs_advance() goes on */
}

static void job_kill(struct job *j, enum proto_how how, uint32_t status, uint64_t grace_us)
{
	j->result.how = how;
	j->result.status = status;
	j->result.wall_us = now_us() - j->began;
	job_set(j, JOB_KILLING);
	loop_disarm(j->all->loop, &j->deadline);
	job_end(j, grace_us);
}

static void on_deadline(struct loop_timer *t)
{
	struct job *j = container_of(t, struct job, deadline);

	if (j->state == JOB_STARTING || j->state == JOB_ACTIVE)
		job_kill(j, PROTO_HOW_TIMEOUT, PROTO_STATUS_TIMEOUT, j->grace_ms * 1000ull);
	else if (j->state == JOB_CLEARING && j->holder)
		kill(j->holder, SIGKILL);
}

/* ---- what its holder says ---- */

/* Its descriptor shows that it is there yet: an id may have been given to another. One that has started may have written
 * something before its holder can say so: the signal is for it, too. */
static void send_signal(struct job *j, int sig, bool group)
{
	j->shot = j->shot || sig == SIGKILL;
	if (j->state == JOB_STARTING)
		j->early[group] |= 1ull << (sig - 1);
	if (j->pidfd < 0 || syscall(SYS_pidfd_send_signal, j->pidfd, group ? 0 : sig, NULL, 0) < 0)
		return;
	if (group)
		(void)kill(-j->pid, sig);
}

static void send_early(struct job *j)
{
	for (int sig = 1; sig < NSIG; sig++)
		for (int group = 0; group < 2; group++)
			if (j->early[group] & 1ull << (sig - 1))
				send_signal(j, sig, group);
}

/* Answers FAILED; of a job that never was, nothing is left when its holder is reaped. */
static void job_fail(struct job *j, int error, const char *what)
{
	conn_send_failed(j->all->conn, j->id, error, what);
	j->result.how = PROTO_HOW_REFUSED;
	job_close(j);
	job_set(j, JOB_ENDED);
}

/* It runs from now on. */
static void note_oom(struct job *j)
{
	struct jobs *all = j->all;

	oom_renew(&all->oom);
	j->oom_kills = all->oom.kills;
	if (!all->env->guest || all->look.armed)
		return;
	all->looked = all->oom.kills;
	loop_arm(all->loop, &all->look, LOOK_US);
}

/* A job may go on for days, in which the kernel has killed others. */
static void on_look(struct loop_timer *t)
{
	struct jobs *all = container_of(t, struct jobs, look);
	bool any = false;
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		j->oom_kills = MAX(j->oom_kills, all->looked);
		any = any || j->state == JOB_ACTIVE;
	}
	oom_note(&all->oom);
	all->looked = all->oom.kills;
	if (any)
		loop_arm(all->loop, t, LOOK_US);
}

static void on_started(struct job *j, const struct holder_report *r)
{
	j->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	j->pid = r->pid;
	/* It may have ended meanwhile, and its number be another's. */
	if (j->pidfd >= 0 && proc_parent(r->pid) != j->holder)
		close_fd(&j->pidfd);
	if (j->state != JOB_STARTING)
		return; /* it is being killed already */
	job_set(j, JOB_ACTIVE);
	note_oom(j);
	send_early(j);
	if (j->timeout_ms)
		loop_arm(j->all->loop, &j->deadline, j->timeout_ms * 1000ull);
}

static void on_ended(struct job *j, const struct holder_report *r)
{
	const uint32_t status = proc_exit_status(r->status);

	close_fd(&j->pidfd);
	j->pid = 0;
	j->result.user_us = r->user_us;
	j->result.system_us = r->system_us;
	j->result.maxrss_kib = r->maxrss_kib;
	j->result.read_bytes = r->read_bytes;
	j->result.written_bytes = r->written_bytes;
	if (j->state == JOB_ACTIVE)
		job_settle(j,
			   j->shot ? PROTO_HOW_DONE : oom_how(&j->all->oom, j->oom_kills, status),
			   status);
}

/* The holder says no more. It is ending, for nothing is left; or was killed. */
static void on_silent(struct job *j)
{
	loop_close(j->all->loop, &j->report);
	if (j->state == JOB_STARTING || j->state == JOB_ACTIVE)
		job_settle(j, PROTO_HOW_LOST, 0);
}

static void take_report(struct job *j, const struct holder_report *r)
{
	j->heard = true;
	switch (r->news) {
	case HOLDER_FAILED:
		if (j->state == JOB_STARTING)
			job_fail(j, r->status, r->step);
		break;
	case HOLDER_STARTED: on_started(j, r); break;
	case HOLDER_ENDED: on_ended(j, r); break;
	default: assert(!"a report of another kind");
	}
}

static void on_report(struct loop_source *src, uint32_t events)
{
	struct job *j = container_of(src, struct job, report);
	struct holder_report r;
	ssize_t n;

	(void)events;
	while ((n = read(src->fd, &r, sizeof(r))) == sizeof(r))
		take_report(j, &r);
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		on_silent(j);
}

/* ---- its beginning ---- */

static struct job *job_new(struct jobs *all, uint32_t id, const struct proto_job *req)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->all = all;
	j->id = id;
	j->timeout_ms = req->timeout_ms;
	j->grace_ms = req->grace_ms;
	j->pidfd = -1;
	j->report = (struct loop_source){.fd = -1, .ready = on_report};
	j->in = (struct stdin_pipe){.loop = all->loop, .conn = all->conn, .src.fd = -1};
	j->killer.loop = all->loop;
	j->deadline.fire = on_deadline;
	j->began = now_us();
	j->nice = req->nice;
	j->root = req->flags & PROTO_JOB_ROOT;
	j->result.read_bytes = j->result.written_bytes = PROTO_UNKNOWN;
	j->output.loop = all->loop;
	j->output.conn = all->conn;
	j->output.env = all->env;
	j->output.signals = all->signals;
	j->output.drains = &all->drains;
	output_init(&j->output);
	j->tty = (struct tty){.master.fd = -1, .output = &j->output};
	TAILQ_INSERT_TAIL(&all->list, j, link);
	all->n++;
	return j;
}

static int start_holder(struct job *j, const struct program *p, const int fds[3])
{
	const struct spawn s = {.env = j->all->env,
				.stands = true,
				.nice = j->nice,
				.root = j->root,
				.tty = has_tty(j),
				.argv = p->argv,
				.envp = p->envp,
				.cwd = p->cwd,
				.in_fd = fds[0],
				.out_fd = fds[1],
				.err_fd = fds[2],
				.ctl_fd = p->code,
				.bell_fd = -1,
				.nproc = j->all->config->nproc,
				.nofile = j->all->config->nofile,
				.fsize = j->all->config->fsize,
				.chance = j->all->config->chance,
				.job = j->id};
	_cleanup_close_ int its = -1;
	int r = holder_pipe(&j->report.fd, &its);

	/* Last comes what can't be undone. */
	if (r == 0)
		r = loop_watch(j->all->loop, &j->report, EPOLLIN);
	if (r == 0)
		r = holder_start(&s, its, &j->holder);
	if (r < 0)
		loop_close(j->all->loop, &j->report);
	else
		proc_hold(j->holder);
	return r;
}

/* @ret_fds: what become 0, 1 and 2 of the program; those that were made also on failure */
static int open_pipes(struct job *j, const struct proto_job *req, int ret_fds[3])
{
	int r = output_open(&j->output, j->id, req->limit, req->credit, &ret_fds[1]);

	j->open = r == 0;
	if (r < 0)
		output_close(&j->output);
	if (r == 0 && (req->flags & PROTO_RUN_STDIN))
		r = stdin_start(&j->in, j->id, j->all->env, &ret_fds[0]);
	return r < 0 ? r : output_watch(&j->output);
}

static int open_tty(struct job *j, const struct proto_job *req, int ret_fds[3])
{
	int r;

	output_begin(&j->output, j->id, req->limit, req->credit);
	r = tty_open(&j->tty, j->all->env, req->window, &ret_fds[0]);
	for (int i = 1; i < 3 && r == 0; i++) {
		ret_fds[i] = fcntl(ret_fds[0], F_DUPFD_CLOEXEC, 3);
		r = ret_fds[i] < 0 ? -errno : 0;
	}
	if (r == 0 && (req->flags & PROTO_RUN_STDIN)) {
		r = tty_typist(&j->tty);
		r = r < 0 ? r : stdin_type(&j->in, j->id, r);
	}
	return r;
}

static int job_start(struct job *j, const struct proto_job *req, const char **ret_step)
{
	const bool tty = req->flags & PROTO_JOB_TTY;
	int fds[3] = {-1, -1, -1};
	struct program p;
	int r;

	*ret_step = "root";
	if (j->root && !j->all->env->root)
		return -EPERM;
	*ret_step = "what is to be executed";
	r = program_make(j->all->env, j->all->config, req, &p);
	if (r == 0) {
		*ret_step = tty ? "a terminal" : "pipes";
		r = tty ? open_tty(j, req, fds) : open_pipes(j, req, fds);
	}
	if (r == 0) {
		*ret_step = "starting a process";
		r = start_holder(j, &p, fds);
	}
	for (int i = 0; i < 3; i++)
		close_fd(&fds[i]);
	program_fini(&p);
	return r;
}

int jobs_start(struct jobs *all, uint32_t id, const struct proto_job *req)
{
	const char *step;
	struct job *j;
	int r;

	if (!proto_is_job(id) || jobs_find(all, id) || all->n >= PROTO_JOBS_MAX)
		return -EPROTO;
	j = job_new(all, id, req);
	if (!j)
		return -ENOMEM;
	log_trace("job %x has arrived", id & ~PROTO_JOB_ID);
	origin_begin(&all->files->origin, id);
	r = job_start(j, req, &step);
	if (r < 0)
		job_fail(j, -r, step);
	else if (j->timeout_ms) /* user code may stop it before it is executed */
		loop_arm(all->loop, &j->deadline, j->timeout_ms * 1000ull);
	return 0;
}

/* ---- what the host wants ---- */

struct job *jobs_find(struct jobs *all, uint32_t id)
{
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		if (j->id == id)
			return j;
	}
	return NULL;
}

int job_signal(struct job *j, uint32_t sig)
{
	if (sig > PROTO_SIGNAL_NUMBER && sig < PROTO_SIGNAL_NUMBER + (uint32_t)NSIG)
		send_signal(j, (int)(sig - PROTO_SIGNAL_NUMBER), false);
	else if (sig == PROTO_INTERRUPT && !(has_tty(j) && tty_signal(&j->tty, SIGINT) == 0))
		send_signal(j, SIGINT, true);
	else if (sig == PROTO_INTERRUPT)
		return 0;
	else if (sig != PROTO_KILL)
		return -EPROTO;
	else if (j->state == JOB_KILLING)
		killer_hurry(&j->killer);
	else if (j->state == JOB_STARTING || j->state == JOB_ACTIVE)
		job_kill(j, PROTO_HOW_KILLED, PROTO_STATUS_SIGNAL + SIGKILL, 0);
	return 0;
}

void job_resize(struct job *j, uint32_t window)
{
	tty_resize(&j->tty, window);
}

static void job_resume(struct job *j)
{
	if (j->state == JOB_DRAINING)
		job_drain(j);
	else if (has_tty(j))
		tty_resume(&j->tty);
	else if (j->state < JOB_DRAINING)
		output_resume(&j->output);
}

void job_credit(struct job *j, uint32_t bytes)
{
	j->output.credit += bytes;
	job_resume(j);
}

void job_forget(struct job *j)
{
	if (j->state == JOB_CLEARING)
		return;
	if (j->state < JOB_DRAINING && !has_tty(j))
		output_settle(&j->output);
	job_close(j);
	job_set(j, JOB_CLEARING);
	if (j->holder)
		job_end(j, 0);
}

/* ---- all of them ---- */

void jobs_init(struct jobs *all)
{
	TAILQ_INIT(&all->list);
	drain_init(&all->drains, all->loop);
	all->oom.env = all->env;
	all->look.fire = on_look;
}

bool jobs_active(const struct jobs *all)
{
	const struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		if (j->state < JOB_ENDED || j->state == JOB_CLEARING)
			return true;
	}
	return false;
}

bool jobs_reaped(struct jobs *all, pid_t pid, int wait_status)
{
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		if (j->holder == pid)
			break;
	}
	if (!j)
		return false;
	/* It may have said something before; and nothing comes any more, whoever else may have its end of the pipe. */
	if (j->report.fd >= 0)
		on_report(&j->report, 0);
	if (j->report.fd >= 0)
		on_silent(j);
	proc_let_go(pid);
	j->holder = 0;
	j->adrift = WIFSIGNALED(wait_status);
	return true;
}

void jobs_advance(struct jobs *all)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&all->list); j; j = next) {
		next = TAILQ_NEXT(j, link);
		if (j->holder || (j->state != JOB_ENDED && j->state != JOB_CLEARING))
			continue;
		if (!j->mute)
			send_gone(j);
		job_free(j);
	}
}

void jobs_resume(struct jobs *all)
{
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link)
		job_resume(j);
}

void jobs_ending(struct jobs *all, enum proto_how how)
{
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		if (j->state == JOB_STARTING || j->state == JOB_ACTIVE)
			job_kill(j, how, PROTO_STATUS_SIGNAL + SIGKILL, 0);
	}
}

void jobs_let_go(struct jobs *all)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&all->list); j; j = next) {
		next = TAILQ_NEXT(j, link);
		if (j->state == JOB_ENDED)
			job_free(j);
	}
}

void jobs_abandon(struct jobs *all)
{
	struct job *j;

	TAILQ_FOREACH(j, &all->list, link) {
		j->mute = true;
		job_forget(j);
	}
}

void jobs_fini(struct jobs *all)
{
	while (!TAILQ_EMPTY(&all->list))
		job_free(TAILQ_FIRST(&all->list));
	loop_disarm(all->loop, &all->look);
	drain_clear(&all->drains);
}
