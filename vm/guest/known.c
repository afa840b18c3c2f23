/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are answered from what is known of a sandbox's files, and answers that tell of it. See known.h. */
#include "known_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "vm/base/util.h"

/* ---- questions ---- */

static bool answer_lookup(struct known *k, const struct vm_file *req, int *ret_err,
			  struct vm_file_reply *ret_reply)
{
	struct known_node *node;
	uint64_t id;

	switch (known_name_look(k, req->node, req->name, &id)) {
	case KNOWN_NAME_UNKNOWN: return false;
	case KNOWN_NAME_ABSENT: *ret_err = -ENOENT; return true;
	case KNOWN_NAME_THERE: break;
	}
	node = known_node_find(k, id);
	if (!node || !node->has_attr || node->forgotten)
		return false;
	if (!known_node_owe(k, node))
		return false; /* the agent is asked, and counts it */
	ret_reply->node = id;
	ret_reply->attr = node->attr;
	return true;
}

static bool answer_read(const struct known *k, const struct vm_file *req,
			struct vm_file_reply *ret_reply)
{
	const struct known_content *c = known_content_of(k, req->node);

	if (!c)
		return known_rest(k, req->node, req->offset) == 0;
	if (req->offset >= c->size)
		return true;
	ret_reply->data = c->bytes + req->offset;
	ret_reply->size = MIN(req->size, c->size - (size_t)req->offset);
	return true;
}

bool known_answer(struct known *k, const struct vm_file *req, int *ret_err,
		  struct vm_file_reply *ret_reply)
{
	const struct known_node *node;

	*ret_err = 0;
	*ret_reply = (struct vm_file_reply){.data = "", .leased = k->leased};
	if (!k->leased)
		return false;
	switch ((int)req->op) {
	case VM_LOOKUP: return answer_lookup(k, req, ret_err, ret_reply);
	case VM_READ: return answer_read(k, req, ret_reply);
	case VM_GETATTR:
		node = known_node_find(k, req->node);
		if (!node || !node->has_attr)
			return false;
		ret_reply->attr = node->attr;
		return true;
	default: return false;
	}
}

bool known_was_read(struct known *k, uint64_t id)
{
	struct known_node *node = known_node_find(k, id);

	if (!node || node->told_read || (node->has_attr && !vm_attr_read_counts(&node->attr)))
		return false;
	node->told_read = true;
	node->has_attr = false;
	return true;
}

bool known_may_open(const struct known *k, uint64_t node)
{
	const struct known_node *n = k->leased ? known_node_find(k, node) : NULL;

	return n && n->has_attr && n->content && !n->forgotten &&
	       (n->readable || (n->own && (n->attr.mode & S_IRUSR)));
}

bool known_wants(const struct known *k, const struct vm_file *req)
{
	const struct known_content *c =
		k->leased && req->op == VM_WRITE ? known_content_of(k, req->node) : NULL;

	return c && req->offset <= PROTO_CONTENT_MAX &&
	       req->size <= PROTO_CONTENT_MAX - (size_t)req->offset;
}

uint64_t known_rest(const struct known *k, uint64_t node, uint64_t offset)
{
	const struct known_node *n = k->leased ? known_node_find(k, node) : NULL;

	if (!n || !n->has_attr || !S_ISREG(n->attr.mode))
		return UINT64_MAX;
	return offset < n->attr.size ? n->attr.size - offset : 0;
}

/* ---- answers ---- */

void known_attr(struct known *k, uint64_t node, const struct vm_attr *attr)
{
	if (k->leased && known_node_find(k, node))
		known_attr_set(k, node, attr);
}

void known_content(struct known *k, uint64_t handle, const void *bytes, size_t size)
{
	struct known_node *node = k->leased && handle && k->opened.handle == handle
					  ? known_node_find(k, k->opened.node)
					  : NULL;
	if (node && !node->content)
		known_content_set(k, node, NULL, bytes, size);
}

void known_release(struct known *k, uint64_t handle)
{
	if (k->opened.handle == handle)
		k->opened.handle = 0;
}

/* What a request was about may be told of behind its answer, and nothing else: see known_attr(). */
static void expect_attr(struct known *k, const struct known_question *q)
{
	switch ((int)q->op) {
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_UNLINK:
	case VM_RMDIR:
	case VM_CREATE:
	case VM_OPEN:
	case VM_WRITE:
	case VM_FALLOCATE: (void)known_node_get(k, q->node); break;
	case VM_LINK: (void)known_node_get(k, q->newparent); break;
	case VM_RENAME:
		(void)known_node_get(k, q->node);
		(void)known_node_get(k, q->newparent);
		break;
	default: break;
	}
}

/* An answer that counts as a lookup. */
static void learn_entry(struct known *k, const struct vm_file_reply *reply)
{
	struct known_node *node;

	known_attr_set(k, reply->node, &reply->attr);
	node = known_node_find(k, reply->node);
	if (node)
		node->forgotten = false;
}

static void learn_lookup(struct known *k, const struct known_question *q, int err,
			 const struct vm_file_reply *reply)
{
	if (err == -ENOENT)
		known_name_set(k, q->node, q->name, 0);
	if (err)
		return;
	learn_entry(k, reply);
	known_name_set(k, q->node, q->name, reply->node);
}

/* A name was made in a directory, or, with an error, perhaps. */
static void learn_made(struct known *k, uint64_t dir, const char *text, int err,
		       const struct vm_file_reply *reply)
{
	if (err == -EEXIST)
		return;
	known_attr_drop(k, dir);
	if (err) {
		known_name_drop(k, dir, text);
		return;
	}
	learn_entry(k, reply);
	known_name_set(k, dir, text, reply->node);
}

