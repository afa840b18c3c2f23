/* SPDX-License-Identifier: Apache-2.0 */
/* The vault: what was saved, on a disk and back. */
/* modules: vm tests/unit/fixture/saved_fixture.c tests/unit/fixture/vault_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "tests/unit/fixture/vault_fixture.h"
#include "vm/base/util.h"

/* Whether it is loaded or not. */
static void needs_a_machine(const struct saved *s)
{
	char text[8];

	assert_true(saved_need(s, "kernel", text, sizeof(text)));
	assert_string_equal(text, "1");
	assert_true(saved_need(s, "qemu", text, sizeof(text)));
	assert_string_equal(text, "7.2");
	assert_true(saved_need(s, "qemu", text, 3));
	assert_string_equal(text, "7.");
	assert_false(saved_need(s, "qem", text, sizeof(text)));
	assert_false(saved_need(s, "7.2", text, sizeof(text)));
	assert_false(saved_need(s, "packages", text, sizeof(text)));
}

static void comes_back(void **state)
{
	struct saved *s, *t, *twice;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	assert_true(sizeof(struct saved) < 300);
	vf_begin();
	s = vf_stored(3, true);
	assert_true(saved_has_memory(s) && !saved_is_loaded(s));
	needs_a_machine(s);
	assert_true(saved_bytes(s) > 0 && saved_memory_bytes(s) == SAVED_STREAM);
	assert_int_equal(saved_in_memory().bytes, 0);
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 3, true);
	assert_int_equal(saved_in_memory().points, 1);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	vf_close();

	/* The next one knows it by its name, and what it is without loading it. */
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &t, &why), 0);
	assert_true(saved_has_memory(t) && !saved_pack(t));
	needs_a_machine(t);
	assert_int_equal(saved_memory_bytes(t), SAVED_STREAM);
	assert_int_equal(saved_mtime(t).tv_sec, 7);
	assert_int_equal(saved_flaws(t).changed, 3);
	assert_int_equal(saved_flaws(t).left_out, 4);
	assert_int_equal(vault_find(vf_vault, id, &twice, &why), 0);
	assert_ptr_equal(t, twice);
	assert_int_equal(vf_load(t, true).code, 0);
	assert_true(saved_pack(t) && !saved_point(t) && !saved_is_loaded(t));
	assert_int_equal(vf_load(t, false).code, 0);
	vf_same(t, 3, true);
	saved_unref(t);
	saved_unref(twice);
	assert_int_equal(vault_find(vf_vault, "0123456789abcdef0123456789abcdef", &t, &why),
			 -ENOENT);
	assert_int_equal(vault_find(vf_vault, "../../etc", &t, &why), -ENOENT);
	vf_close();
}

/* What both began from is on the disk once, and no part of what either takes. */
static void bases_are_shared(void **state)
{
	struct saved *s, *t;

	(void)state;
	vf_begin();
	s = vf_stored(3, true);
	t = vf_stored(3, true);
	assert_true(saved_base_bytes(s) > 0 && saved_base_bytes(t) == saved_base_bytes(s));
	assert_int_equal(saved_compare_bases(s, t), 0);
	assert_int_equal(saved_bytes(s), saved_bytes(t));
	saved_unref(s);
	s = vf_stored(4, false);
	assert_int_equal(saved_base_bytes(s), 0);
	assert_int_not_equal(saved_compare_bases(s, t), 0);
	saved_unref(s);
	saved_unref(t);
	vf_close();
}

