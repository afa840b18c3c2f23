/* SPDX-License-Identifier: Apache-2.0 */
/* The holder's process. See holder.h. */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/util.h"
#include "vm/jail/seccomp.h"

#define CONTROL	     (STDERR_FILENO + 1)
#define GIVE_MS	     10000u /* longer than an heir waits (lent.h) */
#define ADMIT_MS     200u   /* the spawner has other things to do */

#define CLOSING_MOST (2 * LENT_MAX)

/*
 * What is to be closed. To close a file may take as long as its disk, or its server, and nobody can
 * wait for that: so it is done by a thread, and this is its queue. If that is full, the disk is
 * dead, and so is this.
 */
static struct {
	int fd[CLOSING_MOST];
	atomic_uint put, taken; /* how many, ever */
	int wake[2];		/* the thread's, and ours */
} closing;

struct holder {
	int control, daemon; /* -1: there is none, or it has ended */
	unsigned most;	     /* no greater number was ever held */
	int fd[LENT_MAX + 1];
};

static void let_go(int fd)
{
	const unsigned n = atomic_load(&closing.put);

	if (n - atomic_load(&closing.taken) == CLOSING_MOST)
		_exit(1);
	closing.fd[n % CLOSING_MOST] = fd;
	atomic_store(&closing.put, n + 1);
	/* If there is no room, it is awake. */
	(void)fdpass_send(closing.wake[1], "", 1, NULL, 0, MSG_DONTWAIT);
}

static void drop(struct holder *h, unsigned number)
{
	if (h->fd[number] >= 0)
		let_go(steal_fd(&h->fd[number]));
}

static void hold(struct holder *h, unsigned number, int *fd)
{
	drop(h, number);
	h->fd[number] = steal_fd(fd);
	h->most = MAX(h->most, number);
}

/* Return: 0, or -errno: the daemon is gone. */
static int give_pack(const struct holder *h, struct lent_pack *pack)
{
	int fds[LENT_PACK], r;

	for (size_t i = 0; i < pack->n; i++)
		fds[i] = h->fd[pack->number[i]];
	r = only_errno(
		fdpass_send_patiently(h->daemon, pack, sizeof(*pack), fds, pack->n, 0, GIVE_MS));
	pack->n = 0;
	return r;
}

static int give(const struct holder *h)
{
	struct lent_pack pack = {0};
	int r = 0;

	for (unsigned i = 1; r == 0 && i <= h->most; i++) {
		if (h->fd[i] < 0)
			continue;
		pack.number[pack.n++] = i;
		if (pack.n == LENT_PACK)
			r = give_pack(h, &pack);
	}
	if (r == 0 && pack.n)
		r = give_pack(h, &pack);
	return r == 0 ? give_pack(h, &pack) : r;
}

/* Return: false once the daemon has ended. One that is to be held, and has not come, for there is
 * no room for another one in this process, is named by the next commit all the same: then this is
 * no holder any more, and ends, so that everybody knows. */
static bool hear(struct holder *h)
{
	struct lent_word w = {0};
	int fd = -1;
	size_t nfds;
	ssize_t n = fdpass_receive(h->daemon, &w, sizeof(w), &fd, 1, &nfds, MSG_DONTWAIT);
	bool alive = n > 0 || n == -EMSGSIZE || n == -ECONNRESET;

	if (n == sizeof(w) && w.number <= LENT_MAX) {
		if (w.op == LENT_HOLD && !nfds)
			_exit(1);
		if (w.op == LENT_HOLD && w.number)
			hold(h, w.number, &fd);
		else if (w.op == LENT_DROP && w.number)
			drop(h, w.number);
		else if (w.op == LENT_GIVE)
			alive = give(h) == 0;
	}
	if (nfds && fd >= 0)
		let_go(fd);
	return alive;
}

static void leave_daemon(struct holder *h)
{
	if (h->daemon >= 0)
		close(steal_fd(&h->daemon));
}

/* Return: false once the spawner is gone. */
static bool admit(struct holder *h)
{
	size_t nfds;
	int fd = -1;
	char byte;
	ssize_t n = fdpass_receive(h->control, &byte, 1, &fd, 1, &nfds, 0);

	if (n <= 0)
		return false;
	if (!nfds)
		return true;
	/* The one before is gone: nothing comes behind what it has said. */
	while (h->daemon >= 0 && hear(h))
		;
	leave_daemon(h);
	h->daemon = fd;
	return true;
}

__attribute__((noreturn)) static void serve(void)
{
	static struct holder h = {.control = CONTROL, .daemon = -1};
	bool goes_on = true;

	for (unsigned i = 0; i <= LENT_MAX; i++)
		h.fd[i] = -1;
	while (goes_on) {
		struct pollfd p[] = {{.fd = h.control, .events = POLLIN},
				     {.fd = h.daemon, .events = POLLIN}};

		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		if (p[1].revents && !hear(&h))
			leave_daemon(&h);
		else if (p[0].revents)
			goes_on = admit(&h);
	}
	_exit(0);
}

#ifdef __SANITIZE_ADDRESS__
#define FILTERED false /* the sanitizer maps memory, and says what it finds */
#else
#define FILTERED true
#endif

static int filter(void)
{
	return FILTERED ? jail_seccomp_install(JAIL_HOLDER, false) : 0;
}

static void *close_all(void *unused)
{
	const int r = filter();
	size_t nfds;
	char byte;

	(void)unused;
	if (fdpass_send(closing.wake[0], &r, sizeof(r), NULL, 0, 0) < 0 || r < 0)
		_exit(1);
	do {
		for (unsigned n = atomic_load(&closing.taken); n != atomic_load(&closing.put);) {
			close(closing.fd[n % CLOSING_MOST]);
			atomic_store(&closing.taken, ++n);
		}
	} while (fdpass_receive(closing.wake[0], &byte, 1, NULL, 0, &nfds, 0) > 0);
	return NULL;
}

/* What the thread has not got, it can't get later. Return: 0 or -errno. */
static int start_closing(void)
{
	pthread_t thread;
	ssize_t n;
	size_t nfds;
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, closing.wake) < 0)
		return -errno;
	r = -pthread_create(&thread, NULL, close_all, NULL);
	if (r < 0)
		return r;
	n = fdpass_receive(closing.wake[1], &r, sizeof(r), NULL, 0, &nfds, 0);
	return n < 0 ? (int)n : r;
}

/* Who is heard is perhaps a guest that has taken the daemon over: if this is taken over as well,
 * that is worth nothing. */
static int give_up_rights(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[2] = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &h, none) < 0)
		return -errno;
	return 0;
}

pid_t holder_start(int *ret_control)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = _Fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "xsbxfs-holder");
		/* It keeps nothing of its parent's. */
		if (dup2(pair[1], CONTROL) < 0 || close_range(CONTROL + 1, ~0u, 0) < 0 ||
		    give_up_rights() < 0 || start_closing() < 0 || filter() < 0)
			_exit(1);
		serve();
	}
	if (pid < 0)
		pid = -errno;
	close(pair[1]);
	if (pid > 0)
		*ret_control = pair[0];
	else
		close(pair[0]);
	return pid;
}

int holder_admit(int control)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	r = only_errno(fdpass_send_patiently(control, "", 1, &pair[1], 1, MSG_DONTWAIT, ADMIT_MS));
	close(pair[1]);
	if (r == 0)
		return pair[0];
	close(pair[0]);
	return r;
}
