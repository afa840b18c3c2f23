/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a job: starting it, signals, and removing it. See job.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ttydefaults.h>

#include "audit.h"
#include "binding.h"
#include "fs.h"
#include "fs/config/entry.h"
#include "job.h"
#include "vm/base/log.h"

/* ---- start ---- */

/* It has its program, and takes no other. */
static void was_started(const struct job *j, struct problem *why)
{
	problem_set(why, PROBLEM_BUSY, job_another(j),
		    j->of_session ? "a named run takes code once, and this one has it"
				  : "a job is started once, and this one was");
}

static bool has_entrypoint(const struct session *s)
{
	return s->settings.entrypoint && *s->settings.entrypoint;
}

/* Is there room to tell of what it executes, which is not known before: its code, its words, or those of the session's entry point? */
static int may_tell(struct job *j, const struct buf *code, struct problem *why)
{
	struct buf words = {0};
	int e = 0;

	if (code->len || j->settings.argv.len)
		return audit_may_run(j->s, code->len ? code : &j->settings.argv, why);
	e = entry_argv(&j->s->settings, &words);
	if (e == 0)
		e = audit_may_run(j->s, &words, why);
	buf_clear(&words);
	return e;
}

static int may_start(const struct job *j, bool with_code, struct problem *why)
{
	const struct session *s = j->s;
	int e;

	if (j->removed || s->dead)
		return -ESTALE;
	if (j->front.latest) {
		was_started(j, why);
		return -EBUSY;
	}
	if (j->of_session && !with_code)
		return problem_set(why, PROBLEM_INVALID, "Write code to `in`.",
				   "there is nothing to start");
	if (with_code && j->settings.argv.len)
		return problem_set(
			why, PROBLEM_INVALID,
			"echo start > ctl starts it; argv = in `config` unsets it.",
			"argv says what this job executes, so there is no code to write");
	if (!with_code && !j->settings.argv.len && !has_entrypoint(s))
		return problem_set(why, PROBLEM_INVALID,
				   "Write a program to `in`, or set argv in `config`.",
				   "there is nothing to start");
	e = j->of_session ? session_may_submit(s, NULL, why) : session_may_begin(s, NULL, why);
	if (e < 0)
		return e;
	if (j->of_session)
		return 0;
	if (s->settings.fresh)
		return problem_set(why, PROBLEM_UNSUPPORTED, "echo 'fresh = no' >> ../../config",
				   "with fresh = yes there is no sandbox that a job could share");
	if (s->jobs_going < JOBS_GOING_MAX)
		return 0;
	problem_set(why, PROBLEM_QUEUE_FULL, "Wait for one to end, or use another session.",
		    "%u jobs of this session go on already", s->jobs_going);
	return -EBUSY;
}

int job_can_start(struct job *j, bool with_code)
{
	struct problem why = {0};
	const int e = may_start(j, with_code, &why);

	if (why.code)
		front_problem(&j->front, &why);
	return e;
}

/* Makes its run, which waits. Return: 0 or -ENOMEM. */
static int add_run(struct job *j, struct buf *code, const struct timespec *mtime)
{
	struct session *s = j->s;
	struct buf copy = {0};
	struct run *r;

	if (buf_append(&copy, code->data, code->len) < 0)
		return -ENOMEM;
	r = run_new(&s->fs->depot, 0, code);
	if (!r) {
		buf_clear(&copy);
		return -ENOMEM;
	}
	run_keep(s, r);
	snprintf(r->job, sizeof(r->job), "%s", j->name);
	r->id = SANDBOX_JOB_ID | j->number;
	r->began = log_now();
	front_show(&j->front, r, &copy, mtime);
	run_unref(r); /* the front has one */
	j->unsent = true;
	s->jobs_going++;
	job_changed(j);
	front_problem(&j->front, &(struct problem){0});
	log_trace(job_label(j), "fs", "received, %zu bytes of code", r->code.len);
	events_add_run(&s->fs->events, s, r);
	audit_run(s, r);
	return 0;
}

int job_start(struct job *j, struct buf *code, const struct timespec *mtime)
{
	struct problem why = {0};
	int e = job_can_start(j, code->len > 0);

	if (e == 0)
		e = may_tell(j, code, &why);
	if (why.code)
		front_problem(&j->front, &why);
	if (e == 0 && j->of_session)
		return session_submit_named(j->s, code, mtime, j);
	if (e == 0 && !code->len && !j->settings.argv.len)
		e = entry_argv(&j->s->settings, &j->settings.argv);
	if (e == 0)
		e = add_run(j, code, mtime);
	if (e < 0)
		return e;
	front_feed(&j->front, j->front.latest);
	if (j->settings.input || j->settings.tty)
		feed_keep_open(&j->front.latest->feed, j->settings.tty);
	binding_pump(j->s);
	wait_wake(&j->front.wait);
	return 0;
}

