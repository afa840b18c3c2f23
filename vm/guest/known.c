/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a sandbox's files while nothing in it can change them. See known.h. */
#include "known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vm/base/util.h"

#define OVERHEAD  16u /* of the heap, for each piece of memory */
#define NODE_COST (sizeof(struct known_node) + OVERHEAD)

/* Nodes with `owed`: so many that dropping the others makes room for as much again. */
#define OWED_MAX  (KNOWN_BYTES / 2 / NODE_COST)

static size_t total; /* bytes that are kept of all sandboxes */

static int compare_nodes(const struct known_node *a, const struct known_node *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_names(const struct known_name *a, const struct known_name *b)
{
	if (a->dir != b->dir)
		return a->dir < b->dir ? -1 : 1;
	return strcmp(a->text, b->text);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(known_nodes, known_node, link, compare_nodes)
RB_GENERATE_STATIC(known_names, known_name, link, compare_names)
#pragma GCC diagnostic pop

void known_init(struct known *k)
{
	RB_INIT(&k->nodes);
	RB_INIT(&k->names);
	TAILQ_INIT(&k->contents);
}

static void charge(struct known *k, size_t bytes)
{
	k->bytes += bytes;
	total += bytes;
}

static void discharge(struct known *k, size_t bytes)
{
	k->bytes -= bytes;
	total -= bytes;
}

static size_t content_cost(size_t size)
{
	return sizeof(struct known_content) + size + OVERHEAD;
}

static size_t name_cost(const char *text)
{
	return sizeof(struct known_name) + strlen(text) + 1 + OVERHEAD;
}

static void content_free(struct known *k, struct known_content *c)
{
	if (!c)
		return;
	TAILQ_REMOVE(&k->contents, c, link);
	c->node->content = NULL;
	k->ncontents--;
	k->content_bytes -= content_cost(c->size);
	discharge(k, content_cost(c->size));
	free(c);
}

static void name_free(struct known *k, struct known_name *name)
{
	RB_REMOVE(known_names, &k->names, name);
	k->n--;
	discharge(k, name_cost(name->text));
	free(name);
}

static void node_free(struct known *k, struct known_node *node)
{
	content_free(k, node->content);
	RB_REMOVE(known_nodes, &k->nodes, node);
	k->n--;
	k->nowed -= node->owed > 0;
	discharge(k, NODE_COST);
	free(node);
}

/* Drops all but what is owed. */
static void drop_all(struct known *k)
{
	struct known_node *node = RB_MIN(known_nodes, &k->nodes), *next;
	struct known_content *c;
	struct known_name *name;

	while ((c = TAILQ_FIRST(&k->contents)))
		content_free(k, c);
	while ((name = RB_ROOT(&k->names)))
		name_free(k, name);
	for (; node; node = next) {
		next = known_nodes_RB_NEXT(node);
		node->has_attr = node->complete = node->forgotten = false;
		node->own = node->readable = false;
		if (!node->owed)
			node_free(k, node);
	}
}

void known_fini(struct known *k)
{
	struct known_node *node;

	drop_all(k);
	while ((node = RB_ROOT(&k->nodes)))
		node_free(k, node);
	k->leased = false;
}

void known_begin(struct known *k)
{
	if (k->leased)
		drop_all(k);
	k->leased = true;
}

void known_end(struct known *k)
{
	if (k->leased)
		drop_all(k);
	k->leased = false;
}

/* ---- nodes and names ---- */

static struct known_node *node_find(const struct known *k, uint64_t id)
{
	const struct known_node key = {.id = id};

	return RB_FIND(known_nodes, (struct known_nodes *)&k->nodes, (struct known_node *)&key);
}

/* Return: false if there is no room, and nothing is to be kept of this answer. If that is this sandbox's own doing,
 * all that can be was dropped then, which is half of its room or more: see OWED_MAX. */
static bool make_room(struct known *k, size_t bytes)
{
	while (k->bytes + bytes > KNOWN_BYTES && k->ncontents)
		content_free(k, TAILQ_FIRST(&k->contents));
	if (k->bytes + bytes <= KNOWN_BYTES)
		return total + bytes <= KNOWN_BYTES_ALL;
	if (k->n > k->nowed)
		drop_all(k);
	return false;
}

/* Return: the node, or NULL if it cannot be kept. */
static struct known_node *node_get(struct known *k, uint64_t id)
{
	struct known_node *node = node_find(k, id);

	if (node)
		return node;
	node = make_room(k, NODE_COST) ? calloc(1, sizeof(*node)) : NULL;
	if (!node)
		return NULL;
	node->id = id;
	RB_INSERT(known_nodes, &k->nodes, node);
	k->n++;
	charge(k, NODE_COST);
	return node;
}

static struct known_name *name_new(uint64_t dir, const char *text)
{
	const size_t size = strlen(text) + 1;
	struct known_name *name = malloc(sizeof(*name) + size);

	if (!name)
		return NULL;
	*name = (struct known_name){.dir = dir, .text = memcpy(name + 1, text, size)};
	return name;
}

static struct known_name *name_find(const struct known *k, uint64_t dir, const char *text)
{
	const struct known_name key = {.dir = dir, .text = text};

	return RB_FIND(known_names, (struct known_names *)&k->names, (struct known_name *)&key);
}

/* A directory in which a name could not be kept is not complete any more. */
static void name_lost(struct known *k, uint64_t dir)
{
	struct known_node *node = node_find(k, dir);

	if (node)
		node->complete = false;
}

/* Keeps what a name stands for; 0: nothing. */
static void name_set(struct known *k, uint64_t dir, const char *text, uint64_t node)
{
	struct known_name *name = name_find(k, dir, text);

	if (!name) {
		name = make_room(k, name_cost(text)) ? name_new(dir, text) : NULL;
		if (!name) {
			name_lost(k, dir);
			return;
		}
		RB_INSERT(known_names, &k->names, name);
		k->n++;
		charge(k, name_cost(text));
	}
	name->node = node;
}

/* It is not known any more what a name stands for. */
static void name_drop(struct known *k, uint64_t dir, const char *text)
{
	struct known_name *name = name_find(k, dir, text);

	if (name)
		name_free(k, name);
	name_lost(k, dir);
}

enum name_state { NAME_UNKNOWN, NAME_ABSENT, NAME_THERE };

static enum name_state name_look(const struct known *k, uint64_t dir, const char *text,
				 uint64_t *ret_node)
{
	const struct known_name *name = name_find(k, dir, text);
	const struct known_node *node = name ? NULL : node_find(k, dir);

	*ret_node = name ? name->node : 0;
	if (name)
		return name->node ? NAME_THERE : NAME_ABSENT;
	return node && node->complete ? NAME_ABSENT : NAME_UNKNOWN;
}

static void attr_set(struct known *k, uint64_t id, const struct vm_attr *attr)
{
	struct known_node *node = node_get(k, id);

	if (!node)
		return;
	if (!vm_attr_same_times(&node->attr, attr))
		node->touched = false;
	node->attr = *attr;
	node->has_attr = true;
	if (node->content && node->content->size != attr->size)
		content_free(k, node->content);
}

static void attr_drop(struct known *k, uint64_t id)
{
	if (node_find(k, id))
		node_find(k, id)->has_attr = false;
}

static void attrs_drop(struct known *k)
{
	struct known_node *node;

	RB_FOREACH(node, known_nodes, &k->nodes)
	node->has_attr = false;
}

/* What has a name, if anything does, gets other attributes. */
static void attr_drop_at(struct known *k, uint64_t dir, const char *text)
{
	uint64_t node;

	if (name_look(k, dir, text, &node) == NAME_UNKNOWN)
		attrs_drop(k);
	else if (node)
		attr_drop(k, node);
}

/* It was read. */
static void attr_touch(struct known *k, uint64_t id)
{
	struct known_node *node = node_find(k, id);

	if (node && node->has_attr && vm_attr_is_touched(&node->attr))
		node->has_attr = false;
}

/* ---- contents ---- */

static struct known_content *content_of(const struct known *k, uint64_t id)
{
	return node_find(k, id) ? node_find(k, id)->content : NULL;
}

/* Makes room by dropping older ones. */
static bool make_content_room(struct known *k, size_t cost)
{
	while (k->ncontents >= KNOWN_CONTENTS || k->content_bytes + cost > KNOWN_BYTES / 2 ||
	       k->bytes + cost > KNOWN_BYTES || total + cost > KNOWN_BYTES_ALL) {
		if (!k->ncontents)
			return false;
		content_free(k, TAILQ_FIRST(&k->contents));
	}
	return true;
}

/* It holds this, behind what it held if that is @before. */
static void content_set(struct known *k, struct known_node *node, struct known_content *before,
			const void *bytes, size_t size)
{
	const size_t old = before ? before->size : 0;
	struct known_content *c = malloc(sizeof(*c) + old + size);

	if (c) {
		c->node = node;
		c->size = old + size;
		if (old)
			memcpy(c->bytes, before->bytes, old);
		if (size)
			memcpy(c->bytes + old, bytes, size);
	}
	content_free(k, node->content);
	if (!c || !make_content_room(k, content_cost(c->size))) {
		free(c);
		return;
	}
	node->content = c;
	TAILQ_INSERT_TAIL(&k->contents, c, link);
	k->ncontents++;
	k->content_bytes += content_cost(c->size);
	charge(k, content_cost(c->size));
}

void known_content(struct known *k, uint64_t handle, const void *bytes, size_t size)
{
	struct known_node *node = k->leased && handle && k->opened.handle == handle
					  ? node_find(k, k->opened.node)
					  : NULL;
	if (node && !node->content)
		content_set(k, node, NULL, bytes, size);
}

void known_release(struct known *k, uint64_t handle)
{
	if (k->opened.handle == handle)
		k->opened.handle = 0;
}

/* ---- questions ---- */

static bool answer_lookup(struct known *k, const struct vm_file *req, int *ret_err,
			  struct vm_file_reply *ret_reply)
{
	struct known_node *node;
	uint64_t id;

	switch (name_look(k, req->node, req->name, &id)) {
	case NAME_UNKNOWN: return false;
	case NAME_ABSENT: *ret_err = -ENOENT; return true;
	case NAME_THERE: break;
	}
	node = node_find(k, id);
	if (!node || !node->has_attr || node->forgotten)
		return false;
	if (!node->owed && k->nowed >= OWED_MAX)
		return false; /* the agent is asked, and counts it */
	k->nowed += node->owed == 0;
	node->owed++;
	ret_reply->node = id;
	ret_reply->attr = node->attr;
	return true;
}

static bool answer_read(const struct known *k, const struct vm_file *req,
			struct vm_file_reply *ret_reply)
{
	const struct known_content *c = content_of(k, req->node);

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
		node = node_find(k, req->node);
		if (!node || !node->has_attr)
			return false;
		ret_reply->attr = node->attr;
		return true;
	default: return false;
	}
}

bool known_touch(struct known *k, uint64_t id)
{
	struct known_node *node = node_find(k, id);

	if (!node || node->touched || (node->has_attr && !vm_attr_is_touched(&node->attr)))
		return false;
	node->touched = true;
	node->has_attr = false;
	return true;
}

bool known_may_open(const struct known *k, uint64_t node)
{
	const struct known_node *n = k->leased ? node_find(k, node) : NULL;

	return n && n->has_attr && n->content && !n->forgotten &&
	       (n->readable || (n->own && (n->attr.mode & S_IRUSR)));
}

bool known_wants(const struct known *k, const struct vm_file *req)
{
	const struct known_content *c =
		k->leased && req->op == VM_WRITE ? content_of(k, req->node) : NULL;

	return c && req->offset <= PROTO_CONTENT_MAX &&
	       req->size <= PROTO_CONTENT_MAX - (size_t)req->offset;
}

uint64_t known_rest(const struct known *k, uint64_t node, uint64_t offset)
{
	const struct known_node *n = k->leased ? node_find(k, node) : NULL;

	if (!n || !n->has_attr || !S_ISREG(n->attr.mode))
		return UINT64_MAX;
	return offset < n->attr.size ? n->attr.size - offset : 0;
}

uint64_t known_forget(struct known *k, uint64_t id, uint64_t n)
{
	struct known_node *node = node_find(k, id);
	const uint64_t owed = node ? MIN(node->owed, n) : 0;

	if (!node)
		return n;
	node->owed -= owed;
	k->nowed -= owed && !node->owed;
	node->forgotten = node->forgotten || n > owed;
	if (!node->owed && !k->leased)
		node_free(k, node);
	return n - owed;
}

void known_each_owed(const struct known *k, void (*fn)(void *data, uint64_t node, uint64_t lookups),
		     void *data)
{
	struct known_node *node;

	RB_FOREACH(node, known_nodes, (struct known_nodes *)&k->nodes)
	if (node->owed)
		fn(data, node->id, node->owed);
}

int known_owe(struct known *k, uint64_t id, uint64_t lookups)
{
	struct known_node *node;

	if (node_find(k, id) || k->nowed >= OWED_MAX)
		return -EBADMSG;
	node = node_get(k, id);
	if (!node)
		return -ENOMEM;
	node->owed = lookups;
	k->nowed++;
	return 0;
}

void known_owe_nothing(struct known *k)
{
	struct known_node *node;

	RB_FOREACH(node, known_nodes, &k->nodes)
	node->owed = 0;
	k->nowed = 0;
	drop_all(k);
}

/* ---- answers ---- */

void known_attr(struct known *k, uint64_t node, const struct vm_attr *attr)
{
	if (k->leased && node_find(k, node))
		attr_set(k, node, attr);
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
	case VM_FALLOCATE: (void)node_get(k, q->node); break;
	case VM_LINK: (void)node_get(k, q->newparent); break;
	case VM_RENAME:
		(void)node_get(k, q->node);
		(void)node_get(k, q->newparent);
		break;
	default: break;
	}
}

