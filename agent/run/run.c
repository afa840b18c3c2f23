/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of a run. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/code.h"
#include "agent/core/conn.h"
#include "agent/files/files.h"
#include "agent/interp/interp.h"
#include "agent/core/learn.h"
#include "agent/core/log.h"
#include "agent/interp/loss.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 *
 *	NONE --submit--> WAITING --begin--> ACTIVE --done, death--> DRAINING --> NONE
 *	                    |                  |                       ^
 *	                    |                  `--deadline, KILL--> KILLING
 *	                    `--KILL, refuse--> NONE
 *
 * Completion. When the driver's answer arrives, or the interpreter has exited, all output of the
 * turn is already in the two pipes. Its size is queried once (FIONREAD) and exactly that much is
 * sent before EXIT: no waiting for end of file, which a background process can delay, and no
 * waiting for silence. Later output belongs to no run: the pipe is passed to the drains.
 *
 * Killing. All processes started by the run are killed, including those that called setsid() or
 * were daemonized; background processes of earlier runs and their children are not. So the set of
 * processes before the run is needed. Determining it takes milliseconds on an emulated processor;
 * therefore it is done after a run has ended, when nobody waits, and repeated before the next
 * only if a process was created in between, as shown by the newest process number.
 *
 * At its deadline a run is first asked to end, by SIGTERM to all of these, and has a grace period.
 * Whether its interpreter then answers or ends, its state counts as lost.
 *
 * Cost. The usage of the interpreter and the children it has waited for can be queried; that of
 * others is known when they end, because they are reparented to us. So a run that is killed is charged
 * for all its processes, and one that ends by itself for all except those that continue.
 *
 * Order of stdout and stderr. In a guest with one processor the agent runs with real-time
 * priority, so a write to a watched pipe switches to the agent before the writer continues; the
 * order of OUTPUT frames is then that of the writes (see stream.c). Elsewhere the kernel tells of it (see journal.c).
 */

#define SETTLE_US	  80u /* in a jail whom EXIT has woken may be on our processor, and comes first */
#define LISTEN_US	  20000u /* after this, a run is not a short one */
#define INTERRUPT_US	  60000u /* how old a turn is before it is interrupted */
#define INTERRUPT_STEP_US 5000u
#define DEAF_US		  2000000u /* who ignores an interrupt for longer is not about to stop doing so */

static void run_close_child_fds(struct run *r)
{
	for (int i = 0; i < DRIVER_NFDS; i++)
		close_fd(&r->child_fds[i]);
}

/* Puts what the run has of its own before its code, see driver.h. Return: 0 or -errno. */
static int put_place(const struct run *r, int fd, const struct proto_run *req)
{
	const bool below = req->cwd.len && req->cwd.data[0] != '/';
	_cleanup_free_ char *words = NULL;
	struct proto_out o;

	o = (struct proto_out){.cap = strlen(r->env->work) + req->cwd.len + req->env.len + 3};
	words = malloc(o.cap);
	if (!words)
		return -ENOMEM;
	o.data = (uint8_t *)words;
	if (below) {
		put_bytes(&o, r->env->work, strlen(r->env->work));
		put_bytes(&o, "/", 1);
	}
	put_bytes(&o, req->cwd.data, req->cwd.len);
	put_bytes(&o, "", 1);
	put_bytes(&o, req->env.data, req->env.len);
	put_bytes(&o, "", 1);
	return code_put(fd, (struct proto_str){words, (uint32_t)o.len});
}

/* Puts the code where the driver can read it and nobody can change it. Return: descriptor. */
static int code_fd(struct run *r, const struct proto_run *req)
{
	int fd = r->code_fd >= 0 ? r->code_fd : code_new();
	int e;

	r->code_fd = -1;
	if (fd < 0)
		return -errno;
	r->place = req->cwd.len || req->env.len;
	e = r->place ? put_place(r, fd, req) : 0;
	if (e == 0)
		e = code_seal(fd, req->code);
	if (e == 0)
		return fd;
	close(fd);
	return e;
}

