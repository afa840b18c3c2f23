/* SPDX-License-Identifier: Apache-2.0 */
/* What was saved, as records: each once, by a number that stays. See handover.h. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "vm/base/util.h"

/* ---- writing ---- */

static int put(struct handover_sessions *to, const struct saved *saved)
{
	const int r = saved_put(saved, sink_begin_aside(to->sink), to->sink->fds);

	return r < 0 ? r : sink_end_aside(to->sink, HANDOVER_SAVED, saved_number(saved), 0);
}

static int compare(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return (x > y) - (x < y);
}

/* Each is written when it gets its number, or, named first, when all are written. */
int handover_put_saved(struct handover_sessions *to, const struct saved *saved)
{
	struct saved *named = (struct saved *)saved;
	uint64_t number = saved_number(saved);
	int r = 0;

	if (number && to->changes_only)
		return 0;
	if (!number)
		saved_set_number(named, touched_id(&to->fs->touched, &number));
	if (tfind(saved, &to->put, compare))
		return 0;
	if (!tsearch(saved, &to->put, compare))
		return -ENOMEM;
	r = put(to, saved);
	if (r < 0)
		(void)tdelete(saved, &to->put, compare);
	return r;
}

int handover_commit_saved(struct handover_sessions *to)
{
	struct saved *saved;
	int r = 0;

	while (r == 0 && (saved = saved_next_changed()))
		r = put(to, saved);
	return r;
}

static void nothing(void *saved)
{
	(void)saved;
}

void handover_saved_fini(struct handover_sessions *to)
{
	tdestroy(to->put, nothing);
	to->put = NULL;
}

static void on_gone(void *data, uint64_t number)
{
	struct fs *fs = data;

	touched_add_gone(&fs->touched, TOUCHED_SAVED, number, 0);
}

void handover_watch_saved(struct fs *fs)
{
	saved_watch(on_gone, fs);
}

/* ---- reading ---- */

/* Where it is, or would be: they are in the order of their numbers. */
static size_t place_of(const struct fs *fs, uint64_t number)
{
	size_t low = 0, high = fs->inherited.n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (saved_number(fs->inherited.saved[mid]) < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct saved *handover_find_saved(const struct fs *fs, uint64_t number)
{
	const size_t i = place_of(fs, number);

	return i < fs->inherited.n && saved_number(fs->inherited.saved[i]) == number
		       ? saved_ref(fs->inherited.saved[i])
		       : NULL;
}

int handover_get_saved(struct fs *fs, const struct record *rec, struct fdbag *fds)
{
	const size_t i = place_of(fs, rec->key);
	struct saved **more, *saved;
	int r;

	if (rec->key == 0 || rec->key > UINT64_MAX / 2 ||
	    (i < fs->inherited.n && saved_number(fs->inherited.saved[i]) == rec->key))
		return -EBADMSG;
	more = reallocarray(fs->inherited.saved, fs->inherited.n + 1, sizeof(struct saved *));
	if (!more)
		return -ENOMEM;
	fs->inherited.saved = more;
	r = vm_saved_take(fs->vm, rec->fields, fds, fs->inherited.died, &saved);
	if (r < 0)
		return r;
	saved_set_number(saved, rec->key);
	touched_has_id(&fs->touched, rec->key);
	memmove(more + i + 1, more + i, (fs->inherited.n - i) * sizeof(struct saved *));
	more[i] = saved;
	fs->inherited.n++;
	return 0;
}

void handover_forget_saved(struct fs *fs)
{
	for (size_t i = 0; i < fs->inherited.n; i++)
		saved_unref(fs->inherited.saved[i]);
	free(fs->inherited.saved);
	fs->inherited.saved = NULL;
	fs->inherited.n = 0;
}
