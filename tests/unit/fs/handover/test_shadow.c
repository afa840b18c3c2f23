/* SPDX-License-Identifier: Apache-2.0 */
/* A mount with an estate: after whatever happens, what is committed is what a daemon would write anew that knew all. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/left.c tests/unit/fixture/walk.c fs/handover/mount.c fs/handover/losses.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/whole.c fs/handover/handles.c fs/handover/generations.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c */
/* modules: fs/handover/load.c fs/handover/shadow.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/salvage.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* libs: uv cmocka */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "tests/unit/fixture/left.h"
#include "tests/unit/fixture/walk.h"
#include "vm/base/estate.h"
#include "vm/base/turn.h"

#define STEPS 20000u
#define HEIRS 40u

int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds)
{
	(void)s;
	(void)out;
	(void)fds;
	return 0;
}

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved)
{
	(void)vm;
	(void)fields;
	(void)fds;
	(void)died;
	*ret_saved = fake_saved_new(10, true);
	return 0;
}

/* A walk through a mount with an estate. */
struct shadowed {
	struct walk walk;
	struct estate *e;
	struct turn turn;
	unsigned step;
};

/* ---- the end of a turn ---- */

static int write_touched(void *data, struct estate *e)
{
	struct shadowed *w = data;
	struct fdbag fds = {0};
	const int r = handover_commit(w->walk.fx->fs, e, &fds);

	fdbag_clear(&fds);
	return r;
}

static const struct turn_ops turn_ops = {.write = write_touched};

static void commit(struct shadowed *w)
{
	turn_due(&w->turn); /* as behind each request */
	turn_now(&w->turn);
	assert_true(turn_is_on(&w->turn) && estate_is_whole(w->e));
}

static void compare(struct shadowed *w)
{
	struct fdbag fds = {0};
	char what[200];

	if (handover_differs(w->walk.fx->fs, w->e, &fds, what, sizeof(what)) != 0)
		fail_msg("step %u (%s): %s", w->step, w->walk.last, what);
	fdbag_clear(&fds);
}

static void begin(struct shadowed *w, struct fixture *fx, uint64_t seed)
{
	*w = (struct shadowed){0};
	walk_begin(&w->walk, fx, seed);
	assert_int_equal(estate_new(&w->e), 0);
	fx->conf.history_runs = 6;
	turn_start(&w->turn, NULL, w->e, &turn_ops, w);
	fx->fs->touched.turn = &w->turn;
}

static void end(struct shadowed *w)
{
	walk_close(&w->walk);
	fx_stop(w->walk.fx);
	commit(w);
	compare(w);
	clock_work();
	turn_close(&w->turn);
	w->walk.fx->fs->touched.turn = NULL;
	estate_free(w->e);
}

static void walk(struct shadowed *w, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++, w->step++) {
		walk_step(&w->walk);
		commit(w);
		compare(w);
	}
}

/* ---- tests ---- */

static void test_walk(void **state)
{
	struct shadowed w;

	begin(&w, *state, 6);
	walk(&w, STEPS);
	end(&w);
}

static const struct file *below_files(const struct walk *w)
{
	for (unsigned i = 0; i < WALK_FILES; i++)
		if (w->file[i].f.fh && w->file[i].below)
			return &w->file[i].f;
	return NULL;
}

/* Who polls a file of the sandbox is told at once, and changes nothing that is written down. */
static void test_poll(void **state)
{
	struct fixture *fx = *state;
	const struct file *f;
	struct shadowed w;
	struct req *req;

	begin(&w, fx, 11);
	for (unsigned i = 0; i < 100 && !below_files(&w.walk); i++)
		walk(&w, 100);
	f = below_files(&w.walk);
	assert_non_null(f);
	fx->fs->kh = 7;
	req = fx_poll(fx, f, pollwait_new());
	assert_int_equal(req->kind, ANSWER_POLL);
	commit(&w);
	compare(&w);
	end(&w);
}

/* ---- heirs ---- */

static void write_down(struct fs *fs, struct buf *out)
{
	struct fdbag fds = {0};

	left_write(fs, out, &fds);
	fdbag_clear(&fds);
}

