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

struct handle_ops;
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

void scratch_init(struct scratch *sc);
/* Of all files of a session. */
uint64_t scratch_bytes(const struct session *s);
/* Of a session that is removed; what is open stays as long as it is. */
void scratch_unlink_all(struct session *s);

/* Can there be such files in directories of this kind? */
bool scratch_takes(enum node_kind dir);

struct scratch_file *scratch_find(const struct session *s, enum node_kind dir, const char *name);
struct scratch_file *scratch_by_id(const struct session *s, uint32_t id);

/* Makes it shorter, or longer with NUL bytes. Return: 0, -EFBIG, -EDQUOT, or -ENOMEM. */
int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size);

/* Return: 0, -ENAMETOOLONG, -EDQUOT (too many), -ENOMEM. */
int scratch_create(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		   struct scratch_file **ret_f);
void scratch_unlink(struct session *s, struct scratch_file *f);

/**
 * scratch_rename() - RENAME within a session
 * @s: Session
 * @from_dir: Directory of @from
 * @from: A scratch file, or `in`, `config`, `net/allow`
 * @to_dir: Directory of @to
 * @to: A scratch name, or `in`, `stdin`, `config`, `net/allow`: then the file's content is taken as
 *	if it had been written there, and the file is gone
 * @flags: RENAME_NOREPLACE or 0
 *
 * Return: 0, -ENOENT, -EPERM (another node), -EEXIST, -EINVAL, or what writing would say.
 */
int scratch_rename(struct session *s, enum node_kind from_dir, const char *from,
		   enum node_kind to_dir, const char *to, unsigned flags);

extern const struct handle_ops scratch_ops;

#endif
