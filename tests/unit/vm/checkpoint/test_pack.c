/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: made of records that nobody trusts, looked at, written and read again. */
/* modules: tests/unit/fixture/records.c vm/checkpoint/pack.c vm/checkpoint/pack_maker.c vm/checkpoint/pack_file.c agent/pack_record.c agent/protocol.c vm/base/io.c vm/base/sink.c vm/base/discard.c vm/base/lent.c vm/base/fdpass.c vm/base/context.c vm/checkpoint/seal.c vm/base/buf.c */
/* libs: crypto zstd uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/records.h"
#include "vm/base/io.h"
#include "vm/base/util.h"
#include "vm/checkpoint/pack_file.h"
#include "vm/checkpoint/seal.h"

static void a_tree(void)
{
	records_dir("");
	records_file("one", 5, true);
	records_data(0, "hello", 5);
	records_symlink_to("link", "../../etc/passwd");
	records_file("empty", 0, false);
	records_put(
		(struct pack_record){.kind = PACK_OTHER, .name = "fifo", .mode = S_IFIFO | 0600});
	records_dir("d");
	records_same("again", 1);
	records_dir("deeper");
	records_file("\xff\xfe", 3, false);
	records_data(0, "abc", 3);
	records_up();
	records_up();
	records_dir("e");
	records_up();
	records_up();
}

struct listed {
	char names[512];
	unsigned n, most;
	uint64_t last;
};

static bool on_entry(void *to, const char *name, uint32_t entry, uint64_t offset)
{
	struct listed *l = to;

	if (l->n == l->most)
		return false;
	l->n++;
	snprintf(l->names + strlen(l->names), sizeof(l->names) - strlen(l->names), "%s ", name);
	l->last = offset;
	assert_true(entry > 0);
	return true;
}

static void looks(void **state)
{
	struct pack_attr a;
	struct pack *p;
	uint32_t e;

	(void)state;
	a_tree();
	assert_int_equal(records_make(&p), 0);
	assert_int_equal(pack_entries(p), 10);
	assert_true(pack_bytes(p) > records_out.len);
	assert_true(pack_bytes(p) < records_out.len + 10 * 160ull); /* also of a few */
	assert_int_equal(pack_flaws(p).changed, 3);
	assert_int_equal(pack_flaws(p).left_out, 4);
	a = records_attr(p, "");
	assert_int_equal(a.mode, S_IFDIR | 01755);
	assert_int_equal(a.nlink, 4);
	assert_int_equal(a.mtime.tv_sec, 7);
	assert_int_equal(a.size, 20 * (2 + 6));
	assert_int_equal(records_attr(p, "d").size, 20 * (2 + 2));
	a = records_attr(p, "one");
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_int_equal(a.nlink, 2);
	assert_int_equal(a.size, 5);
	assert_int_equal(a.blocks, 1);
	assert_int_equal(a.mtime.tv_sec, -5);
	assert_int_equal(a.mtime.tv_nsec, 999999999);
	assert_int_equal(records_attr(p, "d/again").file, a.file);
	assert_int_equal(records_attr(p, "d/again").mode, a.mode);
	assert_int_equal(records_attr(p, "d/deeper/\xff\xfe").size, 3);
	assert_int_equal(records_attr(p, "fifo").mode, S_IFIFO | 0600);
	a = records_attr(p, "link");
	assert_int_equal(a.size, 16);
	assert_string_equal(pack_target(p, records_entry(p, "link")), "../../etc/passwd");
	assert_null(pack_target(p, records_entry(p, "one")));
	assert_int_equal(pack_parent(p, records_entry(p, "d/deeper")), records_entry(p, "d"));
	assert_int_equal(pack_parent(p, PACK_ROOT), PACK_ROOT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "none", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "again", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, records_entry(p, "one"), "x", &e), -ENOTDIR);
	assert_null(pack_unref(pack_ref(p)));
	assert_null(pack_unref(p));
}

