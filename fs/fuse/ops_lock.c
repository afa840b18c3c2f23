/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests on locks. See ops.c. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "fs/request/nodelock.h"
#include "fs/files/files.h"
#include "ops_internal.h"
#include "fs/session/session.h"

static enum proto_lock_type type_of(short native)
{
	return native == F_RDLCK   ? PROTO_LOCK_SHARED
	       : native == F_WRLCK ? PROTO_LOCK_EXCLUSIVE
				   : PROTO_UNLOCK;
}

static struct lock_ask ask_of(const struct flock *fl, uint64_t owner)
{
	const uint64_t start = (uint64_t)fl->l_start;

	return (struct lock_ask){
		.owner = owner,
		.start = start,
		.end = fl->l_len ? start + (uint64_t)fl->l_len - 1 : (uint64_t)INT64_MAX,
		.type = type_of(fl->l_type),
		.pid = (uint32_t)fl->l_pid,
	};
}

static void lock(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi,
		 struct lock_ask *ask, enum vm_file_op op, bool wait)
{
	struct fs *fs = ops_fs(req);
	struct handle *h = handle_get(&fs->handles, fi->fh);
	struct node n;

	if (!h)
		reply_err(core(req), -EBADF);
	else if (h->ops && op == VM_TEST_LOCK)
		nodelock_test(&fs->locks, h, core(req), ask);
	else if (h->ops)
		nodelock_set(&fs->locks, h, core(req), ask, wait);
	else if (ops_resolve(req, ino, &n))
		files_lock(&n, h, core(req), ask, op, wait);
}

void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl)
{
	struct lock_ask ask = ask_of(fl, fi->lock_owner);

	lock(req, ino, fi, &ask, VM_TEST_LOCK, false);
}

void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl,
	      int sleep)
{
	struct lock_ask ask = ask_of(fl, fi->lock_owner);

	lock(req, ino, fi, &ask, VM_LOCK, sleep);
}

void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	struct lock_ask ask = {
		.owner = fi->lock_owner,
		.end = INT64_MAX,
		.type = op & LOCK_SH   ? PROTO_LOCK_SHARED
			: op & LOCK_EX ? PROTO_LOCK_EXCLUSIVE
				       : PROTO_UNLOCK,
		.whole = true,
	};

	lock(req, ino, fi, &ask, VM_LOCK, !(op & LOCK_NB));
}
