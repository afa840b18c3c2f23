/* SPDX-License-Identifier: Apache-2.0 */
/* A backend with many machines, whose agents answer by themselves, in a time that stands still. */
#ifndef XSBX_MACHINES_FAKE_H
#define XSBX_MACHINES_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "vm/vm_internal.h"

#define MACHINES_NMODES (BACKEND_CLONE + 1)

struct backend {
	TAILQ_ENTRY(backend) link;
	const struct backend_events *events;
	void *data;
	enum backend_mode mode;
	uv_timer_t soon; /* for what may only come from the loop */
	void (*then)(struct backend *b);
	backend_saved_fn saved;
	int fd;		/* of the agent; -1: none */
	int ram, state; /* of a machine that is recorded; -1: none */
	uint8_t in[16384];
	size_t in_len;
	bool mute;  /* its agent reads, and says nothing */
	bool stuck; /* once it is to go: it does not */
};

/* How machines behave. All zero: as they should. */
struct machines {
	uv_loop_t *loop;
	TAILQ_HEAD(machine_list, backend) list;
	unsigned started[MACHINES_NMODES], destroyed;
	const char *words;  /* what describe() says */
	int describe_error; /* what it returns */
	int start_error[MACHINES_NMODES];
	bool dies[MACHINES_NMODES];   /* the machine ends instead of coming up */
	bool sleeps[MACHINES_NMODES]; /* neither */
	const char *save_error;
	bool save_sleeps;
	bool destroy_sleeps;
	uint64_t khz;	/* of the counter of time stamps */
	bool jobs_held; /* no worker thread does anything */
};

extern struct machines machines;
extern const struct backend_ops backend_machines;

/* Before the first call no worker thread may be there. */
void machines_init(uv_loop_t *loop);

/* Lets the agents answer. Return: whether there was anything to answer. */
bool machines_play(void);

/* Lets no worker thread begin anything; lets them go on. */
void machines_hold_jobs(void);
void machines_release_jobs(void);

/* The clock of the loop jumps. Nothing is called. */
void machines_skip(uint64_t ms);

/* Whose machine it is. */
struct backend *machines_of(const struct sandbox *s);

#endif