/* Numbers that are given in steps, or written late, may be higher: nobody has seen those in between. */
static bool next_exact(struct record_reader *r, struct record *ret)
{
	while (record_next(r, ret) > 0)
		if (ret->kind != HANDOVER_MOUNT && ret->kind != HANDOVER_STATS &&
		    ret->kind != HANDOVER_GENERATION)
			return true;
	return false;
}

/* Says which record it is. */
static void expect_same(const struct buf *a, const struct buf *b)
{
	struct record_reader x = record_reader(a->data, a->len), y = record_reader(b->data, b->len);
	struct record one, other;
	struct record_field f, g;

	while (next_exact(&x, &one)) {
		assert_true(next_exact(&y, &other));
		while (record_field(&one.fields, &f) > 0 && record_field(&other.fields, &g) > 0)
			if (f.tag != g.tag || f.u64 != g.u64 || f.len != g.len ||
			    (f.len && memcmp(f.data, g.data, f.len) != 0))
				fail_msg("the heir has something else: kind %u, key %llx, tag %u; "
					 "kind %u, key %llx, tag %u",
					 one.kind, (unsigned long long)one.key, f.tag, other.kind,
					 (unsigned long long)other.key, g.tag);
	}
	assert_false(next_exact(&y, &other));
}

struct reading {
	struct fs *fs;
	struct fdbag fds;
	struct problem why;
};

static int on_record(void *data, const struct record *rec)
{
	struct reading *r = data;
	const int e = handover_get(r->fs, rec, &r->fds, &r->why);

	if (e < 0)
		print_message("kind %u, key %llx: %d %s\n", rec->kind, (unsigned long long)rec->key,
			      e, r->why.cause);
	return e;
}

/* It has died. Another one reads what it has left. */
static void die(struct shadowed *w, struct second *two)
{
	struct fixture *fx = w->walk.fx;
	struct reading r = {.fds = {.owned = true}};
	struct buf first = {0}, again = {0};
	const int fd = dup(estate_fd(w->e));

	walk_hush(&w->walk);
	commit(w);
	compare(w);
	write_down(fx->fs, &first);
	w->turn.estate = NULL;
	fx->fs->touched.turn = NULL;
	estate_free(w->e);
	assert_int_equal(estate_open(fd, &w->e), 0);

	second_begin(two, fx);
	two->fs->vm = fx->fs->vm;
	two->fs->inherited.died = true;
	r.fs = two->fs;
	assert_int_equal(fdbag_put(&r.fds, dup(fx->fs->depot.fd)), 1);
	assert_int_equal(handover_each(w->e, on_record, &r), 0);
	if (handover_join(two->fs, &r.why) < 0)
		fail_msg("seed %llu: %s", (unsigned long long)w->walk.seed, r.why.cause);
	write_down(two->fs, &again);
	expect_same(&first, &again);
	turn_start(&w->turn, NULL, w->e, &turn_ops, w);
	two->fs->touched.turn = &w->turn;
	(void)fx_serve(fx, two->fs);
	handover_go(two->fs);
	fdbag_clear(&r.fds);
	buf_clear(&first);
	buf_clear(&again);
}

/* Wherever it dies, its heir is as it was, goes on with the same estate, and is as true. */
static void test_heirs(void **state)
{
	for (unsigned i = 0; i < HEIRS; i++) {
		struct fixture *fx;
		struct fs *dead;
		struct second two;
		struct shadowed w;

		if (i > 0)
			assert_int_equal(fx_setup(state), 0);
		fx = *state;
		dead = fx->fs;
		begin(&w, fx, 5000 + i);
		walk(&w, walk_any(&w.walk, 1500));
		die(&w, &two);
		walk(&w, 300);
		end(&w);
		clock_work();
		saved_watch(NULL, NULL); /* there is one for a process */
		(void)fx_serve(fx, dead);
		second_free(&two);
		if (i + 1 < HEIRS)
			fx_teardown(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_walk),
		fx_test(test_poll),
		fx_test(test_heirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