/* Several ask at once, and some change their minds. */
static void many_wait(void **state)
{
	struct vf_answer a[5] = {0};
	struct saved *s, *u;

	(void)state;
	vf_begin();
	s = vf_saved(4, true);
	for (unsigned i = 0; i < 3; i++)
		vault_store(vf_vault, s, vf_stored_answer, &a[i]);
	vf_settle();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(a[i].n, 1);
	vault_store(vf_vault, s, vf_stored_answer, &a[3]); /* it is there */
	assert_int_equal(a[3].n, 0);
	while (!a[3].n)
		uv_run(&vf_loop, UV_RUN_ONCE);
	assert_int_equal(vf_count(""), 1);

	saved_unload(s);
	for (unsigned i = 0; i < 5; i++) {
		a[i] = (struct vf_answer){.wait.done = vf_loaded_answer};
		(i % 2 ? saved_load_files : saved_load)(s, &a[i].wait);
	}
	wait_cancel(&a[2].wait);
	vf_settle();
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(a[i].n, i != 2);
	assert_true(saved_is_loaded(s));

	/* Files first, memory asked for while they are on their way. */
	saved_unload(s);
	a[0] = a[1] = (struct vf_answer){.wait.done = vf_loaded_answer};
	saved_load_files(s, &a[0].wait);
	saved_load(s, &a[1].wait);
	vf_settle();
	assert_true(a[0].n == 1 && a[1].n == 1 && saved_is_loaded(s));

	/* The last reference goes while a worker has it. */
	u = vf_saved(5, false);
	a[0] = (struct vf_answer){0};
	vault_store(vf_vault, u, vf_stored_answer, &a[0]);
	saved_unref(u);
	vf_settle();
	assert_true(a[0].n == 1 && a[0].err == 0);
	saved_unref(s);
	vf_close();
}

/* What was loaded last stays, the rest goes; who uses it goes on. */
static void is_bounded(unsigned least, unsigned most)
{
	enum { N = 140 };
	struct saved *s[N];
	struct pack *used = NULL;
	unsigned n = 0;

	vf_begin();
	for (unsigned i = 0; i < N; i++) {
		s[i] = vf_saved(i, i % 10 == 0);
		assert_int_equal(vf_store(s[i]), 0);
		if (i == 0)
			used = pack_ref(saved_pack(s[0]));
	}
	for (unsigned i = 0; i < N; i++)
		n += saved_pack(s[i]) != NULL;
	assert_in_range(n, least, most);
	assert_null(saved_pack(s[0]));
	assert_non_null(saved_pack(s[N - 1]));
	assert_true(pack_entries(used) == 2);
	pack_unref(used);
	for (unsigned i = 0; i < N; i++)
		saved_unref(s[i]);
	vf_close();
	assert_int_equal(saved_in_memory().bytes, 0);
}

static void memory_is_bounded(void **state)
{
	(void)state;
	is_bounded(64, 128);
}

/* ... and leaves descriptors to what is not on the disk yet, of which there are a sixteenth (vm/sandbox/schedule.c). */
static void descriptors_are_bounded(void **state)
{
	struct rlimit before, few;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 1024;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	is_bounded(16, 32);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The files alone, of one that is there and of one that is not. */
static void files_alone(void **state)
{
	struct saved *s, *f, *g;
	char id[SAVED_ID_MAX];

	(void)state;
	vf_begin();
	s = vf_stored(6, true);
	f = saved_files_only(s);
	assert_false(saved_has_memory(f));
	assert_null(saved_id(f));
	assert_int_equal(vf_load(f, false).code, 0);
	vf_same(f, 6, false);
	saved_unref(f);

	f = saved_files_only(s);
	saved_unref(s);
	assert_int_equal(vf_store(f), 0);
	snprintf(id, sizeof(id), "%s", saved_id(f));
	g = saved_files_only(f);
	assert_int_equal(vf_load(g, false).code, 0);
	assert_int_equal(vf_store(g), 0); /* it is in memory already */
	assert_string_not_equal(saved_id(g), id);
	saved_unload(g);
	assert_null(saved_pack(g));
	assert_int_equal(vf_load(f, false).code, 0);
	assert_true(saved_is_loaded(f));
	assert_int_equal(vf_load(g, false).code, 0);
	vf_same(g, 6, false);
	saved_unref(f);
	saved_unref(g);
	vf_close();

	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &s, NULL), 0);
	assert_false(saved_has_memory(s));
	assert_int_equal(vf_load(s, false).code, 0);
	vf_same(s, 6, false);
	saved_unref(s);
	vf_close();
}

