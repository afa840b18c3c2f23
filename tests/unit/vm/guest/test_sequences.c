/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences of everything that can happen, and what must hold after each step. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/fuse/ops.h"
#include "vm/base/log.h"

/*
 * The kernel, sandboxes, time and a careless user take turns. fx_teardown() then checks that each request was
 * answered exactly once, that every sandbox has ended, and that nothing is left in the spool directory;
 * the sanitizers check the rest.
 */

#define SEQUENCES 150
#define STEPS	  400
#define OPEN_MAX  24

/* An open file and the reads that wait on it: the kernel does not release it before their answers. */
struct open_file {
	bool used;
	struct file f;
	struct req *waiting[4];
};

struct play {
	struct fixture *fx;
	struct open_file open[OPEN_MAX];
	struct req *loose[16]; /* of files/ */
};

static unsigned pick(unsigned n)
{
	return (unsigned)random() % n;
}

static const char *const sessions[] = {"python/demo", "python/x", "raw/y"};
static const char *const nodes[] = {
	"in",	   "in",	"in",	       "stdin",		"stdout",    "stderr",
	"output",  "exit_code", "config",      "ctl",		"state",     "status.json",
	"summary", "temp",	"runs/1/wait", "runs/1/stdout", "runs/2/in", "../../events",
};
static const char *const words[] = {
	"print(1)\n",
	"kill\n",
	"reset\n",
	"close\n",
	"interrupt\n",
	"fresh = yes\n",
	"fresh = no\nidle_timeout_s = 2\n",
	"cpus = 2\n",
	"",
	"x",
};

static void any_path(char *path, size_t size)
{
	const char *node = nodes[pick(ARRAY_SIZE(nodes))];

	if (node[0] == '.')
		snprintf(path, size, "events");
	else
		snprintf(path, size, "%s/%s", sessions[pick(ARRAY_SIZE(sessions))], node);
}

/* ---- what programs do ---- */

static void keep_waiting(struct req **list, unsigned n, struct req *req)
{
	for (unsigned i = 0; i < n; i++) {
		if (list[i] && list[i]->kind == ANSWER_NONE_YET)
			continue;
		list[i] = req;
		return;
	}
	req_interrupt(req); /* no place to remember it */
}

static void do_open(struct play *p)
{
	static const int modes[] = {
		O_RDONLY, O_RDONLY, O_WRONLY | O_TRUNC, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND,
		O_RDWR};
	struct open_file *o = &p->open[pick(OPEN_MAX)];
	char path[128];

	if (o->used)
		return;
	any_path(path, sizeof(path));
	o->used = fx_open(p->fx, path, modes[pick(ARRAY_SIZE(modes))] | O_CREAT, &o->f) == 0;
	memset(o->waiting, 0, sizeof(o->waiting));
}

static void do_io(struct play *p)
{
	struct open_file *o = &p->open[pick(OPEN_MAX)];
	struct req *r;

	if (!o->used)
		return;
	if ((o->f.flags & O_ACCMODE) != O_RDONLY && pick(3)) {
		(void)fx_write(p->fx, &o->f, words[pick(ARRAY_SIZE(words))]);
		if (pick(8) == 0)
			(void)fx_ftruncate(p->fx, &o->f, pick(4));
		if (pick(2) == 0)
			(void)fx_flush(p->fx, &o->f);
	} else if ((o->f.flags & O_ACCMODE) != O_WRONLY) {
		r = fx_read(p->fx, &o->f, 1 + pick(5000), pick(4) ? 0 : O_NONBLOCK);
		if (r->kind == ANSWER_NONE_YET)
			keep_waiting(o->waiting, ARRAY_SIZE(o->waiting), r);
		else if (r->kind == ANSWER_BUF)
			o->f.offset += r->size;
		if (pick(4) == 0)
			(void)fx_poll(p->fx, &o->f, pollwait_new());
	}
}

static void do_interrupt(struct play *p)
{
	struct open_file *o = &p->open[pick(OPEN_MAX)];
	struct req *r = pick(2) ? o->waiting[pick(ARRAY_SIZE(o->waiting))]
				: p->loose[pick(ARRAY_SIZE(p->loose))];

	if (r && r->kind == ANSWER_NONE_YET)
		req_interrupt(r);
}

static void do_close(struct play *p)
{
	struct open_file *o = &p->open[pick(OPEN_MAX)];

	if (!o->used)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(o->waiting); i++)
		if (o->waiting[i] && o->waiting[i]->kind == ANSWER_NONE_YET)
			req_interrupt(o->waiting[i]);
	(void)fx_close(p->fx, &o->f);
	o->used = false;
}

static void do_names(struct play *p)
{
	char a[128], c[128];

	any_path(a, sizeof(a));
	any_path(c, sizeof(c));
	switch (pick(8)) {
	case 0: (void)fx_mkdir(p->fx, sessions[pick(ARRAY_SIZE(sessions))]); break;
	case 1:
		if (pick(4) == 0)
			(void)fx_rmdir(p->fx, sessions[pick(ARRAY_SIZE(sessions))]);
		break;
	case 2: (void)fx_unlink(p->fx, a); break;
	case 3: (void)fx_rename(p->fx, a, c, pick(2)); break;
	case 4: (void)fx_put(p->fx, a, words[pick(ARRAY_SIZE(words))]); break;
	case 5: (void)fx_add(p->fx, a, words[pick(ARRAY_SIZE(words))]); break;
	case 6:
		snprintf(a, sizeof(a), "%s/runs/%u", sessions[pick(ARRAY_SIZE(sessions))],
			 1 + pick(5));
		(void)fx_rmdir(p->fx, a);
		break;
	default: break;
	}
}

