/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told by a program that it has started. */
#include "systemd.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "util.h"

#define PIECES	5u  /* of a field */
#define ROOM_MS 100 /* for the journal to read what it has */

int systemd_connect(const char *address)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const size_t len = strlen(address);
	_cleanup_close_ int fd = -1;

	if ((*address != '/' && *address != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	memcpy(a.sun_path, address, len);
	if (*address == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
					  (*address == '/'))) < 0)
		return -errno;
	return steal_fd(&fd);
}

int systemd_notify(int fd, const char *state)
{
	return send(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

uint64_t systemd_patience_us(void)
{
	const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long n;
	char *end;

	if (!us || *us < '0' || *us > '9')
		return 0;
	errno = 0;
	n = strtoull(us, &end, 10);
	if (errno || *end || n == UINT64_MAX)
		return 0;
	/* Meant for another process, whose environment this is. */
	if (pid && atol(pid) != (long)getpid())
		return 0;
	return n;
}

static void add(struct iovec *v, int *n, const void *data, size_t len)
{
	v[(*n)++] = (struct iovec){.iov_base = (void *)data, .iov_len = len};
}

/* NAME=value, or for text of several lines the name, its length and the text. */
static void add_field(struct iovec *v, int *n, const struct systemd_field *f, uint64_t *le_len)
{
	const size_t len = strlen(f->value);

	add(v, n, f->name, strlen(f->name));
	if (!memchr(f->value, '\n', len)) {
		add(v, n, "=", 1);
	} else {
		*le_len = htole64(len);
		add(v, n, "\n", 1);
		add(v, n, le_len, sizeof(*le_len));
	}
	add(v, n, f->value, len);
	add(v, n, "\n", 1);
}

int systemd_entry(int fd, const struct systemd_field *field, unsigned n)
{
	struct iovec v[SYSTEMD_FIELDS_MAX * PIECES];
	uint64_t len[SYSTEMD_FIELDS_MAX];
	struct msghdr m = {.msg_iov = v};
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	int pieces = 0;

	if (n > SYSTEMD_FIELDS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		if (field[i].value && *field[i].value)
			add_field(v, &pieces, &field[i], &len[i]);
	}
	m.msg_iovlen = (size_t)pieces;
	if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	if (errno != EAGAIN || poll(&room, 1, ROOM_MS) <= 0)
		return -errno;
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}
