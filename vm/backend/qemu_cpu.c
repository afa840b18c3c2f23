/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU model that QEMU presents to a guest. */
#include "qemu_cpu.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
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

void qemu_cpu(bool kvm, const char *version, char out[QEMU_CPU_MAX])
{
	int len = snprintf(out, QEMU_CPU_MAX, "%s",
			   kvm ? "host,svm=off,vmx=off" : "max,svm=off,vmx=off,xlevel=0x80000008");

	for (size_t i = 0; !kvm && i < ARRAY_SIZE(mistakes); i++) {
		const struct mistake *m = &mistakes[i];

		if (!qemu_at_least(version, m->major, m->minor))
			len += snprintf(out + len, QEMU_CPU_MAX - (size_t)len, "%s", m->features);
		assert(len < QEMU_CPU_MAX);
	}
}
