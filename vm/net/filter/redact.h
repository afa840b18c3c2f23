/* SPDX-License-Identifier: Apache-2.0 */
/* Takes secrets out of a stream of bytes, wherever it is cut into pieces. */
#ifndef XSBX_VM_NET_FILTER_REDACT_H
#define XSBX_VM_NET_FILTER_REDACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct secret_value;

#define REDACT_VALUES_MAX 64

/* What is looked for. All zeroes is nothing. */
struct redact_set {
	struct secret_value *value[REDACT_VALUES_MAX];
	unsigned n;
	size_t longest; /* of all forms */
	uint8_t pairs
		[512]; /* bits: may a form begin with these two bytes? By redact.c's sum of them */
};

/* Adds a value, if it is a new one, and a reference to it. It may be done while streams are on their way. Return: 0, -ENOSPC. */
int redact_set_add(struct redact_set *set, struct secret_value *value);
void redact_set_fini(struct redact_set *set);

/* In place. Return: was there something? */
bool redact_text(const struct redact_set *set, void *text, size_t len);

/*
 * One stream. All zeroes, but for `set`, `emit` and `data`, is a valid one. What is found is replaced by its label, cut off or
 * filled up with `*` to the same length.
 *
 * - `raw` has what was said, as far as a form may begin in it that is not known to be whole; `out` what goes on instead.
 * - `done` is the first place of it at which nothing was looked for.
 * - `sent` bytes of `out` have gone on before they had to, in redact_flush().
 */
struct redact {
	const struct redact_set *set;
	void (*emit)(void *data, const void *bytes, size_t len);
	void *data;
	uint8_t *raw, *out;
	size_t len, cap, done, sent;
};

/* Takes the next bytes, and emits all in which no form can end any more. Return: 0 or -ENOMEM. */
int redact_feed(struct redact *r, const void *bytes, size_t len);

/* Emits all that is held back. What a form that ends later has begun with has gone then; the rest of it is still taken out. */
void redact_flush(struct redact *r);

/* It is the end: emits all, and begins anew. */
void redact_finish(struct redact *r);

/* Frees it, with all that is held back. */
void redact_fini(struct redact *r);

/* Is something held back? */
static inline bool redact_holds(const struct redact *r)
{
	return r->len > r->sent;
}

#endif
