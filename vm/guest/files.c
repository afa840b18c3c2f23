/* SPDX-License-Identifier: Apache-2.0 */
/* File requests to an agent. */
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
 * A call is one sandbox_file(); it goes out as one piece, or, if it reads or writes more than
 * PROTO_DATA_MAX, as several. A piece is a frame that is ready to go. Pieces wait in one queue, in
 * order, until one of PROTO_FILES_INFLIGHT slots is free, so that a megabyte is on its way as a
 * whole instead of one round trip at a time. The slot is the lower part of the frame's id, the
 * upper part counts how often the slot was used: an answer to a slot that has moved on is told
 * from a real one.
 *
 * Pieces are answered in any order. Each leaves its result in the call; once the last is there,
 * the result of the whole is what a single read or write would have given: everything up to the
 * first piece that came out short, or its error if nothing came before it.
 *
 * Programs read small files with large buffers. So of a read whose length nobody knows, the first piece is sent
 * alone, and the others if that comes back full; not if the read goes on where another one ended that was full.
 *
 * What needs not be asked is answered at once (known.h). That takes a lease (lease.h). A file that is opened only to
 * be read, and is known, is not opened before the lease ends (early.h).
 *
 * A lock may have to be waited for, for as long as somebody likes. Its first answer says so; the call then
 * gives its slot back, and ends with a LOCKED that has its token.
 *
 * What an answer holds is the guest's word: file_wire.c checks it.
 */

#define SLOT_BITS  8
#define PIECES_MAX (GUEST_FILE_REQUEST_MAX / PROTO_DATA_MAX)

static_assert(PROTO_FILES_INFLIGHT == 1u << SLOT_BITS, "a slot is the low byte of an id");
static_assert(GUEST_FILE_REQUEST_MAX % PROTO_DATA_MAX == 0, "whole pieces");

struct file_call {
	TAILQ_ENTRY(file_call) link; /* of those that wait for a lock */
	struct guest_files *files;
	enum vm_file_op op;
	vm_file_fn fn;
	void *data;
	size_t size; /* bytes to be read or written */
	unsigned npieces, unanswered;
	uint64_t token; /* LOCK */
	bool may_wait, waits, urgent;
	int32_t result[PIECES_MAX]; /* bytes, or -errno */
	uint8_t *bytes;		    /* READ of several pieces: where they are reassembled */
	uint64_t offset;	    /* READ */
	unsigned kept_back;	    /* READ: pieces that are sent when the first is not short */
	struct known_question question;
	char names[]; /* of `question`, or its data */
};

struct file_piece {
	STAILQ_ENTRY(file_piece) link;
	struct file_call *call; /* NULL: there is no answer */
	unsigned number;
	struct channel_frame *frame;
};

void guest_file_init(struct guest_files *gf, struct channel *channel)
{
	gf->channel = channel;
	lease_init(&gf->lease, channel);
	early_init(&gf->early);
	STAILQ_INIT(&gf->waiting);
	TAILQ_INIT(&gf->locks);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++)
		gf->free[i] = (uint8_t)(PROTO_FILES_INFLIGHT - 1 - i);
	gf->nfree = PROTO_FILES_INFLIGHT;
}

/* ---- questions ---- */

static struct file_piece *piece_new(const struct vm_file *req, struct file_call *call,
				    unsigned number)
{
	const size_t skip = (size_t)number * PROTO_DATA_MAX;
	const size_t size = MIN(req->size - skip, (size_t)PROTO_DATA_MAX);
	struct file_piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->frame = file_wire_pack(req, skip, size);
	if (!p->frame) {
		free(p);
		return NULL;
	}
	p->call = call;
	p->number = number;
	return p;
}

static void call_free(struct file_call *call)
{
	if (call)
		free(call->bytes);
	free(call);
}

static void piece_free(struct file_piece *p)
{
	free(p->frame);
	free(p);
}

static size_t name_size(const char *name)
{
	return name ? strlen(name) + 1 : 0;
}

