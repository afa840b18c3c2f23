/* SPDX-License-Identifier: Apache-2.0 */
/* The vault: what was saved, on a disk and back, and what becomes of it when the disk is not as it was. */
/* modules: vm tests/unit/fixture/saved_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "vm/base/context.h"
#include "vm/base/discard.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/base/wait.h"
#include "vm/checkpoint/vault.h"
#include "vm/checkpoint/vault_disk.h"

static char top[PATH_MAX];
static uv_loop_t loop;
static struct context ctx;
static struct vault *vault;
static bool ended;

/* ---- a vault on a loop ---- */

static void on_nothing(void *data)
{
	(void)data;
}

static const struct context_ops context_ops = {.woken = on_nothing, .work = on_nothing};

static void begin_context(void)
{
	ctx = (struct context){0};
	assert_int_equal(
		context_init(&ctx, &loop, NULL, "/nonexistent", "/nonexistent", &context_ops, NULL),
		0);
	context_start(&ctx);
	discard_start(&ctx);
	ended = false;
}

static int open_with(unsigned char seed, struct problem *why)
{
	const struct vault_ops ops = {0};
	struct seal_key *key = saved_fixture_key(seed);
	_cleanup_close_ int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	begin_context();
	r = vault_open(&ctx, dir, key, &ops, &vault, why);
	if (r < 0)
		seal_key_free(key);
	return r;
}

static void on_closed(struct context *c)
{
	(void)c;
	ended = true;
}

static void finish(void)
{
	vault_close(vault);
	while (ctx.holds)
		uv_run(&loop, UV_RUN_ONCE);
	context_close(&ctx, on_closed);
	while (!ended)
		uv_run(&loop, UV_RUN_ONCE);
	discard_stop(&ctx);
	vault_free(vault);
	vault = NULL;
	context_fini(&ctx);
}

static void start(void)
{
	struct problem why;

	assert_int_equal(open_with(1, &why), 0);
}

static void settle(void)
{
	while (ctx.holds)
		uv_run(&loop, UV_RUN_ONCE);
}

struct answer {
	struct wait wait;
	unsigned n;
	int err;
	struct problem why;
};

static void on_stored(void *data, int err, const struct problem *why)
{
	struct answer *a = data;

	a->n++;
	a->err = err;
	if (why)
		a->why = *why;
}

static void on_loaded(struct wait *w, const struct problem *why)
{
	struct answer *a = container_of(w, struct answer, wait);

	a->n++;
	a->err = why ? -EIO : 0;
	if (why)
		a->why = *why;
}

static int store(struct saved *s)
{
	struct answer a = {.n = 0};

	vault_store(vault, s, on_stored, &a);
	assert_int_equal(a.n, 0);
	while (!a.n)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(a.n, 1);
	return a.err;
}

static struct problem load(struct saved *s, bool files)
{
	struct answer a = {.wait.done = on_loaded};

	(files ? saved_load_files : saved_load)(s, &a.wait);
	assert_int_equal(a.n, 0);
	while (!a.n)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(a.n, 1);
	return a.err ? a.why : (struct problem){0};
}

static struct saved *a_saved(unsigned seed, bool memory)
{
	return saved_new(saved_fixture_pack(seed, 100000 + seed),
			 memory ? saved_fixture_point(seed, 77) : NULL);
}

/* One that is on the disk, and not loaded. */
static struct saved *stored(unsigned seed, bool memory)
{
	struct saved *s = a_saved(seed, memory);

	assert_int_equal(store(s), 0);
	saved_unload(s);
	assert_null(saved_pack(s));
	return s;
}

static void same(const struct saved *s, unsigned seed, bool memory)
{
	struct pack *pack = saved_fixture_pack(seed, 100000 + seed);
	struct point *point = saved_fixture_point(seed, 77);

	saved_fixture_same_pack(pack, saved_pack(s));
	if (memory) {
		saved_fixture_same_file(point->stream, saved_point(s)->stream);
		saved_fixture_same_file(point->base, saved_point(s)->base);
		assert_string_equal(saved_point(s)->machine, point->machine);
	}
	pack_unref(pack);
	point_unref(point);
}

