/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon has left, with one record damaged: whoever it is of is lost, and nobody else. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/walk.c fs/handover/mount.c fs/handover/losses.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/whole.c fs/handover/handles.c fs/handover/generations.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c */
/* modules: fs/handover/load.c fs/handover/shadow.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/salvage.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* libs: uv cmocka */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "tests/unit/fixture/walk.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

#define TOP   "python/demo/"
#define KINDS (HANDOVER_BYTES + 1u)

int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds)
{
	(void)s;
	(void)fds;
	record_u64(out, 1, 7);
	return 0;
}

static int saved_err; /* for whatever is not damage */

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved)
{
	struct record_field f;

	(void)vm;
	(void)fds;
	(void)died;
	if (saved_err < 0)
		return saved_err;
	if (record_field(&fields, &f) <= 0 || f.tag != 1 || f.u64 != 7)
		return -EBADMSG;
	*ret_saved = fake_saved_new(10, true);
	return 0;
}

/* ---- an estate, record by record ---- */

struct one {
	uint32_t kind;
	uint64_t key, sub;
	struct buf fields;
};

struct all {
	struct one *one;
	size_t n;
};

static int add(void *data, const struct record *rec, uint64_t sub)
{
	struct all *all = data;
	struct one *more = reallocarray(all->one, all->n + 1, sizeof(*more));

	assert_non_null(more);
	all->one = more;
	more[all->n] = (struct one){rec->kind, rec->key, sub, {0}};
	(void)buf_append(&more[all->n].fields, rec->fields.at,
			 (size_t)(rec->fields.end - rec->fields.at));
	all->n++;
	return 0;
}

static void read_all(struct estate *e, struct all *all)
{
	*all = (struct all){0};
	for (uint32_t kind = 1; kind < KINDS; kind++)
		assert_int_equal(estate_each(e, kind, add, all), 0);
}

/* All that this mount would leave. */
static void write_all(struct fs *fs, struct all *all)
{
	struct fdbag fds = {0};
	struct estate *e;

	assert_int_equal(estate_new(&e), 0);
	assert_int_equal(handover_commit(fs, e, &fds), 0);
	assert_int_equal(estate_commit(e), 0);
	read_all(e, all);
	fdbag_clear(&fds);
	estate_free(e);
	saved_watch(NULL, NULL); /* there is one for a process */
}

static void clear(struct all *all)
{
	for (size_t i = 0; i < all->n; i++)
		buf_clear(&all->one[i].fields);
	free(all->one);
}

/* With the fields of one of them replaced; NULL: it is left out. */
static struct estate *estate_of(const struct all *all, const struct one *but,
				const struct buf *with)
{
	struct estate *e, *again;

	assert_int_equal(estate_new(&e), 0);
	for (size_t i = 0; i < all->n; i++) {
		const struct one *o = &all->one[i];
		const struct buf *b = o == but ? with : &o->fields;

		if (b)
			assert_int_equal(estate_put(e, o->kind, o->key, o->sub, b->data, b->len),
					 0);
	}
	assert_int_equal(estate_commit(e), 0);
	assert_int_equal(estate_open(dup(estate_fd(e)), &again), 0);
	estate_free(e);
	return again;
}

/* ---- an heir ---- */

struct heir {
	struct second two;
	struct fixture *fx;
	struct estate *e;
	struct fdbag fds;
	struct problem why;
	struct fs *dead;
	int result;
};

static int on_record(void *data, const struct record *rec)
{
	struct heir *h = data;

	return handover_get(h->two.fs, rec, &h->fds, &h->why);
}

