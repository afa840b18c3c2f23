/* SPDX-License-Identifier: Apache-2.0 */
/* What the drivers do with system calls: the control socket, and the descriptors of a turn. */
#ifndef XSBX_TURN_H
#define XSBX_TURN_H

#include <stddef.h>

struct driver_msg;

/**
 * turn_open() - Take over the control socket
 * @fd: its number, which is closed
 *
 * Descriptor 0 has to be /dev/null, and the key has to be in the socket. The process becomes
 * undumpable.
 * Return: the socket's new number, or -errno
 */
int turn_open(int fd);

/**
 * turn_raise() - Move one more descriptor out of the way, behind those of turn_open
 * @fd: its number, which is closed
 *
 * Return: the new number, or -errno
 */
int turn_raise(int fd);

/** turn_close() - Let go of the socket, in a forked child. */
void turn_close(void);

/**
 * turn_receive() - Take one request; a turn's streams and code are put in place
 * @ret_msg: the request
 * @flags: for recvmsg(2)
 *
 * Return: the request's type, 0 at the end of all requests, -EBADMSG for something that is not a
 * request, and for a run that could not be taken, which the agent has been told; another -errno
 */
int turn_receive(struct driver_msg *ret_msg, int flags);

/**
 * turn_copy() - Do what the DRIVER_COPY asks that was received last
 *
 * Return: 1 if there is a copy, 0 in the copy, which has the socket it was made for, or -errno
 */
int turn_copy(void);

/**
 * turn_code() - The code of the last turn received
 * @ret_len: its length
 *
 * Return: the code, followed by NUL; it belongs to this module and lasts until the next turn
 */
char *turn_code(size_t *ret_len);

/**
 * turn_copy_code() - Copy the turn's code
 * @buf: room for as many bytes as the request said
 */
void turn_copy_code(char *buf);

/**
 * turn_send() - Send an answer; one that is DRIVER_DONE gets its token
 * @msg: the answer, with the nonce of the request
 * @text: text to follow it
 *
 * Return: 0 or -errno
 */
int turn_send(const struct driver_msg *msg, const char *text);

/**
 * turn_note_interrupts() - From now on note SIGINT, instead of acting on it
 *
 * For a driver that has nothing to interrupt yet; what it then sets for SIGINT takes the place of this.
 */
void turn_note_interrupts(void);

/**
 * turn_was_interrupted() - Whether a SIGINT was noted since turn_receive() was called last
 */
int turn_was_interrupted(void);

/**
 * turn_write() - Write all of a buffer, waiting as long as it takes
 * @fd: where to
 * @buf: the bytes
 * @len: how many
 *
 * Return: 0 or -errno
 */
int turn_write(int fd, const char *buf, size_t len);

#endif
