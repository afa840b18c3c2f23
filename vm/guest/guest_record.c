/* SPDX-License-Identifier: Apache-2.0 */
/* A guest in a record: from one daemon to the next. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "channel_record.h"
#include "exec_record.h"
#include "files_record.h"
#include "internal.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem.h"
#include "vm/base/problem_record.h"
#include "vm/base/record_table.h"

/* Never reuse one. */
enum {
	TAG_BACKEND = 1,
	TAG_CHANNEL,
	TAG_FILES,
	TAG_RUN,
	TAG_JOB,
	TAG_GENERATION,
	TAG_VERSION,
	TAG_WATCHED,
	TAG_OOM_KILLS,
	TAG_OOM_LOOK,
	TAG_STARTED_AT,
	TAG_HELLO_AT,
	TAG_READY_AT,
	TAG_INTERPRETER,
	TAG_CONSOLE,
	TAG_DEADLINE, /* ms of the loop's clock, which goes on from one process to the next */
	TAG_STILL,
	TAG_USAGE_STALE,
	TAG_USAGE_KNOWN,
	TAG_MEM_TOTAL,
	TAG_MEM_AVAILABLE,
	TAG_CPU_US,
	TAG_FILES_USED,
	TAG_FILES_TOTAL,
	TAG_INODES_USED,
	TAG_INODES_TOTAL,
	TAG_PROCESSES,
	TAG_REACHED,
	TAG_DUE,
	TAG_RESETTING,
	TAG_FREEZING,
	TAG_GRACE,
	TAG_ALLOWED_MS,
	TAG_PACK_ID,
	TAG_POINTS_ASKED,
	TAG_POINTS_ANSWERED,
	TAG_CLOCK_ID,
	TAG_STILL_ID,
	TAG_LEASE_NUMBER,
	TAG_RESUME_ID,
	TAG_SENT, /* frames of control, of one that ends: so it is known what its agent knew of */
	TAG_PROBLEM, /* with which it ends */
	TAG_FREEZES_AGAIN,
};

#define MEMBER(member, tag, max) RECORD_MEMBER(struct guest, member, tag, max)

static const struct record_member members[] = {
	MEMBER(generation, TAG_GENERATION, UINT32_MAX),
	MEMBER(version, TAG_VERSION, UINT32_MAX),
	MEMBER(watched, TAG_WATCHED, 1),
	MEMBER(oom_kills, TAG_OOM_KILLS, UINT64_MAX),
	MEMBER(oom_look, TAG_OOM_LOOK, UINT64_MAX),
	MEMBER(started_at, TAG_STARTED_AT, UINT64_MAX),
	MEMBER(hello_at, TAG_HELLO_AT, UINT64_MAX),
	MEMBER(ready_at, TAG_READY_AT, UINT64_MAX),
	MEMBER(usage_stale, TAG_USAGE_STALE, 1),
	MEMBER(usage_known, TAG_USAGE_KNOWN, 1),
	MEMBER(usage.mem_total_kib, TAG_MEM_TOTAL, UINT64_MAX),
	MEMBER(usage.mem_available_kib, TAG_MEM_AVAILABLE, UINT64_MAX),
	MEMBER(usage.cpu_us, TAG_CPU_US, UINT64_MAX),
	MEMBER(usage.files_used, TAG_FILES_USED, UINT64_MAX),
	MEMBER(usage.files_total, TAG_FILES_TOTAL, UINT64_MAX),
	MEMBER(usage.inodes_used, TAG_INODES_USED, UINT64_MAX),
	MEMBER(usage.inodes_total, TAG_INODES_TOTAL, UINT64_MAX),
	MEMBER(usage.processes, TAG_PROCESSES, UINT32_MAX),
	MEMBER(usage.reached, TAG_REACHED,
	       VM_REACHED_FILES | VM_REACHED_INODES | VM_REACHED_PROCESSES),
	MEMBER(due, TAG_DUE, DUE_READY),
	MEMBER(freezing, TAG_FREEZING, 1),
	MEMBER(freezes_again, TAG_FREEZES_AGAIN, 1),
	MEMBER(allowed_ms, TAG_ALLOWED_MS, UINT32_MAX),
	MEMBER(pack.id, TAG_PACK_ID, UINT32_MAX / 2),
	MEMBER(points_asked, TAG_POINTS_ASKED, UINT32_MAX / 2),
	MEMBER(points_answered, TAG_POINTS_ANSWERED, UINT32_MAX / 2),
	MEMBER(clock.id, TAG_CLOCK_ID, UINT32_MAX),
	MEMBER(still.id, TAG_STILL_ID, UINT32_MAX),
	MEMBER(files.lease.number, TAG_LEASE_NUMBER, UINT32_MAX),
	MEMBER(resume.id, TAG_RESUME_ID, UINT32_MAX / 2),
};

/* ---- writing ---- */

static bool is_active(const uv_timer_t *timer)
{
	return uv_is_active((const uv_handle_t *)timer);
}

/* Nothing is left of its end but to tell it. */
static void put_ending(const struct guest *g, struct buf *out)
{
	record_u64(out, TAG_SENT, g->channel.sent[CHANNEL_CONTROL]);
	problem_put(out, TAG_PROBLEM, &g->problem);
}