/* Takes the estate. */
static void come(struct heir *h, struct fixture *fx, struct estate *e)
{
	*h = (struct heir){.fx = fx, .e = e, .fds = {.owned = true}};
	second_begin(&h->two, fx);
	h->two.fs->vm = fx->fs->vm;
	h->two.fs->inherited.died = true;
	assert_int_equal(fdbag_put(&h->fds, dup(fx->fs->depot.fd)), 1);
	h->result = handover_each(e, on_record, h);
	if (h->result == 0)
		h->result = handover_join(h->two.fs, &h->why);
	else
		(void)handover_join(h->two.fs, &h->why);
	if (h->result == 0)
		assert_int_equal(h->why.code, 0);
	fdbag_clear(&h->fds);
}

static void serve(struct heir *h)
{
	h->dead = fx_serve(h->fx, h->two.fs);
	handover_go(h->two.fs);
}

static void goes_on(struct heir *h, struct fixture *fx, struct estate *e)
{
	come(h, fx, e);
	assert_int_equal(h->result, 0);
	serve(h);
}

static void go(struct heir *h)
{
	if (h->dead)
		(void)fx_serve(h->fx, h->dead);
	mount_stop(h->two.fs);
	fake_settle();
	clock_work();
	saved_watch(NULL, NULL);
	second_free(&h->two);
	estate_free(h->e);
}

/* ---- what is lost ---- */

static bool is_of_session(uint32_t kind)
{
	switch (kind) {
	case KEEP_SESSION:
	case KEEP_RUN:
	case KEEP_JOB:
	case KEEP_SCRATCH:
	case HANDOVER_FILES:
	case HANDOVER_NODE:
	case HANDOVER_WORKDIR:
	case HANDOVER_CALLS:
	case HANDOVER_COMMIT:
	case HANDOVER_SANDBOX: return true;
	default: return false;
	}
}

/* Of the whole mount, and it can't do without. */
static bool may_end_it(uint32_t kind)
{
	return kind == HANDOVER_MOUNT || kind == HANDOVER_LOCKS || kind == HANDOVER_EVENTS ||
	       kind == HANDOVER_EVENT || kind == HANDOVER_GENERATION;
}

/* Of those of the dead daemon, how many the heir has not; all of them of this key, if it is of a session. */
static unsigned count_lost(struct heir *h, const struct one *o)
{
	struct session *s;
	unsigned n = 0;

	LIST_FOREACH(s, &h->fx->fs->sessions, kept) {
		/* What is damaged may say that it is nobody's, and go at once. */
		if (keep_session(h->two.fs, session_key(s)) || s->dead)
			continue;
		n++;
		if (is_of_session(o->kind) && session_key(s) != o->key)
			fail_msg("kind %u of session %llx costs %llx", o->kind,
				 (unsigned long long)o->key, (unsigned long long)session_key(s));
	}
	return n;
}

/* What of all others is written down is what it was. */
static void expect_others(struct heir *h, const struct all *before, const struct one *o)
{
	struct all now;

	read_all(h->e, &now);
	for (size_t i = 0; i < before->n; i++) {
		const struct one *a = &before->one[i];
		size_t k = 0;

		if (!is_of_session(a->kind) || a->key == o->key || a->kind == HANDOVER_SANDBOX)
			continue;
		while (k < now.n && (now.one[k].kind != a->kind || now.one[k].key != a->key ||
				     now.one[k].sub != a->sub))
			k++;
		if (k == now.n)
			fail_msg("kind %u, key %llx: with it is gone kind %u, key %llx, sub %llx",
				 o->kind, (unsigned long long)o->key, a->kind,
				 (unsigned long long)a->key, (unsigned long long)a->sub);
		/* Copies name whose they are by a place. */
		if (a->kind != KEEP_SESSION &&
		    (now.one[k].fields.len != a->fields.len ||
		     memcmp(now.one[k].fields.data, a->fields.data, a->fields.len) != 0))
			fail_msg("kind %u, key %llx: with it is changed kind %u, key %llx", o->kind,
				 (unsigned long long)o->key, a->kind, (unsigned long long)a->key);
	}
	clear(&now);
}

