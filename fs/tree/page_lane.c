/* SPDX-License-Identifier: Apache-2.0 */
/* A time line. See page_lane.h. */
#include "page_lane.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "html.h"
#include "page.h"

#define WIDTH	  1000.0
/* Bytes in a bar's title: of code, and of its summary. */
#define CODE_MAX  60u
#define TITLE_MAX 200u

void lanes_will_show(struct lanes *l, const struct timespec *t)
{
	if (t->tv_sec && l->n < LANES_STARTS)
		l->at[l->n++] = t->tv_sec;
}

static int newest_first(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x < y) - (x > y);
}

/* Where nine tenths of what there is can be seen, as a round number of seconds. */
static uint64_t span_of(struct lanes *l)
{
	static const uint32_t round[] = {60,	300,	900,	3600,	 10800,	 43200,
					 86400, 259200, 604800, 2592000, 7776000};
	int64_t age;

	if (!l->n)
		return round[0];
	qsort(l->at, l->n, sizeof(l->at[0]), newest_first);
	age = (int64_t)l->p->now.tv_sec - l->at[(l->n - 1) * 9 / 10];
	for (size_t i = 0; i < ARRAY_SIZE(round); i++) {
		if (age < (int64_t)round[i])
			return round[i];
	}
	return (uint64_t)age + 1;
}

static void axis_label(struct buf *out, uint64_t ago_s)
{
	if (ago_s >= 172800)
		buf_printf(out, "<span>\xe2\x88\x92%" PRIu64 " d</span>", ago_s / 86400);
	else if (ago_s >= 7200)
		buf_printf(out, "<span>\xe2\x88\x92%" PRIu64 " h</span>", ago_s / 3600);
	else if (ago_s >= 120)
		buf_printf(out, "<span>\xe2\x88\x92%" PRIu64 " min</span>", ago_s / 60);
	else
		buf_printf(out, "<span>\xe2\x88\x92%" PRIu64 " s</span>", ago_s);
}

void lanes_begin(struct lanes *l)
{
	struct buf *out = l->p->out;

	l->span_s = span_of(l);
	buf_printf(out, "<div class=\"lanes card\"><div class=\"lane axis\"><span></span><div>");
	for (unsigned i = 0; i < 4; i++)
		axis_label(out, l->span_s * (4 - i) / 4);
	buf_printf(out, "<span>now</span></div><span></span></div>\n");
}

void lanes_end(struct lanes *l)
{
	buf_printf(l->p->out,
		   "</div>\n<p class=\"legend\">Bars:<span class=\"key done\"></span>exit 0"
		   "<span class=\"key exit\"></span>another exit status"
		   "<span class=\"key timeout\"></span>timeout, killed"
		   "<span class=\"key lost\"></span>oom, lost, refused"
		   "<span class=\"key running\"></span>running"
		   "<span class=\"key wait\"></span>queued"
		   ". | a checkpoint. Point at one, or touch it.</p>\n<p id=\"tip\" "
		   "aria-live=\"polite\" "
		   "class=\"foreign\"></p>\n");
}

void lane_begin(struct lanes *l)
{
	for (unsigned i = 0; i <= RUN_NSTATES; i++)
		l->tally[i] = 0;
	l->bars = 0;
	buf_printf(l->p->out, "<div class=\"lane\"><div>");
}

void lane_bars(struct lanes *l)
{
	buf_printf(l->p->out, "</div><svg viewBox=\"0 0 1000 22\" preserveAspectRatio=\"none\">");
	for (unsigned i = 1; i < 4; i++)
		buf_printf(l->p->out, "<path class=\"tick\" d=\"M%u 0V22\"/>", i * 250);
}

/* Where a time is on the line; below 0: before it. */
static double place(const struct lanes *l, const struct timespec *t)
{
	const struct timespec *now = &l->p->now;
	const double ago =
		(double)(now->tv_sec - t->tv_sec) + (double)(now->tv_nsec - t->tv_nsec) / 1e9;

	return MIN(WIDTH - ago / (double)l->span_s * WIDTH, WIDTH);
}

