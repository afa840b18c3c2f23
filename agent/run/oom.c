/* SPDX-License-Identifier: Apache-2.0 */
/* Was it for lack of memory that the kernel has killed a program? See oom.h. */
#include "oom.h"

#include <signal.h>

#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

#define OLD_US 1000000u

void oom_note(struct oom *o)
{
	if (!o->env->guest)
		return;
	o->kills = proc_oom_kills();
	o->at = now_us();
}

void oom_renew(struct oom *o)
{
	if (now_us() - o->at > OLD_US)
		oom_note(o);
}

bool oom_rose(struct oom *o, uint64_t before)
{
	oom_note(o);
	return o->kills > before;
}

enum proto_how oom_how(struct oom *o, uint64_t before, uint32_t status)
{
	return status == PROTO_STATUS_SIGNAL + SIGKILL && oom_rose(o, before) ? PROTO_HOW_OOM
									      : PROTO_HOW_DONE;
}
