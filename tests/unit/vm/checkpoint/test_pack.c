/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: made of records that nobody trusts, looked at, written and read again. */
/* modules: vm/checkpoint/pack.c vm/checkpoint/pack_maker.c vm/checkpoint/pack_file.c agent/pack_record.c agent/protocol.c vm/base/io.c vm/base/sink.c vm/base/discard.c vm/base/lent.c vm/base/fdpass.c vm/base/context.c vm/checkpoint/seal.c vm/base/buf.c */
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
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/pack_record.h"
#include "vm/base/io.h"
#include "vm/base/util.h"
#include "vm/checkpoint/pack_file.h"
#include "vm/checkpoint/pack_maker.h"
#include "vm/checkpoint/seal.h"

static const struct pack_limits plenty = {1ull << 40, 1u << 20};

/* The records of a test. */
static uint8_t bytes[4u << 20];
static struct proto_out out;

static int begin(void **state)
{
	(void)state;
	out = (struct proto_out){bytes, 0, sizeof(bytes), false};
	return 0;
}

static void put(struct pack_record r)
{
	r.name = r.name ? r.name : "";
	r.name_len = (uint32_t)strlen(r.name);
	r.target_len = r.target ? (uint32_t)strlen(r.target) : 0;
	pack_record_put(&out, &r);
}

static void dir(const char *name)
{
	put((struct pack_record){
		.kind = PACK_DIR, .name = name, .mode = S_IFDIR | 01755, .mtime = 7});
}

static void up(void)
{
	put((struct pack_record){.kind = PACK_UP});
}

static void file(const char *name, uint64_t size, bool shared)
{
	put((struct pack_record){.kind = PACK_FILE,
				 .name = name,
				 .mode = S_IFREG | 0640,
				 .mtime = -5,
				 .mtime_ns = 999999999,
				 .size = size,
				 .shared = shared});
}

static void data(uint64_t offset, const void *p, uint32_t len)
{
	pack_data_begin(&out, offset, len);
	put_bytes(&out, p, len);
}

static void symlink_to(const char *name, const char *target)
{
	put((struct pack_record){
		.kind = PACK_LINK, .name = name, .mode = S_IFLNK | 0777, .target = target});
}

static void number(uint64_t n)
{
	put((struct pack_record){.kind = PACK_NUMBER, .number = n});
}

static void same(const char *name, uint32_t entry)
{
	put((struct pack_record){.kind = PACK_SAME, .name = name, .entry = entry});
}

static int make_of(const uint8_t *p, size_t len, size_t piece, const struct pack_limits *limits,
		   struct pack **ret)
{
	struct pack_maker *m;
	size_t at = 0, end = 0, used;

	*ret = NULL;
	assert_int_equal(pack_maker_new(limits, &m), 0);
	while (end < len) {
		int r;

		end = MIN(len, MAX(end, at) + piece);
		r = pack_maker_add(m, p + at, end - at, &used);
		if (r < 0) {
			pack_maker_free(m);
			return r;
		}
		assert_true(used <= end - at);
		at += used;
	}
	if (at < len) {
		pack_maker_free(m);
		return -EAGAIN;
	}
	return pack_maker_end(m, &(struct pack_flaws){3, 4}, ret);
}

static int make(struct pack **ret)
{
	assert_false(out.bad);
	return make_of(bytes, out.len, SIZE_MAX / 2, &plenty, ret);
}

static uint32_t entry_of(const struct pack *p, const char *path)
{
	char copy[256], *save = NULL;
	uint32_t e = PACK_ROOT;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save))
		assert_int_equal(pack_lookup(p, e, name, &e), 0);
	return e;
}

static struct pack_attr attr_of(const struct pack *p, const char *path)
{
	struct pack_attr a;

	pack_attr(p, entry_of(p, path), &a);
	return a;
}