static unsigned count(const char *below)
{
	char path[PATH_MAX + 64];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/saved%s", top, below);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' && strcmp(e->d_name, "bases") != 0 &&
		     strcmp(e->d_name, "check") != 0;
	if (d)
		closedir(d);
	return n;
}

/* ---- ---- */

static void comes_back(void **state)
{
	struct saved *s, *t, *twice;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	assert_true(sizeof(struct saved) < 300);
	start();
	s = stored(3, true);
	assert_true(saved_has_memory(s) && !saved_is_loaded(s));
	assert_true(saved_bytes(s) > 0 && saved_memory_bytes(s) == SAVED_STREAM);
	assert_int_equal(saved_in_memory().bytes, 0);
	assert_int_equal(load(s, false).code, 0);
	same(s, 3, true);
	assert_int_equal(saved_in_memory().points, 1);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	finish();

	/* The next one knows it by its name, and what it is without loading it. */
	start();
	assert_int_equal(vault_find(vault, id, &t, &why), 0);
	assert_true(saved_has_memory(t) && !saved_pack(t));
	assert_int_equal(saved_memory_bytes(t), SAVED_STREAM);
	assert_int_equal(saved_mtime(t).tv_sec, 7);
	assert_int_equal(saved_flaws(t).changed, 3);
	assert_int_equal(saved_flaws(t).left_out, 4);
	assert_int_equal(vault_find(vault, id, &twice, &why), 0);
	assert_ptr_equal(t, twice);
	assert_int_equal(load(t, true).code, 0);
	assert_true(saved_pack(t) && !saved_point(t) && !saved_is_loaded(t));
	assert_int_equal(load(t, false).code, 0);
	same(t, 3, true);
	saved_unref(t);
	saved_unref(twice);
	assert_int_equal(vault_find(vault, "0123456789abcdef0123456789abcdef", &t, &why), -ENOENT);
	assert_int_equal(vault_find(vault, "../../etc", &t, &why), -ENOENT);
	finish();
}

/* Several ask at once, and some change their minds. */
static void many_wait(void **state)
{
	struct answer a[5] = {0};
	struct saved *s, *u;

	(void)state;
	start();
	s = a_saved(4, true);
	for (unsigned i = 0; i < 3; i++)
		vault_store(vault, s, on_stored, &a[i]);
	settle();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(a[i].n, 1);
	vault_store(vault, s, on_stored, &a[3]); /* it is there */
	assert_int_equal(a[3].n, 0);
	while (!a[3].n)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(count(""), 1);

	saved_unload(s);
	for (unsigned i = 0; i < 5; i++) {
		a[i] = (struct answer){.wait.done = on_loaded};
		(i % 2 ? saved_load_files : saved_load)(s, &a[i].wait);
	}
	wait_cancel(&a[2].wait);
	settle();
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(a[i].n, i != 2);
	assert_true(saved_is_loaded(s));

	/* Files first, memory asked for while they are on their way. */
	saved_unload(s);
	a[0] = a[1] = (struct answer){.wait.done = on_loaded};
	saved_load_files(s, &a[0].wait);
	saved_load(s, &a[1].wait);
	settle();
	assert_true(a[0].n == 1 && a[1].n == 1 && saved_is_loaded(s));

	/* The last reference goes while a worker has it. */
	u = a_saved(5, false);
	a[0] = (struct answer){0};
	vault_store(vault, u, on_stored, &a[0]);
	saved_unref(u);
	settle();
	assert_true(a[0].n == 1 && a[0].err == 0);
	saved_unref(s);
	finish();
}

