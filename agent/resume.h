/* SPDX-License-Identifier: Apache-2.0 */
/* Another host goes on where one ended, and is told what is under way. */
#ifndef XSBX_AGENT_RESUME_H
#define XSBX_AGENT_RESUME_H

#include <stdint.h>

struct agent;

/** resume_answer() - RESUME was received: sends RESUMED. Return: 0 or -ENOMEM. */
int resume_answer(struct agent *a, uint32_t id);

#endif
