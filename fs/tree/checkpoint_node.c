/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a checkpoint: its status.json, and `wait`. */
#include "nodes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "json.h"

/* ---- wait ---- */

static const char whole[] = "whole\n";

uint64_t checkpoint_wait_size(const struct node *n)
{
	return checkpoint_shown(n->checkpoint) == CHECKPOINT_WHOLE ? strlen(whole) : 0;
}

static int wait_open(struct handle *h)
{
	struct node n;
	const int e = node_resolve(h->fs, h->ino, &n);

	h->waitlist = &h->s->front.wait;
	h->stream = e == 0 && checkpoint_shown(n.checkpoint) == CHECKPOINT_SAVING;
	return e;
}

static void wait_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
		      bool nonblock)
{
	const size_t len = strlen(whole), at = MIN(offset, len);
	struct node n;
	const int e = node_resolve(h->fs, h->ino, &n);

	if (e < 0) {
		reply_err(req, e);
		return;
	}
	switch (checkpoint_shown(n.checkpoint)) {
	case CHECKPOINT_SAVING: wait_or_refuse(h, req, size, offset, nonblock); return;
	case CHECKPOINT_WHOLE: reply_buf(req, whole + at, MIN(size, len - at)); return;
	case CHECKPOINT_FAILED:
	case CHECKPOINT_NSTATES: break;
	}
	reply_err(req, -EIO); /* its status.json says why */
}

static unsigned wait_poll_now(struct handle *h)
{
	struct node n;

	if (node_resolve(h->fs, h->ino, &n) == 0 &&
	    checkpoint_shown(n.checkpoint) == CHECKPOINT_SAVING)
		return 0;
	return POLLIN | POLLRDNORM;
}

const struct handle_ops checkpoint_wait_ops = {
	.open = wait_open,
	.read = wait_read,
	.poll = wait_poll_now,
};

/* ---- status.json ---- */

/* What has to be alike where its memory is to be restored. */
static json_t *needs_json(const struct settings *st)
{
	return json_pack("{s:s, s:i, s:i, s:b, s:o}", "backend", spec_backend_str(st->spec.backend),
			 "memory_mb", (int)st->spec.memory_mb, "cpus", (int)st->spec.cpus,
			 "network", st->spec.network, "packages", status_string(st->spec.packages));
}

int status_checkpoint(const struct node *n, struct buf *out)
{
	const struct checkpoint *cp = n->checkpoint;
	const uint64_t files = cp->saved ? saved_files_bytes(cp->saved) : 0,
		       memory = cp->saved ? saved_memory_bytes(cp->saved) : 0;

	return status_put(out,
			  json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:I, s:I, s:b, s:o, s:o, s:o}",
				    "name", cp->name, "session", n->s->path, "state",
				    checkpoint_state_str(checkpoint_shown(cp)), "time",
				    status_seconds(&cp->time), "run",
				    cp->run ? json_integer(cp->run) : json_null(), "automatic",
				    cp->automatic, "files_bytes", (json_int_t)files, "memory_bytes",
				    (json_int_t)memory, "memory",
				    cp->saved && saved_has_memory(cp->saved), "flaws",
				    status_flaws(cp->saved), "needs", needs_json(&cp->settings),
				    "problem", status_problem(problem_kept(&cp->problem))));
}
