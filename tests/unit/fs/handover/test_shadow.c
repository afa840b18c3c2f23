/* SPDX-License-Identifier: Apache-2.0 */
/* A mount with an estate: after whatever happens, what is committed is what a daemon would write anew that knew all. */
/* modules: tests/unit/fixture/fixture.c fs/handover/mount.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/whole.c fs/handover/handles.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c */
/* modules: fs/handover/load.c fs/handover/shadow.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* libs: uv cmocka */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "fs/request/nodelock.h"
#include "tests/unit/fixture/fixture.h"
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

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds,
		  struct saved **ret_saved)
{
	(void)vm;
	(void)fields;
	(void)fds;
	*ret_saved = fake_saved_new(10, true);
	return 0;
}

/* ---- a client that does anything ---- */

#define OPEN_MOST  24u
#define ASKED_MOST 4u
#define KNOWN_MOST 48u

struct opened {
	struct file f; /* fh 0: none */
	struct req *asked[ASKED_MOST];
	bool below; /* files/ */
};

/* A node below files/. */
struct known {
	uint64_t ino; /* 0: none */
	uint64_t parent, lookups;
	bool dir;
};

struct walk {
	struct fixture *fx;
	struct estate *e;
	struct turn turn;
	uint64_t seed;
	unsigned step;
	struct opened open[OPEN_MOST];
	struct known known[KNOWN_MOST];
	char last[96]; /* what was done last */
};

static unsigned any(struct walk *w, unsigned n)
{
	w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(w->seed >> 33) % n;
}

static const char *one_of(struct walk *w, const char *const *words, unsigned n)
{
	return words[any(w, n)];
}