static void lists(void **state)
{
	struct listed l = {.most = 100};
	struct pack *p;
	uint64_t at = 0;

	(void)state;
	a_tree();
	assert_int_equal(records_make(&p), 0);
	pack_list(p, PACK_ROOT, 0, on_entry, &l);
	assert_string_equal(l.names, "one link empty fifo d e ");
	l = (struct listed){.most = 100};
	pack_list(p, records_entry(p, "d"), 0, on_entry, &l);
	assert_string_equal(l.names, "again deeper ");
	/* One at a time. */
	l = (struct listed){0};
	do {
		at = l.last;
		l.n = 0;
		l.most = 1;
		pack_list(p, PACK_ROOT, at, on_entry, &l);
	} while (l.n);
	assert_string_equal(l.names, "one link empty fifo d e ");
	/* Whatever a caller seeks to. */
	l = (struct listed){.most = 100};
	for (uint64_t i = 1; i < 2000; i++)
		pack_list(p, records_entry(p, "e"), i, on_entry, &l);
	pack_list(p, PACK_ROOT, UINT64_MAX, on_entry, &l);
	pack_list(p, PACK_ROOT, 1, on_entry, &l);
	pack_list(p, records_entry(p, "one"), 0, on_entry, &l);
	assert_string_equal(l.names, "");
	pack_unref(p);
}

static void many_names(void **state)
{
	enum { N = 50000 };
	struct pack *p;
	char name[16];
	uint32_t e;

	(void)state;
	records_dir("");
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u", i);
		records_file(name, i, false);
	}
	records_up();
	assert_false(records_out.bad);
	assert_int_equal(
		records_make_of(records_bytes, records_out.len, 100000, &records_plenty, &p), 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(pack_lookup(p, PACK_ROOT, name, &e), 0);
		assert_int_equal(e, i + 1);
	}
	assert_int_equal(pack_lookup(p, PACK_ROOT, "50000", &e), -ENOENT);
	/* An index of small files must not take more than they do by far. */
	assert_true(pack_bytes(p) < records_out.len + N * 160ull);
	pack_unref(p);
}

static void refused(int err)
{
	struct pack *p;

	assert_false(records_out.bad);
	assert_int_equal(
		records_make_of(records_bytes, records_out.len, SIZE_MAX / 2, &records_plenty, &p),
		err);
	records_begin(NULL);
}

static void refuses_what_does_not_fit(void **state)
{
	(void)state;
	refused(-EPROTO); /* nothing */
	records_dir("");
	refused(-EPROTO); /* never left */
	records_up();
	refused(-EPROTO);
	records_file("f", 0, false);
	refused(-EPROTO); /* no root */
	records_dir("named");
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_up();
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_up();
	records_dir("");
	records_up();
	refused(-EPROTO); /* another root */
	records_dir("");
	records_dir("");
	records_up();
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_data(0, "x", 1);
	records_up();
	refused(-EPROTO); /* of no file */
	records_dir("");
	records_file("f", 1, false);
	records_data(0, "xx", 2);
	records_up();
	refused(-EPROTO); /* behind its end */
	records_dir("");
	records_file("f", 9, false);
	records_data(3, "xx", 2);
	records_data(4, "xx", 2);
	records_up();
	refused(-EPROTO); /* twice */
	records_dir("");
	records_file("f", 9, false);
	records_symlink_to("l", "x");
	records_data(3, "xx", 2);
	records_up();
	refused(-EPROTO);
	for (unsigned i = 0; i < PACK_DEPTH_MAX + 1; i++)
		records_dir(i ? "d" : "");
	refused(-EPROTO);
}