static void learn_mkdir(struct known *k, const struct known_question *q, int err,
			const struct vm_file_reply *reply)
{
	struct known_node *node;

	learn_made(k, q->node, q->name, err, reply);
	node = err ? NULL : known_node_find(k, reply->node);
	/* Where the sandbox's user may not search it, lookups have to fail. */
	if (node && node->has_attr && (node->attr.mode & S_IXUSR))
		node->complete = true;
}

static void learn_removed(struct known *k, const struct known_question *q, int err)
{
	if (err)
		return;
	known_attr_drop_at(k, q->node, q->name);
	known_attr_drop(k, q->node);
	known_name_set(k, q->node, q->name, 0);
}

static void learn_rename(struct known *k, const struct known_question *q, int err)
{
	enum known_name_state from, to;
	uint64_t moved, other;

	if (err)
		return;
	known_attr_drop_at(k, q->node, q->name);
	known_attr_drop_at(k, q->newparent, q->newname);
	known_attr_drop(k, q->node);
	known_attr_drop(k, q->newparent);
	from = known_name_look(k, q->node, q->name, &moved);
	to = known_name_look(k, q->newparent, q->newname, &other);
	/* Two names of one file stay as they are. */
	if (from == KNOWN_NAME_THERE && to == KNOWN_NAME_THERE && moved == other)
		return;
	if (from != KNOWN_NAME_THERE || to == KNOWN_NAME_UNKNOWN) {
		known_name_drop(k, q->node, q->name);
		known_name_drop(k, q->newparent, q->newname);
		return;
	}
	known_name_set(k, q->node, q->name, q->flags & RENAME_EXCHANGE ? other : 0);
	known_name_set(k, q->newparent, q->newname, moved);
}

static void learn_setattr(struct known *k, const struct known_question *q, int err,
			  const struct vm_file_reply *reply)
{
	struct known_node *node = known_node_find(k, q->node);

	if (node && (err || (q->valid & PROTO_SET_SIZE)))
		known_content_free(k, node->content);
	if (node && (err || (q->valid & PROTO_SET_MODE)))
		node->readable = false;
	known_attr_drop(k, q->node);
	/* In a directory that may not be searched any more, nothing is known. */
	if ((q->valid & PROTO_SET_MODE) &&
	    (err || (S_ISDIR(reply->attr.mode) && !(reply->attr.mode & S_IXUSR))))
		known_drop_all(k);
	if (!err)
		known_attr_set(k, q->node, &reply->attr);
}

static void learn_open(struct known *k, const struct known_question *q, int err,
		       const struct vm_file_reply *reply)
{
	struct known_node *node;

	if (q->flags & O_TRUNC) {
		known_content_free(k, known_content_of(k, q->node));
		known_attr_drop(k, q->node);
	}
	if (err)
		return;
	k->opened.handle = reply->handle;
	k->opened.node = q->node;
	node = known_node_get(k, q->node);
	if (node && (q->flags & O_ACCMODE) != O_WRONLY)
		node->readable = true;
}

static void learn_create(struct known *k, const struct known_question *q, int err,
			 const struct vm_file_reply *reply)
{
	struct known_node *node;

	learn_made(k, q->node, q->name, err, reply);
	node = err ? NULL : known_node_find(k, reply->node);
	if (node && (q->flags & O_TRUNC))
		known_content_free(k, node->content);
	/* What was there before was looked up, and would have been opened. */
	if (node && S_ISREG(reply->attr.mode) && reply->attr.size == 0 && !node->content) {
		node->own = true;
		known_content_set(k, node, NULL, NULL, 0);
	}
}

/* What was written behind all that is known of a file is known as well. */
static void learn_write(struct known *k, const struct known_question *q, int err,
			const struct vm_file_reply *reply)
{
	struct known_content *c = known_content_of(k, q->node);

	known_attr_drop(k, q->node);
	if (c && !err && q->data && reply->size == q->size && q->offset == c->size)
		known_content_set(k, c->node, c, q->data, q->size);
	else
		known_content_free(k, known_content_of(k, q->node));
}

void known_learn(struct known *k, const struct known_question *q, int err,
		 const struct vm_file_reply *reply)
{
	if (!k->leased)
		return;
	/* The agent does not know a node any more: it is asked by names, or it would be for ever. */
	if (err == -ESTALE) {
		known_drop_all(k);
		return;
	}
	switch ((int)q->op) {
	case VM_LOOKUP: learn_lookup(k, q, err, reply); break;
	case VM_GETATTR:
		if (err)
			known_attr_drop(k, q->node);
		else
			known_attr_set(k, q->node, &reply->attr);
		break;
	case VM_SETATTR: learn_setattr(k, q, err, reply); break;
	case VM_MKDIR: learn_mkdir(k, q, err, reply); break;
	case VM_SYMLINK: learn_made(k, q->node, q->name, err, reply); break;
	case VM_LINK:
		known_attr_drop(k, q->node);
		learn_made(k, q->newparent, q->newname, err, reply);
		break;
	case VM_UNLINK:
	case VM_RMDIR: learn_removed(k, q, err); break;
	case VM_RENAME: learn_rename(k, q, err); break;
	case VM_OPEN: learn_open(k, q, err, reply); break;
	case VM_CREATE: learn_create(k, q, err, reply); break;
	case VM_WRITE: learn_write(k, q, err, reply); break;
	case VM_FALLOCATE:
		known_content_free(k, known_content_of(k, q->node));
		known_attr_drop(k, q->node);
		break;
	case VM_READ:
	case VM_READDIR:
	case VM_READLINK: known_attr_was_read(k, q->node); break;
	default: break;
	}
	if (!err)
		expect_attr(k, q);
}
