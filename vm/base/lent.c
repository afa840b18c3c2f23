/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are held by another process as well. See lent.h. */
#include "lent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fdpass.h"
#include "util.h"

#define PATIENCE_MS 2000 /* for the holder, or for the descriptors that are on their way */
#define FULL_MS	    20	 /* of these, at once, for room in the socket */
#define MANY_MS	    2	 /* ... or until fewer descriptors are on their way */

/* Of each descriptor of this process: its number, or 0; and what it was, to be verified. */
struct lent_one {
	unsigned number;
	dev_t dev;
	ino_t ino;
};

static struct {
	int sock, error;
	bool on, verify;
	bool crowded;	      /* nothing is wrong with the holder that is away */
	pthread_t thread;     /* whose all this is */
	struct lent_one *one; /* by descriptor */
	size_t cap;
	bool *used;	   /* by number; LENT_MAX + 1 of them */
	unsigned least;	   /* no smaller number is free */
	unsigned *waiting; /* numbers that are to be dropped */
	size_t nwaiting, capwaiting;
} lent = {.sock = -1};

static int say(enum lent_op op, unsigned number, int fd)
{
	const struct lent_word w = {.op = op, .number = number};
	struct pollfd p = {.fd = lent.sock, .events = POLLOUT};
	ssize_t n = -EAGAIN;
	int ms = 0;

	for (int left = PATIENCE_MS; left > 0; left -= ms) {
		n = fdpass_send(lent.sock, &w, sizeof(w), &fd, fd >= 0 ? 1 : 0, MSG_DONTWAIT);
		if (n != -EAGAIN && n != -ETOOMANYREFS)
			break;
		ms = n == -EAGAIN ? FULL_MS : MANY_MS;
		(void)poll(&p, n == -EAGAIN ? 1 : 0, ms);
	}
	return only_errno(n);
}

static void fail(int r)
{
	if (!lent.error)
		lent.error = r;
}

static void go_away(void)
{
	if (lent.sock >= 0)
		close(steal_fd(&lent.sock));
}

/* To the holder, if there is one. One that has ended, or that does not hear, or that could not be
 * told, is none any more. Return: 0, or -errno: no other holder could be told either. */
static int tell(enum lent_op op, unsigned number, int fd)
{
	const int r = lent.sock >= 0 ? say(op, number, fd) : 0;

	switch (-r) {
	case ETOOMANYREFS:
		lent.crowded = true;
		go_away();
		return 0;
	case EPIPE:
	case ECONNRESET:
	case EAGAIN: go_away(); return 0;
	default: return r;
	}
}

/* Return: room for what is known of this descriptor, or NULL. */
static struct lent_one *of(int fd)
{
	size_t cap = lent.cap ? lent.cap : 256;
	struct lent_one *more;

	if ((size_t)fd < lent.cap)
		return &lent.one[fd];
	while (cap <= (size_t)fd)
		cap *= 2;
	more = reallocarray(lent.one, cap, sizeof(*more));
	if (!more)
		return NULL;
	memset(more + lent.cap, 0, (cap - lent.cap) * sizeof(*more));
	lent.one = more;
	lent.cap = cap;
	return &lent.one[fd];
}

/* Which file it is. Return: 0 or -errno. */
static int recognize(int fd, struct lent_one *one)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	one->dev = st.st_dev;
	one->ino = st.st_ino;
	return 0;
}

static int note(int fd, unsigned number)
{
	struct lent_one *one = of(fd);
	int r;

	if (!one)
		return -ENOMEM;
	r = lent.verify ? recognize(fd, one) : 0;
	if (r < 0)
		return r;
	one->number = number;
	lent.used[number] = true;
	return 0;
}

/* Return: a number that is free, or 0. */
static unsigned choose(void)
{
	while (lent.least <= LENT_MAX && lent.used[lent.least])
		lent.least++;
	return lent.least <= LENT_MAX ? lent.least : 0;
}

static int start(int sock)
{
	lent_end();
	lent.used = calloc(LENT_MAX + 1, sizeof(*lent.used));
	if (!lent.used) {
		if (sock >= 0)
			close(sock);
		return -ENOMEM;
	}
	lent.sock = sock;
	lent.least = 1;
	lent.error = 0;
	lent.crowded = false;
	lent.thread = pthread_self();
	lent.on = true;
	return 0;
}

int lent_begin(int sock)
{
	return start(sock);
}

void lent_end(void)
{
	go_away();
	free(steal_ptr(lent.one));
	free(steal_ptr(lent.used));
	free(steal_ptr(lent.waiting));
	lent.cap = lent.nwaiting = lent.capwaiting = 0;
	lent.on = false;
}

int lent_failed(void)
{
	return lent.error;
}

bool lent_is_away(void)
{
	return lent.sock < 0;
}

bool lent_is_crowded(void)
{
	return lent_is_away() && lent.crowded;
}

void lent_lose(void)
{
	go_away();
}

void lent_again(int sock)
{
	int r = 0;

	go_away();
	if (!lent.on || lent.error) {
		close(sock);
		return;
	}
	lent.sock = sock;
	lent.crowded = false;
	for (size_t fd = 0; r == 0 && lent.sock >= 0 && fd < lent.cap; fd++) {
		if (lent.one[fd].number)
			r = tell(LENT_HOLD, lent.one[fd].number, (int)fd);
	}
	if (r < 0)
		fail(r);
}

void lent_give_up(int err)
{
	go_away();
	fail(err);
}

