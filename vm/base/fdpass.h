/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that carry descriptors, over a Unix socket: SCM_RIGHTS of unix(7). */
#ifndef XSBX_VM_BASE_FDPASS_H
#define XSBX_VM_BASE_FDPASS_H

#include <stddef.h>
#include <sys/types.h>

#define FDPASS_MAX 32u /* descriptors of one message */

/**
 * fdpass_send() - Send a message with descriptors
 * @sock: Unix socket
 * @message: Bytes
 * @len: How many
 * @fds: Descriptors; owned by the caller
 * @nfds: How many, at most FDPASS_MAX; 0 is fine
 * @flags: For sendmsg(); MSG_NOSIGNAL is implied
 *
 * Return: bytes sent, or -errno, -EAGAIN if the socket is full.
 */
ssize_t fdpass_send(int sock, const void *message, size_t len, const int *fds, size_t nfds,
		    int flags);

/**
 * fdpass_send_patiently() - Likewise, but waits while more descriptors are on their way than one
 * user may have there
 * @ms: About so long; all else is as above
 *
 * Return: likewise; -ETOOMANYREFS: there are still more.
 */
ssize_t fdpass_send_patiently(int sock, const void *message, size_t len, const int *fds,
			      size_t nfds, int flags, unsigned ms);

/**
 * fdpass_receive() - Receive a message, and the descriptors that came with it
 * @sock: Unix socket
 * @message: Buffer
 * @size: Its size
 * @ret_fds: Descriptors, owned by the caller, close-on-exec
 * @max: Room in @ret_fds, at most FDPASS_MAX; any further ones are closed
 * @ret_nfds: How many were received
 * @flags: For recvmsg(); MSG_CMSG_CLOEXEC is implied
 *
 * If the process is at its limit of open files, the message arrives without descriptors, all or
 * nothing: the caller has to check that those it expects are there.
 *
 * Return: bytes of the message, 0 at the end, -EMSGSIZE if a packet did not fit, or -errno; on
 * failure there are no descriptors.
 */
ssize_t fdpass_receive(int sock, void *message, size_t size, int *ret_fds, size_t max,
		       size_t *ret_nfds, int flags);

#endif