static void refuses_names(void **state)
{
	static const char *const bad[] = {"a/b", "/", "..", "."};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		records_dir("");
		records_file(bad[i], 0, false);
		records_up();
		refused(-EPROTO);
		records_dir("");
		records_dir(bad[i]);
		records_up();
		records_up();
		refused(-EPROTO);
		records_dir("");
		records_symlink_to(bad[i], "x");
		records_up();
		refused(-EPROTO);
	}
	records_dir("");
	records_file("", 0, false);
	records_up();
	refused(-EPROTO);
	/* The same twice, of whatever kind; elsewhere it is another one. */
	records_dir("");
	records_file("f", 0, false);
	records_dir("f");
	records_up();
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_symlink_to("f", "x");
	records_file("f", 0, false);
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_file("f", 0, true);
	records_same("f", 1);
	records_up();
	refused(-EPROTO);
	/* Another name of what is none, of what will come, of itself. */
	for (uint32_t entry = 0; entry < 5; entry++) {
		records_dir("");
		records_symlink_to("l", "x");
		records_file("f", 0, false);
		records_same("s", entry);
		records_up();
		refused(-EPROTO);
	}
}

static void has_limits(void **state)
{
	struct pack_limits limits = {.bytes = 8 + 16, .entries = 10};
	struct pack *p;

	(void)state;
	a_tree();
	assert_int_equal(records_make_of(records_bytes, records_out.len, SIZE_MAX / 2, &limits, &p),
			 0);
	pack_unref(p);
	limits.bytes--;
	assert_int_equal(records_make_of(records_bytes, records_out.len, SIZE_MAX / 2, &limits, &p),
			 -EFBIG);
	limits = (struct pack_limits){.bytes = 1000, .entries = 9};
	assert_int_equal(records_make_of(records_bytes, records_out.len, SIZE_MAX / 2, &limits, &p),
			 -EFBIG);
	/* Parts of a file, of which each takes more memory than it has bytes. */
	records_begin(NULL);
	records_dir("");
	records_file("f", 100000, false);
	for (unsigned i = 0; i < 5000; i++)
		records_data(2ull * i, "x", 1);
	records_up();
	limits = (struct pack_limits){.bytes = 100000, .entries = 10};
	assert_int_equal(records_make_of(records_bytes, records_out.len, SIZE_MAX / 2, &limits, &p),
			 -EFBIG);
}

static void comes_in_any_pieces(void **state)
{
	struct pack *p;

	(void)state;
	a_tree();
	for (size_t piece = 1; piece < 60; piece++) {
		assert_int_equal(
			records_make_of(records_bytes, records_out.len, piece, &records_plenty, &p),
			0);
		assert_int_equal(pack_entries(p), 10);
		assert_int_equal(pack_records_size(p), records_out.len);
		pack_unref(p);
	}
}

/* Looks at everything, whatever that is. */
static void look_around(const struct pack *p)
{
	struct pack_attr a;
	char buf[64];

	for (uint32_t e = 0; e < pack_entries(p); e++) {
		struct listed l = {.most = 10};

		pack_attr(p, e, &a);
		(void)pack_target(p, e);
		(void)pack_pread(p, e, buf, sizeof(buf), 0);
		pack_list(p, e, 0, on_entry, &l);
	}
}

static void survives_any_bytes(void **state)
{
	uint8_t *bad;
	struct pack *p;
	size_t len;

	(void)state;
	a_tree();
	len = records_out.len;
	bad = malloc(len);
	assert_non_null(bad);
	for (size_t i = 0; i < len; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			memcpy(bad, records_bytes, len);
			bad[i] ^= (uint8_t)(1u << bit);
			if (records_make_of(bad, len, SIZE_MAX / 2, &records_plenty, &p) == 0) {
				look_around(p);
				pack_unref(p);
			}
		}
		assert_int_not_equal(
			records_make_of(records_bytes, i, SIZE_MAX / 2, &records_plenty, &p), 0);
	}
	free(bad);
}

/* ---- on disk ---- */

static struct seal_key *key;

