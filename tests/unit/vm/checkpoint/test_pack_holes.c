/* SPDX-License-Identifier: Apache-2.0 */
/* Holes of files in packs: read, and looked for. */
/* modules: tests/unit/fixture/records.c vm/checkpoint/pack.c vm/checkpoint/pack_maker.c vm/checkpoint/pack_file.c agent/pack_record.c agent/protocol.c vm/base/io.c vm/base/sink.c vm/base/discard.c vm/base/lent.c vm/base/fdpass.c vm/base/context.c vm/checkpoint/seal.c vm/base/buf.c */
/* libs: crypto zstd uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/records.h"
#include "vm/base/util.h"

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
	records_dir("");
	records_file("f", 19000, false);
	records_data(100, want + 100, 50);
	records_data(150, want + 150, 50);
	records_data(9000, want + 9000, 1000);
	records_file("hole", 1ull << 62, false);
	records_up();
	assert_int_equal(records_make(&p), 0);
	e = records_entry(p, "f");
	for (size_t from = 0; from < 19010; from += 37) {
		for (size_t len = 1; len < 19100; len = len * 3 + 1) {
			const ssize_t expected = from < 19000 ? (ssize_t)MIN(len, 19000 - from) : 0;

			memset(got, 'x', sizeof(got));
			assert_int_equal(pack_pread(p, e, got, len, from), expected);
			assert_memory_equal(got, want + from, (size_t)expected);
			assert_int_equal(got[expected], 'x');
		}
	}
	assert_int_equal(records_attr(p, "f").blocks, 3);
	assert_int_equal(pack_pread(p, e, got, 10, UINT64_MAX), 0);
	e = records_entry(p, "hole");
	memset(got, 'x', sizeof(got));
	assert_int_equal(pack_pread(p, e, got, 100, (1ull << 62) - 60), 60);
	assert_memory_equal(got, want, 60);
	assert_int_equal(pack_pread(p, PACK_ROOT, got, 1, 0), -EINVAL);
	pack_unref(p);
}

static int64_t seek(const struct pack *p, const char *path, uint64_t offset, int whence)
{
	uint64_t at = 12345;
	const int r = pack_seek(p, records_entry(p, path), offset, whence, &at);

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
	records_dir("");
	records_file("before", 30, false); /* whose data is not that of the next */
	records_data(0, text, 30);
	records_file("f", 19000, true);
	records_data(100, text, 50);
	records_data(150, text, 50); /* no hole between them */
	records_data(200, text, 1);
	records_data(9000, text, 1000);
	records_data(12000, text, 7000);
	records_file("behind", 19030, false);
	records_data(19000, text, 30);
	records_file("hole", (uint64_t)far, false);
	records_file("empty", 0, false);
	records_symlink_to("link", "f");
	records_same("again", 2);
	records_up();
	assert_int_equal(records_make(&p), 0);
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
	records_dir("");
	records_file("row", N, false);
	for (unsigned i = 0; i < N; i++)
		records_data(i, "x", 1);
	records_up();
	assert_int_equal(records_make(&p), 0);
	begun = clock();
	for (uint64_t at = 0; at < N; at++)
		assert_int_equal(seek(p, "row", at, SEEK_DATA), at);
	for_data = clock() - begun;
	begun = clock();
	for (uint64_t at = 0; at < N; at++)
		assert_int_equal(seek(p, "row", at, SEEK_HOLE), N);
	assert_true(clock() - begun < 20 * for_data + CLOCKS_PER_SEC);
	pack_unref(p);
	records_begin(NULL);
	records_dir("");
	records_file("islands", 2ull * N, false);
	for (unsigned i = 0; i < N; i++)
		records_data(2ull * i + 1, "x", 1);
	records_up();
	assert_int_equal(records_make(&p), 0);
	for (uint64_t at = 0; at < 2 * N; at++) {
		assert_int_equal(seek(p, "islands", at, SEEK_HOLE), at + at % 2);
		assert_int_equal(seek(p, "islands", at, SEEK_DATA), at + 1 - at % 2);
	}
	pack_unref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reads_holes, records_begin),
		cmocka_unit_test_setup(seeks, records_begin),
		cmocka_unit_test_setup(seeks_among_many, records_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
