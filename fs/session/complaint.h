/* SPDX-License-Identifier: Apache-2.0 */
/* The root's `error`: problems outside of sessions, mostly of mkdir, for each user. */
#ifndef XSBX_FS_SESSION_COMPLAINT_H
#define XSBX_FS_SESSION_COMPLAINT_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "vm/base/problem.h"

#define COMPLAINTS_MAX 32u /* users whose last problem is remembered */

struct fs;
struct node;

/*
 * If something fails before there is a session, there is no session's `error` to report it in. Names are
 * private, so users see only their own problems: the node has a different inode number and owner
 * for each of them.
 */
struct complaint {
	uid_t uid;
	struct problem problem; /* code "": none */
	struct timespec time;
};

struct complaints {
	struct complaint of[COMPLAINTS_MAX];
	unsigned used, next; /* next: the entry to reuse when all are in use */
	struct complaint
		standing; /* of the mount's owner, where there is nothing else; see complaint_stand() */
};

/**
 * complaint_mkdir() - Record the result of mkdir(2)
 * @fs: Mount
 * @dir: Parent directory
 * @name: Name of the new directory
 * @uid: Caller
 * @err: 0, which clears an earlier problem, or -errno
 */
void complaint_mkdir(struct fs *fs, const struct node *dir, const char *name, uid_t uid, int err);

/* The same for any other failure outside of sessions; @problem is copied. */
void complaint_tell(struct fs *fs, uid_t uid, const struct problem *problem);

/* What is so until it is told to be over, also if mkdir(2) succeeds meanwhile: the mount's owner is told, behind whatever else he
 * is told of. @problem is copied; NULL: it is over. */
void complaint_stand(struct fs *fs, const struct problem *problem);
/* Is there one? */
bool complaint_stands(const struct fs *fs);

/* Return: the user's last problem, or NULL. */
const struct complaint *complaint_of(const struct fs *fs, uid_t uid);

#endif