/* An answer that counts as a lookup. */
static void learn_entry(struct known *k, const struct vm_file_reply *reply)
{
	struct known_node *node;

	attr_set(k, reply->node, &reply->attr);
	node = node_find(k, reply->node);
	if (node)
		node->forgotten = false;
}

static void learn_lookup(struct known *k, const struct known_question *q, int err,
			 const struct vm_file_reply *reply)
{
	if (err == -ENOENT)
		name_set(k, q->node, q->name, 0);
	if (err)
		return;
	learn_entry(k, reply);
	name_set(k, q->node, q->name, reply->node);
}

/* A name was made in a directory, or, with an error, perhaps. */
static void learn_made(struct known *k, uint64_t dir, const char *text, int err,
		       const struct vm_file_reply *reply)
{
	if (err == -EEXIST)
		return;
	attr_drop(k, dir);
	if (err) {
		name_drop(k, dir, text);
		return;
	}
	learn_entry(k, reply);
	name_set(k, dir, text, reply->node);
}

static void learn_mkdir(struct known *k, const struct known_question *q, int err,
			const struct vm_file_reply *reply)
{
	struct known_node *node;

	learn_made(k, q->node, q->name, err, reply);
	node = err ? NULL : node_find(k, reply->node);
	/* Where the sandbox's user may not search it, lookups have to fail. */
	if (node && node->has_attr && (node->attr.mode & S_IXUSR))
		node->complete = true;
}

