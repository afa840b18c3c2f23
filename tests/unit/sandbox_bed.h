/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes whose agent is played by the test, and what their callbacks said. */
#ifndef XSBX_SANDBOX_BED_H
#define XSBX_SANDBOX_BED_H

#include "fake_agent.h"
#include "vm/buf.h"

#define MANY 8

/* What the callbacks of one sandbox said. */
struct seen {
	struct sandbox *s;
	enum sandbox_state states[16];
	unsigned nstates, nexits, nclosed;
	unsigned destroying_at_exit; /* sandboxes being taken down when the run's end was told */
	struct buf output[VM_NSTREAMS], console;
	uint32_t exit_run;
	struct vm_result result;
	bool asked;
	struct vm_problem problem;
	/* What to do in the next callback. */
	bool close_in_output, close_in_exit;
	const struct sandbox_run *run_in_exit, *run_in_ready;
	int run_result;
};

extern uv_loop_t loop;
extern struct vm *vm;
extern struct seen seen[MANY];
/* `in_call` is set while a function of the seam runs: no callback may come then. */
extern bool vm_gone, in_call;

/* For each test: a vm of four places with the fake backend; at its end nothing may be left. */
int sandbox_bed_setup(void **state);
int sandbox_bed_teardown(void **state);
void open_sandbox(struct seen *e, uid_t owner);
void until(struct seen *e, enum sandbox_state state);
void until_closed(struct seen *e);
void close_it(struct seen *e);
void open_ready(struct seen *e, uid_t owner);
struct sandbox_run a_run(uint32_t id);
int call_run(struct seen *e, const struct sandbox_run *run);
void run_one(struct seen *e, uint32_t id);
void send_output(uint32_t run, uint8_t stream, uint32_t sequence, const char *text);
void send_exit(uint32_t run, enum proto_how how, uint32_t status);
void send_ready(const char *version);
void send_hello_ok(void);
void until_exit(struct seen *e);
struct proto_in payload(const struct fake_frame *f);

#endif
