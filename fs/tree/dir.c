/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed tree: attributes, lookup and listings. */
#include "dir.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fs/mount.h"
#include "input.h"
#include "fs/request/reply.h"
#include "fs/session/session.h"
#include "stream.h"
#include "text.h"

/* ---- attributes ---- */

static struct timespec run_time(const struct run *r)
{
	if (run_ended(r))
		return r->ended;
	return r->started.tv_sec ? r->started : r->submitted;
}

/* mtimes are real: the last change of what the node shows. */
static struct timespec node_mtime(struct fs *fs, const struct node *n)
{
	const struct session *s = n->s;
	const struct complaint *c;
	const struct handle *w;

	if (n->r) {
		if (n->kind == NODE_RUN_IN)
			return n->r->submitted;
		if (node_defs[n->kind].ops == &run_stream_ops)
			return n->r->last_output;
		return run_time(n->r);
	}
	switch ((int)n->kind) {
	case NODE_ROOT:
	case NODE_ROOT_README:
	case NODE_ROOT_CTL:
	case NODE_TEMPLATE_JSON:
	case NODE_TEMPLATE_README: return fs->started;
	case NODE_ROOT_STATUS:
	case NODE_METRICS:
	case NODE_EVENTS: return fs->events.mtime;
	case NODE_ISOLATION:
	case NODE_DOCTOR: return fs->started;
	case NODE_ROOT_ERROR: c = complaint_of(fs, n->sub); return c ? c->time : fs->started;
	case NODE_TEMPLATE: return fs->template_mtime[n->template_index];
	case NODE_IN: w = input_writer(n->s); return w ? w->mtime : s->in_mtime;
	case NODE_STDIN: return s->stdin_mtime;
	case NODE_STDOUT:
	case NODE_STDERR:
	case NODE_OUTPUT: return s->latest ? s->latest->last_output : s->created;
	case NODE_EXIT_CODE:
	case NODE_SUMMARY: return s->latest ? run_time(s->latest) : s->created;
	case NODE_CONFIG:
	case NODE_NET_ALLOW:
	case NODE_README: return s->config_mtime;
	case NODE_NET: return s->net_changed;
	case NODE_NET_DENIED: return s->netlog.mtime.tv_sec ? s->netlog.mtime : s->created;
	case NODE_PORTS: return s->ports_mtime;
	case NODE_ERROR: return s->error_mtime;
	case NODE_CONSOLE: return s->console_mtime;
	case NODE_RUNS:
	case NODE_LATEST: return s->runs_mtime;
	case NODE_SESSION: return s->changed;
	case NODE_STATE:
	case NODE_STATUS:
	case NODE_CTL: return s->state_mtime;
	default: return fs_now();
	}
}