/* How high a bar is: what did not go well is higher. */
static unsigned height(const struct run *r)
{
	switch (r->state) {
	case RUN_QUEUED: return 4;
	case RUN_RUNNING: return 10;
	case RUN_DONE: return r->result.status ? 15 : 10;
	case RUN_TIMEOUT:
	case RUN_KILLED:
	case RUN_OOM:
	case RUN_LOST:
	case RUN_REFUSED:
	case RUN_NSTATES: break;
	}
	return 20;
}

/* Its summary, and how its code begins. */
static void title_of_own(struct buf *out, const struct run *r)
{
	const char *end = r->code.len ? memchr(r->code.data, '\n', r->code.len) : NULL;
	struct buf summary = {0};

	if (run_summary(r, &summary) < 0)
		out->failed = out->failed ? out->failed : -ENOMEM;
	html_bytes(out, summary.data, summary.len ? summary.len - 1 : 0, TITLE_MAX, false);
	buf_clear(&summary);
	if (!r->code.len)
		return;
	buf_printf(out, " \xc2\xb7 ");
	html_bytes(out, r->code.data, end ? (size_t)(end - r->code.data) : r->code.len, CODE_MAX,
		   false);
}

/* What `events` have of it. */
static void title_of_other(struct buf *out, const struct run *r)
{
	html_text(out, run_words(r).text, PAGE_NAME_MAX);
	buf_printf(out, ": %s", run_state_str(r->state));
	if (run_has_status(r))
		buf_printf(out, ", exit %u", r->result.status);
	if (!run_ended(r))
		return;
	buf_printf(out, " in ");
	page_time_span(out, r->result.wall_us);
}

void lane_run(struct lanes *l, const struct run *r, bool all)
{
	const double asked = place(l, &r->submitted);
	const double begun = r->started.tv_sec ? place(l, &r->started) : asked;
	const double ended = place(l, run_ended(r) && r->ended.tv_sec ? &r->ended : &l->p->now);
	const double from = MAX(begun, 0.0), width = MAX(ended - from, 4.0);
	const unsigned high = height(r);

	l->bars++;
	l->tally[r->state == RUN_DONE && !r->result.status ? RUN_NSTATES : r->state]++;
	if (ended < 0)
		return;
	if (begun - asked > 1)
		buf_printf(l->p->out,
			   "<rect class=\"wait\" x=\"%.1f\" y=\"9\" width=\"%.1f\" height=\"4\"/>",
			   MAX(asked, 0.0), begun - MAX(asked, 0.0));
	buf_printf(
		l->p->out,
		"<rect class=\"bar %s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%u\"><title>",
		page_run_kind(r), MIN(from, WIDTH - width), 11 - high / 2, width, high);
	(all ? title_of_own : title_of_other)(l->p->out, r);
	buf_printf(l->p->out, "</title></rect>");
}

void lane_mark(struct lanes *l, const struct timespec *t, const char *what, const char *name)
{
	const double at = place(l, t);

	if (!t->tv_sec || at < 0)
		return;
	buf_printf(l->p->out, "<path class=\"mark\" d=\"M%.1f 0V22\"><title>%s ", at, what);
	html_text(l->p->out, name, PAGE_NAME_MAX);
	buf_printf(l->p->out, "</title></path>");
}

void lane_end(struct lanes *l)
{
	struct buf *out = l->p->out;
	const char *between = "";

	buf_printf(out, "</svg><div>");
	if (!l->bars)
		buf_printf(out, "no run yet");
	for (int i = RUN_NSTATES; i >= 0; i--) {
		const char *word = i == RUN_NSTATES ? "exit 0"
				   : i == RUN_DONE  ? "other exit"
						    : run_state_str((enum run_state)i);

		if (!l->tally[i])
			continue;
		buf_printf(out, "%s%u %s", between, l->tally[i], word);
		between = ", ";
	}
	buf_printf(out, "</div></div>\n");
}
