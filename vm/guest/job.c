/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a guest: programs beside the interpreter. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * A job is known from guest_job() until `gone`. It has one `exit`, behind its last `output`; what it has left behind may
 * go on after that, until it ends by itself or by guest_job_forget(), of which the agent's JOB_GONE tells. One that is
 * forgotten before its end has no `exit`: its owner has said that he does not want to know.
 *
 * The agent is believed what it says of its own jobs, as of runs; that it says nothing for ever is found by their time.
 */

struct guest_job *guest_job_find(struct guest *g, uint32_t id)
{
	struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		if (j->exec.id == id)
			return j;
	}
	return NULL;
}

/* The job that a frame of the agent is about, or NULL if it can't know of one. */
static struct guest_job *job_meant(struct guest *g, const struct proto_header *h)
{
	struct guest_job *j = guest_job_find(g, h->id);

	return j && exec_sent(g, &j->exec) ? j : NULL;
}

static void job_free(struct guest *g, struct guest_job *j)
{
	TAILQ_REMOVE(&g->jobs, j, link);
	g->njobs--;
	free(j);
}

/* ---- its end ---- */

static void finish(struct guest *g, struct guest_job *j, const struct vm_result *result)
{
	log_trace(&g->label, "guest", "job %x has ended: %s, status %u",
		  j->exec.id & ~SANDBOX_JOB_ID, vm_outcome_str(result->outcome), result->status);
	j->ended = true;
	if (j->forgotten)
		return;
	j->overdue = 0;
	tell_owner(g, exit, j->exec.id, result);
}

int job_on_exit(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct guest_job *j = job_meant(g, h);
	struct proto_exit e;
	struct vm_result r;

	if (!j || j->ended || exec_take_exit(in, &e, &r) < 0 || r.outcome == VM_REFUSED)
		return -EPROTO;
	if (!j->shot)
		(void)exec_see_oom(g, &j->exec, &r);
	exec_explain_memory(g, &r);
	if (r.outcome == VM_LOST)
		problem_set(&r.problem, PROBLEM_AGENT_LOST, "",
			    "a process of the sandbox has ended what watched the job: how it ends "
			    "nobody can tell");
	g->usage_stale = true;
	finish(g, j, &r);
	return 0;
}

int job_on_failed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t err = get_u32(in);
	const struct proto_str words = get_str(in, 256);
	struct vm_result r = {.outcome = VM_REFUSED};
	struct guest_job *j = job_meant(g, h);
	char text[64];

	if (!get_end(in) || !j || j->ended || err > 4095)
		return -EPROTO;
	for (uint32_t i = 0; i < sizeof(text); i++)
		text[i] = i < words.len && i + 1 < sizeof(text)
				  ? (words.data[i] >= ' ' && words.data[i] <= '~' ? words.data[i]
										  : '?')
				  : '\0';
	problem_set(&r.problem, PROBLEM_NOT_TAKEN, "", "the job could not be started: %s: %s", text,
		    err && err < 134 ? strerror((int)err) : "no reason given");
	finish(g, j, &r);
	return 0;
}

int job_on_gone(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct guest_job *j = job_meant(g, h);

	if (!get_end(in) || !j || !(j->forgotten || j->ended))
		return -EPROTO;
	job_free(g, j);
	tell_owner(g, gone, h->id);
	guest_freeze_again(g);
	return 0;
}

/* Its end is due with the next heartbeat. */
static void due_now(const struct guest *g, struct guest_job *j)
{
	j->overdue = g->all->beats + 1;
	j->late.on = false;
}

/* The agent was told to end it. */
static void ending(struct guest *g, struct guest_job *j)
{
	exec_hold(g, &j->exec, false);
	j->exec.late = true; /* unread output must not keep it from ending */
	due_now(g, j);
}

void jobs_ending(struct guest *g)
{
	struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		if (!j->ended && !j->forgotten)
			ending(g, j);
	}
}

/* Tells the agent to end all that is left of it. Without memory for that, the next heartbeat does. */
static void forget(struct guest *g, struct guest_job *j)
{
	j->untold = channel_send(&g->channel, PROTO_JOB_FORGET, j->exec.id, NULL, 0) < 0;
	if (!j->untold)
		due_now(g, j);
}

bool jobs_check(struct guest *g)
{
	struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		if (j->untold)
			forget(g, j);
		if (!j->ended)
			exec_beat(g, &j->exec);
		if (!j->overdue || g->all->beats < j->overdue)
			continue;
		if (!j->late.on)
			starved_begin(&j->late, g);
		if (!exec_late_over(g, &j->exec, &j->late))
			continue;
		if (j->exec.held && !j->exec.late) { /* held output may have kept it from ending */
			exec_hold(g, &j->exec, false);
			j->exec.late = true;
			due_now(g, j);
			continue;
		}
		guest_failf(g, PROBLEM_AGENT_SILENT, "Reset the session.",
			    "the agent in the sandbox was to end a job, and has not for %u s",
			    (unsigned)(j->late.all_ms / 1000));
		return false;
	}
	return true;
}

void jobs_note_oom(struct guest *g, uint64_t kills)
{
	struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link)
		j->exec.oom_kills = MAX(j->exec.oom_kills, kills);
}

void jobs_abandon(struct guest *g)
{
	struct guest_job *j;

	while ((j = TAILQ_FIRST(&g->jobs))) {
		struct vm_result r = {.outcome = exec_sent(g, &j->exec) ? VM_LOST : VM_REFUSED};

		if (g->asked)
			problem_set(&r.problem, PROBLEM_CLOSED, "", "the sandbox was closed");
		else
			r.problem = g->problem;
		if (!j->ended)
			finish(g, j, &r);
		job_free(g, j);
	}
}

