/* SPDX-License-Identifier: Apache-2.0 */
/* A channel in a record: what was received and not handled, what is to be sent, and the numbers of
 * both. */
#ifndef XSBX_VM_GUEST_CHANNEL_RECORD_H
#define XSBX_VM_GUEST_CHANNEL_RECORD_H

#include <stdbool.h>

#include "channel.h"
#include "vm/base/fdbag.h"
#include "vm/base/record.h"

struct estate;

/* Appends the fields of an open channel; that it is held is not among them. */
void channel_put(const struct channel *ch, struct buf *out, struct fdbag *fds);

/*
 * What else a guest has that is much, and of which little changes at a time, may have records of its
 * own as well: ESTATE_CHANNEL_BYTES with this key, and a sub of CHANNEL_SUB_OWN and less than that.
 */
#define CHANNEL_SUB_OWN (1ull << 62)

/* Where they are put, beside channel_put(). Return: NULL: nowhere, and all goes with the others. */
struct estate *channel_estate(const struct channel *ch, struct fdbag *fds, uint64_t *ret_key);

/* Does this field follow late? What is sent to an agent is not taken out of a record that is
 * written already: it is sent again then, and the agent drops it. See channel.h. */
bool channel_field_is_late(unsigned tag);

/**
 * channel_take() - Open a channel as another process had it
 * @ch: Channel, zeroed
 * @r: Fields
 * @fds: Its descriptor among them
 *
 * The rest as for channel_open(). Nothing is read or written before channel_go().
 *
 * Return: 0, -EBADMSG, or -errno; on failure it is not open.
 */
int channel_take(struct channel *ch, struct record_reader r, struct fdbag *fds, uv_loop_t *loop,
		 struct channel_scratch *scratch, const struct channel_events *events, void *data);

#endif
