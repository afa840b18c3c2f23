/* SPDX-License-Identifier: Apache-2.0 */
/* File requests: answered from what is known, or by the agent. */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "file_wire.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * What needs not be asked is answered at once (known.h). That takes a lease (lease.h). A file that is opened only to
 * be read, and is known, is not opened before the lease ends (early.h).
 *
 * All else goes to the agent (file_call.h), with a question beside it: what it was about, so that its answer can be
 * learned from before it is passed on. Of what another process has asked it is only known what kind of request it was, until
 * that is made here, too.
 */

/* What the agent was asked, until it answers. */
struct question {
	struct guest_files *files;
	vm_file_fn fn;
	void *data;
	struct known_question about;
	char names[]; /* of `about`, or its data */
};

/* ---- questions ---- */

static size_t name_size(const char *name)
{
	return name ? strlen(name) + 1 : 0;
}

static struct question *question_new(struct guest_files *gf, const struct vm_file *req,
				     vm_file_fn fn, void *data)
{
	const size_t first = name_size(req->name), second = name_size(req->newname);
	const bool wanted = known_wants(&gf->lease.known, req);
	const size_t kept = wanted ? req->size : 0;
	struct question *q = calloc(1, sizeof(*q) + first + second + kept);

	if (!q)
		return NULL;
	q->files = gf;
	q->fn = fn;
	q->data = data;
	q->about = (struct known_question){.op = req->op,
					   .node = req->node,
					   .newparent = req->newparent,
					   .handle = req->handle,
					   .flags = req->flags,
					   .valid = req->valid,
					   .size = req->size,
					   .offset = req->offset};
	if (first)
		q->about.name = memcpy(q->names, req->name, first);
	if (second)
		q->about.newname = memcpy(q->names + first, req->newname, second);
	if (wanted)
		q->about.data = memcpy(q->names + first + second, req->data, req->size);
	return q;
}

/* Does it release a handle, a lock or a node? Such requests are never refused, or that would stay for ever. */
static bool gives_back(const struct vm_file *req)
{
	return req->op == VM_FORGET || req->op == VM_RELEASE || req->op == VM_DROP_LOCKS ||
	       req->op == VM_CANCEL_LOCK || (req->op == VM_LOCK && req->lock.type == PROTO_UNLOCK);
}

/* A shorter request for the same, if it is known that the file ends before. */
static void shorten(const struct known *k, struct vm_file *req, bool *ret_exact)
{
	const uint64_t rest = known_rest(k, req->node, req->offset);

	*ret_exact = rest != UINT64_MAX;
	if (*ret_exact)
		req->size = (size_t)MIN((uint64_t)req->size, rest);
}

static bool opens(enum vm_file_op op)
{
	return op == VM_OPEN || op == VM_CREATE || op == VM_OPENDIR;
}

/* Does it change modes, or names by which the agent may have to find files again? What was opened before stays open. */
static bool moves(enum vm_file_op op)
{
	return op == VM_SETATTR || op == VM_UNLINK || op == VM_RENAME;
}

/* What guest_files_put() writes changes, though the agent is told nothing. */
static void note(struct guest_files *gf)
{
	channel_note(gf->lease.channel);
}

static void count_answered(struct guest_files *gf, enum vm_file_op op, int err)
{
	if (err && opens(op) && gf->nopen > 0)
		gf->nopen--;
	if (moves(op) && gf->nmoves > 0)
		gf->nmoves--;
}

/* Learns from an answer, and passes it on. */
static void on_answer(void *data, int err, struct vm_file_reply *reply)
{
	struct question *q = data;
	struct guest_files *gf = q->files;
	struct known *k = lease_known(&gf->lease);

	count_answered(gf, q->about.op, err);
	known_learn(k, &q->about, err, reply);
	if (reply)
		reply->leased = k->leased;
	q->fn(q->data, err, reply);
	free(q);
}

/* Asks the agent. */
static int send_question(struct guest_files *gf, const struct vm_file *req, unsigned how,
			 vm_file_fn fn, void *data)
{
	struct question *q = question_new(gf, req, fn, data);
	int r = q ? file_call_claim(&gf->calls, req, on_answer, q) : -ENOMEM;

	if (r == 0) {
		r = file_call_send(&gf->calls, req, how, on_answer, q);
		if (r == 0 && opens(req->op))
			gf->nopen++;
		if (r == 0)
			gf->nmoves += moves(req->op);
	}
	if (r < 0)
		free(q);
	return MIN(r, 0);
}

