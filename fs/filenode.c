/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below `files/`. See filenode.h. */
#include "filenode.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../vm/util.h"

/* The working directory as a sandbox sees it. */
#define GUEST_DIR "/home/user"

/* No honest directory is deeper: PATH_MAX of the shortest names. Bounds a hostile agent's circles. */
#define DEPTH_MAX 2048u

static int compare(const struct filenode *a, const struct filenode *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->remote < b->remote ? -1 : a->remote > b->remote;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(filenode_tree, filenode, link, compare)
#pragma GCC diagnostic pop

void filenodes_init(struct filenodes *fns)
{
	*fns = (struct filenodes){.hint = 1};
	RB_INIT(&fns->tree);
}

void filenodes_fini(struct filenodes *fns)
{
	for (uint32_t i = 0; i < fns->cap; i++)
		free(fns->table[i]);
	free(fns->table);
	filenodes_init(fns);
}

struct filenode *filenode_get(const struct filenodes *fns, uint32_t index)
{
	return index < fns->cap ? fns->table[index] : NULL;
}

/* Return: a free index, or 0 for want of memory. */
static uint32_t free_index(struct filenodes *fns)
{
	struct filenode **table;
	uint32_t i, cap;

	for (i = fns->hint; i < fns->cap; i++)
		if (!fns->table[i])
			return i;
	cap = fns->cap ? fns->cap * 2 : 64;
	table = realloc(fns->table, cap * sizeof(*table));
	if (!table)
		return 0;
	memset(table + fns->cap, 0, (cap - fns->cap) * sizeof(*table));
	fns->table = table;
	i = fns->cap ? fns->cap : 1;
	fns->cap = cap;
	return i;
}

static struct filenode *add(struct filenodes *fns, uint32_t epoch, uint64_t remote)
{
	uint32_t index = free_index(fns);
	struct filenode *fn = index ? calloc(1, sizeof(*fn)) : NULL;

	if (!fn)
		return NULL;
	fn->index = index;
	fn->epoch = epoch;
	fn->remote = remote;
	fns->table[index] = fn;
	fns->hint = index + 1;
	fns->n++;
	RB_INSERT(filenode_tree, &fns->tree, fn);
	return fn;
}

/* Removes @fn if nothing holds it any more, and then its parent likewise. */
static void put(struct filenodes *fns, struct filenode *fn, filenode_gone_fn gone, void *data)
{
	while (fn && fn->lookups == 0 && fn->children == 0) {
		struct filenode *parent = filenode_get(fns, fn->parent);

		if (gone)
			gone(data, fn);
		RB_REMOVE(filenode_tree, &fns->tree, fn);
		fns->table[fn->index] = NULL;
		fns->hint = MIN(fns->hint, fn->index);
		fns->n--;
		free(fn);
		if (parent) {
			assert(parent->children > 0);
			parent->children--;
		}
		fn = parent;
	}
}

/* Is @fn @index or above it? The agent may say so, and a circle would keep itself alive. */
static bool is_above(const struct filenodes *fns, const struct filenode *fn, uint32_t index)
{
	const struct filenode *at = filenode_get(fns, index);

	while (at && at != fn)
		at = filenode_get(fns, at->parent);
	return at != NULL;
}

struct filenode *filenode_look(struct filenodes *fns, uint32_t epoch, uint64_t remote,
			       uint32_t parent, filenode_gone_fn gone, void *data)
{
	const struct filenode key = {.epoch = epoch, .remote = remote};
	struct filenode *fn = RB_FIND(filenode_tree, &fns->tree, (struct filenode *)&key), *old;

	if (!fn)
		fn = add(fns, epoch, remote);
	if (!fn)
		return NULL;
	fn->lookups++;
	fn->told++;
	if (fn->parent != parent && !is_above(fns, fn, parent)) {
		struct filenode *to = filenode_get(fns, parent);

		old = filenode_get(fns, fn->parent);
		fn->parent = to ? parent : 0;
		if (to)
			to->children++;
		if (old) {
			old->children--;
			put(fns, old, gone, data);
		}
	}
	return fn;
}

void filenode_forget(struct filenodes *fns, uint32_t index, uint64_t n, filenode_gone_fn gone,
		     void *data)
{
	struct filenode *fn = filenode_get(fns, index);

	if (!fn)
		return;
	fn->lookups -= MIN(fn->lookups, n);
	put(fns, fn, gone, data);
}

unsigned filenode_depth(const struct filenodes *fns, uint32_t index)
{
	const struct filenode *fn = filenode_get(fns, index);
	unsigned depth = 0;

	for (; fn && fn->parent && depth < DEPTH_MAX; depth++)
		fn = filenode_get(fns, fn->parent);
	return depth < DEPTH_MAX ? depth : 0;
}

/* Is the relative path safe for a link at @depth? */
static bool stays_below(const char *p, unsigned depth)
{
	bool named = false;
	unsigned up = 0;

	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (named || ++up > depth)
				return false;
		} else if (n && !(n == 1 && p[0] == '.')) {
			named = true;
		}
		p += n;
		p += strspn(p, "/");
	}
	return true;
}

int filenode_link(const char *target, size_t len, unsigned depth, char *out, size_t size)
{
	const size_t dir = strlen(GUEST_DIR);
	size_t used = 0;

	if (len == 0 || memchr(target, '\0', len))
		return -EPERM;
	if (target[0] == '/') {
		if (len < dir || memcmp(target, GUEST_DIR, dir) ||
		    (len > dir && target[dir] != '/'))
			return -EPERM;
		target += dir;
		len -= dir;
		while (len && *target == '/') {
			target++;
			len--;
		}
		for (unsigned i = 0; i < depth; i++) {
			if (size - used < 4)
				return -EPERM; /* no path is that long */
			memcpy(out + used, "../", 3);
			used += 3;
		}
		if (!len && !used) {
			target = ".";
			len = 1;
		}
	}
	if (len >= size - used)
		return -EPERM;
	memcpy(out + used, target, len);
	out[used + len] = '\0';
	return stays_below(out, depth) ? 0 : -EPERM;
}
