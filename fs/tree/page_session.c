/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of a session. */
#include "nodes.h"

#include <errno.h>
#include <inttypes.h>

#include "fs/session/binding.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/session.h"
#include "html.h"
#include "page.h"
#include "page_lane.h"

#define EVERY_S		 3u
#define RUNS_MAX	 20u /* with code and outputs, */
#define JOBS_MAX	 20u /* likewise, */
#define CHECKPOINTS_MAX_ 40u
#define BARS_MAX	 128u  /* on the time line, */
#define LANES_MAX	 12u   /* of the session, and of jobs */
#define TAIL_MAX	 3000u /* bytes that are read of the end of stderr */

/* ---- the top ---- */

static void header(struct page *p, struct session *s)
{
	const struct sandbox_info *i = &s->info;
	const char *word = session_state_str(s->state);
	struct buf *out = p->out;

	buf_printf(out, "<h1><bdi>");
	html_text(out, s->path, PAGE_NAME_MAX);
	buf_printf(out, "</bdi> ");
	page_state(out, word, word);
	buf_printf(out, "</h1><div class=\"right\"><span>as of ");
	page_ago(p, &p->now);
	buf_printf(out,
		   ", %02u:%02u:%02u UTC</span></div>\n</header>\n<ul class=\"facts\"><li>made <b>",
		   (unsigned)(p->now.tv_sec / 3600 % 24), (unsigned)(p->now.tv_sec / 60 % 60),
		   (unsigned)(p->now.tv_sec % 60));
	page_ago(p, &s->created);
	buf_printf(out, "</b></li><li>%s since <b>", word);
	page_ago(p, &s->state_mtime);
	buf_printf(out, "</b></li>");
	if (*s->origin.session) {
		buf_printf(out, "<li>a copy of <b class=\"foreign\">");
		html_text(out, s->origin.session, PAGE_NAME_MAX);
		buf_printf(out, "%s", *s->origin.checkpoint ? "@" : "");
		html_text(out, s->origin.checkpoint, PAGE_NAME_MAX);
		buf_printf(out, "</b></li>");
	}
	if (i->backend) {
		buf_printf(out, "<li>%s sandbox <b>%s</b>, started <b>", s->sandbox ? "" : "last",
			   i->backend);
		html_text(out, i->start, PAGE_NAME_MAX);
		buf_printf(out, "</b> in <b>");
		page_time_span(out, (i->boot_ms + i->setup_ms) * 1000);
		buf_printf(out, "</b></li><li class=\"foreign\">");
		html_text(out, i->interpreter, PAGE_NAME_MAX);
		buf_printf(out, "</li>");
	}
	if (s->sandbox && i->stands_still)
		buf_printf(out, "<li>its machine has nothing to do</li>");
	buf_printf(out, "</ul>\n");
}

static void waiting(struct page *p, struct session *s)
{
	struct sandbox_wait w;

	if (!s->sandbox || !sandbox_waits(s->sandbox, &w))
		return;
	buf_printf(p->out, "<p class=\"calm card\">Waits for a %s, %u of %u, since ", w.what,
		   w.turn, w.of);
	page_time_span(p->out, w.ms * 1000);
	buf_printf(p->out, ": <span class=\"foreign\">");
	html_text(p->out, w.why, PAGE_LINE_MAX);
	buf_printf(p->out, "</span></p>\n");
}

static void tile_runs(struct buf *out, const struct session *s)
{
	page_tile(out, "Runs");
	buf_printf(out,
		   "<div class=\"big\">%" PRIu32
		   "</div><p>%u queued, %u kept below <a href=\"./runs/\">runs/"
		   "</a>, %" PRIu32 " removed</p><p>",
		   s->last_number, s->nqueued, s->nruns, s->removed_runs);
	page_count(out, s->njobs, "job");
	buf_printf(out, ", %u going</p>", s->jobs_going);
	page_tile_end(out);
}

