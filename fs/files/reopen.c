/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: files that are open for reading, or being opened, when the session wakes. See reopen.h. */
#include "reopen.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "packed.h"
#include "fs/request/nodelock.h"
#include "fs/session/binding.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A file has no place (filenode.h), but in what was saved it has: that is noted with each handle. When the sandbox is READY, and
 * before anything is sent to it, all handles of the session walk that way there, some at once. What is found there, a regular
 * file of the inode number, the size and the time that the saved one had, is that one: nobody on the host could change anything
 * yet, and of the sandbox' own code only that which goes on with a machine's memory. It is opened, and those locks are asked for that the
 * daemon gave out (nodelock.h). Then the session is ready, the handles and their nodes become the sandbox's, all in one turn,
 * and what waited goes on with them: so does a READ that came before. A handle of which anything fails is ESTALE from then on,
 * and so are its locks, and who waits for one.
 *
 * Until then all is as it was. If the sandbox goes, or this daemon (the next one begins with another sandbox), the
 * handles are still those of what was saved. But nothing is opened, locked or closed in between that this would miss: such
 * requests wait (reopen_holds()). Who waits for a lock already may still get it here, when somebody closes his handle: that is
 * asked for when all that was asked before is answered and what was closed is given back, for until then the sandbox has it
 * given to another.
 *
 * What waits for the sandbox may be about such a file by its node, as the open(2) for writing, or the truncate(2), that has woken
 * the session: its node walks there likewise, and nothing is opened for it. It would be ESTALE else, for which the kernel walks a
 * path once more, but only once, and that may have been needed when the session fell asleep.
 *
 * Of each step's node the agent has granted a lookup, which is given back when the next one is known. That of the file becomes
 * the node's. An agent that takes too long is not waited for: what it says later is given back.
 */

#define WALKS_MAX 64u	 /* at once */
#define WALKS_MS  20000u /* in all */

enum walk_step {
	WALK_FINDS,
	WALK_OPENS,
	WALK_LOCKS,
	WALK_DONE,
	WALK_FAILED,
};

struct walk {
	TAILQ_ENTRY(walk) link;
	RB_ENTRY(walk) sorted;
	struct reopening *of; /* NULL: it is given up, and ends with the answer that it waits for */
	struct session *s;    /* reference */
	const struct sandbox *sandbox;
	uint64_t handle; /* its id; 0: it is for its node alone */
	uint32_t index;	 /* of its node */
	/* Of its node alone, which nothing holds: what it was, and is to be still; and what is looked for, else the handle's. */
	uint32_t epoch;
	uint64_t entry;
	struct file_was *was;
	enum walk_step step;
	bool asked, inside;
	size_t at;		/* what of the path comes next */
	uint64_t node;		/* the last one on the way, in the end that of the file */
	uint64_t ino;		/* its number */
	uint64_t remote;	/* the agent's handle; 0: none */
	struct lock_ask *locks; /* that the handle has: */
	unsigned nlocks, ngranted;
	unsigned nknown,
		expected; /* while it is looked what it has: of before, and which of them comes next */
};

RB_HEAD(walk_tree, walk);

/* There are walks that have not ended while `going` or `next` is set. */
struct reopening {
	struct session *s;
	TAILQ_HEAD(, walk) walks;
	struct walk_tree tree;
	struct walk *next; /* the first one that has not begun */
	unsigned going;
	uint64_t until; /* uv_now() */
	bool inside;
};

/* ---- a walk ---- */

static const struct handle *handle_of(const struct walk *w)
{
	return handle_get(&w->s->fs->handles, w->handle);
}

/* What it looks for; NULL: the handle is gone. */
static const struct file_was *was_of(const struct walk *w)
{
	const struct handle *h = w->handle ? handle_of(w) : NULL;

	return h ? h->was : w->was;
}

static bool has_ended(const struct walk *w)
{
	return w->step == WALK_DONE || w->step == WALK_FAILED;
}