static void learn_removed(struct known *k, const struct known_question *q, int err)
{
	if (err)
		return;
	attr_drop_at(k, q->node, q->name);
	attr_drop(k, q->node);
	name_set(k, q->node, q->name, 0);
}

static void learn_rename(struct known *k, const struct known_question *q, int err)
{
	enum name_state from, to;
	uint64_t moved, other;

	if (err)
		return;
	attr_drop_at(k, q->node, q->name);
	attr_drop_at(k, q->newparent, q->newname);
	attr_drop(k, q->node);
	attr_drop(k, q->newparent);
	from = name_look(k, q->node, q->name, &moved);
	to = name_look(k, q->newparent, q->newname, &other);
	/* Two names of one file stay as they are. */
	if (from == NAME_THERE && to == NAME_THERE && moved == other)
		return;
	if (from != NAME_THERE || to == NAME_UNKNOWN) {
		name_drop(k, q->node, q->name);
		name_drop(k, q->newparent, q->newname);
		return;
	}
	name_set(k, q->node, q->name, q->flags & RENAME_EXCHANGE ? other : 0);
	name_set(k, q->newparent, q->newname, moved);
}

static void learn_setattr(struct known *k, const struct known_question *q, int err,
			  const struct vm_file_reply *reply)
{
	struct known_node *node = node_find(k, q->node);

	if (node && (err || (q->valid & PROTO_SET_SIZE)))
		content_free(k, node->content);
	if (node && (err || (q->valid & PROTO_SET_MODE)))
		node->readable = false;
	attr_drop(k, q->node);
	/* In a directory that may not be searched any more, nothing is known. */
	if ((q->valid & PROTO_SET_MODE) &&
	    (err || (S_ISDIR(reply->attr.mode) && !(reply->attr.mode & S_IXUSR))))
		drop_all(k);
	if (!err)
		attr_set(k, q->node, &reply->attr);
}

