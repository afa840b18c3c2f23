/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as records. See handover.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/files/files.h"
#include "fs/keep/keep.h"
#include "fs/request/nodelock.h"
#include "fs/session/inherit.h"
#include "internal.h"
#include "vm/base/util.h"

/* ---- writing ---- */

int handover_put_all(struct fs *fs, struct handover_sink *sink)
{
	struct session *s;
	int r = handover_put_mount(fs, sink);

	if (r == 0)
		r = handover_put_sessions(fs, sink);
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0)
			r = handover_put_files(s, sink);
	}
	if (r == 0)
		r = handover_put_rest(fs, sink);
	if (r == 0)
		r = handover_put_handles(fs, sink);
	return r;
}

int handover_put(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	sink_to_estate(&sink, e, fds);
	sink.anew = true;
	r = handover_put_all(fs, &sink);
	sink_fini(&sink);
	return r == 0 && fds->failed ? -ENOMEM : r;
}

/* ---- reading ---- */

/* Of these a session is made; what comes behind all of them relies on it. */
static bool is_of_sessions(uint32_t kind)
{
	return kind == KEEP_SESSION || kind == KEEP_RUN || kind == KEEP_JOB ||
	       kind == KEEP_SCRATCH || kind == KEEP_REMOVAL || kind == KEEP_TEXT ||
	       kind == KEEP_BLOCK;
}

static bool is_before_sessions(uint32_t kind)
{
	return kind == HANDOVER_PROCESS || kind == HANDOVER_MOUNT || kind == HANDOVER_STATS ||
	       kind == HANDOVER_AUDIT || kind == HANDOVER_ACCOUNT || kind == HANDOVER_SAVED;
}

/* Behind them. */
static bool is_of_one(uint32_t kind)
{
	return kind == HANDOVER_FILES || kind == HANDOVER_NODE || kind == HANDOVER_SANDBOX ||
	       kind == HANDOVER_WORKDIR || kind == HANDOVER_CALLS || kind == HANDOVER_COMMIT;
}

/* All that comes before it was read. Return: 0 or -errno: the mount can't be had. */
static int prepare(struct fs *fs, uint32_t kind, struct problem *why)
{
	int r = 0;

	if (kind != HANDOVER_MOUNT && !fs->inherited.begun)
		return -EBADMSG;
	if (!is_of_sessions(kind) && !is_before_sessions(kind))
		r = handover_complete(fs, why);
	if (r == 0 && kind == HANDOVER_SANDBOX)
		r = handover_complete_files(fs);
	return r;
}

static int get(struct fs *fs, const struct record *rec, struct fdbag *fds, struct problem *ret_why)
{
	struct session *s = is_of_one(rec->kind) ? keep_session(fs, rec->key) : NULL;

	if (is_of_sessions(rec->kind))
		return handover_get_session(fs, rec, ret_why);
	if (is_of_one(rec->kind) && !s)
		return -EBADMSG;
	if (s && fs->inherited.filed && rec->kind != HANDOVER_SANDBOX)
		return -EBADMSG;
	switch (rec->kind) {
	case HANDOVER_GENERATION: return handover_get_generation(fs, rec->key, rec->fields);
	case HANDOVER_HANDLE: return handover_get_handle(fs, rec->key, rec->fields);
	case HANDOVER_TEXT: return handover_get_text(fs, rec->key, rec->fields);
	case HANDOVER_FILES: return handover_get_files(s, rec->fields);
	case HANDOVER_CALLS: return handover_get_calls(s, rec->fields);
	case HANDOVER_NODE: return handover_get_node(s, rec->fields);
	case HANDOVER_SANDBOX: return inherit_sandbox(s, rec->fields, fds);
	case HANDOVER_WORKDIR:
		return s->changes.work ? -EBADMSG
				       : workdir_take(fs->vm, &rec->fields, fds, &s->changes.work);
	case HANDOVER_COMMIT: return commit_take(s, &rec->fields, fds);
	case HANDOVER_SAVED: return handover_get_saved(fs, rec, fds);
	default: return handover_get_whole(fs, rec, fds, ret_why);
	}
}

int handover_get(struct fs *fs, const struct record *rec, struct fdbag *fds,
		 struct problem *ret_why)
{
	int r = prepare(fs, rec->kind, ret_why);

	if (r < 0 || handover_passes_over(fs, rec))
		return r;
	r = get(fs, rec, fds, ret_why);
	if (r == 0 || !fs->inherited.died)
		return r;
	r = handover_lost(fs, rec, r);
	if (r == 0) /* it is told another way */
		*ret_why = (struct problem){0};
	return r;
}

/* Return: the first error. */
static int join_all(struct fs *fs, struct problem *why)
{
	int e, r = handover_complete(fs, why);
	struct session *s;

	if (r == 0)
		r = handover_complete_files(fs);
	if (r == 0)
		r = handover_join_whole(fs);
	if (r == 0)
		r = handover_join_handles(fs);
	e = nodelock_check(&fs->locks, &fs->handles); /* in any case: nobody else frees them */
	if (r == 0 && !fs->inherited.died)	      /* else those of a handle that is lost are */
		r = e;
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0 && s->sandbox)
			r = handover_hold_files(s);
	}
	return r;
}

int handover_join(struct fs *fs, struct problem *ret_why)
{
	const int r = join_all(fs, ret_why);

	handover_join_sessions(fs);
	if (r < 0) {
		handover_forget_losses(fs);
		problem_set(ret_why, PROBLEM_FAILED, "", "it does not fit together: %s",
			    strerror(-r));
	}
	return r;
}

void handover_go(struct fs *fs)
{
	_cleanup_free_ struct session **all = NULL;
	size_t n;

	vm_go(fs->vm);
	handover_tell_losses(fs);

	all = handover_all_sessions(fs, &n);
	for (size_t i = 0; all && i < n; i++)
		session_ref(all[i]);
	for (size_t i = 0; all && i < n; i++) {
		inherit_go(all[i]);
		session_unref(all[i]);
	}
	alarm_set(&fs->alarm, uv_now(fs->loop));
}
