/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: what editors and copying tools put beside `in` or net/allow for a moment. */
#ifndef XSBX_FS_SESSION_SCRATCH_H
#define XSBX_FS_SESSION_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "vm/base/buf.h"
#include "node.h"

#define SCRATCH_FILES_MAX 64u	     /* of one session, those unlinked but still open included */
#define SCRATCH_SIZE_MAX  (1u << 20) /* bytes of one file */

struct session;

/*
 * - Known by its id, which is never used again in a session.
 * - Lives until it has no name and no open handle.
 */
struct scratch_file {
	TAILQ_ENTRY(scratch_file) link;
	uint32_t id;
	unsigned opens;
	bool unlinked;
	enum node_kind dir; /* that it is in: NODE_SESSION or NODE_NET */
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

/* Of a session that is removed; what is open stays as long as it is. */
void scratch_unlink_all(struct session *s);

/* Can there be such files in directories of this kind? */
bool scratch_takes(enum node_kind dir);

struct scratch_file *scratch_find(const struct session *s, enum node_kind dir, const char *name);
struct scratch_file *scratch_by_id(const struct session *s, uint32_t id);

/* Makes it shorter, or longer with NUL bytes. Return: 0, -EFBIG, -EDQUOT, or -ENOMEM. */
int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size);

/* Makes one, in place of @old, of that name, which may be NULL and is unlinked then by the caller. Return: 0,
 * -ENAMETOOLONG, -EDQUOT (too many), -ENOMEM. */
int scratch_create(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		   const struct scratch_file *old, struct scratch_file **ret_f);
void scratch_unlink(struct session *s, struct scratch_file *f);
/* A handle on it is closed. */
void scratch_close(struct session *s, struct scratch_file *f);
/* Does it go with its name? @f may be NULL. */
bool scratch_goes(const struct scratch_file *f);
/* A file came to a directory, or went from it. */
void scratch_touch(struct session *s, enum node_kind dir);

#endif