static void do_files(struct play *p)
{
	struct req *r;
	char path[64];
	uint64_t dir;

	snprintf(path, sizeof(path), "%s/files", sessions[pick(ARRAY_SIZE(sessions))]);
	if (fx_walk(p->fx, path, &dir) < 0)
		return;
	r = req_new(0);
	switch (pick(4)) {
	case 0: ops.mkdir((fuse_req_t)r, dir, "d", 0755); break;
	case 1: ops.getattr((fuse_req_t)r, dir, NULL); break;
	case 2: ops.unlink((fuse_req_t)r, dir, "f"); break;
	default: ops.lookup((fuse_req_t)r, dir, "f"); break;
	}
	if (r->kind == ANSWER_NONE_YET)
		keep_waiting(p->loose, ARRAY_SIZE(p->loose), r);
	else if (r->kind == ANSWER_ENTRY) {
		struct req *f = req_new(0);

		ops.forget((fuse_req_t)f, r->ino, 1);
	}
}

/* ---- what sandboxes do ---- */

static void report_of_run(struct sandbox *s)
{
	static char block[90000];

	memset(block, 'b', sizeof(block));
	if (pick(3))
		fake_output_bytes(s, (enum vm_stream)pick(2), block, pick(sizeof(block)));
	else
		fake_exit(s, (enum vm_outcome)pick(VM_NOUTCOMES), pick(256));
}

static void do_sandbox(void)
{
	const struct vm_file_reply reply = {.node = 2 + pick(5), .attr = {.mode = S_IFDIR | 0755}};
	struct sandbox *s = fake_sandbox();

	for (unsigned n = pick(4); s && n && s->next; n--)
		s = s->next;
	if (!s || s->gone || s->closing) {
		if (pick(2))
			fake_settle();
		return;
	}
	if (s->nfiles && pick(2))
		fake_answer_at(s, pick((unsigned)s->nfiles), pick(3) ? 0 : -ENOENT, &reply);
	else if (pick(25) == 0)
		fake_die(s, PROBLEM_AGENT_LOST);
	else if (s->run)
		report_of_run(s);
	else if (s->state != SANDBOX_READY)
		fake_state(s, pick(3) ? SANDBOX_READY : SANDBOX_STARTING);
	else
		fake_console(s, "line\n");
}

/* ---- what must hold ---- */

static void check_session(const struct session *s)
{
	unsigned nruns = 0, nqueued = 0;
	const struct run *r;

	TAILQ_FOREACH(r, &s->runs, link)
		nruns++;
	TAILQ_FOREACH(r, &s->queue, queue) {
		nqueued++;
		assert_int_equal(r->state, RUN_QUEUED);
	}
	assert_int_equal(nruns, s->nruns);
	assert_int_equal(nqueued, s->nqueued);
	assert_true(nqueued <= SESSION_QUEUE_MAX);
	assert_true(!s->active || s->active->state == RUN_RUNNING);
	assert_int_equal(s->active != NULL, s->state == SESSION_RUNNING);
	assert_int_equal(s->sandbox != NULL, s->binding != NULL);
	assert_int_equal(s->sandbox != NULL, s->state == SESSION_STARTING ||
						     s->state == SESSION_IDLE ||
						     s->state == SESSION_RUNNING);
	assert_true(s->sandbox || !nqueued); /* what is queued has something to wait for */
	if (s->sandbox && s->sandbox->state == SANDBOX_READY && s->ready)
		assert_int_equal(nqueued, 0);
}

static void check(const struct play *p)
{
	for (unsigned i = 0; i < p->fx->fs->roster.n; i++)
		if (roster_at(&p->fx->fs->roster, i))
			check_session(roster_at(&p->fx->fs->roster, i));
}

static void step(struct play *p)
{
	switch (pick(11)) {
	case 0: do_open(p); break;
	case 1:
	case 2: do_io(p); break;
	case 3: do_close(p); break;
	case 4: do_interrupt(p); break;
	case 5: do_names(p); break;
	case 6: do_files(p); break;
	case 7: clock_advance(pick(1500)); break;
	case 8:
		if (pick(4) == 0)
			clock_work();
		break;
	default: do_sandbox(); break;
	}
}

static void test_random_sequences(void **state)
{
	for (unsigned seed = 1; seed <= SEQUENCES; seed++) {
		void *up = NULL;
		struct play p = {0};

		(void)state;
		srandom(seed);
		assert_int_equal(fx_setup(&up), 0);
		p.fx = up;
		p.fx->conf.history_runs = 4;
		fx_mkdir(p.fx, "raw/y");
		for (unsigned i = 0; i < STEPS; i++) {
			step(&p);
			check(&p);
		}
		assert_int_equal(fx_teardown(&up), 0); /* with whatever is open */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_sequences)};

	log_open(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
