/* SPDX-License-Identifier: Apache-2.0 */
/* When a machine is stopped, and what has it go on, in every order of frames and the backend's answers. */
/* modules: tests/unit/fixture/guest_file_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/fixture/guest_file_fixture.h"
#include "vm/base/util.h"
#include "vm/guest/internal.h"

#define QUIET_MS 300 /* before the agent is asked */
#define AGAIN_MS 1000

static uint32_t run_id;

static int set_up(void **state)
{
	const int r = guest_file_fixture_setup(state);

	run_id = 0;
	vm->guests.stand_still = true;
	still_touch(s->guest);
	return r;
}

static bool passed(void *data)
{
	return uv_hrtime() / 1000000 >= *(uint64_t *)data;
}

static void wait_ms(unsigned ms)
{
	uint64_t until_ms = uv_hrtime() / 1000000 + ms;

	assert_true(fake_spin(passed, &until_ms));
}

/* The question, waited for. Return: its number. */
static uint32_t asked(void)
{
	struct fake_frame *f = fake_expect(PROTO_REST);
	uint32_t id;

	assert_non_null(f);
	id = f->h.id;
	assert_int_equal(f->h.length, 0);
	fake_free(f);
	return id;
}

static void say(uint32_t id, uint32_t yes, const char *why)
{
	uint8_t bytes[256];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, yes);
	put_str(&o, proto_cstr(why));
	fake_send(PROTO_RESTING, 0, id, bytes, o.len);
	fake_settle();
}

static bool stands(void)
{
	struct sandbox_info info;
	struct vm_status st;

	sandbox_info(s, &info);
	vm_status(vm, &st);
	assert_int_equal(st.still, info.stands_still);
	return info.stands_still;
}

static void stop(void)
{
	const unsigned before = fake_agent.stops;

	say(asked(), 1, "");
	assert_int_equal(fake_agent.stops, before + 1);
	assert_int_equal(s->guest->still.state, STILL_STOPPING);
	assert_false(stands()); /* it still takes processor time */
	fake_stopped(NULL);
	assert_int_equal(s->guest->still.state, STILL_STOPPED);
	assert_true(stands());
}

static void start_run(void)
{
	const struct sandbox_run run = {.id = ++run_id, .code = ":", .code_len = 1};

	assert_int_equal(sandbox_run(s, &run), 0);
}

static void end_run(void)
{
	const struct proto_exit e = {.how = PROTO_HOW_DONE};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	proto_exit_pack(&o, &e);
	fake_send(PROTO_EXIT, 0, run_id, bytes, o.len);
	fake_settle();
}

/* The next frame is of this type. */
static struct fake_frame *next(enum proto_type type)
{
	struct fake_frame *f;

	fake_got(type);
	f = STAILQ_FIRST(&fake_agent.frames);
	assert_non_null(f);
	assert_int_equal(f->h.type, type);
	STAILQ_REMOVE_HEAD(&fake_agent.frames, link);
	return f;
}

static void skip_all(void)
{
	struct fake_frame *f;

	fake_settle();
	while ((f = STAILQ_FIRST(&fake_agent.frames))) {
		STAILQ_REMOVE_HEAD(&fake_agent.frames, link);
		fake_free(f);
	}
}

/* It went on, ahead of all frames, and was told the time before anything else. */
static void assert_woken(enum proto_type type)
{
	struct fake_frame *f = next(PROTO_WAKE);
	struct proto_in in = payload(f);
	const uint64_t told = get_u64(&in) / 1000000000;
	const uint64_t now = (uint64_t)time(NULL);

	assert_true(get_end(&in) && told <= now && told + 2 > now);
	fake_free(f);
	fake_free(next(PROTO_CLOCK));
	fake_free(next(type));
	assert_int_equal(fake_agent.unread, 0);
	assert_false(stands());
}

