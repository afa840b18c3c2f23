/* SPDX-License-Identifier: Apache-2.0 */
/* The table of nodes. See table.h. */
#include "nodes.h"

#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/network.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"
#include "help.h"
#include "report.h"

#define DIR_				       S_IFDIR
#define FILE_				       S_IFREG
/* A file whose text is rendered when it is opened. */
#define TEXT(name, parent, mode, render, time) name, parent, FILE_ | (mode), &text_ops, render, time

/* ---- times: the last change of what the node shows ---- */

#define TIME(name, when)                                  \
	static struct timespec name(const struct node *n) \
	{                                                 \
		return when;                              \
	}

TIME(mount_time, n->fs->started)
TIME(events_time, n->fs->events.mtime)
TIME(template_time, n->fs->template_mtime[n->template_index])
TIME(session_time, n->s->changed)
TIME(stdin_time, n->front->stdin_mtime)
TIME(state_time, n->s->state_mtime)
TIME(error_time, n->front->error_mtime)
TIME(config_time, n->s->config_mtime)
TIME(console_time, n->s->console_mtime)
TIME(runs_time, n->s->runs_mtime)
TIME(jobs_time, n->s->jobs_mtime)
TIME(job_config_time, n->job->config_mtime)
TIME(net_time, n->s->net_changed)
TIME(ports_time, n->s->ports_mtime)
TIME(learned_time, n->s->learned.mtime)
TIME(submit_time, n->r->submitted)
TIME(run_output_time, n->r->last_output)
TIME(output_time, n->front->latest ? n->front->latest->last_output : n->front->created)
TIME(refused_time, n->s->netlog.mtime.tv_sec ? n->s->netlog.mtime : n->s->created)

TIME(lessons_time, n->s->lessons.mtime.tv_sec ? n->s->lessons.mtime : n->s->created)
TIME(log_time, n->s->connlog.mtime.tv_sec ? n->s->connlog.mtime : n->s->created)
TIME(question_time, n->question->mtime)
TIME(checkpoints_time, n->s->checkpoints.mtime)
TIME(checkpoint_time, n->checkpoint->time)

/* That of the directory as it was saved. */
static struct timespec saved_time(const struct node *n)
{
	const struct saved *saved = n->checkpoint->saved;

	return saved ? saved_mtime(saved) : n->checkpoint->time;
}

static struct timespec time_of_run(const struct run *r)
{
	if (run_ended(r))
		return r->ended;
	return r->started.tv_sec ? r->started : r->submitted;
}

TIME(run_time, time_of_run(n->r))
TIME(latest_time, n->front->latest ? time_of_run(n->front->latest) : n->front->created)

/* It tells of the latest run, and of checkpoints that have failed. */
static struct timespec summary_time(const struct node *n)
{
	const struct timespec run = latest_time(n), saved = n->s->checkpoints.mtime;

	return time_compare(&saved, &run) > 0 ? saved : run;
}

/* It tells of all there is. What goes on by itself, as the use of memory, is no change. */
static struct timespec page_time(const struct node *n)
{
	struct timespec t = summary_time(n);

	t = time_compare(&n->s->state_mtime, &t) > 0 ? n->s->state_mtime : t;
	t = time_compare(&n->front->error_mtime, &t) > 0 ? n->front->error_mtime : t;
	return time_compare(&n->s->jobs_mtime, &t) > 0 ? n->s->jobs_mtime : t;
}

static struct timespec in_time(const struct node *n)
{
	const struct handle *w = input_writer(n->front);

	return w ? w->mtime : n->front->in_mtime;
}

static struct timespec complaint_time(const struct node *n)
{
	const struct complaint *c = complaint_of(n->fs, n->sub);

	return c ? c->time : n->fs->started;
}

/* ---- sizes ---- */

static uint64_t in_size(const struct node *n)
{
	const struct handle *w = input_writer(n->front);

	return w ? w->text.len : n->front->last_code.len + n->front->code_lost;
}

/* As of output: with what is lost, so that nobody takes it for empty. */
static uint64_t run_in_size(const struct node *n)
{
	return n->r->code.len + n->r->code_lost;
}

static uint64_t stdin_size(const struct node *n)
{
	return n->front->next_stdin.len;
}

static uint64_t all_events(const struct node *n)
{
	return events_size(n->fs, NULL);
}

static uint64_t session_events(const struct node *n)
{
	return events_size_of(n->s);
}

/* ---- is it there? ---- */

