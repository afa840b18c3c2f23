/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are added at the end and go at the beginning, and what is written down of them already. */
#ifndef XSBX_FS_REQUEST_TRAIL_H
#define XSBX_FS_REQUEST_TRAIL_H

#include <stdint.h>

/*
 * Embedded beside such bytes, zeroed. They have positions, counted since there were any, or since they were others: then `of` is
 * another number. So only what is new has to be written. See fs/handover/texts.c.
 */
struct trail {
	uint64_t id;	     /* of its records; 0: there are none */
	uint64_t of;	     /* which bytes these are */
	uint64_t begin, end; /* written: from where, up to where */
	uint32_t npieces;    /* in so many records */
};

#endif