/* It goes when nobody names it any more, and not before. */
static void is_removed(void **state)
{
	struct saved *a, *b, *c;
	const char *keep[1];
	char id[SAVED_ID_MAX];
	uint64_t mark;

	(void)state;
	vf_begin();
	a = vf_stored(1, true);
	b = vf_stored(2, true);
	c = vf_stored(3, false);
	snprintf(id, sizeof(id), "%s", saved_id(b));
	keep[0] = id;
	assert_int_equal(vf_count(""), 3);
	assert_int_equal(vf_count("/bases"), 1);
	saved_unref(a);
	mark = vault_mark(vf_vault);
	saved_unref(b); /* behind the mark */
	vf_settle();
	assert_int_equal(vf_count(""), 3);
	vault_forget(vf_vault, mark);
	vf_settle();
	assert_int_equal(vf_count(""), 2);
	assert_int_equal(vault_find(vf_vault, id, &b, NULL), 0); /* it is wanted again */
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_settle();
	assert_int_equal(vf_count(""), 2);
	assert_int_equal(vf_load(b, false).code, 0);
	saved_unref(b);
	saved_unref(c);
	vf_close();
	assert_int_equal(vf_count(""), 2); /* as it ended, all stayed */

	vf_begin();
	vault_keep(vf_vault, keep, 1);
	vf_settle();
	assert_int_equal(vf_count(""), 1);
	assert_int_equal(vf_count("/bases"), 1);
	vault_keep(vf_vault, NULL, 0);
	vf_settle();
	assert_int_equal(vf_count(""), 0);
	assert_int_equal(vf_count("/bases"), 0);
	vf_close();
}

/* Makes one of that name, with a file. */
static void make_half(const char *name)
{
	char path[PATH_MAX + 256];
	int fd;

	snprintf(path, sizeof(path), "%s/saved/%s", vf_top, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/saved/%s/pack", vf_top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(const char *name)
{
	char path[PATH_MAX + 256];

	snprintf(path, sizeof(path), "%s/saved/%s", vf_top, name);
	return access(path, F_OK) == 0;
}

/* Who goes on has no use for what the one before was making, or removing, or had let go of: that goes behind the next mark, and no
 * sooner. What somebody has stays, by whatever it stands for; so does what is wanted again, or made meanwhile, or is by no name of
 * ours. */
static void orphans_are_found(void **state)
{
	enum { NOBODYS, HELD, STANDS_IN, WANTED, LET_GO, N };
	static const char begun[] = ".new-00112233445566778899aabbccddeeff",
			  gone[] = ".old-00112233445566778899aabbccddeeff", other[] = "notes";
	struct saved *s[N], *made;
	char id[N][SAVED_ID_MAX], made_id[SAVED_ID_MAX];
	struct vf_answer a = {.n = 0};
	uint64_t mark;

	(void)state;
	vf_begin();
	for (unsigned i = 0; i < N; i++) {
		s[i] = vf_stored(i, i == HELD);
		snprintf(id[i], sizeof(id[i]), "%s", saved_id(s[i]));
	}
	for (unsigned i = 0; i < N; i++)
		saved_unref(s[i]);
	vf_close();
	make_half(begun);
	make_half(gone);
	make_half(other);
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id[HELD], &s[HELD], NULL), 0);
	assert_int_equal(vault_stand_in(vf_vault, id[STANDS_IN], &s[STANDS_IN]), 0);
	assert_int_equal(vault_find(vf_vault, id[LET_GO], &s[LET_GO], NULL), 0);
	saved_unref(s[LET_GO]);
	mark = vault_mark(vf_vault);
	made = vf_saved(7, false);
	vault_store(vf_vault, made, vf_stored_answer, &a);
	vault_find_orphans(vf_vault);
	vault_find_orphans(vf_vault); /* none twice */
	vault_forget(vf_vault, mark); /* which was before they were found */
	vf_settle();
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(is_there(id[i]), i != LET_GO);
	assert_true(is_there(begun) && is_there(gone));
	assert_int_equal(vault_find(vf_vault, id[WANTED], &s[WANTED], NULL), 0);
	assert_int_equal(a.n, 1);
	snprintf(made_id, sizeof(made_id), "%s", saved_id(made));
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_settle();
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(is_there(id[i]), i == HELD || i == STANDS_IN || i == WANTED);
	assert_true(is_there(made_id) && is_there(other));
	assert_false(is_there(begun) || is_there(gone));
	assert_int_equal(vf_load(s[HELD], false).code, 0);
	vf_same(s[HELD], HELD, true);
	saved_unref(s[HELD]);
	saved_unref(s[STANDS_IN]);
	saved_unref(s[WANTED]);
	saved_unref(made);
	vf_close();
}