int job_start_late(struct job *j, struct buf *code, const struct timespec *mtime)
{
	struct problem why = {0};
	int e = may_start(j, true, &why);

	if (e == 0)
		e = may_tell(j, code, &why);
	if (e == 0)
		return job_start(j, code, mtime);
	if (j->front.latest || !why.code || j->of_session)
		return e; /* whose results are read stay those of the program that was first */
	e = add_run(j, code, mtime);
	if (e < 0)
		return e;
	run_refuse(j->front.latest, &why);
	job_over(j);
	return 0;
}

/* ---- while it runs ---- */

/* Return: why there is nothing to signal, and in @ret_fix what can be done instead. */
static const char *why_not_running(const struct job *j, const char **ret_fix)
{
	*ret_fix = "";
	if (!j->front.latest) {
		*ret_fix = j->of_session	  ? "Write code to `in`."
			   : j->settings.argv.len ? "echo start > ctl starts it."
						  : "Write a program to `in`.";
		return j->of_session ? "the run has no code yet" : "the job was not started";
	}
	if (job_going(j)) {
		*ret_fix = "Wait, or echo kill > ctl, so that it never begins.";
		return j->of_session ? "the run is queued" : "the job waits for its sandbox";
	}
	if (j->inside)
		*ret_fix = "rmdir of its directory kills the processes that it has left.";
	return j->of_session ? "the run has ended" : "the job has ended";
}

static int not_running(struct job *j)
{
	const char *fix, *cause = why_not_running(j, &fix);

	front_problemf(&j->front, PROBLEM_NOT_RUNNING, fix, "%s", cause);
	return -ESRCH;
}

/* The same for a named run, whose run is the session's. */
static int signal_run(struct job *j, unsigned sig)
{
	struct session *s = j->s;

	if (sig != SANDBOX_KILL && sig != SANDBOX_INTERRUPT) {
		front_problemf(&j->front, PROBLEM_UNSUPPORTED, "",
			       "a run of an interpreter, which goes on, takes interrupt and kill "
			       "only");
		return -EOPNOTSUPP;
	}
	if (!s->active || s->active != j->front.latest)
		return not_running(j);
	return sandbox_signal(s->sandbox, s->active->id, (enum sandbox_signal)sig);
}

int job_signal(struct job *j, unsigned sig)
{
	if (j->of_session)
		return signal_run(j, sig);
	if (!j->inside || !job_going(j))
		return not_running(j);
	return sandbox_job_signal(j->s->sandbox, j->front.latest->id, sig);
}

int job_kill(struct job *j)
{
	static const struct problem killed = {.code = PROBLEM_KILLED,
					      .cause = "killed by ctl before it began"};

	if (j->of_session && j->front.latest && j->front.latest->state == RUN_QUEUED) {
		binding_refuse(j->s, j->front.latest, &killed);
		wait_wake(&j->s->front.wait);
		binding_pump(j->s);
		return 0;
	}
	if (!j->unsent)
		return job_signal(j, SANDBOX_KILL);
	run_refuse(j->front.latest, &killed);
	job_over(j);
	binding_pump(j->s);
	return 0;
}

int job_end_input(struct job *j)
{
	static const char end = CEOF; /* what is typed for it, see termios(3) */
	struct feed *feed;
	int e = 0;

	if (!job_going(j))
		return not_running(j);
	feed = &j->front.latest->feed;
	if (j->settings.tty)
		e = feed_write(feed, &end, 1);
	else
		feed_end(feed);
	binding_feed(&j->front);
	return e;
}

void job_resize(struct job *j)
{
	if (j->inside && job_going(j) && j->settings.tty)
		(void)sandbox_job_resize(j->s->sandbox, j->front.latest->id, j->settings.rows,
					 j->settings.cols);
}

void job_remove(struct job *j)
{
	static const struct problem removed = {.code = PROBLEM_REMOVED,
					       .cause = "the job was removed"};
	const struct vm_result killed = {.outcome = VM_KILLED, .status = 137, .problem = removed};
	struct session *s = j->s;

	if (j->inside)
		(void)sandbox_job_forget(j->s->sandbox, j->front.latest->id);
	if (job_going(j) && !j->of_session) {
		if (j->unsent)
			run_refuse(j->front.latest, &removed);
		else
			run_ended_with(j->front.latest, &killed);
		job_over(j);
	}
	audit_job_removed(j);
	job_unlink(j);
	if (!s->dead)
		binding_pump(s);
}
