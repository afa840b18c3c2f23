/* SPDX-License-Identifier: Apache-2.0 */
/* A fake behind vm/vm.h. See vm_fake.h. */
#include "vm_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct fake_faults fake_faults;

static struct sandbox *all;

/* ---- what a test sees ---- */

struct sandbox *fake_sandbox(void)
{
	return all;
}

unsigned fake_count(void)
{
	unsigned n = 0;

	for (const struct sandbox *s = all; s; s = s->next)
		n++;
	return n;
}

unsigned fake_alive(void)
{
	unsigned n = 0;

	for (const struct sandbox *s = all; s; s = s->next)
		n += !s->gone;
	return n;
}

void fake_state(struct sandbox *s, enum sandbox_state state)
{
	assert_false(s->gone || s->closing);
	s->state = state;
	s->up = s->up || state == SANDBOX_READY;
	s->events->state(s->data, state);
}

void fake_console(struct sandbox *s, const char *text)
{
	assert_false(s->gone);
	s->events->console(s->data, text, strlen(text));
}

void fake_output_bytes(struct sandbox *s, enum vm_stream stream, const void *data, size_t len)
{
	assert_false(s->gone || !s->run);
	s->events->output(s->data, s->run, stream, data, len);
}

void fake_output(struct sandbox *s, enum vm_stream stream, const char *text)
{
	fake_output_bytes(s, stream, text, strlen(text));
}

/* Until its end, a run's standard input may be read at any time. */
static void read_stdin(const struct sandbox *s)
{
	const volatile char *p = s->stdin_data;
	unsigned sum = 0;

	for (size_t i = 0; i < s->stdin_len; i++)
		sum += (unsigned char)p[i];
	(void)sum;
}

static void end_run(struct sandbox *s, const struct vm_result *result)
{
	uint32_t run = s->run;

	read_stdin(s);
	s->run = 0;
	s->stdin_data = NULL;
	s->stdin_len = 0;
	s->events->exit(s->data, run, result);
}

void fake_result(struct sandbox *s, const struct vm_result *result)
{
	assert_false(s->gone || s->closing);
	assert_int_not_equal(s->run, 0);
	end_run(s, result);
	if (!s->closing && !s->gone && result->outcome != VM_LOST)
		fake_state(s, SANDBOX_READY);
}

void fake_exit(struct sandbox *s, enum vm_outcome outcome, unsigned status)
{
	const struct vm_result result = {.outcome = outcome, .status = status, .wall_us = 41000};

	fake_result(s, &result);
}

void fake_denied(struct sandbox *s, const char *name, uint16_t port, const char *reason)
{
	const struct sandbox_denied d = {
		.time_ms = 1700000000123, .name = name, .port = port, .reason = reason};

	assert_false(s->gone || s->closing);
	s->events->denied(s->data, &d);
}

static void drop_file(struct sandbox *s, size_t index, struct fake_file *ret_file)
{
	assert_true(index < s->nfiles);
	*ret_file = s->file[index];
	s->nfiles--;
	memmove(&s->file[index], &s->file[index + 1], (s->nfiles - index) * sizeof(*s->file));
}

void fake_answer_at(struct sandbox *s, size_t index, int err, const struct vm_file_reply *reply)
{
	struct fake_file f;

	assert_false(s->gone);
	drop_file(s, index, &f);
	free(f.name);
	free(f.newname);
	f.fn(f.data, err, err ? NULL : reply);
}

void fake_answer(struct sandbox *s, int err, const struct vm_file_reply *reply)
{
	fake_answer_at(s, 0, err, reply);
}

static void add_port(struct sandbox *s, const struct sandbox_port *p)
{
	assert_true(s->nports < SANDBOX_PORTS_MAX);
	s->ports[s->nports++] =
		(struct sandbox_port){p->guest, p->host ? p->host : (uint16_t)(40000 + p->guest)};
}

static void answer_asked(struct sandbox *s, int stale)
{
	while (s->nasked) {
		const struct sandbox_port *p = &s->asked[0].port;
		int err = stale ? stale : p->host && p->host == fake_faults.taken ? -EADDRINUSE : 0;

		if (err == 0)
			add_port(s, p);
		s->asked[0].fn(s->asked[0].data, err, p, err ? "somebody uses it" : "");
		s->nasked--;
		memmove(&s->asked[0], &s->asked[1], s->nasked * sizeof(s->asked[0]));
	}
}

