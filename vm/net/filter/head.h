/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an HTTP message: its fields, as they came and as they go on. */
#ifndef XSBX_VM_NET_FILTER_HEAD_H
#define XSBX_VM_NET_FILTER_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/buf.h"

#define HEAD_MAX	32768 /* bytes of a request line and fields */
#define HEAD_FIELDS_MAX 128

struct head_field {
	uint32_t name, value; /* where they begin in `text`; both terminated */
	uint16_t name_len;
	bool gone;
	uint32_t value_len;
};

/*
 * All zeroes is an empty head. `text` has everything one after the other; what was replaced stays in it.
 *
 * - `first` is the target of a request, or the reason phrase of an answer.
 */
struct head {
	struct buf text, first;
	struct head_field field[HEAD_FIELDS_MAX];
	unsigned n;
	bool in_value; /* the last field's value has begun: see head_add_name() */
};

void head_clear(struct head *h);

/* What a parser has found, piece by piece: of the first line, of a field's name, of its value. Return: 0, -E2BIG, -EINVAL for a
 * character that no name or value has, -ENOMEM. */
int head_add_first(struct head *h, const char *p, size_t len);
int head_add_name(struct head *h, const char *p, size_t len);
int head_add_value(struct head *h, const char *p, size_t len);

/* Adds a field. Return: as above. */
int head_add(struct head *h, const char *name, const char *value);

/* All has come: blanks behind values go. */
void head_end(struct head *h);

/* The index of the first field of this name from @from on, in whatever case, or -1. */
int head_find(const struct head *h, const char *name, unsigned from);

/* The value of the only field of this name; NULL if there is none, or more than one. */
const char *head_value(const struct head *h, const char *name);

const char *head_name_of(const struct head *h, unsigned i);
const char *head_value_of(const struct head *h, unsigned i);

/* Replaces the value of field @i. Return: as head_add_value(). */
int head_put_value(struct head *h, unsigned i, const char *value, size_t len);

/* Removes all fields of this name. */
void head_remove(struct head *h, const char *name);

/* Does a field of this name have @token in its list, in whatever case? */
bool head_has_token(const struct head *h, const char *name, const char *token);

/* Writes all fields as HTTP/1 has them, and the empty line. Return: 0 or -ENOMEM. */
int head_print(const struct head *h, struct buf *out);

/* Where the next byte of a head is, for head_has_no_folds(). */
enum head_lines { AT_START, IN_LINE, LINE_BEGAN, HEAD_IS_OVER };

/* Lines that begin with a blank go on with the one before, for some readers: http_parser is one of them. @at: AT_START before the
 * first byte; the head is looked at as it comes, and what follows it is not. Return: is there none? */
bool head_has_no_folds(enum head_lines *at, const char *bytes, size_t len);

/* Is the body framed in a way of which there are two readings, or by a coding that nobody here knows? */
bool head_is_framed_oddly(const struct head *head);

/* The framing is ours, whoever made it before: in chunks, or of @length bytes, or neither if that is UINT64_MAX. Nor does any field
 * concern the connection alone but those that are ours. @old: it is HTTP/1.0. Return: as head_add(); without what did not fit the
 * message would be another one. */
int head_put_framing(struct head *h, bool chunked, uint64_t length);
int head_put_connection(struct head *h, bool websocket, bool keeps, bool old);

#endif
