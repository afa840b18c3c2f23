/* SPDX-License-Identifier: Apache-2.0 */
/* The pseudo-terminal of a program. */
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"
#include "agent/output/stream.h"

/*
 * Theory of operation
 * -------------------
 * We have the master of a pair, see pty(7). What the terminal shows is read from it and sent as standard output, in pieces
 * as they come: there is one stream, so that nothing has to be put in order. What is typed is written to it, through
 * a stdin_pipe with a descriptor of its own.
 *
 * The master is watched for edges: at the end of all who had the slave open it hangs up, which is no event to be told of
 * for ever; somebody below the program may open /dev/tty again.
 *
 * A read first waits for what the kernel has still to move from the slave. So what a program has written before its end
 * can be read when we know of that, and all of it has been read when there is nothing.
 */

#define READ_MAX 16384u

static void on_ready(struct loop_source *src, uint32_t events)
{
	(void)events;
	(void)tty_read(container_of(src, struct tty, master));
}

void tty_resize(struct tty *t, uint32_t window)
{
	const struct winsize w = {.ws_row = (unsigned short)(window >> 16),
				  .ws_col = (unsigned short)window};

	if (t->master.fd >= 0)
		(void)ioctl(t->master.fd, TIOCSWINSZ, &w);
}

static int open_pair(struct tty *t, const struct guest_env *env, int *ret_slave)
{
	static const int unlock = 0;
	_cleanup_close_ int slave = -1;
	const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	if (master < 0)
		return -errno;
	t->master = (struct loop_source){.fd = master, .ready = on_ready};
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	/* It belongs to who made it, and is opened by its name as the user. */
	if (slave < 0 || (env->drop && fchown(slave, env->uid, (gid_t)-1) < 0))
		return -errno;
	*ret_slave = steal_fd(&slave);
	return 0;
}

int tty_open(struct tty *t, const struct guest_env *env, uint32_t window, int *ret_slave)
{
	int r = open_pair(t, env, ret_slave);

	if (r == 0) {
		tty_resize(t, window);
		r = loop_watch(t->output->loop, &t->master, EPOLLIN | EPOLLET);
	}
	if (r < 0)
		tty_close(t);
	return r;
}

int tty_typist(const struct tty *t)
{
	const int fd = fcntl(t->master.fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

int tty_signal(struct tty *t, int sig)
{
	return ioctl(t->master.fd, TIOCSIG, sig) < 0 ? -errno : 0;
}

bool tty_read(struct tty *t)
{
	struct stream *shown = &t->output->out[0];
	char bytes[READ_MAX];
	ssize_t n;

	while (t->master.fd >= 0) {
		/* What is beyond the limit needs no credit. */
		const size_t most =
			shown->limit_left ? (size_t)MIN(t->output->credit, READ_MAX) : READ_MAX;

		if (!most || conn_full(t->output->conn))
			return false;
		n = read(t->master.fd, bytes, most);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* EIO: nobody has it open */
		if (stream_put(shown, bytes, (size_t)n) < 0) {
			loop_stop(t->output->loop, -ENOMEM);
			return false;
		}
	}
	return true;
}

void tty_close(struct tty *t)
{
	loop_close(t->output->loop, &t->master);
}
