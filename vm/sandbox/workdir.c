/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of sandboxes that work on a copy of a host directory: kept, listed, committed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "internal.h"
#include "vm/base/buf.h"
#include "vm/base/fdbag.h"
#include "vm/base/lent.h"
#include "vm/base/turn.h"
#include "vm/base/record_table.h"
#include "vm/jail/jail.h"
#include "vm/order/order.h"
#include "vm/order/policy.h"
#include "vm/spawn/child_record.h"
#include "vm/spawn/program.h"
#include "vm/task/overlay_diff.h"

/*
 * Theory of operation
 * -------------------
 * A sandbox's changes are in a memory file system made by its jail, with quotas of bytes and inodes. The
 * daemon holds a descriptor of it, so it outlives the sandbox: the changes of a closed session can still be
 * listed and committed. They are not visible as files any more; `files/` is ESTALE then.
 *
 * The daemon itself can neither read them nor write to the directory: it has confined itself to its own
 * directories. Each request is executed by a process, see task/overlay_diff.c, in a jail with the two trees
 * and the permissions of the session's owner. As it reads untrusted files, its output is limited.
 *
 * One that applies changes goes on when this process ends, and the next one waits for it: it must never be done twice. All
 * others may be: their processes end with this one.
 */

#define WORDS_MAX (16u << 20)

struct workdir {
	struct vm *vm;
	int upper;
	uint32_t view; /* enum order_view */
	uid_t owner;
	gid_t group;
	uint32_t ids; /* first of the sandbox's on the host */
};

/* A request under way; freed when it is answered. */
struct workdir_task {
	TAILQ_ENTRY(workdir_task) link;
	struct vm *vm;
	enum workdir_op op;
	struct program program;
	struct buf said;
	int begin;   /* a byte for it to begin, and one to make what it has listed; or -1 */
	bool judged; /* it may make what it has listed; and is told so behind the commit of that */
	bool taken;  /* by this process, from one before it */
	struct turn_speaker permit;
	int err; /* why it was ended */
	workdir_judge_fn judge;
	workdir_fn fn;
	void *data;
};

struct workdir *workdir_of(const struct sandbox *s)
{
	struct guest_info guest;
	const struct backend_info *info = &guest.backend;
	struct workdir *w;
	int view;

	if (!s->spec.work || !s->guest)
		return NULL;
	guest_info(s->guest, &guest);
	w = info->kept < 0 ? NULL : calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->vm = s->vm;
	w->upper = fcntl(info->kept, F_DUPFD_CLOEXEC, 0);
	view = policy_find_view(s->vm->backends.policy, &s->spec);
	w->view = (uint32_t)view;
	w->owner = s->spec.owner;
	w->group = s->spec.group;
	w->ids = info->report ? (uint32_t)info->report->layer[JAIL_L_IDS].value : 0;
	if (w->upper >= 0 && view >= 0)
		return w;
	workdir_free(w);
	return NULL;
}

void workdir_free(struct workdir *w)
{
	if (!w)
		return;
	lent_close(&w->upper);
	free(w);
}

/* ---- from one daemon to the next ---- */

/* Never reuse one. */
enum { TAG_UPPER = 1, TAG_VIEW, TAG_OWNER, TAG_GROUP, TAG_IDS };

#define MEMBER(member, tag) RECORD_MEMBER(struct workdir, member, tag, UINT32_MAX)

static const struct record_member members[] = {
	MEMBER(view, TAG_VIEW),
	MEMBER(owner, TAG_OWNER),
	MEMBER(group, TAG_GROUP),
	MEMBER(ids, TAG_IDS),
};

void workdir_put(const struct workdir *w, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_UPPER, fdbag_put(fds, w->upper));
	record_put_members(out, w, members, ARRAY_SIZE(members));
}

int workdir_take(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
		 struct workdir **ret_workdir)
{
	struct workdir *w = calloc(1, sizeof(*w));
	struct record_reader r = *fields;
	struct record_field f;
	uint32_t upper = 0;
	int n;

