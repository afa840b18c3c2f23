/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of an interpreter's state between two runs. */
#include "loss.h"

#include <signal.h>
#include <sys/wait.h>

void loss_note(struct loss *l, enum proto_gone why, uint32_t number)
{
	if (!l->due)
		*l = (struct loss){true, why, number};
}

void loss_note_death(struct loss *l, int wait_status, bool killed, bool oom)
{
	/* One that ended by itself just before it was killed has its own status. */
	const bool sigkill = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;

	if (sigkill && oom)
		loss_note(l, PROTO_GONE_OOM, 0);
	else if (sigkill && killed)
		loss_note(l, PROTO_GONE_SILENT, 0);
	else if (WIFSIGNALED(wait_status))
		loss_note(l, PROTO_GONE_SIGNAL, (uint32_t)WTERMSIG(wait_status));
	else
		loss_note(l, PROTO_GONE_EXITED, (uint32_t)WEXITSTATUS(wait_status));
}
