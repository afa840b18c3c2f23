/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests, chunks and bundles: what is written can be read, and nothing else. */
/* modules: vm/store/manifest.c vm/store/chunk.c vm/store/kind.c vm/store/bundle.c vm/base/buf.c vm/base/digest.c */
/* libs: crypto jansson zstd */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/store/bundle.h"
#include "vm/store/chunk.h"
#include "vm/store/manifest.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SUM "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct manifest_chunk chunks[2] = {{0, 0, 100, SUM}, {0, 3, CHUNK_MIN, SUM}};

static struct manifest example(void)
{
	struct manifest m = {
		.kind = STORE_SNAPSHOT,
		.key = KEY,
		.chunk_bytes = CHUNK_MIN,
		.tsc_khz = 2300000,
		.nfiles = 2,
		.chunks = chunks,
		.nchunks = 2,
		.files = {{.name = "ram", .bytes = 4 * CHUNK_MIN - 5, .sha256 = SUM},
			  {.name = "state", .bytes = 0, .sha256 = SUM}},
	};

	return m;
}

static void there_and_back(void **state)
{
	const struct manifest m = example();
	struct buf text = {0}, again = {0};
	struct manifest got;

	(void)state;
	assert_int_equal(manifest_print(&m, NULL, 0, &text), 0);
	assert_int_equal(manifest_parse(text.data, text.len, NULL, &got), 0);
	assert_int_equal(got.kind, STORE_SNAPSHOT);
	assert_string_equal(got.key, KEY);
	assert_int_equal(got.tsc_khz, 2300000);
	assert_int_equal(got.nfiles, 2);
	assert_int_equal(got.nchunks, 2);
	assert_int_equal(got.chunks[1].index, 3);
	assert_int_equal(manifest_chunk_bytes(&got, &got.chunks[1]), CHUNK_MIN - 5);
	assert_int_equal(manifest_data(&got), 2 * CHUNK_MIN - 5);
	assert_int_equal(manifest_stored(&got), 100 + CHUNK_MIN);
	assert_int_equal(manifest_print(&got, NULL, 0, &again), 0);
	assert_int_equal(text.len, again.len);
	assert_memory_equal(text.data, again.data, text.len);
	manifest_clear(&got);
	buf_clear(&text);
	buf_clear(&again);
}

/* Chunks of one file end where those of the next begin, in the text as well. */
static void chunks_of_two(void **state)
{
	struct manifest m = example(), got;
	struct buf text = {0};

	(void)state;
	m.chunks = NULL;
	m.nchunks = 0;
	m.files[1].bytes = CHUNK_MIN + 1;
	for (uint32_t i = 0; i < 5; i++) {
		const struct manifest_chunk c = {i / 3, i % 3, 1 + i, SUM};

		assert_int_equal(manifest_add(&m, &c), 0);
	}
	assert_int_equal(manifest_print(&m, NULL, 0, &text), 0);
	assert_int_equal(manifest_parse(text.data, text.len, NULL, &got), 0);
	assert_int_equal(got.nchunks, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(got.chunks[i].file, m.chunks[i].file);
		assert_int_equal(got.chunks[i].index, m.chunks[i].index);
		assert_int_equal(got.chunks[i].stored, i + 1);
	}
	assert_int_equal(manifest_chunk_bytes(&got, &got.chunks[4]), 1);
	assert_int_equal(manifest_data(&got), 4 * CHUNK_MIN + 1);
	assert_int_equal(manifest_stored(&got), 15);
	manifest_clear(&got);
	manifest_clear(&m);
	buf_clear(&text);
}

static void padded(void **state)
{
	const struct manifest m = example();
	const size_t room = manifest_bound(2, 2);
	struct buf text = {0};
	struct manifest got;

	(void)state;
	assert_int_equal(manifest_print(&m, "secret", room, &text), 0);
	assert_int_equal(text.len, room);
	assert_int_equal(manifest_parse(text.data, text.len, "secret", &got), 0);
	manifest_clear(&got);
	buf_clear(&text);
	assert_int_equal(manifest_print(&m, NULL, 300, &text), -EFBIG);
	buf_clear(&text);
}

static void authenticated(void **state)
{
	const struct manifest m = example();
	struct buf text = {0};
	struct manifest got;

	(void)state;
	assert_int_equal(manifest_print(&m, "secret", 0, &text), 0);
	assert_int_equal(manifest_parse(text.data, text.len, "secret", &got), 0);
	manifest_clear(&got);
	assert_int_equal(manifest_parse(text.data, text.len, NULL, &got), 0);
	manifest_clear(&got);
	assert_int_equal(manifest_parse(text.data, text.len, "Secret", &got), -EACCES);
	for (size_t i = 15; i < text.len; i += 7) {
		text.data[i] ^= 1;
		assert_true(manifest_parse(text.data, text.len, "secret", &got) < 0);
		text.data[i] ^= 1;
	}
	buf_clear(&text);
	assert_int_equal(manifest_print(&m, NULL, 0, &text), 0);
	assert_int_equal(manifest_parse(text.data, text.len, "secret", &got), -EACCES);
	buf_clear(&text);
}

/* A manifest with one thing replaced. */
static int with(const char *from, const char *to)
{
	const struct manifest m = example();
	struct buf text = {0}, other = {0};
	struct manifest got;
	const char *at;
	int r;

	assert_int_equal(manifest_print(&m, NULL, 0, &text), 0);
	at = strstr(buf_str(&text), from);
	assert_non_null(at);
	buf_printf(&other, "%.*s%s%s", (int)(at - text.data), text.data, to, at + strlen(from));
	r = manifest_parse(other.data, other.len, NULL, &got);
	if (r == 0)
		manifest_clear(&got);
	buf_clear(&text);
	buf_clear(&other);
	return r;
}

