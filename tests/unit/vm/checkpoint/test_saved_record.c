/* SPDX-License-Identifier: Apache-2.0 */
/* What was saved, in a record and back: what another daemon makes of it. */
/* modules: vm tests/unit/fixture/saved_fixture.c tests/unit/fixture/vault_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "tests/unit/fixture/vault_fixture.h"
#include "vm/base/buf.h"
#include "vm/base/digest.h"
#include "vm/checkpoint/saved_record.h"
#include "vm/image/layer.h"

/* Return: what is made of the record of @s, which goes. */
static struct saved *again(struct saved *s)
{
	struct saved *taken = NULL;
	struct saved_packs packs = {0};
	struct fdbag fds = {0};
	struct buf out = {0};

	assert_int_equal(saved_put(s, &out, &fds), 0);
	assert_int_equal(saved_take(vf_vault, NULL, &packs, record_reader(out.data, out.len), &fds,
				    false, &taken),
			 0);
	saved_packs_drop(&packs);
	buf_clear(&out);
	fdbag_clear(&fds);
	saved_unref(s);
	return taken;
}

static void in_memory(void **state)
{
	struct saved *s;

	(void)state;
	vf_begin();
	s = again(vf_saved(1, false));
	vf_same(s, 1, false);
	saved_unref(s);
	vf_close();
}

/* Descriptors have numbers of their own, as with a holder: the same one has the same. */
static unsigned number_of(int fd)
{
	return (unsigned)fd;
}

