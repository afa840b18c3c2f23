/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a machine. */
#include "qemu_argv.h"

#include <assert.h>
#include <stdarg.h>

#include "vm/base/guest_net.h"
#include "vm/base/util.h"

/*
 * Why it is as it is
 * ------------------
 * - microvm has few devices, and they are there at once. A stock kernel finds them through ACPI,
 *   because it does not take them from its command line. Our own kernel does, and has no ACPI; then
 *   QEMU appends them to what is given here. It also has to be told how to reboot.
 * - Machines of arm64 are `virt`: the same devices behind the same kind of bus, which the kernel finds by a device tree, its
 *   usual way. Their counter tells its own frequency, so their kernel is told nothing of time.
 * - The real time clock is cheap, and without it an emulated kernel waits a second for it. The
 *   interval timer and the old interrupt controller are of no use to a kernel that uses ACPI.
 * - An emulated kernel can calibrate nothing, so it is told the frequency of the time stamp
 *   counter, which is the host's, and our own kernel also that of the timer. With KVM the kernel has a
 *   better clock of its own.
 * - An emulated processor does not speculate, so the kernel's mitigations, a fifth of the boot, would
 *   be for nothing there. With KVM they stay on.
 * - What the guest's processor can do: see below.
 * - Everything comes by descriptor: no names that could be guessed, nothing that listens, nothing
 *   to remove afterwards.
 * - Two ports, because the first is a console whether it is wanted or not, and each port more
 *   costs time at boot.
 * - A clone has the same devices in the same order as the machine it was copied from, and the same
 *   kind of memory; kernel and initrd are in that memory already.
 * - What the emulator translates is kept, up to 1 GiB of it if it is not told otherwise; a guest can
 *   make it translate as much as it likes. Imports of half of Python's library come to 40 MiB, a
 *   large JavaScript program to 64. When it is full all of it is thrown away: with 32 MiB these
 *   programs took a quarter longer, with 8 MiB thirty times as long.
 * - There is no balloon, and free pages are not reported. QEMU takes a range of a guest's memory away
 *   by punching a hole into the file behind it, before it does anything else, also if it has only a
 *   private mapping of that file. A clone's file is the sealed memory that it shares with all others,
 *   so the kernel refuses that, QEMU stops there, and nothing is freed; were it not sealed, what one
 *   clone frees would vanish from the others. Machines without a snapshot could use it, but a guest
 *   has the same devices in both cases. So memory that a program of a clone once used stays with
 *   the clone until its session ends, at most the size of the guest's memory.
 * - Nobody in a guest has control groups, and those of memory wake its kernel every two seconds.
 * - A guest that panics reboots at once, and QEMU ends instead of rebooting.
 */

#define CODE_MIB "128"
#define CPU_MAX	 128

/*
 * The processor that a guest is shown
 * -----------------------------------
 * Programs and libraries ask the processor what it can do, and take the best. What an emulator gets wrong is
 * therefore met by everybody who has a library with a fast way: NumPy's sort, with QEMU 7.2, gave arrays
 * that were not sorted. So a guest is not shown what its emulator is known to get wrong, and programs take another
 * way, which under emulation is as fast.
 *
 * What is wrong was found by running every instruction with every register in a guest and on real processors
 * (tests/vectors, which the test vm_processor does with whatever QEMU is there): four groups with 7.2, none with
 * 10.0. The versions between were not tried; of gathers it is known that 9.1 is the first that has them right,
 * so all of it is off before that. Where one of a pair is off the other is too, for there are programs that ask
 * only for one.
 *
 * A guest has no use for virtual machines of its own, and what would serve them is much code of the
 * host's kernel or of QEMU that has had ways out of the guest more than once: svm and vmx are always off. With
 * svm off, the emulator counts the leaves of CPUID anew and ends before those that tell the sizes of caches, for
 * which libraries ask (OpenBLAS complains on standard error): so it is told where they end.
 *
 * "Fast string operations" (erms, fsrm) are slow under emulation, which takes a step for each byte of a `rep movsb`
 * or `rep stosb`. A kernel and a C library that are not promised them copy and clear eight bytes or more at a step: a
 * MiB through a pipe took 11 ms, and takes 1.3.
 *
 * On arm64 `max` has what makes emulation slow (signed pointers) or snapshots large (vectors of 2048 bits), so an
 * emulated guest is shown a processor of 2018. What QEMU gets wrong of that has not been looked for.
 */