static void tile_memory(struct buf *out, const struct session *s, const struct sandbox_usage *u)
{
	const uint64_t used =
		u ? u->mem_total_kib - MIN(u->mem_available_kib, u->mem_total_kib) : 0;

	page_tile(out, "Memory");
	buf_printf(out, "<div class=\"big\">");
	if (u)
		page_bytes(out, used << 10);
	else
		buf_printf(out, "\xe2\x80\x93");
	buf_printf(out, " <small>of ");
	page_bytes(out, (uint64_t)s->settings.spec.memory_mb << 20);
	buf_printf(out, "</small></div>");
	page_meter(out, "memory used inside", used, 0, u ? u->mem_total_kib : 1);
	if (s->sandbox && s->info.rss_kib) {
		buf_printf(out, "<p>on this host: ");
		page_bytes(out, s->info.rss_kib << 10);
		buf_printf(out, "</p>");
	}
	page_tile_end(out);
}

static void tile_processors(struct buf *out, const struct session *s, const struct sandbox_usage *u)
{
	page_tile(out, "Processors");
	buf_printf(out, "<div class=\"big\">%u</div><p>", s->settings.spec.cpus);
	if (u) {
		page_time_span(out, u->cpu_us);
		buf_printf(out, " used, %u process%s", u->processes, u->processes == 1 ? "" : "es");
	} else {
		buf_printf(out, "no sandbox now");
	}
	buf_printf(out, "</p>");
	page_tile_end(out);
}

static void tile_files(struct buf *out, const struct sandbox_usage *u)
{
	page_tile(out, "Files");
	buf_printf(out, "<div class=\"big\">");
	if (u) {
		page_bytes(out, u->files_used);
		buf_printf(out, " <small>of ");
		page_bytes(out, u->files_total);
		buf_printf(out, "</small>");
	} else {
		buf_printf(out, "\xe2\x80\x93");
	}
	buf_printf(out, "</div>");
	page_meter(out, "room used below files/", u ? u->files_used : 0, 0, u ? u->files_total : 1);
	buf_printf(out, "<p>");
	if (u) {
		page_count(out, u->inodes_used, "file");
		buf_printf(out, " of %" PRIu64 ", ", u->inodes_total);
	}
	buf_printf(out, "<a href=\"./files/\">files/</a></p>");
	page_tile_end(out);
}

static void tile_network(struct buf *out, const struct session *s)
{
	struct sandbox_traffic t;

	page_tile(out, "Network");
	buf_printf(out, "<div class=\"big\">%s</div><p>", s->settings.spec.network ? "on" : "off");
	if (s->sandbox && sandbox_traffic(s->sandbox, &t) == 0) {
		page_bytes(out, t.bytes_in);
		buf_printf(out, " in, ");
		page_bytes(out, t.bytes_out);
		buf_printf(out, " out, %u open</p><p>", t.open);
	}
	buf_printf(out, "<a href=\"./net/denied\">%" PRIu64 " refused</a></p>", s->netlog.total);
	page_tile_end(out);
}

static void tile_saved(struct page *p, const struct session *s)
{
	struct buf *out = p->out;
	uint64_t bytes = 0;
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		bytes += checkpoint_bytes(cp);
	page_tile(out, "Saved");
	buf_printf(out, "<div class=\"big\">");
	page_count(out, s->checkpoints.n, "checkpoint");
	buf_printf(out, "</div><p>");
	page_bytes(out, bytes);
	if (s->state == SESSION_ASLEEP) {
		buf_printf(out, ", asleep since ");
		page_ago(p, &s->asleep.since);
	}
	buf_printf(out, "</p>");
	page_tile_end(out);
}

static void tiles(struct page *p, struct session *s)
{
	struct sandbox_usage usage;
	const struct sandbox_usage *u =
		s->sandbox && sandbox_usage(s->sandbox, &usage) == 0 ? &usage : NULL;
	const unsigned reached = u ? u->reached : 0;
	struct buf *out = p->out;

	buf_printf(out, "<div class=\"tiles\">\n");
	tile_runs(out, s);
	tile_memory(out, s, u);
	tile_processors(out, s, u);
	tile_files(out, u);
	tile_network(out, s);
	tile_saved(p, s);
	buf_printf(out, "</div>\n");
	if (reached)
		buf_printf(out,
			   "<p class=\"calm card\"><b>Limits that were reached:</b>%s%s%s</p>\n",
			   reached & VM_REACHED_FILES ? " <code>files_mb</code>" : "",
			   reached & VM_REACHED_INODES ? " <code>files_inodes</code>" : "",
			   reached & VM_REACHED_PROCESSES ? " <code>processes</code>" : "");
}

