/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: temporary files of editors and copying tools next to `in`, also of a job, or
 * net/allow. */
#ifndef XSBX_FS_SESSION_SCRATCH_H
#define XSBX_FS_SESSION_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "vm/base/buf.h"
#include "node.h"

#define SCRATCH_FILES_MAX 64u	     /* per session, including unlinked ones that are still open */
#define SCRATCH_SIZE_MAX  (1u << 20) /* bytes of one file */

struct front;
struct session;

/*
 * - Identified by its id, which is never reused within a session.
 * - Freed when it has neither a name nor an open handle.
 */
struct scratch_file {
	TAILQ_ENTRY(scratch_file) link;
	uint32_t id;
	unsigned opens;
	bool unlinked;
	uint64_t dir;	     /* its directory, an inode number */
	struct front *front; /* whose that is; the session's when it has no name any more */
	char name[256];
	mode_t mode; /* permissions */
	struct buf data;
	struct timespec mtime;
	struct touch touch;
};

struct scratch {
	TAILQ_HEAD(scratch_list, scratch_file) files;
	unsigned n;
	uint32_t last_id;
};

/* Removes all files of a removed directory (inode number), or, with 0, session; open ones stay
 * until they are closed. */
void scratch_unlink_all(struct session *s, uint64_t dir);

/* Can directories of this kind contain such files? */
bool scratch_takes(enum node_kind dir);

struct scratch_file *scratch_find(const struct node *dir, const char *name);
struct scratch_file *scratch_by_id(const struct session *s, uint32_t id);

/* May it have @size bytes? Return: 0, or -EFBIG or -EDQUOT, and its `error` says why, or -ESTALE. */
int scratch_may_grow(struct session *s, const struct scratch_file *f, uint64_t size);
/* Truncates it, or extends it with NUL bytes. Return: likewise, or -ENOMEM. */
int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size);

/* Makes one, in place of @old, of that name, which may be NULL and is unlinked then by the caller. Return: 0,
 * -ENAMETOOLONG, -EDQUOT (too many), -ENOMEM. */
int scratch_create(const struct node *dir, const char *name, mode_t mode,
		   const struct scratch_file *old, struct scratch_file **ret_f);
/* Gives it another name, which no other file has. Return: 0 or -ENAMETOOLONG. */
int scratch_rename(struct scratch_file *f, const struct node *to_dir, const char *to);
void scratch_unlink(struct session *s, struct scratch_file *f);
/* A handle on it was closed. */
void scratch_close(struct session *s, struct scratch_file *f);
/* Is it freed when it is unlinked? @f may be NULL. */
bool scratch_goes(const struct scratch_file *f);

#endif