static void learn_open(struct known *k, const struct known_question *q, int err,
		       const struct vm_file_reply *reply)
{
	struct known_node *node;

	if (q->flags & O_TRUNC) {
		content_free(k, content_of(k, q->node));
		attr_drop(k, q->node);
	}
	if (err)
		return;
	k->opened.handle = reply->handle;
	k->opened.node = q->node;
	node = node_get(k, q->node);
	if (node && (q->flags & O_ACCMODE) != O_WRONLY)
		node->readable = true;
}

static void learn_create(struct known *k, const struct known_question *q, int err,
			 const struct vm_file_reply *reply)
{
	struct known_node *node;

	learn_made(k, q->node, q->name, err, reply);
	node = err ? NULL : node_find(k, reply->node);
	if (node && (q->flags & O_TRUNC))
		content_free(k, node->content);
	/* What was there before was looked up, and would have been opened. */
	if (node && S_ISREG(reply->attr.mode) && reply->attr.size == 0 && !node->content) {
		node->own = true;
		content_set(k, node, NULL, NULL, 0);
	}
}

/* What was written behind all that is known of a file is known as well. */
static void learn_write(struct known *k, const struct known_question *q, int err,
			const struct vm_file_reply *reply)
{
	struct known_content *c = content_of(k, q->node);

	attr_drop(k, q->node);
	if (c && !err && q->data && reply->size == q->size && q->offset == c->size)
		content_set(k, c->node, c, q->data, q->size);
	else
		content_free(k, content_of(k, q->node));
}