static void problems(struct page *p, const struct session *s)
{
	const struct problem *e = problem_kept(&s->front.error), *closed = problem_kept(&s->closed);
	const bool both = s->state == SESSION_CLOSED && closed->code && closed->code != e->code;

	if (!e->code && !both)
		return;
	buf_printf(p->out, "<h2>What went wrong</h2>\n<ul class=\"problems\">\n");
	if (e->code)
		page_problem(p->out, "the last error,", NULL, e);
	if (both)
		page_problem(p->out, "why it is closed,", NULL, closed);
	buf_printf(p->out, "</ul>\n");
}

/* ---- the time line ---- */

static void lane_of_runs(struct lanes *l, const struct session *s)
{
	const struct checkpoint *cp;
	const struct run *r;
	unsigned n = 0;

	lane_begin(l);
	buf_printf(l->p->out, "runs");
	lane_bars(l);
	TAILQ_FOREACH_REVERSE(r, &s->runs, run_list, link)
		if (n++ < BARS_MAX)
			lane_run(l, r, true);
		else
			break;
	n = 0;
	TAILQ_FOREACH_REVERSE(cp, &s->checkpoints.list, checkpoint_list, link)
		if (n++ < CHECKPOINTS_MAX_)
			lane_mark(l, &cp->time, "checkpoint", cp->name);
		else
			break;
	lane_end(l);
}

/* A job that is no named run, whose run is on the session's lane. */
static bool has_lane(const struct job *j)
{
	return !j->of_session && j->front.latest;
}

static void time_line(struct page *p, const struct session *s)
{
	struct lanes l = {.p = p};
	const struct run *r;
	const struct job *j;
	unsigned n = 0;

	TAILQ_FOREACH_REVERSE(r, &s->runs, run_list, link)
		if (n++ < BARS_MAX)
			lanes_will_show(&l, &r->submitted);
		else
			break;
	n = 1;
	TAILQ_FOREACH_REVERSE(j, &s->jobs, job_list, link)
		if (has_lane(j) && n++ < LANES_MAX)
			lanes_will_show(&l, &j->front.latest->submitted);
	if (!l.n)
		return;
	buf_printf(p->out, "<h2>Time line</h2>\n");
	lanes_begin(&l);
	lane_of_runs(&l, s);
	n = 1;
	TAILQ_FOREACH_REVERSE(j, &s->jobs, job_list, link) {
		if (!has_lane(j) || n++ >= LANES_MAX)
			continue;
		lane_begin(&l);
		buf_printf(p->out, "job <bdi>");
		html_text(p->out, j->name, PAGE_NAME_MAX);
		buf_printf(p->out, "</bdi>");
		lane_bars(&l);
		lane_run(&l, j->front.latest, true);
		lane_end(&l);
	}
	lanes_end(&l);
}

/* ---- runs and jobs ---- */

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

static void runs(struct page *p, const struct session *s)
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

static void jobs(struct page *p, const struct session *s)
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

static void checkpoints(struct page *p, const struct session *s)
{
	struct buf *out = p->out;
	const struct checkpoint *cp;
	struct problem why;
	unsigned n = 0;

	if (TAILQ_EMPTY(&s->checkpoints.list))
		return;
	buf_printf(out,
		   "<h2>Checkpoints</h2>\n<div class=\"table card\"><table><thead><tr><th>Name</th>"
		   "<th>State</th><th class=\"num\">Size</th><th "
		   "class=\"num\">Made</th><th>Problem</th>"
		   "</tr></thead><tbody>\n");
	TAILQ_FOREACH_REVERSE(cp, &s->checkpoints.list, checkpoint_list, link) {
		const enum checkpoint_state state = checkpoint_shown(s, cp);

		if (n == CHECKPOINTS_MAX_)
			break;
		n++;
		buf_printf(out, "<tr><td class=\"foreign\">");
		html_text(out, cp->name, PAGE_NAME_MAX);
		buf_printf(out, "</td><td>");
		page_state(out, state == CHECKPOINT_WHOLE ? "done" : checkpoint_state_str(state),
			   checkpoint_state_str(state));
		buf_printf(out, "</td><td class=\"num\" data-is=\"size\">");
		page_bytes(out, checkpoint_bytes(cp));
		buf_printf(out, "</td><td class=\"num\" data-is=\"made\">");
		page_ago(p, &cp->time);
		buf_printf(out, "</td><td class=\"foreign\">");
		if (checkpoint_problem(s, cp, &why))
			html_text(out, why.cause, PAGE_LINE_MAX);
		buf_printf(out, "</td></tr>\n");
	}
	buf_printf(out, "</tbody></table></div>\n");
	if (s->checkpoints.n > n)
		buf_printf(out, "<p class=\"calm\">and %u older ones</p>\n", s->checkpoints.n - n);
}