static void put_live(struct guest *g, struct buf *out, struct fdbag *fds)
{
	uint64_t key = 0;
	struct estate *e = channel_estate(&g->channel, fds, &key);
	size_t at = record_open(out, TAG_BACKEND);

	g->ops->put(g->backend, out, fds);
	record_close(out, at);
	at = record_open(out, TAG_CHANNEL);
	channel_put(&g->channel, out, fds);
	record_close(out, at);
	at = record_open(out, TAG_FILES);
	guest_files_put(&g->files, out, e, key);
	record_close(out, at);
	record_u64(out, TAG_RESETTING, g->phase == GUEST_RESET);
	record_u64(out, TAG_GRACE, is_active(&g->grace));
	record_u64(out, TAG_STILL, g->still.state == STILL_STOPPED);
	if (is_active(&g->deadline))
		record_u64(out, TAG_DEADLINE, g->deadline_at);
}

int guest_put(struct guest *g, struct buf *out, struct fdbag *fds)
{
	char console[TAIL_SIZE + 1];

	assert(g->phase == GUEST_UP || g->phase == GUEST_RESET || g->phase == GUEST_ENDING);
	if (!g->ops->put)
		return -EOPNOTSUPP;
	if (g->phase == GUEST_ENDING)
		put_ending(g, out);
	else
		put_live(g, out, fds);
	exec_put(g, out, TAG_RUN);
	jobs_put(g, out, TAG_JOB);
	record_put_members(out, g, members, ARRAY_SIZE(members));
	record_str(out, TAG_INTERPRETER, g->interpreter);
	record_bytes(out, TAG_CONSOLE, console, tail_copy(&g->console, console));
	return 0;
}

bool guest_field_is_late(const unsigned *tags, size_t n)
{
	return n == 2 && tags[0] == TAG_CHANNEL && channel_field_is_late(tags[1]);
}

/* ---- reading ---- */

struct loader {
	struct guest *g;
	struct record_reader backend, channel;
	uint64_t deadline;
	bool still, resetting, grace, ends;
	struct problem problem;
};

static int take_field(struct loader *l, const struct record_field *f)
{
	struct guest *g = l->g;

	switch (f->tag) {
	case TAG_BACKEND: l->backend = record_inside(f); return 0;
	case TAG_CHANNEL: l->channel = record_inside(f); return 0;
	case TAG_FILES: return guest_files_take(&g->files, record_inside(f), g->all->scratch.left);
	case TAG_RUN: return exec_take(g, f);
	case TAG_JOB: return job_take(g, f);
	case TAG_INTERPRETER: return record_get_str(f, g->interpreter, sizeof(g->interpreter));
	case TAG_CONSOLE:
		if (f->len > TAIL_SIZE)
			return -EBADMSG;
		if (f->len)
			tail_add(&g->console, f->data, f->len);
		return 0;
	case TAG_DEADLINE: return record_get(f, 0, UINT64_MAX, &l->deadline);
	case TAG_STILL: return record_get_bool(f, &l->still);
	case TAG_RESETTING: return record_get_bool(f, &l->resetting);
	case TAG_GRACE: return record_get_bool(f, &l->grace);
	case TAG_SENT: return record_get(f, 0, UINT64_MAX / 4, &g->channel.sent[CHANNEL_CONTROL]);
	case TAG_PROBLEM: l->ends = true; return problem_get(f, &l->problem);
	default: return record_take_member(f, g, members, ARRAY_SIZE(members));
	}
}

static int take_fields(struct loader *l, struct record_reader r)
{
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(l, &f);
		if (n < 0)
			return n;
	}
	if (n == 0 && (!l->g->generation || l->g->version < PROTO_VERSION_OLDEST))
		return -EBADMSG;
	return n;
}

/* What follows from what was read. */
static void settle(struct loader *l)
{
	struct guest *g = l->g;
	const uint64_t now = uv_now(g->all->ctx->loop);

	g->phase = l->resetting ? GUEST_RESET : GUEST_UP;
	g->background = false;
	if (l->ends)
		return;
	g->resume.due = true;
	g->clock.heard = g->clock.settled = true;
	g->version = MIN(g->version, PROTO_VERSION);
	if (l->still && g->ops->stop)
		g->still.state = STILL_STOPPED;
	if (l->resetting && !l->deadline)
		guest_deadline(g, g->all->boot_s * 1000ull);
	if (l->deadline) {
		const uint64_t allowed_ms = g->allowed_ms;

		guest_deadline(g, l->deadline > now ? l->deadline - now : 1);
		g->allowed_ms = allowed_ms;
	}
	if (l->grace)
		guest_hangup(g);
}

int guest_take(struct guests *all, const struct guest_config *cfg,
	       const struct record_reader *fields, struct fdbag *fds,
	       const struct guest_events *events, void *data, struct guest **ret_guest)
{
	struct loader l = {0};
	int r = cfg->ops->take ? guest_make(all, cfg, events, data, &l.g) : -EOPNOTSUPP;

	if (r < 0)
		return r;
	*ret_guest = l.g;
	r = take_fields(&l, *fields);
	if (r == 0) {
		settle(&l);
		if (l.ends)
			guest_fail(l.g, &l.problem);
		else
			handshake_take(l.g, &l.backend, &l.channel, fds);
		return 0;
	}
	guest_failf(l.g, r == -ENOMEM ? PROBLEM_NO_MEMORY : PROBLEM_AGENT_LOST,
		    "Reset the session.", "the sandbox was not taken over: %s",
		    r == -ENOMEM ? "there is no memory for it"
				 : "what is known of it makes no sense");
	return 0;
}
