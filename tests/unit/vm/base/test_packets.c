/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that can't be sent, or not now, or not with what they carry. */
/* modules: vm/base/packets.c vm/base/lent.c vm/base/fdpass.c */
/* libs: uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/patience.h"
#include "vm/base/fdpass.h"
#include "vm/base/packets.h"
#include "vm/base/util.h"

#define NO_FD 9999 /* nobody has so many open */

static struct packets packets;
static uv_loop_t loop;
static unsigned heard, nended, turns;
static int err;
static bool closed, late;
static int fails; /* the next `nfails` packets with a descriptor can't be sent for this reason */
static unsigned nfails;

/* In the place of the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (fails && nfails && message->msg_controllen) {
		nfails--;
		errno = fails;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd)
{
	(void)p;
	(void)fd;
	assert_int_equal(len, 5);
	assert_memory_equal(bytes, "first", 5);
	assert_int_equal(nended, 0);
	heard++;
	return 0;
}

static void on_ended(struct packets *p, int error)
{
	assert_int_equal(p->queued, 0);
	nended++;
	err = error;
	packets_close(p);
}

static void on_closed(struct packets *p)
{
	(void)p;
	closed = true;
}

static void on_late(uv_timer_t *timer)
{
	(void)timer;
	late = true;
}

static void on_turn(uv_prepare_t *prepare)
{
	(void)prepare;
	turns++;
}

/* Until it has ended. */
static void go(void)
{
	uv_prepare_t prepare;
	uv_timer_t timer;

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, on_late, (uint64_t)patience_ms(), 0);
	uv_prepare_init(&loop, &prepare);
	uv_prepare_start(&prepare, on_turn);
	while (!closed && !late)
		uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_close((uv_handle_t *)&prepare, NULL);
	packets_close(&packets);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static int begin(void)
{
	int pair[2];

	heard = nended = turns = 0;
	closed = late = false;
	uv_loop_init(&loop);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	packets = (struct packets){.packet = on_packet, .ended = on_ended, .closed = on_closed};
	assert_int_equal(packets_open(&packets, &loop, pair[0]), 0);
	return pair[1];
}

/* A descriptor that can't be passed on is the end of it, and not of everybody's time. */
static void unsendable(void **state)
{
	const int other = begin();

	(void)state;
	assert_int_equal(send(other, "first", 5, 0), 5);
	assert_int_equal(packets_send(&packets, "lost", 4, NULL, 0, NO_FD), 0);
	assert_int_equal(packets_send(&packets, "more", 4, NULL, 0, -1), 0);
	go();
	close(other);
	assert_false(late);
	assert_int_equal(nended, 1);
	assert_int_equal(err, -EBADF);
	assert_int_equal(heard, 1);
	assert_true(turns < 10);
}

/* Of an end that is gone, what it has said is heard. */
static void gone(void **state)
{
	const int other = begin();

	(void)state;
	assert_int_equal(send(other, "first", 5, 0), 5);
	close(other);
	assert_int_equal(packets_send(&packets, "lost", 4, NULL, 0, -1), 0);
	go();
	assert_false(late);
	assert_int_equal(nended, 1);
	assert_int_equal(heard, 1);
}

/* What the other end has got: a packet, and a descriptor or none. */
static void gets(int other, const char *text, bool with_fd)
{
	char bytes[16];
	size_t nfds;
	int fd;

	assert_int_equal(fdpass_receive(other, bytes, sizeof(bytes), &fd, 1, &nfds, MSG_DONTWAIT),
			 strlen(text));
	assert_memory_equal(bytes, text, strlen(text));
	assert_int_equal(nfds, with_fd);
	if (nfds)
		close(fd);
}

/* Until nothing waits. */
static void go_on(void)
{
	uv_prepare_t prepare;

	uv_prepare_init(&loop, &prepare);
	uv_prepare_start(&prepare, on_turn);
	while (packets.queued && !nended && turns < 1000)
		uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&prepare, NULL);
	packets_close(&packets);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* A descriptor that is not let through is not the end of all others. */
