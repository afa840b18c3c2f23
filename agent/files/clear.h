/* SPDX-License-Identifier: Apache-2.0 */
/* Removes all that is in a directory, a little at a time. */
#ifndef XSBX_AGENT_FILES_CLEAR_H
#define XSBX_AGENT_FILES_CLEAR_H

#include "walk.h"

struct clear {
	struct walk walk;
	struct walk_list list;
};

/** clear_begin() - Begin with the directory @dir, which itself stays. Return: 0 or -errno. */
int clear_begin(struct clear *c, int dir);

/** clear_step() - Remove some. Return: 1 if there may be more, 0 if all is gone, or -errno; walk_path() says where. */
int clear_step(struct clear *c);

/** clear_end() - Stop, if it has not ended. */
void clear_end(struct clear *c);

#endif
