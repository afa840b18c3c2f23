/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's jail: confines a guest that breaks out of its machine. */
#include "qemu_jail.h"

#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "vm/base/util.h"
#include "vm/jail/view.h"

/*
 * Theory of operation
 * -------------------
 * The cell holds QEMU's program, its libraries and its firmware, read-only, and nothing that could
 * be run: no shell, no tools, no files of the host's users or its configuration. Kernel, memory and
 * disks come as descriptors, which QEMU opens again through /proc/self/fd; sockets lead to the daemon.
 * There is no network. Nothing can be written but what came as a descriptor.
 *
 * As root each machine has an id of its own on the host, which owns nothing there. So what it opens
 * must be readable by everybody, but for /dev/kvm, of which it gets a node of its own (jail/mounts.c).
 * Where there can be none it needs the group's rights: that group is left to it, and no other, and
 * never root's.
 */

#define CELL_USER  1000u
/* Threads: one a processor, up to 64 that read and write (thread-pool-max of QEMU's), a few more; and
 * of those that read, ended ones count until they are gone. QEMU ends where it can't make one. */
#define CELL_PIDS  128u
#define CELL_FILES 256u /* descriptors */
#define CELL_FSIZE (1ull << 30)
#define KVM	   "/dev/kvm"

static const char *printf_like(2, 3) text(struct qemu_jail *j, const char *fmt, ...)
{
	char *p = j->texts + j->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(p, sizeof(j->texts) - j->len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(j->texts) - j->len)
		return "";
	j->len += (size_t)n + 1;
	return p;
}

static void show(struct qemu_jail *j, enum jail_mount_kind kind, const char *source,
		 const char *target)
{
	view_show(&j->spec, kind, JAIL_OPTIONAL, source, target);
}

/* Firmware and modules lie beside the program: below /usr, or /opt/qemu. */
static void show_qemu(struct qemu_jail *j)
{
	const char *bin = strrchr(j->program, '/');
	const char *prefix;

	show(j, JAIL_RO, j->program, j->program);
	while (bin > j->program && *--bin != '/')
		;
	prefix = text(j, "%.*s", (int)(bin - j->program), j->program);
	if (strcmp(prefix, "/usr") != 0 && *prefix) {
		show(j, JAIL_RO, text(j, "%s/lib", prefix), text(j, "%s/lib", prefix));
		show(j, JAIL_RO, text(j, "%s/lib64", prefix), text(j, "%s/lib64", prefix));
	}
	show(j, JAIL_RO, text(j, "%s/share/qemu", prefix), text(j, "%s/share/qemu", prefix));
	show(j, JAIL_RO, text(j, "%s/share/seabios", prefix), text(j, "%s/share/seabios", prefix));
}

static void allow_kvm(struct qemu_jail *j)
{
	struct stat st;

	if (stat(KVM, &st) < 0 || (st.st_mode & (S_IROTH | S_IWOTH)) == (S_IROTH | S_IWOTH) ||
	    st.st_gid == 0)
		return;
	j->spec.flags |= JAIL_HOST_GROUP;
	j->spec.host_group = st.st_gid;
}

int qemu_jail(const char *qemu, bool kvm, unsigned memory_mb, unsigned cpus,
	      struct qemu_jail *ret_jail)
{
	struct qemu_jail *j = ret_jail;
	int r;

	j->len = 0;
	j->spec = (struct jail_spec){
		.use = JAIL_QEMU,
		.flags = JAIL_LANDLOCK,
		.user = CELL_USER,
		.host_name = "qemu",
		.pids = CELL_PIDS + cpus,
		/* One processor more, for what it does beside running the guest. */
		.cpu_percent = (cpus + 1) * 100,
		.memory = (uint64_t)memory_mb << 20,
		.nrlimits = 3,
		.rlimits = {{RLIMIT_CORE, 0, 1},
			    {RLIMIT_NOFILE, 0, CELL_FILES},
			    {RLIMIT_FSIZE, 0, CELL_FSIZE}},
	};
	r = view_find_program(qemu, j->program);
	if (r < 0)
		return r;
	show(j, JAIL_RO, "/usr/lib", "/usr/lib");
	show(j, JAIL_RO, "/usr/lib64", "/usr/lib64");
	show(j, JAIL_RO, "/usr/local/lib", "/usr/local/lib");
	view_show_top(&j->spec, "", "/lib", j->lib);
	view_show_top(&j->spec, "", "/lib64", j->lib64);
	show(j, JAIL_RO, "/etc/ld.so.cache", "/etc/ld.so.cache");
	show_qemu(j);
	show(j, JAIL_PROC, NULL, "/proc");
	show(j, JAIL_DEV, kvm ? "kvm" : NULL, "/dev");
	if (kvm)
		allow_kvm(j);
	return 0;
}
