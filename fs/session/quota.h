/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the daemon's memory a user's texts take, and of the disk his output. */
#ifndef XSBX_FS_SESSION_QUOTA_H
#define XSBX_FS_SESSION_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * What users write, and what is rendered for who reads, lies in memory: the code of runs, standard
 * input of those that wait, files beside the nodes, the text of each open handle. Each is limited by
 * itself, but there can be many of them. So all of one user's are added up when more is to come, and past
 * the limit it is refused with EDQUOT. A session's texts are its owner's, whoever reads them; those of the
 * root and of templates are of whoever has opened them.
 *
 * Texts are not counted as they come and go: a sum of what is there can't be wrong. It is one of a user's own, and
 * he has only so many sessions and open handles: without an end to these, each open of his would take the more of
 * everybody's time the more there are, and keep memory for itself, besides what it shows.
 *
 * Output that is kept is on a disk that all users of the mount share. Where there are several, one's output
 * takes at most three quarters of what is stored and free together, so that whoever fills the disk does not
 * do so for others. As long as no more than that is stored at all, nothing has to be added up.
 */
#define QUOTA_BYTES (256u << 20) /* of one user */
#define QUOTA_OPEN \
	16384u /* open files and directories of one user, those below files/ among them */

struct fs;
struct node;
struct session;

/**
 * quota_take() - May a user have so much more?
 * @s: Session that it is for; its owner pays, and its `error` says what is wrong
 * @from: Bytes that this one text has already
 * @to: ... that it is to have
 *
 * Return: 0 or -EDQUOT.
 */
int quota_take(struct session *s, size_t from, size_t to);

/* Whose memory it takes what is there of a session, or (NULL) of the root for the caller of the request. */
uid_t quota_whose(const struct fs *fs, const struct session *s);

/* May the caller open @n, or make something in it? `error` and `ctl` can be opened some times beyond the limit. Return: 0 or
 * -EDQUOT, said like that of texts. */
int quota_open(struct fs *fs, const struct node *n);

/* Likewise, with @more than all that he has already; 0: may he have that? @s NULL: the caller of the request that is being
 * served, and the root's `error`. */
int quota_check(struct fs *fs, struct session *s, size_t more);

/* Has a user so much output on the disk that no more of it is kept? */
bool quota_disk_full(const struct fs *fs, uid_t uid);

#endif
