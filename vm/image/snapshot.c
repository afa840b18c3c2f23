/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of templates, in memory and on disk. */
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "vm/base/io.h"
#include "vm/base/memory.h"
#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/base/sparse.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The snapshot used by clones is in memory: a memfd, sealed as soon as it is complete, so that neither
 * a clone nor a compromised QEMU can modify what all others start from. Each clone maps it privately.
 * The copy on disk only serves to restore that memory. It is read once, and the checksum is computed
 * from the bytes that were copied, so it is not possible that one thing is verified and another one
 * used.
 *
 * On disk a snapshot is a directory DIR/KEY with ram (holes where the memory is zero), state and
 * manifest.json. It is written as DIR/.new-PID-N, which is locked meanwhile, and renamed when it is
 * complete; afterwards it is never modified. A hidden directory that is not locked was left by a
 * crash. The modification time of the directory KEY is the time of its last use.
 *
 * A snapshot that root has made for all is the same, but that everybody may read it; who does can't note that he
 * has used it.
 */

#define FORMAT	     1
#define STATE_MAX    (64u << 20)
#define RAM_MAX	     (1ull << 40)
#define MANIFEST_MAX (64u << 10)

void snapshot_init(struct snapshot *s)
{
	*s = (struct snapshot){.ram = -1, .state = -1};
}

void snapshot_close(struct snapshot *s)
{
	if (s->ram >= 0)
		close(s->ram);
	if (s->state >= 0)
		close(s->state);
	snapshot_init(s);
}

int snapshot_new(struct snapshot *ret_s, unsigned memory_mb)
{
	int r;

	snapshot_init(ret_s);
	ret_s->ram = memory_new("xsbx-ram");
	ret_s->state = memory_new("xsbx-state");
	if (ret_s->ram < 0 || ret_s->state < 0)
		r = MIN(ret_s->ram, ret_s->state);
	else
		r = ftruncate(ret_s->ram, (off_t)memory_mb << 20) < 0 ? -errno : 0;
	if (r < 0)
		snapshot_close(ret_s);
	return r;
}

int snapshot_seal(struct snapshot *s)
{
	int r = memory_seal(s->ram);
	struct stat st;

	if (r == 0)
		r = memory_seal(s->state);
	if (r < 0)
		return r;
	if (fstat(s->ram, &st) < 0)
		return -errno;
	s->bytes = (uint64_t)st.st_blocks * 512;
	return 0;
}

/* ---- loading ---- */

struct manifest {
	uint64_t tsc_khz, ram_bytes, state_bytes;
	char ram[DIGEST_HEX], state[DIGEST_HEX];
};

static bool take_hex(json_t *o, const char *name, char ret_hex[DIGEST_HEX])
{
	const char *text = json_string_value(json_object_get(o, name));

	if (!text || strlen(text) != DIGEST_HEX - 1)
		return false;
	memcpy(ret_hex, text, DIGEST_HEX);
	return true;
}

/* A file of a snapshot. @why: NULL if it is the user's own. */
static int open_part(int dir, const char *name, char *why)
{
	_cleanup_close_ int fd =
		why ? trusted_open_at(dir, name, O_RDONLY, why) : fileio_open(dir, name);
	struct stat st;

	if (fd < 0)
		return fd == -ENOENT ? -EBADMSG : fd;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? steal_fd(&fd) : -EBADMSG;
}

static int read_manifest(int dir, const char *key, struct manifest *ret_m, char *why)
{
	_cleanup_close_ int fd = open_part(dir, "manifest.json", why);
	_cleanup_free_ char *text = NULL;
	ssize_t n;
	json_t *o;
	bool ok;

	if (fd < 0)
		return fd;
	text = calloc(1, MANIFEST_MAX);
	n = text ? read(fd, text, MANIFEST_MAX - 1) : 0;
	o = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
	ok = json_integer_value(json_object_get(o, "format")) == FORMAT &&
	     take_hex(o, "ram_sha256", ret_m->ram) && take_hex(o, "state_sha256", ret_m->state);
	ok = ok && strcmp(json_string_value(json_object_get(o, "key")) ?: "", key) == 0;
	ret_m->tsc_khz = (uint64_t)json_integer_value(json_object_get(o, "tsc_khz"));
	ret_m->ram_bytes = (uint64_t)json_integer_value(json_object_get(o, "ram_bytes"));
	ret_m->state_bytes = (uint64_t)json_integer_value(json_object_get(o, "state_bytes"));
	json_decref(o);
	return ok && ret_m->ram_bytes <= RAM_MAX && ret_m->state_bytes <= STATE_MAX ? 0 : -EBADMSG;
}

