/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: there is one, which says who changed a file last. */
#include <errno.h>
#include <string.h>

#include "fs/files/files.h"
#include "fs/session/session.h"
#include "ops_internal.h"

/*
 * Theory of operation
 * -------------------
 * It is no attribute of the sandbox's files, where user code could set it, but worked out when somebody asks (see the agent's
 * origin.h). As with attributes of this kind elsewhere, listxattr(2) does not name it: cp -a, rsync -X and tar would take it along,
 * and fail when they bring it back. So listxattr is not served at all, and the kernel never asks for it.
 *
 * Other names are asked for by programs and by the kernel itself: access control lists by ls -l, capabilities by truncate(2).
 * They are answered here, and not with ENOSYS, on which the kernel would not ask for this one any more.
 */

#define ORIGIN "user.xsbxfs.origin"

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct vm_file rq = {.op = VM_ORIGIN, .size = size};
	struct node n;

	if (strcmp(name, ORIGIN) != 0) {
		reply_err(core(req), -EOPNOTSUPP);
		return;
	}
	if (!ops_look(req, ino, &n))
		return;
	if (ops_asks_files(&n) || n.kind == NODE_CHECKPOINT_FILES)
		files_request(&n, NULL, core(req), &rq, NULL, 0);
	else
		reply_err(core(req), -ENODATA);
}

static void refuse(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct node n;

	if (strcmp(name, ORIGIN) != 0) {
		reply_err(core(req), -EOPNOTSUPP);
		return;
	}
	if (!ops_resolve(req, ino, &n))
		return;
	if (n.s)
		session_problemf(
			n.s, PROBLEM_ORIGIN_FIXED,
			"Leave it out: cp --no-preserve=xattr, rsync without -X, tar without "
			"--xattrs.",
			ORIGIN " says who changed a file last, and nobody sets it");
	reply_err(core(req), -EPERM);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags)
{
	(void)value;
	(void)size;
	(void)flags;
	refuse(req, ino, name);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	refuse(req, ino, name);
}