/* What was loaded last stays, the rest goes; who uses it goes on. */
static void memory_is_bounded(void **state)
{
	enum { N = 140 };
	struct saved *s[N];
	struct pack *used = NULL;
	unsigned n = 0;

	(void)state;
	start();
	for (unsigned i = 0; i < N; i++) {
		s[i] = a_saved(i, i % 10 == 0);
		assert_int_equal(store(s[i]), 0);
		if (i == 0)
			used = pack_ref(saved_pack(s[0]));
	}
	for (unsigned i = 0; i < N; i++)
		n += saved_pack(s[i]) != NULL;
	assert_true(n >= 64 && n <= 128);
	assert_null(saved_pack(s[0]));
	assert_non_null(saved_pack(s[N - 1]));
	assert_true(pack_entries(used) == 2);
	pack_unref(used);
	for (unsigned i = 0; i < N; i++)
		saved_unref(s[i]);
	finish();
	assert_int_equal(saved_in_memory().bytes, 0);
}

/* The files alone, of one that is there and of one that is not. */
static void files_alone(void **state)
{
	struct saved *s, *f, *g;
	char id[SAVED_ID_MAX];

	(void)state;
	start();
	s = stored(6, true);
	f = saved_files_only(s);
	assert_false(saved_has_memory(f));
	assert_null(saved_id(f));
	assert_int_equal(load(f, false).code, 0);
	same(f, 6, false);
	saved_unref(f);

	f = saved_files_only(s);
	saved_unref(s);
	assert_int_equal(store(f), 0);
	snprintf(id, sizeof(id), "%s", saved_id(f));
	g = saved_files_only(f);
	assert_int_equal(load(g, false).code, 0);
	assert_int_equal(store(g), 0); /* it is in memory already */
	assert_string_not_equal(saved_id(g), id);
	saved_unload(g);
	assert_null(saved_pack(g));
	assert_int_equal(load(f, false).code, 0);
	assert_true(saved_is_loaded(f));
	assert_int_equal(load(g, false).code, 0);
	same(g, 6, false);
	saved_unref(f);
	saved_unref(g);
	finish();

	start();
	assert_int_equal(vault_find(vault, id, &s, NULL), 0);
	assert_false(saved_has_memory(s));
	assert_int_equal(load(s, false).code, 0);
	same(s, 6, false);
	saved_unref(s);
	finish();
}

/* It goes when nobody names it any more, and not before. */
static void is_removed(void **state)
{
	struct saved *a, *b, *c;
	const char *keep[1];
	char id[SAVED_ID_MAX];
	uint64_t mark;

	(void)state;
	start();
	a = stored(1, true);
	b = stored(2, true);
	c = stored(3, false);
	snprintf(id, sizeof(id), "%s", saved_id(b));
	keep[0] = id;
	assert_int_equal(count(""), 3);
	assert_int_equal(count("/bases"), 1);
	saved_unref(a);
	mark = vault_mark(vault);
	saved_unref(b); /* behind the mark */
	settle();
	assert_int_equal(count(""), 3);
	vault_forget(vault, mark);
	settle();
	assert_int_equal(count(""), 2);
	assert_int_equal(vault_find(vault, id, &b, NULL), 0); /* it is wanted again */
	vault_forget(vault, vault_mark(vault));
	settle();
	assert_int_equal(count(""), 2);
	assert_int_equal(load(b, false).code, 0);
	saved_unref(b);
	saved_unref(c);
	finish();
	assert_int_equal(count(""), 2); /* as it ended, all stayed */

	start();
	vault_keep(vault, keep, 1);
	settle();
	assert_int_equal(count(""), 1);
	assert_int_equal(count("/bases"), 1);
	vault_keep(vault, NULL, 0);
	settle();
	assert_int_equal(count(""), 0);
	assert_int_equal(count("/bases"), 0);
	finish();
}

