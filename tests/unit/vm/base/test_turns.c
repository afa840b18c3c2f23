/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a turn: what was changed is written before anybody is told, in the order agreed upon, and before the loop waits. */
/* modules: vm/base/turn.c vm/base/blackbox.c vm/base/memory.c vm/base/record.c vm/base/buf.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* libs: uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/blackbox.h"
#include "vm/base/estate_internal.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"

#define KIND 7u

/* A daemon that has one number, and tells it. */
struct daemon {
	uv_loop_t loop;
	uv_timer_t alive; /* for the loop does nothing without that */
	struct estate *e;
	struct turn turn;
	uint64_t number;
	bool touched;
	unsigned writes, commits;
	int fails; /* the next write does */
	int lost;  /* the error that it was told */
	const struct blackbox *box;
	struct blackbox written; /* as it was at the last write */
	char said[256];
};

struct mouth {
	struct turn_speaker sp;
	struct daemon *d;
	const char *word;
	enum turn_phase phase;
	unsigned again;	    /* so often it has something more to say when it has spoken */
	bool changes;	    /* the number, each time */
	struct mouth *hush; /* when it speaks, this one has nothing to say any more */
	struct mouth *next; /* ... but this one has */
};

static int on_write(void *data, struct estate *e)
{
	struct daemon *d = data;

	d->writes++;
	if (d->box)
		d->written = *d->box;
	if (d->fails)
		return d->fails;
	if (!d->touched)
		return 0;
	d->touched = false;
	return estate_put(e, KIND, 0, 0, &d->number, sizeof(d->number));
}

static void on_committed(void *data)
{
	struct daemon *d = data;

	d->commits++;
}

static void on_lost(void *data, int err)
{
	struct daemon *d = data;

	assert_int_equal(d->lost, 0);
	d->lost = err;
}

static const struct turn_ops turn_ops = {
	.write = on_write, .committed = on_committed, .lost = on_lost};

static void on_alive(uv_timer_t *timer)
{
	(void)timer;
	fail();
}

static struct daemon *begin(void)
{
	static struct daemon d;

	memset(&d, 0, sizeof(d));
	assert_int_equal(uv_loop_init(&d.loop), 0);
	assert_int_equal(estate_new(&d.e), 0);
	uv_timer_init(&d.loop, &d.alive);
	uv_timer_start(&d.alive, on_alive, 1000000, 0);
	turn_start(&d.turn, &d.loop, d.e, &turn_ops, &d);
	return &d;
}

static void end(struct daemon *d)
{
	turn_close(&d->turn);
	turn_close(&d->turn);
	assert_false(turn_is_on(&d->turn));
	uv_close((uv_handle_t *)&d->alive, NULL);
	while (uv_run(&d->loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(&d->loop), 0);
	estate_free(d->e);
}

static void change(struct daemon *d)
{
	d->number++;
	d->touched = true;
	turn_due(&d->turn);
}

static int get_number(void *data, const struct record *rec, uint64_t sub)
{
	(void)sub;
	memcpy(data, rec->fields.at, sizeof(uint64_t));
	return 0;
}

/* What an heir would find now. */
static uint64_t committed(const struct daemon *d)
{
	uint64_t number = 0;

	if (d->e->area[d->e->active].tail != d->e->end)
		return UINT64_MAX; /* something is on its way */
	assert_int_equal(estate_each(d->e, KIND, get_number, &number), 0);
	return number;
}

static void on_speak(struct turn_speaker *sp)
{
	struct mouth *m = container_of(sp, struct mouth, sp);
	struct daemon *d = m->d;
	const size_t len = strlen(d->said);

	snprintf(d->said + len, sizeof(d->said) - len, "%s%llu ", m->word,
		 (unsigned long long)d->number);
	if (!d->lost && !d->touched)
		assert_true(committed(d) == d->number);
	if (m->changes)
		change(d);
	if (m->hush)
		turn_hush(&d->turn, &m->hush->sp);
	if (m->next)
		turn_speak(&d->turn, m->next->phase, &m->next->sp);
	if (m->again) {
		m->again--;
		turn_speak(&d->turn, m->phase, sp);
	}
}

static struct mouth mouth(struct daemon *d, const char *word, enum turn_phase phase)
{
	return (struct mouth){.sp.speak = on_speak, .d = d, .word = word, .phase = phase};
}

static void open_mouth(struct mouth *m)
{
	turn_speak(&m->d->turn, m->phase, &m->sp);
}

static void turn_once(struct daemon *d)
{
	(void)uv_run(&d->loop, UV_RUN_NOWAIT);
}

/* ---- */

static void written_then_said_in_order(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "answer", TURN_ANSWERS),
		     second = mouth(d, "second", TURN_ANSWERS),
		     frame = mouth(d, "frame", TURN_FRAMES),
		     consume = mouth(d, "consume", TURN_CONSUME),
		     release = mouth(d, "release", TURN_RELEASE),
		     hushed = mouth(d, "never", TURN_FRAMES);

	(void)state;
	open_mouth(&release);
	open_mouth(&consume);
	open_mouth(&hushed);
	open_mouth(&frame);
	open_mouth(&answer);
	open_mouth(&second);
	open_mouth(&answer);
	turn_hush(&d->turn, &hushed.sp);
	turn_hush(&d->turn, &hushed.sp);
	change(d);
	change(d);
	assert_string_equal(d->said, "");
	turn_once(d);
	assert_string_equal(d->said, "answer2 second2 frame2 consume2 release2 ");
	assert_int_equal(d->writes, 1);
	assert_int_equal(d->commits, 1);
	end(d);
}

