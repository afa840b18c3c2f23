/* SPDX-License-Identifier: Apache-2.0 */
/* Whose the files of a sandbox are, as the host sees it. */
#ifndef XSBX_FS_SESSION_OWNER_H
#define XSBX_FS_SESSION_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * A tree can say what is to be run by those who look at it: a repository's `core.fsmonitor` is run by
 * `git status`. Git therefore trusts only what belongs to whoever runs it, and looks at the directories of
 * a repository. So what is below `files/` is shown as nobody's: then git refuses it, and says how
 * to make an exception.
 *
 * But the kernel goes by the same owner where it checks what may be done. Root is refused nothing, so in
 * root's sessions everything is nobody's. Anybody else would be kept from his own files, unless the
 * kernel does not check (no `default_permissions`), which it need not where only one user can enter.
 * Even then it asks for the owner in some places (to set an ACL, which `cp -p` tries), by what it was
 * told last. So there only directories are nobody's, and only in what stat(2) says; in answers to
 * lookups, which begin all that is done by a path, they are the session owner's.
 *
 * In a mount for everybody the kernel has to check, and users other than root see their files as theirs.
 */
enum owner_shown {
	OWNER_SESSION,	       /* whoever made the session */
	OWNER_NOBODY_FOR_ROOT, /* nobody, in sessions of root */
	OWNER_NOBODY_BY_STAT,  /* nobody, of directories, in what stat(2) says */
};

struct session;
struct stat;

/* What this process can show, in a mount for everybody (@shared) or for itself alone. */
enum owner_shown owner_choose(bool shared);

/* Has the kernel to check permissions? */
bool owner_is_checked(enum owner_shown shown);

/**
 * owner_show() - Fill in the owner of what is below files/
 * @s: Session
 * @asked: For stat(2), and not beside another answer
 * @st: Its st_mode is known; st_uid and st_gid are set, and the sticky bit goes where it would keep
 *      whoever is not the owner shown from removing things
 */
void owner_show(const struct session *s, bool asked, struct stat *st);

/* Is this the owner that a file has already, or is shown to have? UINT32_MAX: not to be changed. */
bool owner_is_kept(const struct session *s, uid_t uid, gid_t gid);

/* One line for `isolation`. */
const char *owner_words(enum owner_shown shown);

#endif
