/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as records. See handover.h. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "fs/files/files.h"
#include "fs/keep/keep.h"
#include "fs/request/nodelock.h"
#include "fs/session/inherit.h"
#include "internal.h"
#include "vm/base/util.h"

/* Never reuse. */
enum mount_tag {
	TAG_TEMPLATE = 1, /* names, in the order of their indexes, which are in inode numbers */
	TAG_TEMPLATE_MTIME,
	TAG_STARTED,
	TAG_STARTED_MS,
	TAG_FRESH,
	TAG_STATS,
	TAG_DEPOT_FILE,
	TAG_DEPOT_SLOTS,
	TAG_LOG_LEVEL,
};

#define DEPOT_SLOTS_MAX (1u << 26) /* four TiB of output */

/* Those of struct fs_stats; numbers by enum run_state come in its order. */
/* Never reuse. */
enum stats_tag {
	STATS_CREATED = 1,
	STATS_CLOSED,
	STATS_RUNS,
	STATS_JOBS,
	STATS_OUTPUT,
	STATS_DENIED,
	STATS_REQUESTS,
	STATS_SAVED,
	STATS_SAVES_FAILED,
	STATS_WAKES,
};

/* Never reuse. */
enum complaint_tag {
	TAG_COMPLAINT = 1,
	TAG_UID = 1,
	TAG_CODE,
	TAG_CAUSE,
	TAG_FIX,
	TAG_TIME,
};

/* ---- what is saved, while it is written: each once, by its number ---- */

struct numbered {
	const struct saved *saved; /* no reference */
	size_t number;
};

struct savings {
	struct numbered **item; /* by number */
	size_t n, cap;
	void *by_saved; /* for tsearch(3): the same */
	char name[KEEP_NAME_MAX];
};

static int compare(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)((const struct numbered *)a)->saved,
			y = (uintptr_t)((const struct numbered *)b)->saved;

	return (x > y) - (x < y);
}

/* Return: the next number for it, or NULL if out of memory. */
static struct numbered *number(struct savings *all, const struct saved *saved)
{
	const size_t cap = all->n < all->cap ? all->cap : all->cap ? all->cap * 2 : 16;
	struct numbered **more = reallocarray(all->item, cap, sizeof(*more)), *new;

	if (!more)
		return NULL;
	all->item = more;
	all->cap = cap;
	new = malloc(sizeof(*new));
	if (!new)
		return NULL;
	*new = (struct numbered){saved, all->n};
	if (!tsearch(new, &all->by_saved, compare)) {
		free(new);
		return NULL;
	}
	all->item[all->n++] = new;
	return new;
}

static const char *name_saved(void *data, const struct saved *saved)
{
	const struct numbered key = {.saved = saved}, *one;
	struct savings *all = data;
	void *const *found = tfind(&key, &all->by_saved, compare);

	one = found ? *found : number(all, saved);
	if (!one)
		return NULL;
	snprintf(all->name, sizeof(all->name), "%zu", one->number);
	return all->name;
}

static void savings_clear(struct savings *all)
{
	tdestroy(all->by_saved, free);
	free(all->item);
}

/* What is in the state directory stays there. */
static bool is_away(void *data, const struct keep_output *o, const struct spool *sp)
{
	(void)data;
	(void)o;
	return sp->away;
}

static int is_back(void *data, const struct keep_output *o, struct spool *sp)
{
	(void)data;
	(void)o;
	sp->kept = true;
	return sp->away ? 0 : -EBADMSG;
}

/* ---- writing ---- */

static void put_stats(const struct fs_stats *st, struct buf *out)
{
	const size_t at = record_open(out, TAG_STATS);

	record_u64(out, STATS_CREATED, st->sessions_created);
	record_u64(out, STATS_CLOSED, st->sessions_closed);
	for (unsigned i = 0; i < RUN_NSTATES; i++)
		record_u64(out, STATS_RUNS, st->runs[i]);
	for (unsigned i = 0; i < RUN_NSTATES; i++)
		record_u64(out, STATS_JOBS, st->jobs[i]);
	record_u64(out, STATS_OUTPUT, st->output_bytes);
	record_u64(out, STATS_DENIED, st->denied);
	record_u64(out, STATS_REQUESTS, st->requests);
	record_u64(out, STATS_SAVED, st->saved);
	record_u64(out, STATS_SAVES_FAILED, st->saves_failed);
	record_u64(out, STATS_WAKES, st->wakes);
	record_close(out, at);
}

