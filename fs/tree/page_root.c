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
#include "report.h"

/*
 * Who reads it
 * ------------
 * Names, and how many sessions there are in which state, are for everybody: `ls` and status.json tell them. What a session does is
 * its owner's, and what `events` tell of it is who mounted's as well. So each user has a page of his own (its inode number, as that
 * of the root's `error`, says whose), which shows of his own sessions what their nodes would show him; to who mounted of others what
 * `events` show; and else nobody's.
 */

#define EVERY_S	      5u
#define ROWS_MAX      100u /* sessions in the table, */
#define LANES_MAX     16u  /* on the time line, */
#define BARS_MAX      32u  /* and runs of each there */
#define PROBLEMS_MAX  20u
#define TEMPLATES_MAX 40u

/* A session that may be shown. */
struct row {
	struct session *s;
	bool own, active;
	struct timespec at; /* when it was last active; or of its error */
};

struct view {
	struct page p;
	struct fs *fs;
	uid_t uid; /* whose it is */
	struct row row[ROWS_MAX], problem[PROBLEMS_MAX];
	unsigned nrows, nproblems;
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

/* Is it to stand above @other? */
static bool before(const struct row *r, const struct row *other)
{
	if (r->active != other->active)
		return r->active;
	return time_compare(&r->at, &other->at) > 0;
}

/* Puts it into its place among the first @max, if it has one there. */
static void insert(struct row *rows, unsigned *n, unsigned max, const struct row *row)
{
	unsigned i = *n < max ? (*n)++ : max;

	if (i == max && !before(row, &rows[max - 1]))
		return;
	for (i = MIN(i, max - 1); i > 0 && before(row, &rows[i - 1]); i--)
		rows[i] = rows[i - 1];
	rows[i] = *row;
}

static void collect(struct view *v)
{
	for (unsigned i = 0; i < v->fs->roster.n; i++) {
		struct session *s = roster_at(&v->fs->roster, i);
		struct row row = {.s = s, .own = s && s->uid == v->uid};

		if (!s)
			continue;
		v->total++;
		v->state[s->state]++;
		if (!row.own && v->uid != v->fs->uid)
			continue;
		v->shown_to++;
		row.active = s->state == SESSION_STARTING || s->state == SESSION_RUNNING ||
			     s->state == SESSION_PAUSED || s->jobs_going;
		row.at = last_active(s);
		insert(v->row, &v->nrows, ROWS_MAX, &row);
		if (!row.own || !problem_kept(&s->front.error)->code)
			continue;
		v->problems++;
		row.active = false;
		row.at = s->front.error_mtime;
		insert(v->problem, &v->nproblems, PROBLEMS_MAX, &row);
	}
}

/* ---- the top ---- */

static void header(struct view *v, const struct vm_status *st)
{
	struct buf *out = v->p.out;
	struct vm_store_status store;
	const uint64_t up_s = (uv_now(v->fs->loop) - v->fs->started_ms) / 1000;

	vm_store_status(v->fs->vm, &store);
	buf_printf(out, "<h1>xsbxfs <small class=\"foreign\">");
	html_text(out, v->fs->conf->mountpoint, PAGE_NAME_MAX);
	buf_printf(out, "</small></h1><div class=\"right\"><span>as of ");
	page_ago(&v->p, &v->p.now);
	buf_printf(out,
		   ", %02u:%02u:%02u UTC</span></div>\n</header>\n<ul class=\"facts\"><li>version "
		   "<b>%s</b></li><li>up <b>",
		   (unsigned)(v->p.now.tv_sec / 3600 % 24), (unsigned)(v->p.now.tv_sec / 60 % 60),
		   (unsigned)(v->p.now.tv_sec % 60), XSBX_VERSION);
	page_time_span(out, up_s * 1000000);
	buf_printf(out, "</b></li><li>accelerator <b>");
	html_text(out, st->accel, PAGE_NAME_MAX);
	buf_printf(out, "</b>: <span class=\"foreign\">");
	html_text(out, st->accel_why, PAGE_LINE_MAX);
	buf_printf(out, "</span></li><li>QEMU <b class=\"foreign\">");
	html_text(out, st->qemu, PAGE_NAME_MAX);
	buf_printf(out, "</b></li><li>the daemon's death is <b>%s</b></li>",
		   turn_is_on(v->fs->touched.turn) && !v->fs->unheld ? "survived" : "the end");
	if (store.url)
		buf_printf(out, "<li>store <b>%s</b></li>", store.state);
	buf_printf(out, "</ul>\n");
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

static void tile_sandboxes(struct buf *out, const struct vm_status *st,
			   const struct vm_admission *a)
{
	page_tile(out, "Sandboxes, admission");
	buf_printf(out, "<div class=\"big\">%u <small>of %u places</small></div>", st->running,
		   a->places);
	page_meter(out, "places taken", st->running, 0, a->places);
	buf_printf(out, "<p>%u starting, %u closing, %u at rest</p><p>", a->starting, a->closing,
		   st->still);
	if (a->waiting) {
		buf_printf(out, "<b>%u waiting</b> for ", a->waiting);
		html_text(out, a->lack, PAGE_NAME_MAX);
	} else {
		buf_printf(out, "none waits");
	}
	buf_printf(out, "; %" PRIu64 " refused</p>", a->refused);
	page_tile_end(out);
}

static void tile_memory(struct buf *out, const struct vm_admission *a)
{
	page_tile(out, "Memory");
	buf_printf(out, "<div class=\"big\">");
	page_bytes(out, a->promised_mb << 20);
	buf_printf(out, " <small>promised of ");
	page_bytes(out, a->memory_mb << 20);
	buf_printf(out, "</small></div>");
	page_meter(out, "memory promised or held by snapshots", a->promised_mb, a->snapshots_mb,
		   a->memory_mb);
	buf_printf(out, "<p>snapshots hold ");
	page_bytes(out, a->snapshots_mb << 20);
	buf_printf(out, "</p><p>this host: ");
	page_bytes(out, a->available_mb << 20);
	buf_printf(out, " available of ");
	page_bytes(out, a->host_mb << 20);
	if (a->pressure_known)
		buf_printf(out, ", pressure %u.%02u %%", a->pressure / 100, a->pressure % 100);
	buf_printf(out, "</p>");
	page_tile_end(out);
}

static void tile_processors(struct buf *out, const struct vm_admission *a)
{
	page_tile(out, "Processors");
	buf_printf(out, "<div class=\"big\">%u.%02u <small>of %u.%02u in use</small></div>",
		   a->cpus_used / 100, a->cpus_used % 100, a->cpus / 100, a->cpus % 100);
	page_meter(out, "processors in use", a->cpus_used, 0, a->cpus);
	buf_printf(out, "<p>");
	page_count(out, a->runs, "run");
	buf_printf(out, " going, %u waiting for one</p>", a->runs_waiting);
	page_tile_end(out);
}

struct pools {
	unsigned ready, target, filling, standby;
	uint64_t hits, misses;
};

static void add_pool(void *data, const struct vm_template_status *st)
{
	struct pools *p = data;

	p->ready += st->ready;
	p->target += st->pool;
	p->filling += st->filling;
	p->standby += st->standby;
	p->hits += st->hits;
	p->misses += st->misses;
}

static void tile_pool(struct view *v)
{
	struct buf *out = v->p.out;
	struct pools p = {0};

	vm_templates(v->fs->vm, add_pool, &p);
	page_tile(out, "Pool");
	buf_printf(out, "<div class=\"big\">%u <small>ready of %u</small></div>", p.ready,
		   p.target);
	page_meter(out, "pool filled", p.ready, p.filling, MAX(p.target, p.ready + p.filling));
	buf_printf(out,
		   "<p>%u being made, %u in reserve</p><p>%" PRIu64 " taken, %" PRIu64
		   " times none was there</p>",
		   p.filling, p.standby, p.hits, p.misses);
	page_tile_end(out);
}

static void tile_runs(struct view *v)
{
	const uint64_t *runs = v->fs->stats.runs;
	struct buf *out = v->p.out;
	uint64_t all = 0;

	for (int i = RUN_DONE; i < RUN_NSTATES; i++)
		all += runs[i];
	page_tile(out, "Runs since the mount");
	buf_printf(out, "<div class=\"big\">%" PRIu64 "</div><div class=\"chips\">", all);
	for (int i = RUN_DONE; i < RUN_NSTATES; i++) {
		const char *word = run_state_str((enum run_state)i);

		if (runs[i])
			buf_printf(out, "<span class=\"state %s\">%" PRIu64 " %s</span>", word,
				   runs[i], word);
	}
	buf_printf(out, "</div><p>output: ");
	page_bytes(out, v->fs->stats.output_bytes);
	buf_printf(out, "</p>");
	page_tile_end(out);
}

/* ---- what is wrong ---- */

struct troubles {
	struct buf *out;
	unsigned n;
};

/* What has no code: of an image, a snapshot, the store. */
static void trouble(struct troubles *t, const char *what, const char *name, const char *why)
{
	if (t->n++ >= PROBLEMS_MAX)
		return;
	buf_printf(t->out, "<li class=\"card\"><div>%s <bdi>", what);
	html_text(t->out, name, PAGE_NAME_MAX);
	buf_printf(t->out, "</bdi></div><div class=\"foreign\">");
	html_text(t->out, why, PAGE_LINE_MAX);
	buf_printf(t->out, "</div></li>\n");
}

static void add_snapshot_trouble(void *data, const struct vm_template_status *st)
{
	if (*st->problem)
		trouble(data, "snapshot of image", st->image, st->problem);
}

static void troubles_of_mount(struct view *v, struct troubles *t)
{
	const struct conf *conf = v->fs->conf;
	struct vm_store_status store;

	for (size_t i = 0; i < conf->ntemplates; i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;
		struct vm_image_status image;

		if (spec->backend == VM_PROCESS && !spec->image_view)
			continue;
		vm_image_status(v->fs->vm, spec->image, &image);
		if (*image.problem)
			trouble(t, "image of template", conf->template[i].name, image.problem);
	}
	vm_templates(v->fs->vm, add_snapshot_trouble, t);
	vm_store_status(v->fs->vm, &store);
	if (store.url && *store.problem)
		trouble(t, "store", "", store.problem);
}

static void problems(struct view *v)
{
	const struct complaint *c = complaint_of(v->fs, v->uid);
	struct buf *out = v->p.out;
	struct troubles t = {.out = out};

	buf_printf(out, "<h2>What needs attention</h2>\n<ul class=\"problems\">\n");
	if (c && c->problem.code)
		page_problem(out, "this mount", NULL, &c->problem);
	for (unsigned i = 0; i < v->nproblems; i++)
		page_problem(out, "session", v->problem[i].s->path,
			     problem_kept(&v->problem[i].s->front.error));
	if (v->problems > v->nproblems)
		buf_printf(
			out,
			"<li class=\"calm\">and %u more sessions have an <code>error</code></li>\n",
			v->problems - v->nproblems);
	troubles_of_mount(v, &t);
	if (t.n > PROBLEMS_MAX)
		buf_printf(out,
			   "<li class=\"calm\">and %u more, in <code>status.json</code></li>\n",
			   t.n - PROBLEMS_MAX);
	buf_printf(out, "</ul>\n");
	if (!v->problems && !t.n && !(c && c->problem.code))
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
	const unsigned n = MIN(v->nrows, LANES_MAX);
	struct lanes l = {.p = &v->p};
	const struct run *r;
	unsigned shown;

	for (unsigned i = 0; i < n; i++) {
		shown = 0;
		TAILQ_FOREACH_REVERSE(r, &v->row[i].s->runs, run_list, link)
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
		if (!TAILQ_EMPTY(&v->row[i].s->runs))
			lane(&l, &v->row[i]);
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
	if (v->nrows)
		buf_printf(
			out,
			"<div class=\"table card\"><table><thead><tr><th>Session</th><th>State</th>"
			"<th>Last run</th><th class=\"num\">Runs</th><th class=\"num\">Memory"
			"</th><th class=\"num\">Last active</th></tr></thead><tbody>\n");
	for (unsigned i = 0; i < v->nrows; i++)
		table_row(v, &v->row[i]);
	if (v->nrows)
		buf_printf(out, "</tbody></table></div>\n");
	else
		buf_printf(out, "<p class=\"calm card\">You have none. One is made by "
				"<code>mkdir</code> below a template.</p>\n");
	if (v->shown_to > v->nrows)
		buf_printf(out,
			   "<p class=\"calm\">and %u more, which were active before these: "
			   "<code>ls -t</code></p>\n",
			   v->shown_to - v->nrows);
	if (v->total > v->shown_to)
		buf_printf(out, "<p class=\"calm\">and %u of other users</p>\n",
			   v->total - v->shown_to);
}

/* ---- templates, and the end ---- */

static void templates(struct view *v)
{
	const struct conf *conf = v->fs->conf;
	struct buf *out = v->p.out;

	buf_printf(out,
		   "<h2>Templates</h2>\n<div class=\"table card\"><table><thead><tr>"
		   "<th>Template</th><th>Language</th><th>Backend</th><th class=\"num\">Memory</th>"
		   "<th>Image</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < MIN(conf->ntemplates, (size_t)TEMPLATES_MAX); i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;
		struct vm_image_status image;

		vm_image_status(v->fs->vm, spec->image, &image);
		buf_printf(out, "<tr><td>");
		page_link(out, conf->template[i].name, "/");
		buf_printf(out,
			   "</td><td data-is=\"language\">%s</td><td data-is=\"backend\">%s</td>"
			   "<td class=\"num\" data-is=\"memory\">",
			   spec->language, spec_backend_str(spec->backend));
		page_bytes(out, (uint64_t)spec->memory_mb << 20);
		buf_printf(out, "</td><td data-is=\"image\">%s <span class=\"soft foreign\">",
			   spec->backend == VM_PROCESS && !spec->image_view ? "not needed"
									    : image.state);
		html_text(out, image.step, PAGE_NAME_MAX);
		buf_printf(out, "</span></td></tr>\n");
	}
	buf_printf(out, "</tbody></table></div>\n");
	if (conf->ntemplates > TEMPLATES_MAX)
		buf_printf(out, "<p class=\"calm\">and %zu more</p>\n",
			   conf->ntemplates - TEMPLATES_MAX);
}

static int isolation(const struct node *n, struct buf *out)
{
	struct buf text = {0};
	const int e = report_isolation(n, &text);

	buf_printf(out,
		   "<h2>Isolation</h2>\n<details class=\"card\" id=\"isolation\"><summary>What is "
		   "enforced on this host, layer by layer</summary><pre class=\"foreign\">");
	html_bytes(out, text.data, text.len, 16384, true);
	buf_printf(out, "</pre></details>\n");
	buf_clear(&text);
	return e;
}

int page_root(const struct node *n, struct buf *out)
{
	struct view *v = calloc(1, sizeof(*v));
	struct vm_admission a;
	struct vm_status st;
	int e;

	if (!v)
		return -ENOMEM;
	v->fs = n->fs;
	v->uid = n->sub;
	vm_status(n->fs->vm, &st);
	vm_admission(n->fs->vm, &a);
	collect(v);
	page_begin(&v->p, out, "xsbxfs", EVERY_S);
	header(v, &st);
	buf_printf(out, "<div class=\"tiles\">\n");
	tile_sessions(v);
	tile_sandboxes(out, &st, &a);
	tile_memory(out, &a);
	tile_processors(out, &a);
	tile_pool(v);
	tile_runs(v);
	buf_printf(out, "</div>\n");
	problems(v);
	time_line(v);
	table(v);
	templates(v);
	e = isolation(n, out);
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
