/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of a channel: what one of them has another do. */
#ifndef XSBX_VM_GUEST_CHANNEL_INTERNAL_H
#define XSBX_VM_GUEST_CHANNEL_INTERNAL_H

#include "channel.h"

#define CHANNEL_PARTS_MAX 6u

/* Some bytes of a record of the link. */
struct channel_part {
	const uint8_t *bytes;
	size_t len;
	bool held; /* they are on a sheet; else in `data` of the record */
};

/* A record of the link without its header. */
struct channel_fixed {
	STAILQ_ENTRY(channel_fixed) link;
	size_t len;
	struct channel_part part[CHANNEL_PARTS_MAX];
	unsigned nparts, nheld;
	bool full;
	size_t ndata;			 /* bytes of `data` */
	struct sheets *sheets;		 /* those of what is held */
	struct channel_written written;	 /* only if nothing is held */
	uint32_t done[CHANNEL_NCLASSES]; /* frames that end in it */
	uint8_t data[LINK_DATA_MAX];
};

/* Bytes that are rather left where they are than copied. */
#define CHANNEL_LONG 4096u

/* Is all that follows from what is read said later? */
static inline bool channel_in_turns(const struct channel *ch)
{
	return turn_is_on(ch->scratch->turn);
}

/* What is recorded of it changes. */
static inline void channel_touch(struct channel *ch)
{
	if (channel_in_turns(ch) && ch->events->touched)
		ch->events->touched(ch->data);
}

/* ---- channel_send.c ---- */

void channel_send_init(struct channel *ch);

/* A record that another process has fixed: an empty one, which is filled by channel_fix_bytes().
 * Return: NULL if out of memory. */
struct channel_fixed *channel_add_fixed(struct channel *ch);

/* Puts bytes behind those of a record, which are held if they are on a sheet; @sheets: or NULL.
 * Return: does it take as many? Then all. */
bool channel_fix_bytes(struct channel_fixed *x, struct sheets *sheets, const void *bytes,
		       size_t len);

/* Writes what may be said and the socket takes. Return: 0; -EAGAIN or -ENOMEM if that was not all;
 * or -errno. */
int channel_flush(struct channel *ch);

/* Polls for what there is to be done now. */
void channel_poll_again(struct channel *ch);

/* It is writable. Return: as channel_flush(). */
int channel_on_writable(struct channel *ch);

#endif
