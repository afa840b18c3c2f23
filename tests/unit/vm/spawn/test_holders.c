/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the descriptors for the next daemon: the first, those that follow it, and what counts meanwhile. */
/* modules: tests/unit/fixture/mortal.c tests/unit/fixture/spawner_fixture.c */
/* modules: tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/mortal.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/memory.h"
#include "vm/base/util.h"
#include "vm/spawn/spawner_internal.h"

#define MANY 300 /* children, beyond what a daemon may leave unread */

/* So many holders can't be told of at first: there are too many descriptors on their way. The spawner
 * counts. */
static atomic_int *crowded;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct spawn_note note = {0};

	if (message->msg_controllen && message->msg_iov->iov_len == sizeof(note))
		memcpy(&note, message->msg_iov->iov_base, sizeof(note));
	if (crowded && note.op == SPAWN_NOTE_HOLDER && atomic_fetch_sub(crowded, 1) > 0) {
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static struct {
	int fd; /* of the one that was heard of last; or -1 */
	unsigned begun, ended;
} holders;

static void on_begun(void *data, int fd, int err)
{
	(void)data;
	if (holders.fd >= 0)
		close(holders.fd);
	holders.fd = fd;
	holders.begun++;
	assert_int_equal(err, 0);
}

static void on_ended(void *data)
{
	(void)data;
	holders.ended++;
}

static void begin(void)
{
	static const struct spawner_holder_ops ops = {.begun = on_begun, .ended = on_ended};

	mortal_begin(0);
	memset(&holders, 0, sizeof(holders));
	holders.fd = -1;
	spawner_on_holder(sp, &ops, NULL);
}

/* Until the daemon has heard of that. */
static void kill_holder(void)
{
	const unsigned ended = holders.ended + 1;

	assert_int_equal(kill(spawner_fixture_child("xsbxfs-holder"), SIGKILL), 0);
	while (holders.ended < ended)
		uv_run(&loop, UV_RUN_ONCE);
}

static void await_holder(unsigned begun)
{
	while (holders.begun < begun)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(holders.fd >= 0);
}

static void ask_again(void)
{
	const unsigned begun = holders.begun + 1;

	assert_int_equal(spawner_estate_again(sp, t.estate), 0);
	await_holder(begun);
}

/* The daemon lends the one that it has heard of last all that there is. */
static void lend_again(void)
{
	lent_committed();
	lent_again(steal_fd(&holders.fd));
	assert_false(lent_is_away());
	assert_int_equal(spawner_survives(sp), 0);
}

/* As the daemon does, but as long as a busy host's spawner needs to read what went before. */
static void ask(const void *message, size_t len)
{
	struct pollfd p = {.fd = sp->sock, .events = POLLOUT};
	int r = spawner_send(sp, message, len, NULL, 0);

	while (r == -EAGAIN && poll(&p, 1, patience_ms()) == 1)
		r = spawner_send(sp, message, len, NULL, 0);
	assert_int_equal(r, 0);
}

static void another_goes_on(void)
{
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(mortal_end(), 0);
}

static void it_is_the_end(void)
{
	mortal_die();
	if (holders.fd >= 0)
		close(steal_fd(&holders.fd));
	assert_true(WIFSIGNALED(mortal_end()));
	assert_int_equal(t.was.begun, 0);
}

static const char without[] = "no other daemon can go on: the process that holds";

/* One that has ended is followed by another one, which has nothing until the daemon has lent it all. */
static void the_next_holder(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 8; i++) {
		kill_holder();
		ask_again();
		lend_again();
	}
	assert_int_equal(holders.ended, 8);
	another_goes_on();
}

/* The daemon dies before it has asked for another one; or before it has lent that anything; or says that of the one
 * that has ended. */
static void not_lent_again(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		begin();
		kill_holder();
		if (i == 1)
			ask_again();
		if (i == 2)
			assert_int_equal(spawner_survives(sp), 0);
		it_is_the_end();
		assert_non_null(strstr(t.said, without));
	}
}

/* The daemon says that it does not hear: it is not waited for, and what was written down is of no use. */
static void a_deaf_one(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		_cleanup_close_ int deaf = -1;
		pid_t pid;

		begin();
		pid = spawner_fixture_child("xsbxfs-holder");
		deaf = pidfd_open(pid, 0);
		assert_true(deaf >= 0);
		assert_int_equal(kill(pid, SIGSTOP), 0);
		assert_int_equal(spawner_unheld(sp), 0);
		assert_true(mortal_ends_within(deaf, patience_ms()));
		if (i == 0) {
			it_is_the_end();
			assert_non_null(strstr(t.said, without));
			continue;
		}
		ask_again();
		lend_again();
		/* The daemon has said so itself. */
		assert_int_equal(holders.ended, 0);
		another_goes_on();
	}
}

/* The spawner is not to take one for lost that it could not speak of at once, however long that takes. */
static void a_crowd(void **state)
{
	(void)state;
	atomic_store(crowded, 1);
	begin(); /* the daemon waits for the answer */
	kill_holder();
	atomic_store(crowded, 5);
	ask_again();
	lend_again();
	assert_true(atomic_load(crowded) <= 0);
	another_goes_on();
}

/* The spawner reads nothing for a while; there is no room in the socket. */
static void stop_and_fill(void)
{
	const struct spawn_request none = {.op = SPAWN_OP_LOG, .id = LOG_NLEVELS};

	assert_int_equal(kill(spawner_pid(sp), SIGSTOP), 0);
	for (int i = 0; i < 3; i++) { /* until it has stopped, and there is none still */
		while (fdpass_send(sp->sock, &none, sizeof(none), NULL, 0, MSG_DONTWAIT) > 0)
			;
		usleep(10000);
	}
}

