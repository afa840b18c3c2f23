/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between the agent and an interpreter's driver: fixed-size datagrams with descriptors. */
#ifndef XSBX_AGENT_INTERP_DRIVER_H
#define XSBX_AGENT_INTERP_DRIVER_H

#include <signal.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * An interpreter is a child of the agent that serves many turns (runs). It is started as
 *
 *	python      python3 -s -B $LIB/repl.py CTL      (which loads turn.so and stays in it)
 *	javascript  bun --config=/dev/null --no-env-file --no-install $LIB/repl.mjs CTL BELL
 *	raw         bash --norc --noprofile $LIB/repl.sh CTL    (which loads turn.so and stays in it)
 *
 * with $LIB = /usr/lib/xsbx in an image. In a jail, where $LIB has start.py, that one is run, which
 * loads repl.py as it was compiled when xsbxfs was built. CTL is the number of an AF_UNIX
 * SOCK_SEQPACKET socket. BELL is the read end of a pipe to which the agent writes one byte after
 * each datagram, for a runtime that can poll a pipe but not a datagram socket. Initially 0 is
 * /dev/null, and 1 and 2 lead to the agent's log. The environment is the sandbox's; variables that
 * would make python3 load the user's files before the driver are renamed to XSBX_..., and repl.py
 * restores them. The driver moves CTL and BELL to high close-on-exec descriptors, makes itself
 * undumpable, initializes itself, and sends DRIVER_READY followed by its version as text.
 *
 * Each turn is one datagram DRIVER_RUN with four descriptors in SCM_RIGHTS: standard input,
 * standard output, standard error (all new for this turn) and a sealed memfd with the code; and, for a
 * driver that announces DRIVER_CAN_ORDER, a fifth, see below. The
 * driver moves the first three to 0, 1 and 2, where they stay until the next turn, runs the code,
 * flushes its buffers of 1 and 2, and answers DRIVER_DONE with the turn's nonce. All output of the
 * turn is in the pipes before that datagram, so the end of a turn is exact. If the driver cannot
 * accept the turn because it is out of descriptors or memory, it answers DRIVER_DONE with a negative
 * status, -errno, and waits for the next one. A driver that exits or is killed ends the turn with
 * its wait status, and the interpreter's state is lost.
 *
 * User code runs in the driver's process, so the agent does not trust answers. The very first
 * datagram is DRIVER_KEY. The key stays in the native part of the driver, which only uses it to make
 * tokens (token.h): DRIVER_DONE contains the token of the nonce in place of the nonce. An answer that
 * comes from another process, or has a wrong token, is ignored; a valid one takes effect when the
 * main thread waits for the next request. The native part in turn ignores datagrams that, according
 * to the kernel, do not come from the agent, its parent.
 *
 * A driver waits for all requests at one place: the same system call, instruction and stack depth,
 * from DRIVER_READY on. It does nothing between an answer and that wait; deferred work is done on
 * DRIVER_TIDY, which is sent while idle, and has no answer. DRIVER_NUDGE makes it wait anew and do
 * nothing else: by that the agent knows that the wait began after it was sent, at the socket that
 * it was sent to. Drivers that don't know it do the same with it.
 *
 * A runtime with an event loop waits with a limit of time for reasons of its own. So a driver of
 * one announces DRIVER_CAN_TELL, and answers DRIVER_TIMERS, while idle, with DRIVER_TIMERS:
 * `status` is how many timers user code has set that have not fired. Whoever lies there is late
 * himself.
 *
 * Order. What lies in two pipes does not tell which of it came first. So a driver may put what its
 * interpreter's own streams write into a third one, as records: a struct driver_record and its
 * bytes, in one write(2) of at most DRIVER_RECORD_MAX bytes, which the kernel does not mix with
 * others. Anything else that user code has (children, write(2), libraries) writes to 1 and 2. The
 * agent takes what is in 1 and 2 after all records; therefore a driver writes a record only if 1
 * and 2 are empty at that time, and otherwise does as user code would. It also makes sure that 1, 2
 * and the third are still what the agent has made: user code may put anything in their places,
 * which is then to get what the streams write. The agent has marked the descriptions with F_SETSIG,
 * which has no other effect as long as nobody sets O_ASYNC, and F_GETSIG is the cheapest question.
 *
 * DRIVER_PREPARE says that the machine is about to be copied: a driver that announces
 * DRIVER_CAN_PREPARE does what would otherwise be done in each copy, where it takes far longer,
 * before that gets its seed. It has no answer.
 *
 * SIGINT during a turn interrupts it (status 130, state kept); between turns it is ignored.
 * DRIVER_WARM makes the driver exercise itself (imports of common libraries, a compiled no-op)
 * without any visible effect on later turns; DRIVER_SEED reseeds the random generators from the
 * 32 bytes in `seed`. Both are answered by DRIVER_DONE with status 0. A turn may contain a seed too,
 * to be used before the code is run.
 *
 * A turn with DRIVER_RUN_IMPORT comes before all others, and only imports: its code is names of
 * packages as their registry writes them, one a line. Each name is written to standard error before
 * it is imported, behind a byte PROTO_IMPORT_AT and ended by a line feed; what else is written
 * there after that is why it failed. What the modules themselves write goes nowhere. The status is
 * 0 if all were imported that can be, and nothing is different but for the modules: no variable of
 * the user's, no thread, no child, signal handler or directory. Otherwise the driver stops at the
 * first that was not: the process is good for nothing more.
 *
 * A turn with DRIVER_RUN_PLACE has a working directory and variables of its own: words before the
 * code, in the same memfd, each with a NUL behind it: the directory's absolute path, or an empty
 * word; NAME=VALUE of each variable; and an empty word. They are put in place before the code runs,
 * and what was there before the turn comes back before the answer, whatever the code has made of
 * it. If that cannot be, the turn is not accepted (-errno), and nothing is different.
 *
 * A driver that announces it in DRIVER_READY handles DRIVER_COPY, which is sent before any other
 * turn, by making a copy of its process: a child of the agent, in its own session, with the
 * received socket as its CTL and the key in `seed`. The copy sends its own DRIVER_READY first; the
 * original, which is unchanged, answers DRIVER_DONE, with a status other than 0 if it could not
 * make a copy.
 *
 * Integers are in host byte order: both sides are on the same machine.
 */

