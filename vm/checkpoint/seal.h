/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed data: encrypted with a key of the host's, and nothing else than what was sealed is taken
 * for it. */
#ifndef XSBX_VM_CHECKPOINT_SEAL_H
#define XSBX_VM_CHECKPOINT_SEAL_H

#include <stddef.h>

#include "vm/base/buf.h"
#include "vm/base/sink.h"

#define SEAL_KEY  32u /* bytes */
#define SEAL_NAME 33  /* characters of seal_name(), with the terminator */

struct seal_key;

/* @bytes: copied; the caller's are his to clear, see seal_clear(). The copy is in memory that is
 * not swapped, where that is allowed, and in no core dump. Return: 0, -ENOMEM, or another
 * -errno. */
int seal_key_new(const unsigned char bytes[SEAL_KEY], struct seal_key **ret_key);

/* Clears it; @key may be NULL. Return: NULL. */
struct seal_key *seal_key_free(struct seal_key *key);

/* Overwrites secrets, in a way that no compiler leaves out. */
void seal_clear(void *secret, size_t len);

/* A name for what has this content, of which nothing can be told without the key. Return: 0 or
 * -ENOMEM. */
int seal_name(const struct seal_key *key, const char *content, char ret_hex[SEAL_NAME]);

/*
 * What is sealed is for one purpose, @what, which is not in the result: it has to be the same when
 * it is opened, so that a sealed file that was put into the place of another one is not taken for
 * it. Long texts and any bytes may be in it.
 *
 * Whatever opens sealed data returns -EBADMSG if it is none, is damaged, cut off, or sealed for
 * something else; -EKEYREJECTED if it was sealed with another key; and -EPROTONOSUPPORT if it is of
 * another version, or says so because it is damaged.
 */

/* What most are for: a file, and of what it is. */
struct seal_purpose {
	char text[128];
};

struct seal_purpose seal_purpose(const char *file, const char *of);

/* Appends it to @out, sealed. Return: 0 or -errno. */
int seal_bytes(const struct seal_key *key, const char *what, const void *data, size_t len,
	       struct buf *out);
int unseal_bytes(const struct seal_key *key, const char *what, const void *data, size_t len,
		 struct buf *out);

struct sealer;

/**
 * sealer_new() - Begin to seal a stream
 * @key: Only used in this call
 * @what: See above
 * @to: Where it goes; used until sealer_free()
 * @ret_sealer: Result
 *
 * What was written is all there after sealer_end() only. Return: 0 or -errno.
 */
int sealer_new(const struct seal_key *key, const char *what, struct sink *to,
	       struct sealer **ret_sealer);
struct sink *sealer_sink(struct sealer *s);
/* That was all. Return: 0 or -errno. */
int sealer_end(struct sealer *s);
/* @s may be NULL. Return: NULL. */
struct sealer *sealer_free(struct sealer *s);

struct unsealer;

/* Likewise, of a stream that comes from @from. What is read from the source is true, but that it is
 * whole is known only when it has ended. */
int unsealer_new(const struct seal_key *key, const char *what, struct source *from,
		 struct unsealer **ret_unsealer);
struct source *unsealer_source(struct unsealer *u);
struct unsealer *unsealer_free(struct unsealer *u);

#endif
