/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the kernel of an idle guest sleep. */
#ifndef XSBX_AGENT_GUEST_IDLE_H
#define XSBX_AGENT_GUEST_IDLE_H

/** idle_sysctls() - Turn off what the kernel does at intervals; settings that it does not have are skipped. */
void idle_sysctls(void);

#endif
