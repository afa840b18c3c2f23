/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes bundles: imported into a directory in memory, where nothing may be left but whole objects. */
/* modules: vm/store/import.c vm/store/assemble.c vm/store/bundle.c vm/store/manifest.c vm/store/chunk.c vm/store/kind.c vm/base/io.c vm/base/sparse.c vm/base/buf.c vm/base/digest.c vm/base/remove.c */
/* libs: crypto jansson zstd */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/remove.h"
#include "vm/store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum store_end store_fail(struct store *st, enum store_end end, const char *fmt, ...)
{
	(void)st;
	(void)fmt;
	return end;
}

void store_say(const char *fmt, ...)
{
	(void)fmt;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dir[] = "/dev/shm/xsbx-fuzz-bundle-XXXXXX";
	static int made;
	struct store st = {.chunk_bytes = 65536};
	const int fd = memfd_create("bundle", MFD_CLOEXEC);
	enum store_end end;

	if (!made)
		assert(mkdtemp(dir));
	else
		assert(mkdir(dir, 0700) == 0);
	made = 1;
	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	end = store_import(&st, dir, fd);
	assert(end == STORE_DONE || end == STORE_DAMAGED || end == STORE_FAILED);
	close(fd);
	assert(remove_tree(dir) == 0);
	return 0;
}
