/* SPDX-License-Identifier: Apache-2.0 */
/* File requests to an agent. */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
 * A lock may have to be waited for, for as long as somebody likes. Its first answer says so; the call then
 * gives its slot back, and ends with a LOCKED that has its token.
 *
 * What an answer holds is the guest's word. It is checked against the question (never more bytes
 * than asked for), numbers are brought into the range that a file system may show, and names that
 * cannot be are left out of a directory.
 */

#define SLOT_BITS  8
#define PIECES_MAX (GUEST_FILE_REQUEST_MAX / PROTO_DATA_MAX)

static_assert(PROTO_FILES_INFLIGHT == 1u << SLOT_BITS, "a slot is the low byte of an id");
static_assert(GUEST_FILE_REQUEST_MAX % PROTO_DATA_MAX == 0, "whole pieces");

struct file_call {
	TAILQ_ENTRY(file_call) link; /* of those that wait for a lock */
	enum vm_file_op op;
	vm_file_fn fn;
	void *data;
	size_t size; /* bytes to be read or written */
	unsigned npieces, unanswered;
	uint64_t token; /* LOCK */
	bool may_wait, waits;
	int32_t result[PIECES_MAX]; /* bytes, or -errno */
	uint8_t *bytes;		    /* READ of several pieces: where they are reassembled */
};

struct file_piece {
	STAILQ_ENTRY(file_piece) link;
	struct file_call *call; /* NULL: there is no answer */
	unsigned number;
	struct channel_frame *frame;
};

/* What a request consists of, in the order of the wire. */
enum part {
	NOTHING,
	NODE,
	HANDLE,
	NEWPARENT,
	FLAGS,
	MODE,
	OFFSET,
	LENGTH,
	SIZE,
	LOOKUPS,
	NAME,
	NEWNAME,
	DATA,
	OWNER,
	TOKEN,
	UNDO,
	ATTRIBUTES,
	LOCK,
};

/* What there is in an answer, behind the errno. */
enum answer {
	A_NONE, /* there is no answer */
	A_NOTHING,
	A_ENTRY,
	A_CREATED, /* an entry and a handle */
	A_ATTRIBUTES,
	A_TARGET,
	A_HANDLE,
	A_OFFSET,
	A_TRANSFER, /* what was read or written */
	A_LISTING,
	A_STATFS,
	A_LOCK,
	A_WAITS,
};

static const struct {
	enum proto_type type;
	enum answer answer;
	enum part parts[5];
} ops[] = {
	[VM_LOOKUP] = {PROTO_F_LOOKUP, A_ENTRY, {NODE, NAME}},
	[VM_FORGET] = {PROTO_F_FORGET, A_NONE, {NODE, LOOKUPS}},
	[VM_GETATTR] = {PROTO_F_GETATTR, A_ATTRIBUTES, {NODE, HANDLE}},
	[VM_SETATTR] = {PROTO_F_SETATTR, A_ATTRIBUTES, {ATTRIBUTES}},
	[VM_READLINK] = {PROTO_F_READLINK, A_TARGET, {NODE}},
	[VM_MKDIR] = {PROTO_F_MKDIR, A_ENTRY, {NODE, MODE, NAME}},
	[VM_SYMLINK] = {PROTO_F_SYMLINK, A_ENTRY, {NODE, NAME, NEWNAME}},
	[VM_LINK] = {PROTO_F_LINK, A_ENTRY, {NODE, NEWPARENT, NEWNAME}},
	[VM_UNLINK] = {PROTO_F_UNLINK, A_NOTHING, {NODE, NAME}},
	[VM_RMDIR] = {PROTO_F_RMDIR, A_NOTHING, {NODE, NAME}},
	[VM_RENAME] = {PROTO_F_RENAME, A_NOTHING, {NODE, NEWPARENT, FLAGS, NAME, NEWNAME}},
	[VM_OPEN] = {PROTO_F_OPEN, A_HANDLE, {NODE, FLAGS}},
	[VM_CREATE] = {PROTO_F_CREATE, A_CREATED, {NODE, FLAGS, MODE, NAME}},
	[VM_READ] = {PROTO_F_READ, A_TRANSFER, {HANDLE, OFFSET, SIZE}},
	[VM_WRITE] = {PROTO_F_WRITE, A_TRANSFER, {HANDLE, OFFSET, DATA}},
	[VM_RELEASE] = {PROTO_F_RELEASE, A_NONE, {HANDLE}},
	[VM_FSYNC] = {PROTO_F_FSYNC, A_NOTHING, {HANDLE}},
	[VM_FALLOCATE] = {PROTO_F_FALLOCATE, A_NOTHING, {HANDLE, FLAGS, OFFSET, LENGTH}},
	[VM_SEEK] = {PROTO_F_SEEK, A_OFFSET, {HANDLE, OFFSET, FLAGS}},
	[VM_OPENDIR] = {PROTO_F_OPENDIR, A_HANDLE, {NODE}},
	[VM_READDIR] = {PROTO_F_READDIR, A_LISTING, {HANDLE, OFFSET, SIZE}},
	[VM_STATFS] = {PROTO_F_STATFS, A_STATFS, {NOTHING}},
	[VM_LOCK] = {PROTO_F_LOCK, A_WAITS, {LOCK}},
	[VM_TEST_LOCK] = {PROTO_F_TEST_LOCK, A_LOCK, {LOCK}},
	[VM_DROP_LOCKS] = {PROTO_F_DROP_LOCKS, A_NOTHING, {HANDLE, OWNER}},
	[VM_CANCEL_LOCK] = {PROTO_F_CANCEL_LOCK, A_NONE, {TOKEN, UNDO}},
};
static_assert(ARRAY_SIZE(ops) == VM_NFILEOPS, "a row for each operation");