/* It writes down what it has. */
static void commit(struct heir *h)
{
	struct fdbag fds = {0};

	assert_int_equal(handover_commit(h->two.fs, h->e, &fds), 0);
	assert_int_equal(estate_commit(h->e), 0);
	saved_watch(NULL, NULL);
	fdbag_clear(&fds);
}

/* The next one finds nothing of what was lost any more. */
static void expect_clean(struct heir *h)
{
	struct estate *e;
	struct heir next;

	assert_int_equal(estate_open(dup(estate_fd(h->e)), &e), 0);
	come(&next, h->fx, e);
	if (next.result < 0)
		fail_msg("the heir of the heir: %s", next.why.cause);
	assert_null(next.two.fs->inherited.losses);
	assert_int_equal(next.two.fs->inherited.lost_handles, 0);
	go(&next);
}

/* Everybody who had something open asks for it; no node of it makes it fall. */
static void look_around(struct heir *h, struct walk *w)
{
	struct session *s;
	struct req *req;

	for (unsigned i = 0; i < WALK_FILES; i++) {
		if (!w->file[i].f.fh || w->file[i].below ||
		    (w->file[i].f.flags & O_ACCMODE) == O_WRONLY)
			continue;
		req = fx_read(h->fx, &w->file[i].f, 100, O_NONBLOCK);
		if (req->kind == ANSWER_NONE_YET)
			req_interrupt(req);
	}
	LIST_FOREACH(s, &h->two.fs->sessions, kept) {
		char path[200];

		if (s->dead)
			continue;
		snprintf(path, sizeof(path), "%s/status.json", s->path);
		(void)fx_cat(h->fx, path);
		snprintf(path, sizeof(path), "%s/error", s->path);
		(void)fx_cat(h->fx, path);
		if (!s->on_disk.damaged)
			continue;
		snprintf(path, sizeof(path), "%s/state", s->path);
		fx_expect(h->fx, path, "failed\n");
		fx_expect_error(h->fx, s->path, "damaged");
		snprintf(path, sizeof(path), "%s/in", s->path);
		assert_int_equal(fx_put(h->fx, path, "print(1)"), -ESTALE);
	}
}

/* Everything that can be made of the fields. */
#define NDAMAGES 6u

static void damage(struct walk *w, unsigned how, const struct buf *fields, struct buf *ret)
{
	const size_t len = fields->len;

	*ret = (struct buf){0};
	(void)buf_append(ret, fields->data, how == 0 ? len / 2 : how == 1 && len ? len - 1 : len);
	if (how == 2 && len)
		ret->data[0] = (char)0xff;
	if (how == 3)
		(void)buf_append(ret, "\x81", 1);
	if (how >= 4 && len)
		ret->data[walk_any(w, (unsigned)len)] ^= (char)(1 << walk_any(w, 8));
}

/* Which records of the kind are tried: some from the beginning, some of the others. */
static bool is_tried(struct walk *w, const struct all *all, size_t i)
{
	size_t n = 0;

	for (size_t k = 0; k < i; k++)
		n += all->one[k].kind == all->one[i].kind;
	return n < 4 || !walk_any(w, (unsigned)n);
}

static unsigned try_one(struct walk *w, const struct all *all, const struct one *o,
			const struct buf *with)
{
	struct heir h;
	unsigned lost;

	come(&h, w->fx, estate_of(all, o, with));
	if (h.result < 0) {
		if (!may_end_it(o->kind))
			fail_msg("kind %u, key %llx, sub %llx ends the mount: %d %s", o->kind,
				 (unsigned long long)o->key, (unsigned long long)o->sub, h.result,
				 h.why.cause);
		go(&h);
		return 0;
	}
	lost = count_lost(&h, o);
	if (lost > 1)
		fail_msg("kind %u, key %llx costs %u sessions", o->kind, (unsigned long long)o->key,
			 lost);
	commit(&h);
	if (is_of_session(o->kind))
		expect_others(&h, all, o);
	expect_clean(&h);
	serve(&h);
	look_around(&h, w);
	go(&h);
	return lost;
}

