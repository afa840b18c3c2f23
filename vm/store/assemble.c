/* SPDX-License-Identifier: Apache-2.0 */
/* Putting objects together. */
#include "assemble.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "vm/base/remove.h"
#include "vm/base/sparse.h"
#include "chunk.h"

/*
 * Theory of operation
 * -------------------
 * An object is put together in DIR/.part-KEY, which is locked meanwhile. Beside its files there is
 * the text of the manifest, and a journal: a line for each chunk that was checked and written. Who is
 * stopped half-way leaves that behind, and who comes next goes on there, if the manifest is still the
 * same one.
 *
 * The journal is no proof: the machine may have lost power after it was written, and before the
 * chunk was. So in the end every file is read once more as a whole, and its checksum compared; only
 * then does the directory get its name.
 *
 * A snapshot is the memory of a machine and only its owner's; images and layers are opened by
 * machines that have an id of their own, and may be read by all.
 */

#define JOURNAL	   ".done"
#define MANIFEST   ".manifest"
#define STALE_S	   86400
#define POLL_NS	   100000000
#define LINE_BYTES 32

static bool is_private(const struct manifest *m)
{
	return m->kind == STORE_SNAPSHOT;
}

bool place_exists(const char *dir, const char *key)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", dir, key) < (int)sizeof(path) &&
	       lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- beginning ---- */