static const struct mistake {
	const char *features;  /* as in -cpu */
	unsigned major, minor; /* the first version without it */
} mistakes[] = {
	/* Gathers (vpgatherqq ...) read at one place only if the index is in register 4. */
	{",avx2=off", 9, 1},
	/* A round of AES on 256 bits overwrites the half of its input that it still needs. */
	{",vaes=off", 9, 1},
	/* BLSI sets a wrong carry. */
	{",bmi1=off,bmi2=off", 9, 1},
	/* ADCX and ADOX of 32 bits lose carries. */
	{",adx=off", 9, 1},
};

bool qemu_at_least(const char *version, unsigned major, unsigned minor)
{
	char *end;
	const unsigned long ours = strtoul(version, &end, 10);
	const unsigned long fine = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	return end != version && (ours > major || (ours == major && fine >= minor));
}

static void add(struct qemu_argv *a, const char *arg)
{
	assert(a->argc < ARRAY_SIZE(a->argv) - 1);
	a->argv[a->argc++] = arg;
	a->argv[a->argc] = NULL;
}

static void add2(struct qemu_argv *a, const char *option, const char *value)
{
	add(a, option);
	add(a, value);
}

/* An option whose value is made up. */
static void printf_like(3, 4) addf(struct qemu_argv *a, const char *option, const char *fmt, ...)
{
	char *value = a->text + a->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(value, sizeof(a->text) - a->len, fmt, ap);
	va_end(ap);
	assert(n >= 0 && (size_t)n < sizeof(a->text) - a->len);
	a->len += (size_t)n + 1;
	add2(a, option, value);
}

static void add_cpu_x86(struct qemu_argv *a, const struct qemu_machine *m)
{
	char cpu[CPU_MAX];
	int len = snprintf(cpu, CPU_MAX, "%s",
			   m->kvm ? "host,svm=off,vmx=off"
				  : "max,svm=off,vmx=off,erms=off,fsrm=off,xlevel=0x80000008");

	for (size_t i = 0; !m->kvm && i < ARRAY_SIZE(mistakes); i++) {
		if (!qemu_at_least(m->version, mistakes[i].major, mistakes[i].minor))
			len += snprintf(cpu + len, CPU_MAX - (size_t)len, "%s",
					mistakes[i].features);
		assert(len < CPU_MAX);
	}
	addf(a, "-cpu", "%s", cpu);
}

static void add_kind(struct qemu_argv *a, const struct qemu_machine *m)
{
	const char *const ram = m->mode == MACHINE_COLD ? "" : ",memory-backend=ram";

	if (m->arch == ARCH_ARM64) {
		addf(a, "-M", "virt,acpi=off,gic-version=%s,its=off%s", m->kvm ? "host" : "3", ram);
		add2(a, "-cpu", m->kvm ? "host" : "cortex-a76");
	} else {
		addf(a, "-M", "microvm,acpi=%s,pit=off,pic=off,rtc=on,isa-serial=on%s",
		     m->own_kernel ? "off" : "on", ram);
		add_cpu_x86(a, m);
	}
}