static int run_open(struct run *r, uint32_t id, const struct proto_run *req)
{
	int e;

	e = code_fd(r, req);
	if (e < 0)
		return e;
	r->child_fds[DRIVER_FD_CODE] = e;
	e = output_open(&r->output, id, req->limit, req->credit, &r->child_fds[1]);
	if (e < 0)
		return e;
	if (req->flags & PROTO_RUN_STDIN)
		return stdin_start(&r->in, id, r->env, &r->child_fds[0]);
	if (r->null_fd < 0)
		r->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	r->child_fds[0] = fcntl(r->null_fd, F_DUPFD_CLOEXEC, 0);
	return r->child_fds[0] < 0 ? -errno : 0;
}

int run_submit(struct run *r, uint32_t id, const struct proto_run *req)
{
	int e;

	if (r->state != RUN_NONE)
		return -EBUSY;
	e = run_open(r, id, req);
	if (e < 0) {
		run_close_child_fds(r);
		output_close(&r->output);
		return e;
	}
	r->id = id;
	r->timeout_ms = req->timeout_ms;
	r->grace_ms = req->grace_ms;
	r->trial = req->flags & PROTO_RUN_TRIAL;
	r->import = req->flags & PROTO_RUN_IMPORT;
	r->code_len = req->code.len;
	r->orphans_user_us = r->orphans_system_us = 0;
	r->abandoned = false;
	memset(&r->result, 0, sizeof(r->result));
	r->state = RUN_WAITING;
	return 0;
}

/* Is there user code in the background that was not @before? NULL: any at all. What belongs to jobs is not of runs. */
static bool is_left(const struct run *r, const struct proc_set *before)
{
	for (size_t i = 0; i < r->background.n; i++) {
		const struct proc *p = &r->background.v[i];

		if (p->live && !p->holder && p->pid != r->interp->pid &&
		    !(before && proc_set_has_pid(before, p->pid)))
			return true;
	}
	return false;
}

/* Looks up what was there before the run, unless that is known; and what the one before has left. @idle: nobody waits, and there
 * is time to look into the interpreter for that; until then it may be anything. */
static void run_look_around(struct run *r, bool idle)
{
	struct origin *o = &r->files->origin;
	struct proc_set before = r->background;
	const bool asked = origin_ended(o) || o->nleft;
	bool left = idle && asked && proc_maps_shared(r->interp->pid, files_mapped_dev(r->files));
	pid_t last = proc_last_pid();

	if (last && last == r->background_at && !o->nleft) {
		if (idle && asked)
			origin_look(o, left, true);
		return;
	}
	r->background = (struct proc_set){0};
	if (proc_children(&r->background) < 0) {
		log_line("cannot list the background processes");
		left = true;
	}
	left = left || is_left(r, &before);
	if (asked && (idle || left))
		origin_look(o, left, left || is_left(r, NULL));
	proc_set_clear(&before);
	r->background_at = last;
}

/* After a run, when nobody waits: get ready for the next. In a run that takes its time: look after
 * the pipes of earlier ones. */
static void on_settle(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, settle);

	drain_listen(&r->drains);
	if (r->state != RUN_NONE)
		return;
	interp_tidy(r->interp);
	run_look_around(r, true);
	/* What the kernel has killed so far says nothing about the run to come. */
	oom_note(&r->oom);
	output_prepare(&r->output, r->interp->can_order);
	if (r->code_fd < 0)
		r->code_fd = code_new();
	if (r->interp->pid > 0)
		acct_prepare(&r->acct, r->interp->pid);
}

/* Queues EXIT and closes the books. */
static void run_end(struct run *r)
{
	output_leave(&r->output);
	stdin_stop(&r->in);
	run_close_child_fds(r);
	loop_disarm(r->loop, &r->deadline);
	loop_disarm(r->loop, &r->interrupt);
	r->state = RUN_NONE;
	origin_end(&r->files->origin, r->id, ORIGIN_ENDED);
	loop_arm(r->loop, &r->settle, r->env->guest ? 0 : SETTLE_US);
	if (r->abandoned)
		return;
	watch_drain(&r->files->watch);
	learn_tell(r->conn);
	output_send_exit(&r->output, files_full(r->files), &r->result);
}