void fake_forward(struct sandbox *s)
{
	assert_false(s->gone || s->closing);
	answer_asked(s, 0);
	s->events->ports(s->data);
}

static void end(struct sandbox *s, const struct vm_problem *problem)
{
	const struct vm_result lost = {
		.outcome = VM_LOST,
		.problem = problem ? *problem : (struct vm_problem){.code = "closed"},
	};

	s->closing = true;
	s->state = SANDBOX_CLOSING;
	if (s->run)
		end_run(s, &lost);
	while (s->nfiles)
		fake_answer(s, -ESTALE, NULL);
	answer_asked(s, -ESTALE);
	s->events->closed(s->data, problem);
	s->gone = true;
}

void fake_die(struct sandbox *s, const char *code)
{
	struct vm_problem p = {.cause = "the sandbox is gone", .fix = "make another"};

	assert_false(s->gone || s->closing);
	snprintf(p.code, sizeof(p.code), "%s", code);
	end(s, &p);
}

void fake_settle(void)
{
	for (struct sandbox *s = all; s; s = s->next)
		if (s->closing && !s->gone)
			end(s, NULL);
}

void fake_check_all(void)
{
	unsigned alive = fake_alive();

	while (all) {
		struct sandbox *next = all->next;

		free(all->code);
		free(all->allow);
		free(all);
		all = next;
	}
	fake_faults = (struct fake_faults){0};
	assert_int_equal(alive, 0);
}

/* ---- what fs/ sees ---- */

static void must_be_alive(const struct sandbox *s)
{
	if (!s || s->gone)
		fail_msg("a sandbox was used after its end");
}

int sandbox_allow(struct sandbox *s, const char *text, size_t len, char ret_why[static VM_WHY_MAX])
{
	int e;

	must_be_alive(s);
	e = vm_allow_check(text, len, ret_why);
	if (e < 0)
		return e;
	if (!s->network)
		return -EOPNOTSUPP;
	free(s->allow);
	s->allow = strndup(text, len);
	return 0;
}

void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data)
{
	for (size_t i = 0; i < s->nports; i++)
		fn(data, &s->ports[i]);
}

int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX])
{
	must_be_alive(s);
	if (!s->network) {
		snprintf(ret_why, VM_WHY_MAX, "the sandbox has no network");
		return -EOPNOTSUPP;
	}
	if (s->nports + s->nasked == SANDBOX_PORTS_MAX)
		return -ENOSPC;
	s->asked[s->nasked].port = (struct sandbox_port){guest, host};
	s->asked[s->nasked].fn = fn;
	s->asked[s->nasked++].data = data;
	return 0;
}

int sandbox_traffic(const struct sandbox *s, struct sandbox_traffic *ret_traffic)
{
	must_be_alive(s);
	*ret_traffic = s->traffic;
	return s->network ? 0 : -ENODATA;
}

int sandbox_unforward(struct sandbox *s, uint16_t guest)
{
	must_be_alive(s);
	for (size_t i = 0; i < s->nports; i++) {
		if (s->ports[i].guest != guest)
			continue;
		s->nports--;
		memmove(&s->ports[i], &s->ports[i + 1], (s->nports - i) * sizeof(*s->ports));
		return 0;
	}
	return -ENOENT;
}

int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox)
{
	struct sandbox *s;

	(void)vm;
	if (fake_faults.new_err)
		return fake_faults.new_err;
	s = calloc(1, sizeof(*s));
	assert_non_null(s);
	snprintf(s->name, sizeof(s->name), "%s", spec->name);
	snprintf(s->language, sizeof(s->language), "%s", spec->language);
	s->memory_mb = spec->memory_mb;
	s->nenv = (unsigned)spec->nenv;
	for (size_t i = 0; i < spec->nenv; i++)
		assert_true(*spec->env[i].name && spec->env[i].value);
	s->network = spec->network;
	s->allow = strdup(spec->allow);
	for (size_t i = 0; i < spec->nports; i++)
		add_port(s, &spec->ports[i]);
	s->events = events;
	s->data = data;
	s->next = all;
	all = s;
	*ret_sandbox = s;
	return 0;
}