static void forget_node(struct walk *w)
{
	if (w->node != VM_FILES_ROOT && w->sandbox == w->s->sandbox)
		files_tell_forget(w->s, w->node, 1);
	w->node = VM_FILES_ROOT;
}

/* Gives back what it has. */
static void walk_free(struct walk *w)
{
	struct session *s = w->s;

	forget_node(w);
	if (w->remote && w->sandbox == s->sandbox)
		files_tell_release(s, w->remote);
	free(w->locks);
	free(w->was);
	free(w);
	session_unref(s);
}

/* The next name on the way. */
static size_t name_length(const struct walk *w, const struct file_was *was)
{
	return strcspn(was->path + w->at, "/");
}

/* Is there anything left to ask? */
static void end_if_over(struct walk *w)
{
	const struct file_was *was = was_of(w);

	if (!was || (w->step == WALK_FINDS && name_length(w, was) > NAME_MAX))
		w->step = WALK_FAILED;
	else if (w->step == WALK_LOCKS && w->ngranted == w->nlocks)
		w->step = WALK_DONE;
}

static void make_lookup(const struct walk *w, struct vm_file *rq, char name[static NAME_MAX + 1])
{
	const struct file_was *was = was_of(w);
	const size_t len = name_length(w, was);

	memcpy(name, was->path + w->at, len);
	name[len] = '\0';
	*rq = (struct vm_file){.op = VM_LOOKUP, .node = w->node, .name = name};
}

static void make_lock(const struct walk *w, struct vm_file *rq)
{
	const struct lock_ask *l = &w->locks[w->ngranted];

	*rq = (struct vm_file){.op = VM_LOCK,
			       .node = w->node,
			       .handle = w->remote,
			       .lock = {.owner = l->owner,
					.token = ++w->s->files->last_token,
					.start = l->start,
					.end = l->end,
					.type = l->type,
					.whole = l->whole,
					.pid = l->pid}};
	files_touch(w->s->files);
}

static void make_request(const struct walk *w, struct vm_file *rq, char name[static NAME_MAX + 1])
{
	if (w->step == WALK_FINDS)
		make_lookup(w, rq, name);
	else if (w->step == WALK_OPENS)
		*rq = (struct vm_file){.op = VM_OPEN, .node = w->node, .flags = O_RDONLY};
	else
		make_lock(w, rq);
}

/* What is found there may be something else that looks the same: a tree that was unpacked has one time for all. */
static bool is_that(const struct file_was *was, const struct vm_attr *a)
{
	return S_ISREG(a->mode) && filenode_same_number(was->number, a->ino) &&
	       a->size == was->size && time_compare(&a->mtime, &was->mtime) == 0;
}

static void found(struct walk *w, const struct vm_file_reply *reply)
{
	const struct file_was *was = was_of(w);
	const struct vm_attr *a = &reply->attr;
	const char *rest = was ? strchr(was->path + w->at, '/') : NULL;

	forget_node(w);
	w->node = reply->node;
	w->ino = a->ino;
	if (rest && S_ISDIR(a->mode))
		w->at = (size_t)(rest + 1 - was->path);
	else if (was && !rest && is_that(was, a))
		w->step = w->handle ? WALK_OPENS : WALK_DONE;
	else
		w->step = WALK_FAILED;
}

static void go(struct walk *w);

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	struct walk *w = data;

	w->asked = false;
	if (err < 0) {
		w->step = WALK_FAILED;
	} else if (w->step == WALK_FINDS) {
		found(w, reply);
	} else if (w->step == WALK_OPENS) {
		w->remote = reply->handle;
		w->step = WALK_LOCKS;
	} else {
		w->ngranted++;
	}
	if (!w->inside)
		go(w);
}

static void go_on(struct reopening *r);

