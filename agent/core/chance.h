/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that follow from a seed: what the kernel is asked for by user code, the agent answers. */
#ifndef XSBX_AGENT_CORE_CHANCE_H
#define XSBX_AGENT_CORE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kin.h"
#include "loop.h"

#define CHANCE_OPEN 256u /* /dev/urandom, opened so often at once */

struct chance_listener;
struct chance_device;

/* What a program is started with, see spawn.h. */
struct chance_end {
	int fd; /* -1: no seed */
};

/* Zeroed and given a loop by chance_init(); off until chance_begin(). */
struct chance {
	struct loop *loop;
	bool on;
	uint32_t before;       /* runs in what the sandbox is a copy of */
	struct chance_end end; /* for programs */
	struct loop_source arrivals;
	struct chance_listener *listeners;
	struct chance_device *devices;
	size_t nopen;
	bool told; /* that somebody's random bytes are the kernel's */
	struct kin_all kin;
};

void chance_init(struct chance *c, struct loop *l);

/**
 * chance_begin() - Random numbers follow from @seed from now on
 * @seed: Any number
 * @before: How many runs there were before the sandbox's first; modulo 2^32
 *
 * Of programs that are started afterwards. If nothing changes, nothing happens.
 *
 * Return: 0 or -errno.
 */
int chance_begin(struct chance *c, uint64_t seed, uint32_t before);

/** chance_end() - They do no more. */
void chance_end(struct chance *c);

/** chance_interp() - The interpreter is this process from now on. */
void chance_interp(struct chance *c, pid_t pid);

/**
 * chance_run() - A run begins in the interpreter
 * @number: Its number in this sandbox
 * @ret_seed: If it is the interpreter's first: what its own generators begin with
 *
 * Return: whether it is.
 */
bool chance_run(struct chance *c, uint32_t number, uint8_t ret_seed[CHACHA_KEY]);

#endif
