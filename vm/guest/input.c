/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of runs and jobs: as much is sent as was granted, and asked for when there is more room. */
#include <errno.h>

#include "internal.h"

#define STDIN_QUEUE_MAX \
	(256u << 10) /* bytes that wait in the channel at most, behind which others would have to */

static struct exec *find(struct guest *g, uint32_t id)
{
	struct guest_job *j;

	if (!sandbox_is_job(id))
		return id && g->exec.id == id ? &g->exec : NULL;
	j = guest_job_find(g, id);
	return j && !j->ended && !j->forgotten ? &j->exec : NULL;
}

int input_on_credit(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t n = get_u32(in);
	struct exec *x = find(g, h->id);

	if (!get_end(in))
		return -EPROTO;
	/* It may have ended meanwhile. */
	if (!x || !x->stdin_open)
		return 0;
	if (!exec_sent(g, x) || n > EXEC_WINDOW || x->stdin_credit + n > EXEC_WINDOW)
		return -EPROTO;
	x->stdin_credit += n;
	tell_owner(g, room, h->id);
	return 0;
}

int input_on_closed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct exec *x = find(g, h->id);

	if (!get_end(in) || (x && !exec_sent(g, x)))
		return -EPROTO;
	if (!x || !x->stdin_open)
		return 0;
	x->stdin_open = false;
	tell_owner(g, deaf, h->id);
	return 0;
}

/* The first whose input had to wait for room in the channel, or 0. */
static uint32_t one_that_waits(struct guest *g)
{
	const struct guest_job *j;

	if (g->exec.id && g->exec.stdin_waits)
		return g->exec.id;
	TAILQ_FOREACH(j, &g->jobs, link) {
		if (j->exec.stdin_waits && !j->ended && !j->forgotten)
			return j->exec.id;
	}
	return 0;
}

void input_drained(struct guest *g)
{
	uint32_t id;

	while (g->phase == GUEST_UP && g->channel.queued[CHANNEL_BULK] < STDIN_QUEUE_MAX &&
	       (id = one_that_waits(g))) {
		find(g, id)->stdin_waits = false;
		tell_owner(g, room, id);
	}
}

/* Sends one piece. Return: 0 or -errno. */
static int send_piece(struct guest *g, struct exec *x, const char *data, size_t n, bool end)
{
	struct channel_frame *f = channel_frame_new(PROTO_STDIN, x->id, n);

	if (!f)
		return -ENOMEM;
	put_bytes(&f->out, data, n);
	f->header.flags = end ? PROTO_F_EOF : 0;
	channel_push(&g->channel, f, CHANNEL_BULK);
	x->stdin_credit -= n;
	x->stdin_open = !end;
	return 0;
}

bool guest_write(struct guest *g, uint32_t id, const void *data, size_t len, bool last,
		 size_t *ret_taken)
{
	struct exec *x = find(g, id);
	size_t done = 0;

	*ret_taken = len;
	if (!x || !x->stdin_open || g->phase == GUEST_ENDING)
		return true; /* nobody reads it */
	x->stdin_waits = false;
	for (;;) {
		const size_t n = MIN(MIN(len - done, x->stdin_credit), (size_t)PROTO_DATA_MAX);
		const bool end = last && done + n == len;

		*ret_taken = done;
		if (done == len && !end)
			return true;
		if (n == 0 && !end)
			return false; /* credit will come */
		if (g->channel.queued[CHANNEL_BULK] >= STDIN_QUEUE_MAX ||
		    send_piece(g, x, (const char *)data + done, n, end) < 0) {
			x->stdin_waits = true;
			return false;
		}
		done += n;
		*ret_taken = done;
		if (end)
			return true;
	}
}
