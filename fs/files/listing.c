/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: the listing of an open directory. See listing.h. */
#include "listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "fs/session/fs.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * Where a program is in a directory, only what lists it knows: a file system of the sandbox by numbers of its own, in an order of
 * its own, what was saved by others. A session may fall asleep or wake up in the middle, and what rm(1) or find(1) has not seen
 * yet could not be told. So a directory is read whole when somebody begins to read it, or begins anew (rewinddir(3)), and what
 * the kernel asks for from then on is answered from that, the offset being how many entries it has had. If the session falls
 * asleep or wakes up before that is done, it begins anew where the directory is now: nobody was told anything of it yet.
 *
 * A handle that was opened in another sandbox, in what was saved, or in a session without a sandbox is opened once more
 * where the session is now, before it is read.
 *
 * The entries are the handle's text: so they are in its user's quota, and in the records for the next daemon. While `bound` is not
 * set they are not all there. When they are, they are sorted by name, unless they are very many: the same files are listed in the
 * same order then, in whatever order they were made, or came back. What is longer than LISTING_MAX, or has no room in the quota, is not kept, but read piece by
 * piece, by offsets of whoever lists it: that ends with ESTALE when the session falls asleep or wakes up.
 */

#define LISTING_MAX    (8u << 20) /* bytes, a quarter of a million names */
#define LISTING_SORTED 10000u	  /* names: some milliseconds */
#define DOTS	       2u	  /* "." and "..", which come first */

/* Behind it comes the name. */
struct entry {
	uint64_t ino;
	uint32_t type, size; /* of the name, with its end */
};

static struct handle *handle_of(const struct file_op *op)
{
	return handle_get(&op->s->fs->handles, op->fh);
}

/* ---- what is there ---- */

bool listing_is_there(const struct handle *h, const struct vm_file *rq)
{
	return rq->op == VM_READDIR && rq->offset && h->bound;
}

bool listing_goes_on(const struct handle *h, const struct vm_file *rq)
{
	return rq->op == VM_READDIR && (!rq->offset || h->bound);
}

/* Return: the name of the entry at @at, which is advanced; NULL: there is none. */
static const char *next_entry(const struct buf *text, size_t *at, struct entry *ret_e)
{
	const size_t left = *at < text->len ? text->len - *at : 0;
	const char *name;

	if (left < sizeof(*ret_e))
		return NULL;
	memcpy(ret_e, text->data + *at, sizeof(*ret_e));
	name = text->data + *at + sizeof(*ret_e);
	if (!ret_e->size || ret_e->size > left - sizeof(*ret_e) || name[ret_e->size - 1])
		return NULL;
	*at += sizeof(*ret_e) + ret_e->size;
	return name;
}

/* It begins at the entry at which the last answer ended, as a rule. */
void listing_answer(struct handle *h, struct req *req, size_t size, uint64_t offset)
{
	struct fs *fs = h->fs;
	const size_t cap = MIN(size, sizeof(fs->io));
	uint64_t i = h->entry <= offset ? h->entry : 0;
	size_t at = h->entry <= offset ? h->entry_at : 0, len = 0;
	const char *name;
	struct entry e;

	for (;;) {
		const size_t before = at;

		name = next_entry(&h->text, &at, &e);
		if (i >= offset &&
		    (!name || !reply_dirent(req, fs->io, cap, &len, name, e.ino, e.type, i + 1))) {
			h->entry = i;
			h->entry_at = before;
			break;
		}
		if (!name)
			break;
		i++;
	}
	reply_buf(req, fs->io, len);
}

/* ---- what is read ---- */

int listing_add(struct file_op *op, const char *name, uint64_t ino, uint32_t type)
{
	struct handle *h = handle_of(op);
	const struct entry e = {.ino = ino, .type = type, .size = (uint32_t)strlen(name) + 1};
	int r;

	/* The kernel does not ask twice at once: but if it did, they would be mixed up. */
	if (!h || h->text.len != op->listed)
		return -EIO;
	if (h->text.len + sizeof(e) + e.size > LISTING_MAX)
		return -EFBIG;
	r = buf_append(&h->text, &e, sizeof(e));
	if (r == 0)
		r = buf_append(&h->text, name, e.size);
	op->listed = h->text.len;
	return r;
}

static void begin_anew(struct file_op *op)
{
	struct handle *h = handle_of(op);

	op->rq.op = VM_READDIR;
	op->rq.offset = op->rq.lookups = 0;
	op->rq.claim = 0; /* it is several requests, which another daemon begins anew */
	op->listed = 0;
	if (!h)
		return;
	buf_clear(&h->text);
	h->bound = false;
	h->entry = 0;
	h->entry_at = 0;
	handle_rewrite(h, 0);
}

