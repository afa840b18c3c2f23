/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether KVM is usable by running a guest, because opening /dev/kvm proves nothing. */
#include "kvm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "kvm_trial.h"
#include "vm/base/arch.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * On some hosts, which are virtual machines themselves, /dev/kvm can be opened and machines can be
 * created, but every instruction of a guest kernel is interpreted, slower than by QEMU, or fails
 * completely. So a very small guest is run through the KVM API, which executes what is known to fail on such hosts
 * and what every kernel executes at boot (restores the FPU's state, takes a breakpoint, counts bits, reads
 * processor features), then measures the time of a loop with its own counter, repeatedly. It reports by
 * writing to where there is nothing: kvm_x86.c, kvm_arm64.c.
 *
 * That time is compared with the same loop outside, using the minimum of each: on a busy host most loops
 * are interrupted, and take longer, but not all, as each takes less than a hundredth of a scheduler time
 * slice. If instructions are interpreted, no loop is short.
 *
 * All of it happens in a child process, which may hang in the kernel or die. Its processor time is
 * limited; on a busy host it gets that time late, but does not need more. The result is only undecided if
 * the host does not give it that time at all.
 *
 * The child runs in the same jail as QEMU, so that it has the same permissions.
 */

#define ROUNDS	    64u
#define CPU_MS	    1000 /* processor time for all of it */
#define SLOW_FACTOR 10	 /* more than this times the host's own time is not worth it */

static void printf_like(3, 4)
	verdict(struct kvm_verdict *v, enum kvm_state state, const char *fmt, ...)
{
	va_list ap;

	memset(v, 0, sizeof(*v));
	v->state = state;
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
}

void kvm_verdict_none(struct kvm_verdict *ret_verdict, bool late)
{
	if (late)
		verdict(ret_verdict, KVM_UNDECIDED,
			"KVM is there, but this host did not get round to trying it out within %d "
			"s.",
			KVM_PROBE_MS / 1000);
	else
		verdict(ret_verdict, KVM_UNUSABLE, "KVM is there, but trying it out failed.");
}

static int make_vm(struct trial *t)
{
	struct kvm_userspace_memory_region region = {.memory_size = TRIAL_MEMORY};
	int size;

	t->vm = ioctl(t->kvm, KVM_CREATE_VM, 0);
	if (t->vm < 0)
		return -errno;
	t->memory = mmap(NULL, TRIAL_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (t->memory == MAP_FAILED)
		return -errno;
	region.userspace_addr = (uintptr_t)t->memory;
	if (ioctl(t->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return -errno;
	trial_load(t);
	t->vcpu = ioctl(t->vm, KVM_CREATE_VCPU, 0);
	size = ioctl(t->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (t->vcpu < 0 || size < (int)sizeof(*t->run))
		return -errno;
	t->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, t->vcpu, 0);
	return t->run == MAP_FAILED ? -errno : 0;
}

/* ---- the trial ---- */

static volatile sig_atomic_t out_of_time;

static void on_out_of_time(int number)
{
	(void)number;
	out_of_time = 1;
}

/* From now on the processor's time is counted; when it is used up, KVM lets go of the guest. */
static void limit_time(void)
{
	const struct sigaction act = {.sa_handler = on_out_of_time};
	const struct itimerval limit = {.it_value = {CPU_MS / 1000, CPU_MS % 1000 * 1000},
					.it_interval = {0, 100000}};

	sigaction(SIGPROF, &act, NULL);
	setitimer(ITIMER_PROF, &limit, NULL);
}

/* How many ticks the guest's loop takes outside. */
static uint64_t loop_ticks(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < ROUNDS && !out_of_time; i++) {
		const uint64_t took = trial_host_loop();

		best = MIN(best, took);
	}
	return best;
}

/* Runs the guest up to its next report. Return: false, with a verdict, if there was none. */
static bool run_round(struct trial *t, uint64_t *ret_ticks, struct kvm_verdict *v)
{
	int n;

	assert(t->run);
	do
		n = ioctl(t->vcpu, KVM_RUN, 0);
	while (n < 0 && errno == EINTR && !out_of_time);
	if (n < 0 && out_of_time)
		verdict(v, KVM_UNUSABLE,
			"KVM is there, but a trial guest computed for %d ms and came to no end, at "
			"%s.",
			CPU_MS, trial_stage(t));
	else if (n < 0)
		verdict(v, KVM_UNUSABLE, "KVM is there, but it does not run a guest: %s.",
			strerror(errno));
	else if (!trial_reported(t, ret_ticks))
		verdict(v, KVM_UNUSABLE,
			"KVM is there, but a trial guest failed at %s (%s), so a kernel would too.",
			trial_stage(t),
			t->run->exit_reason == KVM_EXIT_INTERNAL_ERROR ? "internal error of KVM"
								       : "the guest stopped");
	return !v->why[0];
}

/* Until a loop was about as short as outside. */
static void run(struct trial *t, struct kvm_verdict *v)
{
	const uint64_t host = loop_ticks();
	uint64_t best = UINT64_MAX, ticks = 0;

	for (unsigned i = 0; i < ROUNDS && !out_of_time; i++) {
		if (!run_round(t, &ticks, v))
			return;
		best = MIN(best, ticks);
		if (best <= host * SLOW_FACTOR + trial_noise()) {
			verdict(v, KVM_USABLE, "KVM works: a trial guest ran at the host's speed.");
			return;
		}
	}
	verdict(v, KVM_UNUSABLE,
		"KVM is there, but a trial guest ran %llu times slower than the host.",
		(unsigned long long)(best / host));
}

static void try_kvm(struct kvm_verdict *v)
{
	struct trial t = {.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)};
	int r;

	if (ARCH_FOREIGN)
		verdict(v, KVM_UNUSABLE, "Machines are of another architecture than this host.");
	else if (t.kvm < 0 && errno == ENOENT)
		verdict(v, KVM_UNUSABLE, "This host has no KVM (/dev/kvm does not exist).");
	else if (t.kvm < 0)
		verdict(v, errno == EACCES || errno == EPERM ? KVM_DENIED : KVM_UNUSABLE,
			"KVM is there, but QEMU may not open /dev/kvm: %s.", strerror(errno));
	else if (ioctl(t.kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		verdict(v, KVM_UNUSABLE, "KVM is there, but its interface is not the known one.");
	if (v->why[0])
		return;
	r = make_vm(&t);
	if (r == 0)
		r = trial_begin(&t);
	if (r < 0)
		verdict(v, KVM_UNUSABLE, "KVM is there, but it can't make a machine: %s.",
			strerror(-r));
	else
		run(&t, v);
}

static const char *const wish_str[] = {
	[ACCEL_AUTO] = "auto", [ACCEL_KVM] = "kvm", [ACCEL_TCG] = "tcg"};
static_assert(ARRAY_SIZE(wish_str) == ACCEL_NWISHES, "a name for each wish");

int accel_wish_parse(const char *name, enum accel_wish *ret_wish)
{
	for (unsigned i = 0; i < ACCEL_NWISHES; i++) {
		if (strcmp(name, wish_str[i]) == 0) {
			*ret_wish = i;
			return 0;
		}
	}
	return -EINVAL;
}

void kvm_probe_child(int fd)
{
	struct kvm_verdict v = {0};

	limit_time();
	try_kvm(&v);
	(void)!write(fd, &v, sizeof(v));
	_exit(0);
}
