/* SPDX-License-Identifier: Apache-2.0 */
/* Children in a record. See child_record.h. */
#include "child_record.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "spawner.h"
#include "vm/base/lent.h"
#include "vm/base/record_table.h"
#include "vm/base/util.h"

/* Never reuse one. */
enum {
	TAG_ID = 1,
	TAG_PID,
	TAG_PIDFD,
	TAG_STAT, /* of each CGROUP_STAT_*, in their order */
	TAG_OOM_NOTED,
	TAG_KEPT,
	TAG_LAYER, /* fields TAG_LAYER_*: of each of its jail, in their order */
	TAG_DOOMED,
	TAG_ENDED, /* as from wait(2), behind it: */
	TAG_OOM_KILLS,
	TAG_USED_US,
};

enum { TAG_LAYER_STATE = 1, TAG_LAYER_VERSION, TAG_LAYER_ERROR, TAG_LAYER_VALUE };

enum { TAG_PROGRAM_CHILD = 1, TAG_PROGRAM_OUTPUT };

static void put_layer(struct buf *out, const struct jail_finding *l)
{
	const size_t at = record_open(out, TAG_LAYER);

	record_u64(out, TAG_LAYER_STATE, l->state);
	record_u64(out, TAG_LAYER_VERSION, l->version);
	record_i64(out, TAG_LAYER_ERROR, l->error);
	record_u64(out, TAG_LAYER_VALUE, l->value);
	record_close(out, at);
}

/* What it is held by. */
static void put_descriptors(const struct child *c, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_PIDFD, fdbag_put(fds, c->pidfd));
	for (int i = 0; i < CGROUP_STAT_NFILES; i++)
		record_u64(out, TAG_STAT, fdbag_put(fds, c->stats.fd[i]));
	record_u64(out, TAG_KEPT, fdbag_put(fds, c->kept));
}

void child_put(const struct child *c, struct buf *out, struct fdbag *fds)
{
	if (c->state != CHILD_RUNNING && !c->ended)
		return;
	record_u64(out, TAG_ID, c->id);
	record_u64(out, TAG_PID, (uint64_t)c->pid);
	if (!c->ended)
		put_descriptors(c, out, fds);
	record_u64(out, TAG_OOM_NOTED, c->stats.oom_noted);
	if (c->ended) {
		record_u64(out, TAG_ENDED, (uint32_t)c->status);
		record_u64(out, TAG_OOM_KILLS, c->oom_kills);
		record_u64(out, TAG_USED_US, c->used_us);
	}
	for (unsigned i = 0; i < JAIL_NLAYERS; i++)
		put_layer(out, &c->report.layer[i]);
	if (c->doomed)
		record_u64(out, TAG_DOOMED, 1);
}

/* What is read, before any descriptor is taken. */
struct loader {
	uint32_t id, pid, pidfd, kept, stat[CGROUP_STAT_NFILES], status;
	uint64_t oom_noted, oom_kills, used_us;
	unsigned nstats, nlayers;
	bool doomed, ended;
	struct jail_report report;
};

static int take_layer(struct loader *l, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct jail_finding finding = {0};
	struct record_field f;
	uint64_t v = 0;
	int64_t error;
	int n;

	if (!of->is_bytes)
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_LAYER_STATE:
			n = record_get(&f, 0, JAIL_HOLDS, &v);
			finding.state = (uint8_t)v;
			break;
		case TAG_LAYER_VERSION:
			n = record_get(&f, 0, UINT8_MAX, &v);
			finding.version = (uint8_t)v;
			break;
		case TAG_LAYER_ERROR:
			n = record_get_i64(&f, &error);
			finding.error = n == 0 && error >= 0 && error < 4096 ? (int16_t)error : 0;
			break;
		case TAG_LAYER_VALUE: n = record_get(&f, 0, UINT64_MAX, &finding.value); break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	/* A version may know of more of them. */
	if (l->nlayers < JAIL_NLAYERS)
		l->report.layer[l->nlayers++] = finding;
	return n;
}

static int take_field(struct loader *l, const struct record_field *f)
{
	switch (f->tag) {
	case TAG_ID: return record_get_u32(f, UINT32_MAX, &l->id);
	case TAG_PID: return record_get_u32(f, INT_MAX, &l->pid);
	case TAG_PIDFD: return record_get_u32(f, FDBAG_MAX, &l->pidfd);
	case TAG_STAT:
		return l->nstats < CGROUP_STAT_NFILES
			       ? record_get_u32(f, FDBAG_MAX, &l->stat[l->nstats++])
			       : 0;
	case TAG_OOM_NOTED: return record_get(f, 0, UINT64_MAX, &l->oom_noted);
	case TAG_KEPT: return record_get_u32(f, FDBAG_MAX, &l->kept);
	case TAG_LAYER: return take_layer(l, f);
	case TAG_DOOMED: return record_get_bool(f, &l->doomed);
	case TAG_ENDED: l->ended = true; return record_get_u32(f, UINT16_MAX, &l->status);
	case TAG_OOM_KILLS: return record_get(f, 0, UINT64_MAX, &l->oom_kills);
	case TAG_USED_US: return record_get(f, 0, UINT64_MAX, &l->used_us);
	default: return 0;
	}
}

int child_take(struct spawner *sp, struct record_reader r, struct fdbag *fds, struct child *c)
{
	struct loader l = {0};
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(&l, &f);
		if (n < 0)
			break;
	}
	if (n < 0 || !l.id || !l.pid || (l.pidfd == 0) != l.ended)
		return -EBADMSG;
	c->id = l.id;
	c->pid = (pid_t)l.pid;
	c->report = l.report;
	c->ended = l.ended;
	c->status = (int)l.status;
	c->oom_kills = l.oom_kills;
	c->used_us = l.used_us;
	c->pidfd = l.ended ? -1 : fdbag_take(fds, l.pidfd);
	if (c->pidfd < 0 && !l.ended)
		return -EBADMSG;
	n = spawner_adopt(sp, c);
	if (n < 0) {
		lent_close(&c->pidfd);
		return n;
	}
	c->stats = CGROUP_STAT_NONE;
	for (int i = 0; i < CGROUP_STAT_NFILES; i++)
		c->stats.fd[i] = fdbag_take(fds, l.stat[i]);
	c->stats.oom_noted = l.oom_noted;
	c->kept = fdbag_take(fds, l.kept);
	if (l.doomed)
		child_kill(c);
	return 0;
}

void program_put(const struct program *p, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_open(out, TAG_PROGRAM_CHILD);

	child_put(&p->child, out, fds);
	record_close(out, at);
	record_u64(out, TAG_PROGRAM_OUTPUT, fdbag_put(fds, p->reader.open ? p->reader.fd : -1));
}

int program_take(struct program *p, uv_loop_t *loop, struct spawner *sp, struct record_reader r,
		 struct fdbag *fds)
{
	struct record_reader child = {0};
	struct record_field f;
	uint32_t output = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_PROGRAM_CHILD && f.is_bytes)
			child = record_inside(&f);
		else if (f.tag == TAG_PROGRAM_OUTPUT)
			n = record_get_u32(&f, FDBAG_MAX, &output);
		if (n < 0)
			break;
	}
	program_prepare(p);
	if (n == 0)
		n = child_take(sp, child, fds, &p->child);
	if (n < 0)
		return n;
	program_listen(p, loop, fdbag_take(fds, output));
	return 0;
}