/* A request that has no answer. */
static int send_message(struct guest_files *gf, struct vm_file *req)
{
	int r;

	if (req->op == VM_FORGET) {
		req->lookups = known_forget(&gf->lease.known, req->node, req->lookups);
		note(gf);
		if (!req->lookups)
			return 0;
	}
	if (req->op == VM_RELEASE)
		known_release(&gf->lease.known, req->handle);
	r = file_call_tell(&gf->calls, req);
	if (r == 0 && req->op == VM_RELEASE && gf->nopen > 0)
		gf->nopen--;
	return r;
}

/* Reads that the agent does not hear of set the time of the last access, too, as those of a `relatime` file system. */
static void tell_read(struct guest_files *gf, uint64_t node)
{
	uint8_t bytes[8];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	if (!known_was_read(&gf->lease.known, node))
		return;
	put_u64(&o, node);
	/* Ahead of a run, which may look. Out of memory, the time stays. */
	(void)channel_send(gf->lease.channel, PROTO_F_TOUCH, 0, bytes, o.len);
}

/* Sends a request that has an answer. */
static int send_request(struct guest_files *gf, struct vm_file *req, vm_file_fn fn, void *data)
{
	bool exact = false;

	if (gf->calls.held > GUEST_FILE_HELD_MAX && !gives_back(req) &&
	    !file_calls_orphan(&gf->calls, req))
		return -ENOMEM;
	lease_want(&gf->lease);
	if (req->op == VM_READ)
		shorten(&gf->lease.known, req, &exact);
	return send_question(gf, req, exact ? FILE_CALL_EXACT : 0, fn, data);
}

/* ---- files that are not open yet ---- */

static void release_early(struct guest_files *gf, struct early *e)
{
	struct vm_file rq = {.op = VM_RELEASE, .handle = e->remote};

	if (e->state == EARLY_OPEN)
		(void)send_message(gf, &rq);
	early_free(&gf->early, e);
	note(gf);
}

/* The agent has opened it, or not: what has waited for that goes on. */
static void on_early(void *data, int err, const struct vm_file_reply *reply)
{
	struct early *e = data;
	struct guest_files *gf = e->owner;
	struct early_request *r;

	early_set(&gf->early, e, err ? EARLY_FAILED : EARLY_OPEN);
	e->err = err;
	e->remote = err ? 0 : reply->handle;
	while ((r = STAILQ_FIRST(&e->waiting))) {
		int error = err;

		STAILQ_REMOVE_HEAD(&e->waiting, link);
		if (!error)
			error = guest_file_request(gf, &r->req, r->fn, r->data);
		if (error && r->fn)
			r->fn(r->data, error, NULL);
		free(r);
	}
	if (e->closed)
		release_early(gf, e);
}

static struct vm_file early_open(const struct early *e)
{
	return (struct vm_file){
		.op = VM_OPEN, .claim = e->handle, .node = e->node, .flags = O_RDONLY};
}

/* Has the agent open it, ahead of all that is not on its way yet. */
static int early_ask(struct guest_files *gf, struct early *e)
{
	const struct vm_file req = early_open(e);
	int r;

	early_set(&gf->early, e, EARLY_ASKED);
	r = send_question(gf, &req, FILE_CALL_URGENT, on_early, e);
	if (r < 0)
		early_set(&gf->early, e, EARLY_HELD);
	return r;
}

void guest_file_stir(struct guest_files *gf)
{
	struct early *e;
	int r;

	while ((e = early_held(&gf->early))) {
		r = early_ask(gf, e);
		if (r < 0)
			on_early(e, r, NULL);
	}
}

/* Are so many open that the agent might refuse to open what is held? */
static bool is_full(const struct guest_files *gf)
{
	return gf->nopen + gf->early.nheld >= EARLY_OPEN_MAX;
}

/* Opens it without the agent, if that is of no use. Behind a request that may forbid it, only the agent can say. */
static bool open_early(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct vm_file_reply reply = {.leased = true};
	struct early *e;

	if (req->op != VM_OPEN || req->flags != O_RDONLY || gf->nmoves ||
	    !known_may_open(&gf->lease.known, req->node) || !file_calls_have_slot(&gf->calls) ||
	    is_full(gf))
		return false;
	e = early_new(&gf->early, req->node, gf);
	if (!e)
		return false;
	note(gf);
	reply.handle = e->handle;
	fn(data, 0, &reply);
	return true;
}

/* The agent does not know the handles that it has not made.
 * Return: whether the request goes on, with a handle of the agent's; if not, @ret_r is its result. */
