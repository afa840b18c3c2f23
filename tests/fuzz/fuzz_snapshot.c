/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what stands in the cache beside snapshots and images: their manifests. */
/* modules: vm */
/* libs: uv crypto jansson seccomp zstd */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/image/image.h"
#include "vm/base/log.h"
#include "vm/base/remove.h"
#include "vm/image/snapshot.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An even first byte: the manifest of a snapshot, an odd one: that of an image and of its kernel. */

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char top[64];

static void put(const char *name, const void *data, size_t len)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

static void make_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	assert(mkdir(path, 0700) == 0);
}

static void clean(void)
{
	(void)remove_tree(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	strcpy(top, "/tmp/xsbxfs-fuzz.XXXXXX");
	assert(mkdtemp(top));
	atexit(clean);
	make_dir("snapshots");
	make_dir("snapshots/" KEY);
	make_dir("images");
	make_dir("images/templates");
	make_dir("images/templates/python");
	make_dir("images/templates/kernel");
	put("snapshots/" KEY "/ram", "x", 1);
	put("snapshots/" KEY "/state", "y", 1);
	put("images/templates/python/rootfs.erofs", "z", 1);
	put("images/templates/kernel/vmlinux", "k", 1);
	put("images/templates/kernel/modules.cpio", "m", 1);
	put("agent", "a", 1);
	log_relay(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return 0;
}

static void load_snapshot(const uint8_t *data, size_t size)
{
	struct snapshot s;
	char dir[128];
	int r;

	put("snapshots/" KEY "/manifest.json", data, size);
	snprintf(dir, sizeof(dir), "%s/snapshots", top);
	r = snapshot_load(dir, KEY, &s);
	assert(r <= 0);
	/* Its checksums would have to be guessed. */
	assert(r < 0 && s.ram < 0 && s.state < 0);
	snapshot_close(&s);
}

static void load_image(const uint8_t *data, size_t size)
{
	char agent[128];
	struct images *im;
	const char *why = NULL, *text;

	put("images/templates/python/manifest.json", data, size);
	put("images/templates/kernel/manifest.json", data, size);
	snprintf(agent, sizeof(agent), "%s/agent", top);
	im = images_new(top, NULL, agent, "auto");
	assert(im);
	text = images_manifest(im, "python", &why);
	assert(text || why);
	assert(!text || strlen(text) <= size);
	images_free(im);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (*data % 2)
		load_image(data + 1, size - 1);
	else
		load_snapshot(data + 1, size - 1);
	return 0;
}
