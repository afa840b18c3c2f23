/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what the vault reads. The first byte says what the rest is: a sealed stream (0), and what would be found in one: a head
 * (1), the packed memory of a machine (2), a stream that was sealed rightly but is read in odd pieces (3); key files (4). */
/* modules: vm/checkpoint/seal.c vm/checkpoint/host_key.c vm/checkpoint/packed_ram.c vm/checkpoint/point_disk.c vm/checkpoint/point.c vm/base/lent.c vm/base/fdpass.c vm/checkpoint/vault_disk.c vm/checkpoint/pack.c vm/checkpoint/pack_maker.c vm/checkpoint/pack_file.c agent/pack_record.c agent/protocol.c */
/* modules: vm/base/path.c vm/base/sink.c vm/base/io.c vm/base/buf.c vm/base/memory.c vm/base/sparse.c vm/base/digest.c vm/base/record.c vm/base/problem.c vm/base/discard.c vm/base/context.c */
/* libs: uv crypto zstd */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/base/util.h"
#include "vm/checkpoint/host_key.h"
#include "vm/checkpoint/packed_ram.h"
#include "vm/checkpoint/vault_disk.h"
#include "vm/image/layer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct layer *layer_ref(struct layer *l)
{
	return l;
}

struct layer *layer_put(struct layer *l)
{
	(void)l;
	return NULL;
}

static struct seal_key *key(void)
{
	static struct seal_key *k;

	if (!k)
		assert(seal_key_new((const unsigned char[SEAL_KEY]){1}, &k) == 0);
	return k;
}

/* Nobody can make one without the key. */
static void sealed(const uint8_t *data, size_t size)
{
	struct buf out = {.limit = 1u << 20};
	int r = unseal_bytes(key(), "it", data, size, &out);

	assert(r == -EBADMSG || r == -EKEYREJECTED || r == -EPROTONOSUPPORT);
	buf_clear(&out);
}

static void head(const uint8_t *data, size_t size)
{
	struct vault_head h;
	int r = vault_head_parse(data, size, &h);

	assert(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
	if (r < 0)
		return;
	assert(h.entries && h.records <= 1ull << 42);
	if (h.memory)
		assert((const uint8_t *)h.facts.machine >= data &&
		       (const uint8_t *)h.facts.machine + h.facts.machine_len <= data + size &&
		       strlen(h.facts.base_sum) == DIGEST_HEX - 1);
}

static void ram(const uint8_t *data, size_t size)
{
	struct byte_source from = byte_source(data, size);
	const int fd = packed_ram_read(&from.source, 1u << 20);

	assert(fd >= 0 || fd == -EBADMSG);
	if (fd < 0)
		return;
	assert(lseek(fd, 0, SEEK_END) == 1 << 20);
	close(fd);
}

static void pieces(const uint8_t *data, size_t size)
{
	struct buf out = {.limit = 1u << 20};
	struct unsealer *u;
	struct byte_source from;
	size_t done = 0;
	char piece[256];

	assert(seal_bytes(key(), "it", data, size, &out) == 0);
	from = byte_source(out.data, out.len);
	assert(unsealer_new(key(), "it", &from.source, &u) == 0);
	while (done < size) {
		const size_t n = MIN(1u + data[done], size - done);

		assert(source_read(unsealer_source(u), piece, MIN(n, sizeof(piece))) == 0);
		assert(memcmp(piece, data + done, MIN(n, sizeof(piece))) == 0);
		done += MIN(n, sizeof(piece));
	}
	assert(unsealer_source(u)->read(unsealer_source(u), piece, 1) == 0);
	unsealer_free(u);
	buf_clear(&out);
}

static void text(const uint8_t *data, size_t size)
{
	struct seal_key *k;

	if (host_key_parse((const char *)data, size, &k) == 0)
		seal_key_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const each[])(const uint8_t *data, size_t size) = {sealed, head, ram, pieces,
									 text};

	if (size)
		each[*data % ARRAY_SIZE(each)](data + 1, size - 1);
	return 0;
}
