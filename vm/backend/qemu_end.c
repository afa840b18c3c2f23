/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a machine's QEMU: it is told once, and over when all its parts are gone. */
#include <stdlib.h>
#include <unistd.h>

#include "qemu_internal.h"

void qemu_close_files(const struct backend *b)
{
	const int fds[] = {b->state, b->card, b->ram, b->disk};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void qemu_part_gone(struct backend *b)
{
	if (--b->nopen)
		return;
	b->events->destroyed(b->data);
	qemu_close_files(b);
	free(b);
}

void qemu_tell_down(struct backend *b, const struct problem *p)
{
	if (b->told_down)
		return;
	b->told_down = true;
	b->events->down(b->data, p);
}

bool qemu_is_ending(const struct backend *b)
{
	return b->qmp.reader.ended;
}
