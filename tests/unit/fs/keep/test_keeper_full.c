/* SPDX-License-Identifier: Apache-2.0 */
/* A full disk: what is lost by it is on it, and said; the reserve. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/vault_fake.c tests/unit/fixture/keeper_fixture.c vm/base/record.c vm/base/remove.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c fs/keep/keeper.c fs/keep/keeper_held.c fs/keep/keeper_item.c fs/keep/keeper_write.c fs/keep/keeper_load.c fs/keep/keeper_removal.c fs/keep/keeper_end.c fs/keep/reserve.c fs/keep/store.c fs/keep/keeper_accounts.c */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/keep/keeper.h"
#include "fs/keep/keeper_internal.h"
#include "fs/session/job.h"
#include "fs/tree/nodes.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keeper_fixture.h"
#include "tests/unit/fixture/vault_fake.h"
#include "vm/base/estate.h"
#include "vm/base/turn.h"

#define TOP   "python/demo/"
#define WHOLE (1u << 20)

/* ---- a disk that is full, but for so many bytes ---- */

static bool full;
static size_t room;

static bool is_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	if (full && is_file(fd)) {
		if (n > room) {
			errno = ENOSPC;
			return -1;
		}
		room -= n;
	}
	return syscall(SYS_write, fd, buf, n);
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
	struct stat st;
	size_t more;

	if (fstat(fd, &st) < 0)
		return errno;
	more = len > st.st_size ? (size_t)(len - st.st_size) : 0;
	if (full && more > room)
		return ENOSPC;
	if (full)
		room -= more;
	return syscall(SYS_fallocate, fd, 0, offset, len) < 0 ? errno : 0;
}

int unlinkat(int fd, const char *name, int flag)
{
	struct stat st;

	if (full && strcmp(name, "reserve") == 0 && fstatat(fd, name, &st, 0) == 0)
		room += (size_t)st.st_size;
	return (int)syscall(SYS_unlinkat, fd, name, flag);
}

static size_t reserved(void)
{
	char path[200];
	struct stat st;

	snprintf(path, sizeof(path), "%s/reserve", kf_state);
	return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static int setup(void **data)
{
	full = false;
	room = 0;
	return kf_setup(data);
}

static int teardown(void **data)
{
	full = false;
	return kf_teardown(data);
}

static void fills_up(void)
{
	full = true;
	room = 0;
}

static void has_room(void)
{
	full = false;
	clock_advance(10000);
	kf_written();
	kf_written();
}

static const char *cause_of(const struct session *s)
{
	assert_int_equal(problem_kept(&s->front.error)->code, PROBLEM_NOT_KEPT);
	return problem_kept(&s->front.error)->cause;
}

static const struct problem *of_root(struct fixture *fx)
{
	static const struct problem none;
	const struct complaint *c = complaint_of(fx->fs, fx->fs->uid);

	return c ? &c->problem : &none;
}

/* ---- tests ---- */

/* There is one from the beginning; what has a record already, and a new session, have theirs on a full disk as well. */
static void test_reserve(void **data)
{
	struct fixture *fx = *data;
	struct kf_next n;

	assert_int_equal(reserved(), WHOLE);
	assert_int_equal(fx_mkdir(fx, "python/old"), 0);
	kf_written();
	fills_up();
	fx_put(fx, "python/old/stdin", "more");
	keeping_changed(session_find(fx->fs, 0, "old"));
	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	kf_written();
	assert_true(kf_is_there("new"));
	assert_in_range(reserved(), WHOLE / 2, WHOLE - 1); /* what is left of it is kept */
	assert_int_equal(of_root(fx)->code, PROBLEM_NOT_KEPT);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "old")->front.next_stdin.len, 4);
	kf_next_end(&n);
	has_room();
	assert_int_equal(reserved(), WHOLE);
	assert_int_equal(of_root(fx)->code, PROBLEM_NONE);
}

/* As long as it is so the root's `error` says it, whoever makes a session meanwhile, or fails to. */
static void test_root_stays(void **data)
{
	struct fixture *fx = *data;

	fills_up();
	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	kf_written();
	assert_int_equal(of_root(fx)->code, PROBLEM_NOT_KEPT);
	complaint_mkdir(fx->fs, &(struct node){.kind = NODE_ROOT, .fs = fx->fs}, "x", fx->fs->uid,
			-ENOMEM);
	assert_int_equal(of_root(fx)->code, PROBLEM_FAILED);
	complaint_mkdir(fx->fs, &(struct node){.kind = NODE_ROOT, .fs = fx->fs}, "x", fx->fs->uid,
			0);
	assert_int_equal(of_root(fx)->code, PROBLEM_NOT_KEPT);
	kf_written();
	assert_int_equal(of_root(fx)->code, PROBLEM_NOT_KEPT);
	has_room();
	assert_int_equal(of_root(fx)->code, PROBLEM_NONE);
}