/* What was begun and never finished goes at the next start. */
static void halves_are_removed(void **state)
{
	static const char *const names[] = {".new-0123", ".old-4567"};
	struct vf_answer a = {.n = 0};
	struct saved *s;

	(void)state;
	vf_begin();
	vf_close();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		make_half(names[i]);
	vf_begin();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(is_there(names[i])); /* they may be another process's still */
	s = vf_saved(1, false);
	vault_store(vf_vault, s, vf_stored_answer, &a); /* what is being made stays */
	vault_keep(vf_vault, NULL, 0);
	vf_settle();
	assert_int_equal(a.err, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_false(is_there(names[i]));
	assert_int_equal(vf_count(""), 1);
	saved_unref(s);
	vf_close();
}

/* ---- its end ---- */

/* What was queued is told so, what was under way is waited for. */
static void the_end(void **state)
{
	enum { N = 12 };
	struct vf_answer a[N] = {0};
	struct saved *s[N], *t;
	unsigned done = 0, cut = 0;
	char id[SAVED_ID_MAX];

	(void)state;
	vf_begin();
	t = vf_stored(20, false);
	for (unsigned i = 0; i < N; i++) {
		s[i] = vf_saved(i, false);
		vault_store(vf_vault, s[i], vf_stored_answer, &a[i]);
	}
	vf_close();
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(a[i].n, 1);
		assert_true(a[i].err == 0 || a[i].err == -ECANCELED);
		done += a[i].err == 0;
		cut += a[i].err != 0;
	}
	assert_true(done >= 1 && cut >= N - 4);
	/* What was saved outlives the vault; it can be let go. */
	snprintf(id, sizeof(id), "%s", saved_id(t));
	for (unsigned i = 0; i < N; i++)
		saved_unref(s[i]);
	saved_unref(t);
	assert_int_equal(vf_count(""), 1 + done);
	vf_begin();
	assert_int_equal(vault_find(vf_vault, id, &t, NULL), 0);
	saved_unref(t);
	vf_close();
}

/* ---- other things that are sealed ---- */

/* What is to be removed is not left there because others were being read when the end came. */
static void removed_at_the_end(void **state)
{
	enum { N = 4 };
	struct vf_answer a[N] = {0};
	struct saved *s[N], *gone;

	(void)state;
	vf_begin();
	gone = vf_stored(20, false);
	for (unsigned i = 0; i < N; i++) {
		s[i] = vf_stored(i, false);
		a[i].wait.done = vf_loaded_answer;
	}
	for (unsigned i = 0; i < N; i++)
		saved_load(s[i], &a[i].wait);
	saved_unref(gone);
	vault_forget(vf_vault, vault_mark(vf_vault));
	vf_close();
	assert_int_equal(vf_count(""), N);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(a[i].n, 1);
		saved_unref(s[i]);
	}
}

static void small_things(void **state)
{
	struct buf sealed = {0}, plain = {0};

	(void)state;
	vf_begin();
	assert_int_equal(vault_seal(vf_vault, "secret", 6, "session a", &sealed), 0);
	assert_int_equal(vault_unseal(vf_vault, sealed.data, sealed.len, "session a", &plain), 0);
	assert_int_equal(plain.len, 6);
	assert_memory_equal(plain.data, "secret", 6);
	buf_clear(&plain);
	assert_int_equal(vault_unseal(vf_vault, sealed.data, sealed.len, "session b", &plain),
			 -EBADMSG);
	buf_clear(&plain);
	buf_clear(&sealed);
	vf_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		VF_TEST(comes_back),	     VF_TEST(bases_are_shared),
		VF_TEST(memory_is_bounded),  VF_TEST(descriptors_are_bounded),
		VF_TEST(many_wait),	     VF_TEST(files_alone),
		VF_TEST(is_removed),	     VF_TEST(orphans_are_found),
		VF_TEST(halves_are_removed), VF_TEST(the_end),
		VF_TEST(removed_at_the_end), VF_TEST(small_things),
	};

	return vf_run(tests);
}
