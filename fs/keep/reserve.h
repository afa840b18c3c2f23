/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the disk of the state directory that is kept free for records. */
#ifndef XSBX_FS_KEEP_RESERVE_H
#define XSBX_FS_KEEP_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#define RESERVE_BYTES (1u << 20)

/*
 * A record says what is lost of a session, and why; so it has to get to a disk that is full as well. There is a file that has some
 * room: it goes when a record can't be written otherwise, and comes back, as large as may be, when that was written.
 */
struct reserve {
	bool known;    /* it was looked for */
	bool none;     /* the disk can't do that */
	bool lacks;    /* it is not as large as it should be: there is no room */
	int err;       /* why it was needed, until it is as large again as it should be; 0 */
	uint64_t held; /* bytes */
};

/* Is it one for which there is a reserve? */
bool reserve_is_for(int err);
/* Makes it, or makes it larger, in the directory @dir. Blocks. */
void reserve_fill(struct reserve *r, int dir);
/* It goes, because of @err. Blocks. Return: is there more room now? */
bool reserve_release(struct reserve *r, int dir, int err);

#endif
