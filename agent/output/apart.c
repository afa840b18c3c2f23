/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes whose writes the kernel tells of, and keeps apart. */
#include "apart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/core/util.h"

/* Why, and what it is good for, is said in journal.c. */

static int signal_of_writes(void)
{
	return SIGRTMIN;
}

int apart_listen(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal_of_writes());
	sigaddset(&set, SIGIO);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void unmark(int fd)
{
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

unsigned apart_mark(const int fds[2])
{
	const int size = fcntl(fds[1], F_GETPIPE_SZ);

	if (size < (int)(APART_MIN * APART_PAGE) || sysconf(_SC_PAGESIZE) != (long)APART_PAGE)
		return 0;
	if (fcntl(fds[0], F_SETOWN, getpid()) < 0 ||
	    fcntl(fds[0], F_SETSIG, signal_of_writes()) < 0 ||
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