static void a_tree(void)
{
	dir("");
	file("one", 5, true);
	data(0, "hello", 5);
	symlink_to("link", "../../etc/passwd");
	file("empty", 0, false);
	put((struct pack_record){.kind = PACK_OTHER, .name = "fifo", .mode = S_IFIFO | 0600});
	dir("d");
	same("again", 1);
	dir("deeper");
	file("\xff\xfe", 3, false);
	data(0, "abc", 3);
	up();
	up();
	dir("e");
	up();
	up();
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
	assert_int_equal(make(&p), 0);
	assert_int_equal(pack_entries(p), 10);
	assert_true(pack_bytes(p) > out.len);
	assert_true(pack_bytes(p) < out.len + 10 * 160ull); /* also of a few */
	assert_int_equal(pack_flaws(p).changed, 3);
	assert_int_equal(pack_flaws(p).left_out, 4);
	a = attr_of(p, "");
	assert_int_equal(a.mode, S_IFDIR | 01755);
	assert_int_equal(a.nlink, 4);
	assert_int_equal(a.mtime.tv_sec, 7);
	assert_int_equal(a.size, 20 * (2 + 6));
	assert_int_equal(attr_of(p, "d").size, 20 * (2 + 2));
	a = attr_of(p, "one");
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_int_equal(a.nlink, 2);
	assert_int_equal(a.size, 5);
	assert_int_equal(a.blocks, 1);
	assert_int_equal(a.mtime.tv_sec, -5);
	assert_int_equal(a.mtime.tv_nsec, 999999999);
	assert_int_equal(attr_of(p, "d/again").file, a.file);
	assert_int_equal(attr_of(p, "d/again").mode, a.mode);
	assert_int_equal(attr_of(p, "d/deeper/\xff\xfe").size, 3);
	assert_int_equal(attr_of(p, "fifo").mode, S_IFIFO | 0600);
	a = attr_of(p, "link");
	assert_int_equal(a.size, 16);
	assert_string_equal(pack_target(p, entry_of(p, "link")), "../../etc/passwd");
	assert_null(pack_target(p, entry_of(p, "one")));
	assert_int_equal(pack_parent(p, entry_of(p, "d/deeper")), entry_of(p, "d"));
	assert_int_equal(pack_parent(p, PACK_ROOT), PACK_ROOT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "none", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, PACK_ROOT, "again", &e), -ENOENT);
	assert_int_equal(pack_lookup(p, entry_of(p, "one"), "x", &e), -ENOTDIR);
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
	assert_int_equal(make(&p), 0);
	pack_list(p, PACK_ROOT, 0, on_entry, &l);
	assert_string_equal(l.names, "one link empty fifo d e ");
	l = (struct listed){.most = 100};
	pack_list(p, entry_of(p, "d"), 0, on_entry, &l);
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
		pack_list(p, entry_of(p, "e"), i, on_entry, &l);
	pack_list(p, PACK_ROOT, UINT64_MAX, on_entry, &l);
	pack_list(p, PACK_ROOT, 1, on_entry, &l);
	pack_list(p, entry_of(p, "one"), 0, on_entry, &l);
	assert_string_equal(l.names, "");
	pack_unref(p);
}

static void reads_holes(void **state)
{
	char want[20000], got[20000];
	struct pack *p;
	uint32_t e;

	(void)state;
	memset(want, 0, sizeof(want));
	memset(want + 100, 'a', 50);
	memset(want + 150, 'b', 50);
	memset(want + 9000, 'c', 1000);
	dir("");
	file("f", 19000, false);
	data(100, want + 100, 50);
	data(150, want + 150, 50);
	data(9000, want + 9000, 1000);
	file("hole", 1ull << 62, false);
	up();
	assert_int_equal(make(&p), 0);
	e = entry_of(p, "f");
	for (size_t from = 0; from < 19010; from += 37) {
		for (size_t len = 1; len < 19100; len = len * 3 + 1) {
			const ssize_t expected = from < 19000 ? (ssize_t)MIN(len, 19000 - from) : 0;

			memset(got, 'x', sizeof(got));
			assert_int_equal(pack_pread(p, e, got, len, from), expected);
			assert_memory_equal(got, want + from, (size_t)expected);
			assert_int_equal(got[expected], 'x');
		}
	}
	assert_int_equal(attr_of(p, "f").blocks, 3);
	assert_int_equal(pack_pread(p, e, got, 10, UINT64_MAX), 0);
	e = entry_of(p, "hole");
	memset(got, 'x', sizeof(got));
	assert_int_equal(pack_pread(p, e, got, 100, (1ull << 62) - 60), 60);
	assert_memory_equal(got, want, 60);
	assert_int_equal(pack_pread(p, PACK_ROOT, got, 1, 0), -EINVAL);
	pack_unref(p);
}

static int64_t seek(const struct pack *p, const char *path, uint64_t offset, int whence)
{
	uint64_t at = 12345;
	const int r = pack_seek(p, entry_of(p, path), offset, whence, &at);

	assert_true(r == 0 || at == 12345);
	return r < 0 ? r : (int64_t)at;
}

