/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of what a machine's QEMU shares with us. */
#include "qemu_ends.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "vm/base/util.h"

static int open_pair(int pair[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
}

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
		pair[i] = -1;
	}
}

int qemu_ends_open(struct qemu_ends *e, bool network)
{
	int *const pairs[] = {e->agent, e->console, e->control, e->card};
	int r = 0;

	*e = (struct qemu_ends){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(pairs) - (network ? 0 : 1); i++)
		r = open_pair(pairs[i]);
	if (r == 0 && pipe2(e->words, O_CLOEXEC) < 0)
		r = -errno;
	return r;
}

void qemu_ends_close(struct qemu_ends *e)
{
	close_pair(e->agent);
	close_pair(e->console);
	close_pair(e->control);
	close_pair(e->words);
	close_pair(e->card);
}

int qemu_ends_open_again(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