static void goes_on_with_a_run(void **state)
{
	(void)state;
	stop();
	skip_all();
	assert_int_equal(fake_agent.conts, 0);
	start_run();
	assert_int_equal(fake_agent.conts, 1);
	assert_woken(PROTO_RUN);
	/* Once. */
	end_run();
	start_run();
	assert_int_equal(fake_agent.conts, 1);
	assert_false(fake_got(PROTO_WAKE));
	end_run();
	stop();
}

static void goes_on_with_a_file(void **state)
{
	const struct vm_file req = {.op = VM_GETATTR, .node = 7};
	struct answer a;
	struct fake_frame *f;

	(void)state;
	stop();
	skip_all();
	assert_int_equal(ask(&req, &a), 0);
	assert_int_equal(fake_agent.conts, 1);
	/* It does not stop while the answer is due, however long that takes. */
	assert_false(fake_got(PROTO_F_STATFS));
	f = fake_expect(PROTO_F_GETATTR);
	wait_ms(2 * QUIET_MS);
	assert_false(fake_got(PROTO_REST));
	answer(f->h.id, 2, NULL, 0);
	fake_free(f);
	until(&a);
	/* What it uses now is asked before. */
	fake_free(fake_expect(PROTO_USAGE));
	stop();
}

static void answer_too_late(void **state)
{
	uint32_t id;

	(void)state;
	id = asked();
	start_run();
	say(id, 1, "");
	assert_int_equal(fake_agent.stops, 0);
	assert_false(fake_got(PROTO_WAKE));
	wait_ms(2 * QUIET_MS);
	assert_false(fake_got(PROTO_REST)); /* not during a run */
	end_run();
	stop();
}

static void stop_is_undone(void **state)
{
	(void)state;
	say(asked(), 1, "");
	assert_int_equal(fake_agent.stops, 1);
	start_run();
	assert_int_equal(fake_agent.conts, 1);
	/* The answer to what was undone. */
	fake_stopped(NULL);
	assert_false(stands());
	end_run();
	stop();
	assert_int_equal(fake_agent.stops, 2);
}

static void answers_of_two(void **state)
{
	(void)state;
	say(asked(), 1, "");
	start_run();
	end_run();
	say(asked(), 1, "");
	assert_int_equal(fake_agent.stops, 2);
	assert_int_equal(fake_agent.conts, 1);
	fake_stopped(NULL); /* the first */
	assert_int_equal(s->guest->still.state, STILL_STOPPING);
	fake_stopped(NULL);
	assert_int_equal(s->guest->still.state, STILL_STOPPED);
	start_run();
	assert_int_equal(fake_agent.conts, 2);
}

static void stop_fails(void **state)
{
	(void)state;
	say(asked(), 1, "");
	fake_stopped("no");
	assert_false(stands());
	assert_int_equal(fake_agent.conts, 1);
	wait_ms(2 * QUIET_MS);
	assert_false(fake_got(PROTO_REST));
	/* Something else to do, another try. */
	start_run();
	end_run();
	fake_agent.still_error = -EPIPE;
	say(asked(), 1, "");
	assert_false(stands());
	assert_int_equal(fake_agent.conts, 1);
	start_run();
	assert_int_equal(fake_agent.conts, 1);
}

static void cont_fails(void **state)
{
	(void)state;
	stop();
	fake_agent.still_error = -EPIPE;
	start_run();
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_LOST);
}

static void no(void **state)
{
	struct sandbox_info info;

	(void)state;
	say(asked(), 0, "it \x01 has to");
	assert_int_equal(fake_agent.stops, 0);
	sandbox_info(s, &info);
	assert_string_equal(info.goes_on, "it  has to");
	wait_ms(AGAIN_MS / 2);
	assert_false(fake_got(PROTO_REST));
	say(asked(), 0, "it still has to");
	wait_ms(AGAIN_MS);
	assert_false(fake_got(PROTO_REST)); /* twice as late */
	/* A new run, a new question. */
	start_run();
	end_run();
	wait_ms(AGAIN_MS / 2);
	assert_true(fake_got(PROTO_REST));
	stop();
	sandbox_info(s, &info);
	assert_string_equal(info.goes_on, "");
}