/* What was begun and never finished goes at the next start. */
static void halves_are_removed(void **state)
{
	static const char *const names[] = {".new-0123", ".old-4567"};
	struct answer a = {.n = 0};
	char path[PATH_MAX + 64];
	struct saved *s;
	struct stat st;
	int fd;

	(void)state;
	start();
	finish();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/saved/%s", top, names[i]);
		assert_int_equal(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "%s/saved/%s/pack", top, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
	start();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/saved/%s", top, names[i]);
		assert_int_equal(stat(path, &st), 0); /* they may be another process's still */
	}
	s = a_saved(1, false);
	vault_store(vault, s, on_stored, &a); /* what is being made stays */
	vault_keep(vault, NULL, 0);
	settle();
	assert_int_equal(a.err, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/saved/%s", top, names[i]);
		assert_int_equal(stat(path, &st), -1);
	}
	assert_int_equal(count(""), 1);
	saved_unref(s);
	finish();
}

/* ---- what is not as it was ---- */

static void path_of(char path[PATH_MAX + 64], const char *id, const char *file)
{
	snprintf(path, PATH_MAX + 64, "%s/saved/%s/%s", top, id, file);
}

/* Inverts a byte, @at thousandths of the file from its begin. Return: where it was. */
static off_t flip(const char *id, const char *file, unsigned at)
{
	char path[PATH_MAX + 64], byte;
	_cleanup_close_ int fd = -1;
	struct stat st;
	off_t place;

	path_of(path, id, file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	place = MIN(st.st_size * at / 1000, st.st_size - 1);
	assert_int_equal(pread(fd, &byte, 1, place), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, place), 1);
	return place;
}

/* In every region of every file. Nothing else is ever taken for what was saved, and what is whole is there. */
static void damaged(void **state)
{
	static const char *const files[] = {"head", "pack", "stream", "base"};
	struct saved *s, *t;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(files); f++) {
		for (unsigned at = 0; at <= 1000; at += 100) {
			off_t place;
			int r;

			start();
			s = stored(8, true);
			snprintf(id, sizeof(id), "%s", saved_id(s));
			saved_unref(s);
			finish();
			place = flip(id, files[f], at);
			start();
			r = vault_find(vault, id, &t, &why);
			if (f == 0) {
				assert_int_equal(r, place >= 12 && place < 20 ? -EKEYREJECTED
									      : -EBADMSG);
				assert_int_equal(why.code, PROBLEM_NOT_RESTORED);
			} else {
				assert_int_equal(r, 0);
				why = load(t, false);
				assert_int_equal(why.code, PROBLEM_NOT_RESTORED);
				assert_non_null(strstr(why.cause, place >= 12 && place < 20
									  ? "another key"
									  : "damaged"));
				assert_null(saved_point(t));
				/* Its files are there, if they are whole. */
				assert_int_equal(saved_pack(t) != NULL, f > 1);
				if (f > 1)
					same(t, 8, false);
				saved_unref(t);
			}
			vault_keep(vault, NULL, 0);
			settle();
			finish();
		}
	}
}

static void cut_off(void **state)
{
	static const char *const files[] = {"head", "pack", "stream"};
	char id[SAVED_ID_MAX], path[PATH_MAX + 64];
	struct saved *s;
	struct stat st;

	(void)state;
	for (unsigned f = 0; f < ARRAY_SIZE(files); f++) {
		for (unsigned part = 0; part < 5; part++) {
			start();
			s = stored(9, true);
			snprintf(id, sizeof(id), "%s", saved_id(s));
			saved_unref(s);
			finish();
			path_of(path, id, files[f]);
			assert_int_equal(stat(path, &st), 0);
			assert_int_equal(part == 4 ? unlink(path)
						   : truncate(path, st.st_size * part / 4),
					 0);
			start();
			if (f == 0) {
				assert_int_equal(vault_find(vault, id, &s, NULL), -EBADMSG);
			} else {
				assert_int_equal(vault_find(vault, id, &s, NULL), 0);
				assert_int_equal(load(s, false).code, PROBLEM_NOT_RESTORED);
				saved_unref(s);
			}
			vault_keep(vault, NULL, 0);
			settle();
			finish();
		}
	}
}