void guest_file_init(struct guest_files *gf, struct channel *channel)
{
	gf->channel = channel;
	STAILQ_INIT(&gf->waiting);
	TAILQ_INIT(&gf->locks);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++)
		gf->free[i] = (uint8_t)(PROTO_FILES_INFLIGHT - 1 - i);
	gf->nfree = PROTO_FILES_INFLIGHT;
}

/* ---- questions ---- */

static void pack_setattr(struct proto_out *o, const struct vm_file *req)
{
	const struct proto_setattr s = {
		.node = req->node,
		.handle = req->handle,
		.valid = req->valid,
		.mode = req->mode,
		.size = req->length,
		.atime = req->atime.tv_sec,
		.mtime = req->mtime.tv_sec,
		.atime_ns = (uint32_t)req->atime.tv_nsec,
		.mtime_ns = (uint32_t)req->mtime.tv_nsec,
	};

	proto_setattr_pack(o, &s);
}

static void pack_lock(struct proto_out *o, const struct vm_file *req)
{
	const struct vm_lock *v = &req->lock;
	const struct proto_lock l = {
		.handle = req->handle,
		.owner = v->owner,
		.token = v->token,
		.start = v->start,
		.end = v->end,
		.flags = (v->wait ? PROTO_LOCK_WAIT : 0) | (v->whole ? PROTO_LOCK_WHOLE : 0),
		.type = (uint32_t)v->type,
		.pid = v->pid,
	};

	proto_lock_pack(o, &l);
}

/* @skip: of a read or write, so many bytes are not of this piece; @size: so many are. */
static void pack_part(struct proto_out *o, const struct vm_file *req, enum part part, size_t skip,
		      size_t size)
{
	switch (part) {
	case NODE: put_u64(o, req->node); break;
	case HANDLE: put_u64(o, req->handle); break;
	case NEWPARENT: put_u64(o, req->newparent); break;
	case FLAGS: put_u32(o, req->flags); break;
	case MODE: put_u32(o, req->mode); break;
	case OFFSET: put_u64(o, req->offset + skip); break;
	case LENGTH: put_u64(o, req->length); break;
	case SIZE: put_u32(o, (uint32_t)size); break;
	case LOOKUPS: put_u64(o, req->lookups); break;
	case NAME: put_str(o, proto_cstr(req->name)); break;
	case NEWNAME: put_str(o, proto_cstr(req->newname)); break;
	case DATA: put_bytes(o, (const uint8_t *)req->data + skip, size); break;
	case OWNER: put_u64(o, req->lock.owner); break;
	case TOKEN: put_u64(o, req->lock.token); break;
	case UNDO: put_u32(o, req->lock.undo); break;
	case ATTRIBUTES: pack_setattr(o, req); break;
	case LOCK: pack_lock(o, req); break;
	case NOTHING: break;
	}
}

static struct file_piece *piece_new(const struct vm_file *req, struct file_call *call,
				    unsigned number)
{
	const size_t skip = (size_t)number * PROTO_DATA_MAX;
	const size_t size = MIN(req->size - skip, (size_t)PROTO_DATA_MAX);
	size_t room = 128 + (req->op == VM_WRITE ? size : 0);
	struct file_piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	room += (req->name ? strlen(req->name) : 0) + (req->newname ? strlen(req->newname) : 0);
	p->frame = channel_frame_new(ops[req->op].type, 0, room);
	if (!p->frame) {
		free(p);
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ops[0].parts); i++)
		pack_part(&p->frame->out, req, ops[req->op].parts[i], skip, size);
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