static bool translate(struct guest_files *gf, struct vm_file *req, vm_file_fn fn, void *data,
		      int *ret_r)
{
	struct early *e = NULL;

	*ret_r = 0;
	if (req->op == VM_CANCEL_LOCK)
		e = early_locking(&gf->early, req->lock.token);
	else if (req->handle & EARLY_HANDLE)
		e = early_find(&gf->early, req->handle);
	else
		return true;
	if (!e) {
		*ret_r = req->op == VM_RELEASE || req->op == VM_CANCEL_LOCK ? 0 : -EBADF;
		return req->op == VM_CANCEL_LOCK;
	}
	if (req->op == VM_RELEASE) {
		e->closed = e->state == EARLY_ASKED;
		if (!e->closed)
			release_early(gf, e);
		return false;
	}
	if (req->op == VM_GETATTR || e->state == EARLY_OPEN) {
		req->handle = e->remote;
		return true;
	}
	if (e->state == EARLY_FAILED)
		*ret_r = e->err;
	if (e->state == EARLY_HELD)
		*ret_r = early_ask(gf, e);
	if (*ret_r == 0)
		*ret_r = early_wait(e, req, fn, data);
	return false;
}

int guest_file_request(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct known *k = lease_known(&gf->lease);
	struct vm_file ask = *req;
	struct vm_file_reply reply;
	int err, r = file_call_check(&ask);

	if (r < 0)
		return r;
	if (known_answer(k, &ask, &err, &reply)) {
		if (ask.op == VM_READ)
			tell_read(gf, ask.node);
		if (ask.op == VM_LOOKUP) /* it has one more */
			note(gf);
		fn(data, err, err ? NULL : &reply);
		return 0;
	}
	if (!translate(gf, &ask, fn, data, &r))
		return r;
	if (file_wire_answer(ask.op) == FILE_ANSWER_NONE)
		return send_message(gf, &ask);
	assert(fn);
	/* The node of what is held for long may have been dropped by the agent. */
	if (early_is_old(&gf->early) || moves(ask.op) || (opens(ask.op) && is_full(gf)))
		guest_file_stir(gf);
	return open_early(gf, &ask, fn, data) ? 0 : send_request(gf, &ask, fn, data);
}

static bool early_changes(const struct early *e)
{
	const struct early_request *r;

	STAILQ_FOREACH(r, &e->waiting, link)
	{
		if (vm_file_changes(&r->req))
			return true;
	}
	return false;
}

bool guest_file_changes(const struct guest_files *gf)
{
	for (const struct early *e = early_first(&gf->early); e; e = early_next(e))
		if (early_changes(e))
			return true;
	return file_calls_change(&gf->calls);
}

/* ---- what was asked by a process before this one ---- */

void guest_file_undo(struct guest_files *gf, enum vm_file_op op, const struct vm_file_reply *reply)
{
	struct vm_file release = {.op = VM_RELEASE, .handle = reply->handle};
	struct vm_file forget = {.op = VM_FORGET, .node = reply->node, .lookups = 1};

	if (op == VM_CREATE || opens(op))
		(void)send_message(gf, &release);
	switch ((int)op) {
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_CREATE: (void)send_message(gf, &forget); break;
	default: break;
	}
}

/* Nobody wants this answer. What it was about is not known, and so whatever is known may not be true any more. */
static void on_orphan(void *data, enum vm_file_op op, int err, const struct vm_file_reply *reply)
{
	struct guest_files *gf = data;

	count_answered(gf, op, err);
	known_end(&gf->lease.known);
	if (reply)
		guest_file_undo(gf, op, reply);
}

static void count_move(void *data, enum vm_file_op op)
{
	struct guest_files *gf = data;

	gf->nmoves += moves(op);
}

int guest_file_inherit(struct guest_files *gf)
{
	file_calls_each(&gf->calls, count_move, gf);
	for (const struct early *e = early_first(&gf->early); e; e = early_next(e)) {
		const struct vm_file req = early_open(e);
		int r;

		if (e->state != EARLY_ASKED)
			continue;
		if (!file_calls_orphan(&gf->calls, &req))
			return -EBADMSG;
		r = send_question(gf, &req, FILE_CALL_URGENT, on_early,
				  early_find(&gf->early, e->handle));
		if (r < 0)
			return r;
	}
	return 0;
}

bool guest_file_asked(const struct guest_files *gf, const struct vm_file *req, uint64_t *ret_token)
{
	const struct file_call *call = file_calls_orphan(&gf->calls, req);

	if (call)
		*ret_token = file_call_token(call);
	return call;
}

int guest_file_give_up(struct guest_files *gf)
{
	return file_calls_give_up(&gf->calls);
}

/* ---- from the beginning to the end ---- */

void guest_file_init(struct guest_files *gf, struct channel *channel)
{
	/* For each file that is held a slot is kept free: its open must not wait. */
	file_calls_init(&gf->calls, channel, &gf->early.nheld, on_orphan, gf);
	lease_init(&gf->lease, channel);
	early_init(&gf->early);
}

void guest_file_fail(struct guest_files *gf, int err)
{
	known_fini(&gf->lease.known); /* nothing is learned from this */
	file_calls_fail(&gf->calls, err);
	early_fini(&gf->early);
}
