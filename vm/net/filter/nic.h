/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: where frames come from and go to. */
#ifndef XSBX_VM_NET_FILTER_NIC_H
#define XSBX_VM_NET_FILTER_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/buf.h"

enum nic_kind {
	NIC_STREAM, /* a stream socket; each frame behind its length, four bytes, high byte first */
	NIC_PACKET, /* a datagram socket, or a TAP: each frame is one read or write */
};

/*
 * - `in` holds what was read of a frame that is not complete; `out` what could not be written yet,
 *   each frame behind its length. Both are empty, and cost nothing, while the guest is quiet.
 */
struct nic {
	int fd;
	enum nic_kind kind;
	struct buf in, out;
	size_t out_at;	  /* as much of `out` is written */
	uint64_t dropped; /* frames for which there was no room */
};

/* Takes over @fd, which becomes non-blocking. Return: 0 or -errno. */
int nic_init(struct nic *nic, int fd, enum nic_kind kind);
void nic_fini(struct nic *nic);

/**
 * nic_read() - Hand on the frames that have come
 * @nic: Card
 * @on_frame: Called for each; it may send, and may write to the frame
 * @data: Its argument
 *
 * Return: 0, -EPIPE at the end of file, -EPROTO if the stream holds no frames, or -errno.
 */
int nic_read(struct nic *nic, void (*on_frame)(void *data, uint8_t *frame, size_t len), void *data);

/* Sends a frame, or keeps it for nic_flush(); one for which there is no room is dropped, as on any
 * network. */
void nic_send(struct nic *nic, const void *frame, size_t len);

/* Writes what waits, as far as it can be written. Return: 0 or -errno. */
int nic_flush(struct nic *nic);

/* Does the guest take frames slower than they come? Then nothing more should be made for it. */
bool nic_is_full(const struct nic *nic);

#endif