static int put_mount(const struct fs *fs, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_begin(out, HANDOVER_MOUNT, 0);

	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		record_str(out, TAG_TEMPLATE, fs->conf->template[i].name);
		record_time(out, TAG_TEMPLATE_MTIME, &fs->template_mtime[i]);
	}
	record_time(out, TAG_STARTED, &fs->started);
	record_u64(out, TAG_STARTED_MS, fs->started_ms);
	record_u64(out, TAG_FRESH, fs->fresh);
	put_stats(&fs->stats, out);
	record_u64(out, TAG_DEPOT_FILE, fdbag_put(fds, fs->depot.fd));
	record_u64(out, TAG_DEPOT_SLOTS, fs->depot.nslots);
	record_u64(out, TAG_LOG_LEVEL, log_level());
	return record_end(out, at);
}

static int put_complaints(const struct complaints *c, struct buf *out)
{
	const size_t at = record_begin(out, HANDOVER_COMPLAINTS, 0);

	for (unsigned i = 0; i < c->used; i++) {
		const struct complaint *of = &c->of[(c->next + i) % c->used];
		const size_t one = record_open(out, TAG_COMPLAINT);

		record_u64(out, TAG_UID, of->uid);
		record_str(out, TAG_CODE, problem_code_str(of->problem.code));
		record_str(out, TAG_CAUSE, of->problem.cause);
		record_str(out, TAG_FIX, of->problem.fix);
		record_time(out, TAG_TIME, &of->time);
		record_close(out, one);
	}
	return record_end(out, at);
}

static int put_rest(struct fs *fs, struct buf *out)
{
	size_t at = record_begin(out, HANDOVER_SLOTS, 0);
	int r;

	roster_put_free(&fs->roster, out);
	r = record_end(out, at);
	at = record_begin(out, HANDOVER_LOCKS, 0);
	nodelock_put(&fs->locks, out);
	if (r == 0)
		r = record_end(out, at);
	at = record_begin(out, HANDOVER_EVENTS, 0);
	events_put(&fs->events, out);
	if (r == 0)
		r = record_end(out, at);
	return r == 0 ? put_complaints(&fs->complaints, out) : r;
}

static int put_session(const struct session *s, const struct keep_io *io, struct buf *out,
		       struct fdbag *fds, struct problem *why)
{
	int r = keep_put(out, s, io);
	size_t at;

	if (r == 0) {
		at = record_begin(out, HANDOVER_FILES, handover_key(s));
		handover_put_files(s, out);
		r = record_end(out, at);
	}
	if (r == 0 && handover_has_calls(s)) {
		at = record_begin(out, HANDOVER_CALLS, handover_key(s));
		handover_put_calls(s, out);
		r = record_end(out, at);
	}
	if (r == 0 && s->ready) {
		at = record_begin(out, HANDOVER_SANDBOX, handover_key(s));
		r = sandbox_put(s->sandbox, out, fds);
		if (r == -EAGAIN)
			problem_set(why, PROBLEM_BUSY, "",
				    "the sandbox of %s is being reset, saved or asked", s->path);
		if (r == 0)
			r = record_end(out, at);
	}
	if (r == 0 && s->changes.work) {
		at = record_begin(out, HANDOVER_WORKDIR, handover_key(s));
		workdir_put(s->changes.work, out, fds);
		r = record_end(out, at);
	}
	return r;
}

/* Return: all that are in the mount's list, oldest first, to be freed; NULL if out of memory. */
static struct session **all_sessions(const struct fs *fs, size_t *ret_n)
{
	struct session **all, *s;
	size_t n = 0;

