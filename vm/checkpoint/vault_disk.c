/* SPDX-License-Identifier: Apache-2.0 */
/* The vault's directory. See vault_disk.h. */
#include "vault_disk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "pack_file.h"
#include "vm/base/io.h"
#include "vm/base/path.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 *	saved/ID/head		what is known of it, a record (see vm/base/record.h)
 *	saved/ID/pack		its files (pack_file.h)
 *	saved/ID/stream, base	its memory (point_disk.h)
 *	saved/bases/NAME	bases, under a name made of their content
 *	saved/check		by which the key is known
 *
 * All of it is sealed, each file for what it is and for the ID, so that none can stand for another. ID is written as .new-ID,
 * with a head that is written last, and renamed when it is on the disk; it never changes. To be removed, it is renamed to
 * .old-ID. So what has a hidden name is half of something, and goes at the next start, or when another daemon goes on; not when
 * the directory is opened, for another process may be about to hand it over.
 */

#define VERSION	  1u
#define HEAD_ROOM 4096u
#define HEAD_MAX  (POINT_MACHINE_MAX + 4096u)
#define BYTES_MAX (1ull << 42)
#define CHECK	  "check"
#define NEW	  ".new-"
#define OLD	  ".old-"

enum { KIND_HEAD = 1 };

/* Never reused. */
enum {
	HEAD_FILES_BYTES = 1,
	HEAD_MEMORY_BYTES,
	HEAD_RECORDS,
	HEAD_ENTRIES,
	HEAD_MTIME,
	HEAD_POINT,
	HEAD_DISK_BYTES,
	HEAD_CHANGED,
	HEAD_LEFT_OUT,
	HEAD_BASE_BYTES,
};

bool vault_disk_id_ok(const char *id)
{
	return strlen(id) == SAVED_ID_MAX - 1 && strspn(id, "0123456789abcdef") == SAVED_ID_MAX - 1;
}

/* ---- small sealed files ---- */

static int sync_dir(int dir)
{
	return fsync(dir) < 0 ? -errno : 0;
}

static int write_small(const struct vault_disk *d, int dir, const char *name, const char *what,
		       const struct buf *plain)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct buf sealed = {0};
	int r = fd < 0 ? -errno : seal_bytes(d->key, what, plain->data, plain->len, &sealed);

	if (r == 0)
		r = fileio_write(fd, sealed.data, sealed.len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	buf_clear(&sealed);
	return r;
}

static int read_small(const struct vault_disk *d, int dir, const char *name, const char *what,
		      struct buf *plain)
{
	_cleanup_close_ int fd = fileio_open(dir, name);
	char bytes[HEAD_MAX + 256];
	struct file_source file = file_source(fd);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = file.source.read(&file.source, bytes, sizeof(bytes));
	if (n < 0)
		return (int)n;
	return unseal_bytes(d->key, what, bytes, (size_t)n, plain);
}

/* ---- names ---- */

/* Also of a version that knows more files. */
static void remove_dir(int parent, const char *name)
{
	_cleanup_dir_ DIR *dir = fileio_list(parent, name);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd(dir), e->d_name, 0);
	(void)unlinkat(parent, name, AT_REMOVEDIR);
}

const char *vault_disk_unfinished(const char *name)
{
	static_assert(sizeof(NEW) == sizeof(OLD), "both are skipped alike");
	if (strncmp(name, NEW, strlen(NEW)) != 0 && strncmp(name, OLD, strlen(OLD)) != 0)
		return NULL;
	name += strlen(NEW);
	return strlen(name) < SAVED_ID_MAX ? name : NULL;
}

/* ---- heads ---- */

static void head_put(struct buf *out, const struct vault_head *h)
{
	const size_t at = record_begin(out, KIND_HEAD, VERSION);
	size_t inside;

	record_u64(out, HEAD_FILES_BYTES, h->files_bytes);
	record_u64(out, HEAD_MEMORY_BYTES, h->memory_bytes);
	record_u64(out, HEAD_DISK_BYTES, h->disk_bytes);
	record_u64(out, HEAD_BASE_BYTES, h->base_bytes);
	record_u64(out, HEAD_RECORDS, h->records);
	record_u64(out, HEAD_ENTRIES, h->entries);
	record_time(out, HEAD_MTIME, &h->mtime);
	record_u64(out, HEAD_CHANGED, h->flaws.changed);
	record_u64(out, HEAD_LEFT_OUT, h->flaws.left_out);
	if (h->memory) {
		inside = record_open(out, HEAD_POINT);
		point_facts_put(out, &h->facts);
		record_close(out, inside);
	}
	(void)record_end(out, at); /* its error stays in @out */
}

