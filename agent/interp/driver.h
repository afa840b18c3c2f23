/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between the agent and an interpreter's driver: fixed-size datagrams with descriptors. */
#ifndef XSBX_AGENT_INTERP_DRIVER_H
#define XSBX_AGENT_INTERP_DRIVER_H

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
 * with $LIB = /usr/lib/xsbx in an image. CTL is the number of an AF_UNIX SOCK_SEQPACKET socket. BELL is the
 * read end of a pipe to which the agent writes one byte after each datagram, for a runtime that can
 * poll a pipe but not a datagram socket. Initially 0 is /dev/null, and 1 and 2 lead to the agent's
 * log. The environment is the sandbox's; variables that would make python3 load the user's files
 * before the driver are renamed to XSBX_..., and repl.py restores them. The driver moves CTL and
 * BELL to high close-on-exec descriptors, makes itself undumpable, initializes itself, and sends
 * DRIVER_READY followed by its version as text.
 *
 * Each turn is one datagram DRIVER_RUN with four descriptors in SCM_RIGHTS: standard input,
 * standard output, standard error (all new for this turn) and a sealed memfd with the code. The
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
 * DRIVER_TIDY, which is sent while idle, and has no answer.
 *
 * SIGINT during a turn interrupts it (status 130, state kept); between turns it is ignored.
 * DRIVER_WARM makes the driver exercise itself (imports of common libraries, a compiled no-op)
 * without any visible effect on later turns; DRIVER_SEED reseeds the random generators from the
 * 32 bytes in `seed`. Both are answered by DRIVER_DONE with status 0. A turn may contain a seed too,
 * to be used before the code is run.
 *
 * A driver that announces it in DRIVER_READY handles DRIVER_COPY, which is sent before any turn, by
 * making a copy of its process: a child of the agent, in its own session, with the received socket
 * as its CTL and the key in `seed`. The copy sends its own DRIVER_READY first; the original, which
 * is unchanged, answers DRIVER_DONE, with a status other than 0 if it could not make a copy.
 *
 * Integers are in host byte order: both sides are on the same machine.
 */

enum driver_type {
	DRIVER_READY = 1, /* driver: text after the struct, e.g. "Python 3.14.0" */
	DRIVER_RUN,	  /* agent: four descriptors */
	DRIVER_DONE,	  /* driver */
	DRIVER_WARM,	  /* agent */
	DRIVER_SEED,	  /* agent: `seed` */
	DRIVER_COPY,	  /* agent: one descriptor */
	DRIVER_TIDY,	  /* agent; has no answer */
	DRIVER_KEY,	  /* agent: `seed`; has no answer */
};

/* `status` of DRIVER_READY: what the driver can do. */
#define DRIVER_CAN_COPY	 1
#define DRIVER_CAN_SEED	 2 /* a turn may contain a seed; else it has to be sent separately */
#define DRIVER_CAN_PROVE 4 /* it supports KEY and TIDY, and waits at one place */

#define DRIVER_NFDS	 4
#define DRIVER_NONCE	 16
#define DRIVER_KEY_SIZE	 16  /* of the 32 bytes of `seed` */
#define DRIVER_VERSION	 128 /* most bytes of text after DRIVER_READY */

/* Every datagram, in both directions, starts with these 64 bytes. */
struct driver_msg {
	uint32_t type;		     /* enum driver_type */
	uint32_t turn;		     /* number of the run, for file names such as "<run 3>" */
	uint8_t nonce[DRIVER_NONCE]; /* chosen by the agent for each request; DONE: its token */
	uint32_t code_len;	     /* RUN: bytes of code in the memfd */
	int32_t status;		     /* DONE: 0..255, or -errno for a RUN that was not started;
				      * RUN: 1 if it contains a seed, else 0; READY: DRIVER_CAN_* */
	uint8_t seed[32];	     /* SEED, RUN, KEY, COPY */
};

_Static_assert(sizeof(struct driver_msg) == 64, "layout is known to repl.py and repl.mjs");

#endif