/* The first time all is written; then nothing, if nothing is due. */
static void nothing_is_done_for_nothing(void **state)
{
	struct daemon *d = begin();

	(void)state;
	turn_once(d);
	assert_int_equal(d->writes, 1);
	for (unsigned i = 0; i < 10; i++)
		turn_once(d);
	turn_now(&d->turn);
	assert_int_equal(d->writes, 1);
	/* It does not keep the loop alive. */
	uv_timer_stop(&d->alive);
	assert_int_equal(uv_run(&d->loop, UV_RUN_DEFAULT), 0);
	end(d);
}

static void on_other_prepare(uv_prepare_t *handle)
{
	change(handle->data);
}

static void what_others_do_before_the_wait_is_in_it(void **state)
{
	struct daemon *d = begin();
	uv_prepare_t other;

	(void)state;
	turn_once(d);
	uv_prepare_init(&d->loop, &other);
	other.data = d;
	uv_prepare_start(&other, on_other_prepare);
	turn_once(d);
	assert_true(d->number > 0 && committed(d) == d->number);
	uv_close((uv_handle_t *)&other, NULL);
	end(d);
}

static void what_speaking_changes_is_another_round(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "a", TURN_ANSWERS), frame = mouth(d, "f", TURN_FRAMES),
		     quiet = mouth(d, "never", TURN_CONSUME), last = mouth(d, "l", TURN_CONSUME);

	(void)state;
	answer.again = 1;
	answer.changes = true;
	answer.next = &frame;
	answer.hush = &quiet;
	change(d);
	open_mouth(&quiet);
	open_mouth(&last);
	open_mouth(&answer);
	turn_once(d);
	/* The frame, which the answer asks for, is not said before that is written, though its phase is a later one. */
	assert_string_equal(d->said, "a1 l2 a2 f3 ");
	assert_int_equal(d->writes, 3);
	assert_int_equal(committed(d), 3);
	end(d);
}

/* Who always has something more to say does not keep others from being served, and does not wait either. */
static void nobody_speaks_for_ever(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "", TURN_ANSWERS);

	(void)state;
	answer.again = 24;
	open_mouth(&answer);
	(void)uv_run(&d->loop, UV_RUN_ONCE);
	assert_int_equal(answer.again, 24 - 16);
	/* It does not wait for the timer. */
	(void)uv_run(&d->loop, UV_RUN_ONCE);
	assert_int_equal(answer.again, 0);
	answer.again = UINT32_MAX;
	open_mouth(&answer);
	end(d);
	assert_int_equal(answer.sp.round, 0);
}

static void much_is_said_between_handlers(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "a", TURN_ANSWERS);

	(void)state;
	turn_once(d);
	change(d);
	open_mouth(&answer);
	turn_queued(&d->turn, 255u << 10);
	turn_pause(&d->turn);
	assert_string_equal(d->said, "");
	turn_queued(&d->turn, 1u << 10);
	turn_pause(&d->turn);
	assert_string_equal(d->said, "a1 ");
	change(d);
	open_mouth(&answer);
	turn_pause(&d->turn);
	assert_string_equal(d->said, "a1 ");
	turn_now(&d->turn);
	assert_string_equal(d->said, "a1 a2 ");
	change(d);
	open_mouth(&answer);
	end(d);
	assert_string_equal(d->said, "a1 a2 a3 ");
}

/* In a process that comes after one that has died by itself: what was done stands in the box until it is written. */
static void one_by_one_after_a_death(void **state)
{
	struct daemon *d = begin();
	struct blackbox box = {0};

	(void)state;
	turn_once(d);
	blackbox_use(&box);
	assert_false(blackbox_revive(&box, true));
	d->box = &box;
	for (uint64_t i = 1; i < 4; i++) {
		change(d); /* nobody's, before */
		turn_pause(&d->turn);
		assert_int_equal(d->written.kind, BLACKBOX_NOTHING);
		blackbox_at(BLACKBOX_REQUEST, i);
		change(d);
		blackbox_done();
		turn_pause(&d->turn);
		assert_int_equal(d->written.kind, BLACKBOX_REQUEST);
		assert_int_equal(d->written.id, i);
		assert_int_equal(box.kind, BLACKBOX_NOTHING);
		assert_int_equal(committed(d), d->number);
	}
	/* Nothing is to be written. */
	blackbox_at(BLACKBOX_REQUEST, 9);
	blackbox_done();
	turn_pause(&d->turn);
	assert_int_equal(box.kind, BLACKBOX_NOTHING);
	for (unsigned i = 0; i < 1000; i++) {
		change(d);
		turn_once(d);
	}
	assert_false(blackbox_is_careful());
	change(d);
	turn_pause(&d->turn);
	assert_true(d->touched);
	blackbox_use(NULL);
	end(d);
}

