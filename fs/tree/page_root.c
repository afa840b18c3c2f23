/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of the mount. */
#include "nodes.h"

#include <errno.h>
#include <inttypes.h>

#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "html.h"
#include "page.h"
#include "page_lane.h"
#include "page_mount.h"

/*
 * Who reads it
 * ------------
 * Names, and how many sessions there are in which state, are for everybody: `ls` and status.json tell them. What a session does is
 * its owner's, and what `events` tell of it is who mounted's as well. So each user has a page of his own (its inode number, as that
 * of the root's `error`, says whose), which shows of his own sessions what their nodes would show him; to who mounted of others what
 * `events` show; and else nobody's.
 */

#define EVERY_S	     5u
#define ROWS_MAX     100u /* sessions in the table, */
#define LANES_MAX    16u  /* on the time line, */
#define BARS_MAX     32u  /* and runs of each there */
#define PROBLEMS_MAX 20u

/* A session that may be shown. */
struct row {
	struct session *s;
	bool own, active;
	struct timespec at; /* when it was last active; or of its error */
};

struct rows {
	unsigned n, max;
	bool cut; /* there were more, all of them behind the first @max */
	struct row row[2 * ROWS_MAX];
};

struct view {
	struct page p;
	struct fs *fs;
	uid_t uid; /* whose it is */
	struct rows rows, problem;
	unsigned state[SESSION_NSTATES];    /* of all sessions */
	unsigned total, shown_to, problems; /* all; those that may be shown, and have an error */
};

static void later(struct timespec *t, const struct timespec *other)
{
	if (time_compare(other, t) > 0)
		*t = *other;
}

static struct timespec last_active(const struct session *s)
{
	const struct run *r = s->front.latest;
	struct timespec t = s->state_mtime;

	later(&t, &s->created);
	later(&t, &s->front.error_mtime);
	if (r) {
		later(&t, &r->submitted);
		later(&t, &r->ended);
	}
	return t;
}

/* Those that are active first, then those that were active last. */
static int by_interest(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->active != y->active)
		return x->active ? -1 : 1;
	return time_compare(&y->at, &x->at);
}

/* Only the first of them are kept. */
static void settle(struct rows *rows)
{
	qsort(rows->row, rows->n, sizeof(rows->row[0]), by_interest);
	rows->n = MIN(rows->n, rows->max);
}

/* Of many it is not known which are the first until all were seen; but there is never more than twice what is wanted. */
static void insert(struct rows *rows, const struct row *row)
{
	if (rows->cut && by_interest(row, &rows->row[rows->max - 1]) >= 0)
		return;
	if (rows->n == 2 * rows->max) {
		settle(rows);
		rows->cut = true;
	}
	rows->row[rows->n++] = *row;
}

/* It may be shown to who reads this. */
static void take(struct view *v, struct session *s, bool own)
{
	struct row row = {.s = s, .own = own, .at = last_active(s)};

	row.active = s->state == SESSION_STARTING || s->state == SESSION_RUNNING ||
		     s->state == SESSION_PAUSED || s->jobs_going;
	v->shown_to++;
	insert(&v->rows, &row);
	if (!own || !problem_kept(&s->front.error)->code)
		return;
	v->problems++;
	row.active = false;
	row.at = s->front.error_mtime;
	insert(&v->problem, &row);
}

static void collect(struct view *v)
{
	v->rows.max = ROWS_MAX;
	v->problem.max = PROBLEMS_MAX;
	for (unsigned i = 0; i < v->fs->roster.n; i++) {
		struct session *s = roster_at(&v->fs->roster, i);

		if (!s)
			continue;
		v->total++;
		v->state[s->state]++;
		if (s->uid == v->uid || v->uid == v->fs->uid)
			take(v, s, s->uid == v->uid);
	}
	settle(&v->rows);
	settle(&v->problem);
}

