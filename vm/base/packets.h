/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors, both ways over a SOCK_SEQPACKET socket, on the loop. */
#ifndef XSBX_VM_BASE_PACKETS_H
#define XSBX_VM_BASE_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#define PACKETS_SIZE_MAX 8192 /* of one that is read */

struct packet;

/*
 * Embedded by its owner, who sets the callbacks and keeps it until `closed`.
 *
 * - Callbacks only come from the loop. `packet` and `ended` may close it, and nothing else may free it.
 * - `open` from a successful packets_open() to packets_close().
 * - `ended` is called once at most, and nothing is read or sent afterwards.
 */
struct packets {
	uv_poll_t poll;
	uv_timer_t retry; /* runs while the kernel has no memory for the first of the queue */
	int fd;
	bool open, over;
	bool takes_fds; /* set by the owner: the other end may send descriptors */
	STAILQ_HEAD(packet_queue, packet) queue;
	unsigned queued;
	/* One packet, aligned for any struct; *@fd came with it or is -1, and is closed if it is left
	 * there. Return: 0, or -errno for what nobody honest sends. */
	int (*packet)(struct packets *p, const void *bytes, size_t len, int *fd);
	void (*ended)(struct packets *p, int err);
	void (*closed)(struct packets *p);
};

/* Takes over @fd if it succeeds. Return: 0 or -errno. */
int packets_open(struct packets *p, uv_loop_t *loop, int fd);

/**
 * packets_send() - Send a packet in two parts, now or when there is room
 * @p: Open
 * @head: First part
 * @head_len: Its length
 * @tail: Second part; not looked at without a length
 * @tail_len: Its length
 * @fd: Descriptor to go along, which is taken over in any case; or -1. The packet comes without it when too
 *	many are on their way
 *
 * Return: 0; -EPIPE after its end; -ENOBUFS if too many wait; -ENOMEM.
 */
int packets_send(struct packets *p, const void *head, size_t head_len, const void *tail,
		 size_t tail_len, int fd);

/* Only if it is open; idempotent. */
void packets_close(struct packets *p);

#endif