/* ---- output ---- */

int job_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct guest_job *j = job_meant(g, h);

	return !j || j->ended ? -EPROTO : exec_take_output(g, &j->exec, h, in);
}

void guest_job_hold(struct guest *g, uint32_t id, bool hold)
{
	struct guest_job *j = guest_job_find(g, id);

	if (j && !j->ended)
		exec_hold(g, &j->exec, hold);
}

/* ---- the seam ---- */

bool guest_has_own_jobs(const struct guest *g)
{
	const struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		if (!j->ended && !j->forgotten)
			return true;
	}
	return false;
}

bool guest_has_jobs(const struct guest *g)
{
	const struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		if (!j->ended || j->forgotten)
			return true;
	}
	return false;
}

static struct proto_str str(const char *s)
{
	return proto_cstr(s ? s : "");
}

static uint32_t window(unsigned rows, unsigned cols)
{
	return (uint32_t)(rows & 0xffff) << 16 | (cols & 0xffff);
}

static struct channel_frame *job_frame(const struct sandbox_job *job)
{
	const struct proto_job p = {
		.flags = (job->input ? PROTO_RUN_STDIN : 0) | (job->tty ? PROTO_JOB_TTY : 0) |
			 (job->root ? PROTO_JOB_ROOT : 0),
		.window = window(job->rows, job->cols),
		.nice = job->nice,
		.timeout_ms = job->timeout_ms,
		.grace_ms = job->grace_ms,
		.limit = {job->limit[VM_STDOUT], job->limit[VM_STDERR]},
		.credit = EXEC_WINDOW,
		.language = str(job->language),
		.cwd = str(job->cwd),
		.env = job->env,
		.argv = job->argv,
		.code = job->code,
	};
	struct channel_frame *f = channel_frame_new(PROTO_JOB, job->id,
						    96 + p.language.len + p.cwd.len + p.env.len +
							    p.argv.len + p.code.len);

	if (f)
		proto_job_pack(&f->out, &p);
	return f;
}

/* So many heartbeats from now its end has come. */
static uint64_t overdue_at(const struct guest *g, const struct sandbox_job *job)
{
	if (!job->timeout_ms)
		return 0;
	return g->all->beats + 1 + ((uint64_t)job->timeout_ms + job->grace_ms) / GUEST_BEAT_MS;
}

int guest_job(struct guest *g, const struct sandbox_job *job)
{
	struct channel_frame *f;
	struct guest_job *j;

	assert(proto_is_job(job->id) && !guest_job_find(g, job->id));
	if (g->phase != GUEST_UP)
		return -EBUSY;
	if (g->njobs >= PROTO_JOBS_MAX)
		return -EMFILE;
	if ((uint64_t)job->code.len + job->argv.len + job->env.len + 8192 > PROTO_PAYLOAD_MAX)
		return -E2BIG;
	j = calloc(1, sizeof(*j));
	f = j ? job_frame(job) : NULL;
	if (!f) {
		free(j);
		return -ENOMEM;
	}
	j->exec = (struct exec){
		.id = job->id,
		.limit = {job->limit[VM_STDOUT], job->limit[VM_STDERR]},
		.credit = EXEC_WINDOW,
		.stdin_open = job->input,
		.oom_kills = exec_oom_kills(g),
	};
	j->overdue = overdue_at(g, job);
	TAILQ_INSERT_TAIL(&g->jobs, j, link);
	g->njobs++;
	exec_name(g, job->id, job->author);
	j->exec.ticket = channel_push(&g->channel, f, CHANNEL_CONTROL);
	log_trace(&g->label, "guest", "sends job %x", job->id & ~SANDBOX_JOB_ID);
	return 0;
}

static uint32_t wire_signal(unsigned sig)
{
	if (sig == SANDBOX_KILL)
		return PROTO_KILL;
	return sig == SANDBOX_INTERRUPT ? PROTO_INTERRUPT
					: PROTO_SIGNAL_NUMBER + (sig - SANDBOX_SIGNAL);
}

int guest_job_signal(struct guest *g, uint32_t id, unsigned sig)
{
	struct guest_job *j = guest_job_find(g, id);

	if (g->phase != GUEST_UP || !j || j->ended)
		return -ESRCH;
	if (sig != SANDBOX_KILL && sig != SANDBOX_INTERRUPT &&
	    (sig <= SANDBOX_SIGNAL || sig >= SANDBOX_SIGNAL + NSIG))
		return -EINVAL;
	if (channel_send_u32(&g->channel, PROTO_SIGNAL, id, wire_signal(sig)) < 0)
		return -ENOMEM;
	j->shot = j->shot || sig == SANDBOX_SIGNAL + SIGKILL;
	if (sig == SANDBOX_KILL)
		ending(g, j);
	return 0;
}

int guest_job_resize(struct guest *g, uint32_t id, unsigned rows, unsigned cols)
{
	const struct guest_job *j = guest_job_find(g, id);

	if (g->phase != GUEST_UP || !j || j->ended)
		return -ESRCH;
	return channel_send_u32(&g->channel, PROTO_JOB_WINDOW, id, window(rows, cols));
}

int guest_job_forget(struct guest *g, uint32_t id)
{
	struct guest_job *j = guest_job_find(g, id);

	if (!j || j->forgotten || g->phase == GUEST_ENDING)
		return -ESRCH;
	j->forgotten = true;
	due_now(g, j);
	forget(g, j);
	return 0;
}
