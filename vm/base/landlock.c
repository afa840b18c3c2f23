/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: limits what a process and its children may do with files, as a second layer. */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than the headers we build with may be. */
#define FS_TRUNCATE    (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV   (1ull << 15) /* ABI 5 */
#define SCOPE_ABSTRACT (1ull << 0)  /* ABI 6 */
#define SCOPE_SIGNAL   (1ull << 1)
#define ABI_REFER      2
#define ABI_TRUNCATE   3
#define ABI_IOCTL_DEV  5
#define ABI_SCOPED     6

#define FS_READ \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define FS_FILE                                                      \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) /* rights of files */

/* Of ABI 6; older kernels look at the beginning. */
struct ruleset_attr {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

int landlock_abi(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return r < 0 ? -errno : (int)r;
}

static uint64_t handled(int abi)
{
	uint64_t all = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;

	if (abi >= ABI_TRUNCATE)
		all |= FS_TRUNCATE;
	if (abi >= ABI_IOCTL_DEV)
		all |= FS_IOCTL_DEV;
	return all;
}

static int add_rule(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr attr = {.allowed_access = access};
	int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	long r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		attr.allowed_access &= FS_FILE;
	attr.parent_fd = fd;
	r = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
	/* Files that lie in no file system that could be mounted (memfd) need no rule. */
	r = r < 0 && errno != EBADFD ? -errno : 0;
	close(fd);
	return (int)r;
}

int landlock_make(const struct landlock_rule *rules, size_t n, unsigned flags)
{
	struct ruleset_attr attr = {0};
	int abi = landlock_abi(), fd, r = 0;

	if (abi < ABI_REFER)
		return -EOPNOTSUPP;
	attr.handled_access_fs = handled(abi);
	if ((flags & LANDLOCK_SCOPED) && abi >= ABI_SCOPED)
		attr.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr,
			  abi >= ABI_SCOPED ? sizeof(attr) : sizeof(attr.handled_access_fs), 0);
	if (fd < 0)
		return -errno;
	if (flags & LANDLOCK_READ_ALL)
		r = add_rule(fd, "/", FS_READ);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const uint64_t write =
			LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV | FS_READ;

		r = add_rule(fd, rules[i].path,
			     attr.handled_access_fs & (rules[i].read   ? FS_READ
						       : rules[i].tree ? ~FS_DEVICES
								       : write));
	}
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int landlock_enter(int ruleset)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

int landlock_confine(const struct landlock_rule *rules, size_t n, unsigned flags)
{
	const int fd = landlock_make(rules, n, flags);
	int r;

	if (fd < 0)
		return fd == -EOPNOTSUPP ? 0 : fd;
	r = landlock_enter(fd) < 0 ? -errno : landlock_abi();
	close(fd);
	return r;
}