#define ANY_OF(w, ...)                                \
	one_of(w, (const char *const[]){__VA_ARGS__}, \
	       sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Of one session or another; freed by the next call but three. */
static const char *path(struct walk *w, const char *below)
{
	static char text[4][128];
	static unsigned n;
	char *to = text[n++ % 4];

	snprintf(to, sizeof(text[0]), "%s%s%s",
		 ANY_OF(w, "python/demo", "python/a", "python/b", "raw/c", "raw/d"),
		 *below ? "/" : "", below);
	return to;
}

static void do_sessions(struct walk *w)
{
	const char *p = path(w, "");

	snprintf(w->last, sizeof(w->last), "sessions %s", p);
	if (any(w, 3))
		(void)fx_mkdir(w->fx, p);
	else if (!any(w, 6))
		(void)fx_rmdir(w->fx, p);
	else
		(void)fx_mkdir(w->fx, ANY_OF(w, "none/x", "python/.bad", "python/demo/x"));
}

static void do_open(struct walk *w)
{
	static const int flags[] = {O_RDONLY, O_RDONLY,		  O_WRONLY,
				    O_RDWR,   O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND};
	const char *p = path(w, ANY_OF(w, "in", "stdin", "stdout", "stderr", "output", "exit_code",
				       "events", "files.events", "files.changes", "config",
				       "net/allow", "ctl", "status.json", "state", "error", "wait",
				       "runs/1/stdout", "runs/2/in", "jobs/j/in", "jobs/j/stdin",
				       "jobs/j/stdout", "jobs/j/status.json", "runs/n/in",
				       "runs/latest/exit_code", "in.tmp", "README.md"));
	struct opened *o = &w->open[any(w, OPEN_MOST)];

	if (!any(w, 6))
		p = path(w, "files.events");
	else if (!any(w, 8))
		p = ANY_OF(w, "events", "metrics", "error", "README.md", "python/README.md");
	snprintf(w->last, sizeof(w->last), "open %s", p);
	o->below = o->f.fh && o->below;
	if (!o->f.fh && fx_open(w->fx, p, flags[any(w, 6)], &o->f) < 0)
		o->f.fh = 0;
}

static struct opened *any_open(struct walk *w)
{
	for (unsigned i = 0; i < OPEN_MOST; i++) {
		struct opened *o = &w->open[any(w, OPEN_MOST)];

		if (o->f.fh)
			return o;
	}
	return NULL;
}

static bool waits(const struct req *req)
{
	return req && req->kind == ANSWER_NONE_YET;
}

/* No kernel has a descriptor released that somebody is in read(2) of. */
static void interrupt(struct opened *o)
{
	for (unsigned i = 0; i < ASKED_MOST; i++) {
		if (waits(o->asked[i]))
			req_interrupt(o->asked[i]);
		o->asked[i] = NULL;
	}
}

static void do_close(struct walk *w)
{
	struct opened *o = any_open(w);

	snprintf(w->last, sizeof(w->last), "close");
	if (!o)
		return;
	interrupt(o);
	if (any(w, 4) && !o->below)
		(void)fx_close(w->fx, &o->f);
	else
		fx_release(w->fx, &o->f);
	o->f.fh = 0;
}

static void keep_asked(struct opened *o, struct req *req)
{
	for (unsigned i = 0; i < ASKED_MOST; i++) {
		if (waits(o->asked[i]))
			continue;
		o->asked[i] = req;
		return;
	}
	if (waits(req))
		req_interrupt(req);
}

static void do_read(struct walk *w)
{
	struct opened *o = any_open(w);
	struct req *req;

	snprintf(w->last, sizeof(w->last), "read");
	if (!o || o->below || (o->f.flags & O_ACCMODE) == O_WRONLY)
		return;
	req = fx_read(w->fx, &o->f, 1 + any(w, 200), any(w, 3) ? 0 : O_NONBLOCK);
	if (req->kind == ANSWER_BUF)
		o->f.offset += req->size;
	keep_asked(o, req);
	if (!any(w, 5))
		(void)fx_poll(w->fx, &o->f, any(w, 2) ? pollwait_new() : NULL);
	if (!any(w, 12))
		interrupt(o);
	if (!any(w, 20))
		o->f.offset = any(w, 100);
}

static void do_write(struct walk *w)
{
	struct opened *o = any_open(w);
	static char much[100000];
	const char *text = ANY_OF(w, "print(1)", "x\n", "timeout = 7\n", "interrupt\n", "reset\n",
				  "memory_mb = 1\n", "nonsense", "env.A = b\n");
	struct req *req;

	snprintf(w->last, sizeof(w->last), "write %.20s", text);
	if (!o || o->below || (o->f.flags & O_ACCMODE) == O_RDONLY)
		return;
	if (!*much)
		memset(much, 'm', sizeof(much));
	if (any(w, 4))
		req = fx_write_req(w->fx, &o->f, text, strlen(text), 0);
	else
		req = fx_write_req(w->fx, &o->f, much, any(w, sizeof(much)), 0);
	if (req->kind == ANSWER_WRITE)
		o->f.offset += req->size;
	keep_asked(o, req);
	if (!any(w, 10))
		(void)fx_ftruncate(w->fx, &o->f, any(w, 2) ? 0 : any(w, 50));
	if (!any(w, 4))
		o->f.offset = any(w, 30);
}

static void do_shell(struct walk *w)
{
	const char *p;

	snprintf(w->last, sizeof(w->last), "shell");
	switch (any(w, 8)) {
	case 0:
		p = any(w, 20) ? "in" : "ctl";
		(void)fx_put(w->fx, path(w, p), *p == 'i' ? "print(1)" : "close\n");
		break;
	case 1: (void)fx_put(w->fx, path(w, "config"), "timeout = 9\n"); break;
	case 2:
		(void)fx_put(w->fx, path(w, "ctl"),
			     ANY_OF(w, "reset\n", "interrupt\n", "pause\n", "resume\n", "kill\n",
				    "start\n", "no verb\n", "sleep\n", "wake\n", "close\n",
				    "restore x\n"));
		break;
	case 3:
		(void)fx_mkdir(w->fx, path(w, ANY_OF(w, "jobs/j", "runs/n", "checkpoints/x")));
		break;
	case 4:
		(void)fx_rmdir(w->fx, path(w, ANY_OF(w, "jobs/j", "runs/n", "runs/1", "runs/2")));
		break;
	case 5: (void)fx_put(w->fx, path(w, "in.tmp"), "print(2)"); break;
	case 6:
		p = path(w, "in.tmp");
		(void)fx_unlink(w->fx, p);
		break;
	case 7:
		(void)fx_put(w->fx, "ctl", ANY_OF(w, "log = debug\n", "log = warning\n", "x"));
		break;
	}
}

/* ---- below files/ ---- */

static fuse_req_t native(struct req *req)
{
	return (fuse_req_t)req;
}

static struct known *any_known(struct walk *w, bool dir)
{
	for (unsigned i = 0; i < KNOWN_MOST; i++) {
		struct known *k = &w->known[any(w, KNOWN_MOST)];

		if (k->ino && (k->dir || !dir))
			return k;
	}
	return NULL;
}

/* Those of a daemon that is dead say nothing to it any more. */
static bool is_of(const struct walk *w, const struct sandbox *s)
{
	const struct binding *b = s->data;

	return !s->gone && !s->closing && b->s && b->s->fs == w->fx->fs;
}

/* Does the kernel have it still? */
static bool is_held(const struct walk *w, uint64_t dir)
{
	for (unsigned i = 0; i < KNOWN_MOST; i++)
		if (w->known[i].ino == dir && w->known[i].dir)
			return true;
	return ino_kind(dir) == NODE_FILES;
}

static struct sandbox *any_sandbox(struct walk *w)
{
	struct sandbox *s, *found = NULL;
	unsigned n = 0;

	for (s = fake_sandbox(); s; s = s->next)
		if (is_of(w, s) && any(w, ++n) == 0)
			found = s;
	return found;
}

/* The agent's answer to the newest request, if it has one. */
static void answer_file(struct walk *w, struct sandbox *s)
{
	const unsigned node = 2 + any(w, 9);
	const uint32_t kind = node % 3 == 0 ? S_IFDIR : node % 3 == 1 ? S_IFREG : S_IFLNK;
	struct vm_file_reply reply = {
		.node = node, .attr = {.ino = 1000 + node, .mode = kind | 0644, .nlink = 1}};
	const enum vm_file_op op = s->nfiles ? s->file[s->nfiles - 1].rq.op : VM_READ;

	if (!s->nfiles)
		return;
	reply.data = "../../x";
	reply.size = op == VM_READLINK ? 7 : 0;
	reply.handle = node;
	fake_answer_at(s, s->nfiles - 1, any(w, 6) ? 0 : -ENOENT, &reply);
}

static void answer_files(struct walk *w)
{
	for (struct sandbox *s = fake_sandbox(); s; s = s->next)
		while (!s->gone && !s->closing && s->nfiles)
			answer_file(w, s);
}

static void do_lookup(struct walk *w)
{
	struct known *at = any(w, 3) ? any_known(w, true) : NULL;
	struct known *k = &w->known[any(w, KNOWN_MOST)];
	uint64_t dir = at ? at->ino : 0;
	struct req *req;

	snprintf(w->last, sizeof(w->last), "lookup");
	if (!dir && fx_walk(w->fx, path(w, "files"), &dir) < 0)
		return;
	req = fx_lookup(w->fx, dir, ANY_OF(w, "a", "b", "c", "d", "e"));
	answer_files(w);
	if (req->kind != ANSWER_ENTRY)
		return;
	for (unsigned i = 0; i < KNOWN_MOST; i++)
		if (w->known[i].ino == req->ino)
			k = &w->known[i];
	if (k->ino && k->ino != req->ino)
		ops.forget(native(req_new(0)), k->ino, k->lookups);
	if (k->ino != req->ino)
		*k = (struct known){
			.ino = req->ino, .parent = dir, .dir = S_ISDIR(req->st.st_mode)};
	k->lookups++;
}

static void do_files(struct walk *w)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct known *k = any_known(w, false), *to = any_known(w, true);

	snprintf(w->last, sizeof(w->last), "files");
	if (k && !any(w, 3)) {
		ops.forget(native(req_new(0)), k->ino, k->lookups);
		k->ino = 0;
	} else if (k && to && is_held(w, k->parent) && any(w, 2)) {
		ops.rename(native(req_new(w->fx->pid)), k->parent, names[any(w, 5)], to->ino,
			   names[any(w, 5)], any(w, 4) ? 0 : RENAME_EXCHANGE);
	} else if (k) {
		ops.readlink(native(req_new(w->fx->pid)), k->ino);
	}
	answer_files(w);
}

