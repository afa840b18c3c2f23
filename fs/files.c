/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: the sandbox's working directory, through the agent. See files.h. */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "fs.h"
#include "reply.h"
#include "session.h"

#define GIVE_UP_MS 1000u /* after an interrupt */
#define BLOCK_SIZE \
	(1u << 20) /* preferred: lets copying tools send large pieces, which are pipelined */

/* Offsets behind "." and "..", which are put before the agent's entries. No file system has an entry
 * of its own there: these two come first everywhere. */
#define OFFSET_DOT    1u
#define OFFSET_DOTDOT 2u

struct file_op {
	TAILQ_ENTRY(file_op) link;
	struct file_ops *list;
	struct session *s; /* reference */
	struct req *req;   /* NULL: the caller has given up */
	struct vm_file rq;
	char *name, *newname;
	uint32_t epoch;
	uint64_t ino;
	uint32_t index;	    /* of the node or directory, 0: the root */
	uint32_t newparent; /* of the other directory of a LINK */
	int open_flags;
	uint64_t give_up; /* uv_now(); 0: not interrupted */
};

void files_init(struct files *f, struct session *s)
{
	f->s = s;
	filenodes_init(&f->nodes);
	TAILQ_INIT(&f->pending);
	TAILQ_INIT(&f->sent);
}

void files_fini(struct files *f)
{
	assert(TAILQ_EMPTY(&f->pending) && TAILQ_EMPTY(&f->sent));
	filenodes_fini(&f->nodes);
}

static void op_list(struct file_op *op, struct file_ops *list)
{
	if (op->list)
		TAILQ_REMOVE(op->list, op, link);
	op->list = list;
	if (list)
		TAILQ_INSERT_TAIL(list, op, link);
}

static void op_free(struct file_op *op)
{
	struct session *s = op->s;

	op_list(op, NULL);
	free(op->name);
	free(op->newname);
	free(op);
	session_unref(s);
}

/* The request is about to be answered, by the caller. */
static struct req *op_req(struct file_op *op)
{
	struct req *req = op->req;

	op->req = NULL;
	if (req)
		req_on_interrupt(req, NULL, NULL);
	return req;
}

static void op_fail(struct file_op *op, int err)
{
	struct req *req = op_req(op);

	if (req)
		reply_err(req, err);
	op_free(op);
}

/* ---- answers ---- */

static uint64_t shown_ino(const struct session *s, uint64_t guest_ino)
{
	return node_ino(NODE_FILE, s->slot, 0, 0) | (guest_ino & ((1ull << 44) - 1));
}

static void attr_stat(const struct session *s, const struct vm_attr *a, struct stat *st)
{
	*st = (struct stat){
		.st_ino = shown_ino(s, a->ino),
		.st_mode = a->mode,
		.st_nlink = a->nlink,
		.st_uid = s->uid,
		.st_gid = s->gid,
		.st_size = (off_t)MIN(a->size, (uint64_t)INT64_MAX),
		.st_blocks = (blkcnt_t)MIN(a->blocks, (uint64_t)INT64_MAX),
		.st_blksize = BLOCK_SIZE,
		.st_atim = a->atime,
		.st_mtim = a->mtime,
		.st_ctim = a->ctime,
	};
}

void files_root_stat(const struct session *s, struct stat *st)
{
	*st = (struct stat){
		.st_ino = node_of_session(s, NODE_FILES, 0),
		.st_mode = S_IFDIR | 0700,
		.st_nlink = 2,
		.st_uid = s->uid,
		.st_gid = s->gid,
		.st_atim = s->files_mtime,
		.st_mtim = s->files_mtime,
		.st_ctim = s->files_mtime,
	};
}

