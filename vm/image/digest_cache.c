/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of digests of large files that rarely change. */
#include "digest_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "vm/base/path.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A kernel and a root file system have some hundred megabytes, which take most of a second to read.
 * So their checksums are kept, in memory and in a small file of the cache directory. The key is
 * what shows that a file is the same and was not modified: device, inode, size, modification time
 * and change time (ctime). As ctime can't be set, a file that was modified and given its old size
 * and times is recognized as different. A file that was merely touched is read again, with the same
 * result.
 *
 * File system timestamps have a granularity of some milliseconds. Two changes within that time look
 * like one; therefore a file is not read until some time after its last change, and the result is
 * discarded if it was changed while being read.
 *
 * The file has a line for each: five numbers and the checksum. Whoever can write to it could as well
 * replace the images themselves.
 *
 * Beside the shared images there is such a file of root's. What it says holds for every user: device and
 * inode are the same for all. So nobody has to read through them once more.
 */

#define NAME	  ".contents" /* beside snapshots, which have no dot */
#define LINE_MAX_ 256
#define BLOCK	  (1u << 20)
#define STEP_NS	  100000000ll /* longer than any step of a file system's clock */

/* ---- in memory ---- */

static void move_to_front(struct digest_cache *c, unsigned i)
{
	const struct digest_known k = c->known[i];

	memmove(&c->known[1], &c->known[0], i * sizeof(c->known[0]));
	c->known[0] = k;
}

int digest_cache_find(struct digest_cache *c, int fd, char ret_hex[DIGEST_HEX])
{
	struct fileio_identity id;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	id = fileio_identity(&st);
	for (unsigned i = 0; i < c->n; i++) {
		if (!fileio_same(&c->known[i].id, &id))
			continue;
		memcpy(ret_hex, c->known[i].hex, DIGEST_HEX);
		move_to_front(c, i);
		return 0;
	}
	return -EAGAIN;
}

void digest_cache_add(struct digest_cache *c, const struct digest_known *k)
{
	unsigned i = 0;

	/* Another state of the same file is of no more use. */
	while (i < c->n && (c->known[i].id.dev != k->id.dev || c->known[i].id.ino != k->id.ino))
		i++;
	if (i == c->n && c->n < DIGEST_CACHE_MAX)
		c->n++;
	i = MIN(i, DIGEST_CACHE_MAX - 1u);
	c->known[i] = *k;
	move_to_front(c, i);
}

/* ---- working it out ---- */

static void wait_for_step(const struct timespec *changed)
{
	struct timespec now;
	long long age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (now.tv_sec - changed->tv_sec) * 1000000000LL + (now.tv_nsec - changed->tv_nsec);
	/* One from the future says nothing; then it is only read. */
	if (age >= 0 && age < STEP_NS) {
		const struct timespec rest = {0, (long)(STEP_NS - age)};

		nanosleep(&rest, NULL);
	}
}

