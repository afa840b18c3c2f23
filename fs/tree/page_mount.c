/* SPDX-License-Identifier: Apache-2.0 */
/* status.html of the mount: what is everybody's. */
#include "page_mount.h"

#include <inttypes.h>

#include "fs/session/fs.h"
#include "html.h"
#include "nodes.h"
#include "page.h"
#include "report.h"

#define TROUBLES_MAX  20u
#define TEMPLATES_MAX 40u

/* ---- the top ---- */

void page_mount_header(struct page *p, struct fs *fs)
{
	struct buf *out = p->out;
	struct vm_store_status store;
	struct vm_status st;
	const uint64_t up_s = (uv_now(fs->loop) - fs->started_ms) / 1000;

	vm_status(fs->vm, &st);
	vm_store_status(fs->vm, &store);
	buf_printf(out, "<h1>xsbxfs <small class=\"foreign\">");
	html_text(out, fs->conf->mountpoint, PAGE_NAME_MAX);
	buf_printf(out, "</small></h1>");
	page_as_of(p);
	buf_printf(out, "<ul class=\"facts\"><li>version <b>%s</b></li><li>up <b>", XSBX_VERSION);
	page_time_span(out, up_s * 1000000);
	buf_printf(out, "</b></li><li>accelerator <b>");
	html_text(out, st.accel, PAGE_NAME_MAX);
	buf_printf(out, "</b>: <span class=\"foreign\">");
	html_text(out, st.accel_why, PAGE_LINE_MAX);
	buf_printf(out, "</span></li><li>QEMU <b class=\"foreign\">");
	html_text(out, st.qemu, PAGE_NAME_MAX);
	buf_printf(out, "</b></li><li>survives the daemon's death: <b>%s</b></li>",
		   turn_is_on(fs->touched.turn) && !fs->unheld ? "yes" : "no");
	if (store.url)
		buf_printf(out, "<li>store <b>%s</b></li>", store.state);
	buf_printf(out, "</ul>\n");
}

static void tile_sandboxes(struct buf *out, const struct vm_status *st,
			   const struct vm_admission *a)
{
	page_tile(out, "Sandboxes");
	buf_printf(out, "<div class=\"big\">%u <small>of %u places</small></div>", st->running,
		   a->places);
	page_meter(out, "places taken", st->running, 0, a->places, true);
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
		   a->memory_mb, true);
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
	page_meter(out, "processors in use", a->cpus_used, 0, a->cpus, true);
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

static void tile_pool(struct page *p, struct fs *fs)
{
	struct buf *out = p->out;
	struct pools sum = {0};

	vm_templates(fs->vm, add_pool, &sum);
	page_tile(out, "Pool");
	buf_printf(out, "<div class=\"big\">%u <small>ready of %u</small></div>", sum.ready,
		   sum.target);
	page_meter(out, "pool filled", sum.ready, sum.filling,
		   MAX(sum.target, sum.ready + sum.filling), false);
	buf_printf(out,
		   "<p>%u being made, %u in reserve</p><p>%" PRIu64 " hits, %" PRIu64 " misses</p>",
		   sum.filling, sum.standby, sum.hits, sum.misses);
	page_tile_end(out);
}

static void tile_runs(struct page *p, struct fs *fs)
{
	const uint64_t *runs = fs->stats.runs;
	struct buf *out = p->out;
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
	page_bytes(out, fs->stats.output_bytes);
	buf_printf(out, "</p>");
	page_tile_end(out);
}

void page_mount_tiles(struct page *p, struct fs *fs)
{
	struct vm_admission a;
	struct vm_status st;

	vm_status(fs->vm, &st);
	vm_admission(fs->vm, &a);
	tile_sandboxes(p->out, &st, &a);
	tile_memory(p->out, &a);
	tile_processors(p->out, &a);
	tile_pool(p, fs);
	tile_runs(p, fs);
}

/* ---- what is wrong ---- */

struct troubles {
	struct buf *out;
	unsigned n;
};

/* What has no code: of an image, a snapshot, the store. */
static void trouble(struct troubles *t, const char *what, const char *name, const char *why)
{
	if (t->n++ >= TROUBLES_MAX)
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

unsigned page_mount_troubles(struct page *p, struct fs *fs)
{
	struct troubles t = {.out = p->out};
	const struct conf *conf = fs->conf;
	struct vm_store_status store;

	for (size_t i = 0; i < conf->ntemplates; i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;
		struct vm_image_status image;

		if (spec->backend == VM_PROCESS && !spec->image_view)
			continue;
		vm_image_status(fs->vm, spec->image, &image);
		/* One that is missing is built when it is needed; the table has it. */
		if (!strcmp(image.state, "failed"))
			trouble(&t, "image of template", conf->template[i].name, image.problem);
	}
	vm_templates(fs->vm, add_snapshot_trouble, &t);
	vm_store_status(fs->vm, &store);
	if (store.url && *store.problem)
		trouble(&t, "store", "", store.problem);
	if (t.n > TROUBLES_MAX)
		buf_printf(p->out,
			   "<li class=\"calm\">and %u more, in <code>status.json</code></li>\n",
			   t.n - TROUBLES_MAX);
	return t.n;
}

/* ---- templates, and the end ---- */

/* Its state, and what is on its way, or lacks. */
static void image_of(struct buf *out, const struct vm_image_status *image)
{
	buf_printf(out, "%s <span class=\"soft foreign\">", image->state);
	html_text(out, *image->step ? image->step : image->problem, PAGE_NAME_MAX);
}

void page_mount_templates(struct page *p, struct fs *fs)
{
	const struct conf *conf = fs->conf;
	struct buf *out = p->out;

	buf_printf(out,
		   "<h2>Templates</h2>\n<div class=\"table card\"><table><thead><tr>"
		   "<th>Template</th><th>Language</th><th>Backend</th><th class=\"num\">Memory</th>"
		   "<th>Image</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < MIN(conf->ntemplates, (size_t)TEMPLATES_MAX); i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;
		struct vm_image_status image;

		vm_image_status(fs->vm, spec->image, &image);
		buf_printf(out, "<tr><td>");
		page_link(out, conf->template[i].name, "/");
		buf_printf(out,
			   "</td><td data-is=\"language\">%s</td><td data-is=\"backend\">%s</td>"
			   "<td class=\"num\" data-is=\"memory\">",
			   spec->language, spec_backend_str(spec->backend));
		page_bytes(out, (uint64_t)spec->memory_mb << 20);
		buf_printf(out, "</td><td data-is=\"image\">");
		if (spec->backend == VM_PROCESS && !spec->image_view)
			buf_printf(out, "<span>not needed");
		else
			image_of(out, &image);
		buf_printf(out, "</span></td></tr>\n");
	}
	buf_printf(out, "</tbody></table></div>\n");
	if (conf->ntemplates > TEMPLATES_MAX)
		buf_printf(out, "<p class=\"calm\">and %zu more</p>\n",
			   conf->ntemplates - TEMPLATES_MAX);
}

int page_mount_isolation(struct page *p, const struct node *n)
{
	struct buf *out = p->out, text = {0};
	const int e = report_isolation(n, &text);

	buf_printf(out,
		   "<h2>Isolation</h2>\n<details class=\"card\" id=\"isolation\"><summary>What is "
		   "enforced on this host, layer by layer</summary><pre class=\"foreign\">");
	html_bytes(out, text.data, text.len, 16384, true);
	buf_printf(out, "</pre></details>\n");
	buf_clear(&text);
	return e;
}
