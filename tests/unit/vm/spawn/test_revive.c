/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon dies: another one has its children, its descriptors and its estate; but not for ever. */
/* modules: tests/unit/fixture/mortal.c tests/unit/fixture/spawner_fixture.c */
/* modules: tests/unit/fixture/free_rules.c */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/mortal.h"
#include "vm/base/estate.h"
#include "vm/base/fdpass.h"
#include "vm/base/memory.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"
#include "vm/jail/cell.h"
#include "vm/spawn/spawner_internal.h"

static void another_goes_on(void **state)
{
	_cleanup_close_ int kept = -1, other = -1;
	struct child claimed, unknown;
	struct news n;
	char byte;

	(void)state;
	mortal_begin(0);
	kept = mortal_child(&claimed);
	other = mortal_child(&unknown);
	t.e->claimed = claimed.id;
	mortal_die();
	n = mortal_news();
	assert_int_equal(n.inherited, 0);
	assert_int_equal(n.instance, jail_instance_id());
	assert_string_equal(n.conf, CONF);
	assert_int_equal(n.lent, 0);
	assert_true(n.takes);
	assert_int_equal(read(t.lent[0], &byte, 1), 1);
	/* What is not known any more has ended. */
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, NOBODY);
	assert_true(mortal_ends_within(other, patience_ms()));
	assert_false(mortal_ends_within(kept, 50));
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(t.e->last, 0);
	assert_int_equal(mortal_end(), 0); /* its own end is a good one */
	assert_true(mortal_ends_within(kept, patience_ms()));
}

static int write_nothing(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	return 0;
}

/* The daemon has heard how its child ended, and dies before it has written that down: the next one hears the same. */
static void an_end_is_told_again(void **state)
{
	static const struct turn_ops ops = {.write = write_nothing};
	struct estate *e;
	struct turn turn;
	struct child c;
	struct news n;

	(void)state;
	mortal_begin(0);
	assert_int_equal(estate_new(&e), 0);
	turn_start(&turn, &loop, e, &ops, NULL);
	spawner_set_turn(sp, &turn);
	(void)mortal_child(&c);
	assert_int_equal(kill(c.pid, SIGTERM), 0);
	while (!t.exited)
		uv_run(&loop, UV_RUN_ONCE); /* and not to the end of the turn */
	t.e->claimed = c.id;
	turn_hush(&turn, &sp->acknowledges); /* that is how it dies */
	turn_close(&turn);
	mortal_die();
	n = mortal_news();
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, c.id);
	assert_int_equal(n.note.status, SIGTERM);
	assert_int_equal(mortal_end(), 0);
	estate_free(e);
}

/* One after the other dies; the one behind the last of them serves. */
static void again(void **state)
{
	struct news n;

	(void)state;
	mortal_begin(1000);
	t.e->dies = 7;
	mortal_die();
	n = mortal_news();
	assert_true(n.takes);
	assert_int_equal(t.e->begun, 8);
	assert_int_equal(t.e->last, 0);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	n = mortal_news();
	assert_true(n.takes);
	assert_int_equal(t.e->begun, 9);
	assert_int_equal(mortal_end(), 0);
}

/* Too often: the last is to end in good order. */
static void the_last(void **state)
{
	(void)state;
	mortal_begin(2);
	t.e->dies = 1;
	mortal_die();
	assert_int_equal(mortal_end(), 0);
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.ready, 2);
	assert_int_equal(t.was.last, 1);
}

/* ... and if it can't, the mount ends as if there had been no estate. */
static void no_other(void **state)
{
	int status;

	(void)state;
	mortal_begin(2);
	t.e->never_ready = true;
	mortal_die();
	status = mortal_end();
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.last, 1);
	/* There is nobody else who could tell, from the first to the last. */
	assert_non_null(
		strstr(t.said,
		       "the daemon died: it was killed by signal 9 (Killed); another one goes on"));
	assert_non_null(
		strstr(t.said, "the daemon died: it ended with status 3; that is too often"));
	assert_non_null(strstr(
		t.said, "the daemon died 3 times in a row, at last: it ended with status 3"));
}

