/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk. See point_disk.h. */
#include "point_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zstd.h>

#include "vm/base/digest.h"
#include "vm/base/io.h"
#include "vm/base/sparse.h"
#include "vm/base/util.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * A packed file is a row of blocks, each behind a struct block_head, of those parts of a file in memory that are no hole. The
 * checksum in the manifest is of the packed bytes as they were read: what was damaged, or changed by who may not, is
 * refused before a machine sees it. Lengths are checked before anything is believed.
 */

#define FORMAT	     1
#define LEVEL	     1 /* twice as fast as 3, and hardly larger */
#define BLOCK	     (256u << 10)
#define SIZE_MAX_OF  (1ull << 40)
#define MANIFEST_MAX (16u << 10)
#define SUFFIX	     ".zst"

struct block_head {
	uint64_t at;
	uint32_t stored, len;
};

struct buffers {
	char *plain, *packed;
	struct digest *sum;
};

static int buffers_new(struct buffers *b)
{
	b->plain = malloc(BLOCK);
	b->packed = malloc(ZSTD_COMPRESSBOUND(BLOCK));
	b->sum = digest_new();
	return b->plain && b->packed && b->sum ? 0 : -ENOMEM;
}

/* Return: @r, or what the end of the checksum says. */
static int buffers_free(struct buffers *b, int r, char ret_hex[DIGEST_HEX])
{
	const int r2 = digest_end(b->sum, ret_hex);

	free(b->plain);
	free(b->packed);
	return r < 0 ? r : r2;
}

static int pack_block(struct buffers *b, int from, int to, uint64_t at, size_t len)
{
	struct block_head h = {.at = at, .len = (uint32_t)len};
	int r = fileio_read_at(from, b->plain, len, (off_t)at);
	size_t n;

	if (r < 0 || sparse_is_zero(b->plain, len))
		return r;
	n = ZSTD_compress(b->packed, ZSTD_COMPRESSBOUND(BLOCK), b->plain, len, LEVEL);
	if (ZSTD_isError(n))
		return -ENOMEM;
	h.stored = (uint32_t)n;
	digest_add(b->sum, &h, sizeof(h));
	digest_add(b->sum, b->packed, n);
	r = fileio_write(to, &h, sizeof(h));
	return r < 0 ? r : fileio_write(to, b->packed, n);
}

/* Packs a file in memory into @name. Return: 0 or -errno. */
static int pack(int dir, const char *name, int from, uint64_t size, char ret_hex[DIGEST_HEX])
{
	_cleanup_close_ int to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct buffers b = {0};
	int r = to < 0 ? -errno : buffers_new(&b);
	off_t at = 0;

	while (r == 0 && at < (off_t)size) {
		at = sparse_next(from, at, (off_t)size);
		if (at < 0 || at >= (off_t)size) {
			r = (int)MIN(at, 0);
			break;
		}
		at &= ~(off_t)(SPARSE_PAGE - 1);
		r = pack_block(&b, from, to, (uint64_t)at, (size_t)MIN(BLOCK, (off_t)size - at));
		at += BLOCK;
	}
	if (r == 0 && fsync(to) < 0)
		r = -errno;
	return buffers_free(&b, r, ret_hex);
}

/* Return: 1, 0 at the end, or -errno. */
static int unpack_block(struct buffers *b, int from, int to, uint64_t size)
{
	struct block_head h;
	ssize_t n = read(from, &h, sizeof(h));
	int r;

	if (n == 0)
		return 0;
	if (n != sizeof(h) || !h.len || h.len > BLOCK || h.stored > ZSTD_COMPRESSBOUND(BLOCK) ||
	    h.at % SPARSE_PAGE || h.at > size || h.len > size - h.at)
		return n < 0 ? -errno : -EBADMSG;
	r = fileio_read(from, b->packed, h.stored);
	if (r < 0)
		return r;
	digest_add(b->sum, &h, sizeof(h));
	digest_add(b->sum, b->packed, h.stored);
	if (ZSTD_decompress(b->plain, h.len, b->packed, h.stored) != h.len)
		return -EBADMSG;
	r = sparse_write(to, b->plain, h.len, (off_t)h.at);
	return r < 0 ? r : 1;
}

