/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed tree: attributes, lookup and listings. */
#include "dir.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fs/files/files.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"
#include "table.h"
#include "nodes.h"
#include "question_node.h"

/* ---- attributes ---- */

/*
 * While a text node is open, its size is that of the text of the newest open: a program that queries the
 * size after opening it gets the size of what it reads.
 */
static int text_size(const struct node *n, uint64_t *ret_size)
{
	const struct handle *h = handle_find(&n->fs->handles, n->ino, &text_ops);
	struct buf b = {0};
	int e;

	if (h) {
		*ret_size = h->text.len;
		return 0;
	}
	e = node_render(n, &b);
	if (e == 0)
		*ret_size = b.len;
	buf_clear(&b);
	return e;
}

static int node_size(const struct node *n, uint64_t *ret_size)
{
	const struct node_def *def = &node_defs[n->kind];

	if (!def->size)
		return def->render ? text_size(n, ret_size) : 0;
	*ret_size = def->size(n);
	return 0;
}

static struct timespec node_mtime(const struct node *n)
{
	return node_defs[n->kind].mtime ? node_defs[n->kind].mtime(n) : clock_now();
}

static int scratch_stat(const struct node *n, struct stat *st)
{
	const struct scratch_file *f = scratch_by_id(n->s, n->sub);

	if (!f)
		return -ESTALE;
	st->st_mode = S_IFREG | f->mode;
	st->st_nlink = f->unlinked ? 0 : 1;
	st->st_size = (off_t)f->data.len;
	st->st_blocks = (blkcnt_t)(f->data.len + 511) / 512;
	st->st_mtim = st->st_ctim = st->st_atim = f->mtime;
	return 0;
}

/* Is it one of the root's that everybody has one of his own of? */
static bool is_callers(enum node_kind kind)
{
	return kind == NODE_ROOT_ERROR || kind == NODE_ROOT_PAGE || kind == NODE_ROOT_QUOTA;
}

int dir_stat(const struct node *n, struct stat *ret_st)
{
	struct stat st = {
		.st_ino = node_shown(n->ino),
		.st_mode = node_defs[n->kind].mode,
		.st_nlink = 1,
		.st_uid = n->s ? n->s->uid : n->fs->uid,
		.st_gid = n->s ? n->s->gid : n->fs->gid,
		.st_blksize = 4096,
	};
	uint64_t size = 0;
	int e;

	assert(n->s || !ino_is_of_session(n->kind));
	if (is_callers(n->kind))
		st.st_uid = n->sub;
	if (n->kind == NODE_FILES) {
		files_root_stat(n->s, ret_st);
		return 0;
	}
	if (n->kind == NODE_SCRATCH) {
		e = scratch_stat(n, &st);
	} else if (S_ISDIR(st.st_mode)) {
		st.st_nlink = 2;
		st.st_mtim = node_mtime(n);
		if (n->kind == NODE_CHECKPOINT)
			st.st_size = (off_t)checkpoint_bytes(n->checkpoint);
		e = 0;
	} else {
		e = node_size(n, &size);
		st.st_size = (off_t)size;
		st.st_blocks = (blkcnt_t)(size + 511) / 512;
		st.st_mtim = node_mtime(n);
	}
	if (e < 0)
		return e;
	st.st_atim = st.st_ctim = st.st_mtim;
	*ret_st = st;
	return 0;
}

/* ---- lookup ---- */

static bool absent(const struct node *n)
{
	return node_defs[n->kind].is_there && !node_defs[n->kind].is_there(n);
}

/* The number of a directory's fixed child. */
static uint64_t child_ino(const struct node *dir, enum node_kind kind)
{
	bool epoch = kind == NODE_FILES || kind == NODE_RUNS || kind == NODE_NET ||
		     kind == NODE_JOBS || kind == NODE_CHECKPOINTS || question_moves(kind);

	if (is_callers(kind))
		return node_sibling(dir, kind, dir->fs->caller);
	return node_sibling(dir, kind, epoch ? dir->s->dir_epoch : dir->sub);
}

int dir_lookup(const struct node *dir, const char *name, struct node *ret_n)
{
	enum node_kind kind = node_child(dir->kind, name);
	struct node n;
	uint64_t ino;
	int e;

	if (!S_ISDIR(node_defs[dir->kind].mode))
		return -ENOTDIR;
	if (strlen(name) > NAME_MAX)
		return -ENAMETOOLONG;
	if (kind != NODE_NONE) {
		ino = child_ino(dir, kind);
	} else {
		e = node_defs[dir->kind].find ? node_defs[dir->kind].find(dir, name, &ino)
					      : -ENOENT;
		if (e < 0)
			return e;
	}
	if (node_resolve(dir->fs, node_fresh(dir->fs, ino), &n) < 0 || absent(&n))
		return -ENOENT;
	*ret_n = n;
	return 0;
}

/* ---- listings ---- */

struct entry {
	uint64_t ino;
	uint32_t type;
	char name[NAME_MAX + 1];
};

static void put(void *data, uint64_t ino, mode_t mode, const char *name)
{
	struct entry e = {.ino = ino, .type = mode & S_IFMT};

	snprintf(e.name, sizeof(e.name), "%s", name);
	(void)buf_append(data, &e, sizeof(e));
}

static void put_fixed(struct buf *b, const struct node *dir)
{
	for (int k = 0; k < NODE_NKINDS; k++) {
		struct node n;

		if (node_defs[k].parent != dir->kind || !node_defs[k].name)
			continue;
		if (node_resolve(dir->fs, child_ino(dir, (enum node_kind)k), &n) == 0 &&
		    !absent(&n))
			put(b, n.ino, node_defs[k].mode, node_defs[k].name);
	}
}

/* ".." may show the directory's own number: nothing but getcwd(3)'s slow path looks at it, and the kernel
 * answers that itself. */
int dir_open(struct handle *h, const struct node *dir)
{
	put(&h->text, dir->ino, S_IFDIR, ".");
	put(&h->text, dir->ino, S_IFDIR, "..");
	put_fixed(&h->text, dir);
	if (node_defs[dir->kind].list)
		node_defs[dir->kind].list(dir, put, &h->text);
	return h->text.failed;
}

void dir_read(struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	struct fs *fs = h->fs;
	size_t n = h->text.len / sizeof(struct entry), len = 0, cap = MIN(size, sizeof(fs->io));

	for (uint64_t i = offset; i < n; i++) {
		struct entry e;

		memcpy(&e, h->text.data + i * sizeof(e), sizeof(e));
		if (!reply_dirent(req, fs->io, cap, &len, e.name, e.ino, e.type, i + 1))
			break;
	}
	reply_buf(req, fs->io, len);
}