static int head_get(const struct record_field *f, struct vault_head *h)
{
	switch (f->tag) {
	case HEAD_FILES_BYTES: return record_get(f, 0, BYTES_MAX, &h->files_bytes);
	case HEAD_MEMORY_BYTES: return record_get(f, 0, BYTES_MAX, &h->memory_bytes);
	case HEAD_DISK_BYTES: return record_get(f, 0, BYTES_MAX, &h->disk_bytes);
	case HEAD_BASE_BYTES: return record_get(f, 0, BYTES_MAX, &h->base_bytes);
	case HEAD_RECORDS: return record_get(f, 0, BYTES_MAX, &h->records);
	case HEAD_ENTRIES: return record_get_u32(f, UINT32_MAX, &h->entries);
	case HEAD_MTIME: return record_get_time(f, &h->mtime);
	case HEAD_CHANGED: return record_get_u32(f, UINT32_MAX, &h->flaws.changed);
	case HEAD_LEFT_OUT: return record_get_u32(f, UINT32_MAX, &h->flaws.left_out);
	case HEAD_POINT: h->memory = true; return point_facts_get(f, &h->facts);
	default: return 0; /* a later version's */
	}
}

int vault_head_parse(const void *data, size_t len, struct vault_head *ret_head)
{
	struct record_reader in = record_reader(data, len);
	struct vault_head h = {0};
	struct record record;
	struct record_field f;
	int r = record_next(&in, &record);

	if (r <= 0 || record.kind != KIND_HEAD)
		return -EBADMSG;
	if (record.key != VERSION)
		return -EPROTONOSUPPORT;
	while ((r = record_field(&record.fields, &f)) > 0) {
		r = head_get(&f, &h);
		if (r < 0)
			return r;
	}
	if (r < 0 || !h.entries)
		return -EBADMSG;
	*ret_head = h;
	return 0;
}

