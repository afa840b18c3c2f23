/* SPDX-License-Identifier: Apache-2.0 */
/* Private to jobs: the pseudo-terminal of a program. */
#ifndef XSBX_AGENT_JOB_TTY_H
#define XSBX_AGENT_JOB_TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/loop.h"
#include "agent/output/output.h"

struct guest_env;

struct tty {
	struct loop_source master; /* -1: there is none */
	struct output *output;	   /* what it shows is sent as this one's stdout */
	struct loop_timer again;   /* there may be more than was taken at once */
	size_t drain_left;	   /* the program has ended: so much at most is its own */
	bool paused;		   /* credit or room was lacking */
};

/**
 * tty_open() - Make a terminal, see pty(7)
 * @t: Terminal with `output` set, which was begun by output_begin()
 * @env: Names the user whose it is to be
 * @window: Its size: rows << 16 | columns
 * @ret_slave: The program's end, to be passed on and closed
 *
 * Return: 0 or -errno.
 */
int tty_open(struct tty *t, const struct guest_env *env, uint32_t window, int *ret_slave);

/** tty_typist() - Return: another descriptor of our end, to write what is typed; or -errno. */
int tty_typist(const struct tty *t);

/** tty_resize() - It has another size, of which who runs in the foreground hears (SIGWINCH). */
void tty_resize(struct tty *t, uint32_t window);

/** tty_signal() - Send a signal to who runs in the foreground. Return: 0 or -errno. */
int tty_signal(struct tty *t, int sig);

/** tty_resume() - There is more credit, or room in the connection: go on if it was paused. */
void tty_resume(struct tty *t);

/** tty_settle() - The program has ended: what it has shown by now is all. */
void tty_settle(struct tty *t);

/** tty_drain() - After tty_settle(): send that. Return: true when all was sent; else after more credit. */
bool tty_drain(struct tty *t);

/** tty_close() - It is gone; who still has it open is told (SIGHUP). */
void tty_close(struct tty *t);

#endif
