/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles objects. */
#include "assemble.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
 * An object is put together in DIR/.part-KEY, which is locked meanwhile. Beside its files there is a
 * journal: the checksum of the manifest, and a line for each chunk that was checked and written. A
 * transfer that is interrupted leaves both behind, and the next one resumes there, if the manifest is
 * still the same.
 *
 * The journal proves nothing: the host may have lost power after a line reached the disk and before its
 * chunk did. So at the end every file is read once more as a whole and its checksum compared; only then
 * is the directory renamed to its key.
 *
 * A snapshot is the memory of a machine, which only its owner may read; images and layers are opened by
 * machines that run under user ids of their own, and are readable by everybody.
 */

#define JOURNAL	   ".done"
#define STALE_S	   86400
#define POLL_NS	   100000000
#define LINE_BYTES (DIGEST_HEX + 2)

static bool is_private(const struct manifest *m)
{
	return m->kind == STORE_SNAPSHOT;
}

bool assemble_exists(const char *dir, const char *key)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", dir, key) < (int)sizeof(path) &&
	       lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- beginning ---- */

/* Opens and locks the directory, or finds that another one was faster. */
static int claim(struct assembly *a, unsigned wait_ms)
{
	const struct timespec pause = {0, POLL_NS};
	unsigned waited = 0;

	for (;; waited += POLL_NS / 1000000) {
		if (assemble_exists(a->dir, a->m->key))
			return -EEXIST;
		if (mkdir(a->part, 0700) < 0 && errno != EEXIST)
			return -errno;
		a->fd = fileio_lock(a->part);
		if (a->fd >= 0 || (a->fd != -EAGAIN && a->fd != -ENOENT))
			return MIN(a->fd, 0);
		if (waited >= wait_ms)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
}

static int empty(int dir)
{
	_cleanup_dir_ DIR *d = fileio_list(dir, ".");
	struct dirent *e;
	int r = d ? 0 : -errno;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    unlinkat(dir, e->d_name, 0) < 0)
			r = -errno;
	}
	return r;
}

/* Return: whether what was begun is the same. */
static bool read_journal(struct assembly *a)
{
	char line[LINE_BYTES], end;
	const int fd = fileio_open(a->fd, JOURNAL);
	_cleanup_file_ FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	size_t chunk;

	if (!in || !fgets(line, sizeof(line), in) || strcspn(line, "\n") != DIGEST_HEX - 1 ||
	    memcmp(line, a->m->sha256, DIGEST_HEX - 1) != 0)
		return false;
	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%zu%c", &chunk, &end) != 2 || end != '\n' ||
		    chunk >= a->m->nchunks || a->have[chunk])
			continue;
		a->have[chunk] = true;
		a->resumed += a->m->chunks[chunk].stored;
	}
	return true;
}

static int begin_journal(struct assembly *a)
{
	const bool again = read_journal(a);
	char line[LINE_BYTES];
	int r = again ? 0 : empty(a->fd), n;

	if (r < 0)
		return r;
	a->journal = openat(a->fd, JOURNAL, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
			    0600);
	if (a->journal < 0 || again)
		return a->journal < 0 ? -errno : 0;
	n = snprintf(line, sizeof(line), "%s\n", a->m->sha256);
	return fileio_write(a->journal, line, (size_t)n);
}