static bool has_in(const struct node *n)
{
	return !n->front->in_absent || input_writer(n->front);
}

static bool learned_there(const struct node *n)
{
	return learned_is_there(n->s);
}

static bool has_work(const struct node *n)
{
	return n->s->settings.spec.work;
}

static bool has_tty(const struct node *n)
{
	return n->job->settings.tty;
}

static bool has_latest(const struct node *n)
{
	return n->front->latest || front_input_pending(n->front);
}

static bool is_whole(const struct node *n)
{
	return n->checkpoint->state == CHECKPOINT_WHOLE;
}

static bool run_has_code(const struct node *n)
{
	return run_has_status(n->r);
}

/* ---- texts ---- */

static int root_readme(const struct node *n, struct buf *out)
{
	return help_root(n->fs->conf, out);
}

static int template_readme(const struct node *n, struct buf *out)
{
	return help_template(n->fs->conf, n->t, out);
}

static int session_readme(const struct node *n, struct buf *out)
{
	return help_session(n->t, &n->s->settings, out);
}

static int ports(const struct node *n, struct buf *out)
{
	network_list_ports(n->s, out);
	return 0;
}

/* ---- truncate(2) by the path ---- */

/* Only what is written afterwards counts. */
static int truncate_nothing(const struct node *n, uint64_t size)
{
	(void)n;
	(void)size;
	return 0;
}

static int truncate_list(const struct node *n, uint64_t size)
{
	return size == 0 ? config_list(n->s, n->kind, "", 0) : -EINVAL;
}

static int truncate_scratch(const struct node *n, uint64_t size)
{
	struct scratch_file *f = scratch_by_id(n->s, n->sub);

	return f ? scratch_resize(n->s, f, size) : -ESTALE;
}

/* ---- the table ---- */

