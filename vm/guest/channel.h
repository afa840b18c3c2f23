/* SPDX-License-Identifier: Apache-2.0 */
/* The host's end of the connection to an agent: whole frames in and out, on the loop. */
#ifndef XSBX_VM_GUEST_CHANNEL_H
#define XSBX_VM_GUEST_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "agent/link.h"
#include "agent/protocol.h"
#include "halves.h"
#include "vm/base/turn.h"

/* The longest payload that an agent may send. */
#define CHANNEL_PAYLOAD_MAX (PROTO_DATA_MAX + 4096u)

/* Bytes that are a record of their own: its name. Key 0: they are not. */
struct channel_written {
	uint64_t key, sub;
};

struct sheets;

/*
 * A frame to be sent. Owned by its creator until channel_push(); else channel_frame_free() ends it.
 * Its last bytes may be on a sheet, which it holds; the others are in `wire`.
 */
struct channel_frame {
	STAILQ_ENTRY(channel_frame) link;
	size_t len, sent; /* bytes of all */
	const uint8_t *tail;
	size_t ntail;
	struct sheets *sheets;
	uint64_t ticket; /* of its class */
	struct channel_written written;
	struct proto_header header;
	struct proto_out out; /* the payload is written here */
	uint8_t wire[];
};

STAILQ_HEAD(channel_queue, channel_frame);

/* Room for bytes that are said as one record of the link, and as no other, by whomever. */
struct channel_fixed;

STAILQ_HEAD(channel_fixed_list, channel_fixed);

#define CHANNEL_FIXED_MAX 4u

/* Control frames overtake bulk frames; each class keeps its order. */
enum channel_class { CHANNEL_CONTROL, CHANNEL_BULK, CHANNEL_NCLASSES };

struct channel_events {
	/* A frame of the current generation. Any result but 0 ends the connection with that error,
	 * -ECANCELED silently. Must not close the channel: @in points into its memory. */
	int (*frame)(void *data, const struct proto_header *h, struct proto_in *in);
	/* The connection has ended, once: 0 for end of file from the peer, or -errno. */
	void (*lost)(void *data, int err);
	/* Half of the queued bulk frames have been sent, or all of them. */
	void (*drained)(void *data);
	/* A frame that ends leases is about to be queued: what is pushed as CONTROL now, goes
	 * before it. May be NULL. */
	void (*stirs)(void *data);
	/* A frame of this enum proto_type is about to be queued: what is pushed as CONTROL now,
	 * goes before it. May be NULL. */
	void (*pushes)(void *data, unsigned type);
	/* With a turn: what channel_put() writes has changed, or is about to. May be NULL. */
	void (*touched)(void *data);
};

/* What all channels of a loop share. Zeroed at first. */
struct channel_scratch {
	struct turn *turn; /* or NULL: everything is said at once */
	/* By a daemon before this one: where its channels' records are; or NULL. */
	struct estate *left;
	struct halves halves;	   /* those that wait for the rest of a record */
	uint8_t bytes[256u << 10]; /* read buffer: none keeps data in it across iterations */
};

/*
 * - Embedded by its owner, zeroed before channel_open(), kept until channel_close()'s callback.
 * - Callbacks only come from the loop, but `pushes`, `stirs` and `touched`, which come from
 *   channel_push(), too; none after channel_close().
 * - `partial` holds the beginning of a frame, never a whole one.
 * - What is in `fixed` is not in the queues any more.
 * - `peeked` is not 0 only where its bytes will be taken away at the end of this turn.
 */
