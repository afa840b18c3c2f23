/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of the host are visible in jails: programs and libraries, and paths of a session's template. */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"
#include "vm/base/util.h"
#include "vm/base/spec.h"

bool view_wanted(const struct sandbox_spec *spec)
{
	return spec->npaths > 0 || spec->work || spec->image_view || spec->install;
}

/*
 * A stamp is taken in the daemon's only thread, and what a template shows may lie on a server that does not answer any
 * more. So it is made of what the kernel knows without asking anybody. A path whose server it would ask, because what it
 * knew has expired or was never known, has no stamp then, and whatever was made ahead is of no use: the sandbox is
 * started by the spawner, which asks, and has no more than patience to lose. What it was told is known here afterwards.
 */

/* Numbers of inodes are given again, often at once; when one was made is not. Return: 0 or -errno. */
static int add_stamp(struct digest *d, const char *path)
{
	_cleanup_close_ int fd = jail_source_open_cached(path);
	const struct statx_timestamp *t;
	struct statx st;

	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_BTIME | STATX_CTIME,
		  &st) < 0)
		return -errno;
	t = st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_ctime;

	const uint64_t what[] = {st.stx_dev_major, st.stx_dev_minor, st.stx_ino,
				 (uint64_t)t->tv_sec, t->tv_nsec};

	digest_add(d, what, sizeof(what));
	return 0;
}

int view_stamp(const struct sandbox_spec *spec, char ret[DIGEST_HEX])
{
	struct digest *d;
	int r = 0, e;

	ret[0] = '\0';
	if (!spec || (!spec->npaths && !spec->work))
		return 0;
	d = digest_new();
	if (!d)
		return -ENOMEM;
	for (size_t i = 0; i < spec->npaths && r == 0; i++)
		r = add_stamp(d, spec->paths[i].source);
	if (spec->work && r == 0)
		r = add_stamp(d, spec->work);
	e = digest_end(d, ret);
	r = r < 0 ? r : e;
	if (r < 0)
		ret[0] = '\0';
	return r;
}

/* ---- parts of a jail's description ---- */

void view_show(struct jail_spec *spec, enum jail_mount_kind kind, uint32_t flags,
	       const char *source, const char *target)
{
	if (spec->nmounts < JAIL_MOUNTS_MAX)
		spec->mounts[spec->nmounts++] =
			(struct jail_mount){kind, flags, source ? source : "", target};
}

void view_show_top(struct jail_spec *spec, const char *tree, const char *dir,
		   char leads[VIEW_LEADS_MAX])
{
	char path[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "%s%s", tree, dir);
	n = readlink(path, leads, VIEW_LEADS_MAX - 1);
	leads[n > 0 ? n : 0] = '\0';
	if (n > 0)
		view_show(spec, JAIL_LINK, 0, leads, dir);
	else if (!*tree)
		view_show(spec, JAIL_RO, JAIL_OPTIONAL, dir, dir);
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int view_find_program_in(const char *path, const char *name, char ret_path[PATH_MAX])
{
	char candidate[PATH_MAX];

	for (const char *p = path; *p;) {
		const size_t len = strcspn(p, ":");
		const int n = snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)len, p, name);

		if (n > 0 && (size_t)n < sizeof(candidate) && is_program(candidate) &&
		    realpath(candidate, ret_path))
			return 0;
		p += len + (p[len] == ':');
	}
	return -ENOENT;
}

int view_find_program(const char *name, char ret_path[PATH_MAX])
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return is_program(name) && realpath(name, ret_path) ? 0 : -ENOENT;
	return view_find_program_in(path ? path : "/usr/bin:/bin", name, ret_path);
}