static void refused(void **state)
{
	static const char *const pairs[][2] = {
		{"store 1", "store 2"},
		{"\"format\": 1", "\"format\": 2"},
		{"snapshot", "snapshots"},
		{"\"key\": \"0", "\"key\": \"/"},
		{"65536", "65535"},
		{"65536", "33554433"},
		{"65536", "-65536"},
		{"65536", "\"65536\""},
		{"2300000", "4294967296"},
		{"\"ram\"", "\"..\""},
		{"\"ram\"", "\"a/b\""},
		{"\"ram\"", "\"state\""},
		{"\"ram\"", "\".done\""},
		{"\"ram\"", "\"\""},
		{"\"ram\"", "7"},
		{"[3, ", "[4, "},
		{"[3, ", "[0, "},
		{"[3, ", "[-1, "},
		{"[3, ", "[3, 3, "},
		{"[0, 100", "[0, 0"},
		{"[0, 100", "[0, 70000"},
		{"[0, 100", "[0, 1.5"},
		{"262139", "1099511627777"},
		{"262139", "100"},
		{"\"e3b0", "\"E3B0"},
		{"\"e3b0", "\"e3b"},
		{"\"chunks\": []", "\"chunks\": {}"},
		{"]}\n", "]}}"},
	};

	(void)state;
	assert_int_equal(with("\"state\"", "\"other\""), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		if (with(pairs[i][0], pairs[i][1]) != -EBADMSG)
			fail_msg("accepted: %s instead of %s", pairs[i][1], pairs[i][0]);
	}
}

static void packed(void **state)
{
	static char data[3 * 4096 + 17], out[sizeof(data)];
	char *room = malloc(chunk_stored_max(sizeof(data))), sum[DIGEST_HEX];
	size_t n;

	(void)state;
	assert_non_null(room);
	memset(data + 4096, 'x', 4096);
	assert_int_equal(chunk_pack(data, sizeof(data), room, &n, sum), 0);
	assert_true(n < 200);
	assert_int_equal(chunk_unpack(room, n, sum, out, sizeof(out)), 0);
	assert_memory_equal(data, out, sizeof(data));
	assert_int_equal(chunk_unpack(room, n, sum, out, sizeof(out) - 1), -EBADMSG);
	assert_int_equal(chunk_unpack(room, n - 1, sum, out, sizeof(out)), -EBADMSG);
	assert_int_equal(chunk_unpack(room, n, SUM, out, sizeof(out)), -EBADMSG);
	free(room);
}

/* The checksum is right, and it is much more than it should be. */
static void bomb(void **state)
{
	const size_t size = 64u << 20;
	char *zeroes = calloc(1, size), *room = malloc(chunk_stored_max(size)), sum[DIGEST_HEX];
	static char out[CHUNK_MIN];
	size_t n;

	(void)state;
	assert_true(zeroes && room);
	assert_int_equal(chunk_pack(zeroes, size, room, &n, sum), 0);
	assert_true(n < CHUNK_MIN);
	assert_int_equal(chunk_unpack(room, n, sum, out, sizeof(out)), -EBADMSG);
	free(zeroes);
	free(room);
}

static void records(void **state)
{
	const struct bundle_record chunk = {BUNDLE_CHUNK, BUNDLE_RECORD_MAX};
	char name[STORE_KEY_MAX + 1], key[STORE_KEY_MAX + 1];
	uint8_t head[BUNDLE_HEAD];
	struct bundle_record got;

	(void)state;
	bundle_put_head(&chunk, head);
	assert_int_equal(bundle_head(head, &got), 0);
	assert_int_equal(got.type, BUNDLE_CHUNK);
	assert_int_equal(got.len, BUNDLE_RECORD_MAX);
	head[4]++;
	assert_int_equal(bundle_head(head, &got), -EBADMSG);
	assert_int_equal(bundle_head((const uint8_t *)"\0\0\0\0\0\0\0\0", &got), -EBADMSG);
	assert_int_equal(bundle_head((const uint8_t *)"\5\0\0\0\0\0\0\0", &got), -EBADMSG);
	assert_int_equal(bundle_head((const uint8_t *)"\4\0\0\0\1\0\0\0", &got), -EBADMSG);
	assert_int_equal(bundle_link("python python-12\n", 17, name, key), 0);
	assert_string_equal(name, "python");
	assert_string_equal(key, "python-12");
	assert_int_equal(bundle_link("python python-12", 16, name, key), -EBADMSG);
	assert_int_equal(bundle_link("python ../python\n", 17, name, key), -EBADMSG);
	assert_int_equal(bundle_link("../up python-12\n", 16, name, key), -EBADMSG);
	assert_int_equal(bundle_link("pyt\0on python-12\n", 17, name, key), -EBADMSG);
	assert_int_equal(bundle_link(" \n", 2, name, key), -EBADMSG);
	assert_int_equal(bundle_link(" ", 1, name, key), -EBADMSG);
	assert_int_equal(bundle_link("", 0, name, key), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(chunks_of_two),
		cmocka_unit_test(padded),	  cmocka_unit_test(authenticated),
		cmocka_unit_test(refused),	  cmocka_unit_test(packed),
		cmocka_unit_test(bomb),		  cmocka_unit_test(records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
