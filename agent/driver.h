/* SPDX-License-Identifier: Apache-2.0 */
/* Between the agent and the driver of an interpreter: fixed-size datagrams with descriptors. */
#ifndef XSBX_DRIVER_H
#define XSBX_DRIVER_H

#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * An interpreter is a child of the agent that lives for many turns (runs). It is started as
 *
 *	python      python3 -I -B $LIB/repl.py CTL
 *	javascript  bun --config=/dev/null --no-env-file --no-install $LIB/repl.mjs CTL BELL
 *	raw         bash --norc --noprofile $LIB/repl.sh CTL    (which loads turn.so and stays in it)
 *
 * with $LIB = /usr/lib/xsbx in an image. CTL is the number of an AF_UNIX SOCK_SEQPACKET socket, BELL that of
 * the read end of a pipe into which the agent writes one byte after each datagram, for a runtime
 * that can wait for a pipe but not for a datagram. At start 0 is /dev/null and 1 and 2 lead to the
 * agent's log. The driver moves CTL and BELL to high close-on-exec descriptors, makes itself
 * undumpable, gets ready, and sends DRIVER_READY followed by its version as text.
 *
 * Each turn is one datagram DRIVER_RUN with four descriptors in SCM_RIGHTS: standard input,
 * standard output, standard error (all new for this turn) and a sealed memfd with the code. The
 * driver puts the first three on 0, 1 and 2, where they stay until the next turn, runs the code,
 * flushes everything it has buffered for 1 and 2, and answers DRIVER_DONE with the turn's nonce.
 * All that the turn wrote is in the pipes before that datagram, which is what makes completion
 * exact. A datagram without the right nonce is not from the driver, and is ignored. A driver
 * that exits or is killed ends the turn with its wait status, and the interpreter is gone.
 *
 * SIGINT during a turn interrupts it (status 130, state kept); between turns it is ignored.
 * DRIVER_WARM asks the driver to exercise itself (imports of the common library, a compiled
 * no-op) without any visible effect on later turns; DRIVER_SEED reseeds the random generators from
 * the 32 bytes in `seed`. Both are answered by DRIVER_DONE with status 0. A turn may bring a seed
 * too, to be used before the code is run.
 *
 * A driver that can, and says so in its DRIVER_READY, answers DRIVER_COPY, which comes before any
 * turn, by making a copy of its process: a child of the agent, in a session of its own, with the
 * socket that came along as its CTL. The copy begins with a DRIVER_READY of its own, whose `turn`
 * is its process number; the original answers DRIVER_DONE, with a status other than 0 if it could
 * not make one, and is as it was before.
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
};

/* `status` of DRIVER_READY: what the driver can do. */
#define DRIVER_CAN_COPY 1
#define DRIVER_CAN_SEED 2 /* a turn may bring a seed; else it has to come by itself */

#define DRIVER_NFDS	4
#define DRIVER_NONCE	16
#define DRIVER_VERSION	128 /* most bytes of text after DRIVER_READY */

/* Every datagram in either direction begins with these 64 bytes. */
struct driver_msg {
	uint32_t type;		     /* enum driver_type */
	uint32_t turn;		     /* number of the run, for file names such as "<run 3>";
				      * READY of a copy: its process number */
	uint8_t nonce[DRIVER_NONCE]; /* chosen anew by the agent for each request; 0 in READY */
	uint32_t code_len;	     /* RUN: bytes of code in the memfd */
	int32_t status;		     /* DONE: 0..255; RUN: 1 if it brings a seed, else 0;
				      * READY: DRIVER_CAN_* */
	uint8_t seed[32];	     /* SEED, RUN */
};

_Static_assert(sizeof(struct driver_msg) == 64, "layout is known to repl.py and repl.mjs");

#endif