	if (!w)
		return -ENOMEM;
	w->vm = vm;
	while ((n = record_field(&r, &f)) > 0) {
		n = f.tag == TAG_UPPER ? record_get_u32(&f, FDBAG_MAX, &upper)
				       : record_take_member(&f, w, members, ARRAY_SIZE(members));
		if (n < 0)
			break;
	}
	w->upper = n == 0 ? fdbag_take(fds, upper) : -1;
	if (w->upper < 0) {
		free(w);
		return -EBADMSG;
	}
	*ret_workdir = w;
	return 0;
}

/* ---- the answer ---- */

/* Takes the last line, recognized by its first word @word, as the result. Return: 0, or -EIO if it is not there. */
static int conclude(struct buf *said, const char *word, struct vm_changes *c)
{
	unsigned long long changes, failures;
	const char *text = buf_str(said);
	size_t at = said->len;

	if (!text || at < 2 || text[at - 1] != '\n')
		return -EIO;
	for (at--; at > 0 && text[at - 1] != '\n';)
		at--;
	if (strncmp(text + at, word, strlen(word)) != 0 ||
	    sscanf(text + at + strlen(word), " %llu %llu", &changes, &failures) != 2)
		return -EIO;
	*c = (struct vm_changes){text, at, changes, failures, ""};
	return 0;
}

static void on_over(struct program *p)
{
	struct vm_changes c = {.text = ""};
	struct workdir_task *t = p->data;
	struct vm *vm = t->vm;
	char why[sizeof(p->step) + 64] = "";

	if (p->failed) {
		t->err = p->failed;
		snprintf(why, sizeof(why), "%s: %s", p->step, strerror(-p->failed));
	} else if (t->err == 0 && p->status != 0) {
		t->err = -EIO;
		snprintf(why, sizeof(why), "it was ended by signal %d, or could not be told",
			 WTERMSIG(p->status));
	}
	if (t->err == 0)
		t->err = conclude(&t->said, OVERLAY_DONE, &c);
	/* The process before has heard it, and told nobody. */
	if (t->err == -EIO && t->taken && !p->failed && p->status == 0)
		t->err = -ESTALE;
	c.why = t->err < 0 && !why[0] ? strerror(-t->err) : why;
	TAILQ_REMOVE(&vm->workdir_tasks, t, link);
	turn_hush(vm->ctx.turn, &t->permit);
	lent_close(&t->begin);
	t->fn(t->data, t->err, &c);
	buf_clear(&t->said);
	free(t);
	context_release(&vm->ctx);
}

/* It is told once more if nobody knows whether it was: it reads one byte. */
static void on_permit(struct turn_speaker *sp)
{
	const struct workdir_task *t = container_of(sp, struct workdir_task, permit);

	(void)!write(t->begin, "", 1);
}

/* Whoever comes after this process must know of it, or he would have it done again. */
static void permit(struct workdir_task *t)
{
	struct turn *turn = t->vm->ctx.turn;

	t->permit.speak = on_permit;
	turn_due(turn);
	if (turn_is_on(turn))
		turn_speak(turn, TURN_FRAMES, &t->permit);
	else
		on_permit(&t->permit);
}

/* Once all changes are listed, permits the process to make them. Return: 0, or -ECANCELED if `judge` refuses. */
static int look(struct workdir_task *t)
{
	struct vm_changes c;

	if (conclude(&t->said, OVERLAY_LISTED, &c) < 0)
		return 0; /* more will come */
	if (t->vm->ctx.closing || !t->judge(t->data, &c))
		return -ECANCELED;
	t->judged = true;
	t->said.len = 0;
	permit(t);
	return 0;
}

static void on_bytes(struct program *p, const void *bytes, size_t len)
{
	struct workdir_task *t = p->data;
	int e = t->err ? 0 : buf_append(&t->said, bytes, len);

	if (e == 0 && t->op == WORKDIR_COMMIT && !t->judged && !t->err)
		e = look(t);
	if (e == 0)
		return;
	t->err = e;
	child_kill(&t->program.child);
}

static void on_started(struct program *p)
{
	struct workdir_task *t = p->data;

	(void)!write(t->begin, "", 1);
	if (t->op != WORKDIR_COMMIT)
		lent_close(&t->begin);
}