/* Each kind of record in turn, after whatever a client has done. */
static void damage_each(struct fixture *fx, uint64_t seed, unsigned steps, unsigned *tried,
			unsigned *lost)
{
	struct all all;
	struct walk w;
	struct buf bad;

	walk_begin(&w, fx, seed);
	fx->conf.history_runs = 6;
	for (unsigned i = 0; i < steps; i++)
		walk_step(&w);
	walk_hush(&w);
	write_all(fx->fs, &all);
	for (size_t i = 0; i < all.n; i++) {
		if (!is_tried(&w, &all, i))
			continue;
		for (unsigned how = 0; how <= NDAMAGES; how++) {
			if (how < NDAMAGES)
				damage(&w, how, &all.one[i].fields, &bad);
			lost[all.one[i].kind] +=
				try_one(&w, &all, &all.one[i], how < NDAMAGES ? &bad : NULL);
			tried[all.one[i].kind]++;
			if (how < NDAMAGES)
				buf_clear(&bad);
		}
	}
	clear(&all);
	walk_close(&w);
}

static void test_each(void **state)
{
	unsigned tried[KINDS] = {0}, lost[KINDS] = {0};

	for (unsigned i = 0; i < 4; i++) {
		if (i > 0)
			assert_int_equal(fx_setup(state), 0);
		damage_each(*state, 7000 + i, 500 + 150 * i, tried, lost);
		if (i < 3)
			fx_teardown(state);
	}
	for (uint32_t kind = 1; kind < KINDS; kind++)
		if (tried[kind])
			print_message("kind %u: %u times, %u sessions lost\n", kind, tried[kind],
				      lost[kind]);
	assert_true(lost[KEEP_SESSION] && lost[KEEP_RUN] && lost[KEEP_JOB] && lost[HANDOVER_NODE]);
	assert_true(tried[HANDOVER_HANDLE] && !lost[HANDOVER_HANDLE] && !lost[HANDOVER_TEXT]);
}

/* ---- one by one ---- */

static const struct one *find(const struct all *all, uint32_t kind, uint64_t key, unsigned nth)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->one[i].kind == kind && (!key || all->one[i].key == key) && !nth--)
			return &all->one[i];
	fail_msg("there is no record of kind %u", kind);
	return NULL;
}

static const struct buf nonsense = {.data = (char[]){"\xff\xff"}, .len = 2};

/* Somewhere in what there is of the log. */
static void expect_event(struct fixture *fx, const struct file *f, const char *words)
{
	const struct req *req = fx_read(fx, f, 64 << 10, 0);

	assert_int_equal(req->kind, ANSWER_BUF);
	assert_non_null(memmem(req->data, req->size, words, strlen(words)));
}

