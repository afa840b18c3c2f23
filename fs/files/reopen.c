/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: files that were open for reading when the session woke. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "fs/request/nodelock.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * sed -i opens a file of a session that is asleep, makes another one beside it, which wakes the session, and reads on. A file
 * has no place (filenode.h), but in what was saved it has: that is noted with the handle. The first read from it when the
 * sandbox is up walks that way there. If the file that it comes to has the size and the time that the saved one had, it is that
 * one, is opened there, and the handle is one of the agent's from then on. Else it is ESTALE, as in every other case.
 *
 * Of each step's node the agent has granted a lookup, which is given back when the next one is known. That of the file is the
 * node's, which is the sandbox's then.
 */

struct file_was {
	uint64_t size;
	struct timespec mtime;
	char path[];
};

struct file_was *reopen_note(const struct pack *pack, uint32_t entry)
{
	struct file_was *was;
	struct pack_attr a;
	size_t len = 0;

	for (uint32_t at = entry; at != PACK_ROOT; at = pack_parent(pack, at))
		len += strlen(pack_name(pack, at)) + 1;
	was = len ? malloc(sizeof(*was) + len) : NULL;
	if (!was)
		return NULL;
	pack_attr(pack, entry, &a);
	was->size = a.size;
	was->mtime = a.mtime;
	was->path[--len] = '\0';
	for (uint32_t at = entry; at != PACK_ROOT; at = pack_parent(pack, at)) {
		const char *name = pack_name(pack, at);

		len -= strlen(name);
		memcpy(was->path + len, name, strlen(name));
		if (len)
			was->path[--len] = '/';
	}
	return was;
}

bool reopen_may(const struct handle *h, const struct vm_file *rq)
{
	return h->was && h->packed && h->epoch != h->s->epoch && h->s->ready &&
	       (rq->op == VM_READ || rq->op == VM_SEEK);
}

/* ---- the way there ---- */

static void give_back(const struct file_op *op)
{
	if (op->dir != VM_FILES_ROOT && op->epoch == op->s->epoch)
		files_tell_forget(op->s, op->dir, 1);
}

static void on_opened(void *data, int err, const struct vm_file_reply *reply)
{
	struct file_op *op = data;
	struct session *s = op->s;
	struct filenode *fn = filenode_get(op->nodes, op->index);
	struct handle *h = op->reopens;

	if (!files_goes_on(op, err, VM_OPEN, reply, fn)) {
		give_back(op);
		files_op_fail(op, -ESTALE);
		return;
	}
	if (fn->epoch != s->epoch)
		filenode_follow(op->nodes, fn, s->epoch, op->dir);
	else
		give_back(op);
	if (h->packed) {
		nodelock_release(&s->fs->locks, h); /* those that were of what was saved */
		h->remote = reply->handle;
		h->epoch = s->epoch;
		h->packed = false;
		handle_touch(h);
	} else { /* another read was faster */
		files_tell_release(s, reply->handle);
	}
	op->go_on(op);
}

static int look_up(struct file_op *op);

static void on_found(void *data, int err, const struct vm_file_reply *reply)
{
	struct file_op *op = data;
	const struct file_was *was = op->req ? op->reopens->was : NULL;
	const struct vm_attr *a = err == 0 ? &reply->attr : NULL;
	const char *rest = was ? strchr(was->path + op->at, '/') : NULL;
	const bool fits = err == 0 && was &&
			  (rest ? S_ISDIR(a->mode)
				: S_ISREG(a->mode) && a->size == was->size &&
					   time_compare(&a->mtime, &was->mtime) == 0);

	give_back(op);
	if (!files_goes_on(op, err, VM_LOOKUP, reply, fits)) {
		files_op_fail(op, -ESTALE);
		return;
	}
	op->dir = reply->node;
	if (rest) {
		op->at = (size_t)(rest + 1 - was->path);
		err = look_up(op);
	} else {
		err = files_ask(
			op, &(struct vm_file){.op = VM_OPEN, .node = op->dir, .flags = O_RDONLY},
			on_opened);
	}
	if (err < 0) {
		give_back(op);
		files_op_fail(op, err);
	}
}

static int look_up(struct file_op *op)
{
	const char *at = op->reopens->was->path + op->at;
	const size_t len = strcspn(at, "/");
	char name[NAME_MAX + 1];

	if (len >= sizeof(name))
		return -ESTALE;
	memcpy(name, at, len);
	name[len] = '\0';
	return files_ask(op, &(struct vm_file){.op = VM_LOOKUP, .node = op->dir, .name = name},
			 on_found);
}

int files_reopen(struct file_op *op, void (*go_on)(struct file_op *op))
{
	struct handle *h = op->reopens;
	int e;

	if (!h->packed) {
		op->reopens = NULL;
		op->rq.handle = h->remote;
		return h->epoch == op->s->epoch ? 0 : -ESTALE;
	}
	op->dir = VM_FILES_ROOT;
	op->at = 0;
	op->go_on = go_on;
	e = look_up(op);
	return e < 0 ? e : 1;
}