/* The same for one that was never handed over. */
static void run_end_unbegun(struct run *r, enum proto_how how, uint32_t status, bool fresh)
{
	r->result.how = how;
	r->result.status = status;
	r->result.fresh = fresh;
	run_end(r);
}

static void run_drain(struct run *r)
{
	if (output_drain(&r->output) || r->abandoned)
		run_end(r);
}

/* The code has ended, in whatever way: settle the streams and begin to drain. */
static void run_settle(struct run *r, enum proto_how how, uint32_t status, bool fresh)
{
	r->result.how = how;
	r->result.status = status;
	r->result.fresh = fresh;
	/* What it held is told to be gone, also if its end is heard of later. */
	r->interp->holds = r->interp->holds && !fresh;
	r->result.user_us += r->orphans_user_us;
	r->result.system_us += r->orphans_system_us;
	loop_disarm(r->loop, &r->deadline);
	output_settle(&r->output);
	r->state = RUN_DRAINING;
	run_drain(r);
}

/* Notes time and cost of the run as it ends; @ru is there if the interpreter was reaped. */
static void run_set_cost(struct run *r, const struct rusage *ru)
{
	struct acct_cost c;

	r->result.wall_us = now_us() - r->began;
	if (ru)
		acct_end_dead(&r->acct, ru, &c);
	else
		acct_end(&r->acct, &c);
	r->result.user_us = c.user_us;
	r->result.system_us = c.system_us;
	r->result.maxrss_kib = c.maxrss_kib;
}

void run_on_orphan(struct run *r, pid_t pid, const struct rusage *ru)
{
	/* It may have been the last of what a run has left. */
	if (r->state == RUN_NONE && r->files->origin.nleft)
		loop_arm(r->loop, &r->settle, SETTLE_US);
	if ((r->state != RUN_ACTIVE && r->state != RUN_KILLING) ||
	    proc_set_has_pid(&r->background, pid))
		return;
	r->orphans_user_us += timeval_us(&ru->ru_utime);
	r->orphans_system_us += timeval_us(&ru->ru_stime);
}

bool run_saw_oom(struct run *r)
{
	return oom_rose(&r->oom, r->oom.kills);
}

static enum proto_how how_ended(struct run *r, uint32_t status)
{
	return oom_how(&r->oom, r->oom.kills, status);
}

void run_on_done(struct run *r, int status)
{
	if (r->state == RUN_KILLING)
		killer_ignore(&r->killer, r->interp->pid);
	if (r->state != RUN_ACTIVE)
		return; /* it is being killed */
	log_trace("the interpreter has answered, status %d", status);
	run_set_cost(r, NULL);
	if (status < 0) {
		run_settle(r, PROTO_HOW_NOT_TAKEN, (uint32_t)-status, r->interp->pid == 0);
		return;
	}
	/* It may have answered and ended right after. */
	run_settle(r, how_ended(r, (uint32_t)status), (uint32_t)status, r->interp->pid == 0);
}

void run_on_death(struct run *r, int wait_status, const struct rusage *ru)
{
	uint32_t status;

	if (r->state == RUN_ACTIVE || r->state == RUN_KILLING)
		run_set_cost(r, ru);
	acct_fini(&r->acct);
	/* The turn has been answered already; only its state is lost. */
	if (r->state == RUN_DRAINING)
		r->result.fresh = 1;
	if (r->state != RUN_ACTIVE)
		return; /* on_killed() goes on if it is being killed */
	log_trace("the interpreter has ended in the run");
	status = proc_exit_status(wait_status);
	run_settle(r, how_ended(r, status), status, true);
}

static void on_killed(struct killer *k)
{
	struct run *r = container_of(k, struct run, killer);

	run_settle(r, (enum proto_how)r->result.how, r->result.status, true);
}