const struct node_def node_defs[NODE_NKINDS] = {
	/* Anybody may try to create entries in these two, so that our errors are returned, not the kernel's. */
	[NODE_ROOT] = {NULL, NODE_NONE, DIR_ | 01777, NULL, NULL, mount_time,
		       .find = templates_find, .list = templates_list, .keep = REPLY_KEEP_ALL},
	[NODE_ROOT_README] = {TEXT("README.md", NODE_ROOT, 0444, root_readme, mount_time)},
	[NODE_ROOT_STATUS] = {TEXT("status.json", NODE_ROOT, 0444, status_root, events_time)},
	[NODE_ISOLATION] = {TEXT("isolation", NODE_ROOT, 0444, report_isolation, mount_time)},
	[NODE_DOCTOR] = {TEXT("doctor", NODE_ROOT, 0444, report_doctor, mount_time)},
	[NODE_METRICS] = {TEXT("metrics", NODE_ROOT, 0444, metrics_render, events_time)},
	[NODE_EVENTS] = {"events", NODE_ROOT, FILE_ | 0400, &events_ops, NULL, events_time,
			 .size = all_events},
	[NODE_ROOT_ERROR] = {TEXT("error", NODE_ROOT, 0400, text_complaint, complaint_time)},
	[NODE_ROOT_CTL] = {"ctl", NODE_ROOT, FILE_ | 0200, &root_ctl_ops, NULL, mount_time,
			   .truncate = truncate_nothing},
	[NODE_TEMPLATE] = {NULL, NODE_ROOT, DIR_ | 01777, NULL, NULL, template_time,
			   .find = sessions_find, .list = sessions_list, .keep = REPLY_KEEP_ALL},
	[NODE_TEMPLATE_JSON] = {TEXT("template.json", NODE_TEMPLATE, 0444, status_template,
				     mount_time)},
	[NODE_TEMPLATE_README] = {TEXT("README.md", NODE_TEMPLATE, 0444, template_readme,
				       mount_time)},
	[NODE_SESSION] = {NULL, NODE_TEMPLATE, DIR_ | 0700, NULL, NULL, session_time,
			  .find = beside_find, .list = beside_list, .keep = REPLY_KEEP_ALL},
	[NODE_IN] = {"in", NODE_SESSION, FILE_ | 0600, &input_ops, text_code, in_time,
		     .size = in_size, .is_there = has_in, .truncate = input_truncate_path,
		     .keep = REPLY_KEEP_ATTR},
	[NODE_STDIN] = {"stdin", NODE_SESSION, FILE_ | 0200, &stdin_ops, NULL, stdin_time,
			.size = stdin_size, .truncate = stdin_truncate_path},
	[NODE_STDOUT] = {"stdout", NODE_SESSION, FILE_ | 0400, &stream_ops, NULL, output_time,
			 .size = stream_size, .keep = REPLY_KEEP_NAME},
	[NODE_STDERR] = {"stderr", NODE_SESSION, FILE_ | 0400, &stream_ops, NULL, output_time,
			 .size = stream_size, .keep = REPLY_KEEP_NAME},
	[NODE_OUTPUT] = {"output", NODE_SESSION, FILE_ | 0400, &stream_ops, NULL, output_time,
			 .size = stream_size, .keep = REPLY_KEEP_NAME},
	[NODE_EXIT_CODE] = {"exit_code", NODE_SESSION, FILE_ | 0400, &status_wait_ops, NULL,
			    latest_time, .size = status_wait_size, .is_there = has_latest},
	[NODE_SUMMARY] = {TEXT("summary", NODE_SESSION, 0400, text_session_summary, summary_time),
			  .keep = REPLY_KEEP_NAME},
	[NODE_STATE] = {TEXT("state", NODE_SESSION, 0400, text_state, state_time),
			.keep = REPLY_KEEP_NAME},
	[NODE_STATUS] = {TEXT("status.json", NODE_SESSION, 0400, status_session, state_time),
			 .keep = REPLY_KEEP_NAME},
	[NODE_ERROR] = {TEXT("error", NODE_SESSION, 0400, text_error, error_time),
			.keep = REPLY_KEEP_NAME},
	[NODE_CONFIG] = {"config", NODE_SESSION, FILE_ | 0600, &config_ops, config_render,
			 config_time, .truncate = truncate_nothing, .keep = REPLY_KEEP_NAME},
	[NODE_CTL] = {"ctl", NODE_SESSION, FILE_ | 0200, &ctl_ops, NULL, state_time,
		      .truncate = truncate_nothing, .keep = REPLY_KEEP_NAME},
	[NODE_CHANGES] = {"files.changes", NODE_SESSION, FILE_ | 0400, &changes_ops,
			  .size = changes_size, .is_there = has_work},
	[NODE_FILE_EVENTS] = {"files.events", NODE_SESSION, FILE_ | 0400, &file_events_ops,
			      .size = file_events_node_size},
	[NODE_CONSOLE] = {TEXT("console", NODE_SESSION, 0400, text_console, console_time)},
	[NODE_FILES] = {"files", NODE_SESSION, DIR_ | 0700, NULL, .keep = REPLY_KEEP_NAME},
	[NODE_RUNS] = {"runs", NODE_SESSION, DIR_ | 0700, NULL, NULL, runs_time, .find = runs_find,
		       .list = runs_list},
	[NODE_README] = {TEXT("README.md", NODE_SESSION, 0400, session_readme, config_time)},
	[NODE_NET] = {"net", NODE_SESSION, DIR_ | 0700, NULL, NULL, net_time, .find = beside_find,
		      .list = beside_list},
	[NODE_NET_ALLOW] = {"allow", NODE_NET, FILE_ | 0600, &config_ops, text_allow, config_time,
			    .truncate = truncate_list},
	[NODE_NET_LEARNED] = {TEXT("learned", NODE_NET, 0400, text_net_learned, lessons_time)},
	[NODE_NET_REFUSED] = {TEXT("refused", NODE_NET, 0400, text_refused, refused_time)},
	[NODE_PORTS] = {TEXT("ports", NODE_SESSION, 0400, ports, ports_time)},
	[NODE_LEARNED] = {TEXT("learned.conf", NODE_SESSION, 0400, text_learned, learned_time),
			  .is_there = learned_there},
	[NODE_SCRATCH] = {NULL, NODE_SESSION, FILE_ | 0600, &scratch_ops,
			  .truncate = truncate_scratch},
	[NODE_LATEST] = {"latest", NODE_RUNS, S_IFLNK | 0777, NULL, NULL, runs_time,
			 .size = latest_size, .is_there = latest_is_there},
	[NODE_RUN] = {NULL, NODE_RUNS, DIR_ | 0700, NULL, NULL, run_time},
	[NODE_RUN_IN] = {TEXT("in", NODE_RUN, 0400, text_run_code, submit_time),
			 .size = run_in_size},
	[NODE_RUN_STDOUT] = {"stdout", NODE_RUN, FILE_ | 0400, &run_stream_ops, NULL,
			     run_output_time, .size = run_stream_size},
	[NODE_RUN_STDERR] = {"stderr", NODE_RUN, FILE_ | 0400, &run_stream_ops, NULL,
			     run_output_time, .size = run_stream_size},
	[NODE_RUN_OUTPUT] = {"output", NODE_RUN, FILE_ | 0400, &run_stream_ops, NULL,
			     run_output_time, .size = run_stream_size},
	[NODE_RUN_EXIT_CODE] = {TEXT("exit_code", NODE_RUN, 0400, text_exit_code, run_time),
				.is_there = run_has_code},
	[NODE_RUN_STATE] = {TEXT("state", NODE_RUN, 0400, text_run_state, run_time)},
	[NODE_RUN_STATUS] = {TEXT("status.json", NODE_RUN, 0400, status_run, run_time)},
	[NODE_RUN_SUMMARY] = {TEXT("summary", NODE_RUN, 0400, text_run_summary, run_time)},
	[NODE_RUN_WAIT] = {"wait", NODE_RUN, FILE_ | 0400, &status_wait_ops, NULL, run_time,
			   .size = status_wait_size},
	[NODE_SESSION_EVENTS] = {"events", NODE_SESSION, FILE_ | 0400, &events_ops, NULL,
				 events_time, .size = session_events},
	[NODE_JOBS] = {"jobs", NODE_SESSION, DIR_ | 0700, NULL, NULL, jobs_time, .find = jobs_find,
		       .list = jobs_list, .keep = REPLY_KEEP_ALL},
	[NODE_JOB] = {NULL, NODE_JOBS, DIR_ | 0700, NULL, NULL, latest_time, .find = beside_find,
		      .list = beside_list, .keep = REPLY_KEEP_WALK},
	[NODE_JOB_IN] = {"in", NODE_JOB, FILE_ | 0600, &input_ops, text_code, in_time,
			 .size = in_size, .is_there = has_in, .truncate = input_truncate_path,
			 .keep = REPLY_KEEP_ATTR},
	[NODE_JOB_STDIN] = {"stdin", NODE_JOB, FILE_ | 0200, &stdin_ops, NULL, stdin_time,
			    .size = stdin_size, .truncate = stdin_truncate_path},
	[NODE_JOB_STDOUT] = {"stdout", NODE_JOB, FILE_ | 0400, &stream_ops, NULL, output_time,
			     .size = stream_size},
	[NODE_JOB_STDERR] = {"stderr", NODE_JOB, FILE_ | 0400, &stream_ops, NULL, output_time,
			     .size = stream_size},
	[NODE_JOB_OUTPUT] = {"output", NODE_JOB, FILE_ | 0400, &stream_ops, NULL, output_time,
			     .size = stream_size},
	[NODE_JOB_EXIT_CODE] = {"exit_code", NODE_JOB, FILE_ | 0400, &status_wait_ops, NULL,
				latest_time, .size = status_wait_size, .is_there = has_latest,
				.keep = REPLY_KEEP_ATTR},
	[NODE_JOB_SUMMARY] = {TEXT("summary", NODE_JOB, 0400, text_summary, latest_time)},
	[NODE_JOB_STATE] = {TEXT("state", NODE_JOB, 0400, text_state, latest_time)},
	[NODE_JOB_STATUS] = {TEXT("status.json", NODE_JOB, 0400, status_job, latest_time)},
	[NODE_JOB_ERROR] = {TEXT("error", NODE_JOB, 0400, text_error, error_time)},
	[NODE_JOB_CONFIG] = {"config", NODE_JOB, FILE_ | 0600, &config_ops, job_config_render,
			     job_config_time, .truncate = truncate_nothing,
			     .keep = REPLY_KEEP_ATTR},
	[NODE_JOB_TTY] = {"tty", NODE_JOB, FILE_ | 0600, &tty_ops, NULL, output_time,
			  .size = stream_size, .is_there = has_tty, .truncate = truncate_nothing},
	[NODE_JOB_CTL] = {"ctl", NODE_JOB, FILE_ | 0200, &ctl_ops, NULL, latest_time,
			  .truncate = truncate_nothing, .keep = REPLY_KEEP_WALK},
	[NODE_FILE] = {NULL, NODE_FILES, FILE_ | 0600, NULL},
	[NODE_CHECKPOINTS] = {"checkpoints", NODE_SESSION, DIR_ | 0700, NULL, NULL,
			      checkpoints_time, .find = checkpoints_find, .list = checkpoints_list},
	[NODE_CHECKPOINT] = {NULL, NODE_CHECKPOINTS, DIR_ | 0700, NULL, NULL, checkpoint_time},
	/* The first, for who removes all of it: see names_unlink(). */
	[NODE_CHECKPOINT_STATUS] = {TEXT("status.json", NODE_CHECKPOINT, 0400, status_checkpoint,
					 checkpoint_time)},
	[NODE_CHECKPOINT_WAIT] = {"wait", NODE_CHECKPOINT, FILE_ | 0400, &checkpoint_wait_ops, NULL,
				  checkpoint_time, .size = checkpoint_wait_size},
	[NODE_CHECKPOINT_FILES] = {"files", NODE_CHECKPOINT, DIR_ | 0700, NULL, NULL, saved_time,
				   .is_there = is_whole},
	[NODE_CHECKPOINT_FILE] = {NULL, NODE_CHECKPOINT_FILES, FILE_ | 0600, NULL},
	[NODE_CHECKPOINT_ERROR] = {TEXT("error", NODE_CHECKPOINT, 0400, text_checkpoint_error,
					checkpoint_time)},
	[NODE_ROOT_PAGE] = {TEXT("status.html", NODE_ROOT, 0400, page_root, events_time)},
	[NODE_ROOT_QUOTA] = {TEXT("quota", NODE_ROOT, 0400, text_quota, events_time)},
	[NODE_RUN_REPLAY] = {"replay", NODE_RUN, FILE_ | 0400, &replay_ops, NULL, run_time,
			     .size = replay_size},
	[NODE_PAGE] = {TEXT("status.html", NODE_SESSION, 0400, page_session, page_time)},
	[NODE_NET_RULES] = {"rules", NODE_NET, FILE_ | 0600, &config_ops, text_rules, config_time,
			    .truncate = truncate_list},
	[NODE_NET_SECRETS] = {"secrets", NODE_NET, FILE_ | 0600, &config_ops, text_secrets,
			      config_time, .truncate = truncate_list},
	[NODE_NET_LOG] = {"log", NODE_NET, FILE_ | 0400, &connlog_ops, NULL, log_time,
			  .size = connlog_node_size},
	[NODE_NET_PENDING] = {"pending", NODE_NET, DIR_ | 0700, NULL, NULL, questions_time,
			      .find = questions_find, .list = questions_list},
	[NODE_NET_ALLOWED] = {"allowed", NODE_NET, DIR_ | 0700, NULL, NULL, questions_time,
			      .find = questions_find, .list = questions_list},
	[NODE_NET_DENIED] = {"denied", NODE_NET, DIR_ | 0700, NULL, NULL, questions_time,
			     .find = questions_find, .list = questions_list},
	[NODE_QUESTION] = {NULL, NODE_NET_PENDING, DIR_ | 0700, NULL, NULL, question_time},
	[NODE_QUESTION_WHO] = {TEXT("who", NODE_QUESTION, 0400, text_question_who, question_time)},
	[NODE_QUESTION_WHAT] = {TEXT("what", NODE_QUESTION, 0400, text_question_what,
				     question_time)},
	[NODE_QUESTION_WHY] = {TEXT("why", NODE_QUESTION, 0400, text_question_why, question_time)},
	[NODE_QUESTION_UNTIL] = {TEXT("until", NODE_QUESTION, 0400, text_question_until,
				      question_time)},
	[NODE_QUESTION_DECISION] = {"decision", NODE_QUESTION, FILE_ | 0600, &decision_ops,
				    text_question_decision, question_time,
				    .truncate = truncate_nothing},
	[NODE_QUESTION_STATUS] = {TEXT("status.json", NODE_QUESTION, 0400, status_question,
				       question_time)},
	[NODE_QUESTION_DECIDED] = {TEXT("decided", NODE_QUESTION, 0400, text_question_decided,
					question_time),
				   .is_there = question_is_decided},
};

enum node_kind node_child(enum node_kind parent, const char *name)
{
	for (int k = 0; k < NODE_NKINDS; k++)
		if (node_defs[k].parent == parent && node_defs[k].name &&
		    !strcmp(node_defs[k].name, name))
			return (enum node_kind)k;
	return NODE_NONE;
}

int node_render(const struct node *n, struct buf *out)
{
	const int e = node_defs[n->kind].render(n, out);

	return e < 0 ? e : out->failed;
}