static void tile_sessions(struct view *v)
{
	struct buf *out = v->p.out;

	page_tile(out, "Sessions");
	buf_printf(out, "<div class=\"big\">%u</div><div class=\"chips\">", v->total);
	for (int i = 0; i < SESSION_NSTATES; i++) {
		const char *word = session_state_str((enum session_state)i);

		if (v->state[i])
			buf_printf(out, "<span class=\"state %s\">%u %s</span>", word, v->state[i],
				   word);
	}
	buf_printf(out, "</div>");
	page_tile_end(out);
}

/* ---- what is wrong ---- */

static void problems(struct view *v)
{
	const struct complaint *c = complaint_of(v->fs, v->uid);
	struct buf *out = v->p.out;
	unsigned n;

	buf_printf(out, "<h2>What needs attention</h2>\n<ul class=\"problems\">\n");
	if (c && c->problem.code)
		page_problem(out, "This mount:", NULL, &c->problem);
	for (unsigned i = 0; i < v->problem.n; i++)
		page_problem(out, "session", v->problem.row[i].s->path,
			     problem_kept(&v->problem.row[i].s->front.error));
	if (v->problems > v->problem.n)
		buf_printf(
			out,
			"<li class=\"calm\">and %u more sessions have an <code>error</code></li>\n",
			v->problems - v->problem.n);
	n = page_mount_troubles(&v->p, v->fs);
	buf_printf(out, "</ul>\n");
	if (!v->problems && !n && !(c && c->problem.code))
		buf_printf(
			out,
			"<p class=\"calm card\">Nothing. <a href=\"./doctor\">doctor</a> looks at "
			"this host.</p>\n");
}

/* ---- sessions ---- */

static void name_of(struct buf *out, const struct row *row)
{
	if (row->own) {
		page_link(out, row->s->path, "/status.html");
		return;
	}
	buf_printf(out, "<bdi>");
	html_text(out, row->s->path, PAGE_NAME_MAX);
	buf_printf(out, "</bdi> <small class=\"soft\">of user %u</small>", (unsigned)row->s->uid);
}

static void lane(struct lanes *l, const struct row *row)
{
	const struct run *r;
	unsigned n = 0;

	lane_begin(l);
	name_of(l->p->out, row);
	lane_bars(l);
	TAILQ_FOREACH_REVERSE(r, &row->s->runs, run_list, link)
		if (n++ < BARS_MAX)
			lane_run(l, r, row->own);
		else
			break;
	lane_end(l);
}

static void time_line(struct view *v)
{
	const unsigned n = MIN(v->rows.n, LANES_MAX);
	struct lanes l = {.p = &v->p};
	const struct run *r;
	unsigned shown;

	for (unsigned i = 0; i < n; i++) {
		shown = 0;
		TAILQ_FOREACH_REVERSE(r, &v->rows.row[i].s->runs, run_list, link)
			if (shown++ < BARS_MAX)
				lanes_will_show(&l, &r->submitted);
			else
				break;
	}
	if (!n || !l.n)
		return;
	buf_printf(v->p.out, "<h2>Last runs</h2>\n");
	lanes_begin(&l);
	for (unsigned i = 0; i < n; i++)
		if (!TAILQ_EMPTY(&v->rows.row[i].s->runs))
			lane(&l, &v->rows.row[i]);
	lanes_end(&l);
}

static void last_run(struct view *v, const struct row *row)
{
	const struct run *r = row->s->front.latest;
	struct buf *out = v->p.out;
	const char *end;

	if (!r)
		return;
	page_run_state(out, r);
	if (run_ended(r) && r->started.tv_sec) {
		buf_printf(out, " in ");
		page_time_span(out, r->result.wall_us);
	}
	if (!row->own || !r->code.len)
		return;
	end = memchr(r->code.data, '\n', r->code.len);
	buf_printf(out, " <code class=\"code foreign\">");
	html_bytes(out, r->code.data, end ? (size_t)(end - r->code.data) : r->code.len, 120, false);
	buf_printf(out, "</code>");
}

