/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: receives and sends frames. */
#ifndef XSBX_VM_NET_FILTER_NIC_H
#define XSBX_VM_NET_FILTER_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/buf.h"

enum nic_kind {
	NIC_STREAM, /* a stream socket; each frame after its length, four bytes, big-endian */
	NIC_PACKET, /* a datagram socket, or a TAP: each frame is one read or write */
};

/*
 * - `in` holds an incomplete frame; `out` holds frames that could not be written yet, each after
 *   its length. Both are empty, and use no memory, while the guest is quiet.
 */
struct nic {
	int fd;
	enum nic_kind kind;
	struct buf in, out;
	size_t out_at;	  /* bytes of `out` that are written */
	uint64_t dropped; /* frames dropped because there was no room */
};

/* Takes ownership of @fd and makes it non-blocking. Return: 0 or -errno. */
int nic_init(struct nic *nic, int fd, enum nic_kind kind);
void nic_fini(struct nic *nic);

/**
 * nic_read() - Read frames
 * @nic: Card
 * @on_frame: Called for each frame; it may send, and may modify the frame
 * @data: Its argument
 *
 * Return: 0, -EPIPE at the end of file, -EPROTO if the stream is malformed, or -errno.
 */
int nic_read(struct nic *nic, void (*on_frame)(void *data, uint8_t *frame, size_t len), void *data);

/* Sends a frame, or queues it for nic_flush(); it is dropped if there is no room, as on any
 * network. */
void nic_send(struct nic *nic, const void *frame, size_t len);

/* Writes queued frames as far as possible. Return: 0 or -errno. */
int nic_flush(struct nic *nic);

/* Does the guest read frames slower than they arrive? If so, don't make more. */
bool nic_is_full(const struct nic *nic);

#endif
