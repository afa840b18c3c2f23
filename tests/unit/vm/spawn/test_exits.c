/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon does about the ends of its children comes behind the commit of what follows from them. */
/* modules: vm/spawn/spawner.c vm/spawn/spawner_child.c vm/spawn/spawner_notes.c vm/spawn/spawner_heir.c */
/* modules: vm/spawn/spawner_requests.c vm/spawn/spawner_estate.c vm/spawn/child_record.c vm/spawn/program.c vm/base/unsent.c */
/* modules: vm vm/base/turn.c vm/base/blackbox.c */
/* libs: uv seccomp crypto */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/estate.h"
#include "vm/base/fdpass.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"
#include "vm/spawn/child_record.h"
#include "vm/spawn/spawner_internal.h"

#define ID 5u

/* A daemon with one child; the test is its spawner. */
static struct {
	uv_loop_t loop;
	struct spawner *sp;
	int sock; /* the spawner's end */
	struct estate *e;
	struct turn turn;
	struct child c;
	pid_t pid;
	unsigned nexited;
	int status;
	uint64_t oom_kills, used_us;
	unsigned nwrites;
} t;

/* Return: whether the spawner is told that the child is forgotten. */
static bool hears_forget(void)
{
	struct spawn_request req;
	bool found = false;

	while (recv(t.sock, &req, sizeof(req), MSG_DONTWAIT) == sizeof(req))
		found |= req.op == SPAWN_OP_FORGET;
	return found;
}

static bool is_dead(void)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)t.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Nothing of it was said or done before the first. */
static int on_write(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	assert_false(t.nwrites == 0 && hears_forget());
	assert_false(t.nwrites == 0 && t.pid && is_dead());
	t.nwrites++;
	return 0;
}

static const struct turn_ops turn_ops = {.write = on_write};

static void on_exited(struct child *c, int status)
{
	t.nexited++;
	t.status = status;
	t.oom_kills = c->oom_kills;
	t.used_us = c->used_us;
}

static void begin(bool in_turns)
{
	struct spawner_ends ends = {.tie = -1};
	int pair[2];

	memset(&t, 0, sizeof(t));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ends.sock = pair[0];
	t.sock = pair[1];
	t.sp = spawner_new(&ends);
	assert_non_null(t.sp);
	assert_int_equal(uv_loop_init(&t.loop), 0);
	assert_int_equal(spawner_attach(t.sp, &t.loop), 0);
	if (!in_turns)
		return;
	assert_int_equal(estate_new(&t.e), 0);
	turn_start(&t.turn, &t.loop, t.e, &turn_ops, NULL);
	spawner_set_turn(t.sp, &t.turn);
	turn_now(&t.turn);
	t.nwrites = 0;
}

static void nothing(void *data)
{
	(void)data;
}

static void end(void)
{
	if (t.e)
		turn_close(&t.turn);
	spawner_detach(t.sp, nothing, NULL);
	while (uv_run(&t.loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(&t.loop), 0);
	spawner_stop(t.sp);
	estate_free(t.e);
	close(t.sock);
	if (t.pid) {
		kill(t.pid, SIGKILL);
		waitpid(t.pid, NULL, 0);
	}
}

/* It runs. */
static void adopt(void)
{
	t.pid = fork();
	if (t.pid == 0) {
		close_range(STDERR_FILENO + 1, ~0u, 0);
		(void)pause();
		_exit(0);
	}
	t.c = (struct child){
		.id = ID, .pid = t.pid, .exited = on_exited, .stats = CGROUP_STAT_NONE, .kept = -1};
	t.c.pidfd = pidfd_open(t.pid, 0);
	assert_true(t.c.pidfd >= 0);
	assert_int_equal(spawner_adopt(t.sp, &t.c), 0);
}

/* The spawner says so. */
static void say(uint32_t id, int status, uint32_t oom_kills)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_EXITED,
					.id = id,
					.status = status,
					.oom_kills = oom_kills,
					.at = 77};

	assert_int_equal(send(t.sock, &note, sizeof(note), 0), sizeof(note));
}

static void say_end(int status, uint32_t oom_kills)
{
	say(ID, status, oom_kills);
	while (!t.nexited)
		uv_run(&t.loop, UV_RUN_ONCE);
}

/* What the loop has still to do, without waiting. */
static void turn_over(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&t.loop, UV_RUN_NOWAIT);
}

/* ---- tests ---- */

static void at_once(void **state)
{
	(void)state;
	begin(false);
	adopt();
	say_end(W_EXITCODE(7, 0), 0);
	assert_int_equal(t.status, W_EXITCODE(7, 0));
	assert_true(hears_forget());
	end();
}

/* The spawner knows of its end until that is written down. */
static void behind_the_commit(void **state)
{
	(void)state;
	begin(true);
	adopt();
	say_end(W_EXITCODE(7, 0), 3);
	assert_int_equal(t.status, W_EXITCODE(7, 0));
	assert_int_equal(t.oom_kills, 3);
	assert_int_equal(t.used_us, 77);
	assert_int_equal(t.nwrites, 0);
	assert_false(hears_forget());
	turn_over();
	assert_int_equal(t.nwrites, 1);
	assert_true(hears_forget());
	end();
}

