/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a sandbox's files, as a table: nodes, names and contents, and the room that they take. See known.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "known_internal.h"
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
	for (unsigned part = 0; part < KNOWN_OWED; part++)
		TAILQ_INIT(&k->owed[part].nodes);
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

void known_content_free(struct known *k, struct known_content *c)
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

/* Agents count their nodes, but that is theirs. */
static struct known_owed *owed_part(struct known *k, uint64_t id)
{
	return &k->owed[(id * 0x9e3779b97f4a7c15u >> 32) % KNOWN_OWED];
}

static void owe(struct known *k, struct known_node *node, uint64_t lookups)
{
	struct known_owed *part = owed_part(k, node->id);

	if (!node->owed && lookups) {
		TAILQ_INSERT_TAIL(&part->nodes, node, owed_link);
		k->nowed++;
	} else if (node->owed && !lookups) {
		TAILQ_REMOVE(&part->nodes, node, owed_link);
		k->nowed--;
	}
	part->changed |= node->owed != lookups;
	node->owed = lookups;
}

static void node_free(struct known *k, struct known_node *node)
{
	owe(k, node, 0);
	known_content_free(k, node->content);
	RB_REMOVE(known_nodes, &k->nodes, node);
	k->n--;
	discharge(k, NODE_COST);
	free(node);
}

void known_drop_all(struct known *k)
{
	struct known_node *node = RB_MIN(known_nodes, &k->nodes), *next;
	struct known_content *c;
	struct known_name *name;

	while ((c = TAILQ_FIRST(&k->contents)))
		known_content_free(k, c);
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

	known_drop_all(k);
	while ((node = RB_ROOT(&k->nodes)))
		node_free(k, node);
	k->leased = false;
}

void known_begin(struct known *k)
{
	if (k->leased)
		known_drop_all(k);
	k->leased = true;
}

void known_end(struct known *k)
{
	if (k->leased)
		known_drop_all(k);
	k->leased = false;
}

/* ---- nodes and names ---- */

struct known_node *known_node_find(const struct known *k, uint64_t id)
{
	const struct known_node key = {.id = id};

	return RB_FIND(known_nodes, (struct known_nodes *)&k->nodes, (struct known_node *)&key);
}

/* Return: false if there is no room, and nothing is to be kept of this answer. If that is this sandbox's own doing,
 * all that can be was dropped then, which is half of its room or more: see OWED_MAX. */
static bool make_room(struct known *k, size_t bytes)
{
	while (k->bytes + bytes > KNOWN_BYTES && k->ncontents)
		known_content_free(k, TAILQ_FIRST(&k->contents));
	if (k->bytes + bytes <= KNOWN_BYTES)
		return total + bytes <= KNOWN_BYTES_ALL;
	if (k->n > k->nowed)
		known_drop_all(k);
	return false;
}

struct known_node *known_node_get(struct known *k, uint64_t id)
{
	struct known_node *node = known_node_find(k, id);

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
	struct known_node *node = known_node_find(k, dir);

	if (node)
		node->complete = false;
}

void known_name_set(struct known *k, uint64_t dir, const char *text, uint64_t node)
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

void known_name_drop(struct known *k, uint64_t dir, const char *text)
{
	struct known_name *name = name_find(k, dir, text);

	if (name)
		name_free(k, name);
	name_lost(k, dir);
}

enum known_name_state known_name_look(const struct known *k, uint64_t dir, const char *text,
				      uint64_t *ret_node)
{
	const struct known_name *name = name_find(k, dir, text);
	const struct known_node *node = name ? NULL : known_node_find(k, dir);

	*ret_node = name ? name->node : 0;
	if (name)
		return name->node ? KNOWN_NAME_THERE : KNOWN_NAME_ABSENT;
	return node && node->complete ? KNOWN_NAME_ABSENT : KNOWN_NAME_UNKNOWN;
}

void known_attr_set(struct known *k, uint64_t id, const struct vm_attr *attr)
{
	struct known_node *node = known_node_get(k, id);

	if (!node)
		return;
	if (!vm_attr_same_times(&node->attr, attr))
		node->told_read = false;
	node->attr = *attr;
	node->has_attr = true;
	if (node->content && node->content->size != attr->size)
		known_content_free(k, node->content);
}

void known_attr_drop(struct known *k, uint64_t id)
{
	if (known_node_find(k, id))
		known_node_find(k, id)->has_attr = false;
}

static void attrs_drop(struct known *k)
{
	struct known_node *node;

	RB_FOREACH(node, known_nodes, &k->nodes)
	node->has_attr = false;
}

void known_attr_drop_at(struct known *k, uint64_t dir, const char *text)
{
	uint64_t node;

	if (known_name_look(k, dir, text, &node) == KNOWN_NAME_UNKNOWN)
		attrs_drop(k);
	else if (node)
		known_attr_drop(k, node);
}

void known_attr_was_read(struct known *k, uint64_t id)
{
	struct known_node *node = known_node_find(k, id);

	if (node && node->has_attr && vm_attr_read_counts(&node->attr))
		node->has_attr = false;
}

/* ---- contents ---- */

struct known_content *known_content_of(const struct known *k, uint64_t id)
{
	return known_node_find(k, id) ? known_node_find(k, id)->content : NULL;
}

/* Makes room by dropping older ones. */
static bool make_content_room(struct known *k, size_t cost)
{
	while (k->ncontents >= KNOWN_CONTENTS || k->content_bytes + cost > KNOWN_BYTES / 2 ||
	       k->bytes + cost > KNOWN_BYTES || total + cost > KNOWN_BYTES_ALL) {
		if (!k->ncontents)
			return false;
		known_content_free(k, TAILQ_FIRST(&k->contents));
	}
	return true;
}

void known_content_set(struct known *k, struct known_node *node, struct known_content *before,
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
	known_content_free(k, node->content);
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

/* ---- lookups that are owed ---- */

bool known_node_owe(struct known *k, struct known_node *node)
{
	if (!node->owed && k->nowed >= OWED_MAX)
		return false;
	owe(k, node, node->owed + 1);
	return true;
}

uint64_t known_forget(struct known *k, uint64_t id, uint64_t n)
{
	struct known_node *node = known_node_find(k, id);
	const uint64_t owed = node ? MIN(node->owed, n) : 0;

	if (!node)
		return n;
	owe(k, node, node->owed - owed);
	node->forgotten = node->forgotten || n > owed;
	if (!node->owed && !k->leased)
		node_free(k, node);
	return n - owed;
}

void known_each_owed(const struct known *k, unsigned part,
		     void (*fn)(void *data, uint64_t node, uint64_t lookups), void *data)
{
	struct known_node *node;

	TAILQ_FOREACH(node, &k->owed[part].nodes, owed_link)
		fn(data, node->id, node->owed);
}

bool known_owed_changed(const struct known *k, unsigned part)
{
	return k->owed[part].changed;
}

void known_owed_written(struct known *k, unsigned part)
{
	k->owed[part].changed = false;
}

int known_owe(struct known *k, uint64_t id, uint64_t lookups)
{
	struct known_node *node;

	if (known_node_find(k, id) || k->nowed >= OWED_MAX)
		return -EBADMSG;
	node = known_node_get(k, id);
	if (!node)
		return -ENOMEM;
	owe(k, node, lookups);
	return 0;
}

void known_owe_nothing(struct known *k)
{
	struct known_node *node;

	for (unsigned part = 0; part < KNOWN_OWED; part++)
		while ((node = TAILQ_FIRST(&k->owed[part].nodes)))
			owe(k, node, 0);
	known_drop_all(k);
}
