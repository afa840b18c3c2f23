/* SPDX-License-Identifier: Apache-2.0 */
/* The host's end of the connection to an agent: whole frames in and out, on the loop. */
#ifndef XSBX_VM_GUEST_CHANNEL_H
#define XSBX_VM_GUEST_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "agent/protocol.h"

/* The longest payload an agent has reason to send. */
#define CHANNEL_PAYLOAD_MAX (PROTO_DATA_MAX + 4096u)

/* A frame to be sent. Belongs to whoever made it until channel_push(). */
struct channel_frame {
	STAILQ_ENTRY(channel_frame) link;
	size_t len, sent; /* bytes of `wire` */
	bool *started;	  /* if not NULL: set once any byte has left */
	struct proto_header header;
	struct proto_out out; /* the payload is written here */
	uint8_t wire[];
};

STAILQ_HEAD(channel_queue, channel_frame);

/* Control frames overtake bulk frames; each class keeps its order. */
enum channel_class { CHANNEL_CONTROL, CHANNEL_BULK, CHANNEL_NCLASSES };

struct channel_events {
	/* A frame of the current generation. Anything but 0 ends the connection with that error,
	 * -ECANCELED without a word. Must not close the channel: @in leads into its memory. */
	int (*frame)(void *data, const struct proto_header *h, struct proto_in *in);
	/* The connection is over, once: 0 for the far end's end of file, or -errno. */
	void (*lost)(void *data, int err);
	/* Half of what was queued in the bulk class has gone, or all of it. */
	void (*drained)(void *data);
};

/* Room to read into, shared by all channels of a loop: none needs it between two turns. */
struct channel_scratch {
	uint8_t bytes[256u << 10];
};

/*
 * - Embedded by its owner, zeroed before channel_open(), kept until channel_close()'s callback.
 * - Callbacks only come from the loop, none after channel_close().
 * - `partial` holds the beginning of a frame, never a whole one.
 */
struct channel {
	uv_poll_t poll;
	int fd;
	uint8_t generation;
	bool open, lost; /* `lost`: nothing is read or written any more */
	const struct channel_events *events;
	void *data;
	struct channel_scratch *scratch;
	uint8_t *partial;
	size_t partial_len, partial_cap;
	struct channel_frame *current; /* partly sent */
	struct channel_queue queue[CHANNEL_NCLASSES];
	size_t queued[CHANNEL_NCLASSES]; /* bytes, without `current` */
	size_t high;			 /* most bytes of bulk since it was empty or `drained` */
	void (*closed)(void *data);
};

/* Takes @fd, a stream socket, also on failure. Return: 0 or -errno. */
int channel_open(struct channel *ch, uv_loop_t *loop, int fd, struct channel_scratch *scratch,
		 const struct channel_events *events, void *data);

/* Has the far end gone, also if the loop has not come to notice it? */
bool channel_hung_up(const struct channel *ch);

/* Drops what is queued; @closed is called once, with the channel's data, from the loop. */
void channel_close(struct channel *ch, void (*closed)(void *data));

/**
 * channel_frame_new() - Begin a frame
 * @type: enum proto_type
 * @id: Run or request
 * @payload_max: Room for the payload, which is then written through the frame's `out`
 *
 * Return: The frame, or NULL for want of memory.
 */
struct channel_frame *channel_frame_new(enum proto_type type, uint32_t id, size_t payload_max);
void channel_frame_free(struct channel_frame *f);

/* Sends a frame, which is the channel's from now on, as soon as its turn comes. */
void channel_push(struct channel *ch, struct channel_frame *f, enum channel_class cl);

/* A frame with @len bytes of payload, for the simple cases. Return: 0 or -ENOMEM. */
int channel_send(struct channel *ch, enum proto_type type, uint32_t id, const void *payload,
		 size_t len);

/* Likewise a number. */
int channel_send_u32(struct channel *ch, enum proto_type type, uint32_t id, uint32_t n);

/**
 * channel_feed() - Take bytes as if they had been read
 * @ch: Channel
 * @bytes: From the agent, so anything
 * @len: How many
 *
 * Return: 0, or -errno for which the connection has to end.
 */
int channel_feed(struct channel *ch, const uint8_t *bytes, size_t len);

#endif