/* What has ended can be read, and so can the neighbour; what went on is over; and it can be removed. */
static void test_left(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	const uint64_t old = fx_ino(fx, TOP "stdout");
	const unsigned count = fake_count();
	struct file mine, writes, its, all_events;
	struct stat st;
	struct heir h;
	struct all all;

	fake_output(s, VM_STDOUT, "its result");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "in", "second"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	mine = fx_opened(fx, TOP "stdout", O_RDONLY);
	writes = fx_opened(fx, TOP "stdin", O_WRONLY);
	its = fx_opened(fx, "python/other/state", O_RDONLY);
	all_events = fx_opened(fx, "events", O_RDONLY);
	write_all(fx->fs, &all);
	come(&h, fx, estate_of(&all, find(&all, KEEP_JOB, 0, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_int_equal(fake_count(), count); /* nobody has claimed its processes */
	serve(&h);
	fx_expect(fx, TOP "state", "failed\n");
	fx_expect_error(fx, "python/demo", "damaged");
	fx_expect_in(fx, TOP "error", "one of its jobs");
	fx_expect(fx, TOP "runs/1/stdout", "its result");
	fx_expect(fx, TOP "stdout", "its result");
	fx_expect(fx, TOP "in", "first");
	assert_false(fx_exists(fx, TOP "runs/2"));
	assert_string_equal(fx_ls(fx, TOP "jobs"), "");
	expect_event(fx, &all_events, "one of its jobs");
	assert_error(fx_read(fx, &mine, 10, 0), -EIO);
	assert_int_equal(fx_write(fx, &writes, "x"), -EIO);
	assert_int_equal(fx_stat_ino(fx, old, &st), -ESTALE);
	assert_bytes(fx_read(fx, &its, 10, 0), "new\n");
	assert_int_equal(fx_put(fx, "python/other/in", "goes on"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), -ESTALE);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	fx_expect(fx, TOP "state", "new\n");
	fx_close(fx, &its);
	fx_close(fx, &all_events);
	go(&h);
	clear(&all);
	fx_close(fx, &mine);
	fx_close(fx, &writes);
	fx_close(fx, &its);
	fx_close(fx, &all_events);
}

/* Of its head not even the name can be read: it is gone, and so are its other records. */
static void test_gone(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct file f;
	struct heir h;
	struct all all;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	write_all(fx->fs, &all);
	goes_on(&h, fx, estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense));
	assert_string_equal(fx_ls(fx, "python"), "template.json README.md other ");
	f = fx_opened(fx, "events", O_RDONLY);
	expect_event(fx, &f, "one whose name is not known is gone");
	fx_close(fx, &f);
	/* Its slot is not used again: its numbers are somebody's still. */
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	assert_int_equal(fx_demo(fx)->slot, 2);
	go(&h);
	clear(&all);
}

/* A sandbox alone is as if it were not there any more: the handles of the session stay. */
static void test_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;
	struct heir h;
	struct all all;

	fake_output(s, VM_STDOUT, "half");
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	write_all(fx->fs, &all);
	goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SANDBOX, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "agent-lost");
	fx_expect(fx, TOP "runs/1/state", "lost\n");
	assert_bytes(fx_read(fx, &f, 10, 0), "half");
	fx_close(fx, &f);
	go(&h);
	clear(&all);
	fx_close(fx, &f);
}

/* What was saved can't be read: who sleeps with it is closed; of a session that can't be, it is there still. */
static void test_saved(void **state)
{
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	fx_asleep(fx);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/point"), 0);
	write_all(fx->fs, &all);
	goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SAVED, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "damaged");
	fx_expect_in(fx, TOP "checkpoints/point/status.json", "\"failed\"");
	go(&h);
	goes_on(&h, fx, estate_of(&all, find(&all, KEEP_RUN, 0, 0), &nonsense));
	fx_expect(fx, TOP "state", "failed\n");
	assert_non_null(fx_demo(fx)->asleep.saved);
	fx_expect_in(fx, TOP "checkpoints/point/status.json", "\"whole\"");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore point\n"), -ESTALE);
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), -ESTALE);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/later"), -ESTALE);
	go(&h);
	clear(&all);
}

/* It costs the checkpoint alone whose it is: also one that waits for the disk, and whose settings are not allowed. */
static void test_saved_waits(void **state)
{
	static const struct problem why = {.code = PROBLEM_LIMIT, .cause = "not allowed"};
	static const char *const shown[] = {TOP "checkpoints/a/status.json",
					    TOP "checkpoints/b/status.json"};
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct checkpoint *foreign;
	struct heir h;
	struct all all;

	fake_exit(s, VM_DONE, 0);
	fx_checkpoint(fx, s, "a");
	checkpoint_find(fx_demo(fx), "a")->unwritten = true;
	fx_checkpoint(fx, s, "b");
	foreign = checkpoint_find(fx_demo(fx), "b");
	foreign->foreign = strdup("memory_mb = 99999\n");
	problem_keep(&foreign->problem, &why);
	write_all(fx->fs, &all);
	for (unsigned i = 0; i < ARRAY_SIZE(shown); i++) {
		goes_on(&h, fx, estate_of(&all, find(&all, HANDOVER_SAVED, 0, i), &nonsense));
		fx_expect(fx, TOP "state", "idle\n");
		fx_expect_in(fx, shown[i], "\"failed\"");
		fx_expect_in(fx, shown[i], "can't be had");
		go(&h);
	}
	clear(&all);
}

