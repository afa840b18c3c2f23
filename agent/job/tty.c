/* SPDX-License-Identifier: Apache-2.0 */
/* The pseudo-terminal of a program. */
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/types.h>
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
 *
 * Somebody may write faster than we read, for ever: then there never is nothing. So we read for a while only, and go on
 * after all else had its turn; and of what is read after the program's end no more is its own than the kernel can have kept.
 */

#define READ_MAX 16384u
#define TURN_MAX 65536u
#define KEPT_MAX 65536u /* the kernel keeps some 20 KiB at most */

/* Takes a piece of what it shows, of at most @most bytes. Return: its size, 0 if there is nothing, -EAGAIN if that has to wait
 * for credit or room, or -ENOMEM: the loop ends. */
static ssize_t take(struct tty *t, size_t most)
{
	struct stream *shown = &t->output->out[0];
	char bytes[READ_MAX];
	ssize_t n;

	most = MIN(most, sizeof(bytes));
	/* What is beyond the limit needs neither. */
	if (shown->limit_left) {
		most = (size_t)MIN(t->output->credit, (uint64_t)most);
		if (!most || conn_full(t->output->conn))
			return -EAGAIN;
	}
	do {
		n = read(t->master.fd, bytes, most);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return 0; /* EIO: nobody has it open */
	if (stream_put(shown, bytes, (size_t)n) < 0) {
		loop_stop(t->output->loop, -ENOMEM);
		return -ENOMEM;
	}
	return n;
}

static void show(struct tty *t)
{
	size_t left = TURN_MAX;
	ssize_t n = 0;

	while (left && (n = take(t, left)) > 0)
		left -= (size_t)n;
	t->paused = n == -EAGAIN;
	if (n > 0)
		loop_arm(t->output->loop, &t->again, 0);
}

static void on_ready(struct loop_source *src, uint32_t events)
{
	(void)events;
	show(container_of(src, struct tty, master));
}

static void on_again(struct loop_timer *timer)
{
	show(container_of(timer, struct tty, again));
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
	t->again.fire = on_again;
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

void tty_resume(struct tty *t)
{
	if (t->paused)
		show(t);
}

void tty_settle(struct tty *t)
{
	(void)loop_watch(t->output->loop, &t->master, 0);
	loop_disarm(t->output->loop, &t->again);
	t->drain_left = KEPT_MAX;
}

bool tty_drain(struct tty *t)
{
	ssize_t n = 0;

	while (t->drain_left && (n = take(t, t->drain_left)) > 0)
		t->drain_left -= (size_t)n;
	return n >= 0;
}

void tty_close(struct tty *t)
{
	loop_disarm(t->output->loop, &t->again);
	loop_close(t->output->loop, &t->master);
}
