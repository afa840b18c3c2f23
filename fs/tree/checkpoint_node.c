/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a checkpoint: its status.json, and `wait`. Its `error` is text.c's. */
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
	return checkpoint_shown(n->s, n->checkpoint) == CHECKPOINT_WHOLE &&
			       !n->checkpoint->unwritten
		       ? strlen(whole)
		       : 0;
}

static int wait_open(struct handle *h)
{
	struct node n;
	const int e = node_resolve(h->fs, h->ino, &n);

	h->waitlist = &h->s->front.wait;
	h->stream = e == 0 && checkpoint_shown(n.s, n.checkpoint) == CHECKPOINT_SAVING;
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
	switch (checkpoint_shown(n.s, n.checkpoint)) {
	case CHECKPOINT_SAVING: wait_or_refuse(h, req, size, offset, nonblock); return;
	case CHECKPOINT_WHOLE:
		if (n.checkpoint->unwritten) /* as fsync(2) says it */
			reply_err(req, n.s->on_disk.err);
		else
			reply_buf(req, whole + at, MIN(size, len - at));
		return;
	case CHECKPOINT_FAILED:
	case CHECKPOINT_NSTATES: break;
	}
	reply_err(req, -EIO); /* its `error` says why */
}

static unsigned wait_poll_now(struct handle *h)
{
	struct node n;

	if (node_resolve(h->fs, h->ino, &n) == 0 &&
	    checkpoint_shown(n.s, n.checkpoint) == CHECKPOINT_SAVING)
		return 0;
	return POLLIN | POLLRDNORM;
}

const struct handle_ops checkpoint_wait_ops = {
	.open = wait_open,
	.read = wait_read,
	.poll = wait_poll_now,
};

/* ---- status.json ---- */

/* With KVM it is the host's, in the words of /proc/cpuinfo. Return: 0 or -1. */
static int add_processor(json_t *machine, const struct saved *saved)
{
	char text[256];
	const char *name =
		saved_need(saved, "model", text, sizeof(text)) ? strchr(text, ':') : NULL;

	return json_object_set_new(machine, "processor",
				   name ? status_string(name + 1 + strspn(name + 1, " "))
					: json_string("emulated"));
}

/* What decides whether its memory can be had again: null where it has none, or where that is not asked. */
static json_t *machine_json(const struct saved *saved)
{
	static const char *const words[] = {"qemu", "kernel", "initrd", "rootfs", "packages"};
	char text[256];
	json_t *o;
	int r = 0;

	if (!saved || !saved_need(saved, words[0], text, sizeof(text)))
		return json_null();
	o = json_object();
	for (unsigned i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		if (saved_need(saved, words[i], text, sizeof(text)))
			r = json_object_set_new(o, words[i], status_string(text));
	if (r == 0)
		r = add_processor(o, saved);
	if (r < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* What has to be alike where its memory is to be restored. */
static json_t *needs_json(const struct checkpoint *cp)
{
	const struct sandbox_spec *spec = &cp->settings.spec;

	return json_pack("{s:s, s:i, s:i, s:b, s:o, s:o}", "backend",
			 spec_backend_str(spec->backend), "memory_mb", (int)spec->memory_mb, "cpus",
			 (int)spec->cpus, "network", spec->network, "packages",
			 status_string(spec->packages), "machine", machine_json(cp->saved));
}

int status_checkpoint(const struct node *n, struct buf *out)
{
	const struct checkpoint *cp = n->checkpoint;
	struct problem p = {0};
	const uint64_t files = cp->saved ? saved_files_bytes(cp->saved) : 0,
		       memory = cp->saved ? saved_memory_bytes(cp->saved) : 0;

	(void)checkpoint_problem(n->s, cp, &p);
	return status_put(out,
			  json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:I, s:I, s:b, s:o, s:o, s:o}",
				    "name", cp->name, "session", n->s->path, "state",
				    checkpoint_state_str(checkpoint_shown(n->s, cp)), "time",
				    status_seconds(&cp->time), "run",
				    cp->run ? json_integer(cp->run) : json_null(), "automatic",
				    cp->automatic, "files_bytes", (json_int_t)files, "memory_bytes",
				    (json_int_t)memory, "memory",
				    cp->saved && saved_has_memory(cp->saved), "flaws",
				    status_flaws(cp->saved), "needs", needs_json(cp), "problem",
				    status_problem(&p)));
}
