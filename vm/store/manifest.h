/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of an object: its files, their chunks, and the checksums of both. */
#ifndef XSBX_VM_STORE_MANIFEST_H
#define XSBX_VM_STORE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "kind.h"
#include "vm/base/buf.h"
#include "vm/base/digest.h"

#define MANIFEST_MAX	    (8u << 20) /* bytes of its text */
#define MANIFEST_FILES_MAX  16u
#define MANIFEST_CHUNKS_MAX 131072u	/* more than fit into such a text */
#define MANIFEST_FILE_MAX   (1ll << 40) /* bytes */
#define CHUNK_MIN	    (64u << 10)
#define CHUNK_MAX	    (32u << 20)
#define CHUNK_BYTES	    (8u << 20) /* default */

/* A piece of a file that is not all zeroes. */
struct manifest_chunk {
	uint32_t file;		 /* index into `files` */
	uint32_t index;		 /* its offset is `index` times the chunk size */
	uint32_t stored;	 /* bytes, compressed */
	char sha256[DIGEST_HEX]; /* of these bytes; its name in the store */
};

struct manifest_file {
	char name[STORE_KEY_MAX + 1];
	uint64_t bytes;
	char sha256[DIGEST_HEX]; /* see sparse.h */
};

/*
 * - File names are valid keys and unique.
 * - Chunks are in ascending order of `file` and `index`, each starts within its file, and `stored` is
 *   between 1 and chunk_stored_max(chunk_bytes).
 * - `chunk_bytes` is between CHUNK_MIN and CHUNK_MAX.
 */
struct manifest {
	enum store_kind kind;
	char key[STORE_KEY_MAX + 1];
	uint32_t chunk_bytes;
	uint64_t tsc_khz;	 /* of a snapshot that needs this frequency, or 0 */
	char sha256[DIGEST_HEX]; /* of the text, if it was parsed */
	struct manifest_file files[MANIFEST_FILES_MAX];
	struct manifest_chunk *chunks;
	size_t nfiles, nchunks;
};

/**
 * manifest_parse() - Parse an untrusted manifest
 * @text: Bytes
 * @len: Number of bytes
 * @secret: Key that it must be authenticated with; NULL: none
 * @ret_m: Result; free it with manifest_clear()
 *
 * Return: 0, -EACCES if it is not authenticated by @secret, -EBADMSG, -ENOMEM.
 */
int manifest_parse(const char *text, size_t len, const char *secret, struct manifest *ret_m);

/**
 * manifest_print() - Write a manifest as text
 * @m: Manifest
 * @secret: Key to authenticate it with, or NULL
 * @pad: If not 0: pad it with line feeds to exactly that many bytes
 * @out: Appended to
 *
 * Return: 0, -EFBIG if it does not fit into @pad or MANIFEST_MAX, -ENOMEM.
 */
int manifest_print(const struct manifest *m, const char *secret, size_t pad, struct buf *out);

/* The largest text of a manifest with that many files and chunks. */
size_t manifest_bound(size_t nfiles, size_t nchunks);

void manifest_clear(struct manifest *m);

/* Appends a chunk. Return: 0, -EFBIG if there are too many, -ENOMEM. */
int manifest_add(struct manifest *m, const struct manifest_chunk *c);

/* The offset of a chunk in its file, and its unpacked size. */
uint64_t manifest_chunk_at(const struct manifest *m, const struct manifest_chunk *c);
uint32_t manifest_chunk_bytes(const struct manifest *m, const struct manifest_chunk *c);

/* Upper bounds of the bytes that the (sparse) files take on the disk, and that have to be transferred. */
uint64_t manifest_data(const struct manifest *m);
uint64_t manifest_stored(const struct manifest *m);

#endif