static void tell_forget(struct session *s, uint64_t remote, uint64_t lookups)
{
	const struct vm_file rq = {.op = VM_FORGET, .node = remote, .lookups = lookups};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

static void tell_release(struct session *s, uint64_t handle)
{
	const struct vm_file rq = {.op = VM_RELEASE, .handle = handle};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

static void on_node_gone(void *data, const struct filenode *fn)
{
	struct session *s = data;

	if (fn->epoch == s->epoch)
		tell_forget(s, fn->remote, fn->told);
}

void files_forget(struct session *s, uint32_t index, uint64_t lookups)
{
	filenode_forget(&s->files.nodes, index, lookups, on_node_gone, s);
}

/* The caller is gone: what the agent gave it must be given back. */
static void undo(struct file_op *op, const struct vm_file_reply *reply)
{
	switch ((int)op->rq.op) {
	case VM_CREATE: tell_release(op->s, reply->handle); /* fall through */
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK: tell_forget(op->s, reply->node, 1); break;
	case VM_OPEN:
	case VM_OPENDIR: tell_release(op->s, reply->handle); break;
	default: break;
	}
}

/* Makes the handle that an OPEN or CREATE ends with. Return: 0 or -errno. */
static int make_handle(struct file_op *op, uint64_t ino, const struct vm_file_reply *reply,
		       struct reply_open *ret_o)
{
	const struct node n = {.kind = NODE_FILE, .ino = ino, .s = op->s};
	struct handle *h = handle_new(op->s->fs, &n, NULL, op->open_flags);

	if (!h) {
		tell_release(op->s, reply->handle);
		return -ENOMEM;
	}
	h->remote = reply->handle;
	h->epoch = op->epoch;
	*ret_o = (struct reply_open){.fh = handle_id(h),
				     .direct_io = true,
				     .noflush = (op->open_flags & O_ACCMODE) == O_RDONLY};
	return 0;
}

static void answer_entry(struct file_op *op, const struct vm_file_reply *reply)
{
	uint32_t parent = op->rq.op == VM_LINK ? op->newparent : op->index;
	struct filenode *fn = filenode_look(&op->s->files.nodes, op->epoch, reply->node, parent,
					    on_node_gone, op->s);
	struct reply_entry e = {0};
	struct reply_open o;
	int err;

	if (!fn) {
		undo(op, reply);
		reply_err(op_req(op), -ENOMEM);
		return;
	}
	attr_stat(op->s, &reply->attr, &e.st);
	e.ino = node_of_session(op->s, NODE_FILE, fn->index);
	if (op->rq.op != VM_CREATE) {
		reply_entry(op_req(op), &e);
		return;
	}
	err = make_handle(op, e.ino, reply, &o);
	if (err < 0) {
		files_forget(op->s, fn->index, 1);
		reply_err(op_req(op), err);
	} else {
		reply_create(op_req(op), &e, &o);
	}
}

static void answer_attr(struct file_op *op, const struct vm_file_reply *reply)
{
	struct stat st;

	attr_stat(op->s, &reply->attr, &st);
	if (op->index == 0) {
		st.st_ino = op->ino;
		st.st_mode = S_IFDIR | 0700; /* the session's, whatever the guest makes of it */
	}
	reply_attr(op_req(op), &st, false);
}

static void answer_open(struct file_op *op, const struct vm_file_reply *reply)
{
	struct reply_open o;
	int e = make_handle(op, op->ino, reply, &o);

	if (e < 0)
		reply_err(op_req(op), e);
	else
		reply_open(op_req(op), &o);
}

static void answer_readlink(struct file_op *op, const struct vm_file_reply *reply)
{
	char target[PATH_MAX];
	int e = filenode_link(reply->data, reply->size,
			      filenode_depth(&op->s->files.nodes, op->index), target,
			      sizeof(target));

	if (e < 0) {
		session_problemf(op->s, "link-outside", "read it inside the sandbox",
				 "a symbolic link of the sandbox leads out of files/");
		reply_err(op_req(op), e);
	} else {
		reply_readlink(op_req(op), target);
	}
}

/* "." and "..", which the agent leaves out. Return: bytes put at the head of fs->io. */
static size_t put_dots(struct file_op *op, struct req *req, size_t cap, uint64_t offset)
{
	char *buf = op->s->fs->io;
	size_t len = 0;

	if (offset == 0)
		(void)reply_dirent(req, buf, cap, &len, ".", op->ino, S_IFDIR, OFFSET_DOT);
	if (offset == 0 || offset == OFFSET_DOT)
		(void)reply_dirent(req, buf, cap, &len, "..", op->ino, S_IFDIR, OFFSET_DOTDOT);
	return len;
}

static void answer_readdir(struct file_op *op, const struct vm_file_reply *reply, uint64_t offset)
{
	struct req *req = op_req(op);
	struct fs *fs = op->s->fs;
	size_t cap = MIN(op->rq.size, sizeof(fs->io)), len = put_dots(op, req, cap, offset);

	for (size_t i = 0; i < (reply ? reply->nentries : 0); i++) {
		const struct vm_dirent *d = &reply->entries[i];

		if (!reply_dirent(req, fs->io, cap, &len, d->name, shown_ino(op->s, d->ino),
				  d->type, d->next))
			break;
	}
	reply_buf(req, fs->io, len);
}

static void answer_statfs(struct file_op *op, const struct vm_statfs *a)
{
	const struct statvfs st = {
		.f_bsize = a->bsize,
		.f_frsize = a->bsize,
		.f_blocks = a->blocks,
		.f_bfree = a->bfree,
		.f_bavail = a->bfree,
		.f_files = a->files,
		.f_ffree = a->ffree,
		.f_favail = a->ffree,
		.f_namemax = NAME_MAX,
	};

	reply_statfs(op_req(op), &st);
}

static void answer(struct file_op *op, const struct vm_file_reply *reply)
{
	switch (op->rq.op) {
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_CREATE: answer_entry(op, reply); break;
	case VM_GETATTR:
	case VM_SETATTR: answer_attr(op, reply); break;
	case VM_READLINK: answer_readlink(op, reply); break;
	case VM_OPEN:
	case VM_OPENDIR: answer_open(op, reply); break;
	case VM_READ: reply_buf(op_req(op), reply->data, reply->size); break;
	case VM_WRITE: reply_write(op_req(op), reply->size); break;
	case VM_SEEK: reply_lseek(op_req(op), reply->offset); break;
	case VM_READDIR: answer_readdir(op, reply, op->rq.lookups); break;
	case VM_STATFS: answer_statfs(op, &reply->statfs); break;
	case VM_UNLINK:
	case VM_RMDIR:
	case VM_RENAME:
	case VM_FSYNC:
	case VM_FALLOCATE: reply_err(op_req(op), 0); break;
	case VM_FORGET:
	case VM_RELEASE:
	case VM_NFILEOPS: assert(0);
	}
}

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	struct file_op *op = data;

	if (err == 0 && op->epoch != op->s->epoch)
		err = -ESTALE;
	if (err < 0) {
		op_fail(op, err);
		return;
	}
	if (op->req)
		answer(op, reply);
	else
		undo(op, reply);
	op_free(op);
}

/* ---- requests ---- */

static void on_interrupt(struct req *req, void *data)
{
	struct file_op *op = data;
	struct files *f = &op->s->files;

	assert(op->req == req);
	if (op->list == &f->pending) {
		op->req = NULL;
		reply_err(req, -EINTR);
		op_free(op);
		return;
	}
	if (op->give_up)
		return;
	op->give_up = uv_now(op->s->fs->loop) + GIVE_UP_MS;
	fs_alarm(op->s->fs, op->give_up);
}

uint64_t files_tick(struct files *f, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct file_op *op;

	TAILQ_FOREACH(op, &f->sent, link)
	{
		if (!op->give_up || !op->req)
			continue;
		if (now >= op->give_up)
			reply_err(op_req(op), -EINTR);
		else
			next = MIN(next, op->give_up);
	}
	return next;
}

static void op_send(struct file_op *op)
{
	struct session *s = op->s;
	int e;

	op->epoch = s->epoch;
	op_list(op, &s->files.sent);
	e = sandbox_file(s->sandbox, &op->rq, on_answer, op);
	if (e < 0)
		op_fail(op, e);
}

void files_ready(struct files *f)
{
	struct file_op *op;

	while ((op = TAILQ_FIRST(&f->pending)))
		op_send(op);
}

void files_gone(struct files *f)
{
	struct file_op *op;

	/* Those that were sent are answered by vm/, with ESTALE. */
	while ((op = TAILQ_FIRST(&f->pending)))
		op_fail(op, -ESTALE);
}

static bool starts_sandbox(enum vm_file_op op)
{
	return op == VM_CREATE || op == VM_MKDIR || op == VM_SYMLINK;
}

/* What an empty directory says. @op is about the root, the only node there is without a sandbox. */
static void answer_empty(struct file_op *op)
{
	static const struct vm_statfs nothing = {.bsize = 4096};
	struct vm_file_reply none = {.handle = 0};
	struct stat st;

	switch ((int)op->rq.op) {
	case VM_GETATTR:
	case VM_SETATTR:
		files_root_stat(op->s, &st);
		reply_attr(op_req(op), &st, false);
		break;
	case VM_OPENDIR: answer_open(op, &none); break;
	case VM_READDIR: answer_readdir(op, NULL, op->rq.lookups); break;
	case VM_STATFS: answer_statfs(op, &nothing); break;
	case VM_FSYNC: reply_err(op_req(op), 0); break;
	default: reply_err(op_req(op), -ENOENT);
	}
	op_free(op);
}

/* Fills in the agent's numbers for what the kernel named. Return: 0 or -ESTALE. */
static int resolve(const struct session *s, const struct node *n, uint64_t *ret_remote)
{
	const struct filenode *fn;

	if (n->kind == NODE_FILES) {
		*ret_remote = VM_FILES_ROOT;
		return 0;
	}
	fn = filenode_get(&s->files.nodes, n->sub);
	if (!fn || fn->epoch != s->epoch || !s->ready)
		return -ESTALE;
	*ret_remote = fn->remote;
	return 0;
}

static struct file_op *op_new(const struct node *n, struct req *req, const struct vm_file *rq,
			      int open_flags)
{
	struct file_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->s = session_ref(n->s);
	op->rq = *rq;
	op->name = rq->name ? strdup(rq->name) : NULL;
	op->newname = rq->newname ? strdup(rq->newname) : NULL;
	op->rq.name = op->name;
	op->rq.newname = op->newname;
	op->ino = n->ino;
	op->epoch = n->s->epoch;
	op->index = n->kind == NODE_FILE ? n->sub : 0;
	op->open_flags = open_flags;
	if ((rq->name && !op->name) || (rq->newname && !op->newname)) {
		op_free(op);
		return NULL;
	}
	op->req = req;
	return op;
}

/* A directory's offsets: the agent has only its own entries. The kernel's offset is kept in `lookups`,
 * which READDIR has no other use for. */
static void translate_offset(struct vm_file *rq)
{
	rq->lookups = rq->offset;
	if (rq->offset <= OFFSET_DOTDOT)
		rq->offset = 0;
}

static void op_route(struct file_op *op, struct session *s)
{
	int e;

	/* Handle 0: a directory that was opened while there was no sandbox. */
	if (op->rq.op == VM_READDIR && !op->rq.handle) {
		answer_empty(op);
		return;
	}
	if (s->ready) {
		op_send(op);
		return;
	}
	if (s->dead || s->state == SESSION_CLOSED) {
		op_fail(op, -ESTALE);
		return;
	}
	if (!starts_sandbox(op->rq.op) && TAILQ_EMPTY(&s->files.pending)) {
		answer_empty(op);
		return;
	}
	e = session_start(s);
	if (e < 0) {
		op_fail(op, e == -ESTALE ? e : -EIO);
		return;
	}
	if (op->give_up)
		op_fail(op, -EINTR);
	else
		op_list(op, &s->files.pending);
}

void files_request(const struct node *n, struct handle *h, struct req *req, struct vm_file *rq,
		   const struct node *newparent, int open_flags)
{
	struct session *s = n->s;
	struct file_op *op;
	int e = resolve(s, n, &rq->node);

	if (e == 0 && newparent)
		e = resolve(s, newparent, &rq->newparent);
	if (e == 0 && h && h->epoch != s->epoch)
		e = -ESTALE;
	if (e < 0) {
		reply_err(req, e);
		return;
	}
	if (h)
		rq->handle = h->remote;
	if (rq->op == VM_READDIR)
		translate_offset(rq);
	op = op_new(n, req, rq, open_flags);
	if (!op) {
		reply_err(req, -ENOMEM);
		return;
	}
	if (newparent)
		op->newparent = newparent->kind == NODE_FILE ? newparent->sub : 0;
	session_touch(s);
	req_on_interrupt(req, on_interrupt,
			 op); /* may be called at once: not pending yet, it stays */
	op_route(op, s);
}

void files_release(struct handle *h)
{
	if (h->epoch == h->s->epoch && h->s->ready && h->remote)
		tell_release(h->s, h->remote);
}