static int node_size(struct fs *fs, const struct node *n, uint64_t *ret_size)
{
	const struct handle *w;
	char target[16];

	switch ((int)n->kind) {
	case NODE_IN:
		w = input_writer(n->s);
		*ret_size = w ? w->text.len : n->s->last_code.len;
		return 0;
	case NODE_STDIN: *ret_size = n->s->next_stdin.len; return 0;
	case NODE_CHANGES: /* known when it is read */
		*ret_size = handles_stream(fs, n->ino) ? CHANGES_UNKNOWN : 0;
		return 0;
	case NODE_ROOT_CTL:
	case NODE_CTL: *ret_size = 0; return 0;
	case NODE_EVENTS: *ret_size = events_size(&fs->events, NULL); return 0;
	case NODE_LATEST:
		dir_latest(n, target);
		*ret_size = strlen(target);
		return 0;
	case NODE_STDOUT:
	case NODE_STDERR:
	case NODE_OUTPUT:
	case NODE_EXIT_CODE: *ret_size = stream_size(fs, n, n->s->latest); return 0;
	case NODE_RUN_STDOUT:
	case NODE_RUN_STDERR:
	case NODE_RUN_OUTPUT:
	case NODE_RUN_WAIT: *ret_size = stream_size(fs, n, n->r); return 0;
	default: return text_size(fs, n, ret_size);
	}
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

int dir_stat(struct fs *fs, const struct node *n, struct stat *ret_st)
{
	struct stat st = {
		.st_ino = n->ino,
		.st_mode = node_defs[n->kind].mode,
		.st_nlink = 1,
		.st_uid = n->s ? n->s->uid : fs->uid,
		.st_gid = n->s ? n->s->gid : fs->gid,
		.st_blksize = 4096,
	};
	uint64_t size = 0;
	int e;

	assert(n->s || n->kind < NODE_SESSION);
	if (n->kind == NODE_ROOT_ERROR)
		st.st_uid = n->sub;
	if (n->kind == NODE_FILES) {
		files_root_stat(n->s, ret_st);
		return 0;
	}
	if (n->kind == NODE_SCRATCH) {
		e = scratch_stat(n, &st);
	} else if (S_ISDIR(st.st_mode)) {
		st.st_nlink = 2;
		st.st_mtim = node_mtime(fs, n);
		e = 0;
	} else {
		e = node_size(fs, n, &size);
		st.st_size = (off_t)size;
		st.st_blocks = (blkcnt_t)(size + 511) / 512;
		st.st_mtim = node_mtime(fs, n);
	}
	if (e < 0)
		return e;
	st.st_atim = st.st_ctim = st.st_mtim;
	*ret_st = st;
	return 0;
}

/* ---- lookup ---- */

/* Nodes that are not always there. */
static bool absent(const struct node *n)
{
	switch ((int)n->kind) {
	case NODE_IN: return n->s->in_absent && !input_writer(n->s);
	case NODE_CHANGES: return !*n->s->settings.work;
	case NODE_EXIT_CODE: return !n->s->latest && !session_input_pending(n->s);
	case NODE_LATEST: return !n->s->latest || !session_run(n->s, n->s->latest->number);
	case NODE_RUN_EXIT_CODE: return !run_has_status(n->r);
	default: return false;
	}
}

/* The number of a directory's fixed child. */
static uint64_t child_ino(const struct fs *fs, const struct node *dir, enum node_kind kind)
{
	bool epoch = kind == NODE_FILES || kind == NODE_RUNS || kind == NODE_NET;

	if (kind == NODE_ROOT_ERROR)
		return node_sibling(dir, kind, fs->caller);
	return node_sibling(dir, kind, epoch ? dir->s->dir_epoch : dir->sub);
}

/* "7", not "07" nor "+7". Return: 0 if it is no number of a run. */
static uint32_t run_number(const char *name)
{
	char *end;
	unsigned long v;

	if (name[0] < '1' || name[0] > '9')
		return 0;
	errno = 0;
	v = strtoul(name, &end, 10);
	return *end || errno || v > UINT32_MAX ? 0 : (uint32_t)v;
}

static int lookup_scratch(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct scratch_file *f = scratch_find(dir->s, dir->kind, name);

	if (!f)
		return -ENOENT;
	*ret_ino = node_of_session(dir->s, NODE_SCRATCH, f->id);
	return 0;
}

static int lookup_free_name(struct fs *fs, const struct node *dir, const char *name,
			    uint64_t *ret_ino)
{
	const struct session *s;

	switch ((int)dir->kind) {
	case NODE_ROOT:
		for (unsigned i = 0; i < fs->conf->ntemplates; i++) {
			if (strcmp(fs->conf->template[i].name, name))
				continue;
			*ret_ino = node_ino(NODE_TEMPLATE, i, 0, 0);
			return 0;
		}
		return -ENOENT;
	case NODE_TEMPLATE:
		s = session_find(fs, dir->template_index, name);
		if (!s)
			return -ENOENT;
		*ret_ino = node_of_session(s, NODE_SESSION, 0);
		return 0;
	case NODE_SESSION:
	case NODE_NET: return lookup_scratch(dir, name, ret_ino);
	case NODE_RUNS: *ret_ino = node_of_session(dir->s, NODE_RUN, run_number(name)); return 0;
	default: return -ENOENT;
	}
}

int dir_lookup(struct fs *fs, const struct node *dir, const char *name, struct node *ret_n)
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
		ino = child_ino(fs, dir, kind);
	} else {
		e = lookup_free_name(fs, dir, name, &ino);
		if (e < 0)
			return e;
	}
	if (node_resolve(fs, ino, &n) < 0 || absent(&n))
		return -ENOENT;
	*ret_n = n;
	return 0;
}

