/* SPDX-License-Identifier: Apache-2.0 */
/* Package layers: what was installed once, and is shared by all sandboxes that ask for the same. */
#ifndef XSBX_VM_IMAGE_LAYER_H
#define XSBX_VM_IMAGE_LAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/digest.h"

struct images;

#define LAYER_FILES_MAX 500000u /* while it is made; named in the manual */

/* What a sandbox can use: a directory, or a file system in a file. */
enum layer_form { LAYER_TREE, LAYER_EROFS };

/* An open layer. It stays on the disk as long as it is open. */
struct layer {
	TAILQ_ENTRY(layer) link;
	struct layers *in;
	unsigned refs;
	int dir;  /* its directory, locked */
	int file; /* of LAYER_EROFS, to read; else -1 */
	char key[DIGEST_HEX];
	char path[]; /* of LAYER_TREE: the directory to be seen in the sandbox */
};

/* The layers of a cache directory; here, those that are open. */
struct layers {
	char *dir;
	uint64_t limit; /* most bytes on the disk; 0: no limit */
	TAILQ_HEAD(layer_list, layer) open;
};

/* @limit: Most bytes on the disk, 0 for none. Return: 0 or -ENOMEM. */
int layers_init(struct layers *ls, const char *cache_dir, uint64_t limit);
void layers_fini(struct layers *ls);

/* Return: the layer of this key, to be given back by layer_put(); NULL if it is not there. */
struct layer *layer_get(struct layers *ls, const char *key);

/* One more reference; @l may be NULL. Return: @l. */
struct layer *layer_ref(struct layer *l);

/* @l may be NULL. Return: NULL. */
struct layer *layer_put(struct layer *l);

/* What the layer of a sandbox depends on. */
struct layer_need {
	enum layer_form form;
	bool host;	   /* the sandbox's programs are those of this host, not of an image */
	const char *image; /* with @host unused */
	const char *language;
	const char *packages; /* canonical: sorted, each once */
	const char *source;   /* where they come from: indexes, mirror */
};

/**
 * layer_key() - The name of the layer that is needed
 * @images: Those of the cache directory
 * @n: What for
 * @ret_key: Result
 * @ret_why: If it fails: one sentence, valid until the next call
 *
 * Return: 0, or -errno if what is known of the image does not suffice.
 */
int layer_key(struct images *images, const struct layer_need *n, char ret_key[DIGEST_HEX],
	      const char **ret_why);

/* ---- layer_disk.c: these may take seconds, and are for worker threads (layer_usage() with a limit
 * takes milliseconds) ---- */

/**
 * layer_begin() - Make the directory in which a layer is put together
 * @dir: Of all layers; made if need be
 * @key: Name
 * @ret_lock: Descriptor that has it locked; to be closed when it is published or abandoned
 *
 * It is DIR/.tmp-KEY with two directories that everybody may write to: `out` for the one who installs,
 * `packed` for the one who packs. If the file system is nearly full, layers that nobody uses go, those first
 * that were not used for longest.
 *
 * Return: 0, -EEXIST if the layer is there, -EAGAIN if somebody else is at it, or -errno.
 */
int layer_begin(const char *dir, const char *key, int *ret_lock);

/**
 * layer_room() - See whether there is room for what is being made
 * @dir: Of all layers
 * @key: Name
 * @limit: Most bytes of all layers, 0 for none. Beside a layer lies what it is made of, so it may take
 *	   twice as much until it has its name
 * @ret_bytes: What it takes, as far as it was counted
 *
 * Return: 0, -EFBIG if it is larger, -E2BIG if it has more than LAYER_FILES_MAX files, or directories nested
 * deeper than anybody needs, -ENOSPC if the file system is nearly full, or -errno if nobody can say.
 */
int layer_room(const char *dir, const char *key, uint64_t limit, uint64_t *ret_bytes);

/**
 * layer_publish() - Give a layer its name
 * @dir: Of all layers
 * @key: Name
 * @form: What was made: out/tree or packed/layer.erofs
 * @limit: Most bytes of all layers, 0 for none: what was not used for longest has to go
 * @ret_bytes: Its size
 *
 * What it was made of is removed, also if this fails; then the rest is for layer_abandon().
 *
 * Return: 0, -EFBIG if it alone is larger than the limit, -E2BIG if it has too many files or is nested too
 * deep, -EBADMSG if what was made is not what it should be, or -errno, as if there is something in it
 * that may not be read.
 */
int layer_publish(const char *dir, const char *key, enum layer_form form, uint64_t limit,
		  uint64_t *ret_bytes);

/* Removes what was not used for longest, but for @key, until the rest has no more than @limit bytes; 0: no
 * limit. */
void layer_trim(const char *dir, const char *key, uint64_t limit);

/**
 * layer_usage() - What layers take on the disk
 * @dir: Of all layers
 * @most: Stop after about so many files; 0: never
 * @ret_n: How many layers there are
 * @ret_bytes: What they take, as far as it was counted
 *
 * Return: were all of them counted?
 */
bool layer_usage(const char *dir, unsigned most, unsigned *ret_n, uint64_t *ret_bytes);

/* Removes what was begun. */
void layer_abandon(const char *dir, const char *key);

/* Removes what others have begun and never finished, unless somebody is at it now. */
void layer_clean(const char *dir);

#endif
