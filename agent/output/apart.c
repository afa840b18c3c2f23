/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes whose writes the kernel tells of, and keeps apart. */
#include "apart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/core/util.h"

/* Why, and what it is good for, is said in journal.c. */

static uint64_t taken; /* signals, as bits */

static int take_signal(void)
{
	for (int n = SIGRTMIN; n <= SIGRTMAX; n++) {
		if (taken & UINT64_C(1) << (n - 1))
			continue;
		taken |= UINT64_C(1) << (n - 1);
		return n;
	}
	return -1;
}

int apart_listen(int *ret_signal)
{
	int fd, n = take_signal();
	sigset_t set;

	if (n < 0)
		return -1;
	/* All of them at once: threads that are there when the next one is needed could not be told. */
	sigemptyset(&set);
	for (int k = SIGRTMIN; k <= SIGRTMAX; k++)
		sigaddset(&set, k);
	sigaddset(&set, SIGIO);
	fd = sigprocmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, n);
	sigaddset(&set, SIGIO);
	if (fd == 0)
		fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		apart_deafen(&fd, n);
	*ret_signal = n;
	return fd;
}

void apart_deafen(int *fd, int signal)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	taken &= ~(UINT64_C(1) << (signal - 1));
}

static void unmark(int fd)
{
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

unsigned apart_mark(const int fds[2], int signal)
{
	const int size = fcntl(fds[1], F_GETPIPE_SZ);

	if (size < (int)(APART_MIN * APART_PAGE) || sysconf(_SC_PAGESIZE) != (long)APART_PAGE)
		return 0;
	if (fcntl(fds[0], F_SETOWN, getpid()) < 0 || fcntl(fds[0], F_SETSIG, signal) < 0 ||
	    fcntl(fds[0], F_SETFL, O_NONBLOCK | O_ASYNC) < 0)
		return 0;
	if (fcntl(fds[1], F_SETFL, O_DIRECT) == 0)
		return (unsigned)(size / (int)APART_PAGE);
	unmark(fds[0]);
	return 0;
}

bool apart_keep(const struct stream *s, bool apart)
{
	const int flags = s->writer < 0 ? -1 : fcntl(s->writer, F_GETFL);

	/* Other flags are the program's. */
	return flags >= 0 &&
	       fcntl(s->writer, F_SETFL, apart ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void apart_mute(struct stream *s, bool muted)
{
	if (fcntl(s->src.fd, F_SETFL, O_NONBLOCK | (muted ? 0 : O_ASYNC)) == 0)
		s->muted = muted;
	s->ahead = 0;
}

void apart_leave(struct stream *s)
{
	if (s->slots && s->src.fd >= 0)
		unmark(s->src.fd);
	(void)apart_keep(s, false);
	close_fd(&s->writer);
}

bool apart_is_on(const struct output *o)
{
	return o->out[0].slots && o->out[1].slots;
}

void apart_even_out(struct output *o)
{
	for (int i = 0; i < 2 && !apart_is_on(o); i++) {
		if (!o->out[i].slots)
			continue;
		apart_leave(&o->out[i]);
		o->out[i].slots = 0;
	}
}