static void memory_of(struct buf *out, const struct row *row)
{
	struct sandbox_usage u;

	if (!row->own)
		return;
	if (row->s->sandbox && sandbox_usage(row->s->sandbox, &u) == 0) {
		page_bytes(out, (u.mem_total_kib - MIN(u.mem_available_kib, u.mem_total_kib))
					<< 10);
		buf_printf(out, " of ");
	}
	page_bytes(out, (uint64_t)row->s->settings.spec.memory_mb << 20);
}

static void table_row(struct view *v, const struct row *row)
{
	struct buf *out = v->p.out;
	const char *word = session_state_str(row->s->state);

	buf_printf(out, "<tr><td>");
	name_of(out, row);
	buf_printf(out, "</td><td>");
	page_state(out, word, word);
	if (row->s->jobs_going && row->own) {
		buf_printf(out, " ");
		page_count(out, row->s->jobs_going, "job");
	}
	buf_printf(out, "</td><td data-is=\"last run\">");
	last_run(v, row);
	buf_printf(out,
		   "</td><td class=\"num\" data-is=\"runs\">%" PRIu32
		   "</td><td class=\"num\" data-is=\"memory\">",
		   row->s->last_number);
	memory_of(out, row);
	buf_printf(out, "</td><td class=\"num\" data-is=\"last active\">");
	page_ago(&v->p, &row->at);
	buf_printf(out, "</td></tr>\n");
}

static void table(struct view *v)
{
	struct buf *out = v->p.out;

	buf_printf(out, "<h2>Sessions</h2>\n");
	if (v->rows.n)
		buf_printf(
			out,
			"<div class=\"table card\"><table><thead><tr><th>Session</th><th>State</th>"
			"<th>Last run</th><th class=\"num\">Runs</th><th class=\"num\">Memory"
			"</th><th class=\"num\">Last active</th></tr></thead><tbody>\n");
	for (unsigned i = 0; i < v->rows.n; i++)
		table_row(v, &v->rows.row[i]);
	if (v->rows.n)
		buf_printf(out, "</tbody></table></div>\n");
	else
		buf_printf(out, "<p class=\"calm card\">You have none. One is made by "
				"<code>mkdir</code> below a template.</p>\n");
	if (v->shown_to > v->rows.n)
		buf_printf(out,
			   "<p class=\"calm\">and %u more, which were active before these: "
			   "<code>ls -t</code></p>\n",
			   v->shown_to - v->rows.n);
	if (v->total > v->shown_to)
		buf_printf(out, "<p class=\"calm\">and %u of other users</p>\n",
			   v->total - v->shown_to);
}

int page_root(const struct node *n, struct buf *out)
{
	struct view *v = calloc(1, sizeof(*v));
	int e;

	if (!v)
		return -ENOMEM;
	v->fs = n->fs;
	v->uid = n->sub;
	collect(v);
	page_begin(&v->p, out, "xsbxfs", EVERY_S);
	page_mount_header(&v->p, n->fs);
	buf_printf(out, "<div class=\"tiles\">\n");
	tile_sessions(v);
	page_mount_tiles(&v->p, n->fs);
	buf_printf(out, "</div>\n");
	problems(v);
	time_line(v);
	table(v);
	page_mount_templates(&v->p, n->fs);
	e = page_mount_isolation(&v->p, n);
	buf_printf(
		out,
		"<footer><p>The same for programs: <a href=\"./status.json\">status.json</a>, "
		"<a href=\"./metrics\">metrics</a>, <code>events</code> (a read of it waits). "
		"<a href=\"./doctor\">doctor</a> and <a href=\"./isolation\">isolation</a> tell of "
		"this host. man 5 xsbxfs</p></footer>\n");
	if (e == 0)
		e = page_end(&v->p);
	free(v);
	return e;
}
