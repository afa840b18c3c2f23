/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out of a sandbox, taken in: kept, lost, or held back. */
#ifndef XSBX_FS_SESSION_INTAKE_H
#define XSBX_FS_SESSION_INTAKE_H

#include "session.h"

/* The run or job of this id that is in the sandbox, or NULL. @ret_f: where it is shown */
struct run *intake_run(struct session *s, uint32_t id, struct front **ret_f);

/* What it has written. */
void intake_output(struct session *s, uint32_t id, enum vm_stream stream, const void *bytes,
		   size_t len);

/* What its kernel and its agent have said. */
void intake_console(struct session *s, const void *bytes, size_t len);

/* Callback of the depot, with the mount as @data: less waits for the disk now. */
void intake_relieved(void *data);

#endif
