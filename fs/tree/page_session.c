/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of a session. */
#include "nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fs/config/key.h"
#include "fs/session/binding.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/session.h"
#include "html.h"
#include "page.h"
#include "page_lane.h"
#include "page_runs.h"

#define EVERY_S	   3u
#define POINTS_MAX 40u
#define BARS_MAX   128u /* on the time line, */
#define LANES_MAX  12u	/* of the session, and of jobs */

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
	buf_printf(out, "</h1>");
	page_as_of(p);
	buf_printf(out, "<ul class=\"facts\"><li>made <b>");
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
	page_meter(out, "memory used inside", used, 0, u ? u->mem_total_kib : 1, true);
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
	page_meter(out, "room used below files/", u ? u->files_used : 0, 0, u ? u->files_total : 1,
		   true);
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
	buf_printf(out, "<a href=\"./net/refused\">%" PRIu64 " refused</a>", s->netlog.total);
	if (s->questions.n[QUESTION_OPEN])
		buf_printf(out, ", <a href=\"./net/pending/\">%u wait for leave</a>",
			   s->questions.n[QUESTION_OPEN]);
	buf_printf(out, "</p>");
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
		page_problem(p->out, "The last error:", NULL, e);
	if (both)
		page_problem(p->out, "Why it is closed:", NULL, closed);
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
		if (n++ < POINTS_MAX)
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

/* ---- what else there is ---- */

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

		if (n == POINTS_MAX)
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

/* What 0 is in words, where it is no number. */
static const char *nothing(const char *key)
{
	static const struct {
		const char *key, *words;
	} no[] = {
		{"timeout_s", "no limit"},
		{"idle_timeout_s", "never"},
		{"file_size_mb", "no limit"},
		{"files_mb", "two fifths of the memory"},
		{"files_inodes", "as the memory allows"},
		{"net_bytes", "no limit"},
		{"net_requests", "no limit"},
		{"net_connections", "no limit"},
		{"net_rate", "no limit"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (strcmp(no[i].key, key) == 0)
			return no[i].words;
	return NULL;
}

static const char *unit(const char *key)
{
	const char *end = strrchr(key, '_');

	return !end ? "" : strcmp(end, "_mb") == 0 ? " MiB" : strcmp(end, "_s") == 0 ? " s" : "";
}

/* What is empty is left out. */
static void setting(struct buf *out, const struct key *k, const struct settings *st)
{
	struct buf text = {0};
	const bool number = k->type == KEY_NUMBER;
	const char *zero = nothing(k->name);

	(void)key_print(k, st, &text);
	if (zero && strcmp(buf_str(&text), "0") == 0) {
		buf_clear(&text);
		(void)buf_printf(&text, "%s", zero);
	} else if (number) {
		(void)buf_printf(&text, "%s", unit(k->name));
	} else if (strcmp(k->name, "idle") == 0) { /* not as it is written, but what it comes to */
		buf_clear(&text);
		(void)buf_printf(&text, "%s", settings_hibernate(st) ? "hibernate" : "close");
	}
	if (text.len) {
		buf_printf(out, "<dt><code>%s</code></dt><dd class=\"foreign\">", k->name);
		html_text(out, buf_str(&text), PAGE_LINE_MAX);
		buf_printf(out, "</dd>");
	}
	buf_clear(&text);
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
	buf_printf(out, "<h2>Settings</h2>\n<details class=\"card\" id=\"settings\"><summary>In "
			"effect now; "
			"<code>config</code> changes them</summary><dl>");
	for_each_key(k, CONF_SESSION) setting(out, k, &s->settings);
	variables(out, &s->settings.spec);
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
	page_runs(&p, s);
	page_jobs(&p, s);
	checkpoints(&p, s);
	settings(out, s);
	buf_printf(out,
		   "<footer><p>The same for programs: <a href=\"./status.json\">status.json</a>, "
		   "<code>events</code> (a read of it waits). <a href=\"../../status.html\">All "
		   "sessions</a>, "
		   "if you came from the mount's root.</p></footer>\n");
	return page_end(&p);
}
