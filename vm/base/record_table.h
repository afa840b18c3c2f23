/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a struct as fields of a record, by a table. */
#ifndef XSBX_VM_BASE_RECORD_TABLE_H
#define XSBX_VM_BASE_RECORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* One member: bool, or an unsigned integer or enum of 2, 4 or 8 bytes. */
struct record_member {
	uint8_t tag; /* never used for something else */
	uint8_t size;
	uint16_t at;
	uint64_t max; /* that is believed */
};

/* Of @type, as in: RECORD_MEMBER(struct exec, id, TAG_ID, UINT32_MAX). */
#define RECORD_MEMBER(type, member, tag, max)                                               \
	{                                                                                   \
		(tag), sizeof(((type *)0)->member), (uint16_t)offsetof(type, member), (max) \
	}

/* Appends all that are not 0. */
void record_put_members(struct buf *out, const void *object, const struct record_member *table,
			size_t n);

/* Stores a field, if the table has it. Return: 1, 0 if it has not, or -EBADMSG for a number that is
 * too large. */
int record_take_member(const struct record_field *f, void *object,
		       const struct record_member *table, size_t n);

#endif
