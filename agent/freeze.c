/* SPDX-License-Identifier: Apache-2.0 */
/* FREEZE. See freeze.h. */
#include "freeze.h"

#include <errno.h>

#include "agent.h"
#include "agent/core/log.h"
#include "agent/core/util.h"

#define LOOK_US	  4000u
#define LOOKS_MAX 63u /* a quarter of a second in all */

/* @who: could not be stopped; or NULL */
static void answer_with(struct agent *a, int err, const struct obstacle *who)
{
	const size_t cap = 4 + (who ? 12 + sizeof(who->name) : 0);
	struct frame *f = a->frozen.due ? frame_new(PROTO_FROZEN, a->frozen.id, cap) : NULL;

	a->frozen.due = false;
	if (!f)
		return;
	put_u32(&f->out, (uint32_t)-err);
	if (who) {
		put_u32(&f->out, who->why);
		put_u32(&f->out, (uint32_t)who->who.pid);
		put_str(&f->out, proto_cstr(who->name));
	}
	conn_send(&a->conn, f);
}

static void answer(struct agent *a, int err)
{
	answer_with(a, err, NULL);
}

static void on_frozen(struct freezer *z, int err)
{
	struct agent *a = container_of(z, struct agent, freezer);
	const bool known = err == -EBUSY && z->obstacle.why != PROTO_UNSTOPPED_UNKNOWN;

	answer_with(a, err, known && a->tells_who ? &z->obstacle : NULL);
}

/* agent_advance() goes on. */
static void on_prepare(struct loop_timer *t)
{
	(void)t;
}

void freeze_init(struct agent *a)
{
	a->freezer.loop = &a->loop;
	a->freezer.done = on_frozen;
	a->prepare.fire = on_prepare;
}

static bool is_busy(const struct agent *a)
{
	return a->run.state != RUN_NONE || a->ready.due || a->warm.due || a->sweeper.active ||
	       jobs_active(&a->jobs);
}

static void begin(struct agent *a)
{
	const int r = is_busy(a) ? -EBUSY : freezer_start(&a->freezer);

	if (r < 0)
		answer(a, r);
}

static void stop(struct agent *a)
{
	a->preparing = false;
	loop_disarm(&a->loop, &a->prepare);
	freezer_thaw(&a->freezer);
}

void freeze_ask(struct agent *a, uint32_t id, bool who)
{
	a->tells_who = who;
	if (a->freezer.state == FREEZER_FROZEN) {
		const int r = freezer_check(&a->freezer);

		if (r < 0)
			stop(a);
		a->frozen = (struct debt){true, id};
		answer(a, r);
		return;
	}
	freeze_end(a);
	a->frozen = (struct debt){true, id};
	begin(a);
}

void freeze_prepare(struct agent *a, uint32_t id)
{
	const bool frozen = a->freezer.state == FREEZER_FROZEN;

	if (!frozen)
		freeze_end(a);
	a->frozen = (struct debt){true, id};
	a->prepares = 0;
	a->preparing = !frozen && !is_busy(a) && interp_prepare(a->spares.active);
	if (!a->preparing)
		answer(a, is_busy(a) ? -EBUSY : 0);
}

void freeze_end(struct agent *a)
{
	stop(a);
	answer(a, -ECANCELED);
}

void freeze_end_checked(struct agent *a, uint32_t id)
{
	const int r = a->freezer.state == FREEZER_FROZEN ? freezer_check(&a->freezer) : -ECANCELED;

	freeze_end(a);
	a->frozen = (struct debt){true, id};
	answer(a, r);
}

void freeze_forget(struct agent *a)
{
	stop(a);
	a->frozen.due = false;
}

/* Is it still at it? Where nobody tells, it is not waited for. */
static bool prepares(const struct interp *i)
{
	return i->state == INTERP_IDLE && (interp_unread(i) || rest_look(&i->rest) == REST_AWAY);
}

void freeze_advance(struct agent *a)
{
	if (!a->preparing || a->prepare.armed)
		return;
	if (prepares(a->spares.active) && a->prepares < LOOKS_MAX) {
		a->prepares++;
		loop_arm(&a->loop, &a->prepare, LOOK_US);
		return;
	}
	log_trace("the interpreter %s ready to be copied",
		  prepares(a->spares.active) ? "did not get" : "is");
	a->preparing = false;
	answer(a, 0);
}
