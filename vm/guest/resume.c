/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that another process had before. See resume.h. */
#include "resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files_record.h"
#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * All that this process has to know of the guest was in a record, and the records of the link (the agent's link.h) take care
 * that nothing is lost or done twice. So RESUME asks nothing that could not be done without: its answer is compared. If
 * the agent has ended a run of which we still wait for the end, or has sent output that never came, that would be waited
 * for in vain; the guest ends then, and says so.
 *
 * What came before RESUMED was said before it, but READY and FROZEN, which overtake. What we have sent behind RESUME the
 * agent did not know. So what is compared is what was sent before, and of what has not ended here in the meantime.
 *
 * Which nodes of its files we hold is told along, absolutely: what the process before us was told, and we were not, is
 * dropped. That only mends: as long as requests are on their way, whose answers may tell of more nodes, it can't be told, and
 * what was recorded of them has to be right.
 */

#define HELD_PER_FRAME (PROTO_HOLD_MAX / 2)

void resume_fini(struct guest_resume *r)
{
	free(r->held);
	r->held = NULL;
	r->nheld = 0;
}

/* ---- telling ---- */

/* Return: 0 or -ENOMEM. */
static int send_held(struct guest *g)
{
	const struct guest_resume *r = &g->resume;
	size_t at = 0;

	do {
		const size_t n = MIN(r->nheld - at, (size_t)HELD_PER_FRAME);
		struct channel_frame *f = channel_frame_new(PROTO_F_HOLD, 0, 4 + 16 * n);

		if (!f)
			return -ENOMEM;
		put_u32(&f->out, (at == 0 ? PROTO_HOLD_FIRST : 0) |
					 (at + n == r->nheld ? PROTO_HOLD_LAST : 0));
		for (size_t i = at; i < at + n; i++) {
			put_u64(&f->out, r->held[i].node);
			put_u64(&f->out, r->held[i].lookups);
		}
		channel_push(&g->channel, f, CHANNEL_CONTROL);
		at += n;
	} while (at < r->nheld);
	return 0;
}

void resume_send(struct guest *g)
{
	struct guest_resume *r = &g->resume;
	struct channel_frame *f = channel_frame_new(PROTO_RESUME, ++r->id, 8);
	int err = f ? 0 : -ENOMEM;

	r->due = false;
	if (f) {
		log_trace(&g->label, "guest", "tells the agent that it goes on");
		put_u32(&f->out, PROTO_VERSION);
		put_u32(&f->out, g->channel.from.number);
		r->asked = channel_push(&g->channel, f, CHANNEL_CONTROL);
		if (r->holds)
			err = send_held(g);
	}
	resume_fini(r);
	r->holds = false;
	if (err < 0)
		guest_failf(g, PROBLEM_NO_MEMORY, "",
			    "there is no memory for a message to the sandbox");
}

void resume_on_push(struct guest *g)
{
	if (g->resume.due)
		resume_send(g);
}

bool guest_file_asked_before(const struct guest *g, const struct vm_file *req, uint64_t *ret_token)
{
	return g->phase != GUEST_ENDING && guest_file_asked(&g->files, req, ret_token);
}

void guest_replayed(struct guest *g)
{
	if (g->phase != GUEST_ENDING && guest_file_give_up(&g->files) < 0)
		guest_failf(g, PROBLEM_NO_MEMORY, "",
			    "there is no memory for a message to the sandbox");
}

int guest_hold_nodes(struct guest *g, const struct vm_held_node *nodes, size_t n)
{
	struct vm_held_node *held;

	if (!guest_files_settled(&g->files) || g->channel.current ||
	    g->channel.queued[CHANNEL_BULK])
		return 0;
	held = calloc(n + 1, sizeof(*held));
	if (!held)
		return -ENOMEM;
	if (n)
		memcpy(held, nodes, n * sizeof(*held));
	free(g->resume.held);
	g->resume.held = held;
	g->resume.nheld = n;
	g->resume.holds = true;
	known_owe_nothing(&g->files.lease.known);
	return 0;
}

static void on_went_on(void *data, const char *error)
{
	guest_failf(data, PROBLEM_AGENT_LOST, "Reset the session.",
		    "the daemon was replaced, and the machine did not go on: %s", error);
}

void guest_go(struct guest *g)
{
	int r = 0;

	if (g->phase == GUEST_ENDING)
		return;
	if (g->ops->go)
		r = g->ops->go(g->backend, still_is_still(g), on_went_on);
	if (r == -EPIPE)
		guest_hangup(g);
	else if (r < 0)
		on_went_on(g, strerror(-r));
	if (r < 0)
		return;
	channel_go(&g->channel);
	if (!g->resume.due || still_is_still(g))
		return;
	resume_send(g);
	guest_clock_ask(g);
	still_touch(g);
	input_drained(g);
}

/* ---- comparing ---- */

static int disagree(struct guest *g, const char *about)
{
	guest_failf(g, PROBLEM_AGENT_LOST, "Reset the session.",
		    "the daemon was replaced, and the agent in the sandbox does not know of %s",
		    about);
	return 0;
}

static const struct proto_resumed_exec *find(const struct proto_resumed *r, uint32_t id)
{
	for (uint32_t i = 0; i < r->nexecs; i++)
		if (r->exec[i].id == id)
			return &r->exec[i];
	return NULL;
}

/* Was it sent before RESUME? Both are frames of one class, which keeps its order. */
static bool was_before(const struct guest *g, const struct exec *x)
{
	return x->id && x->ticket && x->ticket < g->resume.asked;
}

static bool is_same(const struct exec *x, const struct proto_resumed_exec *a)
{
	return a && !(a->flags & PROTO_RESUMED_ENDED) && a->sequence == x->sequence &&
	       a->credit <= x->credit;
}

/* Has it what we wait for, and nothing else? */
static bool jobs_agree(const struct guest *g, const struct proto_resumed *r)
{
	const struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		const struct proto_resumed_exec *a = find(r, j->exec.id);

		if (was_before(g, &j->exec) &&
		    (j->ended || j->forgotten ? !a : !is_same(&j->exec, a)))
			return false;
	}
	return true;
}

static bool is_known(struct guest *g, uint32_t id)
{
	return proto_is_job(id) ? guest_job_find(g, id) != NULL : id == g->exec.id;
}

int resume_on_resumed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct proto_resumed r;

	if (proto_resumed_unpack(in, &r) < 0 || !h->id || h->id > g->resume.id)
		return -EPROTO;
	/* One of the processes between the first and this one has asked, and did not live to hear it. */
	if (h->id != g->resume.id)
		return 0;
	if (!channel_has_sent(&g->channel, g->resume.asked) || r.version < PROTO_VERSION_OLDEST ||
	    r.generation != g->generation)
		return -EPROTO;
	g->version = MIN(r.version, PROTO_VERSION);
	log_trace(&g->label, "guest", "the agent goes on");
	if (was_before(g, &g->exec) && !is_same(&g->exec, find(&r, g->exec.id)))
		return disagree(g, "the run, or of all of its output");
	if (!jobs_agree(g, &r))
		return disagree(g, "a job, or of all of its output");
	for (uint32_t i = 0; i < r.nexecs; i++)
		if (!is_known(g, r.exec[i].id))
			return -EPROTO;
	if (g->watched && !(r.flags & PROTO_RESUMED_WATCHED))
		return disagree(g, "what changes in its files");
	g->resume.asked = 0;
	return 0;
}
