/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that carry descriptors, over a Unix socket. */
#include "fdpass.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "util.h"

#define AGAIN_MS 2

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
};

ssize_t fdpass_send(int sock, const void *message, size_t len, const int *fds, size_t nfds,
		    int flags)
{
	union control control = {0};
	struct iovec iov = {(void *)message, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	assert(nfds <= FDPASS_MAX);
	if (nfds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t fdpass_send_patiently(int sock, const void *message, size_t len, const int *fds,
			      size_t nfds, int flags, unsigned ms)
{
	ssize_t n = fdpass_send(sock, message, len, fds, nfds, flags);

	for (unsigned i = 0; n == -ETOOMANYREFS && i < ms; i += AGAIN_MS) {
		(void)poll(NULL, 0, AGAIN_MS);
		n = fdpass_send(sock, message, len, fds, nfds, flags);
	}
	return n;
}

/* Return: how many. */
static size_t take(struct msghdr *msg, int *ret_fds, size_t max)
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (taken < max)
				ret_fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

ssize_t fdpass_receive(int sock, void *message, size_t size, int *ret_fds, size_t max,
		       size_t *ret_nfds, int flags)
{
	union control control;
	struct iovec iov = {message, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	ssize_t n;

	assert(max <= FDPASS_MAX);
	*ret_nfds = 0;
	do {
		msg.msg_controllen = sizeof(control);
		n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*ret_nfds = take(&msg, ret_fds, max);
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	while (*ret_nfds)
		close(ret_fds[--*ret_nfds]);
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
}
