/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon leaves: holders that end in a row, and heirs that die before they are the daemon. */
/* modules: fs/survival.c vm/spawn/deaths.c vm/base/turn.c vm/base/blackbox.c vm/base/lent.c vm/base/fdbag.c vm/base/fdpass.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* modules: vm/base/estate_sheets.c vm/base/sheets.c vm/base/memory.c vm/base/io.c vm/base/record.c vm/base/buf.c */
/* modules: vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
/* libs: uv */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/revival.h"
#include "fs/session/audit.h"
#include "fs/session/fs.h"
#include "fs/succession.h"
#include "fs/survival.h"
#include "vm/base/blackbox.h"
#include "vm/base/estate.h"
#include "vm/base/lent.h"
#include "vm/base/util.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

#define KIND 7u

static struct {
	uv_loop_t loop;
	uv_timer_t alive; /* the loop goes on */
	struct conf conf;
	struct fs fs;
	struct survival sv;
	const struct spawner_holder_ops *ops; /* NULL: nobody wants to hear of holders any more */
	void *data;
	int holder; /* what the last one reads; or -1 */
	unsigned asked, survives, unheld, none, written;
	char events[2048];
} t;

/* ---- what it is about ---- */

int handover_commit(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	const unsigned n = ++t.written;

	(void)fs;
	(void)fds;
	return estate_put(e, KIND, 1, 0, &n, sizeof(n));
}

int handover_differs(struct fs *fs, struct estate *e, struct fdbag *fds, char *ret_what,
		     size_t size)
{
	(void)fs;
	(void)e;
	(void)fds;
	(void)ret_what;
	(void)size;
	return 0;
}

void audit_flush(struct fs *fs)
{
	(void)fs;
}

int succession_put_process(const struct succession *s, struct estate *e, struct fdbag *fds)
{
	(void)s;
	(void)e;
	(void)fds;
	return 0;
}

int devfuse_survive(struct devfuse *d, struct turn *turn)
{
	(void)d;
	(void)turn;
	return 0;
}

int devfuse_commit(struct devfuse *d, struct estate *e)
{
	(void)d;
	(void)e;
	return 0;
}

void devfuse_restore(struct devfuse *d, const struct estate *e)
{
	(void)d;
	(void)e;
}

struct blackbox *revival_box(struct estate *e)
{
	(void)e;
	return NULL;
}

bool vm_host_is_known(const struct vm *vm)
{
	(void)vm;
	return true;
}

void vm_set_turn(struct vm *vm, struct turn *turn)
{
	(void)vm;
	(void)turn;
}

void events_add(struct events *ev, struct session *s, const char *kind, const char *words)
{
	(void)ev;
	(void)s;
	assert_string_equal(kind, "survive");
	snprintf(t.events + strlen(t.events), sizeof(t.events) - strlen(t.events), "%s\n", words);
}

/* ---- the spawner ---- */

static int new_holder(void)
{
	int pair[2];

	if (t.holder >= 0)
		close(t.holder);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	t.holder = pair[0];
	return pair[1];
}

int spawner_estate(struct spawner *sp, int estate, int *ret_holder)
{
	(void)sp;
	assert_true(estate >= 0);
	*ret_holder = new_holder();
	return 0;
}

int spawner_estate_again(struct spawner *sp, int estate)
{
	(void)sp;
	assert_int_equal(estate, estate_fd(t.sv.estate));
	t.asked++;
	return 0;
}

int spawner_no_estate(struct spawner *sp)
{
	(void)sp;
	t.none++;
	return 0;
}

void spawner_on_holder(struct spawner *sp, const struct spawner_holder_ops *ops, void *data)
{
	(void)sp;
	t.ops = ops;
	t.data = data;
}

int spawner_survives(struct spawner *sp)
{
	(void)sp;
	t.survives++;
	return 0;
}

int spawner_unheld(struct spawner *sp)
{
	(void)sp;
	t.unheld++;
	return 0;
}

/* ---- the test ---- */

