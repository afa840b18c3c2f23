/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of sessions' records at rest (fuzz_handover has the others): what it takes can be written, and reads as the same again. */
/* modules: tests/unit/fixture/fixture.c vm/base/record.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* libs: uv cmocka */
#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "fs/keep/keep.h"
#include "fs/session/binding.h"
#include "tests/unit/fixture/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One thing is saved, and is called "s0". */
static struct saved *saved;

static const char *name(void *data, const struct saved *s)
{
	(void)data;
	return s == saved ? "s0" : NULL;
}

static int find(void *data, const char *text, struct saved **ret_saved, struct problem *why)
{
	(void)data;
	if (strcmp(text, "s0") != 0) {
		problem_set(why, PROBLEM_DAMAGED, "", "there is none");
		return -ENOENT;
	}
	*ret_saved = saved_ref(saved);
	return 0;
}

static bool away(void *data, const struct keep_output *o, const struct spool *sp)
{
	(void)data;
	(void)o;
	return sp->away;
}

static int back(void *data, const struct keep_output *o, struct spool *sp)
{
	(void)data;
	(void)o;
	assert(sp->away && sp->len > SPOOL_MEMORY);
	return 0;
}

/* Half of it can't be read. */
static bool code_away(void *data, const struct keep_output *o, struct run *r)
{
	(void)data;
	(void)o;
	(void)r;
	return false;
}

static int code_back(void *data, const struct session *s, const struct keep_output *o,
		     struct run *r, uint64_t len)
{
	(void)data;
	assert(s && o->which == KEEP_CODE && len > KEEP_CODE_SHORT && len <= SESSION_CODE_MAX &&
	       !r->code.len);
	return len % 2 ? -EBADMSG : buf_truncate(&r->code, (size_t)len);
}

/* All that is there goes. */
static void clear(struct fs *fs)
{
	static const struct problem gone = {.code = PROBLEM_REMOVED, .cause = "the end"};
	struct session *s;

	/* Who has a sandbox tells those who wait for it; here nobody has. */
	LIST_FOREACH(s, &fs->sessions, kept)
		binding_unsave(s, &gone);
	while ((s = LIST_FIRST(&fs->sessions)))
		session_destroy(s);
}

static void write_all(struct fs *fs, const struct keep_io *io, struct buf *out)
{
	const struct session *s;

	LIST_FOREACH(s, &fs->sessions, kept)
		assert(keep_put(out, s, io) == 0);
}

/* Return: how many records were taken. */
static unsigned read_all(struct fs *fs, const struct keep_io *io, const void *data, size_t size)
{
	struct record_reader r = record_reader(data, size);
	struct record record;
	struct session *s;
	unsigned n = 0;

	while (n < 4 && record_next(&r, &record) > 0) {
		struct problem why = {0};
		const int e = keep_get(fs, &record, io, &why, &s);

		assert(e == 0 || (why.code && *why.cause));
		n += e == 0;
	}
	keep_join(fs);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct keep_io io = {.away = away,
				   .back = back,
				   .code_away = code_away,
				   .code_back = code_back,
				   .name = name,
				   .find = find};
	struct buf first = {0}, again = {0};
	struct fixture *fx;
	void *state;

	if (size < 1)
		return 0;
	fx_setup(&state);
	fx = state;
	saved = fake_saved_new(10, true);
	clear(fx->fs);
	if (read_all(fx->fs, &io, data + 1, size - 1) == 1) {
		write_all(fx->fs, &io, &first);
		clear(fx->fs);
		assert(read_all(fx->fs, &io, first.data, first.len) == 1);
		write_all(fx->fs, &io, &again);
		assert(first.len && first.len == again.len &&
		       memcmp(first.data, again.data, first.len) == 0);
	}
	clear(fx->fs);
	saved = saved_unref(saved);
	buf_clear(&first);
	buf_clear(&again);
	clock_work();
	fx_teardown(&state);
	return 0;
}