/* What is opened there stays open for a while, like everything. */
static void do_open_file(struct walk *w)
{
	struct known *k = any_known(w, false);
	struct opened *o = &w->open[any(w, OPEN_MOST)];
	struct fuse_file_info fi = {.flags = O_RDWR};
	struct req *req;

	snprintf(w->last, sizeof(w->last), "open below files");
	if (!k || k->dir || o->f.fh)
		return;
	ops.open(native(req = req_new(w->fx->pid)), k->ino, &fi);
	answer_files(w);
	o->below = req->kind == ANSWER_OPEN;
	if (o->below)
		o->f = (struct file){.ino = k->ino, .fh = req->fh, .flags = O_RDWR};
}

static void do_locks(struct walk *w)
{
	struct opened *o = any_open(w);
	struct fuse_file_info fi = {.fh = o ? o->f.fh : 0, .lock_owner = any(w, 3)};
	struct flock fl = {.l_type = (short)(any(w, 3) ? (any(w, 2) ? F_RDLCK : F_WRLCK) : F_UNLCK),
			   .l_start = any(w, 50),
			   .l_len = any(w, 50)};
	struct req *req = o ? req_new(w->fx->pid) : NULL;

	snprintf(w->last, sizeof(w->last), "lock");
	if (!o)
		return;
	if (any(w, 4))
		ops.setlk(native(req), o->f.ino, &fi, &fl, (int)any(w, 2));
	else
		ops.flock(native(req), o->f.ino, &fi, any(w, 2) ? LOCK_SH | LOCK_NB : LOCK_UN);
	if (o->below)
		answer_files(w);
	keep_asked(o, req);
}

