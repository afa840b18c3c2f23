/* SPDX-License-Identifier: Apache-2.0 */
/* The owner that the host sees for files of a sandbox. */
#ifndef XSBX_FS_SESSION_OWNER_H
#define XSBX_FS_SESSION_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * A directory tree can make the host run commands: `git status` runs the `core.fsmonitor` of a repository.
 * Git therefore trusts only repositories whose directories are owned by the user who runs it. So everything
 * below `files/` is shown as owned by nobody: git then refuses it, and says how
 * to make an exception.
 *
 * But the kernel uses the same owner for its permission checks. Root is refused nothing, so in
 * root's sessions everything is owned by nobody. Any other user would be denied access to his own files,
 * unless the kernel does not check (no `default_permissions`), which is fine if only one user has access.
 * Even then it checks the owner in some places (to set an ACL, which `cp -p` tries), using the
 * attributes it got last. So only directories are owned by nobody there, and only in answers to stat(2); in
 * answers to lookups, with which any operation on a path starts, they belong to the session's owner.
 *
 * In a mount for all users the kernel has to check, and users other than root see their files as their own.
 */
enum owner_shown {
	OWNER_SESSION,	       /* the owner of the session */
	OWNER_NOBODY_FOR_ROOT, /* nobody, in sessions of root */
	OWNER_NOBODY_BY_STAT,  /* nobody, for directories, in answers to stat(2) */
};

struct session;
struct stat;

/* The owner this process can show, in a mount for all users (@shared) or for its own. */
enum owner_shown owner_choose(bool shared);

/* Does the kernel have to check permissions? */
bool owner_is_checked(enum owner_shown shown);

/**
 * owner_show() - Fill in the owner of a file below files/
 * @s: Session
 * @asked: The attributes are for stat(2), not part of another answer
 * @st: With st_mode; st_uid and st_gid are set, and the sticky bit is cleared if it would keep users other
 *      than the owner shown from removing entries
 */
void owner_show(const struct session *s, bool asked, struct stat *st);

/* Is this the actual or the shown owner of a file? UINT32_MAX: not to be changed. */
bool owner_is_kept(const struct session *s, uid_t uid, gid_t gid);

/* One line for `isolation`. */
const char *owner_words(enum owner_shown shown);

#endif