	LIST_FOREACH(s, &fs->sessions, kept)
		n++;
	all = calloc(n + 1, sizeof(struct session *));
	*ret_n = n;
	if (all) {
		LIST_FOREACH(s, &fs->sessions, kept)
			all[--n] = s;
	}
	return all;
}

static int put_saved(const struct savings *all, struct buf *out, struct fdbag *fds)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < all->n; i++) {
		const size_t at = record_begin(out, HANDOVER_SAVED, i);

		r = saved_put(all->item[i]->saved, out, fds);
		if (r == 0)
			r = record_end(out, at);
	}
	return r;
}

/* What is saved comes before those who have it. */
static int put_sessions(struct fs *fs, struct buf *out, struct fdbag *fds, struct problem *why)
{
	struct savings savings = {0};
	const struct keep_io io = {
		.live = true, .data = &savings, .away = is_away, .name = name_saved};
	_cleanup_free_ struct session **all = NULL;
	struct buf sessions = {0};
	size_t n;
	int r;

	all = all_sessions(fs, &n);
	r = all ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_session(all[i], &io, &sessions, fds, why);
	if (r == 0)
		r = put_saved(&savings, out, fds);
	if (r == 0)
		r = buf_append(out, sessions.data, sessions.len);
	buf_clear(&sessions);
	savings_clear(&savings);
	return r;
}

int handover_put(struct fs *fs, struct buf *out, struct fdbag *fds, struct problem *ret_why)
{
	int r = handover_check(fs, ret_why);

	if (r < 0)
		return r;
	r = put_mount(fs, out, fds);
	if (r == 0)
		r = put_sessions(fs, out, fds, ret_why);
	if (r == 0)
		r = put_rest(fs, out);
	if (r == 0)
		r = handover_put_handles(fs, out);
	if (r == 0 && fds->failed)
		r = -ENOMEM;
	if (r < 0 && r != -EAGAIN)
		problem_set(ret_why, PROBLEM_FAILED, "", "the mount could not be written down: %s",
			    strerror(-r));
	return r;
}

/* ---- is it a good moment? ---- */

static int check_session(const struct session *s, struct problem *why)
{
	if (s->changes.committing) {
		problem_set(why, PROBLEM_BUSY, "", "%s takes changes over", s->path);
		return -EAGAIN;
	}
	return 0;
}

int handover_check(struct fs *fs, struct problem *ret_why)
{
	struct session *s;
	int r = 0;

	if (fs->depot.busy) {
		problem_set(ret_why, PROBLEM_BUSY, "", "output is being written to the disk");
		return -EAGAIN;
	}
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0 && !s->dead)
			r = check_session(s, ret_why);
	}
	return r;
}

/* ---- reading ---- */

/* Gives the template of this name the index that it had. */
static int place_template(struct conf *conf, size_t index, const struct record_field *f,
			  struct problem *why)
{
	struct conf_template tmp, *t;
	char name[65];
	int r = record_get_str(f, name, sizeof(name));

	if (r < 0 || index >= CONF_TEMPLATES_MAX)
		return -EBADMSG;
	t = conf_template_find(conf, name);
	if (!t || t < &conf->template[index]) {
		problem_set(
			why, PROBLEM_NO_SUCH_TEMPLATE, "",
			"the configuration has no template \"%s\" any more, which the mount has",
			name);
		return -ENOENT;
	}
	tmp = conf->template[index];
	conf->template[index] = *t;
	*t = tmp;
	return 0;
}

static int get_stats(struct fs_stats *st, struct record_reader fields)
{
	unsigned runs = 0, jobs = 0;
	struct record_field f;
	uint64_t *to;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		to = NULL;
		switch ((enum stats_tag)f.tag) {
		case STATS_CREATED: to = &st->sessions_created; break;
		case STATS_CLOSED: to = &st->sessions_closed; break;
		case STATS_RUNS: to = runs < RUN_NSTATES ? &st->runs[runs++] : NULL; break;
		case STATS_JOBS: to = jobs < RUN_NSTATES ? &st->jobs[jobs++] : NULL; break;
		case STATS_OUTPUT: to = &st->output_bytes; break;
		case STATS_DENIED: to = &st->denied; break;
		case STATS_REQUESTS: to = &st->requests; break;
		case STATS_SAVED: to = &st->saved; break;
		case STATS_SAVES_FAILED: to = &st->saves_failed; break;
		case STATS_WAKES: to = &st->wakes; break;
		default: break;
		}
		r = to ? record_get(&f, 0, UINT64_MAX, to) : 0;
		if (r < 0)
			return r;
	}
	return r;
}

