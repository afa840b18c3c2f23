/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that follow from a seed. See chance.h. */
#include "chance.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/random.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "log.h"
#include "reach.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * Programs of user code are started with a filter (filter_listen()) that has the kernel ask us when they, or their children, ask it
 * for random bytes, open a file to be read, whose name may be /dev/urandom, or make another process, by which it is known which stream
 * that has (kin.h). The filter's listener comes over a socket that the child has until it executes its program.
 *
 * What is opened as /dev/urandom is one end of a pair of sockets of which we write the other: there a read
 * waits until it has all that it has asked for, as in the device, and unlike in a pipe. It has a stream of its own, so that it makes no
 * difference how far it is read ahead.
 *
 * It is no protection of anything: who knows the seed knows all. Where we can't reach a process's memory, the kernel answers.
 */

#define AT_ONCE \
	(256u << 10) /* most bytes of one answer; who wants more asks again, as after a signal */
#define PIECE	   4096u
#define PIECES	   16u	 /* written to a device before others get their turn */
#define DEVICE_BUF 16384 /* bytes that a device has ahead */
#define NOTIF_MAX  512u

#define OF_OPEN	   100u /* a kind of keys */

/* A program, and all that it has started. */
struct chance_listener {
	struct loop_source source;
	struct chance *c;
	struct chance_listener *next;
	uint32_t job; /* or 0 */
};

struct chance_device {
	struct loop_source source;
	struct chance *c;
	struct chance_device *next;
	uint8_t key[CHACHA_KEY];
	uint64_t at;
};

/* ---- answers ---- */

static void answer(const struct chance_listener *l, uint64_t id, int64_t value, int error,
		   uint32_t flags)
{
	struct seccomp_notif_resp resp = {.id = id, .val = value, .error = -error, .flags = flags};

	/* Or it has been killed meanwhile. */
	(void)ioctl(l->source.fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

/* The kernel is to do as it would have done. */
static void let_go(const struct chance_listener *l, uint64_t id)
{
	answer(l, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

/* Once: it may happen as often as user code likes. */
static void tell_kernels(struct chance *c, const char *what, uint32_t pid)
{
	if (!c->told)
		log_line("%s of process %u, and perhaps of others, are the kernel's", what, pid);
	c->told = true;
}

static void on_getrandom(struct chance_listener *l, const struct seccomp_notif *n)
{
	const uint64_t to = n->data.args[0], flags = n->data.args[2];
	const size_t len = n->data.args[1] < AT_ONCE ? (size_t)n->data.args[1] : AT_ONCE;
	struct kin *p = kin_find(&l->c->kin, (pid_t)n->pid, l->job);
	uint8_t bytes[PIECE];
	ssize_t r = 1;
	size_t done = 0;

	if (flags & ~(uint64_t)(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE) ||
	    (flags & (GRND_RANDOM | GRND_INSECURE)) == (GRND_RANDOM | GRND_INSECURE)) {
		answer(l, n->id, 0, EINVAL, 0);
		return;
	}
	while (p && done < len && r > 0 && filter_still_waits(l->source.fd, n->id)) {
		const size_t piece = len - done < PIECE ? len - done : PIECE;

		chacha_bytes(p->key, p->at + done, bytes, piece);
		r = reach_write((pid_t)n->pid, to + done, bytes, piece);
		done += r > 0 ? (size_t)r : 0;
	}
	if (!p || r < 0) {
		tell_kernels(l->c, "random bytes", n->pid);
		let_go(l, n->id);
		return;
	}
	p->at += done;
	answer(l, n->id, (int64_t)done, done || !len ? 0 : EFAULT, 0);
}

static bool is_device(const struct chance_listener *l, const struct seccomp_notif *n, uint64_t path)
{
	static const char *const names[] = {"/dev/urandom", "/dev/random"};
	char text[16] = {0};

	if (reach_read((pid_t)n->pid, path, text, sizeof(text) - 1) <= 0 ||
	    !filter_still_waits(l->source.fd, n->id))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(text, names[i]) == 0)
			return true;
	}
	return false;
}

/* ---- devices ---- */

static void close_device(struct chance_device *d)
{
	struct chance_device **at = &d->c->devices;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	d->c->nopen--;
	loop_close(d->c->loop, &d->source);
	free(d);
}

/* Return: whether it has taken anything. */
static bool fill(struct chance_device *d)
{
	uint8_t bytes[PIECE];
	ssize_t n;

	chacha_bytes(d->key, d->at, bytes, sizeof(bytes));
	n = send(d->source.fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
	d->at += n > 0 ? (uint64_t)n : 0;
	return n > 0;
}

static void on_device(struct loop_source *s, uint32_t events)
{
	struct chance_device *d = container_of(s, struct chance_device, source);

	d->c->loop->calm = true;
	if (events & (EPOLLERR | EPOLLHUP)) {
		close_device(d);
		return;
	}
	for (unsigned i = 0; i < PIECES && fill(d); i++)
		;
}

/* Closes those that nobody has open any more, which the loop has not come to yet. */
static void reap_devices(struct chance *c)
{
	for (struct chance_device *d = c->devices, *next; d; d = next) {
		struct pollfd p = {.fd = d->source.fd};

		next = d->next;
		if (poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP))
			close_device(d);
	}
}

/* Return: the end that is to be read, or -errno. */
static int new_device(struct chance_listener *l, struct kin *p)
{
	const int all = INT_MAX, ahead = DEVICE_BUF;
	struct chance_device *d;
	int pair[2];

	if (l->c->nopen == CHANCE_OPEN)
		reap_devices(l->c);
	d = l->c->nopen < CHANCE_OPEN ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(d);
		return -errno;
	}
	(void)shutdown(pair[0], SHUT_RD);
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &ahead, sizeof(ahead));
	(void)setsockopt(pair[1], SOL_SOCKET, SO_RCVLOWAT, &all, sizeof(all));
	d->c = l->c;
	d->source = (struct loop_source){.fd = pair[0], .ready = on_device};
	chacha_derive(p->key, OF_OPEN, p->opens++, d->key);
	d->next = l->c->devices;
	l->c->devices = d;
	l->c->nopen++;
	if (loop_watch(l->c->loop, &d->source, EPOLLOUT) < 0) {
		close_device(d);
		close(pair[1]);
		return -ENOMEM;
	}
	(void)fill(d); /* for who does not wait */
	return pair[1];
}

