/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the records of packs, as they come from a sandbox, and what is then asked of the pack. The first byte says in what
 * pieces they come; with its highest bit set, the rest is a pack on disk instead, without its seal. */
/* modules: vm/checkpoint/pack.c vm/checkpoint/pack_maker.c vm/checkpoint/pack_file.c agent/pack_record.c agent/protocol.c vm/base/io.c vm/base/sink.c vm/base/discard.c vm/base/lent.c vm/base/fdpass.c vm/base/context.c */
/* libs: zstd uv */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "vm/base/util.h"
#include "vm/checkpoint/pack_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct pack_limits limits = {1u << 20, 1000};

struct listed {
	const struct pack *pack;
	uint32_t dir, n;
};

static bool on_entry(void *to, const char *name, uint32_t entry, uint64_t offset)
{
	struct listed *l = to;
	uint32_t found;

	assert(*name && strlen(name) <= 255 && !strchr(name, '/'));
	assert(pack_parent(l->pack, entry) == l->dir);
	assert(pack_lookup(l->pack, l->dir, name, &found) == 0 && found == entry);
	assert(offset && ++l->n < pack_entries(l->pack));
	return true;
}

/* Parts that are data and holes alternate up to the end, and holes read as zeroes. */
static void seek(const struct pack *p, uint32_t e, const struct pack_attr *a)
{
	uint64_t at = 0, data, hole;
	char buf[300];

	while (pack_seek(p, e, at, SEEK_DATA, &data) == 0) {
		assert(S_ISREG(a->mode) && data < a->size && (data > at || !at));
		for (ssize_t n = pack_pread(p, e, buf, MIN(sizeof(buf), data - at), at); n > 0; n--)
			assert(!buf[n - 1]);
		assert(pack_seek(p, e, data, SEEK_HOLE, &hole) == 0);
		assert(hole > data && hole <= a->size);
		at = hole;
	}
	assert(!S_ISREG(a->mode) || at == a->size ||
	       (pack_seek(p, e, at, SEEK_HOLE, &hole) == 0 && hole == at));
}

/* All that it says has to fit together. */
static void look(const struct pack *p)
{
	uint32_t seen = 1;
	char buf[300];

	for (uint32_t e = 0; e < pack_entries(p); e++) {
		struct listed l = {p, e, 0};
		struct pack_attr a;
		ssize_t n;

		pack_attr(p, e, &a);
		assert(a.file < pack_entries(p) && a.nlink && !(a.mode & 06000));
		assert(!S_ISLNK(a.mode) == !pack_target(p, e));
		assert(!S_ISLNK(a.mode) || strlen(pack_target(p, e)) == a.size);
		n = pack_pread(p, e, buf, sizeof(buf), a.size / 2);
		assert(S_ISREG(a.mode) ? n == (ssize_t)MIN(sizeof(buf), a.size - a.size / 2)
				       : n == -EINVAL);
		seek(p, e, &a);
		pack_list(p, e, 0, on_entry, &l);
		seen += l.n;
	}
	assert(seen == pack_entries(p)); /* one tree */
}

static int from_records(const uint8_t *data, size_t size, size_t piece, struct pack **ret)
{
	struct pack_maker *m;
	size_t at = 0, end = 0, used;

	assert(pack_maker_new(&limits, &m) == 0);
	while (end < size) {
		int r;

		end = MIN(size, MAX(at, end) + piece);
		r = pack_maker_add(m, data + at, end - at, &used);
		if (r < 0) {
			assert(r == -EPROTO || r == -EFBIG);
			pack_maker_free(m);
			return r;
		}
		assert(used <= end - at);
		at += used;
	}
	return pack_maker_end(m, &(struct pack_flaws){0}, ret);
}

static int from_disk(const uint8_t *data, size_t size, struct pack **ret)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC), r;
	struct file_source from = file_source(fd);

	assert(fd >= 0 && fileio_write_at(fd, data, size, 0) == 0);
	r = pack_load(&from.source, &limits, ret);
	assert(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EFBIG);
	close(fd);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack *p;
	int r;

	if (!size)
		return 0;
	r = data[0] & 0x80 ? from_disk(data + 1, size - 1, &p)
			   : from_records(data + 1, size - 1, 1 + data[0] * 8u, &p);
	if (r == 0) {
		look(p);
		pack_unref(p);
	}
	return 0;
}