/* ---- what comes from elsewhere ---- */

static void do_job(struct walk *w, struct sandbox *s)
{
	struct fake_job *j = fake_job(s, any(w, 2));

	if (!j || j->forgotten)
		return;
	if (j->ended)
		fake_job_gone(s, j);
	else if (any(w, 3))
		fake_job_output(s, j, VM_STDOUT, "of a job\n");
	else
		fake_job_exit(s, j, VM_DONE, 3);
}

/* More than stays in memory, or a little of many. */
static void print(struct walk *w, struct sandbox *s)
{
	static char much[50000];
	const enum vm_stream stream = any(w, 2) ? VM_STDOUT : VM_STDERR;

	if (!*much)
		memset(much, 'o', sizeof(much));
	if (any(w, 4))
		fake_output(s, stream, "some words of it\n");
	else
		fake_output_bytes(s, stream, much, 1 + any(w, sizeof(much)));
}

static void do_sandbox(struct walk *w)
{
	struct sandbox *s = any_sandbox(w);

	snprintf(w->last, sizeof(w->last), "sandbox");
	if (!s)
		return;
	if (s->saving)
		any(w, 2) ? fx_saved(s) : fx_not_saved(s);
	else if (!s->up)
		fake_state(s, SANDBOX_READY);
	else if (s->run && any(w, 2))
		print(w, s);
	else if (s->run && any(w, 3) == 0)
		fake_exit(s, any(w, 8) ? VM_DONE : VM_TIMEOUT, any(w, 2));
	else if (any(w, 2) == 0)
		fake_change(s, PROTO_CHANGE_MODIFIED, "a/b", "");
	else if (any(w, 2) == 0)
		fake_change(s, any(w, 5) ? PROTO_CHANGE_WATCHING : PROTO_CHANGE_FAILED, "", "");
	else if (any(w, 4) == 0)
		fake_denied(s, "example.org", 443, "not allowed");
	else if (any(w, 40) == 0)
		fake_die(s, PROBLEM_AGENT_LOST);
	else if (any(w, 2))
		do_job(w, s);
	else
		fake_console(s, "console\n");
}

static void do_time(struct walk *w)
{
	snprintf(w->last, sizeof(w->last), "time");
	switch (any(w, 4)) {
	case 0: clock_advance(any(w, 3) ? 10 : 3000); break;
	case 1: clock_work(); break;
	case 2: fake_settle(); break;
	case 3: (void)fx_cat(w->fx, "metrics"); break;
	}
}