void dir_latest(const struct node *n, char target[16])
{
	assert(n->s);
	snprintf(target, 16, "%u", n->s->latest ? n->s->latest->number : 0);
}

/* ---- listings ---- */

struct entry {
	uint64_t ino;
	uint32_t type;
	char name[NAME_MAX + 1];
};

static void put(struct buf *b, uint64_t ino, mode_t mode, const char *name)
{
	struct entry e = {.ino = ino, .type = mode & S_IFMT};

	snprintf(e.name, sizeof(e.name), "%s", name);
	(void)buf_append(b, &e, sizeof(e));
}

static void put_fixed(struct fs *fs, struct buf *b, const struct node *dir)
{
	for (int k = 0; k < NODE_NKINDS; k++) {
		struct node n;

		if (node_defs[k].parent != dir->kind || !node_defs[k].name)
			continue;
		if (node_resolve(fs, child_ino(fs, dir, (enum node_kind)k), &n) == 0 && !absent(&n))
			put(b, n.ino, node_defs[k].mode, node_defs[k].name);
	}
}

static void put_free(struct fs *fs, struct buf *b, const struct node *dir)
{
	const struct scratch_file *f;
	const struct run *r;
	char number[16];

	switch ((int)dir->kind) {
	case NODE_ROOT:
		for (unsigned i = 0; i < fs->conf->ntemplates; i++)
			put(b, node_ino(NODE_TEMPLATE, i, 0, 0), S_IFDIR,
			    fs->conf->template[i].name);
		break;
	case NODE_TEMPLATE:
		for (unsigned i = 0; i < fs->nslots; i++) {
			const struct session *s = fs->slot[i];

			if (s && s->template_index == dir->template_index)
				put(b, node_of_session(s, NODE_SESSION, 0), S_IFDIR, s->name);
		}
		break;
	case NODE_SESSION:
	case NODE_NET:
		TAILQ_FOREACH(f, &dir->s->scratch.files, link)
			if (!f->unlinked && f->dir == dir->kind)
				put(b, node_of_session(dir->s, NODE_SCRATCH, f->id), S_IFREG,
				    f->name);
		break;
	case NODE_RUNS:
		TAILQ_FOREACH(r, &dir->s->runs, link) {
			snprintf(number, sizeof(number), "%u", r->number);
			put(b, node_of_session(dir->s, NODE_RUN, r->number), S_IFDIR, number);
		}
		break;
	default: break;
	}
}

/* ".." may show the directory's own number: nothing but getcwd(3)'s slow path looks at it, and the kernel
 * answers that itself. */
int dir_open(struct fs *fs, struct handle *h, const struct node *dir)
{
	put(&h->text, dir->ino, S_IFDIR, ".");
	put(&h->text, dir->ino, S_IFDIR, "..");
	put_fixed(fs, &h->text, dir);
	put_free(fs, &h->text, dir);
	return 0;
}

void dir_read(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	size_t n = h->text.len / sizeof(struct entry), len = 0, cap = MIN(size, sizeof(fs->io));

	for (uint64_t i = offset; i < n; i++) {
		struct entry e;

		memcpy(&e, h->text.data + i * sizeof(e), sizeof(e));
		if (!reply_dirent(req, fs->io, cap, &len, e.name, e.ino, e.type, i + 1))
			break;
	}
	reply_buf(req, fs->io, len);
}