/* Room for @call->names follows. */
static void keep_question(struct file_call *call, const struct vm_file *req)
{
	const size_t first = name_size(req->name), second = name_size(req->newname);

	call->question = (struct known_question){.op = req->op,
						 .node = req->node,
						 .newparent = req->newparent,
						 .handle = req->handle,
						 .flags = req->flags,
						 .valid = req->valid,
						 .size = req->size,
						 .offset = req->offset};
	if (first)
		call->question.name = memcpy(call->names, req->name, first);
	if (second)
		call->question.newname = memcpy(call->names + first, req->newname, second);
	if (known_wants(&call->files->lease.known, req))
		call->question.data = memcpy(call->names, req->data, req->size);
}

static unsigned pieces_of(size_t size)
{
	return MAX((unsigned)((size + PROTO_DATA_MAX - 1) / PROTO_DATA_MAX), 1u);
}

static struct file_call *call_new(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn,
				  void *data)
{
	const size_t kept = known_wants(&gf->lease.known, req) ? req->size : 0;
	struct file_call *call =
		calloc(1, sizeof(*call) + name_size(req->name) + name_size(req->newname) + kept);

	if (!call)
		return NULL;
	call->files = gf;
	call->op = req->op;
	call->fn = fn;
	call->data = data;
	call->size = req->size;
	call->offset = req->offset;
	call->token = req->lock.token;
	call->may_wait = req->op == VM_LOCK && req->lock.wait;
	keep_question(call, req);
	if (req->op == VM_READDIR)
		call->size = MIN(req->size, (size_t)PROTO_DATA_MAX);
	call->npieces = req->op == VM_READ || req->op == VM_WRITE ? pieces_of(req->size) : 1;
	call->unanswered = call->npieces;
	return call;
}

/* Where the pieces of a READ are put together. Return: false if out of memory. */
static bool call_reserve(struct file_call *call)
{
	if (call->op == VM_READ && call->npieces > 1 && !call->kept_back && !call->bytes)
		call->bytes = malloc(call->size);
	return call->op != VM_READ || call->npieces == 1 || call->kept_back || call->bytes;
}

/* Is there a slot for a piece? For each file that is held one is kept free: its open must not wait. */
static bool has_slot(const struct guest_files *gf, const struct file_piece *p)
{
	return !p->call || gf->nfree > (p->call->urgent ? 0 : gf->early.nheld);
}

/* Sends what may be in flight. */
static void pump(struct guest_files *gf)
{
	struct file_piece *p;

	while ((p = STAILQ_FIRST(&gf->waiting)) && has_slot(gf, p)) {
		STAILQ_REMOVE_HEAD(&gf->waiting, link);
		gf->held -= p->frame->out.len;
		if (p->call) {
			unsigned i = gf->free[--gf->nfree];

			gf->slot[i].call = p->call;
			gf->slot[i].piece = p->number;
			gf->slot[i].round = (gf->slot[i].round + 1) & 0xffffff;
			p->frame->header.id = gf->slot[i].round << SLOT_BITS | i;
		}
		channel_push(gf->channel, p->frame,
			     p->call && p->call->urgent ? CHANNEL_CONTROL : CHANNEL_BULK);
		free(p);
	}
}

/* Puts @n pieces of a request into the queue, from @first on. Return: their bytes, or -ENOMEM and none is there. */
static ssize_t make_pieces(struct guest_files *gf, const struct vm_file *req,
			   struct file_call *call, unsigned first, unsigned n)
{
	struct file_piece *pieces[PIECES_MAX];
	ssize_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		pieces[i] = piece_new(req, call, first + i);
		if (!pieces[i]) {
			while (i--)
				piece_free(pieces[i]);
			return -ENOMEM;
		}
		bytes += (ssize_t)pieces[i]->frame->out.len;
	}
	for (unsigned i = 0; i < n; i++) {
		if (call && call->urgent)
			STAILQ_INSERT_HEAD(&gf->waiting, pieces[i], link);
		else
			STAILQ_INSERT_TAIL(&gf->waiting, pieces[i], link);
	}
	gf->held += (size_t)bytes;
	return bytes;
}