static void step(struct walk *w)
{
	static void (*const acts[])(struct walk * w) = {
		do_sessions, do_open,	do_open,    do_open,	  do_close,	do_read,
		do_read,     do_read,	do_write,   do_write,	  do_shell,	do_shell,
		do_lookup,   do_lookup, do_files,   do_open_file, do_open_file, do_locks,
		do_locks,    do_time,	do_sandbox, do_sandbox,	  do_sandbox,	do_sandbox,
	};

	acts[any(w, sizeof(acts) / sizeof(acts[0]))](w);
}

/* ---- the end of a turn ---- */

static int write_touched(void *data, struct estate *e)
{
	struct walk *w = data;
	struct fdbag fds = {0};
	const int r = handover_commit(w->fx->fs, e, &fds);

	fdbag_clear(&fds);
	return r;
}

static const struct turn_ops turn_ops = {.write = write_touched};

static void commit(struct walk *w)
{
	turn_due(&w->turn); /* as behind each request */
	turn_now(&w->turn);
	assert_true(turn_is_on(&w->turn) && estate_is_whole(w->e));
}

/* The fake of sandboxes does not say when it has changed. */
static bool is_known(const char *what)
{
	return strstr(what, "kind 71,");
}

static void compare(struct walk *w)
{
	struct fdbag fds = {0};
	char what[200];

	if (handover_differs(w->fx->fs, w->e, &fds, what, sizeof(what)) != 0 && !is_known(what))
		fail_msg("step %u (%s): %s", w->step, w->last, what);
	fdbag_clear(&fds);
}

static void begin(struct walk *w, struct fixture *fx)
{
	*w = (struct walk){.fx = fx, .seed = 6};
	assert_int_equal(estate_new(&w->e), 0);
	fx->conf.history_runs = 6;
	turn_start(&w->turn, NULL, w->e, &turn_ops, w);
	fx->fs->touched.turn = &w->turn;
}

static void end(struct walk *w)
{
	for (unsigned i = 0; i < OPEN_MOST; i++) {
		interrupt(&w->open[i]);
		if (w->open[i].f.fh)
			fx_release(w->fx, &w->open[i].f);
	}
	fx_stop(w->fx);
	commit(w);
	compare(w);
	clock_work();
	turn_close(&w->turn);
	estate_free(w->e);
}

static void walk(struct walk *w, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++, w->step++) {
		step(w);
		commit(w);
		compare(w);
	}
}

/* ---- tests ---- */

static void test_walk(void **state)
{
	struct walk w;

	begin(&w, *state);
	walk(&w, STEPS);
	end(&w);
}

/* ---- heirs ---- */

/* All that is asked below files/ is answered, and nobody waits: what waits is asked again, which nobody does here. */
static void hush(struct walk *w)
{
	for (unsigned i = 0; i < OPEN_MOST; i++)
		interrupt(&w->open[i]);
	answer_files(w);
	clock_work();
	fake_settle();
}

static void write_down(struct fs *fs, struct buf *out)
{
	struct problem why = {0};
	struct fdbag fds = {0};

	if (handover_put(fs, out, &fds, &why) < 0)
		fail_msg("%s", why.cause);
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
static void die(struct walk *w, struct second *two)
{
	struct fixture *fx = w->fx;
	struct reading r = {.fds = {.owned = true}};
	struct buf first = {0}, again = {0};
	const int fd = dup(estate_fd(w->e));

	hush(w);
	commit(w);
	compare(w);
	write_down(fx->fs, &first);
	w->turn.estate = NULL;
	fx->fs->touched.turn = fx->fs->handles.turn = NULL;
	estate_free(w->e);
	assert_int_equal(estate_open(fd, &w->e), 0);

	second_begin(two, fx);
	two->fs->vm = fx->fs->vm;
	two->fs->inherited.estate = true;
	r.fs = two->fs;
	assert_int_equal(fdbag_put(&r.fds, dup(fx->fs->depot.fd)), 1);
	assert_int_equal(handover_each(w->e, on_record, &r), 0);
	if (handover_join(two->fs, &r.why) < 0)
		fail_msg("seed %llu: %s", (unsigned long long)w->seed, r.why.cause);
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
		struct walk w;

		if (i > 0)
			assert_int_equal(fx_setup(state), 0);
		fx = *state;
		dead = fx->fs;
		begin(&w, fx);
		w.seed = 5000 + i;
		walk(&w, any(&w, 1500));
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
		fx_test(test_heirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