/* Answers may come at once. */
static void go(struct walk *w)
{
	struct reopening *r = w->of;
	char name[NAME_MAX + 1];
	struct vm_file rq;

	w->inside = true;
	while (w->of && !w->asked) {
		end_if_over(w);
		if (has_ended(w))
			break;
		make_request(w, &rq, name);
		w->asked = true;
		if (sandbox_file(w->s->sandbox, &rq, on_answer, w) < 0) {
			w->asked = false;
			w->step = WALK_FAILED;
		}
	}
	w->inside = false;
	if (w->asked)
		return;
	if (!w->of) {
		walk_free(w);
		return;
	}
	r->going--;
	go_on(r);
}

/* ---- locks ---- */

/* Those of a node alone are beside each other. */
static int compare_walks(const struct walk *a, const struct walk *b)
{
	if (a->handle != b->handle)
		return a->handle < b->handle ? -1 : 1;
	return a->handle || a->index == b->index ? 0 : a->index < b->index ? -1 : 1;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(walk_tree, walk, sorted, compare_walks)
#pragma GCC diagnostic pop

static bool is_same_lock(const struct lock_ask *a, const struct lock_ask *b)
{
	return a->owner == b->owner && a->whole == b->whole && a->type == b->type &&
	       a->start == b->start && a->end == b->end;
}

/* Is it known? They come in the order in which they came before, so that is soon seen of thousands, too. */
static bool find_lock(struct walk *w, const struct lock_ask *ask)
{
	for (unsigned i = 0; i < w->nknown; i++) {
		const unsigned at = (w->expected + i) % w->nknown;

		if (is_same_lock(&w->locks[at], ask)) {
			w->expected = at + 1;
			return true;
		}
	}
	return false;
}

static bool add_lock(struct walk *w, const struct lock_ask *ask)
{
	const unsigned n = w->nlocks;
	struct lock_ask *more = w->locks;

	if (!(n & (n - 1))) /* there is room for a power of two of them, or none yet */
		more = reallocarray(w->locks, n ? 2 * (size_t)n : 1, sizeof(*more));
	if (!more)
		return false;
	w->locks = more;
	w->locks[w->nlocks++] = *ask;
	return true;
}

static void note_lock(void *data, const struct lock_ask *ask)
{
	struct reopening *r = data;
	struct walk key = {.handle = ask->handle};
	struct walk *w = RB_FIND(walk_tree, &r->tree, &key);

	if (w && w->step != WALK_FAILED && !find_lock(w, ask) && !add_lock(w, ask))
		w->step = WALK_FAILED;
}

/* What is locked now through all handles, of which nothing is being asked: there are thousands of both, so it is gone once
 * through the locks. */
static void note_locks(struct reopening *r)
{
	struct walk *w;

	TAILQ_FOREACH(w, &r->walks, link) {
		w->nknown = w->nlocks;
		w->expected = 0;
	}
	nodelock_each(&r->s->fs->locks, note_lock, r);
}

/* What was closed meanwhile has no locks any more, which others have been given here. */
static void give_back_closed(struct reopening *r)
{
	struct walk *w;

	TAILQ_FOREACH(w, &r->walks, link)
		if (w->remote && !handle_of(w) && w->sandbox == w->s->sandbox) {
			files_tell_release(w->s, w->remote);
			w->remote = 0;
		}
}

/* ---- all of them ---- */

static bool is_over(const struct reopening *r)
{
	return !r->going && !r->next;
}

/* All that was asked is answered: locks that were given out meanwhile are asked for as well. */
static void look_again(struct reopening *r)
{
	struct walk *w;

	give_back_closed(r);
	note_locks(r);
	TAILQ_FOREACH(w, &r->walks, link)
		if (w->step == WALK_DONE && w->ngranted < w->nlocks) {
			w->step = WALK_LOCKS;
			r->going++;
			go(w);
		}
}

/* A sandbox that has just died is not let in: all that was asked fails before its end is told. */
static void go_on(struct reopening *r)
{
	struct session *s = r->s;
	struct walk *w;

	if (r->inside)
		return;
	r->inside = true;
	while ((w = r->next) && r->going < WALKS_MAX) {
		r->next = TAILQ_NEXT(w, link);
		r->going++;
		go(w);
	}
	if (is_over(r))
		look_again(r);
	r->inside = false;
	if (is_over(r) && r->until && sandbox_is_up(s->sandbox))
		binding_ready(s);
}

static struct walk *add(struct reopening *r, uint64_t handle, uint32_t index)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->of = r;
	w->s = session_ref(r->s);
	w->sandbox = r->s->sandbox;
	w->handle = handle;
	w->index = index;
	w->node = VM_FILES_ROOT;
	TAILQ_INSERT_HEAD(&r->walks, w,
			  link); /* the oldest, which the list of handles has last, comes first */
	RB_INSERT(walk_tree, &r->tree, w);
	return w;
}

