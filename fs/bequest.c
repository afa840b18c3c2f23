/* SPDX-License-Identifier: Apache-2.0 */
/* What an heir has from the daemon before it. See bequest.h. */
#include "bequest.h"

#include <errno.h>
#include <string.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/session/fs.h"
#include "succession.h"
#include "vm/base/estate.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

static void on_copied(void *data)
{
	spawner_alive(data);
}

int bequest_prepare(struct bequest *b, bool resumes)
{
	const int r = estate_new(&b->estate);

	if (r == 0 && resumes)
		devfuse_reserve(b->estate);
	return r;
}

int bequest_open(struct bequest *b, int file, struct spawner *sp)
{
	return estate_take(b->estate, file, on_copied, sp);
}

int bequest_take(void *data, unsigned number, int fd)
{
	struct bequest *b = data;

	spawner_alive(b->s->spawner);
	return fdbag_set(&b->fds, number, fd);
}

static int on_record(void *data, const struct record *rec)
{
	struct bequest *b = data;

	b->kind = rec->kind;
	b->n++;
	return succession_get(b->s, rec, &b->fds, &b->why);
}

static int read_connection(struct bequest *b, struct turn *t)
{
	const int r = devfuse_load(b->s->fuse, b->estate, t);

	b->kind = HANDOVER_CONNECTION;
	if (r == -EOPNOTSUPP)
		problem_set(&b->why, PROBLEM_FAILED, "",
			    "this version wants other things of the kernel than the mount was made "
			    "with; unmount to upgrade");
	return r;
}

int bequest_read(struct bequest *b, struct turn *t)
{
	struct fs *fs = b->s->fs;
	int r;

	vm_set_left(fs->vm, b->estate);
	r = handover_each(b->estate, on_record, b);
	vm_set_left(fs->vm, NULL);
	if (r == 0)
		r = handover_join(fs, &b->why);
	if (r == 0)
		r = read_connection(b, t);
	if (r < 0 && !b->why.code)
		problem_set(&b->why, PROBLEM_FAILED, "",
			    "what there is of the daemon before can't be read: record %u: %s",
			    b->kind, strerror(-r));
	return r;
}

void bequest_fini(struct bequest *b)
{
	fdbag_clear(&b->fds);
}
