/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors, in both directions over a SOCK_SEQPACKET socket, on the loop. */
#ifndef XSBX_VM_BASE_PACKETS_H
#define XSBX_VM_BASE_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#define PACKETS_SIZE_MAX 8192 /* of a received packet */

struct packet;

enum packets_rest { PACKETS_SAY, PACKETS_TAKE_OUT };

/*
 * Embedded by its owner, who sets the callbacks and keeps it until `closed`.
 *
 * - Callbacks only come from the loop. `packet` and `ended` may close it, but must not free it.
 * - `open` is true from a successful packets_open() to packets_close().
 * - `ended` is called at most once, and nothing is read or sent afterwards.
 * - Whoever is told of `later` answers true in a turn (turn.h), and then calls packets_say() when
 *   what follows is written down, or packets_take_out(). One who goes on behind our death may thus
 *   see one packet twice, and has to know it.
 */
struct packets {
	uv_poll_t poll;
	uv_timer_t retry; /* while the kernel has no memory for the first packet */
	int fd;
	bool open, over;
	bool takes_fds; /* set by the owner: the other end may send descriptors */
	bool peeked;	/* the first packet was handled, and is still in the socket */
	STAILQ_HEAD(packet_queue, packet) queue;
	unsigned queued, due; /* how many; and of how many it is time to be sent */
	/* One packet, aligned for any struct. *@fd came with it, or is -1; it is closed unless the
	 * callback sets it to -1. Return: 0, or -errno if the peer misbehaves. */
	int (*packet)(struct packets *p, const void *bytes, size_t len, int *fd);
	void (*ended)(struct packets *p, int err);
	void (*closed)(struct packets *p);
	/* Something was queued, or handled, of which the rest is to be done later. Return: false:
	 * at once. NULL: likewise, and where descriptors may come. */
	bool (*later)(struct packets *p, enum packets_rest rest);
};

/* Takes ownership of @fd on success. Return: 0 or -errno. */
int packets_open(struct packets *p, uv_loop_t *loop, int fd);

/**
 * packets_send() - Send a packet in two parts, now or when there is room
 * @p: Open
 * @head: First part
 * @head_len: Its length
 * @tail: Second part; ignored if @tail_len is 0
 * @tail_len: Its length
 * @fd: Descriptor to send along, taken over in any case; or -1. The packet arrives without it if
 *	too many are in flight
 *
 * Return: 0; -EPIPE after the end; -ENOBUFS if too many packets are queued; -ENOMEM.
 */
int packets_send(struct packets *p, const void *head, size_t head_len, const void *tail,
		 size_t tail_len, int fd);

/* What was put off. They do nothing unless it is open and goes on. */
void packets_say(struct packets *p);
void packets_take_out(struct packets *p);

/* Does nothing unless it is open; idempotent. */
void packets_close(struct packets *p);

#endif
