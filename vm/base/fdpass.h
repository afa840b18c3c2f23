/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that carry descriptors, over a Unix socket: SCM_RIGHTS of unix(7). */
#ifndef XSBX_VM_BASE_FDPASS_H
#define XSBX_VM_BASE_FDPASS_H

#include <stddef.h>
#include <sys/types.h>

#define FDPASS_MAX 32u /* descriptors of one message */

/**
 * fdpass_send() - Send a message, and descriptors with it
 * @sock: Unix socket
 * @message: Bytes
 * @len: How many
 * @fds: Descriptors; stay the caller's
 * @nfds: How many, at most FDPASS_MAX; 0 is fine
 * @flags: Of sendmsg(); MSG_NOSIGNAL goes without saying
 *
 * Return: bytes sent, or -errno, -EAGAIN if the socket is full.
 */
ssize_t fdpass_send(int sock, const void *message, size_t len, const int *fds, size_t nfds,
		    int flags);

/**
 * fdpass_receive() - Receive a message, and the descriptors that came with it
 * @sock: Unix socket
 * @message: Room
 * @size: Its size
 * @ret_fds: Room for descriptors; they are the caller's, and close at exec
 * @max: So many at most, no more than FDPASS_MAX; if more came, those are closed
 * @ret_nfds: How many there are
 * @flags: Of recvmsg(); MSG_CMSG_CLOEXEC goes without saying
 *
 * A process that has as many descriptors as it may have gets the message without any of them, all or
 * nothing: whoever reads it looks whether those are there that it speaks of.
 *
 * Return: bytes of the message, 0 at the end, -EMSGSIZE if a packet did not fit, or -errno; no
 * descriptor unless it succeeds.
 */
ssize_t fdpass_receive(int sock, void *message, size_t size, int *ret_fds, size_t max,
		       size_t *ret_nfds, int flags);

#endif