void sandbox_hold(struct sandbox *s, bool hold)
{
	must_be_alive(s);
	s->held = hold;
}

int sandbox_run(struct sandbox *s, const struct sandbox_run *run)
{
	must_be_alive(s);
	if (fake_faults.run_err)
		return fake_faults.run_err;
	if (s->closing || s->state != SANDBOX_READY)
		return -EBUSY;
	assert_int_equal(s->run, 0);
	assert_int_not_equal(run->id, 0);
	s->state = SANDBOX_RUNNING;
	s->run = run->id;
	s->nruns++;
	free(s->code);
	s->code = strndup(run->code, run->code_len);
	s->stdin_data = run->stdin_data;
	s->stdin_len = run->stdin_len;
	s->timeout_ms = run->timeout_ms;
	return 0;
}

int sandbox_signal(struct sandbox *s, uint32_t id, enum sandbox_signal sig)
{
	must_be_alive(s);
	if (s->closing || !s->run || s->run != id)
		return -ESRCH;
	s->signals[sig]++;
	return 0;
}

int sandbox_freeze(struct sandbox *s)
{
	must_be_alive(s);
	return -EBUSY;
}

void sandbox_thaw(struct sandbox *s)
{
	must_be_alive(s);
}

int sandbox_reset(struct sandbox *s)
{
	must_be_alive(s);
	if (s->state != SANDBOX_READY)
		return -EBUSY;
	s->nresets++;
	s->state = SANDBOX_STARTING;
	return 0;
}

void sandbox_close(struct sandbox *s)
{
	must_be_alive(s);
	s->closing = true;
	s->state = SANDBOX_CLOSING;
}

void sandbox_info(const struct sandbox *s, struct sandbox_info *ret_info)
{
	must_be_alive(s);
	*ret_info = (struct sandbox_info){
		.state = s->state,
		.backend = "microvm",
		.start = "cold",
		.accel = "tcg",
		.pid = 4711,
		.waited_ms = 1,
		.boot_ms = 2,
		.setup_ms = 3,
		.interpreter = "Fake 1.0",
	};
}

struct vm_work *vm_work_of(const struct sandbox *s)
{
	(void)s;
	return NULL;
}

void vm_work_free(struct vm_work *w)
{
	assert_null(w);
}

int vm_work_do(struct vm_work *w, enum vm_work_op op, vm_work_judge_fn judge, vm_work_fn fn,
	       void *data)
{
	(void)judge;
	(void)w;
	(void)op;
	(void)fn;
	(void)data;
	return -ENOSYS;
}

int sandbox_usage(const struct sandbox *s, struct sandbox_usage *ret_usage)
{
	must_be_alive(s);
	if (!s->usage.mem_total_kib)
		return -ENODATA;
	*ret_usage = s->usage;
	return 0;
}

int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data)
{
	struct fake_file *f = &s->file[s->nfiles];

	must_be_alive(s);
	if (s->closing || !s->up)
		return -ESTALE;
	if (req->op == VM_FORGET || req->op == VM_RELEASE) {
		assert_null(fn);
		s->nreleases += req->op == VM_RELEASE;
		s->forgotten += req->op == VM_FORGET ? req->lookups : 0;
		return 0;
	}
	if (req->op == VM_CANCEL_LOCK) {
		assert_null(fn);
		s->ncancels++;
		s->cancelled = req->lock;
		return 0;
	}
	assert_non_null(fn);
	assert_true(s->nfiles < FAKE_FILES_MAX);
	*f = (struct fake_file){.rq = *req, .fn = fn, .data = data};
	f->rq.name = f->name = req->name ? strdup(req->name) : NULL;
	f->rq.newname = f->newname = req->newname ? strdup(req->newname) : NULL;
	f->rq.data = NULL; /* only valid during the call */
	s->nfiles++;
	return 0;
}

bool sandbox_waits(const struct sandbox *s, struct sandbox_wait *ret_wait)
{
	must_be_alive(s);
	*ret_wait = (struct sandbox_wait){.what = "place", .why = "a fake", .turn = 1, .of = 1};
	return s->state == SANDBOX_WAITING;
}

void sandbox_isolation(const struct sandbox *s,
		       void (*line)(void *data, const char *key, const char *value), void *data)
{
	(void)s;
	line(data, "seccomp", "on");
}