struct channel {
	uv_poll_t poll;
	int fd;
	uint8_t generation;
	bool open, lost; /* `lost`: nothing more is read or written */
	uv_poll_cb ready;
	int polled; /* UV_READABLE and UV_WRITABLE, as far as it is */
	bool waits; /* neither is anything before channel_go() */
	const struct channel_events *events;
	void *data;
	struct channel_scratch *scratch;
	struct link_in from;
	struct link_out to;
	size_t peeked; /* bytes that were handled, and are still in the socket */
	bool cut;      /* behind them is a part of a record, for whose rest it waits: */
	struct half half;
	struct turn_speaker speaks, consumes;
	uint8_t *partial;
	size_t partial_len, partial_cap;
	struct channel_fixed_list fixed; /* what is sent next; the first has the number of `to` */
	struct channel_fixed *adding;	 /* the last of them, where more may be added; or NULL */
	unsigned nfixed, nwritten; /* how many; and that may be sent, for an heir knows of them */
	size_t fixed_max;	   /* bytes that the socket takes at once */
	struct channel_frame *current; /* a part of it is in records */
	bool held;		       /* by channel_hold() */
	struct channel_queue queue[CHANNEL_NCLASSES];
	struct channel_queue later[CHANNEL_NCLASSES]; /* pushed while it is held */
	size_t queued[CHANNEL_NCLASSES];	      /* bytes, without `current` */
	size_t high;			    /* most bytes of bulk since it was empty or `drained` */
	uint64_t tickets[CHANNEL_NCLASSES]; /* frames so far */
	/* Those of which all was sent, or may have been, by the process before. */
	uint64_t sent[CHANNEL_NCLASSES];
	uint32_t commands; /* frames that were pushed and end leases: proto_keeps_lease() */
	void (*closed)(void *data);
};

/* Takes ownership of @fd, a stream socket, even on failure. Return: 0 or -errno. */
int channel_open(struct channel *ch, uv_loop_t *loop, int fd, struct channel_scratch *scratch,
		 const struct channel_events *events, void *data);

/* The same in steps: everything but its descriptor, then that. And: frees what it has, if it was
 * not opened. */
void channel_init(struct channel *ch, struct channel_scratch *scratch,
		  const struct channel_events *events, void *data);
int channel_start(struct channel *ch, uv_loop_t *loop, int fd);
void channel_drop(struct channel *ch);

/* One that waits begins to read and write. */
void channel_go(struct channel *ch);

/* Has the peer hung up, even if the loop has not noticed yet? */
bool channel_hung_up(const struct channel *ch);

/* Drops queued frames; @closed is called once, with the channel's data, from the loop. */
void channel_close(struct channel *ch, void (*closed)(void *data));

/**
 * channel_frame_new() - Begin a frame
 * @type: enum proto_type
 * @id: Run or request
 * @payload_max: Room for the payload, which is then written through the frame's `out`
 *
 * Return: the frame, or NULL if out of memory.
 */
struct channel_frame *channel_frame_new(enum proto_type type, uint32_t id, size_t payload_max);

/* NULL is fine. */
void channel_frame_free(struct channel_frame *f);

/* Bytes of its payload. */
size_t channel_frame_size(const struct channel_frame *f);

/* Puts @len bytes at the end of its payload, where they are if they are on a sheet that stays as it
 * is; @sheets: or NULL. */
void channel_frame_add(struct channel_frame *f, struct sheets *sheets, const void *bytes,
		       size_t len);

/* Return: the sheets on which bytes may lie that are to be sent; NULL: none is written down, or
 * there are none. */
struct sheets *channel_sheets(const struct channel *ch);

/* Queues a frame for sending; the channel owns it from now on. Return: a ticket for
 * channel_has_sent(), 0 if it was dropped. */
uint64_t channel_push(struct channel *ch, struct channel_frame *f, enum channel_class cl);

/* Sends nothing of what is pushed from now on; what was pushed before still goes out. Or sends all
 * of it. */
void channel_hold(struct channel *ch, bool hold);

/* Was all of this frame sent? Only then can the agent answer it. */
bool channel_has_sent(const struct channel *ch, uint64_t ticket);

/* Sends a frame with @len bytes of payload. Return: 0 or -ENOMEM. */
int channel_send(struct channel *ch, enum proto_type type, uint32_t id, const void *payload,
		 size_t len);

/* Likewise with a number as payload. */
int channel_send_u32(struct channel *ch, enum proto_type type, uint32_t id, uint32_t n);

/**
 * channel_feed() - Process bytes of frames as if records with them had been read
 * @ch: Channel
 * @bytes: From the agent: not trusted
 * @len: How many
 *
 * Return: 0, or -errno: the connection has to end with that error.
 */
int channel_feed(struct channel *ch, const uint8_t *bytes, size_t len);

/* A record of its own has no use any more, see channel_record.h. */
void channel_unwrite(struct channel *ch, const struct channel_written *w);

/* What is recorded beside it changes, though no frame comes or goes. */
void channel_note(struct channel *ch);

#endif
