/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that goes on where another one has died, with what that has left. */
#ifndef XSBX_FS_REVIVAL_H
#define XSBX_FS_REVIVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bequest.h"
#include "vm/base/blackbox.h"

struct conf;
struct devfuse;
struct estate;
struct spawner;
struct succession;
struct turn;

/*
 * Theory of operation
 * -------------------
 * The spawner starts it (vm/spawn/server_revive.c) with the command line of the mount behind a word of its own, the estate, and a
 * socket to the holder. Nobody serves the mount meanwhile, and so nothing that lies below it may be looked at, nor the mount
 * point itself; the configuration is that of the daemon before, as it was read. It comes from the spawner (HEIR_FD_CONF), sealed
 * before anything untrusted was read: what is done by it, with all rights, is not for the estate to say, which the daemon before
 * could write, whoever that was in the end.
 *
 * It begins as any heir does (succession.h): makes what it needs, and gives up its rights. The estate it
 * has copied before: the file of the dead one may be somebody else's as well, who writes there. Then it
 * reads the records, as whoever believes nothing, hands over the copy, says that it is ready, and is the
 * daemon. The kernel's requests that were not answered are handled as if they had just come.
 *
 * If it dies as well, there will be another one; not for ever: vm/spawn/deaths.h. The last one only puts sessions to sleep, where
 * they are kept, and ends the mount.
 *
 * Embedded by its owner, zeroed.
 */
struct revival {
	bool revives; /* this is one; all else is only said then */
	bool last;
	int signum;	/* that the one before was killed by; 0: none */
	uint64_t began; /* log_now() */
	struct bequest bequest;
};

/* Is this one, by the first word of the command line? */
void revival_init(struct revival *rv, const char *word);

/* Opens the estate; @sp is told that this gets on. Return: 0, or -errno with a reason. */
int revival_open(struct revival *rv, struct spawner *sp, char *ret_why, size_t why_size);

/* conf_load(), as the daemon before has read it. Return: likewise. */
int revival_configure(struct conf *c, int argc, char *const argv[], char *ret_why, size_t why_size);

/* Of any daemon: where it notes what it is about to do. Return: NULL: nowhere. */
struct blackbox *revival_box(struct estate *e);

/* Likewise: the configuration as it was read, for HEIR_FD_CONF. Return: a sealed file in memory, or -errno. */
int revival_seal(const struct conf *c);

/**
 * revival_load() - Get all there is of the one before, and be the daemon
 * @rv: Revival
 * @s: With all that is needed of a daemon that is about to serve
 * @t: Turn, which is on, with the estate
 * @ret_why: Why it can't
 * @why_size: Its size
 *
 * It waits for the spawner and the holder, outside of the loop.
 *
 * Return: 0 or -errno.
 */
int revival_load(struct revival *rv, struct succession *s, struct turn *t, char *ret_why,
		 size_t why_size);

/* It is the daemon, and goes on: what has happened is said. */
void revival_tell(const struct revival *rv, const struct succession *s);

#endif
