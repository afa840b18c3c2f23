/* SPDX-License-Identifier: Apache-2.0 */
/* Checks jobs independently of the spawner's rules: above all, their descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "vm/jail/cell.h"
#include "vm/jail/source.h"
#include "server.h"
#include "vm/task/overlay_diff.h"
#include "vm/base/util.h"

/* Is a file system mounted in the spawner's own view, which is the daemon's and the user's? What a
 * jail mounts never is: it has a view of its own from its first instruction. */
static bool is_mounted_here(unsigned major, unsigned minor)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	unsigned a, b;
	size_t size = 0;

	if (!f)
		return true;
	while (getline(&line, &size, f) > 0) {
		if (sscanf(line, "%*d %*d %u:%u", &a, &b) != 2 || (a == major && b == minor))
			return true;
	}
	return !feof(f); /* what is not known is refused */
}

/*
 * A sandbox's changes are in its own memory file system, owned by a jail's id, if jails have their
 * own ids. If not, all memory file systems belong to the same user: /dev/shm, /run/user. So it has
 * to be checked that the memory file system is a jail's.
 */
static bool is_upper(int fd, const struct statx *st)
{
	struct statfs fs;

	return S_ISDIR(st->stx_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
	       (!jail_has_private_ids() || jail_has_id(st->stx_uid)) &&
	       !is_mounted_here(st->stx_dev_major, st->stx_dev_minor);
}

/*
 * Descriptors come from the daemon, which may be compromised. With a directory of the host, or an
 * O_PATH descriptor, a jailed process can access everything below and above it, with the
 * permissions of its id; a file that was opened for reading can be reopened for writing. So the
 * only directories that are passed are those with changes, and files are passed only to machines,
 * whose Landlock rules make them read-only.
 */
static bool fd_ok(const struct spawn_job *job, const struct spawn_target *t)
{
	const int fd = job->fds[t->from], flags = fcntl(fd, F_GETFL);
	struct statx st;

	if (flags < 0 || jail_source_look(fd, &st) < 0)
		return false;
	if ((job->flags & SPAWN_TREE) && t->to == OVERLAY_UPPER_FD)
		return is_upper(fd, &st);
	return !(flags & O_PATH) && !S_ISDIR(st.stx_mode) && !S_ISBLK(st.stx_mode) &&
	       !(S_ISREG(st.stx_mode) && job->jail && job->jail->use == JAIL_SANDBOX);
}

int spawner_check(const struct spawn_job *job)
{
	if (job->ntargets > SPAWN_FDS_MAX || !job->argv[0] ||
	    (job->argv[0][0] != '/' &&
	     !(job->flags & (SPAWN_TREE | SPAWN_KVM_PROBE | SPAWN_RAM | SPAWN_SECRET))))
		return -EINVAL;
	for (size_t i = 0; i < job->ntargets; i++) {
		if (job->target[i].to < 0 || job->target[i].to >= JAIL_FDS_MAX)
			return -EINVAL;
		if (job->target[i].from >= job->nfds)
			return -EMFILE; /* there was no room for them */
		if (!fd_ok(job, &job->target[i]))
			return -EPERM;
	}
	return 0;
}
