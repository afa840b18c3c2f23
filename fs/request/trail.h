/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are added at the end and go at the beginning, and which of them are written down. */
#ifndef XSBX_FS_REQUEST_TRAIL_H
#define XSBX_FS_REQUEST_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Embedded beside such bytes, zeroed. Each of them has a position, which is counted from the first
 * there ever was. So only what is new has to be written: see fs/handover/texts.c.
 */
struct trail {
	uint64_t id;	     /* of its records; 0: there are none */
	uint64_t begin, end; /* written: from where, up to where */
	uint32_t npieces;    /* in so many records */
	bool others;	     /* some of what was written is otherwise now */
};

/* Not only the ends were changed, so that all of it has to be written. */
static inline void trail_changed(struct trail *t)
{
	t->others = true;
}

#endif
