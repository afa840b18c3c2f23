/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with half a record in them, which are not read before more has come. */
#ifndef XSBX_VM_GUEST_HALVES_H
#define XSBX_VM_GUEST_HALVES_H

#include <stdbool.h>
#include <uv.h>

/*
 * Theory of operation
 * -------------------
 * What is in a socket and can't be handled yet makes it readable for ever: the loop would go round
 * and round, for as long as the other end likes, and that is a guest. AF_UNIX has no way to ask for
 * more than one byte. So such a socket is watched for the next bytes to arrive, not for there being
 * some, which libuv doesn't offer: edge-triggered in an epoll of our own, which the loop then sees
 * as one more descriptor. It tells once of what is there when a socket is added, so nothing is
 * missed that came in between.
 */

/* Embedded in who reads the socket. */
struct half {
	void (*more)(struct half *x); /* from the loop: more has come, or the end */
	bool watched;
};

/* Embedded, zeroed. */
struct halves {
	uv_poll_t poll;
	int fd; /* of the epoll, which there is from the first socket on */
	bool open;
	void (*closed)(void *data);
	void *data;
};

/**
 * halves_add() - Watch a socket
 * @h: Its handle is opened with the first
 * @loop: Loop
 * @x: Whose; with its callback set. If it is watched already, it is told once more of what is there
 * @fd: Socket
 *
 * Return: 0 or -errno.
 */
int halves_add(struct halves *h, uv_loop_t *loop, struct half *x, int fd);

/* Watches it no more; to be called before it is closed, for others may have it open. Fine for one
 * that is not watched. */
void halves_remove(struct halves *h, struct half *x, int fd);

/* Return: whether @closed will be called, from the loop. */
bool halves_close(struct halves *h, void (*closed)(void *data), void *data);

#endif