/* Sets what is called for its process. */
static void prepare(struct workdir_task *t)
{
	t->program = (struct program){
		.bytes = on_bytes, .started = on_started, .over = on_over, .data = t};
	t->said.limit = WORDS_MAX;
}

static void enter(struct workdir_task *t)
{
	TAILQ_INSERT_TAIL(&t->vm->workdir_tasks, t, link);
	context_hold(&t->vm->ctx);
}

/* ---- one that applies changes, from one daemon to the next ---- */

/* Never reuse one. */
enum { TAG_TASK_PROGRAM = 1, TAG_TASK_BEGIN };

bool workdir_put_commit(const struct vm *vm, const void *data, struct buf *out, struct fdbag *fds)
{
	const struct workdir_task *t;
	size_t at;

	TAILQ_FOREACH(t, &vm->workdir_tasks, link)
		if (t->data == data && t->judged)
			break;
	if (!t)
		return false;
	at = record_open(out, TAG_TASK_PROGRAM);
	program_put(&t->program, out, fds);
	record_close(out, at);
	record_u64(out, TAG_TASK_BEGIN, fdbag_put(fds, t->begin));
	return true;
}

static int take_task(struct workdir_task *t, struct record_reader r, struct fdbag *fds)
{
	struct context *ctx = &t->vm->ctx;
	struct record_reader program = {0};
	struct record_field f;
	uint32_t begin = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_TASK_PROGRAM && f.is_bytes)
			program = record_inside(&f);
		else if (f.tag == TAG_TASK_BEGIN)
			n = record_get_u32(&f, FDBAG_MAX, &begin);
		if (n < 0)
			return n;
	}
	if (n == 0)
		n = program_take(&t->program, ctx->loop, ctx->spawner, program, fds);
	t->begin = n == 0 ? fdbag_take(fds, begin) : -1;
	return n;
}

int workdir_take_commit(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
			workdir_fn fn, void *data)
{
	struct workdir_task *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	*t = (struct workdir_task){.vm = vm,
				   .op = WORKDIR_COMMIT,
				   .judged = true,
				   .taken = true,
				   .fn = fn,
				   .data = data,
				   .begin = -1};
	prepare(t);
	r = take_task(t, *fields, fds);
	if (r < 0) {
		free(t);
		return r;
	}
	enter(t);
	if (t->begin >= 0)
		permit(t);
	return 0;
}

/* ---- the question ---- */

static int ask(const struct workdir *w, struct workdir_task *t)
{
	const struct order order = {.program = ORDER_CHANGES,
				    .changes = {.commit = t->op == WORKDIR_COMMIT,
						.view = w->view,
						.owner = w->owner,
						.group = w->group,
						.foreign = w->ids}};
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;

	const int fds[] = {pair[0], w->upper};

	t->begin = pair[1];
	prepare(t);
	t->program.fds = fds;
	t->program.nfds = ARRAY_SIZE(fds);
	r = program_start(&t->program, w->vm->ctx.loop, w->vm->ctx.spawner, &order, sizeof(order));
	t->program.fds = NULL;
	close(pair[0]);
	return r;
}

int workdir_do(struct workdir *w, enum workdir_op op, workdir_judge_fn judge, workdir_fn fn,
	       void *data)
{
	struct workdir_task *t = w->vm->ctx.closing ? NULL : calloc(1, sizeof(*t));
	int r;

	if (!t)
		return w->vm->ctx.closing ? -ESHUTDOWN : -ENOMEM;
	t->vm = w->vm;
	t->op = op;
	t->judge = judge;
	t->fn = fn;
	t->data = data;
	t->begin = -1;
	r = ask(w, t);
	if (r < 0) {
		lent_close(&t->begin);
		free(t);
		return r;
	}
	enter(t);
	return 0;
}

void workdir_cut(struct vm *vm)
{
	struct workdir_task *t;

	/* A commit that has begun is completed: half of it would be in neither place. */
	TAILQ_FOREACH(t, &vm->workdir_tasks, link) {
		if (!t->judged)
			child_kill(&t->program.child);
	}
}

bool workdir_under_way(const struct vm *vm)
{
	const struct workdir_task *t;

	TAILQ_FOREACH(t, &vm->workdir_tasks, link) {
		if (t->judged)
			return true;
	}
	return false;
}