/* There was no room to look at what was saved: none of it is lost for that, and another one is to try. */
static void test_saved_unseen(void **state)
{
	static const int passes[] = {-ENOMEM, -EMFILE, -ENFILE};
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	fx_asleep(fx);
	write_all(fx->fs, &all);
	for (size_t i = 0; i < ARRAY_SIZE(passes); i++) {
		saved_err = passes[i];
		come(&h, fx, estate_of(&all, NULL, NULL));
		saved_err = 0;
		assert_int_equal(h.result, passes[i]);
		go(&h);
	}
	goes_on(&h, fx, estate_of(&all, NULL, NULL));
	fx_expect(fx, TOP "state", "asleep\n");
	go(&h);
	clear(&all);
}

/* What the sandbox of a lost session was to be told lies beside its record, and is nobody's then. */
static void test_bytes(void **state)
{
	const struct record bytes = {
		.kind = HANDOVER_BYTES, .key = 7, .fields = record_reader("bytes", 5)};
	struct fixture *fx = *state;
	struct heir h;
	struct all all;

	(void)fx_run(fx, "x");
	write_all(fx->fs, &all);
	add(&all, &bytes, 3);
	come(&h, fx, estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_true(estate_has(h.e, HANDOVER_BYTES, 7, 3));
	commit(&h);
	serve(&h);
	assert_false(estate_has(h.e, HANDOVER_BYTES, 7, 3));
	expect_clean(&h);
	go(&h);
	clear(&all);
}

/* Of a handle only that is lost, and nobody gets its number. */
static void test_handle(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "state", O_RDONLY),
		    g = fx_opened(fx, TOP "error", O_RDONLY), again;
	struct heir h;
	struct all all;

	write_all(fx->fs, &all);
	come(&h, fx, estate_of(&all, find(&all, HANDOVER_HANDLE, f.fh, 0), &nonsense));
	assert_int_equal(h.result, 0);
	assert_int_equal(h.two.fs->inherited.lost_handles, 1);
	serve(&h);
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	assert_bytes(fx_read(fx, &g, 10, 0), "");
	again = fx_opened(fx, TOP "state", O_RDONLY);
	assert_true(again.fh != f.fh);
	assert_int_equal((uint32_t)again.fh, (uint32_t)f.fh);
	fx_close(fx, &again);
	fx_close(fx, &g);
	go(&h);
	clear(&all);
	fx_close(fx, &f);
	fx_close(fx, &g);
}

/* Whoever takes over from a daemon that serves refuses all of it: that goes on, and has lost nothing. */
static void test_stream(void **state)
{
	struct fixture *fx = *state;
	struct problem why = {0};
	struct heir h;
	struct all all;

	write_all(fx->fs, &all);
	h = (struct heir){.fx = fx, .fds = {.owned = true}};
	second_begin(&h.two, fx);
	h.two.fs->vm = fx->fs->vm;
	assert_int_equal(fdbag_put(&h.fds, dup(fx->fs->depot.fd)), 1);
	h.e = estate_of(&all, find(&all, KEEP_SESSION, 0, 0), &nonsense);
	assert_int_equal(handover_each(h.e, on_record, &h), -EBADMSG);
	(void)handover_join(h.two.fs, &why);
	fdbag_clear(&h.fds);
	go(&h);
	clear(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_left),   fx_test(test_gone),	 fx_test(test_sandbox),
		fx_test(test_saved),  fx_test(test_saved_waits), fx_test(test_saved_unseen),
		fx_test(test_handle), fx_test(test_stream),	 fx_test(test_bytes),
		fx_test(test_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
