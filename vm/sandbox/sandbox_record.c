/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox in a record: from one daemon to the next. */
#include <assert.h>
#include <errno.h>

#include "internal.h"
#include "network.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem_record.h"
#include "vm/base/record_table.h"
#include "vm/base/spec_record.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * Only what has been up is handed over: with its processes, which are the spawner's children and go on, and the daemon's ends
 * of what connects it to them. What is on its way (boots, the pool, jails in reserve, builders, probes) the next daemon begins
 * anew; its processes are killed. So the record of a sandbox is short, and what it depends on (images, layers, templates,
 * places) is looked up again.
 *
 * The record is true at any moment, also in the middle of something, for the process may be gone in the next:
 *	reset, freeze	the answer of the agent is still to come, and is waited for again
 *	save		nothing comes of it: user code goes on, and whoever wanted it asks again
 *	its end		it ends once more, with the same problem; of its guest no more is told than what its runs died of
 *	a state of which its owner was not told: it is, in the next process
 *
 * The agent is asked nothing before vm_go(), and one whose machine stands still not before something else is sent to it
 * (guest/resume.c).
 */

/* Never reuse one. */
enum {
	TAG_SPEC = 1,
	TAG_GUEST,
	TAG_NETWORK,
	TAG_LAYER,
	TAG_RUNNING,
	TAG_START,
	TAG_ASKED_AT,
	TAG_ADMITTED_AT,
	TAG_INTRODUCED,
	TAG_STILL,
	TAG_KEPT,
	TAG_WANTS,
	TAG_FILES_ONLY,
	TAG_RESETTING,
	TAG_REPORTED,
	TAG_SAVING,
	TAG_PROBLEM, /* with which it ends */
	TAG_METER_BASE,
	TAG_METER_TOLD,
	TAG_METER_BYTES,
};

#define MEMBER(member, tag, max) RECORD_MEMBER(struct sandbox, member, tag, max)

static const struct record_member members[] = {
	MEMBER(start, TAG_START, START_NKINDS - 1),
	MEMBER(asked_at, TAG_ASKED_AT, UINT64_MAX),
	MEMBER(admitted_at, TAG_ADMITTED_AT, UINT64_MAX),
	MEMBER(introduced, TAG_INTRODUCED, 1),
	MEMBER(still, TAG_STILL, 1),
	MEMBER(meter.base_us, TAG_METER_BASE, UINT64_MAX),
	MEMBER(meter.told_us, TAG_METER_TOLD, UINT64_MAX),
	MEMBER(meter.told_bytes, TAG_METER_BYTES, UINT64_MAX),
};

/* ---- writing ---- */

static void put_network(const struct sandbox *s, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_open(out, TAG_NETWORK);

	network_put(s, out, fds);
	record_close(out, at);
}

int sandbox_put(const struct sandbox *s, struct buf *out, struct fdbag *fds)
{
	const bool ends = s->state == SANDBOX_CLOSING;
	size_t at;
	int r = 0;

	assert(s->was_up && (s->guest || ends));
	at = record_open(out, TAG_SPEC);
	spec_put(&s->spec, out);
	record_close(out, at);
	if (s->guest) {
		at = record_open(out, TAG_GUEST);
		r = guest_put(s->guest, out, fds);
		record_close(out, at);
	}
	if (s->network && !ends)
		put_network(s, out, fds);
	if (s->layer)
		record_str(out, TAG_LAYER, s->layer->key);
	if (ends)
		problem_put(out, TAG_PROBLEM, &s->problem);
	record_u64(out, TAG_RUNNING, s->guest && guest_run_id(s->guest));
	record_u64(out, TAG_RESETTING, s->state == SANDBOX_STARTING);
	record_u64(out, TAG_REPORTED, s->reported);
	record_u64(out, TAG_SAVING, s->save.step != SAVE_NONE);
	record_u64(out, TAG_KEPT, s->kept || restore_has_memory(s));
	record_u64(out, TAG_FILES_ONLY, s->files_only || (s->from && !restore_has_memory(s)));
	record_u64(out, TAG_WANTS, s->slot.state == SLOT_WAITING);
	record_put_members(out, s, members, ARRAY_SIZE(members));
	return r;
}

bool sandbox_field_is_late(const unsigned *tags, size_t n)
{
	return n > 1 && tags[0] == TAG_GUEST && guest_field_is_late(tags + 1, n - 1);
}

/* ---- reading ---- */

struct loader {
	struct sandbox *s;
	struct fdbag *fds;
	struct record_reader guest, network;
	bool has_guest, has_network, running, resetting, saving, ends;
	uint32_t reported;
	struct problem problem;
};

static int take_field(struct loader *l, const struct record_field *f)
{
	struct sandbox *s = l->s;
	char key[DIGEST_HEX];

	switch (f->tag) {
	case TAG_GUEST:
		l->guest = record_inside(f);
		l->has_guest = true;
		return 0;
	case TAG_NETWORK:
		l->network = record_inside(f);
		l->has_network = true;
		return 0;
	case TAG_LAYER:
		if (s->layer || record_get_str(f, key, sizeof(key)) < 0 || !digest_is_hex(key))
			return -EBADMSG;
		s->layer = layer_get(&s->vm->package_jobs.layers, key);
		return 0;
	case TAG_RUNNING: return record_get_bool(f, &l->running);
	case TAG_RESETTING: return record_get_bool(f, &l->resetting);
	case TAG_REPORTED: return record_get_u32(f, SANDBOX_RUNNING, &l->reported);
	case TAG_SAVING: return record_get_bool(f, &l->saving);
	case TAG_PROBLEM: l->ends = true; return problem_get(f, &l->problem);
	case TAG_KEPT: return record_get_bool(f, &s->kept);
	case TAG_FILES_ONLY: return record_get_bool(f, &s->files_only);
	case TAG_WANTS: return record_get_bool(f, &s->wants);
	default: return record_take_member(f, s, members, ARRAY_SIZE(members));
	}
}

