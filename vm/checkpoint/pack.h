/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: the files of a sandbox as they were at a moment, to be looked at without it, and to be put
 * into others. */
#ifndef XSBX_VM_CHECKPOINT_PACK_H
#define XSBX_VM_CHECKPOINT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct pack; /* immutable */

#define PACK_LEVELS_MAX 1024u /* directories in each other, with the working directory */

#define PACK_ROOT	0u /* entry of the working directory */

struct pack_attr {
	mode_t mode; /* S_IFMT and permissions, no set-id bits */
	uint32_t nlink;
	uint64_t size, blocks; /* `blocks` of 512 bytes, without holes */
	struct timespec mtime;
	uint64_t number; /* the inode number in the sandbox; 0: not known */
	uint32_t file;	 /* the same for all names of a file, and for nothing else */
};

struct pack *pack_ref(struct pack *p);

/* Drops a reference; @p may be NULL. Return: NULL. */
struct pack *pack_unref(struct pack *p);

/* Number of entries, and bytes of memory that it takes. */
uint32_t pack_entries(const struct pack *p);
uint64_t pack_bytes(const struct pack *p);

/* What it lacks to be the files of one moment, all of them. */
struct pack_flaws {
	uint32_t changed; /* files and directories that were changed while they were read */
	uint32_t
		left_out; /* sockets, FIFOs and devices, of which it only has that they were there; what was mounted; and
			    * files whose extended attributes it has not */
};

struct pack_flaws pack_flaws(const struct pack *p);

/* The directory that an entry is in; PACK_ROOT of the root. */
uint32_t pack_parent(const struct pack *p, uint32_t entry);
/* Its name there. @entry: not the root. */
const char *pack_name(const struct pack *p, uint32_t entry);

/* Looks up a name in directory @dir. Return: 0, -ENOENT, -ENOTDIR. */
int pack_lookup(const struct pack *p, uint32_t dir, const char *name, uint32_t *ret_entry);

/* @entry: of this pack. */
void pack_attr(const struct pack *p, uint32_t entry, struct pack_attr *ret_attr);

/**
 * pack_list() - Go through a directory
 * @p: Pack
 * @dir: Directory
 * @offset: 0, or as given with the entry to go on behind
 * @put: Called for each entry until it returns false
 * @data: Its first argument
 */
void pack_list(const struct pack *p, uint32_t dir, uint64_t offset,
	       bool (*put)(void *data, const char *name, uint32_t entry, uint64_t offset),
	       void *data);

/* Who wrote it, as the sandbox says; or NULL. Is that known of any? */
const char *pack_origin(const struct pack *p, uint32_t entry);
bool pack_has_origins(const struct pack *p);

/* Target of a link, which is as the sandbox wrote it: not to be trusted. Return: it, or NULL if it
 * is none. */
const char *pack_target(const struct pack *p, uint32_t entry);

/* Reads a regular file; holes read as zeroes. Return: bytes, fewer than @len only at its end;
 * -EINVAL if it is no file, -EIO. */
ssize_t pack_pread(const struct pack *p, uint32_t entry, void *buf, size_t len, uint64_t offset);

/**
 * pack_seek() - Find data or a hole, as lseek(2) does
 * @p: Pack
 * @entry: A regular file
 * @offset: Where to begin
 * @whence: SEEK_DATA or SEEK_HOLE
 * @ret_offset: The first byte from @offset on that is data, or of a hole; behind the last data there is one at the
 *	file's end, if not before
 *
 * It takes the logarithm of the file's extents, which the sandbox chooses the number of.
 *
 * Return: 0; -ENXIO if @offset is not before the end, or there is no data from it on; -EINVAL if it is no file, or @whence is
 * another.
 */
int pack_seek(const struct pack *p, uint32_t entry, uint64_t offset, int whence,
	      uint64_t *ret_offset);

/* Reads the stream of its records, see agent/pack_record.h. Return: bytes, fewer than @len only at
 * its end, or -errno. */
ssize_t pack_read_records(const struct pack *p, void *buf, size_t len, uint64_t offset);
uint64_t pack_records_size(const struct pack *p);

#endif