/* A file of one does not stand for that of another, nor a whole directory. */
static void exchanged(void **state)
{
	static const char *const files[] = {"head", "pack", "stream"};
	char one[SAVED_ID_MAX], two[SAVED_ID_MAX], a[PATH_MAX + 64], b[PATH_MAX + 64];
	struct saved *s, *t;

	(void)state;
	for (unsigned f = 0; f <= ARRAY_SIZE(files); f++) {
		start();
		s = stored(10, true);
		t = stored(10, true);
		snprintf(one, sizeof(one), "%s", saved_id(s));
		snprintf(two, sizeof(two), "%s", saved_id(t));
		saved_unref(s);
		saved_unref(t);
		finish();
		path_of(a, one, f < ARRAY_SIZE(files) ? files[f] : "");
		path_of(b, two, f < ARRAY_SIZE(files) ? files[f] : "");
		assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0);
		start();
		if (f == 0 || f == ARRAY_SIZE(files)) {
			assert_int_equal(vault_find(vault, one, &s, NULL), -EBADMSG);
		} else {
			assert_int_equal(vault_find(vault, one, &s, NULL), 0);
			assert_int_equal(load(s, false).code, PROBLEM_NOT_RESTORED);
			assert_int_equal(saved_pack(s) != NULL, f == 2);
			saved_unref(s);
		}
		vault_keep(vault, NULL, 0);
		settle();
		finish();
	}
}