static struct file_call *call_new(const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct file_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->op = req->op;
	call->fn = fn;
	call->data = data;
	call->size = req->size;
	call->token = req->lock.token;
	call->may_wait = req->op == VM_LOCK && req->lock.wait;
	if (req->op == VM_READDIR)
		call->size = MIN(req->size, (size_t)PROTO_DATA_MAX);
	if (req->op == VM_READ || req->op == VM_WRITE)
		call->npieces = (unsigned)((req->size + PROTO_DATA_MAX - 1) / PROTO_DATA_MAX);
	call->npieces = MAX(call->npieces, 1u);
	call->unanswered = call->npieces;
	if (req->op == VM_READ && call->npieces > 1) {
		call->bytes = malloc(req->size);
		if (!call->bytes) {
			free(call);
			return NULL;
		}
	}
	return call;
}

/* Sends what may be in flight. */
static void pump(struct guest_files *gf)
{
	struct file_piece *p;

	while ((p = STAILQ_FIRST(&gf->waiting)) && (gf->nfree || !p->call)) {
		STAILQ_REMOVE_HEAD(&gf->waiting, link);
		gf->held -= p->frame->out.len;
		if (p->call) {
			unsigned i = gf->free[--gf->nfree];

			gf->slot[i].call = p->call;
			gf->slot[i].piece = p->number;
			gf->slot[i].round = (gf->slot[i].round + 1) & 0xffffff;
			p->frame->header.id = gf->slot[i].round << SLOT_BITS | i;
		}
		channel_push(gf->channel, p->frame, CHANNEL_BULK);
		free(p);
	}
}

/* Puts @n pieces of a request into the queue. Return: their bytes, or -ENOMEM and none is there. */
static ssize_t make_pieces(struct guest_files *gf, const struct vm_file *req,
			   struct file_call *call, unsigned n)
{
	struct file_piece *pieces[PIECES_MAX];
	ssize_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		pieces[i] = piece_new(req, call, i);
		if (!pieces[i]) {
			while (i--)
				piece_free(pieces[i]);
			return -ENOMEM;
		}
		bytes += (ssize_t)pieces[i]->frame->out.len;
	}
	for (unsigned i = 0; i < n; i++)
		STAILQ_INSERT_TAIL(&gf->waiting, pieces[i], link);
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

int guest_file_request(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct file_call *call = NULL;
	unsigned npieces = 1;
	ssize_t bytes;
	int r = check_request(req);

	if (r < 0)
		return r;
	if (gf->held > GUEST_FILE_HELD_MAX && !gives_back(req))
		return -ENOMEM;
	if (ops[req->op].answer != A_NONE) {
		assert(fn);
		call = call_new(req, fn, data);
		if (!call)
			return -ENOMEM;
		npieces = call->npieces;
	}
	bytes = make_pieces(gf, req, call, npieces);
	if (bytes < 0) {
		call_free(call);
		return -ENOMEM;
	}
	gf->held += (size_t)bytes;
	pump(gf);
	return 0;
}

/* ---- what an answer holds ---- */

/* An error number of the agent's, as one that a file system may return. */
static int known_errno(uint32_t err)
{
	return err < 134 ? -(int)err : -EIO;
}

static struct timespec reply_time(int64_t s, uint32_t ns)
{
	return (struct timespec){.tv_sec = s, .tv_nsec = ns < 1000000000 ? (long)ns : 0};
}

static bool known_type(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK: return true;
	default: return false;
	}
}

/* Return: 0, or -EIO for attributes that no file can have. */
static int reply_attr(struct proto_in *in, struct vm_attr *ret)
{
	struct proto_attr a;

	proto_attr_get(in, &a);
	ret->ino = a.ino;
	ret->mode = a.mode & (S_IFMT | 0777 | S_ISVTX);
	ret->nlink = a.nlink;
	ret->size = MIN(a.size, (uint64_t)INT64_MAX);
	ret->blocks = MIN(a.blocks, (uint64_t)INT64_MAX / 512);
	ret->atime = reply_time(a.atime, a.atime_ns);
	ret->mtime = reply_time(a.mtime, a.mtime_ns);
	ret->ctime = reply_time(a.ctime, a.ctime_ns);
	return in->bad || known_type(a.mode) ? 0 : -EIO;
}

static int reply_entry(struct proto_in *in, struct vm_file_reply *ret)
{
	ret->node = get_u64(in);
	if (reply_attr(in, &ret->attr) < 0 || (!in->bad && ret->node == 0))
		return -EIO;
	return 0;
}

