/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter: one process that lives for many runs, spoken to through its driver. */
#ifndef XSBX_AGENT_INTERP_INTERP_H
#define XSBX_AGENT_INTERP_INTERP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "driver.h"
#include "agent/core/loop.h"
#include "agent/protocol.h"
#include "rest.h"

struct guest_env;

enum interp_state {
	INTERP_NONE,	 /* no process */
	INTERP_STARTING, /* waiting for DRIVER_READY */
	INTERP_IDLE,
	INTERP_BUSY,   /* a request was sent; `doing` says which */
	INTERP_ENDING, /* killed, or its socket is closed; not reaped yet */
	INTERP_NSTATES,
};

/* What interpreters are started with. */
struct interp_config {
	int language; /* index into the table of languages, -1 before the first SETUP */
	uint32_t nproc, nofile;
	uint64_t fsize; /* 0: none */
	char **envp;	/* owned, as is every string */
};

/* How it is treated until it gets to run code. */
enum interp_rank {
	INTERP_ACTIVE, /* like any program */
	INTERP_SPARE, /* yields the processor to all others, and is the first to go for want of memory */
};

struct interp {
	struct loop *loop;
	const struct guest_env *env;
	const struct interp_config *config;
	void *owner; /* for the callbacks */

	enum interp_state state;
	enum interp_rank rank;
	pid_t pid;		/* 0 if there is none, or if a copy has not told it yet */
	bool used;		/* it was given a turn */
	bool holds;		/* ... which has left something that would be missed */
	bool unread;		/* it has ended and never took the last request */
	bool warm;		/* it has exercised itself */
	bool can_copy;		/* its driver knows DRIVER_COPY */
	bool can_seed;		/* ... and seeds that come with a turn */
	bool can_prove;		/* ... and that what it answers is true */
	struct loop_source ctl; /* our end of the driver's socket */
	struct loop_source out; /* what it printed before its first turn, for the log */
	int bell;
	enum driver_type doing;
	uint8_t key[DRIVER_KEY_SIZE];
	uint8_t nonce[DRIVER_NONCE]; /* what the answer has to have in its place */
	struct loop_timer deadline;

	struct rest rest; /* where it waits for requests */
	bool answered;	  /* it says that it has done what was asked, and is not at rest yet */
	int answer;	  /* the status it says */
	struct loop_timer look;
	uint64_t look_us;

	char version[DRIVER_VERSION + 1];
	uint64_t born;	   /* now_us() at the start of the process */
	uint64_t start_us; /* from there to DRIVER_READY */

	void (*on_ready)(struct interp *i);
	void (*on_done)(struct interp *i, enum driver_type what, int status);
	/* It is gone; the state is INTERP_NONE again. @was is the state before it ended or was
	 * killed. */
	void (*on_death)(struct interp *i, enum interp_state was, int wait_status,
			 const struct rusage *ru);
	enum interp_state was;
	bool killed; /* by us */
};

/** interp_log_end() - Say in the log that @which has ended, in what state, and how. */
void interp_log_end(const char *which, enum interp_state was, int wait_status);

/**
 * interp_configure() - Remember what interpreters are to be started with
 * @env: Where the agent is
 * @c: What it was until now, and is afterwards
 * @s: The host's settings
 * @ret_changed: True if they differ from the ones before
 *
 * Return: 0, -EINVAL for an unknown language or a variable with a bad name, -ENOMEM.
 */
int interp_configure(const struct guest_env *env, struct interp_config *c,
		     const struct proto_setup *s, bool *ret_changed);

/** interp_config_fini() - Free a configuration. */
void interp_config_fini(struct interp_config *c);

/**
 * interp_start() - Start the process
 * @i: Interpreter in state INTERP_NONE, configured
 * @rank: What it is started as
 * @ret_step: On failure, what failed, as a static string
 *
 * Return: 0 or -errno.
 */
int interp_start(struct interp *i, enum interp_rank rank, const char **ret_step);

/**
 * interp_copy() - Have an interpreter make a copy of itself
 * @from: In state INTERP_IDLE, unused, with can_copy
 * @to: In state INTERP_NONE; becomes INTERP_STARTING, and ready soon
 *
 * Return: 0 or -errno.
 */
int interp_copy(struct interp *from, struct interp *to);

/** interp_set_rank() - Make a spare, or the copy of one, an active interpreter, or the reverse. */
void interp_set_rank(struct interp *i, enum interp_rank rank);

/** interp_rest() - Spare time is enough for what is wanted of a spare. */
void interp_rest(struct interp *i);

/** interp_hurry() - Something is wanted of a spare: it yields to nobody from now on. */
void interp_hurry(struct interp *i);

/**
 * interp_run() - Hand over a turn
 * @i: Interpreter in state INTERP_IDLE
 * @turn: Number of the run
 * @fds: stdin, stdout, stderr, code; still the caller's
 * @code_len: Bytes of code
 * @seed: 32 bytes of new randomness, to be used before the code is run, or NULL
 *
 * Return: 0 or -errno.
 */
int interp_run(struct interp *i, uint32_t turn, const int fds[DRIVER_NFDS], uint32_t code_len,
	       const uint8_t *seed);

/** interp_warm() - Let an idle interpreter exercise itself. Return: 0 or -errno. */
int interp_warm(struct interp *i);

/** interp_seed() - Give an idle interpreter new randomness. Return: 0 or -errno. */
int interp_seed(struct interp *i, const uint8_t seed[32]);

/** interp_tidy() - Nobody waits for an idle interpreter: let it get ready for its next turn. */
void interp_tidy(struct interp *i);

/** interp_is_deaf() - True if the interpreter ignores SIGINT: it is not ready, or its user's code is so. */
bool interp_is_deaf(const struct interp *i);

/** interp_unread() - True if the driver has not taken the last request yet. */
bool interp_unread(const struct interp *i);

/** interp_listens() - False if it has ended, or is about to, and its death was not seen yet. */
bool interp_listens(const struct interp *i);

/** interp_interrupt() - Send SIGINT to the process group of an interpreter in a turn. */
void interp_interrupt(struct interp *i);

/** interp_kill() - End the process; on_death follows. */
void interp_kill(struct interp *i);

/** interp_give_up() - It can't be asked for anything: the same, unless it is ending by itself. */
void interp_give_up(struct interp *i);

/**
 * interp_reaped() - A child was reaped
 * @i: Interpreter
 * @pid: Which
 * @wait_status: How
 * @ru: Its cost
 *
 * Return: true if it was the interpreter.
 */
bool interp_reaped(struct interp *i, pid_t pid, int wait_status, const struct rusage *ru);

/** interp_fini() - Close what leads to a process that is gone. */
void interp_fini(struct interp *i);

#endif
