/* SPDX-License-Identifier: Apache-2.0 */
/* The directory in which an object is assembled, until it is complete and gets its final name. */
#ifndef XSBX_VM_STORE_ASSEMBLE_H
#define XSBX_VM_STORE_ASSEMBLE_H

#include <limits.h>
#include <stdbool.h>

#include "manifest.h"

/*
 * - Files are open, and have their final sizes.
 * - The directory is locked while it is open.
 */
struct assembly {
	const struct manifest *m; /* the caller's */
	char dir[PATH_MAX], part[PATH_MAX];
	int dirfd, fd, journal;
	int files[MANIFEST_FILES_MAX];
	bool *have;	  /* for each chunk: it was verified and written */
	char *chunk;	  /* buffer for one, unpacked */
	uint64_t resumed; /* compressed bytes that were already present */
};

/* Does the complete object exist? */
bool assemble_exists(const char *dir, const char *key);

/**
 * assemble_open() - Start assembling an object, or resume
 * @dir: Directory for it, made if necessary
 * @m: Its manifest; must outlive the result
 * @wait_ms: How long to wait for another process that is assembling it
 * @ret_a: Result; end it with assemble_finish() or assemble_close()
 *
 * Return: 0, -EEXIST if it exists, -EBUSY if another process is assembling it, -ENOSPC, or -errno.
 */
int assemble_open(const char *dir, const struct manifest *m, unsigned wait_ms,
		  struct assembly *ret_a);

/* Verifies a chunk and writes it. Return: 0, -EBADMSG if it does not match the manifest, -errno. */
int assemble_add(struct assembly *a, size_t chunk, const void *stored, size_t len);

/**
 * assemble_finish() - Verify the whole object, and give it its final name
 *
 * Return: 0, -EBADMSG if it does not match the manifest; the next attempt then starts over.
 */
int assemble_finish(struct assembly *a);

/* Keeps what was assembled for the next attempt, unless @remove. */
void assemble_close(struct assembly *a, bool remove);

/* Removes unfinished assemblies that are older than a day. */
void assemble_clean(const char *dir);

#endif