/* ... and for as long as it is in a record. */
static void until_it_is_over(void **state)
{
	(void)state;
	begin(true);
	adopt();
	t.c.lingers = true;
	say_end(W_EXITCODE(7, 0), 0);
	turn_due(&t.turn);
	turn_over();
	assert_int_equal(t.nwrites, 1);
	assert_false(hears_forget());
	child_acknowledge(t.sp, ID);
	assert_false(hears_forget());
	turn_over();
	assert_int_equal(t.nwrites, 2);
	assert_true(hears_forget());
	end();
}

static unsigned nover;

static void on_over(struct program *p)
{
	assert_int_equal(p->status, SIGTERM);
	nover++;
}

/* A program is told of by its owner when it is over. */
static void until_a_program_is(void **state)
{
	static struct program p;
	int output[2];

	(void)state;
	begin(true);
	assert_int_equal(pipe(output), 0);
	nover = 0;
	p = (struct program){.over = on_over};
	program_prepare(&p);
	p.child.id = ID + 1;
	p.child.pidfd = p.child.kept = -1;
	p.child.stats = CGROUP_STAT_NONE;
	assert_int_equal(spawner_adopt(t.sp, &p.child), 0);
	program_listen(&p, &t.loop, output[0]);
	say(ID + 1, SIGTERM, 0);
	while (!nover) {
		assert_false(hears_forget());
		uv_run(&t.loop, UV_RUN_ONCE);
	}
	turn_over();
	assert_true(hears_forget());
	close(output[1]);
	end();
}

/* Who comes after this daemon does not find it dead, and nobody knows why. */
static void killed_behind_the_commit(void **state)
{
	struct pollfd p = {.events = POLLIN};

	(void)state;
	begin(true);
	adopt();
	p.fd = t.c.pidfd;
	child_kill(&t.c);
	assert_int_equal(poll(&p, 1, 50), 0);
	turn_over();
	assert_int_equal(t.nwrites, 1);
	assert_int_equal(poll(&p, 1, 10000), 1);
	say_end(SIGKILL, 0);
	end();
}

/* It ends by itself meanwhile, and is gone. */
static void ended_before_that(void **state)
{
	(void)state;
	begin(true);
	adopt();
	child_kill(&t.c);
	say_end(W_EXITCODE(0, 0), 0);
	memset(&t.c, 0xff, sizeof(t.c)); /* its owner's again */
	turn_over();
	assert_true(hears_forget());
	end();
}

static void put(const struct child *c, struct buf *out)
{
	struct fdbag bag = {0};

	out->len = 0;
	child_put(c, out, &bag);
	assert_false(out->failed);
	fdbag_clear(&bag);
}

/* A child that has ended, and of whose end its owner has not made anything yet, is in the record: how it has ended is not
 * what the spawner says, who has forgotten it. */
static void as_it_was(void **state)
{
	struct child next = {.exited = on_exited};
	struct fdbag none = {0};
	struct buf out = {0};

	(void)state;
	begin(true);
	adopt();
	t.c.lingers = true;
	t.c.stats.oom_noted = 1;
	say_end(SIGKILL, 2);
	assert_int_equal(t.c.state, CHILD_GONE);
	put(&t.c, &out);
	t.nexited = 0;
	assert_int_equal(child_take(t.sp, record_reader(out.data, out.len), &none, &next), 0);
	assert_int_equal(next.id, ID);
	child_kill(&next); /* which nobody has to have any more */
	turn_over();
	assert_int_equal(t.nexited, 0);
	say_end(W_EXITCODE(1, 0), 0);
	assert_int_equal(t.status, SIGKILL);
	assert_int_equal(t.oom_kills, 2);
	assert_int_equal(t.used_us, 77);
	assert_int_equal(next.stats.oom_noted, 1);
	/* And once more. */
	put(&next, &out);
	next = (struct child){.exited = on_exited};
	t.nexited = 0;
	assert_int_equal(child_take(t.sp, record_reader(out.data, out.len), &none, &next), 0);
	say_end(0, 0);
	assert_int_equal(t.status, SIGKILL);
	buf_clear(&out);
	end();
}

/* One that never ran can't be taken; nor one that has ended, and is held. */
static void of_no_other(void **state)
{
	struct child asked = {.id = ID, .state = CHILD_ASKED, .pidfd = -1}, next = {0};
	struct fdbag none = {0};
	struct buf out = {0};

	(void)state;
	begin(false);
	put(&asked, &out);
	assert_int_equal(out.len, 0);
	asked.state = CHILD_GONE;
	put(&asked, &out);
	assert_int_equal(out.len, 0);
	record_u64(&out, 1, ID);
	record_u64(&out, 2, 1);
	record_u64(&out, 3, 1); /* a pidfd, which there is none of */
	assert_int_equal(child_take(t.sp, record_reader(out.data, out.len), &none, &next),
			 -EBADMSG);
	record_u64(&out, 9, 0);
	assert_int_equal(child_take(t.sp, record_reader(out.data, out.len), &none, &next),
			 -EBADMSG);
	buf_clear(&out);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_once),
		cmocka_unit_test(behind_the_commit),
		cmocka_unit_test(until_it_is_over),
		cmocka_unit_test(until_a_program_is),
		cmocka_unit_test(killed_behind_the_commit),
		cmocka_unit_test(ended_before_that),
		cmocka_unit_test(as_it_was),
		cmocka_unit_test(of_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