static void await_sent(void)
{
	while (sp->unsent.n)
		uv_run(&loop, UV_RUN_ONCE);
}

static void go_on(void)
{
	assert_int_equal(kill(spawner_pid(sp), SIGCONT), 0);
	await_sent();
}

/* What the daemon has to say of holders is said when there is room again. */
static void said_later(void **state)
{
	(void)state;
	begin();
	stop_and_fill();
	assert_int_equal(spawner_unheld(sp), 0);
	assert_int_equal(spawner_estate_again(sp, t.estate), 0);
	go_on();
	await_holder(1);
	stop_and_fill();
	lend_again();
	go_on();
	another_goes_on();
}

/* So many requests are refused, and that is said: more than there is room for. */
static void fill_with_notes(void)
{
	struct spawn_request req = {.op = SPAWN_OP_SPAWN};

	for (req.id = 1000; req.id < 2000; req.id++)
		ask(&req, sizeof(req));
}

/* A daemon that does not read does not keep the spawner from anything: not by the end of a child, nor its beginning, nor
 * a holder. */
static void who_does_not_read(void **state)
{
	struct spawn_request req = {.op = SPAWN_OP_KILL};
	struct child c, other;
	int fd;

	(void)state;
	begin();
	fd = mortal_child(&c);
	fill_with_notes();
	mortal_ask_child(&other);
	assert_int_equal(spawner_unheld(sp), 0);
	assert_int_equal(spawner_estate_again(sp, t.estate), 0);
	req.id = c.id;
	ask(&req, sizeof(req));
	assert_true(mortal_ends_within(fd, patience_ms()));
	/* ... and all of it is heard later. */
	spawner_fixture_await(&t.exited);
	spawner_fixture_await(&t.started);
	await_holder(1);
	lend_again();
	await_sent();
	another_goes_on();
}

/* Return: how many of those from @id on began, or, with @err, did not because of that. */
static unsigned hear_births(uint32_t id, unsigned n, int err)
{
	unsigned found = 0;

	for (unsigned heard = 0; heard < n;) {
		struct pollfd p = {.fd = sp->sock, .events = POLLIN};
		struct spawn_note note;

		assert_int_equal(poll(&p, 1, patience_ms()), 1);
		assert_int_equal(recv(sp->sock, &note, sizeof(note), 0), sizeof(note));
		if (note.id < id || note.op == SPAWN_NOTE_EXITED)
			continue;
		found += note.error == err;
		heard++;
	}
	return found;
}

/* One that never reads has no more children than the spawner keeps notes for, and the others are not begun. */
static void who_never_reads(void **state)
{
	const char *const argv[] = {"/bin/sleep", "1000", NULL}, *const envp[] = {NULL};
	const struct free_job job = {.argv = argv, .envp = envp};
	struct spawn_request req = {.op = SPAWN_OP_SPAWN};
	char message[SPAWN_MESSAGE_MAX];
	ssize_t len;
	struct child c;
	int fd;

	(void)state;
	begin();
	fd = mortal_child(&c);
	fill_with_notes();
	len = free_pack(&job, message + sizeof(req), sizeof(message) - sizeof(req));
	for (req.id = 5000; req.id < 5000 + MANY; req.id++) {
		memcpy(message, &req, sizeof(req));
		ask(message, sizeof(req) + (size_t)len);
	}
	req = (struct spawn_request){.op = SPAWN_OP_KILL, .id = c.id};
	ask(&req, sizeof(req));
	assert_true(mortal_ends_within(fd, patience_ms()));
	assert_in_range(hear_births(5000, MANY, -ENOBUFS), 1, MANY / 2);
	another_goes_on();
}

/* An estate for which the spawner has no descriptor left is one that it did not get: that is said. */
static void lost_on_its_way(void **state)
{
	struct rlimit before, few;
	int holder = -1;

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin();
		assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, NULL, &before), 0);
		few = (struct rlimit){5,
				      before.rlim_max}; /* as many as it polls, and has already */
		assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, &few, NULL), 0);
		assert_int_equal(spawner_estate(sp, t.estate, &holder), -ENOTSUP);
		assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, &before, NULL), 0);
		if (i == 0) {
			it_is_the_end();
			continue;
		}
		ask_again();
		lend_again();
		another_goes_on();
	}
}

/* A second estate counts as soon as the daemon says so; the first does not any more. */
static void not_yet(void **state)
{
	_cleanup_close_ int empty = memfd_create("empty", MFD_CLOEXEC);
	int holder;

	(void)state;
	begin();
	assert_int_equal(spawner_estate(sp, empty, &holder), 0);
	close(holder);
	it_is_the_end();
}

/* ... and so does its holder. */
static void another_estate(void **state)
{
	int holder;

	(void)state;
	begin();
	lent_end();
	assert_int_equal(spawner_estate(sp, t.estate, &holder), 0);
	assert_int_equal(lent_begin(holder), 0);
	assert_int_equal(lent_put(t.lent[0]), 1);
	assert_int_equal(lent_put(t.lent[1]), 2);
	t.e->lent = 2;
	assert_int_equal(spawner_survives(sp), 0);
	another_goes_on();
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_holder), cmocka_unit_test(not_lent_again),
		cmocka_unit_test(a_deaf_one),	   cmocka_unit_test(a_crowd),
		cmocka_unit_test(said_later),	   cmocka_unit_test(who_does_not_read),
		cmocka_unit_test(who_never_reads), cmocka_unit_test(lost_on_its_way),
		cmocka_unit_test(not_yet),	   cmocka_unit_test(another_estate)};
	int status;

	if (mortal_is_heir(argc, argv, &status))
		return status;
	crowded = mmap(NULL, sizeof(*crowded), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(crowded != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