static int load_file(int dir, const char *name, uint64_t bytes, const char *hex, int to, char *why)
{
	_cleanup_close_ int fd = open_part(dir, name, why);
	char found[DIGEST_HEX];
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != bytes)
		return -EBADMSG;
	r = sparse_copy(fd, to, st.st_size, found);
	return r < 0 ? r : strcmp(found, hex) == 0 ? 0 : -EBADMSG;
}

/* Snapshots hold a machine's memory: one that another user could have written is not ours. */
static int open_ours(const char *dir, const char *key)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", dir, key) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT			    ? -ENOENT
		       : errno == ENOTDIR || errno == ELOOP ? -EBADMSG
							    : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return -EBADMSG;
	return steal_fd(&fd);
}

/* From its directory. @why: NULL if that is the user's own. */
static int load(int fd, const char *key, struct snapshot *ret_s, char *why)
{
	struct manifest m = {0};
	int r = read_manifest(fd, key, &m, why);

	if (r == 0)
		r = snapshot_new(ret_s, 0);
	if (r == 0)
		r = load_file(fd, "state", m.state_bytes, m.state, ret_s->state, why);
	if (r == 0)
		r = load_file(fd, "ram", m.ram_bytes, m.ram, ret_s->ram, why);
	if (r == 0)
		r = snapshot_seal(ret_s);
	ret_s->tsc_khz = m.tsc_khz;
	snprintf(ret_s->sum, sizeof(ret_s->sum), "%s", m.ram);
	if (r < 0)
		snapshot_close(ret_s);
	return r;
}

int snapshot_load(const char *dir, const char *key, struct snapshot *ret_s)
{
	_cleanup_close_ int fd = open_ours(dir, key);
	int r;

	snapshot_init(ret_s);
	if (fd < 0)
		return fd;
	r = load(fd, key, ret_s, NULL);
	if (r == 0)
		(void)futimens(fd, NULL); /* used just now */
	return r;
}

int snapshot_load_shared(const char *dir, const char *key, struct snapshot *ret_s, char *ret_why)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	snapshot_init(ret_s);
	if (path_join(path, dir, "", key) < 0)
		return -ENAMETOOLONG;
	fd = trusted_open(path, O_RDONLY | O_DIRECTORY, ret_why);
	return fd < 0 ? fd : load(fd, key, ret_s, ret_why);
}

/* ---- the directory's size ---- */

struct kept {
	char name[NAME_MAX + 1];
	struct timespec used;
	uint64_t bytes;
};