static void run_kill(struct run *r, enum proto_how how, uint32_t status, uint64_t grace_us)
{
	log_trace("what it runs is being ended, process %d first", (int)r->interp->pid);
	/* If the interpreter is not reaped before its processes are gone, this is the cost. */
	run_set_cost(r, NULL);
	r->result.how = how;
	r->result.status = status;
	r->interp->holds = false; /* which the result says, whenever its death is seen */
	r->state = RUN_KILLING;
	loop_disarm(r->loop, &r->deadline);
	killer_start(&r->killer,
		     &(struct proc_scope){.keep = &r->background, .not_kept = r->interp->pid},
		     grace_us);
}

static void on_deadline(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, deadline);

	if (r->state == RUN_ACTIVE)
		run_kill(r, PROTO_HOW_TIMEOUT, PROTO_STATUS_TIMEOUT, r->grace_ms * 1000ull);
}

/* How its driver is to take it. */
static unsigned how_taken(const struct run *r)
{
	return (r->trial ? DRIVER_RUN_TRIAL : 0) | (r->import ? DRIVER_RUN_IMPORT : 0) |
	       (r->place ? DRIVER_RUN_PLACE : 0);
}

void run_begin(struct run *r, const uint8_t *seed)
{
	int e;

	if ((r->import && !r->interp->can_import) || (r->place && !r->interp->can_place)) {
		run_end_unbegun(r, PROTO_HOW_NOT_TAKEN, ENOSYS, false);
		return;
	}
	/* Of runs without a pause between them, those who are at their end would never be seen to be. */
	if (r->settle.armed)
		drain_listen(&r->drains);
	drain_hush(&r->drains);
	run_look_around(r, false);
	acct_begin(&r->acct, r->interp->pid);
	r->began = now_us();
	origin_begin(&r->files->origin, r->id);
	oom_renew(&r->oom);
	if (r->interp->can_order &&
	    !r->import) /* of which nothing is kept but what the driver says */
		r->child_fds[DRIVER_FD_RECORDS] = output_ordered(&r->output);
	e = output_watch(&r->output);
	if (e == 0)
		e = interp_run(r->interp, r->id, r->child_fds, r->code_len, how_taken(r), seed);
	run_close_child_fds(r);
	if (e < 0) {
		log_line("cannot hand over run %u: %s", r->id, strerror(-e));
		interp_give_up(r->interp);
		if (r->interp->holds)
			return; /* its death ends the run, too */
		output_settle(&r->output);
		run_end_unbegun(r, PROTO_HOW_REFUSED, 255, true);
		return;
	}
	r->interp->holds = r->interp->holds || !r->trial;
	/* An exercise is the host's own code, packages are not. */
	r->interp->touched = r->interp->touched || !r->trial || r->import;
	r->state = RUN_ACTIVE;
	log_trace("handed to the interpreter, process %d", (int)r->interp->pid);
	loop_arm(r->loop, &r->settle, LISTEN_US);
	if (r->timeout_ms)
		loop_arm(r->loop, &r->deadline, (uint64_t)r->timeout_ms * 1000);
}

void run_send_refused(struct conn *c, uint32_t id)
{
	const struct proto_exit refused = {.how = PROTO_HOW_REFUSED, .status = 255};
	struct frame *f = frame_new(PROTO_EXIT, id, 128);

	if (!f)
		return;
	proto_exit_pack(&f->out, &refused);
	conn_send(c, f);
}

void run_refuse(struct run *r)
{
	run_end_unbegun(r, PROTO_HOW_REFUSED, 255, false);
}

void run_gone(struct run *r, const struct loss *l)
{
	r->result.gone = l->why;
	if (r->state == RUN_ACTIVE)
		run_settle(r, PROTO_HOW_GONE, l->number, true);
	else
		run_end_unbegun(r, PROTO_HOW_GONE, l->number, true);
}

/*
 * A driver ignores SIGINT until it has taken the turn and got ready for it, which it does not tell (Bun's notes it,
 * and does not begin). So a turn that has only just been handed over is left alone for a moment, and for as long
 * as it may be the driver that ignores it.
 */