/* Who can't go on with what there is, and says why, has not died, and is asked but twice. */
static void who_refuses(void **state)
{
	(void)state;
	mortal_begin(0);
	t.e->refuses = true;
	mortal_die();
	assert_true(WIFSIGNALED(mortal_end()));
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.last, 0);
	assert_non_null(
		strstr(t.said, "no other daemon can go on, and the mount ends: its own words"));
	assert_null(strstr(t.said, "times in a row"));
}

/* The directory where the mount was made is gone. */
static void from_nowhere(void **state)
{
	char dir[] = "/tmp/xsbxfs-unit.XXXXXX", before[4096];

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	mortal_begin(0);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(rmdir(dir), 0);
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(mortal_end(), 0);
}

#define PATIENCE_MS 800

/* Who hangs is given up after a while, as if it had died. */
static void who_hangs(void **state)
{
	(void)state;
	t.patience_ms = PATIENCE_MS;
	mortal_begin(0);
	t.patience_ms = 0;
	t.e->hang = 1;
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 2);
	assert_int_equal(mortal_end(), 0);
}

/* ... but not who has much to do. */
static void who_is_slow(void **state)
{
	(void)state;
	t.patience_ms = PATIENCE_MS;
	mortal_begin(0);
	t.patience_ms = 0;
	t.e->slow_ms = 2 * PATIENCE_MS + PATIENCE_MS / 2;
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(mortal_end(), 0);
}

/* One that ends while an heir loads is reaped then, and not when that is ready. */
static void reaped_meanwhile(void **state)
{
	struct child c;
	char path[32];
	struct news n;

	(void)state;
	mortal_begin(0);
	close(mortal_child(&c));
	snprintf(path, sizeof(path), "/proc/%d", (int)c.pid);
	t.e->claimed = c.id;
	t.e->slow_ms = 1500;
	mortal_die();
	while (t.e->begun < 1)
		usleep(1000);
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	for (unsigned ms = 0; access(path, F_OK) == 0; ms += 10) {
		assert_in_range(ms, 0, 1200);
		usleep(10000);
	}
	assert_int_equal(t.e->ready, 0);
	n = mortal_news();
	assert_true(n.takes);
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, c.id);
	assert_int_equal(mortal_end(), 0);
}

/* The next one would come after five seconds. */
static void asked_meanwhile(void **state)
{
	struct timespec from, to;

	(void)state;
	mortal_begin(3);
	t.e->dies = 1;
	t.e->stays = true;
	mortal_die();
	while (t.e->ready < 1)
		usleep(1000);
	usleep(300000);
	assert_int_equal(t.e->begun, 1);
	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(kill(t.guard, SIGTERM), 0);
	assert_true(mortal_news().takes);
	clock_gettime(CLOCK_MONOTONIC, &to);
	assert_in_range(to.tv_sec - from.tv_sec, 0, 3);
	assert_int_equal(mortal_end(), 0);
}

static void a_goodbye(void **state)
{
	(void)state;
	mortal_begin(0);
	assert_int_equal(mortal_end(), 0);
	assert_int_equal(t.was.begun, 0);
}

/* There is nothing to go on with: neither when that was given up, nor without the holder. */
static void nothing_left(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		mortal_begin(0);
		if (i == 0) {
			assert_int_equal(spawner_no_estate(sp), 0);
		} else {
			const pid_t holder = spawner_fixture_child("xsbxfs-holder");
			_cleanup_close_ int fd = pidfd_open(holder, 0);

			assert_true(fd >= 0);
			assert_int_equal(kill(holder, SIGKILL), 0);
			assert_true(mortal_ends_within(fd, patience_ms()));
		}
		mortal_die();
		assert_true(WIFSIGNALED(mortal_end()));
		assert_int_equal(t.was.begun, 0);
	}
}