static int get_log_level(const struct record_field *f)
{
	uint64_t v = 0;
	int r = record_get(f, 0, LOG_NLEVELS - 1, &v);

	if (r == 0)
		log_open((enum log_level)v);
	return r;
}

/* What there is of the mount before anything else. */
struct mount_in {
	size_t templates;
	uint32_t depot_file, depot_slots;
};

static int get_mount_field(struct fs *fs, struct mount_in *in, const struct record_field *f,
			   struct problem *why)
{
	int r;

	switch ((enum mount_tag)f->tag) {
	case TAG_TEMPLATE:
		r = place_template(fs->conf, in->templates, f, why);
		in->templates += r == 0;
		return r;
	case TAG_TEMPLATE_MTIME:
		return in->templates ? record_get_time(f, &fs->template_mtime[in->templates - 1])
				     : -EBADMSG;
	case TAG_STARTED: return record_get_time(f, &fs->started);
	case TAG_STARTED_MS: return record_get(f, 0, uv_now(fs->loop), &fs->started_ms);
	case TAG_FRESH: return record_get_u32(f, UINT32_MAX, &fs->fresh);
	case TAG_STATS: return get_stats(&fs->stats, record_inside(f));
	case TAG_DEPOT_FILE: return record_get_u32(f, UINT32_MAX, &in->depot_file);
	case TAG_DEPOT_SLOTS: return record_get_u32(f, DEPOT_SLOTS_MAX, &in->depot_slots);
	case TAG_LOG_LEVEL: return get_log_level(f);
	default: return 0;
	}
}

static int get_mount(struct fs *fs, struct record_reader fields, struct fdbag *fds,
		     struct problem *why)
{
	struct mount_in in = {0};
	struct record_field f;
	int r, fd;

	if (fs->inherited.begun)
		return -EBADMSG;
	fs->inherited.begun = true;
	while ((r = record_field(&fields, &f)) > 0) {
		r = get_mount_field(fs, &in, &f, why);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	fd = fdbag_take(fds, in.depot_file);
	if (fd < 0)
		return in.depot_slots ? -EBADMSG : 0;
	return depot_resume(&fs->depot, fd, in.depot_slots);
}

static int get_complaint(struct complaint *c, struct record_reader fields)
{
	struct record_field f;
	char code[64] = "";
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum complaint_tag)f.tag) {
		case TAG_UID: r = record_get_u32(&f, UINT32_MAX, &c->uid); break;
		case TAG_CODE: r = record_get_str(&f, code, sizeof(code)); break;
		case TAG_CAUSE:
			r = record_get_str(&f, c->problem.cause, sizeof(c->problem.cause));
			break;
		case TAG_FIX: r = record_get_str(&f, c->problem.fix, sizeof(c->problem.fix)); break;
		case TAG_TIME: r = record_get_time(&f, &c->time); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	c->problem.code = *code ? problem_code_find(code) : PROBLEM_NONE;
	return r;
}

static int get_complaints(struct complaints *c, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag != TAG_COMPLAINT)
			continue;
		r = c->used < COMPLAINTS_MAX ? get_complaint(&c->of[c->used++], record_inside(&f))
					     : -EBADMSG;
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- sessions ---- */

static int find_saved(void *data, const char *name, struct saved **ret_saved, struct problem *why)
{
	const struct fs *fs = data;
	char *end;
	const unsigned long i = strtoul(name, &end, 10);

	if (*end || i >= fs->inherited.n) {
		problem_set(why, PROBLEM_FAILED, "", "what was saved is not there");
		return -EBADMSG;
	}
	*ret_saved = saved_ref(fs->inherited.saved[i]);
	return 0;
}

