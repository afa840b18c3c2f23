/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter: one process that executes many runs, controlled through its driver. */
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

struct chance_end;
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
	uint64_t fsize; /* file size limit; 0: none */
	char **envp;	/* owned, as is every string */
	bool seeded;	/* their random numbers follow from `seed` */
	uint64_t seed;
	const struct chance_end *chance; /* for that; or NULL */
	bool loads_other; /* one that is started may execute code that is not its driver's, before any run */
};

/* Its priority until it runs code. */
enum interp_rank {
	INTERP_ACTIVE, /* that of any program */
	INTERP_SPARE,  /* lowest for the processor, and the OOM killer's first choice */
};

struct interp {
	struct loop *loop;
	const struct guest_env *env;
	const struct interp_config *config;
	void *owner; /* for the callbacks */

	enum interp_state state;
	enum interp_rank rank;
	pid_t pid;  /* 0 if there is none, or if a copy has not reported it yet */
	bool used;  /* it has executed a turn */
	bool holds; /* it has state that would be missed */
	bool touched; /* code that is not its driver's was executed in it, or in what it is a copy of */
	bool unread;		/* it has ended without reading the last request */
	bool warm;		/* it was exercised */
	bool can_copy;		/* its driver supports DRIVER_COPY */
	bool can_seed;		/* its driver accepts a seed with a turn */
	bool can_prove;		/* its driver can authenticate its answers */
	bool can_order;		/* its driver writes records */
	bool can_import;	/* its driver imports packages */
	bool can_place;		/* ... gives a turn a directory and variables of its own */
	bool can_tell;		/* ... tells of timers */
	bool can_prepare;	/* ... gets ready for being copied with the machine */
	struct loop_source ctl; /* our end of the driver's socket */
	uint64_t peer;		/* the driver's end, by rest_socket() */
	struct loop_source out; /* its output before the first turn, for the log */
	int bell;
	enum driver_type doing;
	uint8_t key[DRIVER_KEY_SIZE];
	uint8_t nonce[DRIVER_NONCE]; /* expected in the answer */
	struct loop_timer deadline;
	uint64_t until; /* now_us() until which it may answer, if that is not the run's time */

	int timers; /* of user code that have not fired; -1: it was asked, or never */

	struct rest rest; /* where it waits for requests */
	bool answered;	  /* it has reported completion, but is not at rest yet */
	int answer;	  /* the status it has reported */
	struct loop_timer look;
	uint64_t look_us;

	char version[DRIVER_VERSION + 1];
	uint64_t born;	   /* now_us() at the start of the process */
	uint64_t start_us; /* time from there to DRIVER_READY */

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

/** interp_program() - The program that runs code of a language; NULL if there is no such language. */
const char *interp_program(const struct guest_env *env, struct proto_str language);

/**
 * interp_configure() - Set the configuration that interpreters are started with
 * @env: Environment of the agent
 * @c: Configuration; updated
 * @s: Settings from the host
 * @ret_changed: True if they differ from the previous ones
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
 * @rank: Its priority
 * @ret_step: On failure, the step that failed, as a static string
 *
 * Return: 0 or -errno.
 */
int interp_start(struct interp *i, enum interp_rank rank, const char **ret_step);

/**
 * interp_copy() - Make an interpreter fork a copy of itself
 * @from: In state INTERP_IDLE, unused, with can_copy
 * @to: In state INTERP_NONE; becomes INTERP_STARTING, and ready soon
 *
 * Return: 0 or -errno.
 */
int interp_copy(struct interp *from, struct interp *to);

/** interp_set_rank() - Make a spare, or the copy of one, an active interpreter, or the reverse. */
void interp_set_rank(struct interp *i, enum interp_rank rank);

/** interp_rest() - Return a spare interpreter to the lowest priority. */
void interp_rest(struct interp *i);

/** interp_hurry() - Something waits for a spare interpreter: give it normal priority. */
void interp_hurry(struct interp *i);

/**
 * interp_run() - Send a turn to an interpreter
 * @i: Interpreter in state INTERP_IDLE
 * @turn: Number of the run
 * @fds: stdin, stdout, stderr, code, and the pipe for records or -1; owned by the caller
 * @code_len: Bytes of code
 * @how: DRIVER_RUN_TRIAL, DRIVER_RUN_IMPORT; with the latter it counts as unused afterwards
 * @seed: 32 bytes of new randomness, to be used before the code is run, or NULL
 *
 * Return: 0 or -errno.
 */
int interp_run(struct interp *i, uint32_t turn, const int fds[DRIVER_NFDS], uint32_t code_len,
	       unsigned how, const uint8_t *seed);

/** interp_warm() - Make an idle interpreter exercise itself. Return: 0 or -errno. */
int interp_warm(struct interp *i);

/** interp_seed() - Send new entropy to an idle interpreter. Return: 0 or -errno. */
int interp_seed(struct interp *i, const uint8_t seed[32]);

/** interp_tidy() - Let an idle interpreter clean up for its next turn, while nothing waits for it. */
void interp_tidy(struct interp *i);

/**
 * interp_nudge() - Make an idle interpreter's driver begin its wait anew
 *
 * Return: false if it was told nothing. Else that has happened when interp_unread() is false, and after that it is at
 * rest.
 */
bool interp_nudge(struct interp *i);

/**
 * interp_prepare() - Let one that has executed code get ready for its machine to be copied
 *
 * Return: false if it was told nothing. Else it is done as interp_nudge() says.
 */
bool interp_prepare(struct interp *i);

/** interp_ask_timers() - Ask a driver that can tell: `timers` will be known. Return: false if it was not asked. */
bool interp_ask_timers(struct interp *i);

/** interp_is_deaf() - True if the interpreter ignores SIGINT: not ready yet, or ignored by user code. */
bool interp_is_deaf(const struct interp *i);

/** interp_unread() - True if the driver has not read the last request yet. */
bool interp_unread(const struct interp *i);

/** interp_listens() - False if it has ended, or is about to, even if that was not noticed yet. */
bool interp_listens(const struct interp *i);

/** interp_interrupt() - Send SIGINT to the process group of an interpreter in a turn. */
void interp_interrupt(struct interp *i);

/** interp_kill() - End the process; on_death follows. */
void interp_kill(struct interp *i);

/** interp_give_up() - It does not accept requests: kill it, unless it is ending by itself. */
void interp_give_up(struct interp *i);

/**
 * interp_reaped() - A child was reaped
 * @i: Interpreter
 * @pid: Process id
 * @wait_status: Status from wait4()
 * @ru: Its resource usage
 *
 * Return: true if it was the interpreter.
 */
bool interp_reaped(struct interp *i, pid_t pid, int wait_status, const struct rusage *ru);

/** interp_fini() - Close the descriptors of a process that is gone. */
void interp_fini(struct interp *i);

#endif
