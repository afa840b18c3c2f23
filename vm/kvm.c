/* SPDX-License-Identifier: Apache-2.0 */
/* Is /dev/kvm of any use? */
#include "kvm.h"

#include <unistd.h>
#include <stdio.h>

void kvm_probe_child(int fd)
{
	struct kvm_verdict v = {0};
	snprintf(v.why, sizeof(v.why), "Not tried.");
	(void)!write(fd, &v, sizeof(v));
	_exit(0);
}
void kvm_verdict_none(struct kvm_verdict *v, bool late)
{
	*v = (struct kvm_verdict){0};
	snprintf(v->why, sizeof(v->why), late ? "KVM is too slow." : "The probe failed.");
}

void kvm_probe_sync(struct kvm_verdict *v)
{
	kvm_verdict_none(v, false);
}
