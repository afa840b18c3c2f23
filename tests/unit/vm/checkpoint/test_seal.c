/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed data: what was sealed, and nothing else. */
/* modules: vm/checkpoint/seal.c vm/base/sink.c vm/base/io.c vm/base/buf.c agent/protocol.c */
/* libs: crypto */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/io.h"
#include "vm/base/util.h"
#include "vm/checkpoint/seal.h"

#define CHUNK  (64u << 10)
#define HEADER 52u
#define TAG    16u

static struct seal_key *key, *other;

static void sealed_is(const char *what, const void *data, size_t len, struct buf *out)
{
	buf_clear(out);
	assert_int_equal(seal_bytes(key, what, data, len, out), 0);
}

static int open_it(const struct seal_key *k, const char *what, const struct buf *sealed,
		   struct buf *out)
{
	buf_clear(out);
	return unseal_bytes(k, what, sealed->data, sealed->len, out);
}

static void comes_back(void **state)
{
	static const size_t sizes[] = {0, 1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7};
	struct buf sealed = {0}, plain = {0};
	char *data = malloc(4 * CHUNK);

	(void)state;
	for (size_t i = 0; i < 4 * CHUNK; i++)
		data[i] = (char)(i * 7 >> 3);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const size_t chunks = sizes[i] ? (sizes[i] + CHUNK - 1) / CHUNK : 1;

		sealed_is("it", data, sizes[i], &sealed);
		assert_int_equal(sealed.len, HEADER + sizes[i] + chunks * TAG);
		assert_int_equal(open_it(key, "it", &sealed, &plain), 0);
		assert_int_equal(plain.len, sizes[i]);
		assert_memory_equal(plain.data ? plain.data : "", data, sizes[i]);
		assert_int_equal(open_it(key, "something else", &sealed, &plain), -EBADMSG);
		assert_int_equal(open_it(other, "it", &sealed, &plain), -EKEYREJECTED);
	}
	free(data);
	buf_clear(&sealed);
	buf_clear(&plain);
}

/* The same data looks different each time, and like nothing. */
static void tells_nothing(void **state)
{
	static const char text[] = "a secret that is long enough to be looked for, and that is not "
				   "there";
	struct buf a = {0}, b = {0};

	(void)state;
	sealed_is("it", text, sizeof(text), &a);
	sealed_is("it", text, sizeof(text), &b);
	assert_int_equal(a.len, b.len);
	assert_null(memmem(a.data, a.len, "secret", 6));
	for (size_t i = HEADER - 32; i + 8 < a.len; i += 8)
		assert_memory_not_equal(a.data + i, b.data + i, 8);
	buf_clear(&a);
	buf_clear(&b);
}

/* Every bit, every length, and what is behind the end. */
static void damage_is_seen(void **state)
{
	struct buf sealed = {0}, plain = {0};
	const size_t len = 40;
	char data[40] = "forty bytes";

	(void)state;
	sealed_is("it", data, len, &sealed);
	for (size_t bit = 0; bit < sealed.len * 8; bit++) {
		const bool version = bit / 8 >= 8 && bit / 8 < 12;
		const bool id = bit / 8 >= 12 && bit / 8 < 20;

		sealed.data[bit / 8] = (char)(sealed.data[bit / 8] ^ 1 << bit % 8);
		assert_int_equal(open_it(key, "it", &sealed, &plain), version ? -EPROTONOSUPPORT
								      : id    ? -EKEYREJECTED
									      : -EBADMSG);
		sealed.data[bit / 8] = (char)(sealed.data[bit / 8] ^ 1 << bit % 8);
	}
	for (size_t n = 0; n < sealed.len; n++) {
		const struct buf less = {.data = sealed.data, .len = n};

		assert_int_equal(open_it(key, "it", &less, &plain), -EBADMSG);
	}
	assert_int_equal(buf_append(&sealed, "x", 1), 0);
	assert_int_equal(open_it(key, "it", &sealed, &plain), -EBADMSG);
	buf_clear(&sealed);
	buf_clear(&plain);
}

