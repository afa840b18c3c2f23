/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's QEMU: made, and gone when all its parts are; that it is down is told once. */
#include <stdlib.h>
#include <unistd.h>

#include "qemu_internal.h"
#include "vm/base/lent.h"

struct backend *qemu_new(struct backends *all, const struct backend_events *events, void *data)
{
	struct backend *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->all = all;
	b->events = events;
	b->data = data;
	b->state = b->card = b->ram = b->disk = -1;
	return b;
}

void qemu_free(struct backend *b)
{
	int fds[] = {b->state, b->card, b->ram, b->disk};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		lent_close(&fds[i]);
	free(b);
}

void qemu_part_gone(struct backend *b)
{
	if (--b->nopen)
		return;
	b->events->destroyed(b->data);
	qemu_free(b);
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
