/* SPDX-License-Identifier: Apache-2.0 */
/* Saved sandboxes: files, and if it was a machine its memory. Part of vm.h. */
#ifndef XSBX_VM_CHECKPOINT_SAVED_H
#define XSBX_VM_CHECKPOINT_SAVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>
#include <uv/tree.h>

#include "pack.h"
#include "vm/base/digest.h"

struct machine;
struct point;
struct saved;
struct vault;
struct wait;

#define SAVED_ID_MAX 33 /* hexadecimal, with the terminator */

/* What the vault does for one that is on a disk. */
struct saved_ops {
	void (*load)(struct saved *s, bool memory, struct wait *w);
	void (*unload)(struct saved *s);
	void (*derived)(struct saved *s); /* there is one more, whose files are those of `of` */
	void (*freed)(struct saved *s);	  /* nobody has a reference any more */
};

/*
 * A sandbox as it was at a moment between two runs. It does not change; any number of sandboxes may
 * begin from it (struct sandbox_spec, `from`). It is in memory, or on a disk (vault.h), or both:
 * what is on the disk is loaded when it is needed, and unloaded when the memory is. There are many
 * that are not loaded: such a one is this struct and nothing else.
 *
 * - Without a vault `pack` is always there, and `point` if `memory`.
 * - With an `id` it is on the disk by that name. With `of` it is the files of that one, without its
 *   memory.
 * - Only saved.c and the vault look into it.
 */
struct saved {
	unsigned refs;
	bool memory;	     /* it has a machine's memory */
	bool loading;	     /* by a worker thread */
	bool listed;	     /* it is in the vault's list of what is loaded */
	bool damaged;	     /* its files were found not to be what was written */
	struct pack *pack;   /* its files; NULL: not loaded */
	struct point *point; /* memory and devices; NULL: not loaded, or none */
	uint64_t files_bytes, memory_bytes, disk_bytes, base_bytes;
	struct timespec mtime; /* of its working directory */
	struct pack_flaws flaws;
	struct machine
		*machine; /* what its memory depends on, shared; NULL: not known, or no memory */

	const struct saved_ops *ops; /* or NULL: it is in memory alone */
	struct vault *vault;
	struct saved *of;
	char id[SAVED_ID_MAX];
	char base[DIGEST_HEX]; /* the sum of its memory's base; "": not on the disk, or no memory */
	TAILQ_ENTRY(saved) used; /* while it is loaded and on the disk */
	uint64_t number;	 /* see saved_set_number() */
	bool changed;
	bool headless; /* it is damaged, as is what was known of it: see vault_stand_in() */
	TAILQ_ENTRY(saved) otherwise; /* while it is `changed` */
	RB_ENTRY(saved) by_id;
};

/* Takes over both references. Return: NULL if out of memory; they are dropped then. */
struct saved *saved_new(struct pack *pack, struct point *point);

/* Return: the files of @s without its memory, with a reference; NULL if out of memory. */
struct saved *saved_files_only(struct saved *s);

struct saved *saved_ref(struct saved *s);

/* Drops a reference; @s may be NULL. Return: NULL. */
struct saved *saved_unref(struct saved *s);

/* Its name on the disk, or NULL. */
const char *saved_id(const struct saved *s);

/* The name on the disk of that whose files it is, or NULL: it is not made by saved_files_only(), or on the disk by now. */
const char *saved_files_of(const struct saved *s);

/* Was it found to be damaged on the disk, so that not even its files can be had? Somebody may mend that: it is so until it was
 * read once more. */
bool saved_is_damaged(const struct saved *s);

/* Does it have a machine's memory, wherever that is? */
bool saved_has_memory(const struct saved *s);

/**
 * saved_need() - What of a machine its memory depends on, whether it is loaded or not
 * @s: What was saved
 * @word: First word of a line of what it is described by (backend_ops.describe)
 * @ret_text: The rest of that line, printable; cut off if it is longer
 * @size: Of that
 *
 * Known of what may go to a disk; else it goes on where it was. Return: whether there is such a line.
 */
bool saved_need(const struct saved *s, const char *word, char *ret_text, size_t size);

/* For the vault: by that its memory was described on the disk. Without memory for it, it is not known. */
void saved_describe(struct saved *s, const char *text, size_t len);

/* What is loaded of it, or NULL. Who goes on using it after he has returned to the loop takes a
 * reference. */
struct pack *saved_pack(const struct saved *s);
struct point *saved_point(const struct saved *s);

/* Is all of it in memory? */
bool saved_is_loaded(const struct saved *s);

/* Loads all of it, or its files alone, if that is not there yet; @w is told from the loop. If its
 * memory can't be had, but its files can, they are there although there is a problem. */
void saved_load(struct saved *s, struct wait *w);
void saved_load_files(struct saved *s, struct wait *w);

/* One that is on the disk need not be in memory any more. Who has references to its parts goes on. */
void saved_unload(struct saved *s);

/* When its working directory was changed last. */
struct timespec saved_mtime(const struct saved *s);

/* What its files lack. */
struct pack_flaws saved_flaws(const struct saved *s);

/*
 * For who writes records of them: its number, 0 at first; who has one is noted when what
 * saved_put() would say of it has changed.
 */
void saved_set_number(struct saved *s, uint64_t number);
uint64_t saved_number(const struct saved *s);
/* What was noted, each once; NULL: that was all. */
struct saved *saved_next_changed(void);
/* Calls @gone for each that has a number, when it is freed. NULL: no more. */
void saved_watch(void (*gone)(void *data, uint64_t number), void *data);
/* For the vault: it is on the disk now. */
void saved_has_changed(struct saved *s);
/* For the vault: its files were read, and are whole, or are not. */
void saved_set_damaged(struct saved *s, bool damaged);

/* Its size when it is loaded, of files and of memory; and what it takes of a disk, or else of
 * memory. */
uint64_t saved_files_bytes(const struct saved *s);
uint64_t saved_memory_bytes(const struct saved *s);
uint64_t saved_bytes(const struct saved *s);

/* What the memory that its machine began from takes of the disk, once for all whose base compares equal. 0: nothing. */
uint64_t saved_base_bytes(const struct saved *s);
int saved_compare_bases(const struct saved *a, const struct saved *b);

/* Attaches what was loaded; takes over the references, of which either may be NULL. */
void saved_attach(struct saved *s, struct pack *pack, struct point *point);
/* Lets go of what is loaded. */
void saved_detach(struct saved *s);

/* Of all there are: bytes in memory, and how many machines. */
struct saved_load {
	uint64_t bytes;
	unsigned points;
};

struct saved_load saved_in_memory(void);

#endif