static uint64_t bytes_of(int dir, const char *name)
{
	static const char *const files[] = {"ram", "state", "manifest.json"};
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t sum = 0;

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(files); i++) {
		struct stat st;

		if (fstatat(fd, files[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

/* Adds up what is kept. Return: bytes; @ret_oldest has what was not used for longest. */
static uint64_t survey(const char *dir, struct kept *ret_oldest)
{
	_cleanup_dir_ DIR *d = opendir(dir);
	struct dirent *e;
	uint64_t sum = 0;

	ret_oldest->name[0] = '\0';
	while (d && (e = readdir(d))) {
		struct kept k = {.name = ""};
		struct stat st;

		if (e->d_name[0] == '.' ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		snprintf(k.name, sizeof(k.name), "%s", e->d_name);
		k.used = st.st_mtim;
		k.bytes = bytes_of(dirfd(d), e->d_name);
		sum += k.bytes;
		if (!ret_oldest->name[0] || time_compare(&k.used, &ret_oldest->used) < 0)
			*ret_oldest = k;
	}
	return sum;
}

/* What is removed here may be in use: its memory is not on the disk. */
static void make_room(const char *dir, uint64_t need, uint64_t limit)
{
	struct kept oldest;

	while (survey(dir, &oldest) + need > limit && oldest.name[0] &&
	       snapshot_remove(dir, oldest.name) == 0)
		;
}

void snapshot_trim(const char *dir, uint64_t limit)
{
	if (limit)
		make_room(dir, 0, limit);
}

/* ---- storing ---- */

/* Renamed first, so that nobody finds half of it. */
int snapshot_remove(const char *dir, const char *key)
{
	static unsigned count;
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/%s", dir, key);
	snprintf(to, sizeof(to), "%s/.old-%d-%u", dir, (int)getpid(),
		 __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
	if (rename(from, to) == 0) {
		(void)remove_tree(to); /* or later, by snapshot_clean() */
		return 0;
	}
	return errno == ENOENT ? 0 : remove_tree(from);
}

void snapshot_clean(const char *dir)
{
	remove_abandoned(dir, ".new-", 0);
	remove_abandoned(dir, ".old-", 0);
}

static int store_file(int dir, const char *name, int from, char ret_hex[DIGEST_HEX],
		      uint64_t *ret_bytes)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;
	int r;

	if (fd < 0 || fstat(from, &st) < 0)
		return -errno;
	r = sparse_copy(from, fd, st.st_size, ret_hex);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	*ret_bytes = (uint64_t)st.st_size;
	return r;
}

static int store_manifest(int dir, const char *key, const struct snapshot *s,
			  const struct manifest *m)
{
	_cleanup_close_ int fd =
		openat(dir, "manifest.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	json_t *o = json_pack("{s:i, s:s, s:I, s:I, s:s, s:I, s:s}", "format", FORMAT, "key", key,
			      "tsc_khz", (json_int_t)s->tsc_khz, "ram_bytes",
			      (json_int_t)m->ram_bytes, "ram_sha256", m->ram, "state_bytes",
			      (json_int_t)m->state_bytes, "state_sha256", m->state);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	int r;

	json_decref(o);
	if (fd < 0)
		return -errno;
	r = text ? fileio_write(fd, text, strlen(text)) : -ENOMEM;
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* Lets everybody read it. */
static int publish_all(int dir)
{
	static const char *const files[] = {"ram", "state", "manifest.json"};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (fchmodat(dir, files[i], 0644, 0) < 0)
			return -errno;
	return fchmod(dir, 0755) < 0 ? -errno : 0;
}

static int store_into(int fd, const char *key, const struct snapshot *s, bool publish)
{
	struct manifest m = {0};
	int r = store_file(fd, "ram", s->ram, m.ram, &m.ram_bytes);

	if (r == 0)
		r = store_file(fd, "state", s->state, m.state, &m.state_bytes);
	if (r == 0)
		r = store_manifest(fd, key, s, &m);
	if (r == 0 && publish)
		r = publish_all(fd);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* Return: a descriptor of the new directory, locked, or -errno. */
static int make_hidden(const char *dir, char path[PATH_MAX])
{
	_cleanup_close_ int fd = -1;

	snprintf(path, PATH_MAX, "%s/.new-XXXXXX", dir);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (!mkdtemp(path))
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
		const int err = errno;

		rmdir(path);
		return -err;
	}
	return steal_fd(&fd);
}

int snapshot_store(const char *dir, const char *key, const struct snapshot *s, uint64_t limit,
		   bool publish)
{
	char hidden[PATH_MAX], path[PATH_MAX];
	_cleanup_close_ int fd = -1, parent = -1;
	int r;

	if (limit && s->bytes > limit)
		return -EFBIG;
	fd = make_hidden(dir, hidden);
	if (fd < 0)
		return fd;
	if (limit)
		make_room(dir, s->bytes, limit);
	r = store_into(fd, key, s, publish);
	snprintf(path, sizeof(path), "%s/%s", dir, key);
	if (r == 0 && rename(hidden, path) < 0) {
		/* Another mount was faster, or the existing one is unusable. */
		(void)snapshot_remove(dir, key);
		r = rename(hidden, path) < 0 ? -errno : 0;
	}
	if (r < 0) {
		remove_tree(hidden);
		return r;
	}
	parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return parent >= 0 && fsync(parent) < 0 ? -errno : 0;
}
