/* SPDX-License-Identifier: Apache-2.0 */
/* Limits per user: memory of the daemon for texts, and disk space for output. */
#ifndef XSBX_FS_SESSION_QUOTA_H
#define XSBX_FS_SESSION_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * Texts that users write, and those rendered for readers, are kept in memory: the code of runs,
 * standard input of queued runs, scratch files, the text of each open handle, and where the file was, and what waits to be
 * written below files/. Each has a limit of
 * its own, but there can be many of them. So the texts of a user are summed up before more is
 * added, and beyond the limit it is refused with EDQUOT. Texts of a session are charged to its
 * owner, whoever reads them; those of the root and of templates to the user who opened them.
 *
 * Sums are computed instead of being maintained, so they can't be wrong. They cover one user only,
 * whose sessions and open handles are limited too: otherwise each open would take time proportional
 * to their number, at the expense of all users, and memory for the handle itself. Where there are
 * many sessions, a sum is not computed each time: with all that was asked for since it is an upper
 * bound, and as long as that is within the limit, so is what there is. It is made anew before
 * anything is refused, and after as many questions as it would be worth.
 *
 * Output is kept on a disk that all users of the mount share. If there are several, the output of
 * one of them takes at most three quarters of the stored and free space together, so that a user
 * who fills the disk does not fill it for others. While the total is below that, nothing has to be
 * summed up.
 */
#define QUOTA_BYTES (256u << 20) /* of one user */
#define QUOTA_OPEN  16384u /* open files and directories of one user, including those below files/ */

/* In MiB, of more than it may be: rounded up, so that it reads as more. */
static inline uint64_t quota_mib(uint64_t bytes)
{
	return (bytes >> 20) + (bytes % (1u << 20) != 0);
}

struct fs;
struct quota_count;
struct node;
struct problem;
struct saved;
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

/* The user charged for texts of a session, or (NULL) of the root: then the caller of the request. */
uid_t quota_whose(const struct fs *fs, const struct session *s);

/* May the caller open @n, or create something in it? A few more opens of `error` and `ctl` are allowed. Return: 0 or
 * -EDQUOT, reported as for texts. */
int quota_open(struct fs *fs, const struct node *n);

/* Likewise, with @more than all that he has already; 0: may he have that? @s NULL: the caller of
 * the request that is being served, and the root's `error`. */
int quota_check(struct fs *fs, struct session *s, size_t more);
/* Likewise, for what can be done without: nothing is reported. */
bool quota_fits(struct fs *fs, struct session *s, size_t more);

/* May @s's owner have @saved as well, beside all that is saved of his sessions? @saved NULL: anything at all?
 * Return: 0, -EDQUOT with @why, also if there is no memory to know. */
int quota_saved(const struct fs *fs, const struct session *s, const struct saved *saved,
		struct problem *why);

/* Bytes of all that is saved of all users' sessions, of each user once; UINT64_MAX: out of memory. */
uint64_t quota_saved_total(const struct fs *fs);

/* Has a user so much output on the disk that no more of it is kept? */
bool quota_disk_full(const struct fs *fs, uid_t uid);

/* ---- quota_saved.c ---- */

/* quota_saved() as far as max_saved is concerned. */
int quota_max_saved(const struct fs *fs, const struct session *s, const struct saved *saved,
		    struct problem *why);

/* As quota_saved() finds it, of one user; with @more of @of beside it, or NULL and NULL. */
uint64_t quota_saved_by(const struct fs *fs, uid_t uid, const struct session *of,
			const struct saved *more);

/* Adds to `disk` of each of these @n users what is saved of his sessions. */
void quota_saved_each(const struct fs *fs, struct quota_count *users, size_t n);

/* ---- quota_count.c: what users have at once ---- */

/*
 * Theory of operation
 * -------------------
 * [quota] says what a user may have (fs/config/quota.h), and [quota all] what all may have together. What there is at any moment
 * is counted where it is: sessions in the roster, sandboxes and memory by vm/host/admission (who is past these waits for a place),
 * and here checkpoints and the disk: what is saved, outputs and code of runs, records in state_dir. What is used up by and by,
 * and comes again with the next day, has accounts (account.h).
 *
 * Past a limit nothing begins; what there is stays. So everything that may need more asks here before it begins.
 */

/* May @uid have one more session? Return: 0, or -EDQUOT with @why. */
int quota_session(const struct fs *fs, uid_t uid, struct problem *why);

/* May @s have one more checkpoint, beside @instead of them that go? Return: likewise. */
int quota_checkpoint(const struct fs *fs, const struct session *s, unsigned instead,
		     struct problem *why);

/* What is counted of one of several users. */
struct quota_count {
	uid_t uid;
	uint64_t disk;
	unsigned checkpoints;
};

/* Counts for these @n users, in one go. Out of memory: `disk` is UINT64_MAX. */
void quota_count(const struct fs *fs, struct quota_count *users, size_t n);

/* Bytes that are kept of a user, or (NULL) of all. */
uint64_t quota_disk_used(const struct fs *fs, const uid_t *uid);
unsigned quota_checkpoints_used(const struct fs *fs, const uid_t *uid);

/* Is there room on the disk for @more of @uid? Return: 0, or -EDQUOT with @why. */
int quota_disk(struct fs *fs, uid_t uid, uint64_t more, struct problem *why);

/* ---- quota_day.c: what users have a day ---- */

/* May a run or a job of @uid begin? Not if he, or all, have used up the processor time of the day, or the disk.
 * Return: 0, or -EDQUOT with @why. */
int quota_begin(struct fs *fs, uid_t uid, struct problem *why);

/* Seconds until the next day begins; and when that is. */
uint64_t quota_day_left(const struct fs *fs, struct tm *ret_next);

/* A user's sandboxes have used processors for so long. Nothing follows before the alarm rings. */
void quota_cpu_add(struct fs *fs, uid_t uid, uint64_t us);

/**
 * quota_net_left() - How many bytes may a user's sandboxes still send and receive today?
 * @fs: Mount
 * @uid: User
 *
 * What all may have together counts as well. Return: Bytes, UINT64_MAX: there is no limit; 0: nothing more.
 */
uint64_t quota_net_left(const struct fs *fs, uid_t uid);

/* They have sent and received so many, which were not counted yet. */
void quota_net_add(struct fs *fs, uid_t uid, uint64_t bytes);

/* Why there is nothing left: for whoever refuses a connection. */
void quota_net_problem(const struct fs *fs, uid_t uid, struct problem *why);

/* Have they used so much more than a day's processor time that what goes on is to be ended? */
bool quota_is_far_over(const struct fs *fs, uid_t uid, struct problem *why);

/* ---- enforce.c: by the alarm ---- */

/* Ends what goes on of those who are far over, if there may be some, and the networks of those who have used up their bytes, which
 * are there again with the next day. Return: the next uv_now() at which to call it, or UINT64_MAX. */
uint64_t quota_enforce(struct fs *fs);

#endif