static int open_files(struct assembly *a)
{
	const mode_t mode = is_private(a->m) ? 0600 : 0644;

	for (size_t i = 0; i < a->m->nfiles; i++) {
		const struct manifest_file *f = &a->m->files[i];

		a->files[i] =
			openat(a->fd, f->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
		if (a->files[i] < 0 || fchmod(a->files[i], mode) < 0 ||
		    ftruncate(a->files[i], (off_t)f->bytes) < 0)
			return -errno;
	}
	return 0;
}

/* Better now than when half of it was transferred. */
static int check_space(const struct assembly *a)
{
	struct statvfs fs;

	if (a->resumed || fstatvfs(a->fd, &fs) < 0)
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize < manifest_data(a->m) / 2 ? -ENOSPC : 0;
}

static int prepare(struct assembly *a)
{
	int r;

	a->have = calloc(MAX(a->m->nchunks, 1u), sizeof(bool));
	a->chunk = malloc(a->m->chunk_bytes);
	r = a->have && a->chunk ? begin_journal(a) : -ENOMEM;
	if (r == 0)
		r = open_files(a);
	return r < 0 ? r : check_space(a);
}

int assemble_open(const char *dir, const struct manifest *m, unsigned wait_ms,
		  struct assembly *ret_a)
{
	struct assembly *a = ret_a;
	int r;

	*a = (struct assembly){.m = m, .dirfd = -1, .fd = -1, .journal = -1};
	for (size_t i = 0; i < MANIFEST_FILES_MAX; i++)
		a->files[i] = -1;
	if (snprintf(a->dir, sizeof(a->dir), "%s", dir) >= (int)sizeof(a->dir) ||
	    snprintf(a->part, sizeof(a->part), "%s/" STORE_PART "%s", dir, m->key) >=
		    (int)sizeof(a->part))
		return -ENAMETOOLONG;
	if (mkdir(dir, is_private(m) ? 0700 : 0755) < 0 && errno != EEXIST)
		return -errno;
	a->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = a->dirfd < 0 ? -errno : claim(a, wait_ms);
	if (r == 0)
		r = prepare(a);
	if (r < 0)
		assemble_close(a, r == -ENOSPC);
	return r;
}

/* ---- chunks ---- */

int assemble_add(struct assembly *a, size_t chunk, const void *stored, size_t len)
{
	const struct manifest_chunk *c = &a->m->chunks[chunk];
	const uint32_t bytes = manifest_chunk_bytes(a->m, c);
	char line[LINE_BYTES];
	int n, r;

	if (len != c->stored)
		return -EBADMSG;
	r = chunk_unpack(stored, len, c->sha256, a->chunk, bytes);
	if (r == 0)
		r = sparse_write(a->files[c->file], a->chunk, bytes,
				 (off_t)manifest_chunk_at(a->m, c));
	if (r < 0)
		return r;
	a->have[chunk] = true;
	n = snprintf(line, sizeof(line), "%zu\n", chunk);
	return fileio_write(a->journal, line, (size_t)n);
}

/* ---- the end ---- */

static int check_whole(struct assembly *a)
{
	for (size_t i = 0; i < a->m->nchunks; i++) {
		if (!a->have[i])
			return -EBADMSG;
	}
	for (size_t i = 0; i < a->m->nfiles; i++) {
		const struct manifest_file *f = &a->m->files[i];
		char sum[DIGEST_HEX];
		int r = sparse_sum(a->files[i], (off_t)f->bytes, sum);

		if (r < 0)
			return r;
		if (strcmp(sum, f->sha256) != 0)
			return -EBADMSG;
		if (fsync(a->files[i]) < 0)
			return -errno;
	}
	return 0;
}

/* Somebody else's of the same name is as good as ours. */
static int give_name(struct assembly *a)
{
	if (unlinkat(a->fd, JOURNAL, 0) < 0 || fchmod(a->fd, is_private(a->m) ? 0700 : 0755) < 0 ||
	    fsync(a->fd) < 0)
		return -errno;
	if (renameat2(AT_FDCWD, a->part, a->dirfd, a->m->key, RENAME_NOREPLACE) < 0)
		return assemble_exists(a->dir, a->m->key) ? -EEXIST : -errno;
	return fsync(a->dirfd) < 0 ? -errno : 0;
}

int assemble_finish(struct assembly *a)
{
	int r = check_whole(a);

	if (r == 0)
		r = give_name(a);
	assemble_close(a, r < 0);
	return r == -EEXIST ? 0 : r;
}

void assemble_close(struct assembly *a, bool remove)
{
	if (remove && a->fd >= 0)
		remove_tree(a->part);
	for (size_t i = 0; i < MANIFEST_FILES_MAX; i++) {
		if (a->files[i] >= 0)
			close(a->files[i]);
		a->files[i] = -1;
	}
	free(steal_ptr(a->have));
	free(steal_ptr(a->chunk));
	cleanup_close(&a->journal);
	cleanup_close(&a->fd);
	cleanup_close(&a->dirfd);
	a->journal = a->fd = a->dirfd = -1;
}

void assemble_clean(const char *dir)
{
	remove_abandoned(dir, STORE_PART, STALE_S);
}
