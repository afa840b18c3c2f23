/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that stand still, and go on. */
#include "qemu_internal.h"

/* QEMU does one command after the other. So each stop is answered before what was asked after it is done. */

static void on_stop_reply(void *data, json_t *ret, const char *error)
{
	struct backend *b = data;

	(void)ret;
	if (!b->destroying && !qemu_is_ending(b))
		b->stopped(b->data, error);
}

static void on_cont_reply(void *data, json_t *ret, const char *error)
{
	struct backend *b = data;

	(void)ret;
	if (error && !b->destroying && !qemu_is_ending(b))
		b->went_on(b->data, error);
}

int qemu_stop(struct backend *b, backend_still_fn fn)
{
	const int r = qmp_execute(&b->qmp, "stop", NULL, on_stop_reply, b);

	b->stopped = fn;
	b->stops += r == 0;
	return r;
}

int qemu_cont(struct backend *b, backend_still_fn fn)
{
	int r = 0;

	b->went_on = fn;
	if (--b->stops == 0)
		r = qmp_execute(&b->qmp, "cont", NULL, on_cont_reply, b);
	return r < 0 && qemu_is_ending(b) ? 0 : r;
}
