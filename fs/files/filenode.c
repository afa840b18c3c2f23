/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes below `files/`. See filenode.h. */
#include "filenode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/protocol.h"
#include "vm/base/util.h"

#define ANY_DEPTH  UINT32_MAX
#define NOTES_KEPT 1024u /* so much room is used again */

static int compare_names(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

/* Nodes of one name stand together; see each_at(). */
static int compare(const struct filenode *a, const struct filenode *b)
{
	int names;

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	names = compare_names(a->name, b->name);
	if (names)
		return names;
	if (a->class != b->class)
		return a->class < b->class ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->remote < b->remote ? -1 : a->remote > b->remote;
}

static int compare_dirs(const struct filenode *a, const struct filenode *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->remote < b->remote ? -1 : a->remote > b->remote;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
RB_GENERATE_STATIC(filenode_tree, filenode, link, compare)
RB_GENERATE_STATIC(filenode_dirs, filenode, dir, compare_dirs)
#pragma GCC diagnostic pop

void filenodes_init(struct filenodes *fns, filenode_gone_fn gone, void *data)
{
	*fns = (struct filenodes){.hint = 1, .gone = gone, .data = data};
	RB_INIT(&fns->tree);
	RB_INIT(&fns->dirs);
}

static void node_free(struct filenode *fn)
{
	if (fn)
		free(fn->name);
	free(fn);
}

void filenodes_fini(struct filenodes *fns)
{
	for (uint32_t i = 0; i < fns->cap; i++)
		node_free(fns->table[i]);
	free(fns->table);
	free(fns->notes.index);
	filenodes_init(fns, NULL, NULL);
}

/* ---- what has changed ---- */

static void note(struct filenodes *fns, uint32_t index)
{
	struct filenode_notes *notes = &fns->notes;
	const uint32_t cap = notes->cap ? notes->cap * 2 : 16;
	uint32_t *more;

	if (notes->all)
		return;
	if (notes->n == notes->cap) {
		more = reallocarray(notes->index, cap, sizeof(*more));
		if (!more) {
			notes->all = true;
			return;
		}
		notes->index = more;
		notes->cap = cap;
	}
	notes->index[notes->n++] = index;
}

/* What a record says of it is about to change, or has just. */
static void touch(struct filenodes *fns, struct filenode *fn)
{
	if (fn->noted || !fns->changed || !fns->changed(fns->data))
		return;
	fn->noted = true;
	note(fns, fn->index);
}

/* It is gone, or is going. */
static void touch_gone(struct filenodes *fns, const struct filenode *fn)
{
	if (fns->changed && fns->changed(fns->data))
		note(fns, fn->index);
}

void filenodes_noted(struct filenodes *fns)
{
	struct filenode_notes *notes = &fns->notes;

	for (uint32_t i = 0; i < notes->n; i++) {
		struct filenode *fn = filenode_get(fns, notes->index[i]);

		if (fn)
			fn->noted = false;
	}
	for (uint32_t i = 0; notes->all && i < fns->cap; i++) {
		if (fns->table[i])
			fns->table[i]->noted = false;
	}
	notes->n = 0;
	notes->all = false;
	if (notes->cap > NOTES_KEPT) {
		free(notes->index);
		*notes = (struct filenode_notes){0};
	}
}

struct filenode *filenode_get(const struct filenodes *fns, uint32_t index)
{
	return index < fns->cap ? fns->table[index] : NULL;
}

/* Return: a free index, or 0 if out of memory. */
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

static void hide(struct filenodes *fns, struct filenode *fn)
{
	if (!fn->findable)
		return;
	RB_REMOVE(filenode_tree, &fns->tree, fn);
	fn->findable = false;
	touch(fns, fn);
}

/* Lookups find @fn from now on. One from the past that they would have found gives way. */
static void show(struct filenodes *fns, struct filenode *fn)
{
	struct filenode *other = RB_INSERT(filenode_tree, &fns->tree, fn);

	if (other) {
		hide(fns, other);
		RB_INSERT(filenode_tree, &fns->tree, fn);
	}
	fn->findable = true;
	touch(fns, fn);
}

static void set_parent(struct filenodes *fns, struct filenode *fn, uint32_t index)
{
	struct filenode *parent = filenode_get(fns, index);

	fn->parent = index;
	touch(fns, fn);
	if (parent)
		parent->children++;
}

/* It is among those that are found, or another one is there. */
static void note_doubled(struct filenodes *fns, const struct filenode *fn)
{
	fns->doubled = fns->doubled || (fn->class == FILENODE_DIR && !fn->single);
	fns->twins = fns->twins || (fn->class == FILENODE_FILE && !fn->findable);
}

/* Return: a node like @key, whose name it takes over, or NULL if out of memory. */
static struct filenode *add(struct filenodes *fns, const struct filenode *key)
{
	uint32_t index = free_index(fns);
	struct filenode *fn = index ? calloc(1, sizeof(*fn)) : NULL;

	if (!fn)
		return NULL;
	fn->class = key->class;
	fn->index = index;
	fn->epoch = key->epoch;
	fn->remote = key->remote;
	fn->ino = key->ino;
	fn->name = key->name;
	fn->depth_max = ANY_DEPTH;
	fns->table[index] = fn;
	fns->hint = index + 1;
	fns->n++;
	set_parent(fns, fn, key->parent);
	show(fns, fn);
	fn->single = fn->class == FILENODE_DIR && !RB_INSERT(filenode_dirs, &fns->dirs, fn);
	note_doubled(fns, fn);
	return fn;
}

/* Removes @fn if nothing holds it any more, and then its parent likewise. */
static void put(struct filenodes *fns, struct filenode *fn)
{
	while (fn && fn->lookups == 0 && fn->children == 0) {
		struct filenode *parent = filenode_get(fns, fn->parent);

		fns->gone(fns->data, fn);
		hide(fns, fn);
		touch_gone(fns, fn);
		if (fn->single)
			RB_REMOVE(filenode_dirs, &fns->dirs, fn);
		fns->table[fn->index] = NULL;
		fns->hint = MIN(fns->hint, fn->index);
		fns->n--;
		node_free(fn);
		if (parent) {
			assert(parent->children > 0);
			parent->children--;
		}
		fn = parent;
	}
}

/* Has it been moved from above to where it is now? */
static bool depth_is_held_down(const struct filenodes *fns, const struct filenode *fn)
{
	return fn->depth_max != ANY_DEPTH &&
	       fn->depth_max < filenode_depth_in(fns, fn->parent, NULL);
}

/* The first node (@fn is NULL) or the next one that the kernel may know by this name. There can be
 * several, of which all but one are from the past. */
static struct filenode *each_at(struct filenodes *fns, uint32_t parent, const char *name,
				struct filenode *fn)
{
	const struct filenode key = {.parent = parent, .name = (char *)name};

	/* RB_NEXT takes three arguments or two, by the version of libuv. */
	fn = fn ? filenode_tree_RB_NEXT(fn)
		: RB_NFIND(filenode_tree, &fns->tree, (struct filenode *)&key);
	return fn && fn->parent == parent && compare_names(fn->name, name) == 0 ? fn : NULL;
}

bool filenode_same_number(uint64_t a, uint64_t b)
{
	return !a || !b || a == b;
}

bool filenode_is(const struct filenode *fn, uint64_t ino)
{
	return fn->ino != FILENODE_REMOVED && filenode_same_number(fn->ino, ino);
}

/* It is what another sandbox has there, of which the agent was told nothing yet. */
static void become(struct filenodes *fns, struct filenode *fn, uint32_t epoch, uint64_t remote,
		   uint64_t ino)
{
	hide(fns, fn);
	if (fn->single)
		RB_REMOVE(filenode_dirs, &fns->dirs, fn);
	fn->epoch = epoch;
	fn->remote = remote;
	fn->ino = ino;
	fn->told = 0;
	/* The kernel may have looked it up anew as well: that node stays the one that is found. */
	fn->findable = !RB_INSERT(filenode_tree, &fns->tree, fn);
	fn->single = fn->class == FILENODE_DIR && !RB_INSERT(filenode_dirs, &fns->dirs, fn);
	note_doubled(fns, fn);
	touch(fns, fn);
}

/* The node that @key is of. A directory of another sandbox by the same name is followed: a process may stand there, and if the
 * kernel were told of a new one, it would take the place of that, which has no path then (getcwd(2)) and moves with it no more. */
static struct filenode *find(struct filenodes *fns, const struct filenode *key, uint32_t since)
{
	struct filenode *fn = RB_FIND(filenode_tree, &fns->tree, (struct filenode *)key),
			*at = NULL;

	if (fn || key->class != FILENODE_DIR || !fns->follows)
		return fn;
	while ((at = each_at(fns, key->parent, key->name, at)))
		if (at->class == FILENODE_DIR && at->epoch != key->epoch && at->epoch >= since &&
		    filenode_is(at, key->ino))
			fn = at;
	if (fn)
		become(fns, fn, key->epoch, key->remote, key->ino);
	return fn;
}

struct filenode *filenode_look(struct filenodes *fns, const struct filenode_found *found)
{
	struct filenode key = {.class = FILENODE_FILE,
			       .epoch = found->epoch,
			       .remote = found->remote,
			       .ino = found->ino},
			*fn;

	if (S_ISDIR(found->mode) || S_ISLNK(found->mode)) {
		key.class = S_ISDIR(found->mode) ? FILENODE_DIR : FILENODE_LINK;
		key.parent = filenode_get(fns, found->parent) ? found->parent : 0;
		key.name = strdup(found->name);
		if (!key.name)
			return NULL;
	}
	fn = find(fns, &key, found->since);
	if (fn && depth_is_held_down(fns, fn)) {
		hide(fns, fn);
		fn = NULL;
	}
	if (fn) {
		free(key.name);
	} else {
		fn = add(fns, &key);
		if (!fn) {
			free(key.name);
			return NULL;
		}
	}
	fn->lookups++;
	fn->told++;
	touch(fns, fn);
	return fn;
}

void filenode_forget(struct filenodes *fns, uint32_t index, uint64_t n)
{
	struct filenode *fn = filenode_get(fns, index);

	if (!fn)
		return;
	fn->lookups -= MIN(fn->lookups, n);
	touch(fns, fn);
	put(fns, fn);
}

void filenode_follow(struct filenodes *fns, struct filenode *fn, uint32_t epoch, uint64_t remote,
		     uint64_t ino)
{
	become(fns, fn, epoch, remote, ino);
	fn->told = 1;
}

void filenode_lock(struct filenodes *fns, uint32_t index)
{
	struct filenode *fn = filenode_get(fns, index);

	if (!fn || fn->locked)
		return;
	fn->locked = true;
	touch(fns, fn);
}

bool filenode_may_be_locked(const struct filenodes *fns, const struct filenode *fn)
{
	return fn->locked || (fn->class == FILENODE_FILE && filenode_is_doubled(fns, fn));
}

bool filenode_is_doubled(const struct filenodes *fns, const struct filenode *fn)
{
	return fn->class == FILENODE_DIR ? fns->doubled : fns->twins;
}

/* ---- places ---- */

uint32_t filenode_depth_in(const struct filenodes *fns, uint32_t dir, bool *ret_exact)
{
	const struct filenode *fn = filenode_get(fns, dir);
	uint64_t above = 0, least = ANY_DEPTH;

	for (; fn; fn = filenode_get(fns, fn->parent)) {
		above++;
		if (fn->depth_max != ANY_DEPTH)
			least = MIN(least, fn->depth_max + above);
	}
	if (ret_exact)
		*ret_exact = above <= least;
	return (uint32_t)MIN(above, least);
}

uint32_t filenode_depth(const struct filenodes *fns, uint32_t index, bool *ret_exact)
{
	const struct filenode *fn = filenode_get(fns, index);
	uint32_t depth = fn ? filenode_depth_in(fns, fn->parent, ret_exact) : 0;

	if (fn && fn->depth_max >= depth)
		return depth;
	if (ret_exact)
		*ret_exact = false;
	return fn ? fn->depth_max : 0;
}

/* What is in the directory @dir must stay at @depth at least. */
static void count_on(struct filenodes *fns, uint32_t dir, uint32_t depth)
{
	struct filenode *fn = filenode_get(fns, dir);

	/* Where one is counted on as much already, so are those above it. */
	for (; fn && depth-- > 1 && fn->counted < depth; fn = filenode_get(fns, fn->parent)) {
		fn->counted = depth;
		touch(fns, fn);
	}
}

void filenode_count_on(struct filenodes *fns, uint32_t index, uint32_t up)
{
	const struct filenode *fn = filenode_get(fns, index);

	if (fn)
		count_on(fns, fn->parent, up);
}

int filenode_may_move(struct filenodes *fns, const struct filenode_move *m)
{
	const uint32_t depth = filenode_depth_in(fns, m->newparent, NULL);
	struct filenode *fn = NULL;

	while ((fn = each_at(fns, m->parent, m->name, fn)))
		if (fn->counted > depth)
			return -EXDEV;
	while ((fn = each_at(fns, m->parent, m->name, fn))) {
		fn->depth_max = MIN(depth, filenode_depth(fns, fn->index, NULL));
		touch(fns, fn);
		count_on(fns, m->newparent, fn->counted);
	}
	return 0;
}

/* Takes the nodes of a name away from it. Return: their list. */
static struct filenode *take(struct filenodes *fns, uint32_t parent, const char *name)
{
	struct filenode *list = NULL, *fn;

	while ((fn = each_at(fns, parent, name, NULL))) {
		hide(fns, fn);
		fn->next = list;
		list = fn;
	}
	return list;
}

/* No kernel moves a directory into itself; a circle would keep itself alive. */
static bool is_above(const struct filenodes *fns, const struct filenode *fn, uint32_t index)
{
	const struct filenode *at = filenode_get(fns, index);

	while (at && at != fn)
		at = filenode_get(fns, at->parent);
	return at != NULL;
}

static void give(struct filenodes *fns, struct filenode *list, uint32_t parent, const char *name)
{
	for (struct filenode *fn = list, *next; fn; fn = next) {
		struct filenode *old = filenode_get(fns, fn->parent);
		char *copy = strdup(name);

		next = fn->next;
		fn->next = NULL;
		if (is_above(fns, fn, parent)) {
			free(copy);
			continue;
		}
		set_parent(fns, fn, filenode_get(fns, parent) ? parent : 0);
		if (old) {
			old->children--;
			put(fns, old);
		}
		if (!copy)
			continue; /* never found again is safe, too */
		free(fn->name);
		fn->name = copy; /* noted by show() */
		show(fns, fn);
	}
}

void filenode_removed(struct filenodes *fns, uint32_t parent, const char *name)
{
	struct filenode *fn;

	while ((fn = each_at(fns, parent, name, NULL))) {
		fn->ino = FILENODE_REMOVED;
		hide(fns, fn);
	}
}

void filenode_moved(struct filenodes *fns, const struct filenode_move *m, bool exchange)
{
	struct filenode *here = take(fns, m->parent, m->name), *there = NULL;

	if (exchange)
		there = take(fns, m->newparent, m->newname);
	else
		filenode_removed(fns, m->newparent, m->newname);
	give(fns, here, m->newparent, m->newname);
	give(fns, there, m->parent, m->name);
}

/* ---- of a daemon before this one ---- */

#define INDEX_MAX (1u << 24) /* no kernel holds as many */

static int make_room(struct filenodes *fns, uint32_t index)
{
	uint32_t cap = fns->cap ? fns->cap : 64;
	struct filenode **table;

	while (cap <= index)
		cap *= 2;
	if (cap == fns->cap)
		return 0;
	table = reallocarray(fns->table, cap, sizeof(*table));
	if (!table)
		return -ENOMEM;
	memset(table + fns->cap, 0, (cap - fns->cap) * sizeof(*table));
	fns->table = table;
	fns->cap = cap;
	return 0;
}

int filenode_revive(struct filenodes *fns, const struct filenode *like)
{
	struct filenode *fn;

	if (like->index == 0 || like->index >= INDEX_MAX || filenode_get(fns, like->index) ||
	    (like->class != FILENODE_FILE) != (like->name != NULL) ||
	    (like->name ? !proto_name_ok(proto_cstr(like->name)) : like->parent != 0))
		return -EBADMSG;
	fn = make_room(fns, like->index) == 0 ? calloc(1, sizeof(*fn)) : NULL;
	if (!fn)
		return -ENOMEM;
	*fn = (struct filenode){
		.class = like->class,
		.findable = like->findable,
		.index = like->index,
		.epoch = like->epoch,
		.remote = like->remote,
		.ino = like->ino,
		.parent = like->parent,
		.depth_max = like->depth_max,
		.counted = like->counted,
		.lookups = like->lookups,
		.told = like->told,
		.locked = like->locked,
		.name = like->name ? strdup(like->name) : NULL,
	};
	if (like->name && !fn->name) {
		free(fn);
		return -ENOMEM;
	}
	fns->table[fn->index] = fn;
	fns->n++;
	return 0;
}

/* Is it in a directory, and that in another one, and so on up to the root? */
static bool has_way_up(const struct filenodes *fns, const struct filenode *fn)
{
	uint32_t steps = 0;

	while (fn->parent) {
		fn = filenode_get(fns, fn->parent);
		if (!fn || fn->class != FILENODE_DIR || ++steps > fns->n)
			return false;
	}
	return true;
}

int filenodes_join(struct filenodes *fns)
{
	for (uint32_t i = 0; i < fns->cap; i++) {
		struct filenode *fn = fns->table[i];

		if (!fn)
			continue;
		if (!has_way_up(fns, fn))
			return -EBADMSG;
		set_parent(fns, fn, fn->parent);
		fn->findable = fn->findable && !RB_INSERT(filenode_tree, &fns->tree, fn);
		fn->single = fn->class == FILENODE_DIR && !RB_INSERT(filenode_dirs, &fns->dirs, fn);
		note_doubled(fns, fn);
	}
	for (uint32_t i = 0; i < fns->cap; i++) {
		if (fns->table[i] && !fns->table[i]->lookups && !fns->table[i]->children)
			return -EBADMSG;
	}
	return 0;
}