static void add_machine(struct qemu_argv *a, const struct qemu_machine *m)
{
	add2(a, "-name", m->name);
	add_kind(a, m);
	add2(a, "-accel", m->kvm ? "kvm" : "tcg,tb-size=" CODE_MIB);
	addf(a, "-smp", "%u", m->cpus);
	addf(a, "-m", "%u", m->memory_mb);
	if (m->mode != MACHINE_COLD)
		addf(a, "-object",
		     "memory-backend-file,id=ram,size=%uM,mem-path=/proc/self/fd/%d,share=%s",
		     m->memory_mb, QEMU_FD_RAM, m->mode == MACHINE_RECORD ? "on" : "off");
	add(a, "-nodefaults");
	add(a, "-no-user-config");
	add2(a, "-display", "none");
	add(a, "-no-reboot");
	add2(a, "-sandbox",
	     "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
}

/* How the kernel's time goes, and what it need not do. */
static void add_command_line(struct qemu_argv *a, const struct qemu_machine *m)
{
	/* Self-tests of ciphers take a quarter of a stock kernel's boot under emulation. */
	static const char always[] = "quiet panic=-1 random.trust_cpu=on cgroup_disable=memory";
	const char *const only = m->own_kernel ? "reboot=t" : "cryptomgr.notests";
	/* QEMU's own constant; the time stamp counter does for KVM. */
	const char *const timer = m->own_kernel ? "lapic_timer_khz=1000000 " : "";
	/* Become variables of the agent's. */
	const char *const packages = m->packages ? " XSBX_PACKAGES=1" : "";
	const char *const root = m->root ? " XSBX_ROOT=1" : "";

	/* On a busy host an emulated guest falls behind, takes its TSC for broken, and would be left
	 * with a clock that goes in steps of 4 ms: tsc=reliable. */
	if (m->arch == ARCH_ARM64)
		addf(a, "-append", "console=ttyAMA0 %s %s%s%s%s", always, only,
		     m->kvm ? "" : " mitigations=off", packages, root);
	else if (m->kvm)
		addf(a, "-append", "console=ttyS0 %s %s%s%s", always, only, packages, root);
	else
		addf(a, "-append",
		     "console=ttyS0 %s %s no_timer_check %smitigations=off tsc=reliable "
		     "tsc_early_khz=%llu%s%s",
		     always, only, timer, (unsigned long long)m->tsc_khz, packages, root);
}

static void add_kernel(struct qemu_argv *a, const struct qemu_machine *m)
{
	addf(a, "-kernel", "/proc/self/fd/%d", QEMU_FD_KERNEL);
	addf(a, "-initrd", "/proc/self/fd/%d", QEMU_FD_INITRD);
	add_command_line(a, m);
}

/* A disk that can only be read, and comes by descriptor. */
static void add_disk(struct qemu_argv *a, const char *name, int fd, int set)
{
	addf(a, "-add-fd", "fd=%d,set=%d", fd, set);
	addf(a, "-drive",
	     "if=none,id=%s,file=/dev/fdset/%d,format=raw,readonly=on,file.locking=off", name, set);
	addf(a, "-device", "virtio-blk-device,drive=%s", name);
}

static void add_devices(struct qemu_argv *a, const struct qemu_machine *m)
{
	add_disk(a, "root", QEMU_FD_ROOTFS, 1);
	if (m->packages)
		add_disk(a, "packages", QEMU_FD_PACKAGES, 2);
	addf(a, "-chardev", "socket,id=agent,fd=%d", QEMU_FD_AGENT);
	add2(a, "-device", "virtio-serial-device,max_ports=2");
	add2(a, "-device",
	     "virtserialport,chardev=agent,id=" QEMU_AGENT_ID ",name=" QEMU_AGENT_PORT);
	addf(a, "-chardev", "socket,id=console,fd=%d", QEMU_FD_CONSOLE);
	add2(a, "-serial", "chardev:console");
	addf(a, "-chardev", "socket,id=control,fd=%d", QEMU_FD_CONTROL);
	add2(a, "-mon", "chardev=control,mode=control");
}

/* The frames of the guest, each behind its length, go to whoever has the other end; the largest packet
 * is the guest's to know, and this is how it knows. */
static void add_network(struct qemu_argv *a)
{
	addf(a, "-netdev", "stream,id=net,server=off,addr.type=fd,addr.str=%d", QEMU_FD_CARD);
	addf(a, "-device", "virtio-net-device,netdev=net,mac=52:54:00:12:34:56,host_mtu=%d",
	     NET_MTU_DEFAULT);
}

void qemu_argv(const struct qemu_machine *m, struct qemu_argv *ret_argv)
{
	ret_argv->argc = ret_argv->len = 0;
	add(ret_argv, m->qemu);
	add_machine(ret_argv, m);
	if (m->mode == MACHINE_CLONE)
		add2(ret_argv, "-incoming", "defer");
	else
		add_kernel(ret_argv, m);
	add_devices(ret_argv, m);
	if (m->network)
		add_network(ret_argv);
}
