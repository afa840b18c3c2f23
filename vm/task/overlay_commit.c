/* SPDX-License-Identifier: Apache-2.0 */
/* Applies changes to a directory of the host: files, links and directories, one at a time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "overlay_internal.h"
#include "vm/base/util.h"

#define HOME	 "/home/user/"
#define TMP_SIZE 32
#define CHUNK	 (256u << 10)

int overlay_open(int dir, const char *name, mode_t type, int flags)
{
	/* A FIFO would keep us waiting, a device might do things: neither is opened for more than a
	 * look, which this is first. */
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	struct stat st;
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type) {
		close(fd);
		return -ESTALE; /* it was another one a moment ago */
	}
	close(fd);
	how.flags = (unsigned)flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type)
		return fd;
	close(fd);
	return -ESTALE;
}

/* A name that nobody has guessed; whatever is made under it is renamed or removed. */
static void temporary(char ret_name[TMP_SIZE])
{
	uint64_t random = 0;

	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(ret_name, TMP_SIZE, ".xsbxfs-%016llx", (unsigned long long)random);
}

/* Puts what was made under the name @tmp in its place. */
static int place(const struct overlay_entry *e, const char *tmp)
{
	int r = e->there && S_ISDIR(e->b.st_mode) ? overlay_remove(e->base, e->name, 0) : 0;

	if (r == 0 && renameat(e->base, tmp, e->base, e->name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(e->base, tmp, 0);
	return r;
}

/* From @from to @to of one file to another, if there is one, and into a sum. */
static int copy_range(int in, int out, off_t from, off_t to, struct digest *d)
{
	static char bytes[CHUNK];

	digest_add(d, &from, sizeof(from));

	while (from < to) {
		ssize_t n = pread(in, bytes, MIN((size_t)(to - from), sizeof(bytes)), from);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : 0; /* it has become shorter */
		digest_add(d, bytes, (size_t)n);
		r = out < 0 ? 0 : fileio_write_at(out, bytes, (size_t)n, from);
		if (r < 0)
			return r;
		from += n;
	}
	return 0;
}

/* Holes stay holes: a file may be larger than all memory of the host. */
static int copy(int in, int out, off_t size, struct digest *d)
{
	off_t at = 0, data, hole;
	int r = 0;

	errno = 0;
	while (r == 0 && at < size) {
		data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
		if (data < at || hole <= data)
			return errno ? -errno : -EIO;
		r = copy_range(in, out, data, MIN(hole, size), d);
		at = hole;
	}
	digest_add(d, &size, sizeof(size));
	return r == 0 && out >= 0 && ftruncate(out, size) < 0 ? -errno : r;
}

int overlay_sum_file(int in, off_t size, struct digest *d)
{
	return copy(in, -1, size, d);
}

int overlay_sum_end(struct digest *d, char ret_sum[OVERLAY_SUM])
{
	char hex[DIGEST_HEX];
	const int r = digest_end(d, hex);

	snprintf(ret_sum, OVERLAY_SUM, "%.*s", OVERLAY_SUM - 1, hex);
	return r;
}

/* Is the sum what it ought to be? */
static int agree(struct digest *d, const char *want)
{
	char sum[OVERLAY_SUM];
	const int r = overlay_sum_end(d, sum);

	return r < 0 ? r : strcmp(sum, want) == 0 ? 0 : -ESTALE;
}

int overlay_commit_file(const struct overlay_entry *e, struct digest *d, const char *want)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, e->u.st_mtim};
	_cleanup_close_ int in = overlay_open(e->upper, e->name, S_IFREG, O_RDONLY), out = -1;
	int r = MIN(in, 0), same;
	char tmp[TMP_SIZE];

	temporary(tmp);
	if (r == 0) {
		out = openat(e->base, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			     0600);
		r = out < 0 ? -errno : copy(in, out, e->u.st_size, d);
	}
	same = agree(d, want); /* which ends the sum in any case */
	if (r == 0)
		r = same;
	if (r == 0 && (fchmod(out, e->u.st_mode & OVERLAY_MODE) < 0 || futimens(out, times) < 0))
		r = -errno;
	if (r == 0)
		return place(e, tmp);
	if (out >= 0)
		(void)unlinkat(e->base, tmp, 0);
	return r;
}

int overlay_commit_dir(const struct overlay_entry *e)
{
	const bool old = e->there && S_ISDIR(e->b.st_mode);
	int fd;

	if (e->there && !old && unlinkat(e->base, e->name, 0) < 0)
		return -errno;
	/* Others may look into it when it is finished. */
	if (!old && mkdirat(e->base, e->name, 0700) < 0)
		return -errno;
	fd = overlay_open(e->base, e->name, S_IFDIR, O_RDONLY | O_DIRECTORY);
	if (fd >= 0 && old && (e->u.st_mode & S_IWUSR) && !(e->b.st_mode & S_IWUSR))
		(void)fchmod(fd, e->b.st_mode | S_IWUSR);
	return fd;
}

/* ---- links ---- */

int overlay_read_link(int dir, const char *name, char ret_target[PATH_MAX])
{
	ssize_t n = readlinkat(dir, name, ret_target, PATH_MAX);

	if (n < 0 || n == PATH_MAX)
		return n < 0 ? -errno : -ENAMETOOLONG;
	ret_target[n] = '\0';
	return 0;
}

/* ".." is only believed in front, where it leads out of directories that are none but directories:
 * behind a name that may be a link itself, it leads anywhere. */
int overlay_link_target(const char *target, unsigned depth, char ret_target[PATH_MAX])
{
	size_t len = 0;
	bool down = false;

	if (strncmp(target, HOME, strlen(HOME)) == 0) {
		target += strlen(HOME);
		for (unsigned i = 0; i < depth; i++)
			len += (size_t)snprintf(ret_target + len, PATH_MAX - len, "../");
		depth = 0;
	}
	if (*target == '/' || *target == '\0' || len + strlen(target) >= PATH_MAX)
		return -ENOTSUP;
	snprintf(ret_target + len, PATH_MAX - len, "%s", target);
	while (*target) {
		const size_t n = strcspn(target, "/");
		const bool up = n == 2 && memcmp(target, "..", 2) == 0;

		if (up && (down || depth == 0))
			return -ENOTSUP;
		depth -= up;
		down = down || (!up && n > 0 && !(n == 1 && *target == '.'));
		target += n + (target[n] == '/');
	}
	return 0;
}

int overlay_commit_link(const struct overlay_entry *e, const char *raw, unsigned depth)
{
	char target[PATH_MAX], tmp[TMP_SIZE];
	int r = overlay_link_target(raw, depth, target);

	if (r < 0)
		return r;
	temporary(tmp);
	return symlinkat(target, e->base, tmp) < 0 ? -errno : place(e, tmp);
}

/* ---- removing ---- */

static int remove_below(int dir, unsigned depth)
{
	_cleanup_dir_ DIR *d = fdopendir(dir);
	struct dirent *entry;
	int r = d ? 0 : -errno;

	if (!d) {
		close(dir);
		return r;
	}
	while (r == 0 && (entry = readdir(d))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = overlay_remove(dirfd(d), entry->d_name, depth + 1);
	}
	return r;
}

int overlay_remove(int dir, const char *name, unsigned depth)
{
	int fd, r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth >= OVERLAY_DEPTH_MAX)
		return -ENAMETOOLONG;
	fd = overlay_open(dir, name, S_IFDIR, O_RDONLY | O_DIRECTORY);
	r = fd < 0 ? fd : remove_below(fd, depth);
	return r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : r;
}