/* If there is no memory for the first ones, `failed` of the text says so in the end. */
void listing_again(struct file_op *op)
{
	begin_anew(op);
	op->rq.size = PROTO_DATA_MAX;
	(void)listing_add(op, ".", op->ino, S_IFDIR);
	(void)listing_add(op, "..", op->ino, S_IFDIR);
}

void listing_begin(struct file_op *op)
{
	op->listing = true;
	op->room = op->rq.size;
	listing_again(op);
}

void listing_leave(struct file_op *op)
{
	begin_anew(op);
	op->listing = false;
	/* All that the agent answers has to have room: it would not go on at what was left out. */
	op->rq.size = op->room - MIN(op->room, (size_t)DOTS_SIZE);
}

/* Is it open in the sandbox that there is now? */
static bool is_open(const struct file_op *op, const struct handle *h)
{
	return h->remote && !h->packed && h->epoch == op->s->epoch;
}

int listing_ask(struct file_op *op)
{
	const struct handle *h = handle_of(op);

	if (!h)
		return -EBADF;
	op->rq.op = is_open(op, h) ? VM_READDIR : VM_OPENDIR;
	op->rq.handle = is_open(op, h) ? h->remote : 0;
	return 0;
}

static int take_open(struct file_op *op, const struct vm_file_reply *reply)
{
	struct handle *h = handle_of(op);

	if (!h || is_open(op, h)) {
		files_undo(op, reply);
		return h ? 1 : -EBADF;
	}
	h->remote = reply->handle;
	h->epoch = op->s->epoch;
	h->packed = false;
	handle_touch(h);
	return 1;
}

int listing_take(struct file_op *op, const struct vm_file_reply *reply)
{
	const size_t before = op->listed;
	int r = 0;

	if (op->rq.op == VM_OPENDIR)
		return take_open(op, reply);
	if (!reply->nentries) {
		listing_end(op);
		return 0;
	}
	for (size_t i = 0; r == 0 && i < reply->nentries; i++) {
		const struct vm_dirent *d = &reply->entries[i];

		r = listing_add(op, d->name, files_shown_ino(op, d->ino),
				files_shown_mode(d->type));
		op->rq.offset = d->next;
	}
	if (r == -EIO)
		return r;
	if (r < 0 || !quota_fits(op->s->fs, op->s, op->listed - before))
		listing_leave(op);
	return 1;
}

/* ---- in which order ---- */

struct sorted {
	const char *name;
	size_t at, len; /* of the entry, in the text */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sorted *)a)->name, ((const struct sorted *)b)->name);
}

/* Finds all entries. Return: how many; more than LISTING_SORTED: too many to be sorted; @ret_in_order: they are already. */
static size_t find_entries(const struct buf *text, struct sorted all[LISTING_SORTED],
			   bool *ret_in_order)
{
	size_t n = 0, at = 0;
	const char *name;
	struct entry e;

	*ret_in_order = true;
	for (size_t begin = 0; (name = next_entry(text, &at, &e)); begin = at) {
		if (n == LISTING_SORTED)
			return n + 1;
		all[n] = (struct sorted){name, begin, at - begin};
		if (n > DOTS && by_name(&all[n - 1], &all[n]) > 0)
			*ret_in_order = false;
		n++;
	}
	return n;
}

/* A file system lists names as it likes: here they are in the order of their bytes, if it does not take long, behind "." and "..".
 * Without memory for that they stay as they are. */
static void sort(struct handle *h)
{
	struct sorted *all = malloc(LISTING_SORTED * sizeof(*all));
	struct buf text = {.limit = h->text.limit};
	bool in_order = true;
	const size_t n = all ? find_entries(&h->text, all, &in_order) : 0;

	if (in_order || n <= DOTS || n > LISTING_SORTED || buf_reserve(&text, h->text.len) < 0) {
		free(all);
		return;
	}
	qsort(all + DOTS, n - DOTS, sizeof(*all), by_name);
	for (size_t i = 0; i < n; i++)
		(void)buf_append(&text, h->text.data + all[i].at, all[i].len);
	memcpy(h->text.data, text.data, text.len);
	handle_rewrite(h, 0);
	buf_clear(&text);
	free(all);
}

void listing_end(struct file_op *op)
{
	struct handle *h = handle_of(op);
	const int r = h ? h->text.failed : -EBADF;

	if (r < 0) {
		reply_err(files_op_req(op), r);
		return;
	}
	sort(h);
	h->bound = true;
	handle_touch(h);
	listing_answer(h, files_op_req(op), op->room, 0);
}
