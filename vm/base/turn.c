/* SPDX-License-Identifier: Apache-2.0 */
/* A turn of the loop: what it has changed is written before anybody is told of it. See turn.h. */
#include "turn.h"

#include <assert.h>

#include "aim.h"
#include "blackbox.h"
#include "estate.h"

#define QUEUED_MOST (256u << 10) /* bytes that wait for the end of a turn */
#define ROUNDS_MOST 16u		 /* before others have their turn again */

static void lose(struct turn *t, int err)
{
	t->lost = true;
	/* What it has was true; but what is said from now on does not follow from it. */
	estate_give_up(t->estate, err);
	if (t->ops->lost)
		t->ops->lost(t->data, err);
}

static void write_down(struct turn *t)
{
	int r;

	if (t->lost)
		return;
	r = t->ops->write(t->data, t->estate);
	aim_at("turn: written");
	if (r == 0)
		r = estate_commit(t->estate);
	if (r < 0)
		lose(t, r);
	else if (t->ops->committed)
		t->ops->committed(t->data);
	blackbox_written();
	aim_at("turn: committed");
}

/* For points alone, and these are only in the build for tests. */
__attribute__((unused)) static const char *const phase_str[] = {
	[TURN_ANSWERS] = "answered",
	[TURN_FRAMES] = "sent",
	[TURN_CONSUME] = "consumed",
	[TURN_RELEASE] = "released",
};
static_assert(ARRAY_SIZE(phase_str) == TURN_NPHASES, "one of each");

void turn_lose(struct turn *t, int err)
{
	if (!turn_is_on(t) || t->lost)
		return;
	lose(t, err);
	t->due = true;
}

bool turn_write(struct turn *t)
{
	if (!turn_is_on(t))
		return false;
	assert(!t->busy);
	t->busy = true;
	write_down(t);
	t->busy = false;
	return !t->lost;
}

/* Who wants to say something meanwhile is behind the next commit: its round is a later one. */
static void speak(struct turn *t)
{
	const uint64_t round = t->round++;
	struct turn_speaker *sp;

	for (unsigned phase = 0; phase < TURN_NPHASES; phase++) {
		while ((sp = TAILQ_FIRST(&t->speakers[phase])) && sp->round <= round) {
			turn_hush(t, sp);
			sp->speak(sp);
			aim_at("turn: %s", phase_str[phase]);
		}
	}
}

static void end_turn(struct turn *t)
{
	assert(!t->busy);
	t->busy = true;
	for (unsigned i = 0; i < ROUNDS_MOST && t->due; i++) {
		t->due = false;
		t->queued = 0;
		write_down(t);
		speak(t);
	}
	t->busy = false;
	if (t->lost && !t->due)
		t->estate = NULL;
}

static void on_idle(uv_idle_t *handle)
{
	(void)handle; /* that it is there keeps the loop from waiting */
}

static void on_prepare(uv_prepare_t *handle)
{
	struct turn *t = handle->data;

	blackbox_round();
	if (turn_is_on(t) && t->due)
		end_turn(t);
	/* A commit more, if nobody else asks for one. */
	if (turn_is_on(t) && estate_is_untidy(t->estate))
		t->due = true;
	if (turn_is_on(t) && t->due)
		uv_idle_start(&t->idle, on_idle);
	else
		uv_idle_stop(&t->idle);
}

void turn_start(struct turn *t, uv_loop_t *loop, struct estate *e, const struct turn_ops *ops,
		void *data)
{
	*t = (struct turn){.estate = e, .ops = ops, .data = data, .round = 1, .due = true};
	for (unsigned i = 0; i < TURN_NPHASES; i++)
		TAILQ_INIT(&t->speakers[i]);
	uv_prepare_init(loop, &t->prepare);
	uv_idle_init(loop, &t->idle);
	uv_unref((uv_handle_t *)&t->prepare);
	uv_unref((uv_handle_t *)&t->idle);
	t->prepare.data = t;
	uv_prepare_start(&t->prepare, on_prepare);
	t->begun = true;
}

void turn_close(struct turn *t)
{
	struct turn_speaker *sp;

	if (!t->begun)
		return;
	t->begun = false;
	for (unsigned i = 0; i < ROUNDS_MOST; i++)
		turn_now(t);
	t->estate = NULL;
	/* Who still has something to say after so many has always. */
	for (unsigned phase = 0; phase < TURN_NPHASES; phase++)
		while ((sp = TAILQ_FIRST(&t->speakers[phase])))
			turn_hush(t, sp);
	uv_close((uv_handle_t *)&t->prepare, NULL);
	uv_close((uv_handle_t *)&t->idle, NULL);
}

void turn_speak(struct turn *t, enum turn_phase phase, struct turn_speaker *sp)
{
	assert(turn_is_on(t) && phase < TURN_NPHASES);
	if (sp->round) {
		assert(sp->phase == phase);
		return;
	}
	sp->round = t->round;
	sp->phase = phase;
	TAILQ_INSERT_TAIL(&t->speakers[phase], sp, link);
	t->due = true;
}

void turn_hush(struct turn *t, struct turn_speaker *sp)
{
	if (!sp->round)
		return;
	sp->round = 0;
	TAILQ_REMOVE(&t->speakers[sp->phase], sp, link);
}

void turn_pause(struct turn *t)
{
	if (blackbox_is_careful()) {
		turn_now(t);
		blackbox_written(); /* also if nothing had to be */
	} else if (t && t->queued >= QUEUED_MOST) {
		turn_now(t);
	}
}

void turn_now(struct turn *t)
{
	if (turn_is_on(t) && t->due)
		end_turn(t);
}