/* The saved file that @op waits to change, unless it is there already. */
static void add_node(struct reopening *r, const struct file_op *op, const struct pack *pack)
{
	const struct session *s = r->s;
	const struct filenode *fn = filenode_get(&s->files->nodes, op->index);
	struct walk key = {.index = op->index}, *w;
	struct file_was *was;

	if (!fn || fn->class != FILENODE_FILE || fn->epoch != s->epoch || op->epoch != s->epoch ||
	    op->rq.handle || RB_FIND(walk_tree, &r->tree, &key))
		return;
	was = packed_was(pack, (uint32_t)fn->remote);
	w = was ? add(r, 0, op->index) : NULL;
	if (!w) {
		free(was);
		return;
	}
	w->was = was;
	w->epoch = fn->epoch;
	w->entry = fn->remote;
}

/* Is it one of the session's files, as they are? */
static bool is_own(const struct session *s, const struct handle *h)
{
	const enum node_kind kind = ino_kind(h->ino);

	return h->s == s && (kind == NODE_FILE || kind == NODE_FILES);
}

/* For which there is no memory is ESTALE. */
static void collect(struct reopening *r)
{
	const struct session *s = r->s;
	const struct opener *o = handle_opener(&s->fs->handles, s->uid);
	const struct pack *pack = saved_pack(s->asleep.saved);
	const struct file_op *op;
	const struct handle *h;

	if (o) {
		LIST_FOREACH(h, &o->handles, opened)
			if (is_own(s, h) && h->was && h->packed && h->epoch == s->epoch &&
			    !add(r, handle_id(h), (uint32_t)h->ino))
				break;
	}
	if (pack) {
		TAILQ_FOREACH(op, &s->files->pending, link)
			add_node(r, op, pack);
	}
	r->next = TAILQ_FIRST(&r->walks);
	note_locks(r);
}

bool reopen_begin(struct session *s)
{
	struct reopening *r = s->files->reopening;

	if (r)
		return true;
	r = calloc(1, sizeof(*r));
	if (!r)
		return false;
	s->files->reopening = r;
	r->s = s;
	TAILQ_INIT(&r->walks);
	RB_INIT(&r->tree);
	collect(r);
	go_on(r);
	/* Of a sandbox that has died meanwhile the end is told next. */
	if (is_over(r) && sandbox_is_up(s->sandbox))
		return false;
	r->until = uv_now(s->fs->loop) + WALKS_MS;
	alarm_set(&s->fs->alarm, r->until);
	return true;
}

static void take_out(struct reopening *r, struct walk *w)
{
	TAILQ_REMOVE(&r->walks, w, link);
	RB_REMOVE(walk_tree, &r->tree, w);
}

/* Takes them out, and those that have asked for something end with the answer. */
static void give_up(struct reopening *r, bool unanswered)
{
	struct walk *w, *next;

	for (w = TAILQ_FIRST(&r->walks); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (unanswered && !w->asked)
			continue;
		take_out(r, w);
		w->of = NULL;
		if (!w->asked)
			walk_free(w);
	}
	r->going = 0;
	r->next = NULL;
}

void reopen_drop(struct session *s)
{
	struct reopening *r = s->files->reopening;

	if (!r)
		return;
	give_up(r, false);
	free(r);
	s->files->reopening = NULL;
}

