/* SPDX-License-Identifier: Apache-2.0 */
/* Links: the bytes between host and agent as numbered records, so that a new host can go on where
 * another one ended. */
#ifndef XSBX_AGENT_LINK_H
#define XSBX_AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * Below the frames of protocol.h, in both directions, is a stream of records: {u32 len, u32
 * number}, then `len` bytes of frames, which are cut anywhere. All of a record is at most
 * LINK_RECORD_MAX bytes: what a virtio port takes at once, and a UNIX socket as a whole or not at
 * all.
 *
 * A host may end at any moment, with another one in its place on the same socket. Sockets lose
 * nothing, so the only questions are what it has sent, and what it has handled. It sends a record
 * that may have been sent already once more, and the receiver drops what it has: numbers rise by
 * one, and one that is not new is passed over. What it has handled it knows by the number of the
 * last record that it took, and where in it that ended.
 *
 * Number 0 is the first that a sender ever sends, and begins anew; behind UINT32_MAX comes 1. A
 * receiver that has received nothing yet takes any number: a copy of a machine goes on counting
 * where the machine was copied, for a host that has just begun.
 *
 * A number that leaves some out, or an impossible length, is -EPROTO: streams don't lose anything.
 */

#define LINK_HEADER	8u
#define LINK_RECORD_MAX 32768u
#define LINK_DATA_MAX	(LINK_RECORD_MAX - LINK_HEADER)

/* What was received. Zeroed at first. */
struct link_in {
	uint32_t number; /* of the last record that has begun */
	bool begun;	 /* there was one */
	bool twice;	 /* its bytes are dropped: they came before */
	uint32_t left;	 /* of its bytes: they have not come yet */
	uint32_t nhead;	 /* bytes of the next one's header that have come */
	uint8_t head[LINK_HEADER];
};

/* What was sent. Zeroed at first. */
struct link_out {
	uint32_t next; /* the number of the next record */
};

/**
 * link_take() - Take bytes as they were received
 * @l: What was received before
 * @bytes: What comes now; in its place stay the bytes that the records have, without headers
 * @len: How many
 *
 * Return: how many are left, or -EPROTO.
 */
ssize_t link_take(struct link_in *l, uint8_t *bytes, size_t len);

/* The sender is gone, and with it the rest of the record that it was in. */
void link_cut(struct link_in *l);

/**
 * link_head() - Begin the next record
 * @l: What was sent before
 * @len: Bytes that it will have, 1 to LINK_DATA_MAX
 * @ret_head: Its header
 */
void link_head(struct link_out *l, size_t len, uint8_t ret_head[LINK_HEADER]);

/** link_has_sent() - Was one with this number among the last that were sent? */
bool link_has_sent(const struct link_out *l, uint32_t number);

#endif
