/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of a session: its runs and its jobs. See page_runs.h. */
#include "page_runs.h"

#include <inttypes.h>

#include "fs/session/job.h"
#include "fs/session/session.h"
#include "html.h"
#include "page.h"

#define RUNS_MAX 20u   /* that are shown, with code and outputs, */
#define JOBS_MAX 12u   /* likewise */
#define TAIL_MAX 3000u /* bytes that are read of the end of stderr */

/* The beginning of an output or, of errors, its end, which says what went wrong. Nothing is brought back from a disk for it. */
static void output(struct buf *out, const struct run *r, enum vm_stream stream)
{
	const struct spool *sp = run_spool(r, (enum run_output)stream);
	const bool tail = stream == VM_STDERR && sp->len > PAGE_HEAD_MAX;
	const uint64_t from = tail && sp->len > TAIL_MAX ? sp->len - TAIL_MAX : 0;
	char bytes[TAIL_MAX];
	ssize_t n;

	if (!sp->len && !sp->lost)
		return;
	buf_printf(out, "<h4>%s, ", stream == VM_STDOUT ? "stdout" : "stderr");
	page_bytes(out, sp->len);
	buf_printf(out, "%s%s</h4>", tail ? ", its end" : "",
		   sp->lost		      ? ", and more that was lost"
		   : run_truncated(r, stream) ? ", and more that was dropped"
					      : "");
	n = spool_read(sp, r->depot, from, bytes, MIN(sizeof(bytes), (size_t)(sp->len - from)));
	if (n < 0) {
		buf_printf(out, "<p class=\"soft\">not in memory now</p>");
		return;
	}
	buf_printf(out, "<pre class=\"foreign\">");
	if (tail)
		html_tail(out, bytes, (size_t)n, PAGE_HEAD_MAX);
	else
		html_bytes(out, bytes, (size_t)n, PAGE_HEAD_MAX, true);
	buf_printf(out, "</pre>");
}

static void usage_of(struct buf *out, const struct run *r)
{
	if (!run_ended(r) || !r->started.tv_sec)
		return;
	buf_printf(out, "<p class=\"soft\">processor: ");
	page_time_span(out, r->result.user_us + r->result.system_us);
	buf_printf(out, ", memory at most: ");
	page_bytes(out, r->result.maxrss_kib << 10);
	buf_printf(out, "%s</p>", r->result.fresh ? ", the interpreter is a fresh one since" : "");
}

/* What stands behind the state in the line that is always seen. */
static void summary_of(struct page *p, const struct run *r)
{
	const char *end = r->code.len ? memchr(r->code.data, '\n', r->code.len) : NULL;
	struct buf *out = p->out;

	page_run_state(out, r);
	if (run_ended(r) && r->started.tv_sec) {
		buf_printf(out, "<span>");
		page_time_span(out, r->result.wall_us);
		buf_printf(out, "</span>");
	}
	page_ago(p, run_ended(r) ? &r->ended : &r->submitted);
	if (!r->code.len)
		return;
	buf_printf(out, "<code class=\"line foreign\">");
	html_bytes(out, r->code.data, end ? (size_t)(end - r->code.data) : r->code.len, 120, false);
	buf_printf(out, "</code>");
}

/* @place: the directory that it has, with a slash behind it */
static void body_of(struct page *p, const struct run *r)
{
	const struct problem *why = problem_kept(&r->problem);
	struct buf *out = p->out;

	if (why->code) {
		buf_printf(out, "<ul class=\"problems\">");
		page_problem(out, NULL, NULL, why);
		buf_printf(out, "</ul>");
	}
	if (r->woke) {
		buf_printf(out, "<p class=\"soft foreign\">");
		html_text(out, r->woke, PAGE_LINE_MAX);
		buf_printf(out, "</p>");
	}
	usage_of(out, r);
	if (r->code.len) {
		buf_printf(out, "<h4>code, ");
		page_bytes(out, r->code.len);
		buf_printf(out, "</h4><pre class=\"foreign\">");
		html_bytes(out, r->code.data, r->code.len, PAGE_HEAD_MAX, true);
		buf_printf(out, "</pre>");
	}
	output(out, r, VM_STDOUT);
	output(out, r, VM_STDERR);
}

void page_runs(struct page *p, const struct session *s)
{
	struct buf *out = p->out;
	const struct run *r;
	unsigned n = 0;

	buf_printf(out,
		   "<h2>Runs <small>of the session's interpreter, the newest first</small></h2>\n");
	TAILQ_FOREACH_REVERSE(r, &s->runs, run_list, link) {
		if (n == RUNS_MAX)
			break;
		buf_printf(out,
			   "<details class=\"card\" id=\"run-%" PRIu32 "\"%s><summary><b>%" PRIu32
			   "</b>",
			   r->number, n++ ? "" : " open", r->number);
		summary_of(p, r);
		buf_printf(out, "</summary>");
		body_of(p, r);
		buf_printf(out,
			   "<p class=\"soft\">All of it: <a href=\"./runs/%" PRIu32
			   "/\">runs/%" PRIu32 "/</a></p></details>\n",
			   r->number, r->number);
	}
	if (!n)
		buf_printf(out, "<p class=\"calm card\">None yet. Closing <code>in</code> starts "
				"one.</p>\n");
	else if (s->nruns > n)
		buf_printf(
			out,
			"<p class=\"calm\">and %u older ones: <a href=\"./runs/\">runs/</a></p>\n",
			s->nruns - n);
}

/* What it was told to start, where that is no code. */
static void command_of(struct buf *out, const struct job *j)
{
	const struct buf *argv = &j->settings.argv;

	if (!argv->len)
		return;
	buf_printf(out, "<code class=\"line foreign\">");
	for (size_t i = 0; i < argv->len && i < PAGE_LINE_MAX; i += strlen(argv->data + i) + 1) {
		html_text(out, argv->data + i, 80);
		buf_printf(out, " ");
	}
	buf_printf(out, "</code>");
}

void page_jobs(struct page *p, const struct session *s)
{
	struct buf *out = p->out;
	const struct job *j;
	unsigned n = 0;

	if (TAILQ_EMPTY(&s->jobs))
		return;
	buf_printf(out, "<h2>Jobs and named runs</h2>\n");
	TAILQ_FOREACH_REVERSE(j, &s->jobs, job_list, link) {
		if (n == JOBS_MAX)
			break;
		n++;
		buf_printf(out, "<details class=\"card\" id=\"%s-", job_noun(j));
		html_text(out, j->name, PAGE_NAME_MAX);
		buf_printf(out, "\"><summary><b class=\"foreign\">");
		html_text(out, j->name, PAGE_NAME_MAX);
		buf_printf(out, "</b>");
		if (j->front.latest)
			summary_of(p, j->front.latest);
		else
			page_state(out, "new", "new");
		command_of(out, j);
		buf_printf(out, "</summary>");
		if (j->front.latest)
			body_of(p, j->front.latest);
		buf_printf(out, "<p class=\"soft\">All of it: <code>%ss/", job_noun(j));
		html_text(out, j->name, PAGE_NAME_MAX);
		buf_printf(out, "/</code>, where reads wait for its end</p></details>\n");
	}
	if (s->njobs > n)
		buf_printf(out, "<p class=\"calm\">and %u older ones</p>\n", s->njobs - n);
}
