/* SPDX-License-Identifier: Apache-2.0 */
/* Between the agent and the driver of an interpreter: fixed-size datagrams with descriptors. */
#ifndef XSBX_AGENT_INTERP_DRIVER_H
#define XSBX_AGENT_INTERP_DRIVER_H

#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * An interpreter is a child of the agent that lives for many turns (runs). It is started as
 *
 *	python      python3 -s -B $LIB/repl.py CTL      (which loads turn.so and stays in it)
 *	javascript  bun --config=/dev/null --no-env-file --no-install $LIB/repl.mjs CTL BELL
 *	raw         bash --norc --noprofile $LIB/repl.sh CTL    (which loads turn.so and stays in it)
 *
 * with $LIB = /usr/lib/xsbx in an image. CTL is the number of an AF_UNIX SOCK_SEQPACKET socket, BELL that of
 * the read end of a pipe into which the agent writes one byte after each datagram, for a runtime
 * that can wait for a pipe but not for a datagram. At start 0 is /dev/null and 1 and 2 lead to the
 * agent's log. The environment is the sandbox's own, made anew; what of it would have python3 load
 * files of the user's before the driver is there is called XSBX_..., and repl.py puts it back. The
 * driver moves CTL and BELL to high close-on-exec descriptors, makes itself undumpable, gets ready,
 * and sends DRIVER_READY followed by its version as text.
 *
 * Each turn is one datagram DRIVER_RUN with four descriptors in SCM_RIGHTS: standard input,
 * standard output, standard error (all new for this turn) and a sealed memfd with the code. The
 * driver puts the first three on 0, 1 and 2, where they stay until the next turn, runs the code,
 * flushes everything it has buffered for 1 and 2, and answers DRIVER_DONE with the turn's nonce.
 * All that the turn wrote is in the pipes before that datagram, which is what makes completion
 * exact. If it cannot take the turn, for want of descriptors or memory, it answers DRIVER_DONE with a
 * status below 0, -errno, and waits for the next one. A driver that exits or is killed ends the turn
 * with its wait status, and the interpreter is gone.
 *
 * User code lives in the driver's process, so the agent does not trust an answer. The first
 * datagram of all is DRIVER_KEY. The key stays in the native part of the driver, which does nothing
 * with it but make tokens (token.h): in the place of the nonce, DRIVER_DONE has the token of that. An
 * answer that another process has sent, or whose token is wrong, is ignored; and one that is in
 * order counts from when the main thread waits for the next request. The native part in turn ignores
 * what does not come from the agent, its parent, says the kernel.
 *
 * A driver waits for all requests in one place: the same system call, instruction and depth of
 * stack, from DRIVER_READY on. Between an answer and that wait it does nothing; what it would like
 * to do then it does for DRIVER_TIDY, which comes when nobody waits, and has no answer.
 *
 * SIGINT during a turn interrupts it (status 130, state kept); between turns it is ignored.
 * DRIVER_WARM asks the driver to exercise itself (imports of the common library, a compiled
 * no-op) without any visible effect on later turns; DRIVER_SEED reseeds the random generators from
 * the 32 bytes in `seed`. Both are answered by DRIVER_DONE with status 0. A turn may bring a seed
 * too, to be used before the code is run.
 *
 * A driver that can, and says so in its DRIVER_READY, answers DRIVER_COPY, which comes before any
 * turn, by making a copy of its process: a child of the agent, in a session of its own, with the
 * socket that came along as its CTL and the key in `seed`. The copy begins with a DRIVER_READY of its
 * own; the original answers DRIVER_DONE, with a status other than 0 if it could not make one, and is
 * as it was before.
 *
 * Integers are in host order: both ends are on one machine.
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
#define DRIVER_CAN_SEED	 2 /* a turn may bring a seed; else it has to come by itself */
#define DRIVER_CAN_PROVE 4 /* it knows KEY and TIDY, and waits in one place */

#define DRIVER_NFDS	 4
#define DRIVER_NONCE	 16
#define DRIVER_KEY_SIZE	 16  /* of the 32 bytes of `seed` */
#define DRIVER_VERSION	 128 /* most bytes of text after DRIVER_READY */

/* Every datagram in either direction begins with these 64 bytes. */
struct driver_msg {
	uint32_t type; /* enum driver_type */
	uint32_t turn; /* number of the run, for file names such as "<run 3>" */
	uint8_t nonce
		[DRIVER_NONCE]; /* chosen anew by the agent for each request; DONE: its token */
	uint32_t code_len;	/* RUN: bytes of code in the memfd */
	int32_t status;		/* DONE: 0..255, or of a RUN that was not begun -errno;
				      * RUN: 1 if it brings a seed, else 0; READY: DRIVER_CAN_* */
	uint8_t seed[32];	/* SEED, RUN, KEY, COPY */
};

_Static_assert(sizeof(struct driver_msg) == 64, "layout is known to repl.py and repl.mjs");

#endif
