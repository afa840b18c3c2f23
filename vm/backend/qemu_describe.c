/* SPDX-License-Identifier: Apache-2.0 */
/* Describes what a saved machine depends on. */
#include <string.h>

#include "backend.h"
#include "vm/base/buf.h"
#include "vm/image/layer.h"
#include "qemu_argv.h"

/* With KVM the guest sees the processor as it is. */
static void put_processor(struct buf *out)
{
	static const char *const keys[] = {
		"model name", "flags",	  "microcode", /* x86-64 */
		"CPU ",	      "Features",	       /* arm64 */
	};
	_cleanup_file_ FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];

	while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			if (strncmp(line, keys[i], strlen(keys[i])) == 0)
				buf_append(out, line, strlen(line));
		}
	}
}

int qemu_describe(struct backends *all, const struct backend_spec *spec, struct buf *out,
		  const char **ret_why)
{
	struct qemu_machine machine = {
		.arch = ARCH_MACHINES,
		.qemu = all->qemu,
		.version = all->probe.qemu,
		.name = "",
		.mode = MACHINE_RECORD,
		.kvm = strcmp(all->probe.accel, "kvm") == 0,
		.memory_mb = spec->memory_mb,
		.cpus = spec->cpus,
		.network = spec->network,
		.packages = spec->layer,
		.root = spec->root,
	};
	char kernel[DIGEST_HEX], rootfs[DIGEST_HEX], packages[DIGEST_HEX] = "none";
	struct qemu_argv argv;
	struct image image;
	int r = images_open(all->images, spec->image, &image, ret_why);

	if (r < 0)
		return r;
	machine.own_kernel = image.own;
	*ret_why = "its files are being read";
	r = digest_jobs_ask(&all->digests, image.kernel, kernel);
	if (r == 0)
		r = digest_jobs_ask(&all->digests, image.rootfs, rootfs);
	if (r == 0 && spec->layer)
		r = digest_jobs_ask(&all->digests, spec->layer->file, packages);
	if (r < 0)
		return r;
	qemu_argv(&machine, &argv);
	r = buf_printf(out, "kernel %s\ninitrd %s\nrootfs %s\npackages %s\nqemu %s\n", kernel,
		       image.initrd_sha256, rootfs, packages, all->probe.qemu);
	for (size_t i = 0; r == 0 && i < argv.argc; i++)
		r = buf_printf(out, "%s\n", argv.argv[i]);
	if (machine.kvm)
		put_processor(out);
	*ret_why = "there is no memory";
	return r;
}