/* Chunks that were exchanged, left out, repeated, or come from another stream of the same key. */
static void chunks_stay_in_place(void **state)
{
	const size_t piece = CHUNK + TAG, len = 3 * CHUNK;
	char *data = calloc(1, len), *keep = malloc(piece);
	struct buf one = {0}, two = {0}, plain = {0};
	char *at;

	(void)state;
	sealed_is("it", data, len, &one);
	at = one.data + HEADER;
	memcpy(keep, at, piece);
	memcpy(at, at + piece, piece);
	memcpy(at + piece, keep, piece);
	assert_int_equal(open_it(key, "it", &one, &plain), -EBADMSG);

	sealed_is("it", data, len, &one);
	at = one.data + HEADER;
	memmove(at + piece, at + 2 * piece, piece); /* the last one is behind the first */
	one.len -= piece;
	assert_int_equal(open_it(key, "it", &one, &plain), -EBADMSG);

	sealed_is("it", data, len, &one);
	one.len -= piece; /* ends where a chunk does */
	assert_int_equal(open_it(key, "it", &one, &plain), -EBADMSG);

	sealed_is("it", data, len, &one);
	sealed_is("it", data, len, &two);
	memcpy(one.data + HEADER + piece, two.data + HEADER + piece, piece);
	assert_int_equal(open_it(key, "it", &one, &plain), -EBADMSG);
	memcpy(two.data, one.data, HEADER);
	assert_int_equal(open_it(key, "it", &two, &plain), -EBADMSG);
	buf_clear(&one);
	buf_clear(&two);
	buf_clear(&plain);
	free(data);
	free(keep);
}

/* In pieces of any size, through files. */
static void streams(void **state)
{
	static const size_t pieces[] = {1, 7, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 200000};
	const size_t len = 300001;
	char *data = malloc(len), *back = malloc(len);

	(void)state;
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 13 >> 4);
	for (size_t p = 0; p < ARRAY_SIZE(pieces); p++) {
		int fd = memfd_create("test", MFD_CLOEXEC);
		struct file_sink to = file_sink(fd);
		struct file_source from = file_source(fd);
		struct sealer *s;
		struct unsealer *u;
		size_t done = 0;

		assert_int_equal(sealer_new(key, "it", &to.sink, &s), 0);
		for (size_t n; done < len; done += n) {
			n = MIN(pieces[p], len - done);
			assert_int_equal(sealer_sink(s)->write(sealer_sink(s), data + done, n), 0);
		}
		assert_int_equal(sealer_end(s), 0);
		sealer_free(s);
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(unsealer_new(key, "it", &from.source, &u), 0);
		for (done = 0; done < len;) {
			const size_t n = MIN(pieces[p], len - done);

			assert_int_equal(source_read(unsealer_source(u), back + done, n), 0);
			done += n;
		}
		assert_int_equal(unsealer_source(u)->read(unsealer_source(u), back, 1), 0);
		unsealer_free(u);
		assert_memory_equal(data + 1, back + 1,
				    len - 1); /* the read behind the end took nothing */
		close(fd);
	}
	free(data);
	free(back);
}

static int full(struct sink *s, const void *data, size_t len)
{
	(void)s;
	(void)data;
	return len > 1000 ? -ENOSPC : 0;
}

static void a_full_disk_is_told(void **state)
{
	struct sink to = {full};
	struct sealer *s;
	char *data = calloc(1, CHUNK);

	(void)state;
	assert_int_equal(sealer_new(key, "it", &to, &s), 0);
	assert_int_equal(sealer_sink(s)->write(sealer_sink(s), data, CHUNK), 0);
	assert_int_equal(sealer_end(s), -ENOSPC);
	sealer_free(s);
	free(data);
}

static void names(void **state)
{
	char a[SEAL_NAME], b[SEAL_NAME], c[SEAL_NAME];

	(void)state;
	assert_int_equal(seal_name(key, "content", a), 0);
	assert_int_equal(seal_name(key, "content", b), 0);
	assert_int_equal(seal_name(other, "content", c), 0);
	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
	assert_int_equal(strlen(a), SEAL_NAME - 1);
}

static int setup(void **state)
{
	unsigned char bytes[SEAL_KEY] = "one key";

	(void)state;
	if (seal_key_new(bytes, &key) < 0)
		return -1;
	bytes[31] = 1;
	return seal_key_new(bytes, &other);
}

static int teardown(void **state)
{
	(void)state;
	key = seal_key_free(key);
	other = seal_key_free(other);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back),	  cmocka_unit_test(tells_nothing),
		cmocka_unit_test(damage_is_seen), cmocka_unit_test(chunks_stay_in_place),
		cmocka_unit_test(streams),	  cmocka_unit_test(a_full_disk_is_told),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