/* All is said that was to be, and then at once, for nothing is written any more. */
static void without_an_estate_it_goes_on(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "a", TURN_ANSWERS), frame = mouth(d, "f", TURN_FRAMES);

	(void)state;
	turn_once(d);
	assert_true(turn_is_on(&d->turn));
	d->fails = -ENOMEM;
	answer.next = &frame;
	change(d);
	open_mouth(&answer);
	turn_once(d);
	assert_string_equal(d->said, "a1 f1 ");
	assert_int_equal(d->lost, -ENOMEM);
	assert_false(turn_is_on(&d->turn));
	assert_false(estate_is_whole(d->e));
	assert_int_equal(d->writes, 2);
	assert_int_equal(d->commits, 1);
	change(d);
	turn_now(&d->turn);
	turn_queued(&d->turn, 1u << 20);
	turn_pause(&d->turn);
	turn_once(d);
	assert_int_equal(d->writes, 2);
	end(d);
}

/* What fails elsewhere, however often, is told once: also if a write fails behind it, or that happens before the first turn. */
static void it_is_lost_once(void **state)
{
	struct daemon *d = begin();
	struct mouth answer = mouth(d, "a", TURN_ANSWERS);

	(void)state;
	turn_lose(&d->turn, -ENOSPC);
	assert_int_equal(d->lost, -ENOSPC);
	assert_false(estate_is_whole(d->e));
	assert_true(turn_is_on(&d->turn)); /* what waits is said first */
	turn_lose(&d->turn, -ENOMEM);
	d->fails = -EIO;
	change(d);
	open_mouth(&answer);
	turn_once(d);
	assert_string_equal(d->said, "a1 ");
	assert_int_equal(d->lost, -ENOSPC);
	assert_int_equal(d->writes, 0);
	assert_false(turn_is_on(&d->turn));
	turn_lose(&d->turn, -ENOMEM);
	assert_int_equal(d->lost, -ENOSPC);
	end(d);
}

/* Nothing of it is there: no daemon that can be followed. */
static void none_is_fine(void **state)
{
	struct turn t = {0};

	(void)state;
	assert_false(turn_is_on(NULL));
	assert_false(turn_is_on(&t));
	turn_due(NULL);
	turn_queued(NULL, 1u << 20);
	turn_pause(NULL);
	turn_now(NULL);
	turn_now(&t);
	turn_pause(&t);
	turn_close(&t);
}

/* What was copied, and is given back, needs commits that nobody else asks for. */
static void it_tidies_up_by_itself(void **state)
{
	static char text[65536];
	struct daemon *d = begin();

	(void)state;
	for (uint64_t i = 0; i < 400; i++)
		assert_int_equal(estate_put(d->e, KIND + 1, i, 0, text, sizeof(text)), 0);
	change(d);
	turn_once(d);
	for (uint64_t i = 0; i < 350; i++)
		assert_int_equal(estate_drop(d->e, KIND + 1, i, 0), 0);
	change(d);
	turn_once(d);
	assert_true(estate_is_untidy(d->e));
	for (unsigned i = 0; i < 100; i++)
		(void)uv_run(&d->loop, UV_RUN_NOWAIT);
	assert_false(estate_is_untidy(d->e));
	assert_in_range(estate_taken(d->e), 50 * sizeof(text), 50 * sizeof(text) + (9u << 20));
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(estate_commit(d->e), 0); /* a while later */
	assert_in_range(estate_taken(d->e), 50 * sizeof(text), 50 * sizeof(text) + (4u << 20));
	d->writes = 0;
	turn_once(d);
	assert_int_equal(d->writes, 0);
	end(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_then_said_in_order),
		cmocka_unit_test(nothing_is_done_for_nothing),
		cmocka_unit_test(what_others_do_before_the_wait_is_in_it),
		cmocka_unit_test(what_speaking_changes_is_another_round),
		cmocka_unit_test(nobody_speaks_for_ever),
		cmocka_unit_test(much_is_said_between_handlers),
		cmocka_unit_test(one_by_one_after_a_death),
		cmocka_unit_test(without_an_estate_it_goes_on),
		cmocka_unit_test(it_is_lost_once),
		cmocka_unit_test(none_is_fine),
		cmocka_unit_test(it_tidies_up_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
