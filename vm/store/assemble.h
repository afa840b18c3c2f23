/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that an object is put together in, until it is whole and gets its name. */
#ifndef XSBX_VM_STORE_ASSEMBLE_H
#define XSBX_VM_STORE_ASSEMBLE_H

#include <limits.h>
#include <stdbool.h>

#include "manifest.h"

/*
 * - Files are open, with their sizes; `have` has a flag for each chunk that was checked and written.
 * - The directory is locked as long as it is open.
 */
struct place {
	const struct manifest *m; /* the caller's */
	char dir[PATH_MAX], part[PATH_MAX];
	int dirfd, fd, journal;
	int files[MANIFEST_FILES_MAX];
	bool *have[MANIFEST_FILES_MAX];
	char *chunk;	  /* room for one, unpacked */
	uint64_t resumed; /* bytes, as stored, that were there already */
};

/* Whether an object is there, whole. */
bool place_exists(const char *dir, const char *key);

/**
 * place_open() - Begin to put an object together, or go on where it was left
 * @dir: Directory that is to have it, made if need be
 * @m: What it consists of; must outlive the place
 * @text: The same as text, by which it is known whether what was begun is the same
 * @len: Bytes of it
 * @wait_ms: Wait for so long for somebody who is at it as well
 * @ret_p: Result; to be ended by place_finish() or place_close()
 *
 * Return: 0, -EEXIST if it is there, -EBUSY if somebody else is at it, -ENOSPC, or -errno.
 */
int place_open(const char *dir, const struct manifest *m, const char *text, size_t len,
	       unsigned wait_ms, struct place *ret_p);

/* Checks a chunk and writes it. Return: 0, -EBADMSG if it is not what the manifest says, -errno. */
int place_add(struct place *p, unsigned file, size_t chunk, const void *stored, size_t len);

/**
 * place_finish() - Check the whole, and give it its name
 *
 * Return: 0, -EBADMSG if it is not what the manifest says; it is then begun anew the next time.
 */
int place_finish(struct place *p);

/* Leaves what there is for the next time; or not, if @remove. */
void place_close(struct place *p, bool remove);

/* Removes what was begun a day ago or longer, and never finished. */
void place_clean(const char *dir);

#endif
