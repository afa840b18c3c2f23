/* SPDX-License-Identifier: Apache-2.0 */
/* What it takes to put the memory of a machine on a disk and to read it again, and what of it is the encryption. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pack_record.h"
#include "vm/base/memory.h"
#include "vm/base/remove.h"
#include "vm/base/sparse.h"
#include "vm/base/util.h"
#include "vm/checkpoint/pack_maker.h"
#include "vm/checkpoint/packed_ram.h"
#include "vm/checkpoint/vault_disk.h"

/*
 * vault DIR N: N rounds with a stream of 30 MiB, below DIR. Prints nanoseconds behind a name: `write-plain` and
 * `write-sealed` from the first byte to the end of fsync(2), `read-plain` and `read-sealed` to the sealed file in memory, both of
 * the stream alone; `store` and `load` of all that is saved, where the base is known, `load-base` where it is read as well;
 * `head` of reading what is known of it. And `bytes-plain`, `bytes-sealed`, `bytes-stream`. What fails, ends it.
 */

#define STREAM (30u << 20)
#define BASE   (128u << 20)
#define FILLED (64u << 20) /* of the base */
#define ID     "0123456789abcdef0123456789abcdef"
#define OTHER  "fedcba9876543210fedcba9876543210"

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-r));
	exit(1);
}

static void print(const char *name, uint64_t value)
{
	printf("%s %" PRIu64 "\n", name, value);
}

/* What programs have in memory is much like what they are made of. */
static int memory_like(uint64_t size, uint64_t filled)
{
	static const char *const sources[] = {"/usr/bin/python3", "/proc/self/exe", "/bin/sh",
					      "/usr/bin/qemu-system-x86_64"};
	const int fd = memory_new("bench");
	char *block = malloc(1u << 20);
	uint64_t at = 0;

	must(fd, "memory");
	must(ftruncate(fd, (off_t)size) < 0 ? -errno : 0, "memory");
	while (at < filled) {
		const uint64_t before = at;

		for (size_t i = 0; i < ARRAY_SIZE(sources) && at < filled; i++) {
			_cleanup_close_ int from = open(sources[i], O_RDONLY | O_CLOEXEC);
			ssize_t n;

			while (from >= 0 && at < filled &&
			       (n = read(from, block, MIN(1u << 20, filled - at))) > 0) {
				must(pwrite(fd, block, (size_t)n, (off_t)at) == n ? 0 : -EIO,
				     "memory");
				at += (uint64_t)n;
			}
		}
		must(at == before ? -ENOENT : 0, "what memory is made of");
	}
	must(memory_seal(fd), "memory");
	free(block);
	return fd;
}

static struct pack *a_pack(void)
{
	uint8_t records[256];
	struct proto_out o = {records, 0, sizeof(records), false};
	struct pack_maker *m;
	struct pack *p;
	size_t used;

	pack_record_put(
		&o, &(struct pack_record){.kind = PACK_DIR, .name = "", .mode = S_IFDIR | 0755});
	pack_record_put(&o, &(struct pack_record){.kind = PACK_UP, .name = ""});
	must(pack_maker_new(&(struct pack_limits){1u << 20, 10}, &m), "pack");
	must(pack_maker_add(m, records, o.len, &used), "pack");
	must(pack_maker_end(m, &(struct pack_flaws){0}, &p), "pack");
	return p;
}

static int new_file(int dir, const char *name)
{
	int fd;

	(void)unlinkat(dir, name, 0);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd < 0 ? -errno : 0, name);
	return fd;
}

static void stream(const struct vault_disk *d, int ram, bool seals)
{
	_cleanup_close_ int fd = new_file(d->dir, "bench");
	struct file_sink to = file_sink(fd);
	struct file_source from = file_source(fd);
	struct sealer *s = NULL;
	struct unsealer *u = NULL;
	uint64_t t = now();
	struct stat st;
	int back;

	if (seals)
		must(sealer_new(d->key, "bench", &to.sink, &s), "seal");
	must(packed_ram_write(ram, STREAM, seals ? sealer_sink(s) : &to.sink), "write");
	if (seals)
		must(sealer_end(s), "seal");
	must(fsync(fd) < 0 ? -errno : 0, "fsync");
	print(seals ? "write-sealed" : "write-plain", now() - t);
	sealer_free(s);
	must(fstat(fd, &st) < 0 ? -errno : 0, "stat");
	print(seals ? "bytes-sealed" : "bytes-plain", (uint64_t)st.st_size);
	lseek(fd, 0, SEEK_SET);
	t = now();
	if (seals)
		must(unsealer_new(d->key, "bench", &from.source, &u), "unseal");
	back = packed_ram_read(seals ? unsealer_source(u) : &from.source, STREAM);
	must(back, "read");
	print(seals ? "read-sealed" : "read-plain", now() - t);
	unsealer_free(u);
	close(back);
	(void)unlinkat(d->dir, "bench", 0);
}

static void load(const struct vault_disk *d, int base, const char *name)
{
	struct vault_head h;
	struct buf text = {0};
	struct pack *pack;
	struct point *point;
	uint64_t t = now();

	must(vault_disk_head(d, ID, &text, &h), "head");
	if (base >= 0)
		print("head", now() - t);
	must(vault_disk_pack(d, ID, &h, &pack), "pack");
	must(vault_disk_point(d, ID, &h, base, &point), "point");
	print(name, now() - t);
	pack_unref(pack);
	point_unref(point);
	buf_clear(&text);
}

static void whole(const struct vault_disk *d, const struct pack *pack, const struct point *point,
		  const char *sum)
{
	struct vault_head h;
	uint64_t t = now();

	must(vault_disk_store(d, ID, pack, point, sum, &h), "store");
	print("store", now() - t);
	load(d, point->base, "load");
	load(d, -1, "load-base");
	vault_disk_remove(d, ID);
}

int main(int argc, char **argv)
{
	const unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	char top[4096], sum[DIGEST_HEX];
	struct vault_disk d;
	struct vault_head h;
	struct seal_key *key;
	struct pack *pack;
	struct point *point;
	int dir;

	if (argc < 3 || snprintf(top, sizeof(top), "%s/vault.XXXXXX", argv[1]) >= (int)sizeof(top))
		return 2;
	if (!mkdtemp(top)) {
		perror(top);
		return 1;
	}
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(seal_key_new((const unsigned char[SEAL_KEY]){1}, &key), "key");
	must(vault_disk_open(dir, key, &d), "vault");
	pack = a_pack();
	point = point_new();
	must(point ? 0 : -ENOMEM, "point");
	point->stream = memory_like(STREAM, STREAM);
	point->base = memory_like(BASE, FILLED);
	point->bytes = STREAM;
	must(sparse_sum(point->base, BASE, sum), "sum");
	print("bytes-stream", STREAM);
	/* The base is there, as of any but the first of its kind. */
	must(vault_disk_store(&d, OTHER, pack, point, sum, &h), "store");
	for (unsigned i = 0; i < n; i++) {
		stream(&d, point->stream, false);
		stream(&d, point->stream, true);
		whole(&d, pack, point, sum);
	}
	pack_unref(pack);
	point_unref(point);
	vault_disk_close(&d);
	seal_key_free(key);
	close(dir);
	return remove_tree(top) < 0;
}
