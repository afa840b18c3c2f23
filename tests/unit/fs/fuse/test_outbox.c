/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that wait for the commit: what an heir says again, and what it doesn't. */
/* modules: fs/fuse/outbox.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <errno.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/fuse/outbox.h"

#define SIZE 1024u

struct fixture {
	void *mem;
	int kernel, daemon; /* a socket that keeps messages apart, as the connection does */
};

static int set_up(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));
	int fds[2];

	if (!fx || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
		return -1;
	*fx = (struct fixture){calloc(1, SIZE), fds[0], fds[1]};
	*state = fx;
	return fx->mem ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *fx = *state;

	close(fx->kernel);
	close(fx->daemon);
	free(fx->mem);
	free(fx);
	return 0;
}

static void add(struct outbox *o, uint64_t unique, size_t len)
{
	char text[2 * SIZE];
	struct fuse_out_header h = {.len = (uint32_t)(sizeof(h) + len), .unique = unique};
	const struct iovec iov[] = {
		{&h, sizeof(h)}, {text, len / 2}, {text + len / 2, len - len / 2}};

	memset(text, (int)unique, sizeof(text));
	assert_int_equal(outbox_add(o, iov, 3), 0);
}

static void heard(struct fixture *fx, uint64_t unique, size_t len)
{
	char text[3 * SIZE];
	struct fuse_out_header h;
	ssize_t n = recv(fx->kernel, text, sizeof(text), MSG_DONTWAIT);

	assert_int_equal(n, sizeof(h) + len);
	memcpy(&h, text, sizeof(h));
	assert_int_equal(h.unique, unique);
	for (size_t i = sizeof(h); i < (size_t)n; i++)
		assert_int_equal(text[i], (char)unique);
}

static void heard_all(struct fixture *fx)
{
	assert_int_equal(recv(fx->kernel, &(char){0}, 1, MSG_DONTWAIT), -1);
}

static void in_order(void **state)
{
	struct fixture *fx = *state;
	struct outbox o;

	outbox_open(&o, fx->mem, SIZE);
	add(&o, 2, 0);
	add(&o, 4, 33);
	heard_all(fx);
	assert_int_equal(o.queued, 16 + 56);
	outbox_say(&o, fx->daemon);
	heard(fx, 2, 0);
	heard(fx, 4, 33);
	assert_int_equal(o.queued, 0);
	outbox_say(&o, fx->daemon);
	heard_all(fx);
}

static void what_does_not_fit(void **state)
{
	struct fixture *fx = *state;
	struct outbox o;

	outbox_open(&o, fx->mem, SIZE);
	add(&o, 2, SIZE / 2);
	add(&o, 4, SIZE);
	add(&o, 6, 3); /* would fit, but not in its turn */
	add(&o, 8, 2 * SIZE);
	assert_int_equal(TAILQ_FIRST(&o.more)->number, 1);
	outbox_say(&o, fx->daemon);
	heard(fx, 2, SIZE / 2);
	heard(fx, 4, SIZE);
	heard(fx, 6, 3);
	heard(fx, 8, 2 * SIZE);
	add(&o, 10, 1);
	assert_true(TAILQ_EMPTY(&o.more));
	add(&o, 12, SIZE);
	assert_int_equal(TAILQ_FIRST(&o.more)->number, 4);
	outbox_fini(&o);
}

/* The heir of one that died at some point of a turn: it knows what is recorded. */
static void heirs(void **state)
{
	struct fixture *fx = *state;
	struct outbox o, heir;
	uint64_t turn;
	size_t len;

	outbox_open(&o, fx->mem, SIZE);
	add(&o, 2, 10);
	/* Before any commit. */
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, 0, 0), 0);
	outbox_say(&heir, fx->daemon);
	heard_all(fx);
	/* Between a commit and the end of what follows it. */
	outbox_open(&o, fx->mem, SIZE);
	add(&o, 4, 10);
	add(&o, 6, 20);
	turn = o.turn;
	len = o.len;
	add(&o, 8, 30); /* of another turn, if another heir died meanwhile */
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, turn, len), 0);
	add(&heir, 10, 40);
	outbox_say(&heir, fx->daemon);
	heard(fx, 4, 10);
	heard(fx, 6, 20);
	heard(fx, 10, 40);
	heard_all(fx);
	/* When all was said, and before the next commit. */
	assert_int_equal(outbox_load(&o, fx->mem, SIZE, turn, len), 0);
	outbox_say(&o, fx->daemon);
	heard_all(fx);
	add(&o, 12, 50);
	assert_int_not_equal(o.turn, turn);
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, turn, len), 0);
	outbox_say(&heir, fx->daemon);
	heard_all(fx);
}

static void strange_ones(void **state)
{
	struct fixture *fx = *state;
	struct fuse_out_header *first = (void *)((char *)fx->mem + 64),
			       lone = {.len = sizeof(lone)};
	struct outbox o, heir;

	outbox_open(&o, fx->mem, SIZE);
	add(&o, 2, 8);
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 24), 0);
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 23), -EBADMSG);
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 32), -EBADMSG);
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, SIZE), -EBADMSG);
	first->len = 15;
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 24), -EBADMSG);
	first->len = UINT32_MAX;
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 24), -EBADMSG);
	first->len = 24;
	assert_int_equal(outbox_load(&heir, fx->mem, SIZE, o.turn, 24), 0);
	assert_int_equal(outbox_load_more(&heir, 7, &lone, sizeof(lone)), 0);
	assert_int_equal(outbox_load_more(&heir, 7, &lone, sizeof(lone)), -EBADMSG);
	assert_int_equal(outbox_load_more(&heir, 8, &lone, sizeof(lone) - 1), -EBADMSG);
	lone.len++;
	assert_int_equal(outbox_load_more(&heir, 8, &lone, sizeof(lone)), -EBADMSG);
	outbox_fini(&heir);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(in_order),
		test(what_does_not_fit),
		test(heirs),
		test(strange_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
