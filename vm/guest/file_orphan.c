/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a process before this one has made, and their requests. See file_call.h. */
#include <errno.h>
#include <stdlib.h>

#include "channel.h"
#include "file_call_internal.h"
#include "file_wire.h"
#include "vm/base/util.h"

void file_calls_each(const struct file_calls *calls, void (*fn)(void *data, enum vm_file_op op),
		     void *data)
{
	const struct file_call *call;

	TAILQ_FOREACH(call, &calls->all, link)
		fn(data, call->op);
}

static struct file_call *find(const struct file_calls *calls, const struct vm_file *req)
{
	struct file_call *call = NULL;

	if (!req->claim || !calls->norphans)
		return NULL;
	TAILQ_FOREACH(call, &calls->all, link) {
		if (call->orphan && call->claim == req->claim && call->op == req->op &&
		    (call->op != VM_WRITE || call->size == req->size))
			break;
	}
	return call;
}

const struct file_call *file_calls_orphan(const struct file_calls *calls, const struct vm_file *req)
{
	return find(calls, req);
}

uint64_t file_call_token(const struct file_call *call)
{
	return call->token;
}

/* Makes the frames of what waits. Return: 0, or -ENOMEM and none is there. */
static int make_frames(struct file_calls *calls, const struct file_call *call,
		       const struct vm_file *req)
{
	struct channel_frame *frames[FILE_PIECES_MAX] = {NULL};
	struct file_piece *p;

	STAILQ_FOREACH(p, &calls->waiting, link)
	{
		const size_t skip = (size_t)p->number * PROTO_DATA_MAX;

		if (p->call != call)
			continue;
		frames[p->number] =
			file_wire_pack(req, skip, MIN(req->size - skip, (size_t)PROTO_DATA_MAX),
				       channel_sheets(calls->channel));
		if (frames[p->number])
			continue;
		for (unsigned i = 0; i < FILE_PIECES_MAX; i++)
			channel_frame_free(frames[i]);
		return -ENOMEM;
	}
	STAILQ_FOREACH(p, &calls->waiting, link)
	{
		if (p->call != call)
			continue;
		p->frame = frames[p->number];
		calls->held += channel_frame_size(p->frame);
	}
	return 0;
}

static void no_orphan(struct file_call *call)
{
	call->calls->norphans -= call->orphan;
	call->orphan = false;
}

int file_call_claim(struct file_calls *calls, const struct vm_file *req, file_call_fn fn,
		    void *data)
{
	struct file_call *call = find(calls, req);

	if (!call)
		return 0;
	if (make_frames(calls, call, req) < 0)
		return -ENOMEM;
	no_orphan(call);
	call->fn = fn;
	call->data = data;
	return 1;
}

/* Nobody makes their frames any more. */
static void drop_waiting(struct file_calls *calls)
{
	struct file_pieces kept = STAILQ_HEAD_INITIALIZER(kept);
	struct file_piece *p;

	while ((p = STAILQ_FIRST(&calls->waiting))) {
		STAILQ_REMOVE_HEAD(&calls->waiting, link);
		if (p->frame) {
			STAILQ_INSERT_TAIL(&kept, p, link);
			continue;
		}
		p->call->unanswered--;
		file_piece_free(p);
	}
	STAILQ_CONCAT(&calls->waiting, &kept);
}

/* One that is granted to nobody would be held for ever. */
static int cancel(struct file_calls *calls, const struct file_call *call)
{
	const struct vm_file req = {.op = VM_CANCEL_LOCK,
				    .lock = {.token = call->token, .undo = true}};

	return call->op == VM_LOCK && call->token ? file_call_tell(calls, &req) : 0;
}

int file_calls_give_up(struct file_calls *calls)
{
	struct file_call *call, *next;
	int r = 0;

	drop_waiting(calls);
	for (call = TAILQ_FIRST(&calls->all); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (!call->fn && (call->in_flight || call->waits) && r == 0)
			r = cancel(calls, call);
		no_orphan(call);
		if (call->unanswered || call->waits)
			continue;
		calls->orphan_done(calls->owner, call->op, -EINTR, NULL);
		file_call_free(call);
	}
	file_calls_pump(calls);
	return r;
}