/* An output has no claim on the reserve; the record of whose it is does without it then. */
static void test_output_has_none(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	static char much[3 * 65536];
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	fills_up();
	fx_put(fx, TOP "in", "two");
	memset(much, 'a', sizeof(much));
	fake_output_bytes(s, VM_STDOUT, much, sizeof(much));
	fake_exit(s, VM_DONE, 7);
	clock_advance(10000);
	kf_written();
	kf_written();
	fx_expect_error(fx, "python/demo", "not-kept");
	kf_next_begin(&n, fx);
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->result.status, 7);
	assert_true(session_run(kf_found(&n, "demo"), 2)->spool[VM_STDOUT].lost > 0);
	kf_next_end(&n);
	assert_true(reserved() > 0);
	has_room();
	assert_string_equal(fx_cat(fx, "python/demo/error"), "");
	kf_next_begin(&n, fx);
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->spool[VM_STDOUT].lost, 0);
	kf_next_end(&n);
}

/* What falls asleep at the end can't be stored. */
static void ends(struct fixture *fx, struct sandbox *s)
{
	keeper_end(fx->fs->keeper, false, kf_on_over, NULL);
	clock_advance(100);
	fake_saved(s, fake_saved_new(300, true), NULL);
	for (int i = 0; i < 20 && !kf_over; i++) {
		clock_work();
		fake_vault_stores(-ENOSPC);
		clock_advance(100);
	}
	assert_true(kf_over);
	assert_false(keeper_kept_all(fx->fs->keeper));
}

/* What was never saved is closed, and says why. */
static void test_end_tells_lost(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	fills_up();
	ends(fx, s);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_CLOSED);
	assert_non_null(strstr(cause_of(kf_found(&n, "demo")), strerror(ENOSPC)));
	assert_int_equal(session_run(kf_found(&n, "demo"), 1)->state, RUN_DONE);
	kf_next_end(&n);
	kf_over = true;
}

/* What had slept is what it was then; that is so when it is awake already, and why is said when it could not be stored. */
static void test_end_tells_back(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	fake_saved(s, fake_saved_new(100, true), NULL);
	kf_written();
	fills_up();
	fx_put(fx, TOP "in", "two");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	kf_written();
	kf_next_begin(&n, fx);
	assert_non_null(strstr(cause_of(kf_found(&n, "demo")), "as it was when it fell asleep at"));
	kf_next_end(&n);
	ends(fx, s);
	kf_next_begin(&n, fx);
	assert_int_equal(kf_found(&n, "demo")->state, SESSION_ASLEEP);
	assert_int_equal(saved_bytes(kf_found(&n, "demo")->asleep.saved), 1100);
	assert_non_null(strstr(cause_of(kf_found(&n, "demo")), "as it was when it fell asleep at"));
	assert_non_null(strstr(cause_of(kf_found(&n, "demo")), strerror(ENOSPC)));
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->state, RUN_DONE);
	kf_next_end(&n);
	kf_over = true;
}

/* Why something could not be stored is forgotten when it could be: what is lost later is lost for another reason. */
static void test_reason_is_over(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	fills_up();
	(void)reserve_release(&fx->fs->keeper->store.reserve, fx->fs->keeper->store.dir, -ENOSPC);
	room = 0; /* somebody else has it */
	fx_put(fx, TOP "in", "two");
	fake_exit(s, VM_DONE, 0);
	kf_written();
	fx_expect_error(fx, "python/demo", "not-kept");
	has_room();
	assert_string_equal(fx_cat(fx, "python/demo/error"), "");
	kf_next_begin(&n, fx);
	assert_null(strstr(cause_of(kf_found(&n, "demo")), strerror(ENOSPC)));
	kf_next_end(&n);
}

/* Nor has its code, or the record would need more than there is. */
static void test_long_code_has_none(void **data)
{
	static char code[600 << 10];
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	const struct problem *p;
	struct kf_next n;

	fake_exit(s, VM_DONE, 0);
	kf_written();
	fills_up();
	memset(code, 'c', sizeof(code) - 1);
	for (int i = 0; i < 3; i++) {
		fx_put(fx, TOP "in", code);
		fake_exit(s, VM_DONE, 7);
	}
	clock_advance(10000);
	kf_written();
	kf_written();
	fx_expect_error(fx, "python/demo", "not-kept");
	kf_next_begin(&n, fx);
	assert_non_null(session_run(kf_found(&n, "demo"), 4));
	assert_int_equal(session_run(kf_found(&n, "demo"), 4)->result.status, 7);
	p = problem_kept(&kf_found(&n, "demo")->front.error);
	assert_non_null(strstr(p->cause, "the code of run 2 can't be read"));
	kf_next_end(&n);
	has_room();
	assert_string_equal(fx_cat(fx, "python/demo/error"), "");
	kf_next_begin(&n, fx);
	assert_int_equal(session_run(kf_found(&n, "demo"), 4)->code.len, sizeof(code) - 1);
	kf_next_end(&n);
}

