/* SPDX-License-Identifier: Apache-2.0 */
/* The times of a file, and what changes one. See file.h. */
#include "file.h"

#include <fcntl.h>

#include "vm/base/util.h"

#define DAY_S 86400

bool vm_attr_same_times(const struct vm_attr *a, const struct vm_attr *b)
{
	return time_compare(&a->atime, &b->atime) == 0 && time_compare(&a->mtime, &b->mtime) == 0 &&
	       time_compare(&a->ctime, &b->ctime) == 0;
}

bool vm_attr_read_counts(const struct vm_attr *a)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return time_compare(&a->atime, &a->mtime) <= 0 || time_compare(&a->atime, &a->ctime) <= 0 ||
	       now.tv_sec - a->atime.tv_sec >= DAY_S;
}

bool vm_file_changes(const struct vm_file *req)
{
	switch ((int)req->op) {
	case VM_SETATTR:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_UNLINK:
	case VM_RMDIR:
	case VM_RENAME:
	case VM_CREATE:
	case VM_WRITE:
	case VM_FALLOCATE: return true;
	case VM_OPEN: return req->flags & O_TRUNC;
	default: return false;
	}
}