/* Return: a descriptor or -errno. */
static int open_one(const struct vault_disk *d, const char *id)
{
	const int fd = vault_disk_id_ok(id)
			       ? openat(d->dir, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
			       : (errno = ENOENT, -1);

	return fd < 0 ? -errno : fd;
}

int vault_disk_head(const struct vault_disk *d, const char *id, struct buf *text,
		    struct vault_head *ret_head)
{
	_cleanup_close_ int dir = open_one(d, id);
	int r;

	if (dir < 0)
		return dir;
	buf_clear(text);
	r = read_small(d, dir, "head", seal_purpose("head", id).text, text);
	if (r == 0)
		r = vault_head_parse(text->data, text->len, ret_head);
	return r == -ENOENT ? -EBADMSG : r;
}

/* ---- opening ---- */

/* Is anything here that this key opens? Return: 0; -EKEYREJECTED: none of what is here; -EPROTONOSUPPORT: it is of another version;
 * -ENOENT: nothing here tells. */
static int heads_fit(const struct vault_disk *d)
{
	_cleanup_dir_ DIR *dir = fileio_list(d->dir, ".");
	struct vault_head head;
	struct buf text = {0};
	struct dirent *e;
	int r = -ENOENT;

	while (r != 0 && dir && (e = readdir(dir))) {
		const int one = vault_disk_id_ok(e->d_name)
					? vault_disk_head(d, e->d_name, &text, &head)
					: -ENOENT;

		if (one == 0 || one == -EKEYREJECTED || one == -EPROTONOSUPPORT)
			r = one;
	}
	buf_clear(&text);
	return r;
}

/* Does the key fit? What has the key alone may be damaged, also in what tells one key from another: then the heads tell, and it
 * is written anew, for whatever is sealed is checked itself. */
static int check_key(const struct vault_disk *d)
{
	struct buf plain = {.limit = 4096}, none = {0};
	int r = read_small(d, d->dir, CHECK, CHECK, &plain), heads;

	buf_clear(&plain);
	if (r != -ENOENT && r != -EBADMSG && r != -EKEYREJECTED && r != -EPROTONOSUPPORT)
		return r;
	heads = heads_fit(d);
	if (heads == -EKEYREJECTED || heads == -EPROTONOSUPPORT)
		return heads;
	if (heads < 0 && r == -EKEYREJECTED)
		return r;
	if (r != -ENOENT)
		(void)unlinkat(d->dir, CHECK, 0);
	r = write_small(d, d->dir, CHECK, CHECK, &none);
	return r < 0 ? r : sync_dir(d->dir);
}

bool vault_disk_is_used(int state_dir)
{
	return faccessat(state_dir, "saved/" CHECK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int vault_disk_open(int state_dir, const struct seal_key *key, struct vault_disk *ret_disk)
{
	int r;

	*ret_disk = (struct vault_disk){.dir = -1, .bases = -1, .key = key};
	r = ret_disk->dir = path_make_in(state_dir, "saved");
	if (r >= 0)
		r = ret_disk->bases = path_make_in(ret_disk->dir, "bases");
	if (r >= 0)
		r = check_key(ret_disk);
	return r;
}

void vault_disk_close(struct vault_disk *d)
{
	if (d->dir >= 0)
		close(d->dir);
	if (d->bases >= 0)
		close(d->bases);
	d->dir = d->bases = -1;
}

/* ---- storing ---- */

static int store_pack(const struct vault_disk *d, const char *id, int dir, const struct pack *pack)
{
	_cleanup_close_ int fd = openat(dir, "pack", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct file_sink file = file_sink(fd);
	struct sealer *sealer = NULL;
	int r = fd < 0 ? -errno
		       : sealer_new(d->key, seal_purpose("pack", id).text, &file.sink, &sealer);

	if (r == 0)
		r = pack_store(pack, sealer_sink(sealer));
	if (r == 0)
		r = sealer_end(sealer);
	sealer_free(sealer);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* What it takes of the disk; 0: it is not there. */
static uint64_t bytes_of(int dir, const char *file)
{
	struct stat st;

	return fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static int store_into(const struct vault_disk *d, const char *id, int dir, const struct pack *pack,
		      const struct point *point, const char *base_sum, struct vault_head *ret_head)
{
	struct vault_head h = {
		.files_bytes = pack_bytes(pack),
		.memory_bytes = point ? point->bytes : 0,
		.records = pack_records_size(pack),
		.entries = pack_entries(pack),
		.flaws = pack_flaws(pack),
		.memory = point,
	};
	struct buf text = {0};
	struct pack_attr root;
	int r = store_pack(d, id, dir, pack);

	pack_attr(pack, PACK_ROOT, &root);
	h.mtime = root.mtime;
	if (r == 0 && point)
		r = point_store(d->key, id, dir, d->bases, point, base_sum, &h.facts);
	if (r == 0) {
		h.disk_bytes = HEAD_ROOM + bytes_of(dir, "pack") + bytes_of(dir, "stream");
		h.base_bytes = bytes_of(dir, "base");
		head_put(&text, &h);
		r = text.failed ? text.failed
				: write_small(d, dir, "head", seal_purpose("head", id).text, &text);
	}
	buf_clear(&text);
	if (r == 0)
		r = sync_dir(dir);
	if (r == 0)
		*ret_head = h;
	return r;
}

int vault_disk_store(const struct vault_disk *d, const char *id, const struct pack *pack,
		     const struct point *point, const char *base_sum, struct vault_head *ret_head)
{
	_cleanup_close_ int dir = -1;
	char name[VAULT_NAME_MAX];
	int r;

	snprintf(name, sizeof(name), NEW "%s", id);
	if (mkdirat(d->dir, name, 0700) < 0)
		return -errno;
	dir = openat(d->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = dir < 0 ? -errno : store_into(d, id, dir, pack, point, base_sum, ret_head);
	if (r == 0 && point)
		r = sync_dir(d->bases);
	if (r == 0 && renameat(d->dir, name, d->dir, id) < 0)
		r = -errno;
	if (r < 0) {
		remove_dir(d->dir, name);
		return r;
	}
	r = sync_dir(d->dir);
	/* Nobody is told of it, and the next attempt has another id. */
	if (r < 0)
		vault_disk_remove(d, id);
	return r;
}

/* ---- loading ---- */

int vault_disk_pack(const struct vault_disk *d, const char *id, const struct vault_head *h,
		    struct pack **ret_pack)
{
	/* What it was, the head says; to have been allowed that many parts of files, its limit was larger than its bytes. */
	const struct pack_limits limits = {h->records * 128, h->entries};
	_cleanup_close_ int dir = open_one(d, id), fd = -1;
	struct file_source file;
	struct unsealer *u;
	int r;

	if (dir < 0)
		return dir;
	fd = fileio_open(dir, "pack");
	if (fd < 0)
		return fd == -ENOENT ? -EBADMSG : fd;
	file = file_source(fd);
	r = unsealer_new(d->key, seal_purpose("pack", id).text, &file.source, &u);
	if (r < 0)
		return r;
	r = pack_load(unsealer_source(u), &limits, ret_pack);
	unsealer_free(u);
	return r == -EFBIG ? -EBADMSG : r;
}

int vault_disk_point(const struct vault_disk *d, const char *id, const struct vault_head *h,
		     int base, struct point **ret_point)
{
	_cleanup_close_ int dir = open_one(d, id);
	char name[SEAL_NAME];
	int r;

	if (dir < 0)
		return dir;
	r = point_load(d->key, id, dir, &h->facts, base, ret_point);
	/* Should it be the base that is damaged, it is nobody else's from now on. */
	if (r == -EBADMSG && seal_name(d->key, h->facts.base_sum, name) == 0)
		(void)unlinkat(d->bases, name, 0);
	return r;
}

/* ---- removing ---- */

void vault_disk_remove(const struct vault_disk *d, const char *name)
{
	char hidden[VAULT_NAME_MAX];

	if (vault_disk_unfinished(name)) {
		remove_dir(d->dir, name);
		return;
	}
	snprintf(hidden, sizeof(hidden), OLD "%s", name);
	if (renameat(d->dir, name, d->dir, hidden) == 0)
		remove_dir(d->dir, hidden);
}

void vault_disk_sweep(const struct vault_disk *d)
{
	point_clean(d->bases);
}
