/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants a mount to be taken over. See askers.h. */
#include "askers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "heir_wire.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

#define ASK_MS	 5000 /* who has come is not waited for any longer */
#define AGAIN_MS 1000

/* Return: 0 or -errno. */
static int watch(const struct askers *a, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int askers_init(struct askers *a, int listener)
{
	int r;

	*a = (struct askers){.listener = listener, .epoll = -1};
	if (listener < 0)
		return -ENOENT;
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	r = a->epoll < 0 ? -errno : watch(a, listener);
	if (r < 0)
		askers_close(a, "");
	return r;
}

void askers_answer(int *sock, pid_t pid, const char *words)
{
	struct heir_answer answer = {.magic = HEIR_MAGIC, .pid = pid};

	if (*sock < 0)
		return;
	snprintf(answer.words, sizeof(answer.words), "%s", words);
	(void)fdpass_send(*sock, &answer, sizeof(answer), NULL, 0, MSG_DONTWAIT);
	close(steal_fd(sock));
}

/* Whose mount it is, or root. */
static bool may_ask(int sock)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	       (who.uid == 0 || who.uid == geteuid());
}

/* A child that is on its way to its exec may have it still: that it is closed here is not enough
 * for the epoll. Return: its socket, which is not watched any more. */
static int take(struct askers *a, size_t i)
{
	const int sock = a->item[i].sock;

	(void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, sock, NULL);
	a->n--;
	memmove(&a->item[i], &a->item[i + 1], (a->n - i) * sizeof(a->item[0]));
	return sock;
}

static void give_up(struct askers *a, size_t i, const char *words)
{
	int sock = take(a, i);

	askers_answer(&sock, 0, words);
}

static void add(struct askers *a, int sock, int64_t now)
{
	char byte;

	if (!may_ask(sock)) {
		/* Who is closed with something unread does not get the answer. */
		(void)shutdown(sock, SHUT_RD);
		while (recv(sock, &byte, 1, MSG_DONTWAIT) > 0)
			;
		askers_answer(&sock, 0, "only who mounted it, or root, may take it over");
		return;
	}
	if (a->n == ASKERS_MOST)
		give_up(a, 0, "nothing was asked for, and others have come");
	a->item[a->n].sock = sock;
	a->item[a->n++].until = now + ASK_MS;
	if (watch(a, sock) < 0)
		give_up(a, a->n - 1, "there was no memory for it");
}

/* Return: 1 with the program that he brought; 0: he is silent still; -errno: he is not waited
 * for. */
static int hear(int sock, int *ret_program)
{
	struct heir_ask ask = {0};
	int program = -1;
	size_t nfds = 0;
	const ssize_t n = fdpass_receive(sock, &ask, sizeof(ask), &program, 1, &nfds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return 0;
	if (n == sizeof(ask) && ask.magic == HEIR_MAGIC && nfds == 1) {
		*ret_program = program;
		return 1;
	}
	if (nfds)
		close(program);
	return -EBADMSG;
}

/* Return: as askers_next(), of those that are there. */
static int hear_all(struct askers *a, int64_t now, int *ret_program)
{
	for (size_t i = 0; i < a->n;) {
		const int r = hear(a->item[i].sock, ret_program);

		if (r > 0)
			return take(a, i);
		if (r < 0)
			give_up(a, i, "it was not understood");
		else if (now >= a->item[i].until)
			give_up(a, i, "nothing was asked for");
		else
			i++;
	}
	return -1;
}

/* Nobody can be let in. He who waits is not asked about again and again. */
static void rest(struct askers *a, int64_t now)
{
	(void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, a->listener, NULL);
	a->again = now + AGAIN_MS;
}

static void listen_again(struct askers *a, int64_t now)
{
	a->again = 0;
	if (watch(a, a->listener) < 0)
		rest(a, now);
}

int askers_next(struct askers *a, int64_t now, int *ret_program)
{
	int sock = hear_all(a, now, ret_program);

	if (a->again && now >= a->again)
		listen_again(a, now);

	/* Each is heard before one of them has to go for the next; more than so many wait. */
	for (size_t i = 0; sock < 0 && i < ASKERS_MOST; i++) {
		const int next = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);

		if (next < 0 && errno != EAGAIN)
			rest(a, now);
		if (next < 0)
			break;
		add(a, next, now);
		sock = hear_all(a, now, ret_program);
	}
	return sock;
}

int64_t askers_until(const struct askers *a)
{
	const int64_t until = a->n ? a->item[0].until : INT64_MAX;

	return a->again ? MIN(a->again, until) : until;
}

void askers_close(struct askers *a, const char *words)
{
	while (a->n)
		give_up(a, 0, words);
	askers_leave(a);
	a->listener = a->epoll = -1;
}

void askers_leave(const struct askers *a)
{
	if (a->listener >= 0)
		close(a->listener);
	if (a->epoll >= 0)
		close(a->epoll);
	for (size_t i = 0; i < a->n; i++)
		close(a->item[i].sock);
}