static void on_interrupt(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, interrupt);
	uint64_t age;

	if (r->state != RUN_ACTIVE)
		return;
	age = now_us() - r->began;
	if (interp_unread(r->interp) || age < INTERRUPT_US ||
	    (age < DEAF_US && interp_is_deaf(r->interp)))
		loop_arm(r->loop, t, INTERRUPT_STEP_US);
	else
		interp_interrupt(r->interp);
}

void run_signal(struct run *r, enum proto_signal sig)
{
	if (r->state == RUN_ACTIVE && sig == PROTO_INTERRUPT) {
		on_interrupt(&r->interrupt);
	} else if (r->state == RUN_WAITING && sig == PROTO_INTERRUPT) {
		run_end_unbegun(r, PROTO_HOW_DONE, PROTO_STATUS_SIGNAL + SIGINT, false);
	} else if (r->state == RUN_ACTIVE) {
		run_kill(r, PROTO_HOW_KILLED, PROTO_STATUS_SIGNAL + SIGKILL, 0);
	} else if (r->state == RUN_KILLING && sig == PROTO_KILL) {
		killer_hurry(&r->killer);
	} else if (r->state == RUN_WAITING && sig == PROTO_KILL) {
		/* The caller sees to it that it is fresh. */
		run_end_unbegun(r, PROTO_HOW_KILLED, PROTO_STATUS_SIGNAL + SIGKILL, true);
	}
}

bool run_out_of_memory(struct run *r, bool all)
{
	if (r->state == RUN_KILLING) {
		killer_hurry(&r->killer);
		return true;
	}
	if (r->state != RUN_ACTIVE)
		return false;
	log_line("run %u%s takes more memory than there is", r->id,
		 all ? ", with what earlier ones left behind," : "");
	if (all)
		proc_set_clear(&r->background);
	run_kill(r, PROTO_HOW_OOM, PROTO_STATUS_SIGNAL + SIGKILL, 0);
	return true;
}

void run_credit(struct run *r, uint32_t bytes)
{
	r->output.credit += bytes;
	run_resume(r);
}

void run_resume(struct run *r)
{
	if (r->state == RUN_DRAINING) {
		run_drain(r);
	} else if (r->state == RUN_ACTIVE || r->state == RUN_KILLING) {
		output_resume(&r->output);
	}
}

void run_abandon(struct run *r)
{
	r->abandoned = true;
	killer_hurry(&r->killer);
	if (r->state == RUN_ACTIVE)
		run_kill(r, PROTO_HOW_KILLED, PROTO_STATUS_SIGNAL + SIGKILL, 0);
	else if (r->state == RUN_WAITING || r->state == RUN_DRAINING)
		run_end(r);
}

void run_init(struct run *r)
{
	for (int i = 0; i < DRIVER_NFDS; i++)
		r->child_fds[i] = -1;
	r->null_fd = r->code_fd = -1;
	acct_init(&r->acct);
	drain_init(&r->drains, r->loop);
	r->output.loop = r->loop;
	r->output.conn = r->conn;
	r->output.env = r->env;
	r->output.signals = r->signals;
	r->output.drains = &r->drains;
	output_init(&r->output);
	r->oom.env = r->env;
	r->in.loop = r->killer.loop = r->loop;
	r->in.conn = r->conn;
	r->in.src.fd = -1;
	r->killer.done = on_killed;
	r->deadline.fire = on_deadline;
	r->settle.fire = on_settle;
	r->interrupt.fire = on_interrupt;
	loop_arm(r->loop, &r->settle, 0);
}

void run_fini(struct run *r)
{
	loop_disarm(r->loop, &r->deadline);
	loop_disarm(r->loop, &r->settle);
	loop_disarm(r->loop, &r->interrupt);
	loop_disarm(r->loop, &r->killer.timer);
	output_fini(&r->output);
	stdin_stop(&r->in);
	run_close_child_fds(r);
	close_fd(&r->null_fd);
	close_fd(&r->code_fd);
	acct_fini(&r->acct);
	drain_clear(&r->drains);
	proc_set_clear(&r->background);
}