static int take_fields(struct loader *l, struct record_reader r)
{
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(l, &f);
		if (n < 0)
			break;
	}
	return n;
}

/* The spec, which everything else needs. */
static int find_spec(struct record_reader r, struct sandbox_spec *ret_spec)
{
	struct record_field f;

	while (record_field(&r, &f) > 0)
		if (f.tag == TAG_SPEC && f.is_bytes)
			return spec_take(record_inside(&f), ret_spec);
	return -EBADMSG;
}

static int take_guest(struct loader *l)
{
	struct sandbox *s = l->s;
	const struct guest_config cfg = {.ops = s->ops,
					 .spec = &s->spec,
					 .layer = s->layer,
					 .mode = MACHINE_COLD,
					 .ram = -1,
					 .state = -1};
	int r;

	s->nopen++;
	r = guest_take(&s->vm->guests, &cfg, &l->guest, l->fds, &sandbox_guest_events, s,
		       &s->guest);
	s->nopen -= r < 0;
	return r;
}

/* It is there, and in this state, and has what it has, above all limits. */
static void enter(struct loader *l)
{
	struct sandbox *s = l->s;

	sandbox_enter(s);
	s->was_up = true;
	s->state = l->resetting ? SANDBOX_STARTING : l->running ? SANDBOX_RUNNING : SANDBOX_READY;
	s->reported = (enum sandbox_state)l->reported;
	s->unfreezes = l->saving && !s->still;
	if (s->state != s->reported)
		sandbox_defer(s);
	s->vm->started++;
	admission_charge(&s->vm->admission, &s->ticket);
}

static void makes_no_sense(struct sandbox *s)
{
	sandbox_failf(s, PROBLEM_AGENT_LOST, "Reset the session.",
		      "the sandbox was not taken over: what is known of it makes no sense");
}

static void take_rest(struct loader *l)
{
	struct sandbox *s = l->s;

	if ((guest_run_id(s->guest) != 0) != l->running || guest_is_up(s->guest) == l->resetting) {
		makes_no_sense(s);
		return;
	}
	s->label.run = guest_run_id(s->guest);
	if (sandbox_computes(s))
		slots_hold(&s->vm->slots, &s->slot);
	if (network_take(s, &sandbox_network_ops, l->has_network ? &l->network : NULL, l->fds) < 0)
		sandbox_no_memory(s);
}

int sandbox_adopt(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
		  const struct sandbox_events *events, void *data, struct sandbox **ret_sandbox)
{
	struct loader l = {.fds = fds, .reported = SANDBOX_READY};
	struct sandbox_spec spec;
	int r = find_spec(*fields, &spec);

	if (r < 0)
		return r;
	r = sandbox_make(vm, &spec, events, data, &l.s);
	spec_free(&spec);
	if (r < 0)
		return r;
	r = take_fields(&l, *fields);
	if (r == 0 && !l.s->ops->take)
		r = -EOPNOTSUPP;
	if (r < 0) {
		sandbox_free(l.s);
		return r;
	}
	enter(&l);
	r = l.has_guest ? take_guest(&l) : 0;
	if (r < 0)
		sandbox_no_memory(l.s);
	else if (l.ends)
		sandbox_fail(l.s, &l.problem);
	else if (!l.has_guest)
		makes_no_sense(l.s);
	else if (l.s->state != SANDBOX_CLOSING)
		take_rest(&l);
	*ret_sandbox = l.s;
	return 0;
}

int sandbox_hold_nodes(struct sandbox *s, const struct vm_held_node *nodes, size_t n)
{
	return s->guest && s->state != SANDBOX_CLOSING ? guest_hold_nodes(s->guest, nodes, n) : 0;
}

bool sandbox_file_asked(const struct sandbox *s, const struct vm_file *req, uint64_t *ret_token)
{
	return s->guest && s->state != SANDBOX_CLOSING &&
	       guest_file_asked_before(s->guest, req, ret_token);
}

/* ---- going on ---- */

/* It waits for processors once more, if it has none at once. */
static void want(struct sandbox *s)
{
	s->wants = false;
	if (s->state == SANDBOX_READY &&
	    slots_take(&s->vm->slots, &s->slot, uv_now(s->vm->ctx.loop)))
		s->slot.held(&s->slot);
}

void vm_go(struct vm *vm)
{
	struct sandbox *s;

	saved_packs_drop(&vm->packs);
	TAILQ_FOREACH(s, &vm->sandboxes, link) {
		if (s->state == SANDBOX_CLOSING || !s->guest)
			continue;
		guest_go(s->guest);
		network_go(s);
		if (s->unfreezes)
			guest_thaw(s->guest);
		s->unfreezes = false;
		if (s->wants)
			want(s);
	}
	context_wake(&vm->ctx);
}

void vm_replayed(struct vm *vm)
{
	struct sandbox *s;

	TAILQ_FOREACH(s, &vm->sandboxes, link) {
		if (s->state != SANDBOX_CLOSING && s->guest)
			guest_replayed(s->guest);
	}
}
