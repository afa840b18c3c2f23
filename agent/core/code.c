/* SPDX-License-Identifier: Apache-2.0 */
/* Code in sealed files, see memfd_create(2). */
#include "code.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/base/io.h"

int code_new(void)
{
	return memfd_create("code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int code_put(int fd, struct proto_str before)
{
	return fileio_write_at(fd, before.data, before.len, 0);
}

int code_seal(int fd, struct proto_str code)
{
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	const off_t end = lseek(fd, 0, SEEK_END);
	const int r = end < 0 ? -errno : fileio_write_at(fd, code.data, code.len, (uint64_t)end);

	if (r < 0)
		return r;
	return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}
