/* SPDX-License-Identifier: Apache-2.0 */
/* The vault: what was saved, on a disk, sealed with a key of the host's. Part of vm.h. */
#ifndef XSBX_VM_CHECKPOINT_VAULT_H
#define XSBX_VM_CHECKPOINT_VAULT_H

#include <stddef.h>
#include <stdint.h>

#include "saved.h"

struct buf;
struct context;
struct problem;
struct seal_key;
struct vault;

#define VAULT_ID_MAX SAVED_ID_MAX

/* @err: 0 or -errno, with @why. */
typedef void (*vault_stored_fn)(void *data, int err, const struct problem *why);

/**
 * vault_store() - Write it to the disk
 * @v: Vault
 * @s: Is loaded, or has the files of one that is on the disk (saved_files_only())
 * @done: Called once, from the loop, when it is there and will be there after a power cut;
 *	saved_id() is its name then. If it could not be written, it is still in memory
 * @data: Its first argument
 *
 * What is on the disk already is not written again. If there is no memory for it, @done is called
 * at once.
 */
void vault_store(struct vault *v, struct saved *s, vault_stored_fn done, void *data);

/**
 * vault_find() - Find one that is on the disk, which is not loaded
 * @v: Vault
 * @id: Its name
 * @ret_s: Result, a reference
 * @why: On failure, in words; or NULL
 *
 * Reads a small file. Return: 0, -ENOENT, -EBADMSG if it is damaged, -EKEYREJECTED if it was sealed
 * with another key, -EPROTONOSUPPORT if it is of another version, or -errno.
 */
int vault_find(struct vault *v, const char *id, struct saved **ret_s, struct problem *why);

/**
 * vault_stand_in() - What stands for one that vault_find() finds to be damaged
 * @v: Vault
 * @id: Its name
 * @ret_s: Result, a reference
 *
 * Nothing can be read of it while the vault is open, and saved_is_damaged(). But it has its name, so that it can be named in what
 * is written, and is on the disk for as long as somebody has it: it may be mended there. Return: 0 or -ENOMEM.
 */
int vault_stand_in(struct vault *v, const char *id, struct saved **ret_s);

/* At the start: all that have none of these names are removed, and what was begun and never
 * finished. Until then another process may have the vault open as well. */
void vault_keep(struct vault *v, const char *const *ids, size_t n);

/*
 * What nobody has a reference to any more stays on the disk for a while, because it may be named in
 * what was written there before. Who writes such names: vault_mark() before he looks what to write,
 * vault_forget() with its result when all is on the disk. What had no reference at the mark is
 * removed then.
 */
uint64_t vault_mark(struct vault *v);
void vault_forget(struct vault *v, uint64_t mark);

/* In a daemon that goes on where another one ended, who has references to all that is named anywhere, or will be: what else there
 * is, and what was begun and never finished, goes likewise, for no other process has the vault open any more. */
void vault_find_orphans(struct vault *v);

/* Small pieces of data, with the same key; see seal_bytes(). @what: what it is for; it has to be
 * the same. They append to @out. Return: 0, -EBADMSG, -EKEYREJECTED, or -errno. */
int vault_seal(const struct vault *v, const void *data, size_t len, const char *what,
	       struct buf *out);
int vault_unseal(const struct vault *v, const void *data, size_t len, const char *what,
		 struct buf *out);

/* ---- for vm/ ---- */

/* Where the loader gets memory that others have as well, instead of from the disk. */
struct vault_ops {
	/* A sealed file that has this sum, see sparse_sum(). Return: a descriptor, which stays the
	 * callee's; or -1. */
	int (*base)(void *data, const char *sum);
	void *data;
};

/**
 * vault_open() - Open the vault, or make it
 * @ctx: Context
 * @state_dir: Directory that has it; only used during the call
 * @key: Taken over if all goes well
 * @ops: Copied
 * @ret_vault: Result
 * @why: On failure, in words
 *
 * Return: 0 or -errno.
 */
int vault_open(struct context *ctx, int state_dir, struct seal_key *key,
	       const struct vault_ops *ops, struct vault **ret_vault, struct problem *why);

/* Nothing new is begun: what is under way, or is removed, holds the context, and what else has not
 * begun fails. @v may be NULL. */
void vault_close(struct vault *v);

/* Drops it, when the context has ended; what was saved may outlive it. */
void vault_free(struct vault *v);

/* Bytes of memory that it has, beside those of saved_in_memory(). @v may be NULL. */
uint64_t vault_memory(const struct vault *v);

#endif
