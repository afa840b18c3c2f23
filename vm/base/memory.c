/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory. See memory.h. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define SEALED (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int memory_new(const char *name)
{
	const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? -errno : fd;
}

int memory_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, SEALED) < 0 ? -errno : 0;
}

bool memory_is_sealed(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALED) == SEALED;
}