/* Return: a sealed file in memory, or -errno. */
static int unpack(int dir, const char *name, uint64_t size, const char *hex)
{
	const unsigned seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_close_ int from = fileio_open(dir, name), to = -1;
	char found[DIGEST_HEX];
	struct buffers b = {0};
	int r;

	if (from < 0)
		return from == -ENOENT ? -EBADMSG : from;
	to = memfd_create("xsbx-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0 || ftruncate(to, (off_t)size) < 0)
		return -errno;
	r = buffers_new(&b);
	for (int more = 1; r == 0 && more;) {
		more = unpack_block(&b, from, to, size);
		r = MIN(more, 0);
	}
	r = buffers_free(&b, r, found);
	if (r == 0 && strcmp(found, hex) != 0)
		r = -EBADMSG;
	if (r == 0 && fcntl(to, F_ADD_SEALS, seals) < 0)
		r = -errno;
	return r < 0 ? r : steal_fd(&to);
}

/* ---- the manifest ---- */

/* A file in memory, as the manifest knows it: `packed` is the checksum of the file on the disk. */
struct part {
	uint64_t size;
	char packed[DIGEST_HEX];
};

struct manifest {
	struct part base, stream;
	char base_sum[DIGEST_HEX], machine[DIGEST_HEX];
	struct point point; /* numbers only */
};

static int size_of(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

static int write_manifest(int dir, const struct manifest *m)
{
	_cleanup_close_ int fd =
		openat(dir, "point.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const struct point *p = &m->point;
	json_t *o = json_pack(
		"{s:i, s:s, s:I, s:s, s:s, s:I, s:s, s:I, s:I, s:b, s:b, s:i, s:i, s:b, s:b}",
		"format", FORMAT, "machine", m->machine, "base_bytes", (json_int_t)m->base.size,
		"base_sha256", m->base.packed, "base", m->base_sum, "stream_bytes",
		(json_int_t)m->stream.size, "stream_sha256", m->stream.packed, "generation",
		(json_int_t)p->generation, "tsc_khz", (json_int_t)p->tsc_khz, "own_kernel",
		p->own_kernel, "kvm", p->kvm, "memory_mb", (int)p->fit.memory_mb, "cpus",
		(int)p->fit.cpus, "network", p->fit.network, "root", p->fit.root);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	int r;

	json_decref(o);
	if (fd < 0)
		return -errno;
	r = text ? fileio_write(fd, text, strlen(text)) : -ENOMEM;
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static bool take_hex(json_t *o, const char *name, char ret_hex[DIGEST_HEX])
{
	const char *text = json_string_value(json_object_get(o, name));

	if (!text || strlen(text) != DIGEST_HEX - 1)
		return false;
	memcpy(ret_hex, text, DIGEST_HEX);
	return true;
}

static uint64_t take_number(json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

static bool take_bool(json_t *o, const char *name)
{
	return json_is_true(json_object_get(o, name));
}

static bool take_manifest(json_t *o, struct manifest *m)
{
	struct point *p = &m->point;

	m->base.size = take_number(o, "base_bytes");
	m->stream.size = take_number(o, "stream_bytes");
	p->generation = (uint32_t)take_number(o, "generation");
	p->tsc_khz = take_number(o, "tsc_khz");
	p->own_kernel = take_bool(o, "own_kernel");
	p->kvm = take_bool(o, "kvm");
	p->fit.memory_mb = (unsigned)take_number(o, "memory_mb");
	p->fit.cpus = (unsigned)take_number(o, "cpus");
	p->fit.network = take_bool(o, "network");
	p->fit.root = take_bool(o, "root");
	return take_number(o, "format") == FORMAT && take_hex(o, "machine", m->machine) &&
	       take_hex(o, "base", m->base_sum) && take_hex(o, "base_sha256", m->base.packed) &&
	       take_hex(o, "stream_sha256", m->stream.packed) && m->base.size <= SIZE_MAX_OF &&
	       m->stream.size <= SIZE_MAX_OF && m->base.size == (uint64_t)p->fit.memory_mb << 20;
}

static int read_manifest(int dir, struct manifest *m)
{
	_cleanup_close_ int fd = fileio_open(dir, "point.json");
	_cleanup_free_ char *text = calloc(1, MANIFEST_MAX);
	ssize_t n;
	json_t *o;
	bool ok;

	if (fd < 0 || !text)
		return fd < 0 ? fd : -ENOMEM;
	n = read(fd, text, MANIFEST_MAX - 1);
	o = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
	ok = take_manifest(o, m);
	json_decref(o);
	return ok ? 0 : -EBADMSG;
}

/* ---- storing ---- */

/* Links the base that is there already. Its packed checksum is in its name, too, so that it can be looked up without being
 * read. Return: 0, or -errno. */
static int link_base(int dir, int bases, const char *sum, char ret_packed[DIGEST_HEX])
{
	_cleanup_dir_ DIR *d = fileio_list(bases, ".");
	const size_t len = DIGEST_HEX - 1;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strlen(e->d_name) != 2 * len + 1 + strlen(SUFFIX) ||
		    strncmp(e->d_name, sum, len) != 0)
			continue;
		if (linkat(bases, e->d_name, dir, "base" SUFFIX, 0) < 0)
			return -errno;
		memcpy(ret_packed, e->d_name + len + 1, len);
		ret_packed[len] = '\0';
		return 0;
	}
	return -ENOENT;
}

static int store_base(int dir, int bases, const struct point *p, struct manifest *m)
{
	char name[2 * DIGEST_HEX + sizeof(SUFFIX)];
	int r = size_of(p->base, &m->base.size);

	if (r == 0)
		r = sparse_sum(p->base, (off_t)m->base.size, m->base_sum);
	if (r < 0 || link_base(dir, bases, m->base_sum, m->base.packed) == 0)
		return r;
	r = pack(dir, "base" SUFFIX, p->base, m->base.size, m->base.packed);
	snprintf(name, sizeof(name), "%s-%s" SUFFIX, m->base_sum, m->base.packed);
	/* Where it can't be shared, it is still this point's. */
	if (r == 0)
		(void)!linkat(dir, "base" SUFFIX, bases, name, 0);
	return r;
}

int point_store(int dir, int bases, const struct point *p, const char *machine)
{
	struct manifest m = {.point = *p};
	int r = store_base(dir, bases, p, &m);

	if (r == 0)
		r = digest_of(machine, strlen(machine), m.machine);
	if (r == 0)
		r = size_of(p->stream, &m.stream.size);
	if (r == 0)
		r = pack(dir, "stream" SUFFIX, p->stream, m.stream.size, m.stream.packed);
	if (r == 0)
		r = write_manifest(dir, &m);
	return r == 0 && fsync(dir) < 0 ? -errno : r;
}

/* ---- loading ---- */

/* Return: a descriptor, of @like's base if @ret_shared is set; or -errno. */
static int load_base(int dir, const struct manifest *m, const struct point *like, bool *ret_shared)
{
	char sum[DIGEST_HEX];
	uint64_t size = 0;

	*ret_shared = like && size_of(like->base, &size) == 0 && size == m->base.size &&
		      sparse_sum(like->base, (off_t)size, sum) == 0 &&
		      strcmp(sum, m->base_sum) == 0;
	if (*ret_shared)
		return fcntl(like->base, F_DUPFD_CLOEXEC, 3);
	return unpack(dir, "base" SUFFIX, m->base.size, m->base.packed);
}

static int load_files(int dir, const struct manifest *m, const struct point_needs *needs,
		      const struct point *like, struct point *p)
{
	struct stat st;
	bool shared;

	p->base = load_base(dir, m, like, &shared);
	if (p->base < 0)
		return p->base;
	/* A base that another point has is not counted twice. */
	if (!shared && fstat(p->base, &st) == 0)
		p->bytes += (uint64_t)st.st_blocks * 512;
	p->bytes += m->stream.size;
	p->stream = unpack(dir, "stream" SUFFIX, m->stream.size, m->stream.packed);
	if (p->stream < 0)
		return p->stream;
	p->disk = fcntl(needs->disk, F_DUPFD_CLOEXEC, 3);
	return p->disk < 0 ? -errno : 0;
}

int point_load(int dir, const struct point_needs *needs, const struct point *like,
	       struct point **ret_point)
{
	struct manifest m = {.point = {.base = -1}};
	char machine[DIGEST_HEX];
	struct point *p;
	int r = read_manifest(dir, &m);

	if (r == 0)
		r = digest_of(needs->machine, strlen(needs->machine), machine);
	if (r == 0 && strcmp(machine, m.machine) != 0)
		r = -ESTALE;
	if (r < 0)
		return r;
	p = point_new();
	if (!p)
		return -ENOMEM;
	p->generation = m.point.generation;
	p->tsc_khz = m.point.tsc_khz;
	p->own_kernel = m.point.own_kernel;
	p->kvm = m.point.kvm;
	p->fit = m.point.fit;
	p->layer = layer_ref(needs->layer);
	p->fit.layer = needs->layer;
	r = load_files(dir, &m, needs, like, p);
	if (r < 0) {
		point_unref(p);
		return r;
	}
	*ret_point = p;
	return 0;
}

void point_clean(int bases)
{
	_cleanup_dir_ DIR *d = fileio_list(bases, ".");
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.' &&
		    fstatat(bases, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_nlink == 1)
			(void)unlinkat(bases, e->d_name, 0);
	}
}