static int read_through(int fd, const int *stop, struct digest *d)
{
	_cleanup_free_ char *block = malloc(BLOCK);
	off_t at = 0;

	if (!block)
		return -ENOMEM;
	for (;;) {
		ssize_t n;

		if (__atomic_load_n(stop, __ATOMIC_RELAXED))
			return -ECANCELED;
		n = pread(fd, block, BLOCK, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		digest_add(d, block, (size_t)n);
		at += n;
	}
}

int digest_cache_compute(int fd, const int *stop, struct digest_known *ret_known)
{
	struct fileio_identity now;
	struct digest *d;
	struct stat st;
	int r, r2;

	if (fstat(fd, &st) < 0)
		return -errno;
	wait_for_step(&st.st_ctim);
	if (fstat(fd, &st) < 0)
		return -errno;
	ret_known->id = fileio_identity(&st);
	d = digest_new();
	r = d ? read_through(fd, stop, d) : -ENOMEM;
	r2 = digest_end(d, ret_known->hex);
	if (r < 0 || r2 < 0)
		return r < 0 ? r : r2;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* The page cache's pages reach the disk later, which changes nothing here. */
	now = fileio_identity(&st);
	return fileio_same(&now, &ret_known->id) ? 0 : -EAGAIN;
}

/* ---- on the disk ---- */

static bool parse(const char *line, struct digest_known *ret_known)
{
	struct fileio_identity *id = &ret_known->id;
	int64_t ms, cs;
	long mn, cn;
	int end = 0;

	if (sscanf(line,
		   "%" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNd64 ".%ld %" SCNd64 ".%ld %64s%n",
		   &id->dev, &id->ino, &id->size, &ms, &mn, &cs, &cn, ret_known->hex, &end) != 8)
		return false;
	id->mtime = (struct timespec){(time_t)ms, mn};
	id->ctime = (struct timespec){(time_t)cs, cn};
	return digest_is_hex(ret_known->hex) && (line[end] == '\n' || line[end] == '\0');
}

static void print(FILE *f, const struct digest_known *k)
{
	const struct fileio_identity *id = &k->id;

	fprintf(f, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRId64 ".%09ld %" PRId64 ".%09ld %s\n",
		id->dev, id->ino, id->size, (int64_t)id->mtime.tv_sec, id->mtime.tv_nsec,
		(int64_t)id->ctime.tv_sec, id->ctime.tv_nsec, k->hex);
}

/* Takes over @fd. */
static void read_all(struct digest_cache *c, int fd)
{
	_cleanup_file_ FILE *f = fdopen(fd, "r");
	char line[LINE_MAX_];

	if (!f)
		close(fd);
	while (f && c->n < DIGEST_CACHE_MAX && fgets(line, sizeof(line), f)) {
		/* A line that is not understood ends it: what follows may be half of something. */
		if (!parse(line, &c->known[c->n]))
			return;
		c->n++;
	}
}

void digest_cache_load(struct digest_cache *c, const char *dir)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	c->n = 0;
	if (path_join(path, dir, NAME, "") < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & 022))
		read_all(c, steal_fd(&fd));
}

bool digest_cache_load_shared(struct digest_cache *c, const char *dir, struct fileio_identity *id)
{
	char path[PATH_MAX], why[TRUSTED_WHY];
	struct fileio_identity now = {0};
	_cleanup_close_ int fd = -1;
	struct stat st;

	fd = path_join(path, dir, NAME, "") < 0 ? -1 : trusted_open(path, O_RDONLY, why);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		now = fileio_identity(&st);
	if (fileio_same(&now, id))
		return false;
	*id = now;
	c->n = 0;
	if (now.ino)
		read_all(c, steal_fd(&fd));
	return true;
}

static int write_all(const struct digest_cache *c, const char *path, const char *hidden,
		     bool publish)
{
	int fd = open(hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	bool bad;

	if (!f) {
		const int err = errno;

		if (fd >= 0)
			close(fd);
		return -err;
	}
	for (unsigned i = 0; i < c->n; i++)
		print(f, &c->known[i]);
	bad = fflush(f) != 0 || ferror(f) || (publish && fchmod(fd, 0644) < 0);
	bad = fclose(f) != 0 || bad;
	if (!bad && rename(hidden, path) == 0)
		return 0;
	unlink(hidden);
	return -EIO;
}

int digest_cache_keep(const char *dir, const struct digest_known *k, bool publish)
{
	char path[PATH_MAX], hidden[PATH_MAX], lock[PATH_MAX];
	_cleanup_free_ struct digest_cache *c = NULL;
	_cleanup_close_ int fd = -1;

	if (path_join(path, dir, NAME, "") < 0 || path_join(hidden, dir, NAME, ".new") < 0 ||
	    path_join(lock, dir, NAME, ".lock") < 0)
		return -ENAMETOOLONG;
	/* Other mounts may do the same at the same time. */
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -errno;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	digest_cache_load(c, dir);
	digest_cache_add(c, k);
	return write_all(c, path, hidden, publish);
}