/* As it is on a disk: sealed. */
static int stored(const struct pack *p)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct file_sink to = file_sink(fd);
	struct sealer *s;

	assert_true(fd >= 0);
	if (!key)
		assert_int_equal(seal_key_new((const unsigned char[SEAL_KEY]){5}, &key), 0);
	assert_int_equal(sealer_new(key, "pack", &to.sink, &s), 0);
	assert_int_equal(pack_store(p, sealer_sink(s)), 0);
	assert_int_equal(sealer_end(s), 0);
	sealer_free(s);
	return fd;
}

static int load(int fd, const struct pack_limits *limits, struct pack **ret)
{
	struct file_source from = file_source(fd);
	struct unsealer *u;
	int r;

	lseek(fd, 0, SEEK_SET);
	r = unsealer_new(key, "pack", &from.source, &u);
	if (r < 0)
		return r;
	r = pack_load(unsealer_source(u), limits, ret);
	unsealer_free(u);
	return r;
}

static void is_kept(void **state)
{
	static uint8_t noise[1u << 20], again[sizeof(records_bytes)];
	struct pack *p, *q;
	int fd;

	(void)state;
	srandom(1);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)random();
	records_dir("");
	records_file("f", 3u << 20, false);
	for (unsigned i = 0; i < 24; i++)
		records_data((uint64_t)i << 17, noise + ((size_t)(i % 8) << 17), 100000);
	records_symlink_to("l", "target");
	records_up();
	assert_int_equal(records_make(&p), 0);
	fd = stored(p);
	assert_int_equal(load(fd, &records_plenty, &q), 0);
	close(fd);
	assert_int_equal(pack_records_size(q), records_out.len);
	assert_int_equal(pack_read_records(q, again, sizeof(again), 0), records_out.len);
	assert_memory_equal(again, records_bytes, records_out.len);
	assert_int_equal(pack_flaws(q).changed, 3);
	assert_int_equal(pack_flaws(q).left_out, 4);
	fd = stored(p);
	assert_int_equal(load(fd, &(struct pack_limits){1000, 10}, &q), -EFBIG);
	close(fd);
	pack_unref(p);
	pack_unref(q);
}

static void damage_is_seen(void **state)
{
	char copy[2048];
	struct pack *p, *q;
	ssize_t n;
	int fd;

	(void)state;
	a_tree();
	assert_int_equal(records_make(&p), 0);
	fd = stored(p);
	lseek(fd, 0, SEEK_SET);
	n = read(fd, copy, sizeof(copy));
	assert_true(n > 100 && n < (ssize_t)sizeof(copy));
	for (ssize_t i = 0; i < n; i++) {
		copy[i] ^= 0x10;
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(fileio_write_at(fd, copy, (size_t)n, 0), 0);
		/* Eight of the bytes say by which key it was sealed. */
		assert_int_equal(load(fd, &records_plenty, &q), i >= 8 && i < 12 ? -EPROTONOSUPPORT
								: i >= 12 && i < 20 ? -EKEYREJECTED
										    : -EBADMSG);
		copy[i] ^= 0x10;
		assert_int_equal(fileio_write_at(fd, copy, (size_t)n, 0), 0);
		assert_int_equal(ftruncate(fd, i), 0);
		assert_int_equal(load(fd, &records_plenty, &q), -EBADMSG);
	}
	copy[n] = 'x';
	assert_int_equal(fileio_write_at(fd, copy, (size_t)n + 1, 0), 0);
	assert_int_equal(load(fd, &records_plenty, &q), -EBADMSG);
	close(fd);
	pack_unref(p);
	key = seal_key_free(key);
}