/* Refuses what the protocol can't carry. Return: 0 or -errno. */
static int check_request(const struct vm_file *req)
{
	const size_t newname_max = req->op == VM_SYMLINK ? PROTO_LINK_MAX : PROTO_NAME_MAX;

	if ((req->op == VM_READ || req->op == VM_WRITE) && req->size > GUEST_FILE_REQUEST_MAX)
		return -EINVAL;
	if (req->name && strlen(req->name) > PROTO_NAME_MAX)
		return -ENAMETOOLONG;
	if (req->newname && strlen(req->newname) > newname_max)
		return -ENAMETOOLONG;
	return 0;
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

static int send_call(struct guest_files *gf, const struct vm_file *req, struct file_call *call)
{
	const unsigned n = call ? call->npieces - call->kept_back : 1;

	if ((call && !call_reserve(call)) || make_pieces(gf, req, call, 0, n) < 0) {
		call_free(call);
		return -ENOMEM;
	}
	if (call)
		call->unanswered = n;
	if (opens(req->op))
		gf->nopen++;
	else if (req->op == VM_RELEASE && gf->nopen > 0)
		gf->nopen--;
	pump(gf);
	return 0;
}

/* A request that has no answer. */
static int send_message(struct guest_files *gf, struct vm_file *req)
{
	if (req->op == VM_FORGET) {
		req->lookups = known_forget(&gf->lease.known, req->node, req->lookups);
		if (!req->lookups)
			return 0;
	}
	if (req->op == VM_RELEASE)
		known_release(&gf->lease.known, req->handle);
	return send_call(gf, req, NULL);
}

/* Reads that the agent does not hear of set the time of the last access, too, as those of a `relatime` file system. */
static void tell_read(struct guest_files *gf, uint64_t node)
{
	uint8_t bytes[8];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	if (!known_touch(&gf->lease.known, node))
		return;
	put_u64(&o, node);
	/* Ahead of a run, which may look. Out of memory, the time stays. */
	(void)channel_send(gf->channel, PROTO_F_TOUCH, 0, bytes, o.len);
}

/* Sends a request that has an answer. */
static int send_request(struct guest_files *gf, struct vm_file *req, vm_file_fn fn, void *data)
{
	struct file_call *call;
	bool exact = false;

	if (gf->held > GUEST_FILE_HELD_MAX && !gives_back(req))
		return -ENOMEM;
	lease_want(&gf->lease);
	if (req->op == VM_READ)
		shorten(&gf->lease.known, req, &exact);
	call = call_new(gf, req, fn, data);
	if (!call)
		return -ENOMEM;
	if (req->op == VM_READ && !exact &&
	    !(req->handle == gf->read_handle && req->offset == gf->read_end))
		call->kept_back = call->npieces - 1;
	return send_call(gf, req, call);
}

/* ---- files that are not open yet ---- */

static void release_early(struct guest_files *gf, struct early *e)
{
	struct vm_file rq = {.op = VM_RELEASE, .handle = e->remote};

	if (e->state == EARLY_OPEN)
		(void)send_message(gf, &rq);
	early_free(&gf->early, e);
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

/* Has the agent open it, ahead of all that is not on its way yet. */
static int early_ask(struct guest_files *gf, struct early *e)
{
	const struct vm_file req = {.op = VM_OPEN, .node = e->node, .flags = O_RDONLY};
	struct file_call *call = call_new(gf, &req, on_early, e);
	int r;

	if (!call)
		return -ENOMEM;
	call->urgent = true;
	early_set(&gf->early, e, EARLY_ASKED);
	r = send_call(gf, &req, call);
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

/* Opens it without the agent, if that is of no use. */
static bool open_early(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct vm_file_reply reply = {.leased = true};
	struct early *e;

	if (req->op != VM_OPEN || req->flags != O_RDONLY ||
	    !known_may_open(&gf->lease.known, req->node) || gf->nfree <= gf->early.nheld ||
	    is_full(gf))
		return false;
	e = early_new(&gf->early, req->node, gf);
	if (!e)
		return false;
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
	int err, r = check_request(&ask);

	if (r < 0)
		return r;
	if (known_answer(k, &ask, &err, &reply)) {
		if (ask.op == VM_READ)
			tell_read(gf, ask.node);
		fn(data, err, err ? NULL : &reply);
		return 0;
	}
	if (!translate(gf, &ask, fn, data, &r))
		return r;
	if (file_wire_answer(ask.op) == FILE_ANSWER_NONE)
		return send_message(gf, &ask);
	assert(fn);
	/* Modes, and names by which the agent may have to find files again; or it may have dropped them. */
	if (early_is_old(&gf->early) || ask.op == VM_SETATTR || ask.op == VM_UNLINK ||
	    ask.op == VM_RENAME || (opens(ask.op) && is_full(gf)))
		guest_file_stir(gf);
	return open_early(gf, &ask, fn, data) ? 0 : send_request(gf, &ask, fn, data);
}

/* ---- answers ---- */

/* Learns from an answer, and passes it on. */
static void call_done(struct file_call *call, int err, struct vm_file_reply *reply)
{
	struct known *k = lease_known(&call->files->lease);

	if (err && opens(call->op) && call->files->nopen > 0)
		call->files->nopen--;
	known_learn(k, &call->question, err, reply);
	if (!err)
		reply->leased = k->leased;
	call->fn(call->data, err, err ? NULL : reply);
}

static int reply_listing(struct file_call *call, struct proto_in *in)
{
	_cleanup_free_ void *memory = NULL;
	struct vm_file_reply reply = {0};
	const int r = file_wire_listing(in, call->size, &reply, &memory);

	if (r == -EPROTO)
		return r;
	call_done(call, r, &reply);
	return 0;
}

/* Of all but reads, writes and directories. */
static int reply_other(struct file_call *call, struct proto_in *in)
{
	struct vm_file_reply reply = {0};
	bool waits = false;
	const int r = file_wire_reply(call->op, in, &reply, &waits);

	if (r == -EPROTO)
		return r;
	/* The lock is not there yet: guest_file_locked() answers later. */
	call->waits = waits && call->may_wait;
	if (!call->waits)
		call_done(call, r, &reply);
	return 0;
}

static size_t piece_size(const struct file_call *call, unsigned number)
{
	return MIN(call->size - (size_t)number * PROTO_DATA_MAX, (size_t)PROTO_DATA_MAX);
}

/* All pieces of a read or write are there: everything up to the first that came out short. */
static void transfer_done(struct file_call *call, const void *bytes)
{
	struct vm_file_reply reply = {.data = call->op == VM_READ ? bytes : NULL};
	int err = 0;

	for (unsigned i = 0; i < call->npieces; i++) {
		if (call->result[i] < 0) {
			err = i == 0 ? call->result[i] : 0;
			break;
		}
		reply.size += (size_t)call->result[i];
		if ((size_t)call->result[i] < piece_size(call, i))
			break;
	}
	if (call->op == VM_READ && reply.size == call->size) {
		call->files->read_handle = call->question.handle;
		call->files->read_end = call->offset + call->size;
	}
	call_done(call, err, &reply);
}

/* The first piece of a READ came back full: sends those that were kept back. Return: false if that cannot be; the
 * read is short then. */
static bool send_rest(struct file_call *call, const uint8_t *bytes)
{
	const unsigned n = call->kept_back;
	const struct vm_file req = {.op = VM_READ,
				    .handle = call->question.handle,
				    .offset = call->offset,
				    .size = call->size};

	call->kept_back = 0;
	if (!call_reserve(call) || make_pieces(call->files, &req, call, 1, n) < 0) {
		call->npieces = 1;
		return false;
	}
	memcpy(call->bytes, bytes, PROTO_DATA_MAX);
	call->unanswered += n;
	return true; /* they go out when the slot of the first is free */
}

/* One piece of a read or write. */
static int reply_transfer(struct file_call *call, unsigned number, struct proto_in *in)
{
	const void *bytes = call->bytes;
	size_t n;

	if (call->op == VM_READ) {
		struct proto_str s = get_rest(in);

		n = s.len;
		if (n > piece_size(call, number))
			return -EPROTO;
		if (call->kept_back && n == PROTO_DATA_MAX) {
			call->result[0] = (int32_t)n;
			if (send_rest(call, (const uint8_t *)s.data))
				return 0;
		}
		if (call->bytes)
			memcpy(call->bytes + (size_t)number * PROTO_DATA_MAX, s.data, n);
		else
			bytes = s.data;
	} else {
		n = get_u32(in);
		if (!get_end(in) || n > piece_size(call, number))
			return -EPROTO;
	}
	call->result[number] = (int32_t)n;
	if (call->unanswered == 0)
		transfer_done(call, bytes);
	return 0;
}

/* A piece failed as a whole. */
static void reply_error(struct file_call *call, unsigned number, int err)
{
	if (file_wire_answer(call->op) != FILE_ANSWER_TRANSFER) {
		call_done(call, err, NULL);
		return;
	}
	call->result[number] = err;
	if (call->unanswered == 0)
		transfer_done(call, call->bytes);
}

static int reply_call(struct file_call *call, unsigned number, struct proto_in *in)
{
	int err = file_wire_errno(get_u32(in));

	if (in->bad)
		return -EPROTO;
	if (err) {
		reply_error(call, number, err);
		return 0;
	}
	switch ((int)file_wire_answer(call->op)) {
	case FILE_ANSWER_TRANSFER: return reply_transfer(call, number, in);
	case FILE_ANSWER_LISTING: return reply_listing(call, in);
	default: return reply_other(call, in);
	}
}

int guest_file_reply(struct guest_files *gf, uint32_t id, struct proto_in *in)
{
	const unsigned i = id & (PROTO_FILES_INFLIGHT - 1);
	struct file_call *call = gf->slot[i].call;
	int r;

	if (!call || gf->slot[i].round != id >> SLOT_BITS)
		return -EPROTO;
	call->unanswered--;
	r = reply_call(call, gf->slot[i].piece, in);
	if (r < 0) {
		/* The connection ends; guest_file_fail() answers. */
		call->unanswered++;
		return r;
	}
	gf->slot[i].call = NULL;
	gf->free[gf->nfree++] = (uint8_t)i;
	if (call->waits)
		TAILQ_INSERT_TAIL(&gf->locks, call, link);
	else if (call->unanswered == 0)
		call_free(call);
	pump(gf);
	return 0;
}

static void lock_done(struct guest_files *gf, struct file_call *call, int err)
{
	static const struct vm_file_reply granted = {.handle = 0};

	TAILQ_REMOVE(&gf->locks, call, link);
	call->fn(call->data, err, err ? NULL : &granted);
	call_free(call);
}

int guest_file_locked(struct guest_files *gf, struct proto_in *in)
{
	uint64_t token = get_u64(in);
	uint32_t err = get_u32(in);
	struct file_call *call;

	TAILQ_FOREACH(call, &gf->locks, link)
		if (call->token == token)
			break;
	if (!get_end(in) || !call)
		return -EPROTO;
	lock_done(gf, call, file_wire_errno(err));
	return 0;
}

/* ---- the end ---- */

/* Counts one piece of a call as answered, and answers the call with the last. */
static void fail_piece(struct file_call *call, int err)
{
	if (--call->unanswered)
		return;
	call->fn(call->data, err, NULL);
	call_free(call);
}

void guest_file_fail(struct guest_files *gf, int err)
{
	struct file_call *lock;
	struct file_piece *p;

	while ((lock = TAILQ_FIRST(&gf->locks)))
		lock_done(gf, lock, err);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++) {
		struct file_call *call = gf->slot[i].call;

		if (!call)
			continue;
		gf->slot[i].call = NULL;
		gf->free[gf->nfree++] = (uint8_t)i;
		fail_piece(call, err);
	}
	while ((p = STAILQ_FIRST(&gf->waiting))) {
		STAILQ_REMOVE_HEAD(&gf->waiting, link);
		if (p->call)
			fail_piece(p->call, err);
		piece_free(p);
	}
	gf->held = 0;
	known_fini(&gf->lease.known);
	early_fini(&gf->early);
}
