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

#include "vm/base/util.h"
#include "vm/base/spec.h"

bool view_wanted(const struct sandbox_spec *spec)
{
	return spec->npaths > 0 || spec->work || spec->image_view || spec->install;
}

/* Numbers of inodes are given again, often at once; when one was made is not. */
static void add_stamp(struct digest *d, const char *path)
{
	const unsigned wanted = STATX_INO | STATX_BTIME | STATX_CTIME;
	uint64_t what[5] = {0};
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, wanted, &st) == 0) {
		const struct statx_timestamp *t =
			st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_ctime;

		what[0] = st.stx_dev_major;
		what[1] = st.stx_dev_minor;
		what[2] = st.stx_ino;
		what[3] = (uint64_t)t->tv_sec;
		what[4] = t->tv_nsec;
	}
	digest_add(d, what, sizeof(what));
}

void view_stamp(const struct sandbox_spec *spec, char ret[DIGEST_HEX])
{
	struct digest *d;

	ret[0] = '\0';
	if (!spec || (!spec->npaths && !spec->work))
		return;
	d = digest_new();
	if (!d)
		return;
	for (size_t i = 0; i < spec->npaths; i++)
		add_stamp(d, spec->paths[i].source);
	if (spec->work)
		add_stamp(d, spec->work);
	(void)digest_end(d, ret);
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