/* Of each entry the number behind it, and of all names of a file the same; without, there is none. */
static void inode_numbers(void **state)
{
	struct pack *p;

	(void)state;
	records_dir("");
	records_number(1);
	records_file("one", 5, true);
	records_number(77);
	records_data(0, "hello", 5);
	records_file("two", 0, false);
	records_same("again", 1);
	records_symlink_to("link", "x");
	records_number(UINT64_MAX);
	records_up();
	assert_int_equal(records_make(&p), 0);
	assert_int_equal(records_attr(p, "one").number, 77);
	assert_int_equal(records_attr(p, "one").size, 5);
	assert_int_equal(records_attr(p, "again").number, 77);
	assert_int_equal(records_attr(p, "two").number, 0);
	assert_int_equal(records_attr(p, "link").number, UINT64_MAX);
	pack_unref(p);
}

static void wrong_numbers(void **state)
{
	(void)state;
	records_number(1);
	records_dir("");
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_file("one", 5, true);
	records_number(77);
	records_number(77);
	records_up();
	refused(-EPROTO); /* two of one */
	records_dir("");
	records_file("one", 0, true);
	records_same("again", 1);
	records_number(77);
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_dir("d");
	records_up();
	records_number(77);
	records_up();
	refused(-EPROTO); /* of one that was left */
}

static const char *origin_at(const struct pack *p, const char *name)
{
	uint32_t entry;

	assert_int_equal(pack_lookup(p, PACK_ROOT, name, &entry), 0);
	return pack_origin(p, entry);
}

/* Who wrote what, likewise. */
static void origins(void **state)
{
	struct pack *p;

	(void)state;
	records_dir("");
	records_number(1);
	records_origin("client");
	records_file("one", 5, true);
	records_number(77);
	records_origin("run 1 of demo:5 or job a");
	records_data(0, "hello", 5);
	records_file("two", 0, false);
	records_same("again", 1);
	records_symlink_to("link", "x");
	records_origin("run 2");
	records_up();
	assert_int_equal(records_make(&p), 0);
	assert_true(pack_has_origins(p));
	assert_string_equal(pack_origin(p, PACK_ROOT), "client");
	assert_string_equal(origin_at(p, "one"), "run 1 of demo:5 or job a");
	assert_string_equal(origin_at(p, "again"), "run 1 of demo:5 or job a");
	assert_null(origin_at(p, "two"));
	assert_string_equal(origin_at(p, "link"), "run 2");
	pack_unref(p);
	records_begin(NULL);
	records_dir("");
	records_up();
	assert_int_equal(records_make(&p), 0);
	assert_false(pack_has_origins(p));
	pack_unref(p);
}

static void wrong_origins(void **state)
{
	static const char *const texts[] = {"", "a\nb", "\x7f", "\x80"};
	char long_one[PROTO_ORIGIN_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		records_dir("");
		records_origin(texts[i]);
		records_up();
		refused(-EPROTO);
	}
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	records_dir("");
	records_origin(long_one);
	records_up();
	refused(-EPROTO);
	records_dir("");
	records_origin("run 1");
	records_origin("run 2");
	records_up();
	refused(-EPROTO); /* two of one */
	records_dir("");
	records_file("one", 0, true);
	records_same("again", 1);
	records_origin("run 1");
	records_up();
	refused(-EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(inode_numbers, records_begin),
		cmocka_unit_test_setup(origins, records_begin),
		cmocka_unit_test_setup(wrong_origins, records_begin),
		cmocka_unit_test_setup(wrong_numbers, records_begin),
		cmocka_unit_test_setup(looks, records_begin),
		cmocka_unit_test_setup(lists, records_begin),
		cmocka_unit_test_setup(many_names, records_begin),
		cmocka_unit_test_setup(refuses_what_does_not_fit, records_begin),
		cmocka_unit_test_setup(refuses_names, records_begin),
		cmocka_unit_test_setup(has_limits, records_begin),
		cmocka_unit_test_setup(comes_in_any_pieces, records_begin),
		cmocka_unit_test_setup(survives_any_bytes, records_begin),
		cmocka_unit_test_setup(is_kept, records_begin),
		cmocka_unit_test_setup(damage_is_seen, records_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
