/* SPDX-License-Identifier: Apache-2.0 */
/* Package layers: packages installed once and shared by all sandboxes that request the same ones. */
#ifndef XSBX_VM_IMAGE_LAYER_H
#define XSBX_VM_IMAGE_LAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/digest.h"

struct images;

#define LAYER_FILES_MAX 500000u /* while it is being made; see the manual */

/* A directory, or a file system image, depending on the backend. */
enum layer_form { LAYER_TREE, LAYER_EROFS };

/* An open layer. It is not removed from the disk while it is open. */
struct layer {
	TAILQ_ENTRY(layer) link;
	struct layers *in;
	unsigned refs;
	int dir;  /* its directory, locked */
	int file; /* of LAYER_EROFS, for reading; else -1 */
	char key[DIGEST_HEX];
};

/* The open layers of a cache directory, and of the one that root has filled for all. */
struct layers {
	char *dir;
	char *shared;	/* or NULL */
	uint64_t limit; /* maximum bytes on the disk; 0: no limit */
	TAILQ_HEAD(layer_list, layer) open;
};

/* @shared_dir: or NULL. @limit: Maximum bytes on the disk, 0 for none. Return: 0 or -ENOMEM. */
int layers_init(struct layers *ls, const char *cache_dir, const char *shared_dir, uint64_t limit);
void layers_fini(struct layers *ls);

/* Return: the layer with this key, to be released with layer_put(); NULL if it does not exist. */
struct layer *layer_get(struct layers *ls, const char *key);

/* Takes a reference; @l may be NULL. Return: @l. */
struct layer *layer_ref(struct layer *l);

/* Drops a reference; @l may be NULL. Return: NULL. */
struct layer *layer_put(struct layer *l);

/* What the layer of a sandbox depends on. */
struct layer_need {
	enum layer_form form;
	bool host;	   /* the sandbox uses this host's programs, not those of an image */
	const char *image; /* with @host unused */
	const char *language;
	const char *packages; /* canonical: sorted, without duplicates */
	const char *source;   /* origin of the packages: indexes, mirror */
};

/**
 * layer_key() - Compute the key of a layer
 * @images: Those of the cache directory
 * @n: What the layer depends on
 * @ret_key: Result
 * @ret_why: If it fails: one sentence, valid until the next call
 *
 * Return: 0, or -errno if the image does not tell enough.
 */
int layer_key(struct images *images, const struct layer_need *n, char ret_key[DIGEST_HEX],
	      const char **ret_why);

/* ---- layer_disk.c: these may take seconds; call them in worker threads (layer_usage() with a limit
 * takes milliseconds) ---- */

/**
 * layer_begin() - Make the directory in which a layer is built
 * @dir: Directory of layers; made if necessary
 * @key: Key
 * @ret_lock: Descriptor that holds its lock; close it after publishing or abandoning the layer
 *
 * It is DIR/.tmp-KEY with two directories that everybody may write to: `out` for the installer, and
 * `packed` for the packer. If the file system is nearly full, unused layers are removed, least recently
 * used first.
 *
 * Return: 0, -EEXIST if the layer exists, -EAGAIN if another process is making it, or -errno.
 */
int layer_begin(const char *dir, const char *key, int *ret_lock);

/**
 * layer_room() - Check the size of a layer that is being made
 * @dir: Directory of layers
 * @key: Key
 * @limit: Maximum bytes of all layers, 0 for none. A layer and the files it is made from exist at the same
 *	   time, so it may take twice as much until it is published
 * @ret_bytes: Its size, as far as it was counted
 *
 * Return: 0, -EFBIG if it is larger, -E2BIG if it has more than LAYER_FILES_MAX files, or is nested too
 * deep, -ENOSPC if the file system is nearly full, or -errno if it could not be measured.
 */
int layer_room(const char *dir, const char *key, uint64_t limit, uint64_t *ret_bytes);

/**
 * layer_publish() - Move a finished layer to its final name
 * @dir: Directory of layers
 * @key: Key
 * @form: What was made: out/tree or packed/layer.erofs
 * @limit: Maximum bytes of all layers, 0 for none; least recently used ones are removed
 * @ret_bytes: Its size
 *
 * Intermediate files are removed, even on failure; call layer_abandon() for the rest then.
 *
 * Return: 0, -EFBIG if it alone is larger than the limit, -E2BIG if it has too many files or is nested too
 * deep, -EBADMSG if the result is not a valid layer, or -errno, for example if something in it
 * cannot be read.
 */
int layer_publish(const char *dir, const char *key, enum layer_form form, uint64_t limit,
		  uint64_t *ret_bytes);

/* Removes least recently used layers, except @key, until the rest has no more than @limit bytes; 0: no
 * limit. */
void layer_trim(const char *dir, const char *key, uint64_t limit);

/**
 * layer_usage() - Measure the disk usage of layers
 * @dir: Directory of layers
 * @most: Stop after about that many files; 0: never
 * @ret_n: Number of layers
 * @ret_bytes: Their size, as far as it was counted
 *
 * Return: true if all of them were counted.
 */
bool layer_usage(const char *dir, unsigned most, unsigned *ret_n, uint64_t *ret_bytes);

/* Removes an unfinished layer. */
void layer_abandon(const char *dir, const char *key);

/* Removes unfinished layers that nobody is making any more. */
void layer_clean(const char *dir);

#endif