/* What came along with what nobody understands is the spawner's to close, also if the daemon is gone. */
static void what_comes_along(void **state)
{
	int ends[2], fds[SPAWN_FDS_MAX];
	struct pollfd p = {.events = 0};
	pid_t spawner;

	(void)state;
	mortal_begin(0);
	spawner = spawner_pid(sp);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (size_t i = 0; i < SPAWN_FDS_MAX; i++)
		fds[i] = ends[1];
	assert_int_equal(kill(spawner, SIGSTOP), 0);
	assert_int_equal(fdpass_send(sp->sock, "", 1, fds, SPAWN_FDS_MAX, 0), 1);
	close(ends[1]);
	mortal_die();
	assert_int_equal(kill(spawner, SIGCONT), 0);
	assert_true(mortal_news().takes);
	p.fd = ends[0];
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_true(p.revents & POLLHUP);
	close(ends[0]);
	assert_int_equal(mortal_end(), 0);
}

/* Who refuses is asked but twice in a row, of which a death is the end. */
static void now_and_then(void **state)
{
	(void)state;
	mortal_begin(0);
	memcpy(t.e->turns, "rxr", 4);
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 4);
	assert_int_equal(mortal_end(), 0);
}

/* Nothing is written there yet, and nobody knows of a mount. */
static void too_early(void **state)
{
	(void)state;
	mortal_prepare(0);
	mortal_die();
	assert_true(WIFSIGNALED(mortal_end()));
	assert_int_equal(t.was.begun, 0);
}

/* What an heir has copied counts as soon as it is the daemon: the first estate nobody looks at any more. */
static void a_copy(void **state)
{
	struct news n;

	(void)state;
	mortal_begin(0);
	t.e->copies = COPIES;
	mortal_die();
	n = mortal_news();
	assert_int_equal(t.e->begun, 1);
	t.e->copies = COPIES_NOT;
	t.e->never_ready = true; /* who goes by it does not get far */
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	n = mortal_news();
	assert_true(n.takes);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(mortal_end(), 0);
}

/* ... and not before. */
static void a_copy_too_early(void **state)
{
	(void)state;
	mortal_begin(0);
	t.e->copies = COPIES_AND_DIES;
	mortal_die();
	assert_true(mortal_news().takes);
	assert_int_equal(t.e->begun, 2);
	assert_int_equal(mortal_end(), 0);
}

/* What the next one goes by is not for the daemon to say, who may be anybody by then; nor for one that goes on. */
static void what_it_goes_by(void **state)
{
	_cleanup_close_ int other = mortal_text("as it likes");
	struct news n;

	(void)state;
	mortal_begin(0);
	assert_int_equal(memory_seal(other), 0);
	assert_int_equal(spawner_conf(sp, other), 0);
	mortal_die();
	n = mortal_news();
	assert_true(n.takes);
	assert_string_equal(n.conf, CONF);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	assert_string_equal(mortal_news().conf, CONF);
	assert_int_equal(mortal_end(), 0);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_goes_on),  cmocka_unit_test(again),
		cmocka_unit_test(the_last),	    cmocka_unit_test(no_other),
		cmocka_unit_test(a_goodbye),	    cmocka_unit_test(nothing_left),
		cmocka_unit_test(what_it_goes_by),  cmocka_unit_test(who_refuses),
		cmocka_unit_test(from_nowhere),	    cmocka_unit_test(asked_meanwhile),
		cmocka_unit_test(too_early),	    cmocka_unit_test(an_end_is_told_again),
		cmocka_unit_test(who_hangs),	    cmocka_unit_test(who_is_slow),
		cmocka_unit_test(reaped_meanwhile), cmocka_unit_test(a_copy),
		cmocka_unit_test(a_copy_too_early), cmocka_unit_test(what_comes_along),
		cmocka_unit_test(now_and_then)};
	int status;

	if (mortal_is_heir(argc, argv, &status))
		return status;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