enum driver_type {
	DRIVER_READY = 1, /* driver: text after the struct, e.g. "Python 3.14.0" */
	DRIVER_RUN,	  /* agent: four or five descriptors */
	DRIVER_DONE,	  /* driver */
	DRIVER_WARM,	  /* agent */
	DRIVER_SEED,	  /* agent: `seed` */
	DRIVER_COPY,	  /* agent: one descriptor */
	DRIVER_TIDY,	  /* agent; has no answer */
	DRIVER_KEY,	  /* agent: `seed`; has no answer */
	DRIVER_NUDGE,	  /* agent; has no answer */
	DRIVER_TIMERS,	  /* agent, and driver: `status` */
	DRIVER_PREPARE,	  /* agent; has no answer */
};

/* `status` of DRIVER_READY: what the driver can do. */
#define DRIVER_CAN_COPY	   1
#define DRIVER_CAN_SEED	   2   /* a turn may contain a seed; else it has to be sent separately */
#define DRIVER_CAN_PROVE   4   /* it supports KEY and TIDY, and waits at one place */
#define DRIVER_CAN_ORDER   8   /* it writes records, if it gets a pipe for them */
#define DRIVER_CAN_IMPORT  16  /* it knows of DRIVER_RUN_TRIAL and DRIVER_RUN_IMPORT */
#define DRIVER_CAN_PLACE   32  /* it knows of DRIVER_RUN_PLACE */
#define DRIVER_CAN_TELL	   64  /* it knows of DRIVER_TIMERS */
#define DRIVER_CAN_PREPARE 128 /* it knows of DRIVER_PREPARE */

/* `status` of DRIVER_RUN. */
#define DRIVER_RUN_SEED	   1 /* it contains a seed */
#define DRIVER_RUN_TRIAL   2 /* an exercise: it draws no random numbers */
#define DRIVER_RUN_IMPORT  4 /* the code is names of packages, to be imported */
#define DRIVER_RUN_PLACE   8 /* words come before it, see above */

/* The descriptors of a turn: 0, 1 and 2, and these. */
enum { DRIVER_FD_CODE = 3, DRIVER_FD_RECORDS, DRIVER_NFDS };

#define DRIVER_NONCE	16
#define DRIVER_KEY_SIZE 16  /* of the 32 bytes of `seed` */
#define DRIVER_VERSION	128 /* most bytes of text after DRIVER_READY */

/* Every datagram, in both directions, starts with these 64 bytes. */
struct driver_msg {
	uint32_t type;		     /* enum driver_type */
	uint32_t turn;		     /* number of the run, for file names such as "<run 3>" */
	uint8_t nonce[DRIVER_NONCE]; /* chosen by the agent for each request; DONE: its token */
	uint32_t code_len;	     /* RUN: bytes of code in the memfd, at its end */
	int32_t status;		     /* DONE: 0..255, or -errno for a RUN that was not started;
				      * RUN: DRIVER_RUN_*; READY: DRIVER_CAN_* */
	uint8_t seed[32];	     /* SEED, RUN, KEY, COPY */
};

#define DRIVER_RECORD_MAX 4096u /* PIPE_BUF */

/* What precedes the bytes of a record. */
struct driver_record {
	uint8_t stream; /* 1 or 2 */
	uint8_t zero;
	uint16_t len; /* of the bytes, not 0 */
};

/* The marks of the pipes: of standard output, standard error, and records. */
#define DRIVER_MARK_STDOUT  SIGIO
#define DRIVER_MARK_STDERR  SIGURG
#define DRIVER_MARK_RECORDS SIGWINCH

_Static_assert(sizeof(struct driver_msg) == 64, "layout is known to repl.py and repl.mjs");

#endif
