/* SPDX-License-Identifier: Apache-2.0 */
/* The `metrics` node: Prometheus text format. */
#include "nodes.h"

#include <inttypes.h>

#include "fs/session/fs.h"
#include "fs/session/quota.h"
#include "fs/session/run.h"
#include "fs/session/session.h"

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP xsbxfs_%s %s\n# TYPE xsbxfs_%s %s\n", name, help, name, type);
}

/* One of several samples of a metric. */
static void sample(struct buf *out, const char *name, const char *label, const char *value,
		   uint64_t v)
{
	buf_printf(out, "xsbxfs_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, v);
}

static void single(struct buf *out, const char *name, const char *type, const char *help,
		   uint64_t v)
{
	head(out, name, type, help);
	buf_printf(out, "xsbxfs_%s %" PRIu64 "\n", name, v);
}

static void sessions(const struct fs *fs, struct buf *out)
{
	unsigned n[SESSION_NSTATES] = {0};

	for (unsigned i = 0; i < fs->roster.n; i++)
		if (roster_at(&fs->roster, i))
			n[roster_at(&fs->roster, i)->state]++;
	head(out, "sessions", "gauge", "Sessions by state.");
	for (int i = 0; i < SESSION_NSTATES; i++)
		sample(out, "sessions", "state", session_state_str((enum session_state)i), n[i]);
}

static void runs(const struct fs *fs, struct buf *out)
{
	head(out, "runs_total", "counter", "Runs that have ended, by how.");
	for (int i = RUN_DONE; i < RUN_NSTATES; i++)
		sample(out, "runs_total", "state", run_state_str((enum run_state)i),
		       fs->stats.runs[i]);
}

struct pools {
	uint64_t ready, hits, misses, refills, refill_ms;
};

static void add_pool(void *data, const struct vm_template_status *st)
{
	struct pools *p = data;

	p->ready += st->ready;
	p->hits += st->hits;
	p->misses += st->misses;
	p->refills += st->refills;
	p->refill_ms += st->refill_sum_ms;
}

static void pools(const struct fs *fs, struct buf *out)
{
	struct pools p = {0};

	vm_templates(fs->vm, add_pool, &p);
	single(out, "pool_ready", "gauge", "Idle clones that can be used at once.", p.ready);
	single(out, "pool_hits_total", "counter", "Sandboxes that were taken from the pool.",
	       p.hits);
	single(out, "pool_misses_total", "counter", "Sandboxes for which the pool had none.",
	       p.misses);
	single(out, "pool_refills_total", "counter", "Clones that were made for the pool.",
	       p.refills);
	head(out, "pool_refill_seconds_total", "counter", "What making them took, all together.");
	buf_printf(out, "xsbxfs_pool_refill_seconds_total %" PRIu64 ".%03u\n", p.refill_ms / 1000,
		   (unsigned)(p.refill_ms % 1000));
}

static void admission(const struct fs *fs, struct buf *out)
{
	struct vm_admission a;

	vm_admission(fs->vm, &a);
	single(out, "sandboxes_refused_total", "counter",
	       "Sandboxes that never had a place, because too many waited or for too long.",
	       a.refused);
	single(out, "sandboxes_closing", "gauge", "Sandboxes whose end is not complete.",
	       a.closing);
	single(out, "runs_waiting", "gauge", "Runs that wait for a processor.", a.runs_waiting);
	head(out, "admission_memory_bytes", "gauge",
	     "Memory that may be promised to sandboxes, is promised, and is held by snapshots.");
	sample(out, "admission_memory_bytes", "what", "budget", a.memory_mb << 20);
	sample(out, "admission_memory_bytes", "what", "promised", a.promised_mb << 20);
	sample(out, "admission_memory_bytes", "what", "snapshots", a.snapshots_mb << 20);
	head(out, "admission_processors", "gauge",
	     "Processors that runs may have without waiting, and have.");
	buf_printf(out, "xsbxfs_admission_processors{what=\"budget\"} %u.%02u\n", a.cpus / 100,
		   a.cpus % 100);
	buf_printf(out, "xsbxfs_admission_processors{what=\"used\"} %u.%02u\n", a.cpus_used / 100,
		   a.cpus_used % 100);
	single(out, "host_memory_available_bytes", "gauge",
	       "Memory of the host, or of our control group, that is to be had.",
	       a.available_mb << 20);
	if (!a.pressure_known)
		return;
	head(out, "host_memory_pressure_percent", "gauge",
	     "Share of the last ten seconds in which nothing got on for want of memory.");
	buf_printf(out, "xsbxfs_host_memory_pressure_percent %u.%02u\n", a.pressure / 100,
		   a.pressure % 100);
}

static void lasting(const struct fs *fs, struct buf *out)
{
	single(out, "saves_total", "counter", "Sandboxes that were saved.", fs->stats.saved);
	single(out, "saves_failed_total", "counter", "Sandboxes that could not be saved.",
	       fs->stats.saves_failed);
	single(out, "wakes_total", "counter", "Sandboxes that began from something saved.",
	       fs->stats.wakes);
	single(out, "saved_bytes", "gauge", "What is saved takes so much.", quota_saved_total(fs));
}

static void store(const struct fs *fs, struct buf *out)
{
	struct vm_store_status st;

	vm_store_status(fs->vm, &st);
	if (!st.url)
		return;
	head(out, "store_requests_total", "counter", "Objects of the store, by what came of it.");
	sample(out, "store_requests_total", "result", "fetched", st.fetched);
	sample(out, "store_requests_total", "result", "absent", st.absent);
	sample(out, "store_requests_total", "result", "damaged", st.damaged);
	sample(out, "store_requests_total", "result", "put", st.put);
	sample(out, "store_requests_total", "result", "failed", st.failed);
}

/* ---- histograms ---- */

struct timing_text {
	struct buf *out;
	int family; /* whose head was written last */
};

static int put_timing(void *data, const struct timing *of)
{
	struct timing_text *t = data;
	char name[96];

	if (t->family != (int)of->family)
		head(t->out, timings_name(of->family), "histogram", timings_help(of->family));
	t->family = (int)of->family;
	snprintf(name, sizeof(name), "xsbxfs_%s", timings_name(of->family));
	histogram_text(of->h, of->scale, name, of->labels, t->out);
	return 0;
}

static void traces(const struct fs *fs, struct buf *out)
{
	struct vm_trace_status st;

	vm_trace_status(fs->vm, &st);
	if (!st.on)
		return;
	head(out, "trace_spans_total", "counter", "Spans of traces, by what came of them.");
	sample(out, "trace_spans_total", "result", "sent", st.sent);
	sample(out, "trace_spans_total", "result", "dropped", st.dropped);
}

static void audit(const struct audit *a, struct buf *out)
{
	if (!a)
		return;
	single(out, "audit_lines_total", "counter", "Lines of the audit log that were written.",
	       a->lines);
	single(out, "audit_lost_total", "counter", "... that could not be written.", a->lost);
}

int metrics_render(const struct node *n, struct buf *out)
{
	struct fs *fs = n->fs;
	struct vm_status st;

	vm_status(fs->vm, &st);
	head(out, "info", "gauge", "Constant 1; version and accelerator are labels.");
	buf_printf(out, "xsbxfs_info{version=\"%s\",accelerator=\"%s\"} 1\n", XSBX_VERSION,
		   st.accel);
	single(out, "uptime_seconds", "gauge", "Seconds since the mount.",
	       (uv_now(fs->loop) - fs->started_ms) / 1000);
	sessions(fs, out);
	single(out, "sessions_created_total", "counter", "Sessions made.",
	       fs->stats.sessions_created);
	single(out, "sessions_closed_total", "counter", "Sessions whose sandbox has gone.",
	       fs->stats.sessions_closed);
	runs(fs, out);
	single(out, "output_bytes_total", "counter", "Bytes of output received from sandboxes.",
	       fs->stats.output_bytes);
	head(out, "cpu_seconds_total", "counter",
	     "Seconds of the host's processors that sandboxes have used.");
	buf_printf(out, "xsbxfs_cpu_seconds_total %.3f\n", (double)fs->stats.cpu_us / 1e6);
	single(out, "net_bytes_total", "counter",
	       "Bytes that sandboxes have sent and received through networks.",
	       fs->stats.net_bytes);
	single(out, "over_quota_total", "counter",
	       "Times that code was refused because a quota was used up.", fs->stats.over_quota);
	single(out, "net_denied_total", "counter", "What networks of sandboxes refused.",
	       fs->stats.denied);
	single(out, "sandboxes", "gauge", "Sandboxes that exist.", st.running);
	single(out, "machines_still", "gauge",
	       "Machines that stand still because they have nothing to do, idle clones included.",
	       st.still);
	single(out, "sandboxes_waiting", "gauge", "Sandboxes that wait for admission.", st.waiting);
	single(out, "sandboxes_max", "gauge", "Sandboxes admitted at once.", st.max_vms);
	single(out, "sandboxes_started_total", "counter", "Sandboxes started.", st.started);
	single(out, "sandboxes_failed_total", "counter", "Sandboxes that failed to start or died.",
	       st.failed);
	head(out, "sandboxes_started_by_total", "counter", "Sandboxes started, by how.");
	sample(out, "sandboxes_started_by_total", "start", "warm", st.warm);
	sample(out, "sandboxes_started_by_total", "start", "snapshot", st.snapshot);
	sample(out, "sandboxes_started_by_total", "start", "cold", st.cold);
	lasting(fs, out);
	admission(fs, out);
	pools(fs, out);
	store(fs, out);
	single(out, "fuse_requests_total", "counter", "Requests of the kernel.",
	       fs->stats.requests);
	audit(fs->audit, out);
	traces(fs, out);
	(void)timings_each(&fs->stats.timings, put_timing,
			   &(struct timing_text){.out = out, .family = -1});
	fs->record.stats = true; /* they are not to be less, whoever comes after this daemon */
	return 0;
}
