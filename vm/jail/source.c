/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the host directories to be mounted in a jail, without hanging on servers that never answer. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * If the spawner opened files for a child itself, it could block, and all other sandboxes with it. Paths that the
 * kernel can resolve from its caches are opened directly; others are opened by a process that can be abandoned.
 * The daemon opens none but the former: see view_stamp().
 */

static int patience_ms = -1; /* for ever */
static int daemon_sock = -1;

void jail_source_patience(int ms, int sock)
{
	patience_ms = ms;
	daemon_sock = sock;
}

int jail_source_await(int from)
{
	struct pollfd p[] = {{.fd = from, .events = POLLIN},
			     {.fd = daemon_sock, .events = POLLRDHUP}};
	int n;

	do
		n = poll(p, ARRAY_SIZE(p), patience_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return p[0].revents ? 0 : -ECANCELED;
}

int jail_source_look(int fd, struct statx *ret_stat)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_UID | STATX_GID,
		     ret_stat) < 0
		       ? -errno
		       : 0;
}

static int open_path(const char *path, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
	const int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int open_source(const struct jail_mount *m, uint64_t resolve)
{
	return open_path(m->source, resolve | (m->flags & JAIL_NO_LINKS ? RESOLVE_NO_SYMLINKS : 0));
}

int jail_source_open_cached(const char *path)
{
	return open_path(path, RESOLVE_CACHED);
}

int jail_source_open(const struct jail_mount *m)
{
	return open_source(m, 0);
}

/* In a process of its own, which has nothing else: it may stay for long. */
__attribute__((noreturn)) static void open_and_tell(const struct jail_mount *m, int to)
{
	const int tell = STDERR_FILENO + 1;
	int fd, r;

	if (to != tell && dup2(to, tell) < 0)
		_exit(1);
	close_range((unsigned)tell + 1, ~0u, 0);
	fd = jail_source_open(m);
	r = MIN(fd, 0);
	(void)fdpass_send(tell, &r, sizeof(r), &fd, fd >= 0 ? 1 : 0, 0);
	_exit(0);
}

/* Return: what that process came up with. */
static int hear(int from)
{
	const int word = jail_source_await(from);
	int fd = -1, r = -EIO;
	size_t nfds;
	ssize_t n;

	if (word < 0)
		return word;
	n = fdpass_receive(from, &r, sizeof(r), &fd, 1, &nfds, 0);
	if (n < 0)
		return (int)n;
	if (n != sizeof(r))
		return -EIO;
	if (r < 0)
		return r;
	return nfds == 1 ? fd : -EMFILE;
}

int jail_source_open_patiently(const struct jail_mount *m)
{
	int pair[2], r;
	pid_t pid;

	r = open_source(m, RESOLVE_CACHED);
	if (r != -EAGAIN)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = _Fork();
	if (pid == 0)
		open_and_tell(m, pair[1]);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r == 0)
		r = hear(pair[0]);
	close(pair[0]);
	/* It is the reaper's, as whoever's parent has died. */
	if (pid > 0 && (r == -ETIMEDOUT || r == -ECANCELED))
		kill(pid, SIGKILL);
	return r;
}