static void on_alive(uv_timer_t *timer)
{
	(void)timer;
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.holder = -1;
	assert_int_equal(uv_loop_init(&t.loop), 0);
	uv_timer_init(&t.loop, &t.alive);
	uv_timer_start(&t.alive, on_alive, 1000000, 0);
	t.conf.survive = true;
	t.fs.conf = &t.conf;
	t.sv = (struct survival){
		.loop = &t.loop, .fs = &t.fs, .spawner = (struct spawner *)(void *)&t};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	survival_close(&t.sv);
	uv_close((uv_handle_t *)&t.alive, NULL);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&t.loop), 0);
	survival_free(&t.sv);
	if (t.holder >= 0)
		close(t.holder);
	return 0;
}

/* A turn or two. */
static void go_on(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&t.loop, UV_RUN_NOWAIT);
}

static void begin(void)
{
	survival_new(&t.sv);
	survival_start(&t.sv);
	survival_begin(&t.sv);
	go_on();
	assert_int_equal(t.survives, 1);
	assert_false(t.fs.unheld);
}

/* Return: how long it waits until it asks for another one, in ms; that has passed then. */
static uint64_t waits(void)
{
	const uint64_t ms = uv_timer_get_due_in(&t.sv.again);

	assert_true(uv_is_active((uv_handle_t *)&t.sv.again));
	uv_timer_start(&t.sv.again, t.sv.again.timer_cb, 0, 0);
	go_on();
	return ms;
}

static void end_holder(void)
{
	close(steal_fd(&t.holder));
	t.ops->ended(t.data);
}

static void answer(void)
{
	t.ops->begun(t.data, new_holder(), 0);
	go_on();
}

/* The last has ended, and another one follows, after so many ms. */
static void next_after(uint64_t ms)
{
	const unsigned asked = t.asked, survives = t.survives;

	end_holder();
	assert_true(lent_is_away());
	assert_int_equal(waits(), ms);
	assert_int_equal(t.asked, asked + 1);
	assert_true(t.fs.unheld);
	assert_int_equal(t.survives, survives);
	answer();
	assert_int_equal(t.survives, survives + 1);
	assert_false(t.fs.unheld);
	assert_false(lent_is_away());
}

static void expect_none(void)
{
	go_on();
	assert_int_equal(lent_failed(), -EPIPE);
	assert_int_equal(t.unheld, 0); /* the spawner has seen it */
	assert_true(lent_is_away());
	assert_null(t.ops);
	assert_int_equal(t.none, 1);
	assert_false(estate_is_whole(t.sv.estate));
	assert_false(turn_is_on(&t.sv.turn));
	assert_false(uv_is_active((uv_handle_t *)&t.sv.again));
	assert_non_null(strstr(t.events, "the daemon's death would end the mount\n"));
}

/* Six of them, and no more: after a while, if that may help. */
static void in_a_row(void **state)
{
	static const uint64_t ms[] = {0, 0, 200, 1000, 5000, 0};

	(void)state;
	begin();
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		next_after(ms[i]);
		assert_null(strstr(t.events, "the daemon's death would end the mount\n"));
	}
	end_holder();
	expect_none();
	assert_int_equal(t.asked, ARRAY_SIZE(ms));
}

/* One that was there for a minute begins a new row. */
static void long_lives(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 5; i++) {
		next_after(0);
		next_after(0);
		next_after(200);
		t.sv.deaths.since -= 60000;
	}
	assert_true(estate_is_whole(t.sv.estate));
}

/* One that can't be started has died as well; that it could not be told of is nobody's death. */
static void not_begun(void **state)
{
	(void)state;
	begin();
	end_holder();
	assert_int_equal(waits(), 0);
	for (int i = 0; i < 20; i++) {
		t.ops->begun(t.data, -1, i % 2 ? -EAGAIN : -ETOOMANYREFS);
		assert_int_equal(waits(), 200);
	}
	for (int i = 0; i < 5; i++) {
		t.ops->begun(t.data, -1, -EMFILE);
		(void)waits();
	}
	t.ops->begun(t.data, -1, -EMFILE);
	expect_none();
	assert_int_equal(t.survives, 1);
}