/* What sleeps as a checkpoint is, and was reset, has its files as well: there is one descriptor, and one pack again. */
static void files_of_both(void **state)
{
	struct fdbag fds = {.number = number_of}, there = {0};
	struct saved_packs packs = {0};
	struct saved *s, *files, *got[2];
	struct buf out[2] = {0};

	(void)state;
	vf_begin();
	s = vf_saved(1, true);
	files = saved_files_only(s);
	assert_int_equal(saved_put(files, &out[0], &fds), 0);
	assert_int_equal(saved_put(s, &out[1], &fds), 0);
	for (int fd = 3; fd < 100; fd++) { /* as another process has them */
		const int other = fcntl(fd, F_DUPFD_CLOEXEC, 100);

		if (other >= 0)
			assert_int_equal(fdbag_set(&there, (unsigned)fd, other), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(saved_take(vf_vault, NULL, &packs,
					    record_reader(out[i].data, out[i].len), &there, false,
					    &got[i]),
				 0);
	assert_ptr_equal(saved_pack(got[0]), saved_pack(got[1]));
	saved_packs_drop(&packs);
	saved_unref(files);
	saved_unref(s);
	assert_false(saved_has_memory(got[0]));
	vf_same(got[0], 1, false);
	saved_unref(got[0]);
	vf_same(got[1], 1, true);
	saved_unref(got[1]);
	fdbag_clear(&there);
	fdbag_clear(&fds);
	buf_clear(&out[0]);
	buf_clear(&out[1]);
	vf_close();
}

static void on_the_disk(void **state)
{
	struct saved *s;

	(void)state;
	vf_begin();
	s = again(vf_stored(2, true));
	assert_true(saved_has_memory(s) && !saved_is_loaded(s));
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 2, true);
	saved_unref(s);
	vf_close();
}

/* The files alone of what is on the disk, before they are there by a name of their own: a session that sleeps was reset. */
static void files_of_what_is_on_the_disk(void **state)
{
	struct saved *s, *f, *whole;

	(void)state;
	vf_begin();
	s = vf_stored(3, true);
	f = again(saved_files_only(s));
	assert_false(saved_has_memory(f));
	assert_null(saved_pack(f));
	whole = f;
	f = again(saved_files_only(whole));
	saved_unref(whole);
	assert_int_equal(vf_load(f, false).code, 0);
	vf_same(f, 3, false);
	assert_int_equal(vf_store(f), 0);
	f = again(f);
	assert_string_not_equal(saved_id(f), saved_id(s));
	saved_unref(s);
	saved_unload(f);
	assert_int_equal(vf_load(f, false).code, 0);
	vf_same(f, 3, false);
	saved_unref(f);
	vf_close();
}

static int take_of(const struct buf *out, bool died, struct saved **ret_saved)
{
	struct saved_packs packs = {0};
	struct fdbag fds = {0};
	const int r = saved_take(vf_vault, NULL, &packs, record_reader(out->data, out->len), &fds,
				 died, ret_saved);

	saved_packs_drop(&packs);
	fdbag_clear(&fds);
	return r;
}

static int take(struct buf *out, struct saved **ret_saved)
{
	const int r = take_of(out, false, ret_saved);

	buf_clear(out);
	return r;
}

/* What was found to be damaged is so for the next daemon, before it has read it. */
static void damaged_goes_along(void **state)
{
	struct fdbag fds = {0};
	struct buf out = {0};
	struct saved *s, *t;

	(void)state;
	vf_begin();
	s = vf_stored(4, false);
	saved_set_number(s, 1);
	saved_set_damaged(s, true);
	assert_ptr_equal(saved_next_changed(), s);
	assert_int_equal(saved_put(s, &out, &fds), 0);
	saved_set_damaged(s, false);
	assert_int_equal(take(&out, &t), 0);
	assert_ptr_equal(s, t);
	assert_true(saved_is_damaged(t));
	saved_unref(t);
	saved_unref(s);
	vf_close();
}

/* Nothing at all, and what is not there. */
static void makes_no_sense(void **state)
{
	static const unsigned char of = 7; /* TAG_OF */
	struct saved *s = NULL;
	struct buf out = {0};

	(void)state;
	vf_begin();
	assert_int_equal(take(&out, &s), -EBADMSG);
	record_str(&out, of, "0123456789abcdef0123456789abcdef");
	assert_int_equal(take(&out, &s), -ENOENT);
	record_str(&out, of, "../../etc");
	assert_int_equal(take(&out, &s), -ENOENT);
	record_str(&out, of, "0123456789abcdef0123456789abcdef0123456789abcdef");
	assert_true(take(&out, &s) < 0);
	assert_null(s);
	vf_close();
}

/* A file lies there instead of it, which is not damaged by that. Return: whether it did not before. */
static bool hide(const char *id, bool hidden)
{
	char path[PATH_MAX + 64], aside[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/saved/%s", vf_top, id);
	snprintf(aside, sizeof(aside), "%s/aside", vf_top);
	return hidden ? rename(path, aside) == 0 && mknod(path, S_IFREG | 0600, 0) == 0
		      : unlink(path) == 0 && rename(aside, path) == 0;
}

/* What the disk does not give now: who takes over from one that has it refuses; behind its death the name stays, and what it is
 * the name of. Of that the files alone are no less. */
static void not_read_now(void **state)
{
	struct buf out[2] = {0};
	struct fdbag fds = {0};
	struct saved *s, *files, *t[2] = {0};
	char id[SAVED_ID_MAX];

	(void)state;
	vf_begin();
	s = vf_stored(5, true);
	files = saved_files_only(s);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	assert_int_equal(saved_put(s, &out[0], &fds), 0);
	assert_int_equal(saved_put(files, &out[1], &fds), 0);
	saved_unref(files);
	saved_unref(s);
	assert_true(hide(id, true));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(take_of(&out[i], false, &t[i]), -ENOTDIR);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(take_of(&out[i], true, &t[i]), 0);
	assert_string_equal(saved_id(t[0]), id);
	assert_string_equal(saved_files_of(t[1]), id);
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_settle();
	assert_true(hide(id, false));
	for (unsigned i = 0; i < 2; i++) {
		saved_unref(t[i]);
		buf_clear(&out[i]);
	}
	vf_close();
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 5, true);
	saved_unref(s);
	vf_close();
}

/* There is no descriptor left to look: that says nothing of it, and is no reason for a name alone. */
static void no_room_to_look(void **state)
{
	struct rlimit most, none;
	struct buf out = {0};
	struct fdbag fds = {0};
	struct saved *s, *t = NULL;
	int r;

	(void)state;
	vf_begin();
	s = vf_stored(6, false);
	assert_int_equal(saved_put(s, &out, &fds), 0);
	saved_unref(s);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = most.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = take_of(&out, true, &t);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	assert_int_equal(r, -EMFILE);
	assert_true(saved_take_passes(r));
	assert_int_equal(take_of(&out, true, &t), 0);
	assert_false(saved_is_damaged(t));
	saved_unref(t);
	buf_clear(&out);
	vf_close();
}

/* A package layer has a sum for its name: what else a daemon has written, which may have been a guest's, is not looked for. */
static void layer_is_no_path(void **state)
{
	static const unsigned char point = 5, layer = 13; /* TAG_POINT, TAG_LAYER */
	char sum[DIGEST_HEX] = {0};
	const char *const keys[] = {"../../../../tmp", sum};
	struct saved_packs packs = {0};
	struct fdbag fds = {0};
	struct saved *s = NULL;
	struct layers layers;

	(void)state;
	vf_begin();
	memset(sum, 'a', sizeof(sum) - 1);
	assert_int_equal(layers_init(&layers, vf_top, NULL, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct buf out = {0};
		const size_t at = record_open(&out, point);

		record_str(&out, layer, keys[i]);
		record_close(&out, at);
		assert_int_equal(saved_take(vf_vault, &layers, &packs,
					    record_reader(out.data, out.len), &fds, false, &s),
				 i == 0 ? -EBADMSG : -ENOENT);
		buf_clear(&out);
	}
	assert_null(s);
	layers_fini(&layers);
	vf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		VF_TEST(in_memory),	     VF_TEST(files_of_both),
		VF_TEST(on_the_disk),	     VF_TEST(files_of_what_is_on_the_disk),
		VF_TEST(damaged_goes_along), VF_TEST(makes_no_sense),
		VF_TEST(layer_is_no_path),   VF_TEST(not_read_now),
		VF_TEST(no_room_to_look),
	};

	return vf_run(tests);
}