/* Nothing is removed, and with the right key all of it is there. */
static void another_key(void **state)
{
	struct saved *s;
	struct problem why;
	char id[SAVED_ID_MAX];

	(void)state;
	start();
	s = stored(11, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	finish();
	assert_int_equal(open_with(2, &why), -EKEYREJECTED);
	assert_non_null(strstr(why.cause, "sealed with another key"));
	finish();
	start();
	assert_int_equal(vault_find(vault, id, &s, NULL), 0);
	assert_int_equal(load(s, false).code, 0);
	same(s, 11, true);
	saved_unref(s);
	finish();
}

/* What the key is known by is damaged, in each of its bytes: what else is there tells whose key it is. */
static void a_damaged_check(void **state)
{
	struct problem why;
	char path[PATH_MAX + 64];
	struct stat st;
	off_t size;

	(void)state;
	start();
	saved_unref(stored(3, true));
	finish();
	snprintf(path, sizeof(path), "%s/saved/check", top);
	assert_int_equal(stat(path, &st), 0);
	size = st.st_size;
	for (off_t at = 0; at < size; at++) {
		flip(".", "check", (unsigned)((at * 1000 + size - 1) / size));
		assert_int_equal(open_with(2, &why), -EKEYREJECTED);
		finish();
		assert_int_equal(open_with(1, &why), 0);
		finish();
	}
	assert_int_equal(open_with(2, &why), -EKEYREJECTED);
	finish();
	assert_int_equal(count(""), 1);
}

/* The damaged base of one is not given to the next. */
static void a_damaged_base_is_not_passed_on(void **state)
{
	struct saved *s, *t;
	char id[SAVED_ID_MAX];

	(void)state;
	start();
	s = stored(12, true);
	snprintf(id, sizeof(id), "%s", saved_id(s));
	saved_unref(s);
	finish();
	flip(id, "base", 500);
	start();
	assert_int_equal(vault_find(vault, id, &s, NULL), 0);
	assert_int_equal(load(s, false).code, PROBLEM_NOT_RESTORED);
	t = stored(13, true);
	snprintf(id, sizeof(id), "%s", saved_id(t));
	saved_unref(s);
	saved_unref(t);
	finish();
	start();
	assert_int_equal(vault_find(vault, id, &t, NULL), 0);
	assert_int_equal(load(t, false).code, 0);
	same(t, 13, true);
	saved_unref(t);
	finish();
}

/* ---- the disk ---- */

static bool mount_small(const char *path)
{
	return mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=256k") == 0;
}

/* It stays in memory, that is said, and nothing is left of the attempt. */
static void the_disk_is_full(void **state)
{
	struct answer a = {.n = 0};
	struct saved *s;

	(void)state;
	if (!mount_small(top)) {
		print_message("no small disk can be mounted here: %s\n", strerror(errno));
		skip();
	}
	start();
	s = saved_new(saved_fixture_pack(1, 2000000), NULL);
	vault_store(vault, s, on_stored, &a);
	settle();
	assert_int_equal(a.err, -ENOSPC);
	assert_int_equal(a.why.code, PROBLEM_NOT_SAVED);
	assert_non_null(strstr(a.why.fix, "Free space"));
	assert_null(saved_id(s));
	assert_non_null(saved_pack(s));
	assert_int_equal(count(""), 0);
	saved_unref(s);
	/* A small one goes in. */
	s = saved_new(saved_fixture_pack(1, 2000), NULL);
	assert_int_equal(store(s), 0);

	/* And none when nothing can be written. */
	assert_int_equal(mount(NULL, top, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	saved_unload(s);
	assert_int_equal(load(s, false).code, 0);
	saved_unref(s);
	s = saved_new(saved_fixture_pack(2, 2000), NULL);
	a = (struct answer){.n = 0};
	vault_store(vault, s, on_stored, &a);
	settle();
	assert_int_equal(a.err, -EROFS);
	saved_unref(s);
	finish();
	assert_int_equal(umount2(top, MNT_DETACH), 0);
}

/* What was queued is told so, what was under way is waited for. */
static void the_end(void **state)
{
	enum { N = 12 };
	struct answer a[N] = {0};
	struct saved *s[N], *t;
	unsigned done = 0, cut = 0;
	char id[SAVED_ID_MAX];

	(void)state;
	start();
	t = stored(20, false);
	for (unsigned i = 0; i < N; i++) {
		s[i] = a_saved(i, false);
		vault_store(vault, s[i], on_stored, &a[i]);
	}
	finish();
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
	assert_int_equal(count(""), 1 + done);
	start();
	assert_int_equal(vault_find(vault, id, &t, NULL), 0);
	saved_unref(t);
	finish();
}

/* ---- other things that are sealed ---- */

static void small_things(void **state)
{
	struct buf sealed = {0}, plain = {0};

	(void)state;
	start();
	assert_int_equal(vault_seal(vault, "secret", 6, "session a", &sealed), 0);
	assert_int_equal(vault_unseal(vault, sealed.data, sealed.len, "session a", &plain), 0);
	assert_int_equal(plain.len, 6);
	assert_memory_equal(plain.data, "secret", 6);
	buf_clear(&plain);
	assert_int_equal(vault_unseal(vault, sealed.data, sealed.len, "session b", &plain),
			 -EBADMSG);
	buf_clear(&plain);
	buf_clear(&sealed);
	finish();
}

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test_vault.XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	(void)umount2(top, MNT_DETACH);
	return remove_tree(top);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(comes_back),	 TEST(many_wait),
		TEST(memory_is_bounded), TEST(files_alone),
		TEST(is_removed),	 TEST(halves_are_removed),
		TEST(damaged),		 TEST(cut_off),
		TEST(exchanged),	 TEST(another_key),
		TEST(a_damaged_check),	 TEST(a_damaged_base_is_not_passed_on),
		TEST(the_disk_is_full),	 TEST(the_end),
		TEST(small_things),
	};
	int r;

	log_relay(open("/dev/null", O_WRONLY | O_CLOEXEC));
	uv_loop_init(&loop);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	if (uv_loop_close(&loop) < 0)
		r = 1;
	return r;
}
