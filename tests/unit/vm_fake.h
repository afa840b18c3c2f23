/* SPDX-License-Identifier: Apache-2.0 */
/* A fake behind vm/vm.h: keeps what was asked of it, and reports what a test tells it to, when it tells it. */
#ifndef XSBX_VM_FAKE_H
#define XSBX_VM_FAKE_H

#include "../../vm/vm.h"

/*
 * The seam's rules hold here as well: a callback only ever comes out of a fake_*() function, which a test
 * calls from outside, and never out of the functions of vm.h. Whoever uses a sandbox after its
 * `closed` fails the test.
 */

#define FAKE_FILES_MAX 64

struct fake_file {
	struct vm_file rq;
	char *name, *newname; /* what rq's point to */
	vm_file_fn fn;
	void *data;
};

/* Sandboxes stay here until fake_check_all(), also after their end. */
struct sandbox {
	struct sandbox *next;
	char name[128], language[32];
	unsigned memory_mb, nenv;
	bool network;
	char *allow; /* the last list */
	struct sandbox_port ports[SANDBOX_PORTS_MAX];
	size_t nports;
	struct {
		struct sandbox_port port;
		sandbox_forward_fn fn;
		void *data;
	} asked[SANDBOX_PORTS_MAX]; /* forwards without an answer, oldest first */
	size_t nasked;
	struct sandbox_traffic traffic;
	const struct sandbox_events *events;
	void *data;
	enum sandbox_state state;
	bool up; /* has been READY */
	bool closing, gone;

	uint32_t run; /* active run, 0: none */
	char *code;   /* of the last run, terminated */
	const void *stdin_data;
	size_t stdin_len;
	unsigned timeout_ms, nruns, nresets;
	unsigned signals[2]; /* by enum sandbox_signal */
	bool held;	     /* sandbox_hold() */

	struct fake_file file[FAKE_FILES_MAX]; /* unanswered, oldest first */
	size_t nfiles;
	unsigned nreleases;
	uint64_t forgotten; /* lookups */
	unsigned ncancels;
	struct vm_lock cancelled; /* the last one */
	struct sandbox_usage usage;
};

/* What the next calls say: errors to be returned by sandbox_new() and sandbox_run(). */
struct fake_faults {
	int new_err, run_err;
	uint16_t taken; /* this port of the host cannot be had */
};

extern struct fake_faults fake_faults;

/* The question of vm_offer() that has no answer yet, if `fn` is set. */
struct fake_asked {
	char packages[512];
	vm_offer_fn fn;
	void *data;
};

extern struct fake_asked fake_asked;

/* Answers it. */
void fake_offer(const char *words, const char *why);

/* The newest sandbox, or NULL; how many there have been; how many have not ended. */
struct sandbox *fake_sandbox(void);
unsigned fake_count(void);
unsigned fake_alive(void);

/* Answers all that sandbox_forward() was asked for. */
void fake_forward(struct sandbox *s);

/* What its network refused. */
void fake_denied(struct sandbox *s, const char *name, uint16_t port, const char *reason);

/* What a sandbox reports. */
void fake_state(struct sandbox *s, enum sandbox_state state);
void fake_console(struct sandbox *s, const char *text);
void fake_output(struct sandbox *s, enum vm_stream stream, const char *text);
void fake_output_bytes(struct sandbox *s, enum vm_stream stream, const void *data, size_t len);
/* The active run ends; the sandbox is READY again, except after VM_LOST. */
void fake_exit(struct sandbox *s, enum vm_outcome outcome, unsigned status);
void fake_result(struct sandbox *s, const struct vm_result *result);
/* It dies by itself: the active run is lost, requests are stale. */
void fake_die(struct sandbox *s, const char *code);
/* Ends those that sandbox_close() was called for. */
void fake_settle(void);

/* Answers the oldest file request. @reply is given on unless @err. */
void fake_answer(struct sandbox *s, int err, const struct vm_file_reply *reply);
/* Likewise the one at @index. */
void fake_answer_at(struct sandbox *s, size_t index, int err, const struct vm_file_reply *reply);

/* At the end of a test: every sandbox has ended. Frees all. */
void fake_check_all(void);

#endif