/* So often, and as much time has passed in between for who is late. */
static void beat(unsigned n)
{
	while (n--) {
		s->guest->quiet.at_ms -= s->guest->quiet.on ? GUEST_BEAT_MS : 0;
		vm->guests.beat.timer_cb(&vm->guests.beat);
	}
}

static void nothing_is_expected_of_it(void **state)
{
	(void)state;
	stop();
	skip_all();
	beat(100);
	fake_settle();
	assert_true(STAILQ_EMPTY(&fake_agent.frames));
	assert_false(closed);
	assert_int_equal(fake_agent.conts, 0);
	/* The control: one that goes on. */
	guest_stir(s->guest);
	assert_int_equal(fake_agent.conts, 1);
	beat(100);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_SILENT);
}

/* It is to say what files it has, and takes its time: stopped, it would never do so. */
static void is_being_saved(void **state)
{
	const uint8_t none[4] = {0};

	(void)state;
	assert_int_equal(sandbox_save(s, false), 0);
	fake_free(fake_expect(PROTO_FREEZE));
	fake_send(PROTO_FROZEN, 0, 0, none, sizeof(none));
	fake_free(fake_expect(PROTO_PACK));
	skip_all();
	wait_ms(3 * QUIET_MS);
	fake_settle();
	assert_true(
		STAILQ_EMPTY(&fake_agent.frames)); /* it is not asked whether it may stand still */
	assert_int_equal(s->guest->still.state, STILL_AWAKE);
}

static void its_end_is_noticed(void **state)
{
	(void)state;
	stop();
	fake_down(PROBLEM_QEMU_KILLED, "killed");
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_QEMU_KILLED);
}

/* Whoever wants it to go on finds it dead: of what, its backend says. */
static void its_end_comes_first(void **state)
{
	(void)state;
	stop();
	fake_agent.still_error = -EPIPE;
	guest_stir(s->guest);
	assert_false(closed);
	fake_down(PROBLEM_QEMU_KILLED, "killed");
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_QEMU_KILLED);
}

static void ends_on_its_way(void **state)
{
	(void)state;
	say(asked(), 1, "");
	sandbox_close(s);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(fake_agent.conts, 0);
}

static void somebody_calls(void **state)
{
	(void)state;
	guest_stir(s->guest); /* it goes on */
	assert_int_equal(fake_agent.conts, 0);
	stop();
	skip_all();
	guest_stir(s->guest);
	assert_int_equal(fake_agent.conts, 1);
	fake_free(next(PROTO_WAKE));
	stop();
}

static void unasked(void **state)
{
	(void)state;
	say(12345, 1, "");
	assert_int_equal(fake_agent.stops, 0);
	say(asked() + 1, 1, "");
	assert_int_equal(fake_agent.stops, 0);
}

static void odd(void **state)
{
	(void)state;
	say(1, 2, "");
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
}

static void wordy(void **state)
{
	char why[PROTO_RESTING_MAX + 2];

	(void)state;
	memset(why, 'x', sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	say(asked(), 0, why);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
}

static void switched_off(void **state)
{
	(void)state;
	vm->guests.stand_still = false;
	uv_timer_stop(&s->guest->still.timer);
	start_run();
	end_run();
	wait_ms(3 * QUIET_MS);
	assert_false(fake_got(PROTO_REST));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, guest_file_fixture_teardown)
		T(goes_on_with_a_run),
		T(goes_on_with_a_file),
		T(is_being_saved),
		T(answer_too_late),
		T(stop_is_undone),
		T(answers_of_two),
		T(stop_fails),
		T(cont_fails),
		T(no),
		T(nothing_is_expected_of_it),
		T(its_end_is_noticed),
		T(its_end_comes_first),
		T(ends_on_its_way),
		T(somebody_calls),
		T(unasked),
		T(odd),
		T(wordy),
		T(switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
