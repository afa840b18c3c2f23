/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: temporary files of editors and copying tools next to `in` or net/allow. */
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
	enum node_kind dir; /* its directory: NODE_SESSION or NODE_NET */
	char name[256];
	mode_t mode; /* permissions */
	struct buf data;
	struct timespec mtime;
};

struct scratch {
	TAILQ_HEAD(scratch_list, scratch_file) files;
	unsigned n;
	uint32_t last_id;
};

/* Removes all files of a removed session; open ones stay until they are closed. */
void scratch_unlink_all(struct session *s);

/* Can directories of this kind contain such files? */
bool scratch_takes(enum node_kind dir);

struct scratch_file *scratch_find(const struct session *s, enum node_kind dir, const char *name);
struct scratch_file *scratch_by_id(const struct session *s, uint32_t id);

/* May it have @size bytes? Return: 0, or -EFBIG or -EDQUOT, and the session's `error` says why, or -ESTALE. */
int scratch_may_grow(struct session *s, const struct scratch_file *f, uint64_t size);
/* Truncates it, or extends it with NUL bytes. Return: likewise, or -ENOMEM. */
int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size);

/* Makes one, in place of @old, of that name, which may be NULL and is unlinked then by the caller. Return: 0,
 * -ENAMETOOLONG, -EDQUOT (too many), -ENOMEM. */
int scratch_create(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		   const struct scratch_file *old, struct scratch_file **ret_f);
void scratch_unlink(struct session *s, struct scratch_file *f);
/* A handle on it was closed. */
void scratch_close(struct session *s, struct scratch_file *f);
/* Is it freed when it is unlinked? @f may be NULL. */
bool scratch_goes(const struct scratch_file *f);
/* A file was added to a directory, or removed from it. */
void scratch_touch(struct session *s, enum node_kind dir);

#endif
