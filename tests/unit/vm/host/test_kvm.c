/* SPDX-License-Identifier: Apache-2.0 */
/* The trial of KVM, and the measurement of the time stamp counter. */
/* modules: vm/host/kvm.c vm/host/kvm_x86.c vm/host/kvm_arm64.c vm/host/tsc.c */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/host/kvm.h"
#include "vm/host/tsc.h"

#define BURNERS 24

/* The probe, in a process of its own; its answer is one sentence. */
static void probe(struct kvm_verdict *ret)
{
	struct kvm_verdict v;
	int fds[2];
	pid_t pid;

	memset(&v, 0xff, sizeof(v));
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		kvm_probe_child(fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &v, sizeof(v)), sizeof(v));
	close(fds[0]);
	waitpid(pid, NULL, 0);
	assert_true(v.state <= KVM_UNDECIDED);
	assert_true(strlen(v.why) > 10);
	assert_int_equal(v.why[strlen(v.why) - 1], '.');
	*ret = v;
}

/* Whatever this host has, there is a verdict. */
static void verdict(void **state)
{
	struct kvm_verdict v;

	(void)state;
	probe(&v);
	print_message("%s\n", v.why);
}

/* A busy host says the same of its KVM as a quiet one. */
static void busy(void **state)
{
	struct kvm_verdict quiet, v;
	pid_t load[BURNERS];

	(void)state;
	probe(&quiet);
	for (size_t i = 0; i < BURNERS; i++) {
		load[i] = fork();
		assert_true(load[i] >= 0);
		while (load[i] == 0)
			;
	}
	probe(&v);
	for (size_t i = 0; i < BURNERS; i++) {
		kill(load[i], SIGKILL);
		waitpid(load[i], NULL, 0);
	}
	assert_int_equal(v.state, quiet.state);
}

/* What took too long by the clock has not been tried; what ended otherwise does not work. */
static void no_verdict(void **state)
{
	struct kvm_verdict v;

	(void)state;
	kvm_verdict_none(&v, true);
	assert_int_equal(v.state, KVM_UNDECIDED);
	kvm_verdict_none(&v, false);
	assert_int_equal(v.state, KVM_UNUSABLE);
}

static void khz(void **state)
{
	const struct tsc_sample a = {1000000, 5000000000}, b = {211000000, 5100000000};
	const struct tsc_sample close_to_a = {1000100, 5000000050};

	(void)state;
	assert_int_equal(tsc_khz_between(&a, &b), 2100000);
	assert_int_equal(tsc_khz_between(&a, &close_to_a), 0);
	assert_int_equal(tsc_khz_between(&b, &a), 0);
}

/* Two measurements agree to 200 ppm, on a busy machine too. */
static void stable(void **state)
{
	struct tsc_sample one, two;
	long long x, y;

	(void)state;
	tsc_sample(&one);
	x = (long long)tsc_khz(&one);
	tsc_sample(&two);
	y = (long long)tsc_khz(&two);
	assert_true(x > 20000 && x < 10000000);
	assert_true(llabs(x - y) < x / 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict), cmocka_unit_test(busy),   cmocka_unit_test(no_verdict),
		cmocka_unit_test(khz),	   cmocka_unit_test(stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
