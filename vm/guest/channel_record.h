/* SPDX-License-Identifier: Apache-2.0 */
/* A channel in a record: what was received and not handled, what is to be sent, and the numbers of
 * both. */
#ifndef XSBX_VM_GUEST_CHANNEL_RECORD_H
#define XSBX_VM_GUEST_CHANNEL_RECORD_H

#include <stdbool.h>

#include "channel.h"
#include "vm/base/fdbag.h"
#include "vm/base/record.h"

/* Appends the fields of an open channel; that it is held is not among them. */
void channel_put(const struct channel *ch, struct buf *out, struct fdbag *fds);

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