void lent_verify(bool yes)
{
	/* Those that came from the one before. */
	for (size_t fd = 0; yes && !lent.verify && fd < lent.cap; fd++) {
		if (lent.one[fd].number)
			(void)recognize((int)fd, &lent.one[fd]);
	}
	lent.verify = yes;
}

/* Somebody closed it by himself, and this is another one. */
static void check(int fd, const struct lent_one *one)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_dev == one->dev && st.st_ino == one->ino)
		return;
	fprintf(stderr, "descriptor %d is not the one that was lent with number %u\n", fd,
		one->number);
	abort();
}

unsigned lent_put(int fd)
{
	unsigned number;
	int r;

	if (fd < 0 || !lent.on || lent.error)
		return 0;
	if ((size_t)fd < lent.cap && lent.one[fd].number) {
		if (lent.verify)
			check(fd, &lent.one[fd]);
		return lent.one[fd].number;
	}
	number = choose();
	r = number ? note(fd, number) : -EMFILE;
	if (r == 0)
		r = tell(LENT_HOLD, number, fd);
	if (r == 0)
		return number;
	if (number && (size_t)fd < lent.cap) {
		lent.one[fd].number = 0;
		lent.used[number] = false;
	}
	fail(r);
	return 0;
}

/* Its number is free when it was dropped. */
static int wait_for_commit(unsigned number)
{
	const size_t cap = lent.capwaiting ? lent.capwaiting * 2 : 64;
	unsigned *more;

	if (lent.nwaiting == lent.capwaiting) {
		more = reallocarray(lent.waiting, cap, sizeof(*more));
		if (!more)
			return -ENOMEM; /* it stays there, and its number is not used any more */
		lent.waiting = more;
		lent.capwaiting = cap;
	}
	lent.waiting[lent.nwaiting++] = number;
	return 0;
}

void lent_forget(int fd)
{
	if (fd < 0 || !lent.on || !pthread_equal(lent.thread, pthread_self()))
		return;
	if ((size_t)fd >= lent.cap || !lent.one[fd].number)
		return;
	(void)wait_for_commit(lent.one[fd].number);
	lent.one[fd].number = 0;
}

void lent_close(int *fd)
{
	if (*fd < 0)
		return;
	lent_forget(*fd);
	close(steal_fd(fd));
}

void lent_committed(void)
{
	while (lent.nwaiting && !lent.error) {
		const unsigned number = lent.waiting[lent.nwaiting - 1];
		const int r = tell(LENT_DROP, number, -1);

		if (r < 0) {
			fail(r);
			return;
		}
		lent.nwaiting--;
		lent.used[number] = false;
		lent.least = MIN(lent.least, number);
	}
}

/* ---- who comes after ---- */

typedef int lent_take(void *data, unsigned number, int fd);

/* All or nothing of a packet: the descriptors that it speaks of have to be there. */
static int take_pack(const struct lent_pack *pack, const int *fds, size_t nfds, lent_take *take,
		     void *data)
{
	int r = pack->n == nfds ? 0 : nfds < pack->n ? -EMFILE : -EBADMSG;

	for (size_t i = 0; i < nfds; i++) {
		const unsigned number = pack->number[i];

		if (r == 0 && (number == 0 || number > LENT_MAX || lent.used[number]))
			r = -EBADMSG;
		if (r == 0)
			r = note(fds[i], number);
		if (r == 0)
			r = take(data, number, fds[i]);
		else
			close(fds[i]);
	}
	return r;
}

static int receive(int sock, lent_take *take, void *data)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	struct lent_pack pack;
	int fds[LENT_PACK], r;
	size_t nfds;
	ssize_t n;

	do {
		if (poll(&p, 1, LENT_GIVE_MS) == 0)
			return -ETIMEDOUT;
		n = fdpass_receive(sock, &pack, sizeof(pack), fds, LENT_PACK, &nfds, 0);
		if (n < 0)
			return (int)n;
		if (n == sizeof(pack) && pack.n <= LENT_PACK) {
			r = take_pack(&pack, fds, nfds, take, data);
		} else {
			r = n ? -EBADMSG : -EPIPE;
			while (nfds)
				close(fds[--nfds]);
		}
	} while (r == 0 && pack.n);
	return r;
}

int lent_inherit(int sock, lent_take *take, void *data)
{
	int r = start(sock);

	if (r == 0)
		r = say(LENT_GIVE, 0, -1);
	if (r == 0)
		r = receive(lent.sock, take, data);
	if (r < 0)
		lent_end();
	return r;
}

int lent_adopt(int sock, lent_take *take, void *data)
{
	int r = start(-1);

	if (r == 0)
		r = receive(sock, take, data);
	if (r < 0)
		lent_end();
	return r;
}

/* ---- who gives all of it ---- */

static int give_pack(int sock, struct lent_pack *pack, const int *fds)
{
	const int r = only_errno(
		fdpass_send_patiently(sock, pack, sizeof(*pack), fds, pack->n, 0, LENT_GIVE_MS));

	pack->n = 0;
	return r;
}

int lent_give(int sock)
{
	struct lent_pack pack = {0};
	int fds[LENT_PACK], r = 0;

	for (size_t fd = 0; r == 0 && fd < lent.cap; fd++) {
		if (!lent.one[fd].number)
			continue;
		fds[pack.n] = (int)fd;
		pack.number[pack.n++] = lent.one[fd].number;
		if (pack.n == LENT_PACK)
			r = give_pack(sock, &pack, fds);
	}
	if (r == 0 && pack.n)
		r = give_pack(sock, &pack, fds);
	return r == 0 ? give_pack(sock, &pack, fds) : r;
}