/* Return: whether the name still leads to what is open and locked. */
static bool is_current(const char *path, int fd)
{
	struct stat a, b;

	return lstat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Opens and locks the directory, or finds that another one was faster. */
static int claim(struct place *p, unsigned wait_ms)
{
	const struct timespec pause = {0, POLL_NS};
	unsigned waited = 0;

	for (;; waited += POLL_NS / 1000000) {
		_cleanup_close_ int fd = -1;

		if (place_exists(p->dir, p->m->key))
			return -EEXIST;
		if (mkdir(p->part, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = open(p->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 && errno != ENOENT)
			return -errno;
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_current(p->part, fd)) {
			p->fd = steal_fd(&fd);
			return 0;
		}
		if (waited >= wait_ms)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
}

static bool same_manifest(struct place *p, const char *text, size_t len)
{
	_cleanup_close_ int fd = fileio_open(p->fd, MANIFEST);
	_cleanup_free_ char *there = malloc(len + 1);
	struct stat st;

	return fd >= 0 && there && fstat(fd, &st) == 0 && st.st_size == (off_t)len &&
	       fileio_read_at(fd, there, len, 0) == 0 && memcmp(there, text, len) == 0;
}

static int write_manifest(struct place *p, const char *text, size_t len)
{
	_cleanup_close_ int fd = openat(
		p->fd, MANIFEST, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fileio_write(fd, text, len);
}

static int empty(int dir)
{
	DIR *d = fdopendir(dup(dir));
	struct dirent *e;
	int r = d ? 0 : -errno;

	if (d)
		rewinddir(d);
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    unlinkat(dir, e->d_name, 0) < 0)
			r = -errno;
	}
	if (d)
		closedir(d);
	return r;
}

static void read_journal(struct place *p)
{
	char line[LINE_BYTES];
	unsigned file;
	size_t chunk;
	FILE *in = fdopen(dup(p->journal), "r");

	while (in && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%u %zu\n", &file, &chunk) != 2 || file >= p->m->nfiles ||
		    chunk >= p->m->files[file].nchunks || p->have[file][chunk])
			continue;
		p->have[file][chunk] = true;
		p->resumed += p->m->files[file].chunks[chunk].stored;
	}
	if (in)
		fclose(in);
}

static int open_files(struct place *p)
{
	const mode_t mode = is_private(p->m) ? 0600 : 0644;

	for (size_t i = 0; i < p->m->nfiles; i++) {
		const struct manifest_file *f = &p->m->files[i];

		p->have[i] = calloc(MAX(f->nchunks, 1u), sizeof(bool));
		p->files[i] =
			openat(p->fd, f->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
		if (!p->have[i] || p->files[i] < 0 || fchmod(p->files[i], mode) < 0 ||
		    ftruncate(p->files[i], (off_t)f->bytes) < 0)
			return p->have[i] ? -errno : -ENOMEM;
	}
	return 0;
}

/* Better now than when half of it was transferred. */
static int check_space(const struct place *p)
{
	struct statvfs fs;

	if (p->resumed || fstatvfs(p->fd, &fs) < 0)
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize < manifest_data(p->m) / 2 ? -ENOSPC : 0;
}

static int prepare(struct place *p, const char *text, size_t len)
{
	int r = 0;

	if (!same_manifest(p, text, len)) {
		r = empty(p->fd);
		if (r == 0)
			r = write_manifest(p, text, len);
	}
	if (r == 0)
		p->journal = openat(p->fd, JOURNAL,
				    O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r == 0 && p->journal < 0)
		r = -errno;
	if (r == 0)
		r = open_files(p);
	if (r < 0)
		return r;
	read_journal(p);
	p->chunk = malloc(p->m->chunk_bytes);
	return p->chunk ? check_space(p) : -ENOMEM;
}

int place_open(const char *dir, const struct manifest *m, const char *text, size_t len,
	       unsigned wait_ms, struct place *ret_p)
{
	struct place *p = ret_p;
	int r;

	*p = (struct place){.m = m, .dirfd = -1, .fd = -1, .journal = -1};
	for (size_t i = 0; i < MANIFEST_FILES_MAX; i++)
		p->files[i] = -1;
	if (snprintf(p->dir, sizeof(p->dir), "%s", dir) >= (int)sizeof(p->dir) ||
	    snprintf(p->part, sizeof(p->part), "%s/" STORE_PART "%s", dir, m->key) >=
		    (int)sizeof(p->part))
		return -ENAMETOOLONG;
	if (mkdir(dir, is_private(m) ? 0700 : 0755) < 0 && errno != EEXIST)
		return -errno;
	p->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = p->dirfd < 0 ? -errno : claim(p, wait_ms);
	if (r == 0)
		r = prepare(p, text, len);
	if (r < 0)
		place_close(p, r == -ENOSPC);
	return r;
}

/* ---- chunks ---- */

int place_add(struct place *p, unsigned file, size_t chunk, const void *stored, size_t len)
{
	const struct manifest_file *f = &p->m->files[file];
	const struct manifest_chunk *c = &f->chunks[chunk];
	const uint32_t bytes = manifest_chunk_bytes(p->m, f, c->index);
	char line[LINE_BYTES];
	int n, r;

	if (len != c->stored)
		return -EBADMSG;
	r = chunk_unpack(stored, len, c->sha256, p->chunk, bytes);
	if (r == 0)
		r = sparse_write(p->files[file], p->chunk, bytes,
				 (off_t)c->index * p->m->chunk_bytes);
	if (r < 0)
		return r;
	p->have[file][chunk] = true;
	n = snprintf(line, sizeof(line), "%u %zu\n", file, chunk);
	return fileio_write(p->journal, line, (size_t)n);
}

/* ---- the end ---- */

static int check_whole(struct place *p)
{
	for (size_t i = 0; i < p->m->nfiles; i++) {
		const struct manifest_file *f = &p->m->files[i];
		char sum[DIGEST_HEX];
		int r;

		for (size_t c = 0; c < f->nchunks; c++) {
			if (!p->have[i][c])
				return -EBADMSG;
		}
		r = sparse_sum(p->files[i], (off_t)f->bytes, sum);
		if (r < 0)
			return r;
		if (strcmp(sum, f->sha256) != 0)
			return -EBADMSG;
		if (fsync(p->files[i]) < 0)
			return -errno;
	}
	return 0;
}

/* Somebody else's of the same name is as good as ours. */
static int give_name(struct place *p)
{
	if (unlinkat(p->fd, JOURNAL, 0) < 0 || unlinkat(p->fd, MANIFEST, 0) < 0 ||
	    fchmod(p->fd, is_private(p->m) ? 0700 : 0755) < 0 || fsync(p->fd) < 0)
		return -errno;
	if (renameat2(AT_FDCWD, p->part, p->dirfd, p->m->key, RENAME_NOREPLACE) < 0)
		return place_exists(p->dir, p->m->key) ? -EEXIST : -errno;
	return fsync(p->dirfd) < 0 ? -errno : 0;
}

int place_finish(struct place *p)
{
	int r = check_whole(p);

	if (r == 0)
		r = give_name(p);
	place_close(p, r < 0);
	return r == -EEXIST ? 0 : r;
}

void place_close(struct place *p, bool remove)
{
	if (remove && p->fd >= 0)
		remove_tree(p->part);
	for (size_t i = 0; i < MANIFEST_FILES_MAX; i++) {
		if (p->files[i] >= 0)
			close(p->files[i]);
		p->files[i] = -1;
		free(p->have[i]);
		p->have[i] = NULL;
	}
	free(p->chunk);
	p->chunk = NULL;
	cleanup_close(&p->journal);
	cleanup_close(&p->fd);
	cleanup_close(&p->dirfd);
	p->journal = p->fd = p->dirfd = -1;
}

void place_clean(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_close_ int fd = -1;
		char path[PATH_MAX];
		struct stat st;

		if (strncmp(e->d_name, STORE_PART, strlen(STORE_PART)) != 0 ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || fstat(fd, &st) < 0 || time(NULL) - st.st_mtim.tv_sec < STALE_S ||
		    flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		remove_tree(path);
	}
	if (d)
		closedir(d);
}