static void too_many(void **state)
{
	const int other = begin();

	(void)state;
	fails = ETOOMANYREFS;
	nfails = 1;
	assert_int_equal(packets_send(&packets, "with", 4, NULL, 0, dup(other)), 0);
	assert_int_equal(packets_send(&packets, "more", 4, NULL, 0, dup(other)), 0);
	go_on();
	assert_int_equal(nended, 0);
	gets(other, "with", false);
	gets(other, "more", true);
	close(other);
}

/* Memory comes back; it is waited for, and not by asking all the time. */
static void no_memory(void **state)
{
	static const int errors[] = {ENOBUFS, ENOMEM};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		const int other = begin();

		fails = errors[i];
		nfails = 4;
		assert_int_equal(packets_send(&packets, "with", 4, NULL, 0, dup(other)), 0);
		assert_int_equal(packets_send(&packets, "more", 4, NULL, 0, -1), 0);
		go_on();
		assert_int_equal(nended, 0);
		assert_int_equal(nfails, 0);
		gets(other, "with", true);
		gets(other, "more", false);
		assert_true(turns < 30);
		close(other);
	}
}

static bool in_turn;
static unsigned rests[2];

static bool on_later(struct packets *p, enum packets_rest rest)
{
	(void)p;
	rests[rest] += in_turn;
	return in_turn;
}

static bool is_there(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static void turns_of_the_loop(unsigned n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* What comes stays where it is, and what goes is not sent, before it is time for that. */
static void in_turns(void **state)
{
	const int other = begin();

	(void)state;
	packets.later = on_later;
	in_turn = true;
	memset(rests, 0, sizeof(rests));
	assert_int_equal(packets_send(&packets, "one", 3, NULL, 0, -1), 0);
	assert_int_equal(packets_send(&packets, "two", 3, NULL, 0, -1), 0);
	turns_of_the_loop(3);
	assert_int_equal(rests[PACKETS_SAY], 2);
	assert_false(is_there(other));
	packets_say(&packets);
	gets(other, "one", false);
	gets(other, "two", false);
	assert_int_equal(packets.queued, 0);

	assert_int_equal(send(other, "first", 5, 0), 5);
	assert_int_equal(send(other, "first", 5, 0), 5);
	turns_of_the_loop(5);
	assert_int_equal(heard, 1);
	assert_int_equal(rests[PACKETS_TAKE_OUT], 1);
	packets_take_out(&packets);
	assert_true(is_there(packets.fd));
	turns_of_the_loop(5);
	assert_int_equal(heard, 2);
	assert_int_equal(rests[PACKETS_TAKE_OUT], 2);
	assert_true(is_there(packets.fd));
	packets_take_out(&packets);
	assert_false(is_there(packets.fd));

	/* And from now on, at once. */
	in_turn = false;
	assert_int_equal(packets_send(&packets, "three", 5, NULL, 0, -1), 0);
	gets(other, "three", false);
	assert_int_equal(send(other, "first", 5, 0), 5);
	turns_of_the_loop(1);
	assert_int_equal(heard, 3);
	assert_false(is_there(packets.fd));
	go_on();
	close(other);
}

/* In the end, what was put off is not done. */
static void ends_in_a_turn(void **state)
{
	const int other = begin();

	(void)state;
	packets.later = on_later;
	in_turn = true;
	assert_int_equal(send(other, "first", 5, 0), 5);
	assert_int_equal(packets_send(&packets, "one", 3, NULL, 0, -1), 0);
	turns_of_the_loop(3);
	assert_int_equal(heard, 1);
	packets_close(&packets);
	packets_say(&packets);
	packets_take_out(&packets);
	assert_false(is_there(other));
	go_on();
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_turns),   cmocka_unit_test(ends_in_a_turn),
		cmocka_unit_test(unsendable), cmocka_unit_test(gone),
		cmocka_unit_test(too_many),   cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