static void reply_statfs(struct proto_in *in, struct vm_statfs *ret)
{
	ret->bsize = get_u64(in);
	ret->blocks = get_u64(in);
	ret->bfree = get_u64(in);
	ret->files = get_u64(in);
	ret->ffree = get_u64(in);
	if (ret->bsize == 0 || ret->bsize > 1u << 20)
		ret->bsize = 4096;
	ret->bfree = MIN(ret->bfree, ret->blocks);
	ret->ffree = MIN(ret->ffree, ret->files);
}

static int reply_lock(struct proto_in *in, struct vm_lock *ret)
{
	uint32_t type = get_u32(in);

	ret->type = (enum proto_lock_type)type;
	ret->start = get_u64(in);
	ret->end = get_u64(in);
	ret->pid = get_u32(in);
	if (in->bad)
		return 0; /* which the caller sees */
	return type > PROTO_LOCK_EXCLUSIVE || ret->end > INT64_MAX || ret->start > ret->end ? -EIO
											    : 0;
}

/* Entries with impossible names are left out; the others get terminated copies. Return: as reply_other(). */
static int reply_listing(struct file_call *call, struct proto_in *in)
{
	const size_t len = (size_t)(in->end - in->p);
	struct vm_file_reply reply = {0};
	struct vm_dirent *entries;
	_cleanup_free_ void *memory = NULL;
	char *names;

	if (len > call->size)
		return -EPROTO;
	/* The smallest entry has 24 bytes and a name; the names with their terminators fit in len. */
	memory = malloc((len / 25 + 1) * sizeof(*entries) + len + 1);
	if (!memory) {
		call->fn(call->data, -ENOMEM, NULL);
		return 0;
	}
	entries = memory;
	names = (char *)(entries + len / 25 + 1);
	while (!in->bad && in->p < in->end) {
		struct vm_dirent *e = &entries[reply.nentries];
		struct proto_dirent d;

		proto_dirent_get(in, &d);
		if (in->bad)
			return -EPROTO;
		if (!proto_name_ok(d.name) || !known_type(d.type))
			continue;
		*e = (struct vm_dirent){d.ino, d.next, d.type & S_IFMT, names};
		memcpy(names, d.name.data, d.name.len);
		names += d.name.len;
		*names++ = '\0';
		reply.nentries++;
	}
	reply.entries = entries;
	call->fn(call->data, 0, &reply);
	return 0;
}

/* Of all but reads, writes and directories. Return: 0, or -EPROTO if it violates the protocol; the call is not
 * answered then. */
static int reply_other(struct file_call *call, struct proto_in *in)
{
	struct vm_file_reply reply = {0};
	struct proto_str s;
	int r = 0;

	switch (ops[call->op].answer) {
	case A_ENTRY: r = reply_entry(in, &reply); break;
	case A_CREATED:
		r = reply_entry(in, &reply);
		reply.handle = get_u64(in);
		break;
	case A_ATTRIBUTES: r = reply_attr(in, &reply.attr); break;
	case A_TARGET:
		s = get_str(in, PROTO_LINK_MAX);
		if (s.len == 0 || memchr(s.data, '\0', s.len))
			r = -EIO;
		reply.data = s.data;
		reply.size = s.len;
		break;
	case A_HANDLE: reply.handle = get_u64(in); break;
	case A_OFFSET:
		reply.offset = get_u64(in);
		if (reply.offset > INT64_MAX)
			r = -EIO;
		break;
	case A_STATFS: reply_statfs(in, &reply.statfs); break;
	case A_LOCK: r = reply_lock(in, &reply.lock); break;
	case A_WAITS:
		/* The lock is not there yet: guest_file_locked() answers later. */
		call->waits = get_u32(in) && call->may_wait;
		if (call->waits && get_end(in))
			return 0;
		break;
	case A_NONE:
	case A_NOTHING:
	case A_TRANSFER:
	case A_LISTING: break;
	}
	if (!get_end(in))
		return -EPROTO;
	call->fn(call->data, r, r < 0 ? NULL : &reply);
	return 0;
}

/* ---- answers ---- */

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
	call->fn(call->data, err, err ? NULL : &reply);
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
	if (ops[call->op].answer != A_TRANSFER) {
		call->fn(call->data, err, NULL);
		return;
	}
	call->result[number] = err;
	if (call->unanswered == 0)
		transfer_done(call, call->bytes);
}

static int reply_call(struct file_call *call, unsigned number, struct proto_in *in)
{
	int err = known_errno(get_u32(in));

	if (in->bad)
		return -EPROTO;
	if (err) {
		reply_error(call, number, err);
		return 0;
	}
	if (ops[call->op].answer == A_TRANSFER)
		return reply_transfer(call, number, in);
	return ops[call->op].answer == A_LISTING ? reply_listing(call, in) : reply_other(call, in);
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
	lock_done(gf, call, known_errno(err));
	return 0;
}

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
}