/* One that ends before it was lent anything has, too, and what the spawner says once more is nothing new. */
static void on_its_way(void **state)
{
	static const uint64_t ms[] = {0, 200, 1000, 5000, 0};

	(void)state;
	begin();
	end_holder();
	t.ops->ended(t.data);
	assert_int_equal(waits(), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		t.ops->begun(t.data, new_holder(), 0);
		end_holder();
		t.ops->ended(t.data);
		assert_int_equal(waits(), ms[i]);
	}
	assert_int_equal(t.survives, 1);
	t.ops->begun(t.data, new_holder(), 0);
	end_holder();
	expect_none();
}

/* ---- heirs ---- */

/* What there is of the daemon before. */
static struct estate *left(void)
{
	struct estate *e;

	assert_int_equal(estate_new(&e), 0);
	assert_int_equal(estate_put(e, KIND, 1, 0, "as it was", 9), 0);
	assert_int_equal(estate_put(e, KIND, 2, 0, "another", 7), 0);
	assert_int_equal(estate_commit(e), 0);
	return e;
}

static void expect_left(const struct estate *e)
{
	const void *fields;
	size_t len;

	assert_true(estate_get(e, KIND, 1, 0, &fields, &len));
	assert_int_equal(len, 9);
	assert_memory_equal(fields, "as it was", 9);
	assert_true(estate_has(e, KIND, 2, 0));
}

/* An heir that dies while it loads has written nothing: neither to what the daemon has left, which goes on or is
 * followed by another one, nor to its own, that is as good. */
static void while_it_loads(void **state)
{
	(void)state;
	for (int takes_over = 0; takes_over < 2; takes_over++) {
		struct estate *before = left(), *own, *e;
		int status;
		pid_t pid;

		assert_int_equal(estate_open(dup(estate_fd(before)), &own), 0);
		pid = fork();
		if (pid == 0) {
			if (lent_begin(-1) < 0 || (takes_over && !survival_take_over(&t.sv, own)))
				_exit(1);
			if (!takes_over) {
				survival_resume(&t.sv, own);
				survival_start(&t.sv);
			}
			turn_due(t.fs.touched.turn);
			if (estate_put(own, KIND, 1, 0, "as it is", 8) < 0 ||
			    estate_drop(own, KIND, 2, 0) < 0)
				_exit(2);
			raise(SIGKILL);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		expect_left(before);
		assert_int_equal(estate_open(dup(estate_fd(own)), &e), 0);
		expect_left(e);
		estate_free(e);
		estate_free(own);
		estate_free(before);
	}
}

/* Its holder ends meanwhile: another one follows when it is the daemon, and has all before that is said. */
static void without_a_holder(void **state)
{
	(void)state;
	assert_int_equal(lent_begin(-1), 0); /* lent_adopt() */
	assert_true(survival_take_over(&t.sv, left()));
	assert_int_equal(t.written, 0);
	end_holder();
	assert_int_equal(t.asked, 0);
	assert_int_equal(t.written, 0);
	survival_begin(&t.sv);
	assert_int_equal(waits(), 0);
	assert_int_equal(t.asked, 1);
	assert_true(t.fs.unheld);
	assert_int_equal(t.survives, 0);
	answer();
	assert_int_equal(t.survives, 1);
	assert_false(t.fs.unheld);
	assert_string_equal(t.events, "the daemon's death would end the mount, for a while\n"
				      "the daemon's death does not end the mount any more\n");
}

/* One that leaves nothing tells nobody of what it was given, and has no memory for it. */
static void leaves_nothing(void **state)
{
	struct estate *e = left();

	(void)state;
	t.conf.survive = false;
	assert_non_null(estate_region(e, 2, 1u << 20));
	survival_forgo(&t.sv, e);
	assert_int_equal(t.survives + t.asked + t.none, 0);
	assert_string_equal(t.events, "");
	assert_in_range(estate_taken(e), 0, (size_t)sysconf(_SC_PAGESIZE));
	survival_begin(&t.sv);
	go_on();
	assert_int_equal(t.written, 0);
}

int main(void)
{
#define survival_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		survival_test(in_a_row),       survival_test(long_lives),
		survival_test(not_begun),      survival_test(on_its_way),
		survival_test(while_it_loads), survival_test(without_a_holder),
		survival_test(leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