static void prints(struct sandbox *s)
{
	static char much[(3u << 20) / 2];

	memset(much, 'a', sizeof(much));
	fake_output_bytes(s, VM_STDOUT, much, sizeof(much));
	fake_exit(s, VM_DONE, 7);
}

/* What an output takes on the disk. */
static size_t size_of_output(struct session *s)
{
	char path[320];
	struct stat st;

	snprintf(path, sizeof(path), "%s/sessions/python/demo.%s.out/r1.0", kf_state,
		 store_id(&s->created).text);
	assert_int_equal(stat(path, &st), 0);
	return (size_t)st.st_size;
}

/* An output that is there is not written again with the reserve, which its record needs. */
static void test_output_is_written_once(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s;
	struct kf_next n;

	fx->conf.output_bytes = 4u << 20;
	s = fx_run(fx, "one");
	prints(s);
	kf_written();
	fills_up();
	room = size_of_output(fx_demo(fx)) + 16;
	fx_put(fx, TOP "in", "two");
	prints(s);
	clock_advance(10000);
	kf_written();
	kf_written();
	assert_string_equal(fx_cat(fx, "python/demo/error"), "");
	kf_next_begin(&n, fx);
	assert_int_equal(session_run(kf_found(&n, "demo"), 2)->spool[VM_STDOUT].len,
			 session_run(fx_demo(fx), 2)->spool[VM_STDOUT].len);
	kf_next_end(&n);
}

static int write_nothing(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	return 0;
}

/* That an output is on the disk is in what a daemon leaves which dies: the next one may have no room for it once more. */
static void test_kept_is_left(void **data)
{
	static const struct turn_ops ops = {.write = write_nothing};
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	struct estate *e;
	struct turn turn;
	struct run *r;

	prints(s);
	r = session_run(fx_demo(fx), 1);
	assert_int_equal(estate_new(&e), 0);
	turn_start(&turn, NULL, e, &ops, NULL);
	fx->fs->touched.turn = &turn;
	kf_written();
	assert_true(r->spool[RUN_STDOUT].kept);
	assert_true(r->touch.on);
	fx->fs->touched.turn = NULL;
	turn_close(&turn);
	estate_free(e);
}

/* Who goes on takes the root's `error` back when the reserve is there, and not because a record goes well. */
static void test_heir_of_a_full_disk(void **data)
{
	struct fixture *fx = *data;
	struct kf_next n;
	struct session *s;

	fills_up();
	assert_int_equal(fx_mkdir(fx, "python/new"), 0);
	kf_written();
	assert_int_equal(of_root(fx)->code, PROBLEM_NOT_KEPT);
	kf_next_open(&n, fx);
	room = 32u << 10;
	complaint_stand(n.fs, of_root(fx));
	keeper_wait(n.k);
	keeper_go(n.k);
	assert_int_equal(session_create(n.fs, 0, "other", fx->fs->uid, fx->fs->gid, &s), 0);
	kf_written();
	assert_int_equal(s->on_disk.err, 0);
	assert_true(complaint_stands(n.fs));
	has_room();
	assert_false(complaint_stands(n.fs));
	kf_next_end(&n);
}

/* Where not even records can be written nobody is told that they say what is lost. */
static void test_end_cant_tell(void **data)
{
	struct fixture *fx = *data;
	struct sandbox *s = fx_run(fx, "one");
	static char text[4096];
	const int was = dup(STDERR_FILENO);
	FILE *to = tmpfile();

	fake_exit(s, VM_DONE, 0);
	kf_written();
	fills_up();
	(void)reserve_release(&fx->fs->keeper->store.reserve, fx->fs->keeper->store.dir, -ENOSPC);
	room = 0; /* somebody else has it */
	assert_true(was >= 0 && to);
	assert_int_equal(dup2(fileno(to), STDERR_FILENO), STDERR_FILENO);
	ends(fx, s);
	assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
	(void)close(was);
	rewind(to);
	text[fread(text, 1, sizeof(text) - 1, to)] = '\0';
	(void)fclose(to);
	assert_non_null(strstr(text, "not all that sessions had is kept"));
	assert_null(strstr(text, "says what is lost"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
		cmocka_unit_test_setup_teardown(test_root_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_output_has_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_tells_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_tells_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reason_is_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_code_has_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_output_is_written_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_is_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_heir_of_a_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_cant_tell, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
