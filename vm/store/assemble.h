/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that an object is put together in, until it is whole and gets its name. */
#ifndef XSBX_VM_STORE_ASSEMBLE_H
#define XSBX_VM_STORE_ASSEMBLE_H

#include <limits.h>
#include <stdbool.h>

#include "manifest.h"

/*
 * - Files are open, with their sizes.
 * - The directory is locked as long as it is open.
 */
struct assembly {
	const struct manifest *m; /* the caller's */
	char dir[PATH_MAX], part[PATH_MAX];
	int dirfd, fd, journal;
	int files[MANIFEST_FILES_MAX];
	bool *have;	  /* of each chunk: whether it was checked and written */
	char *chunk;	  /* room for one, unpacked */
	uint64_t resumed; /* bytes, as stored, that were there already */
};

/* Whether an object is there, whole. */
bool assemble_exists(const char *dir, const char *key);

/**
 * assemble_open() - Begin to put an object together, or go on where it was left
 * @dir: Directory that is to have it, made if need be
 * @m: What it consists of; must outlive the result
 * @wait_ms: Wait for so long for somebody who is at it as well
 * @ret_a: Result; to be ended by assemble_finish() or assemble_close()
 *
 * Return: 0, -EEXIST if it is there, -EBUSY if somebody else is at it, -ENOSPC, or -errno.
 */
int assemble_open(const char *dir, const struct manifest *m, unsigned wait_ms,
		  struct assembly *ret_a);

/* Checks a chunk and writes it. Return: 0, -EBADMSG if it is not what the manifest says, -errno. */
int assemble_add(struct assembly *a, size_t chunk, const void *stored, size_t len);

/**
 * assemble_finish() - Check the whole, and give it its name
 *
 * Return: 0, -EBADMSG if it is not what the manifest says; it is then begun anew the next time.
 */
int assemble_finish(struct assembly *a);

/* Leaves what there is for the next time; or not, if @remove. */
void assemble_close(struct assembly *a, bool remove);

/* Removes what was begun a day ago or longer, and never finished. */
void assemble_clean(const char *dir);

#endif