uint64_t reopen_tick(struct session *s, uint64_t now)
{
	struct reopening *r = s->files->reopening;

	if (!r)
		return UINT64_MAX;
	if (now < r->until)
		return r->until;
	give_up(r, true);
	if (sandbox_is_up(s->sandbox))
		binding_ready(s);
	return UINT64_MAX;
}

bool reopen_holds(const struct session *s, const struct vm_file *rq)
{
	return s->files->reopening && (rq->op == VM_OPEN || rq->op == VM_LOCK ||
				       rq->op == VM_TEST_LOCK || rq->op == VM_DROP_LOCKS);
}

/* ---- what comes of it ---- */

/* The node is the sandbox's from now on. Two files can't have come of one. */
static bool adopt_node(struct walk *w)
{
	struct session *s = w->s;
	struct filenode *fn = filenode_get(&s->files->nodes, w->index);

	if (!fn || (fn->epoch == s->epoch && fn->remote != w->node))
		return false;
	if (!w->handle && fn->epoch != s->epoch &&
	    (fn->class != FILENODE_FILE || fn->epoch != w->epoch || fn->remote != w->entry))
		return false; /* the kernel has forgotten it, and another one has its place */
	if (fn->epoch != s->epoch)
		filenode_follow(&s->files->nodes, fn, s->epoch, w->node, w->ino);
	else
		forget_node(w);
	return true;
}

/* And so is the handle, if it is for one. */
static bool adopt(struct walk *w)
{
	struct session *s = w->s;
	struct handle *h = w->handle ? handle_get(&s->fs->handles, w->handle) : NULL;

	/* What was locked when the time was up, was not asked for. */
	if (w->step != WALK_DONE || w->ngranted < w->nlocks || (w->handle && !h) || !adopt_node(w))
		return false;
	if (!h)
		return true;
	if (w->nlocks)
		filenode_lock(&s->files->nodes, w->index);
	h->remote = w->remote;
	h->epoch = s->epoch;
	h->packed = false;
	free(h->was);
	h->was = NULL;
	handle_touch(h);
	return true;
}

static bool is_own_handle(void *data, uint64_t handle)
{
	const struct session *s = data;
	const struct handle *h = handle_get(&s->fs->handles, handle);

	return h && is_own(s, h);
}

/* Who waits for a lock waits in the sandbox, behind those who have it there, and in the same order. */
static void move_waits(struct session *s, reopen_lock_fn lock)
{
	struct fs *fs = s->fs;
	const uint64_t request = fs->request;
	struct lock_ask ask;
	struct req *req;

	fs->request = 0; /* it is not that one */
	while ((req = nodelock_take_wait(&fs->locks, is_own_handle, s, &ask))) {
		struct handle *h = handle_get(&fs->handles, ask.handle);
		const struct node n = {.fs = fs,
				       .kind = ino_kind(h->ino),
				       .ino = h->ino,
				       .s = s,
				       .sub = (uint32_t)h->ino};

		lock(&n, h, req, &ask, VM_LOCK, true);
	}
	fs->request = request;
}

/* What was locked here is in the sandbox, or of no handle that can be used; those who wait are gone when it is given back. */
static void leave_locks(struct session *s, reopen_lock_fn lock)
{
	move_waits(s, lock);
	nodelock_release_all(&s->fs->locks, &s->fs->handles, is_own_handle, s);
}

void reopen_end(struct session *s, reopen_lock_fn lock)
{
	struct reopening *r = s->files->reopening;
	struct walk *w;

	s->files->reopening = NULL;
	if (r)
		note_locks(r);
	while (r && (w = TAILQ_FIRST(&r->walks))) {
		assert(is_over(r));
		take_out(r, w);
		if (adopt(w)) {
			w->node = VM_FILES_ROOT;
			w->remote = 0;
		}
		walk_free(w);
	}
	free(r);
	leave_locks(s, lock);
}
