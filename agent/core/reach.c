/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"

#include <errno.h>
#include <sys/uio.h>

static ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EFAULT ? 0 : -1;
}

ssize_t reach_read(pid_t pid, uint64_t at, void *bytes, size_t len)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	const struct iovec ours = {bytes, len}, theirs = {(void *)(uintptr_t)at, len};

	return result(process_vm_readv(pid, &ours, 1, &theirs, 1, 0));
}

ssize_t reach_write(pid_t pid, uint64_t at, const void *bytes, size_t len)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	const struct iovec ours = {(void *)bytes, len}, theirs = {(void *)(uintptr_t)at, len};

	return result(process_vm_writev(pid, &ours, 1, &theirs, 1, 0));
}