static void on_open(struct chance_listener *l, const struct seccomp_notif *n, uint64_t path,
		    uint64_t flags)
{
	struct kin *p = is_device(l, n, path) ? kin_find(&l->c->kin, (pid_t)n->pid, l->job) : NULL;
	_cleanup_close_ int fd = p ? new_device(l, p) : -1;
	struct seccomp_notif_addfd add = {.id = n->id, .flags = SECCOMP_ADDFD_FLAG_SEND};

	if (fd >= 0 && flags & O_NONBLOCK)
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	add.srcfd = fd < 0 ? 0 : (uint32_t)fd;
	add.newfd_flags = flags & O_CLOEXEC;
	if (fd >= 0 && ioctl(l->source.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0)
		return;
	if (p)
		tell_kernels(l->c, "devices for them", n->pid);
	let_go(l, n->id);
}

/* ---- listeners ---- */

static void close_listener(struct chance_listener *l)
{
	struct chance_listener **at = &l->c->listeners;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	loop_close(l->c->loop, &l->source);
	free(l);
}

static void on_listener(struct loop_source *s, uint32_t events)
{
	struct chance_listener *l = container_of(s, struct chance_listener, source);
	union {
		struct seccomp_notif n;
		char space[NOTIF_MAX]; /* as the kernel has it, which may be newer */
	} in = {0};
	const struct seccomp_notif *n = &in.n;

	l->c->loop->calm = true;
	if (!(events & EPOLLIN)) {
		close_listener(l); /* nobody is left of them */
		return;
	}
	if (ioctl(s->fd, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
		return;
	switch (n->data.nr) {
	case SYS_getrandom: on_getrandom(l, n); break;
	case SYS_openat: on_open(l, n, n->data.args[1], n->data.args[2]); break;
#ifdef SYS_open
	case SYS_open: on_open(l, n, n->data.args[0], n->data.args[1]); break;
#endif
	default: /* a process is made */
		kin_fork(&l->c->kin, (pid_t)n->pid, l->job);
		let_go(l, n->id);
	}
}

static void take_listener(struct chance *c, int fd, uint32_t job)
{
	struct chance_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd); /* then they hear ENOSYS */
		return;
	}
	l->c = c;
	l->job = job;
	l->source = (struct loop_source){.fd = fd, .ready = on_listener};
	l->next = c->listeners;
	c->listeners = l;
	if (loop_watch(c->loop, &l->source, EPOLLIN) < 0)
		close_listener(l);
}

static void on_arrival(struct loop_source *s, uint32_t events)
{
	struct chance *c = container_of(s, struct chance, arrivals);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	uint32_t job = 0;
	struct iovec iov = {&job, sizeof(job)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	struct cmsghdr *h;
	int fd;

	(void)events;
	if (recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(job))
		return;
	h = CMSG_FIRSTHDR(&msg);
	if (!h || h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof(int)))
		return;
	memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	take_listener(c, fd, job);
}

/* ---- from outside ---- */

void chance_init(struct chance *c, struct loop *l)
{
	c->loop = l;
	c->end.fd = c->arrivals.fd = -1;
}

int chance_begin(struct chance *c, uint64_t seed, uint32_t before)
{
	int pair[2], r;

	memset(c->kin.key, 0, sizeof(c->kin.key));
	for (unsigned i = 0; i < sizeof(seed); i++)
		c->kin.key[i] = (uint8_t)(seed >> 8 * i);
	c->before = before;
	if (c->on)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	c->arrivals = (struct loop_source){.fd = pair[0], .ready = on_arrival};
	c->end.fd = pair[1];
	r = loop_watch(c->loop, &c->arrivals, EPOLLIN);
	if (r < 0) {
		loop_close(c->loop, &c->arrivals);
		close_fd(&c->end.fd);
		return r;
	}
	c->on = true;
	return 0;
}

void chance_end(struct chance *c)
{
	if (!c->on)
		return;
	c->on = false;
	loop_close(c->loop, &c->arrivals);
	close_fd(&c->end.fd);
}

void chance_interp(struct chance *c, pid_t pid)
{
	kin_interp(&c->kin, pid);
}

bool chance_run(struct chance *c, uint32_t number, uint8_t ret_seed[CHACHA_KEY])
{
	return c->on && kin_run(&c->kin, c->before + number, ret_seed);
}