static int get_saved(struct fs *fs, const struct record *rec, struct fdbag *fds)
{
	struct saved **more, *saved;
	int r;

	if (rec->key != fs->inherited.n)
		return -EBADMSG;
	more = reallocarray(fs->inherited.saved, fs->inherited.n + 1, sizeof(struct saved *));
	if (!more)
		return -ENOMEM;
	fs->inherited.saved = more;
	r = vm_saved_take(fs->vm, rec->fields, fds, &saved);
	if (r == 0)
		more[fs->inherited.n++] = saved;
	return r;
}

static int get_session(struct fs *fs, const struct record *rec, struct problem *why)
{
	const struct keep_io io = {.live = true, .data = fs, .back = is_back, .find = find_saved};
	struct session *s;

	return keep_get(fs, rec, &io, why, &s);
}

int handover_get(struct fs *fs, const struct record *rec, struct fdbag *fds,
		 struct problem *ret_why)
{
	struct session *s = NULL;

	if (rec->kind == HANDOVER_FILES || rec->kind == HANDOVER_SANDBOX ||
	    rec->kind == HANDOVER_WORKDIR || rec->kind == HANDOVER_CALLS) {
		s = handover_session(fs, rec->key);
		if (!s)
			return -EBADMSG;
	}
	if (rec->kind != HANDOVER_MOUNT && !fs->inherited.begun)
		return -EBADMSG;
	switch (rec->kind) {
	case HANDOVER_MOUNT: return get_mount(fs, rec->fields, fds, ret_why);
	case HANDOVER_HANDLES: return handover_get_generations(fs, rec->fields);
	case HANDOVER_HANDLE: return handover_get_handle(fs, rec->key, rec->fields);
	case HANDOVER_SLOTS: return roster_get_free(&fs->roster, rec->fields);
	case HANDOVER_LOCKS: return nodelock_get(&fs->locks, rec->fields);
	case HANDOVER_EVENTS: return events_get(&fs->events, rec->fields);
	case HANDOVER_COMPLAINTS: return get_complaints(&fs->complaints, rec->fields);
	case HANDOVER_FILES: return handover_get_files(s, rec->fields);
	case HANDOVER_CALLS: return handover_get_calls(s, rec->fields);
	case HANDOVER_SANDBOX: return inherit_sandbox(s, rec->fields, fds);
	case HANDOVER_WORKDIR:
		return s->changes.work ? -EBADMSG
				       : workdir_take(fs->vm, &rec->fields, fds, &s->changes.work);
	case HANDOVER_SAVED: return get_saved(fs, rec, fds);
	case KEEP_SESSION: return get_session(fs, rec, ret_why);
	default: return 0;
	}
}

int handover_join(struct fs *fs, struct problem *ret_why)
{
	struct session *s;
	int r = nodelock_check(&fs->locks, &fs->handles);

	keep_join(fs);
	keep_settle(fs);
	depot_resumed(&fs->depot);
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0 && s->sandbox)
			r = handover_hold_files(s);
	}
	for (size_t i = 0; i < fs->inherited.n; i++)
		saved_unref(fs->inherited.saved[i]);
	free(fs->inherited.saved);
	fs->inherited.saved = NULL;
	fs->inherited.n = 0;
	if (r < 0)
		problem_set(ret_why, PROBLEM_FAILED, "", "it does not fit together: %s",
			    strerror(-r));
	return r;
}

void handover_go(struct fs *fs)
{
	_cleanup_free_ struct session **all = NULL;
	size_t n;

	vm_go(fs->vm);

	all = all_sessions(fs, &n);
	for (size_t i = 0; all && i < n; i++)
		session_ref(all[i]);
	for (size_t i = 0; all && i < n; i++) {
		inherit_go(all[i]);
		session_unref(all[i]);
	}
	alarm_set(&fs->alarm, uv_now(fs->loop));
}