/* ---- settings ---- */

static void setting(struct buf *out, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	buf_printf(out, "<dt><code>%s</code></dt><dd class=\"foreign\">", key);
	html_text(out, value, PAGE_LINE_MAX);
	buf_printf(out, "</dd>");
}

static void number(struct buf *out, const char *key, unsigned n, const char *unit, const char *none)
{
	if (n || !none)
		buf_printf(out, "<dt><code>%s</code></dt><dd>%u%s</dd>", key, n, unit);
	else
		buf_printf(out, "<dt><code>%s</code></dt><dd>%s</dd>", key, none);
}

/* Of variables the names: what they hold may be a secret, and pages are shown to others, and photographed. */
static void variables(struct buf *out, const struct sandbox_spec *spec)
{
	const size_t shown = MIN(spec->nenv, (size_t)64);

	if (!spec->nenv)
		return;
	buf_printf(out, "<dt><code>env.*</code></dt><dd class=\"foreign\">");
	for (size_t i = 0; i < shown; i++) {
		html_text(out, spec->env[i].name, 64);
		buf_printf(out, " ");
	}
	if (spec->nenv > shown)
		buf_printf(out, "and %zu more ", spec->nenv - shown);
	buf_printf(out,
		   "<span class=\"soft\">(what they hold is in <code>config</code>)</span></dd>");
}

static void settings(struct buf *out, const struct session *s)
{
	const struct settings *st = &s->settings;
	const struct sandbox_spec *spec = &st->spec;
	const struct sandbox_limits *l = &spec->limits;

	buf_printf(out, "<h2>Settings</h2>\n<details class=\"card\" id=\"settings\"><summary>In "
			"effect now; "
			"<code>config</code> changes them</summary><dl>");
	setting(out, "backend", spec_backend_str(spec->backend));
	number(out, "memory_mb", spec->memory_mb, " MiB", NULL);
	number(out, "cpus", spec->cpus, "", NULL);
	number(out, "timeout_s", st->timeout_s, " s", "no limit");
	number(out, "grace_s", st->grace_s, " s", NULL);
	number(out, "idle_timeout_s", st->idle_timeout_s, " s", "never");
	setting(out, "idle", settings_hibernate(st) ? "hibernate" : "close");
	setting(out, "when", st->when == SAVE_IDLE ? "idle" : "now");
	setting(out, "fresh", st->fresh ? "yes" : "no");
	number(out, "checkpoint_runs", st->checkpoint_runs, "", NULL);
	setting(out, "network", spec->network ? "on" : "off");
	setting(out, "allow", spec->allow);
	setting(out, "packages", spec->packages);
	setting(out, "warmup", spec->warmup);
	setting(out, "from", st->from);
	number(out, "processes", l->processes, "", NULL);
	number(out, "open_files", l->open_files, "", NULL);
	number(out, "file_size_mb", l->file_size_mb, " MiB", "no limit");
	number(out, "files_mb", l->files_mb, " MiB", "two fifths of the memory");
	number(out, "files_inodes", l->files_inodes, "", "as the memory allows");
	variables(out, spec);
	buf_printf(out, "</dl></details>\n");
}

int page_session(const struct node *n, struct buf *out)
{
	struct session *s = n->s;
	struct page p;

	binding_info(s);
	page_begin(&p, out, s->path, EVERY_S);
	header(&p, s);
	waiting(&p, s);
	tiles(&p, s);
	problems(&p, s);
	time_line(&p, s);
	runs(&p, s);
	jobs(&p, s);
	checkpoints(&p, s);
	settings(out, s);
	buf_printf(out,
		   "<footer><p>The same for programs: <a href=\"./status.json\">status.json</a>, "
		   "<code>events</code> (a read of it waits). <a href=\"../../status.html\">All "
		   "sessions</a>, "
		   "if you came from the mount's root.</p></footer>\n");
	return page_end(&p);
}
