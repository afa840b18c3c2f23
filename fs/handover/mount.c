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

static int put_session(struct session *s, const struct keep_io *io, struct buf *out,
		       struct fdbag *fds, struct problem *why)
{
	struct handover_sink sink;
	int r = keep_put(out, s, io);
	size_t at;

	if (r == 0) {
		sink_to_stream(&sink, out, fds);
		r = handover_put_files(s, &sink);
		sink_fini(&sink);
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
	struct handover_sink sink;

	if (r < 0)
		return r;
	sink_to_stream(&sink, out, fds);
	r = handover_put_mount(fs, &sink);
	if (r == 0)
		r = put_sessions(fs, out, fds, ret_why);
	if (r == 0)
		r = handover_put_rest(fs, &sink);
	if (r == 0)
		r = handover_put_handles(fs, &sink);
	sink_fini(&sink);
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
	if (files_are_asked(s->files)) {
		problem_set(why, PROBLEM_BUSY, "", "requests below %s/files are not answered",
			    s->path);
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

	if (rec->kind == HANDOVER_FILES || rec->kind == HANDOVER_NODE ||
	    rec->kind == HANDOVER_SANDBOX || rec->kind == HANDOVER_WORKDIR) {
		s = handover_session(fs, rec->key);
		if (!s)
			return -EBADMSG;
	}
	if (rec->kind != HANDOVER_MOUNT && !fs->inherited.begun)
		return -EBADMSG;
	switch (rec->kind) {
	case HANDOVER_GENERATION: return handover_get_generation(fs, rec->key, rec->fields);
	case HANDOVER_HANDLE: return handover_get_handle(fs, rec->key, rec->fields);
	case HANDOVER_TEXT: return handover_get_text(fs, rec->key, rec->fields);
	case HANDOVER_FILES: return handover_get_files(s, rec->fields);
	case HANDOVER_NODE: return handover_get_node(s, rec->fields);
	case HANDOVER_SANDBOX: return inherit_sandbox(s, rec->fields, fds);
	case HANDOVER_WORKDIR:
		return s->changes.work ? -EBADMSG
				       : workdir_take(fs->vm, &rec->fields, fds, &s->changes.work);
	case HANDOVER_SAVED: return get_saved(fs, rec, fds);
	case KEEP_SESSION: return get_session(fs, rec, ret_why);
	default: return handover_get_whole(fs, rec, fds, ret_why);
	}
}

/* Return: the first error. */
static int join_all(struct fs *fs)
{
	int r = handover_join_whole(fs);
	struct session *s;

	if (r == 0)
		r = handover_join_handles(fs);
	if (r == 0)
		r = nodelock_check(&fs->locks, &fs->handles);
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0)
			r = handover_join_files(s);
		if (r == 0 && s->sandbox)
			r = handover_hold_files(s);
	}
	return r;
}

int handover_join(struct fs *fs, struct problem *ret_why)
{
	const int r = join_all(fs);

	keep_join(fs);
	keep_settle(fs);
	depot_resumed(&fs->depot);
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
