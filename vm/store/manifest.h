/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of an object: its files, their chunks, and the checksums of all. */
#ifndef XSBX_VM_STORE_MANIFEST_H
#define XSBX_VM_STORE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "kind.h"
#include "vm/base/buf.h"
#include "vm/base/digest.h"

#define MANIFEST_MAX	    (8u << 20) /* bytes of its text */
#define MANIFEST_FILES_MAX  16u
#define MANIFEST_CHUNKS_MAX 131072u	/* more than such a text can have */
#define MANIFEST_FILE_MAX   (1ll << 40) /* bytes */
#define CHUNK_MIN	    (64u << 10)
#define CHUNK_MAX	    (32u << 20)
#define CHUNK_BYTES	    (8u << 20) /* unless told otherwise */

/* A piece of a file that is not all zero. */
struct manifest_chunk {
	uint32_t file;		 /* which one */
	uint32_t index;		 /* it begins at `index` times the size of chunks */
	uint32_t stored;	 /* bytes, compressed */
	char sha256[DIGEST_HEX]; /* of these bytes; the chunk's name in the store */
};

struct manifest_file {
	char name[STORE_KEY_MAX + 1];
	uint64_t bytes;
	char sha256[DIGEST_HEX]; /* see sparse.h */
};

/*
 * - Names of files are valid keys and differ.
 * - Chunks are in ascending order of `file` and `index`, each begins inside its file, and `stored` is
 *   between 1 and chunk_stored_max(chunk_bytes).
 * - `chunk_bytes` is between CHUNK_MIN and CHUNK_MAX.
 */
struct manifest {
	enum store_kind kind;
	char key[STORE_KEY_MAX + 1];
	uint32_t chunk_bytes;
	uint64_t tsc_khz;	 /* of a snapshot that only fits machines like that, or 0 */
	char sha256[DIGEST_HEX]; /* of the text, when it was read */
	struct manifest_file files[MANIFEST_FILES_MAX];
	struct manifest_chunk *chunks;
	size_t nfiles, nchunks;
};

/**
 * manifest_parse() - Read a manifest that nobody has vouched for yet
 * @text: Bytes
 * @len: How many
 * @secret: Who wrote it must have known this; NULL: anybody may have
 * @ret_m: Result; to be freed by manifest_clear()
 *
 * Return: 0, -EACCES if it is not authenticated by @secret, -EBADMSG, -ENOMEM.
 */
int manifest_parse(const char *text, size_t len, const char *secret, struct manifest *ret_m);

/**
 * manifest_print() - Write a manifest
 * @m: Manifest
 * @secret: To authenticate it with, or NULL
 * @pad: If not 0: exactly so many bytes, with line feeds at the end
 * @out: Appended to
 *
 * Return: 0, -EFBIG if it does not fit into @pad or MANIFEST_MAX, -ENOMEM.
 */
int manifest_print(const struct manifest *m, const char *secret, size_t pad, struct buf *out);

/* Most bytes of a manifest for files with so many chunks. */
size_t manifest_bound(size_t nfiles, size_t nchunks);

void manifest_clear(struct manifest *m);

/* Appends a chunk. Return: 0, -EFBIG if there are too many, -ENOMEM. */
int manifest_add(struct manifest *m, const struct manifest_chunk *c);

/* Where a chunk begins in its file, and its bytes when it is unpacked. */
uint64_t manifest_chunk_at(const struct manifest *m, const struct manifest_chunk *c);
uint32_t manifest_chunk_bytes(const struct manifest *m, const struct manifest_chunk *c);

/* Bytes, at most, that the files take on a disk that knows holes, and that have to be transferred. */
uint64_t manifest_data(const struct manifest *m);
uint64_t manifest_stored(const struct manifest *m);

#endif
