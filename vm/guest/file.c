/* SPDX-License-Identifier: Apache-2.0 */
/* The times of a file. See file.h. */
#include "file.h"

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
