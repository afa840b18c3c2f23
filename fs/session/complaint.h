/* SPDX-License-Identifier: Apache-2.0 */
/* The root's `error`: what was refused outside of sessions, a directory above all, in words, for each user. */
#ifndef XSBX_FS_SESSION_COMPLAINT_H
#define XSBX_FS_SESSION_COMPLAINT_H

#include <sys/types.h>
#include <time.h>

#include "vm/base/problem.h"

#define COMPLAINTS_MAX 32u /* users whose last one is remembered */

struct fs;
struct node;

/*
 * What goes wrong before there is a session has no session's `error` to be told in. Names are a
 * user's own business, so each sees only what he was refused: the node has another inode number, and
 * another owner, for each of them.
 */
struct complaint {
	uid_t uid;
	struct problem problem; /* code "": none */
	struct timespec time;
};

struct complaints {
	struct complaint of[COMPLAINTS_MAX];
	unsigned used, next; /* next: whose place is taken when all are used */
};

/**
 * complaint_mkdir() - Remember how mkdir(2) went
 * @fs: Mount
 * @dir: Where
 * @name: What was to be made
 * @uid: By whom
 * @err: 0, which clears what was there, or -errno
 */
void complaint_mkdir(struct fs *fs, const struct node *dir, const char *name, uid_t uid, int err);

/* Likewise for what else a user was refused where there is no session: @problem, copied. */
void complaint_tell(struct fs *fs, uid_t uid, const struct problem *problem);

/* Return: the user's last one, or NULL. */
const struct complaint *complaint_of(const struct fs *fs, uid_t uid);

#endif
