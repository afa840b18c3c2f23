/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner lets a job have, whatever its rules made of a request: above all, which descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "vm/jail/cell.h"
#include "vm/jail/source.h"
#include "server.h"
#include "overlay_diff.h"
#include "vm/base/util.h"

/* Is a file system mounted in the spawner's own view, which is the daemon's and the user's? What a jail mounts
 * never is: it has a view of its own from its first instruction. */
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
 * What a sandbox has changed lies in memory of its own, and belongs to an id of a jail, where jails have such.
 * Where they have not, everything in memory is the same user's: /dev/shm, /run/user. So it has to be a
 * memory file system of a jail's.
 */
static bool is_upper(int fd, const struct statx *st)
{
	struct statfs fs;

	return S_ISDIR(st->stx_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
	       (!jail_has_private_ids() || jail_has_id(st->stx_uid)) &&
	       !is_mounted_here(st->stx_dev_major, st->stx_dev_minor);
}

/*
 * Descriptors come from the daemon, which may be somebody else's. From a directory of the host's, or a place
 * that was only looked up, who is in a jail gets at all that lies below and above it, with whatever rights his
 * id has there; a file that was opened to be read he can open once more, to be written. So of directories only
 * changes come through, and files go to machines alone, whose Landlock rules let them be read.
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
	    (job->argv[0][0] != '/' && !(job->flags & (SPAWN_TREE | SPAWN_KVM_PROBE))))
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