void known_learn(struct known *k, const struct known_question *q, int err,
		 const struct vm_file_reply *reply)
{
	if (!k->leased)
		return;
	/* The agent does not know a node any more: it is asked by names, or it would be for ever. */
	if (err == -ESTALE) {
		drop_all(k);
		return;
	}
	switch ((int)q->op) {
	case VM_LOOKUP: learn_lookup(k, q, err, reply); break;
	case VM_GETATTR:
		if (err)
			attr_drop(k, q->node);
		else
			attr_set(k, q->node, &reply->attr);
		break;
	case VM_SETATTR: learn_setattr(k, q, err, reply); break;
	case VM_MKDIR: learn_mkdir(k, q, err, reply); break;
	case VM_SYMLINK: learn_made(k, q->node, q->name, err, reply); break;
	case VM_LINK:
		attr_drop(k, q->node);
		learn_made(k, q->newparent, q->newname, err, reply);
		break;
	case VM_UNLINK:
	case VM_RMDIR: learn_removed(k, q, err); break;
	case VM_RENAME: learn_rename(k, q, err); break;
	case VM_OPEN: learn_open(k, q, err, reply); break;
	case VM_CREATE: learn_create(k, q, err, reply); break;
	case VM_WRITE: learn_write(k, q, err, reply); break;
	case VM_FALLOCATE:
		content_free(k, content_of(k, q->node));
		attr_drop(k, q->node);
		break;
	case VM_READ:
	case VM_READDIR:
	case VM_READLINK: attr_touch(k, q->node); break;
	default: break;
	}
	if (!err)
		expect_attr(k, q);
}