/* As lseek(2) does of a file like that. */
static void seeks(void **state)
{
	static const char text[10000] = {1};
	const int64_t far = INT64_C(1) << 62;
	struct pack *p;

	(void)state;
	dir("");
	file("before", 30, false); /* whose data is not that of the next */
	data(0, text, 30);
	file("f", 19000, true);
	data(100, text, 50);
	data(150, text, 50); /* no hole between them */
	data(200, text, 1);
	data(9000, text, 1000);
	data(12000, text, 7000);
	file("behind", 19030, false);
	data(19000, text, 30);
	file("hole", (uint64_t)far, false);
	file("empty", 0, false);
	symlink_to("link", "f");
	same("again", 2);
	up();
	assert_int_equal(make(&p), 0);
	for (unsigned other = 0; other < 2; other++) {
		const char *f = other ? "again" : "f";
		static const uint64_t parts[][2] = {{100, 201}, {9000, 10000}, {12000, 19000}};
		unsigned part = 0;

		for (uint64_t at = 0; at < 19000; at++) {
			part += at >= parts[part][1];
			assert_int_equal(seek(p, f, at, SEEK_DATA), MAX(at, parts[part][0]));
			assert_int_equal(seek(p, f, at, SEEK_HOLE),
					 at < parts[part][0] ? at : parts[part][1]);
		}
		assert_int_equal(seek(p, f, 19000, SEEK_DATA), -ENXIO);
		assert_int_equal(seek(p, f, 19000, SEEK_HOLE), -ENXIO);
		assert_int_equal(seek(p, f, UINT64_MAX, SEEK_HOLE), -ENXIO);
	}
	assert_int_equal(seek(p, "before", 29, SEEK_HOLE), 30);
	assert_int_equal(seek(p, "behind", 0, SEEK_HOLE), 0);
	assert_int_equal(seek(p, "behind", 0, SEEK_DATA), 19000);
	assert_int_equal(seek(p, "hole", 0, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(p, "hole", far - 1, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(p, "hole", far - 1, SEEK_HOLE), far - 1);
	assert_int_equal(seek(p, "hole", far, SEEK_HOLE), -ENXIO);
	assert_int_equal(seek(p, "empty", 0, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(p, "empty", 0, SEEK_HOLE), -ENXIO);
	assert_int_equal(seek(p, "f", 0, SEEK_END), -EINVAL);
	assert_int_equal(seek(p, "f", 0, -1), -EINVAL);
	assert_int_equal(seek(p, "link", 0, SEEK_DATA), -EINVAL);
	assert_int_equal(seek(p, "", 0, SEEK_HOLE), -EINVAL);
	pack_unref(p);
}

/* A sandbox that sends its file byte by byte does not hold the daemon up: who walked to the end of the data took two hundred
 * times as long for it as for its beginning. Processor time, which a busy host does not lengthen. */
static void seeks_among_many(void **state)
{
	enum { N = 1u << 18 };
	clock_t begun, for_data;
	struct pack *p;

	(void)state;
	dir("");
	file("row", N, false);
	for (unsigned i = 0; i < N; i++)
		data(i, "x", 1);
	up();
	assert_int_equal(make(&p), 0);
	begun = clock();
	for (uint64_t at = 0; at < N; at++)
		assert_int_equal(seek(p, "row", at, SEEK_DATA), at);
	for_data = clock() - begun;
	begun = clock();
	for (uint64_t at = 0; at < N; at++)
		assert_int_equal(seek(p, "row", at, SEEK_HOLE), N);
	assert_true(clock() - begun < 20 * for_data + CLOCKS_PER_SEC);
	pack_unref(p);
	begin(NULL);
	dir("");
	file("islands", 2ull * N, false);
	for (unsigned i = 0; i < N; i++)
		data(2ull * i + 1, "x", 1);
	up();
	assert_int_equal(make(&p), 0);
	for (uint64_t at = 0; at < 2 * N; at++) {
		assert_int_equal(seek(p, "islands", at, SEEK_HOLE), at + at % 2);
		assert_int_equal(seek(p, "islands", at, SEEK_DATA), at + 1 - at % 2);
	}
	pack_unref(p);
}

static void many_names(void **state)
{
	enum { N = 50000 };
	struct pack *p;
	char name[16];
	uint32_t e;

	(void)state;
	dir("");
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u", i);
		file(name, i, false);
	}
	up();
	assert_false(out.bad);
	assert_int_equal(make_of(bytes, out.len, 100000, &plenty, &p), 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(pack_lookup(p, PACK_ROOT, name, &e), 0);
		assert_int_equal(e, i + 1);
	}
	assert_int_equal(pack_lookup(p, PACK_ROOT, "50000", &e), -ENOENT);
	/* An index of small files must not take more than they do by far. */
	assert_true(pack_bytes(p) < out.len + N * 160ull);
	pack_unref(p);
}

static void refused(int err)
{
	struct pack *p;

	assert_false(out.bad);
	assert_int_equal(make_of(bytes, out.len, SIZE_MAX / 2, &plenty, &p), err);
	begin(NULL);
}

static void refuses_what_does_not_fit(void **state)
{
	(void)state;
	refused(-EPROTO); /* nothing */
	dir("");
	refused(-EPROTO); /* never left */
	up();
	refused(-EPROTO);
	file("f", 0, false);
	refused(-EPROTO); /* no root */
	dir("named");
	up();
	refused(-EPROTO);
	dir("");
	up();
	up();
	refused(-EPROTO);
	dir("");
	up();
	dir("");
	up();
	refused(-EPROTO); /* another root */
	dir("");
	dir("");
	up();
	up();
	refused(-EPROTO);
	dir("");
	data(0, "x", 1);
	up();
	refused(-EPROTO); /* of no file */
	dir("");
	file("f", 1, false);
	data(0, "xx", 2);
	up();
	refused(-EPROTO); /* behind its end */
	dir("");
	file("f", 9, false);
	data(3, "xx", 2);
	data(4, "xx", 2);
	up();
	refused(-EPROTO); /* twice */
	dir("");
	file("f", 9, false);
	symlink_to("l", "x");
	data(3, "xx", 2);
	up();
	refused(-EPROTO);
	for (unsigned i = 0; i < PACK_DEPTH_MAX + 1; i++)
		dir(i ? "d" : "");
	refused(-EPROTO);
}

static void refuses_names(void **state)
{
	static const char *const bad[] = {"a/b", "/", "..", "."};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		dir("");
		file(bad[i], 0, false);
		up();
		refused(-EPROTO);
		dir("");
		dir(bad[i]);
		up();
		up();
		refused(-EPROTO);
		dir("");
		symlink_to(bad[i], "x");
		up();
		refused(-EPROTO);
	}
	dir("");
	file("", 0, false);
	up();
	refused(-EPROTO);
	/* The same twice, of whatever kind; elsewhere it is another one. */
	dir("");
	file("f", 0, false);
	dir("f");
	up();
	up();
	refused(-EPROTO);
	dir("");
	symlink_to("f", "x");
	file("f", 0, false);
	up();
	refused(-EPROTO);
	dir("");
	file("f", 0, true);
	same("f", 1);
	up();
	refused(-EPROTO);
	/* Another name of what is none, of what will come, of itself. */
	for (uint32_t entry = 0; entry < 5; entry++) {
		dir("");
		symlink_to("l", "x");
		file("f", 0, false);
		same("s", entry);
		up();
		refused(-EPROTO);
	}
}

static void has_limits(void **state)
{
	struct pack_limits limits = {.bytes = 8 + 16, .entries = 10};
	struct pack *p;

	(void)state;
	a_tree();
	assert_int_equal(make_of(bytes, out.len, SIZE_MAX / 2, &limits, &p), 0);
	pack_unref(p);
	limits.bytes--;
	assert_int_equal(make_of(bytes, out.len, SIZE_MAX / 2, &limits, &p), -EFBIG);
	limits = (struct pack_limits){.bytes = 1000, .entries = 9};
	assert_int_equal(make_of(bytes, out.len, SIZE_MAX / 2, &limits, &p), -EFBIG);
	/* Parts of a file, of which each takes more memory than it has bytes. */
	begin(NULL);
	dir("");
	file("f", 100000, false);
	for (unsigned i = 0; i < 5000; i++)
		data(2ull * i, "x", 1);
	up();
	limits = (struct pack_limits){.bytes = 100000, .entries = 10};
	assert_int_equal(make_of(bytes, out.len, SIZE_MAX / 2, &limits, &p), -EFBIG);
}

static void comes_in_any_pieces(void **state)
{
	struct pack *p;

	(void)state;
	a_tree();
	for (size_t piece = 1; piece < 60; piece++) {
		assert_int_equal(make_of(bytes, out.len, piece, &plenty, &p), 0);
		assert_int_equal(pack_entries(p), 10);
		assert_int_equal(pack_records_size(p), out.len);
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
	len = out.len;
	bad = malloc(len);
	assert_non_null(bad);
	for (size_t i = 0; i < len; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			memcpy(bad, bytes, len);
			bad[i] ^= (uint8_t)(1u << bit);
			if (make_of(bad, len, SIZE_MAX / 2, &plenty, &p) == 0) {
				look_around(p);
				pack_unref(p);
			}
		}
		assert_int_not_equal(make_of(bytes, i, SIZE_MAX / 2, &plenty, &p), 0);
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
	static uint8_t noise[1u << 20], again[sizeof(bytes)];
	struct pack *p, *q;
	int fd;

	(void)state;
	srandom(1);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)random();
	dir("");
	file("f", 3u << 20, false);
	for (unsigned i = 0; i < 24; i++)
		data((uint64_t)i << 17, noise + ((size_t)(i % 8) << 17), 100000);
	symlink_to("l", "target");
	up();
	assert_int_equal(make(&p), 0);
	fd = stored(p);
	assert_int_equal(load(fd, &plenty, &q), 0);
	close(fd);
	assert_int_equal(pack_records_size(q), out.len);
	assert_int_equal(pack_read_records(q, again, sizeof(again), 0), out.len);
	assert_memory_equal(again, bytes, out.len);
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
	assert_int_equal(make(&p), 0);
	fd = stored(p);
	lseek(fd, 0, SEEK_SET);
	n = read(fd, copy, sizeof(copy));
	assert_true(n > 100 && n < (ssize_t)sizeof(copy));
	for (ssize_t i = 0; i < n; i++) {
		copy[i] ^= 0x10;
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(fileio_write_at(fd, copy, (size_t)n, 0), 0);
		/* Eight of the bytes say by which key it was sealed. */
		assert_int_equal(load(fd, &plenty, &q), i >= 8 && i < 12    ? -EPROTONOSUPPORT
							: i >= 12 && i < 20 ? -EKEYREJECTED
									    : -EBADMSG);
		copy[i] ^= 0x10;
		assert_int_equal(fileio_write_at(fd, copy, (size_t)n, 0), 0);
		assert_int_equal(ftruncate(fd, i), 0);
		assert_int_equal(load(fd, &plenty, &q), -EBADMSG);
	}
	copy[n] = 'x';
	assert_int_equal(fileio_write_at(fd, copy, (size_t)n + 1, 0), 0);
	assert_int_equal(load(fd, &plenty, &q), -EBADMSG);
	close(fd);
	pack_unref(p);
	key = seal_key_free(key);
}

/* Of each entry the number behind it, and of all names of a file the same; without, there is none. */
static void inode_numbers(void **state)
{
	struct pack *p;

	(void)state;
	dir("");
	number(1);
	file("one", 5, true);
	number(77);
	data(0, "hello", 5);
	file("two", 0, false);
	same("again", 1);
	symlink_to("link", "x");
	number(UINT64_MAX);
	up();
	assert_int_equal(make(&p), 0);
	assert_int_equal(attr_of(p, "one").number, 77);
	assert_int_equal(attr_of(p, "one").size, 5);
	assert_int_equal(attr_of(p, "again").number, 77);
	assert_int_equal(attr_of(p, "two").number, 0);
	assert_int_equal(attr_of(p, "link").number, UINT64_MAX);
	pack_unref(p);
}

static void wrong_numbers(void **state)
{
	(void)state;
	number(1);
	dir("");
	up();
	refused(-EPROTO);
	dir("");
	file("one", 5, true);
	number(77);
	number(77);
	up();
	refused(-EPROTO); /* two of one */
	dir("");
	file("one", 0, true);
	same("again", 1);
	number(77);
	up();
	refused(-EPROTO);
	dir("");
	dir("d");
	up();
	number(77);
	up();
	refused(-EPROTO); /* of one that was left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(inode_numbers, begin),
		cmocka_unit_test_setup(wrong_numbers, begin),
		cmocka_unit_test_setup(looks, begin),
		cmocka_unit_test_setup(lists, begin),
		cmocka_unit_test_setup(reads_holes, begin),
		cmocka_unit_test_setup(seeks, begin),
		cmocka_unit_test_setup(seeks_among_many, begin),
		cmocka_unit_test_setup(many_names, begin),
		cmocka_unit_test_setup(refuses_what_does_not_fit, begin),
		cmocka_unit_test_setup(refuses_names, begin),
		cmocka_unit_test_setup(has_limits, begin),
		cmocka_unit_test_setup(comes_in_any_pieces, begin),
		cmocka_unit_test_setup(survives_any_bytes, begin),
		cmocka_unit_test_setup(is_kept, begin),
		cmocka_unit_test_setup(damage_is_seen, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
