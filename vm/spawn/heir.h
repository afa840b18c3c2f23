/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon that is to follow the one that serves, while both are there. */
#ifndef XSBX_VM_SPAWN_HEIR_H
#define XSBX_VM_SPAWN_HEIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "askers.h"
#include "heir_wire.h"
#include "held.h"
#include "spawner.h"

enum heir_state {
	HEIR_NONE,
	HEIR_STARTING, /* it gets ready; the daemon serves */
	HEIR_LOADING,  /* the daemon stands still, and has given it all */
};

/*
 * Theory of operation
 * -------------------
 * A mount can be taken over by another daemon, mostly that of a newer version. Who asks for it
 * connects to a socket in the runtime directory (askers.h), with the program to be run. The spawner starts
 * that as its child, with the mount's connection, and tells the daemon. What the daemon knows, it
 * tells its heir itself, over a socket between the two, at a moment of its choice; it has said so
 * here before (SPAWN_OP_YIELD) and then stands still. The heir says which of the children are its
 * own, and that it is ready: then it is the daemon, and the other one is killed. If it does not
 * come to that, for whatever reason, the heir is killed, and the daemon goes on as if nothing had
 * been. So there is one place where it is decided who is the daemon, and at each moment there is
 * one.
 *
 * While the daemon stands still, or there is none, nothing is asked for. Children that end
 * meanwhile are reaped, and their groups removed; that is said to whoever is the daemon then. So is
 * it if somebody has asked for the end: the guard keeps the signal (guard.h), and the mount's
 * connection shows an error once it is unmounted.
 *
 * Meanwhile everybody waits, so one that hangs is to be found soon; but how long it takes to load
 * depends on how much there is, and on the host. So it says that it gets on: who says nothing for
 * seven seconds is given up.
 *
 * If the daemon has died, there is another one likewise, from what it has left (server_revive.c):
 * that program is asked for by nobody, and begins where the daemon stands still, for there is none.
 * What it goes by before it has given up its rights is nothing that the dead one could have
 * changed: the program, the command line, and the configuration as it was read at the start of the
 * mount; or by an heir, which sends it before it has been given anything by anybody. From a daemon
 * it is never taken.
 *
 * The daemon, which may be taken over by a guest, can't ask for an heir: it has no way to connect.
 * The program comes from the owner of the mount, or from root; and what root's spawner runs must be
 * root's, and nobody else may write to it.
 */
struct heir {
	enum heir_state state;
	struct askers askers; /* who want one */
	int asker; /* who wanted this one, or the one before, while `former` is there; or -1 */
	int sock;  /* its; it becomes the daemon's */
	int conf;  /* that it goes by, sealed, for one that follows it when it has died; or -1 */
	/* That it runs, by O_PATH: no file is waited for when that is closed; or -1. */
	int program;
	bool revives;	     /* there is no daemon: that has died */
	bool refused, ended; /* it can't, as it said; or is gone */
	/* Counts heirs, for SPAWN_OP_YIELD: a daemon may still mean the last one. */
	uint32_t number;
	pid_t pid;	 /* or 0: none, or reaped */
	int status;	 /* then: as from wait(2) */
	pid_t former;	 /* a daemon that was taken over from, until that is gone; or 0 */
	pid_t successor; /* then: the last that became the daemon */
	int64_t until;	 /* when it is given up, in ms of CLOCK_MONOTONIC */
	int64_t latest;	 /* ... however often it says that it gets on */
	int silent_ms;	 /* for so long it may say nothing while it loads */
	char words[HEIR_WORDS_MAX]; /* why there is none */
};

/* Listens in the runtime directory, if there is one, and nobody is let in yet: before the fork, so
 * that whoever sees the mount finds it. Return: socket; or -1: nobody can ask, which is logged if
 * somebody should. */
int heir_listen(const struct spawner_rules *rules);

/* @listener: of heir_listen(), which is taken. */
void heir_init(struct heir *h, const struct spawner_rules *rules, int listener);

/* What is to be watched: who asks for one, or what it says; or -1. @served: there is a daemon, and
 * a mount. */
int heir_fd(const struct heir *h, bool served);

/* Return: when it, or who does not ask for one, is given up; or INT64_MAX. @served: likewise. */
int64_t heir_until(const struct heir *h, bool served);

/* What the program is started with, beside the command line of the mount. */
struct heir_gift {
	const struct spawner_rules *rules;
	const struct held *held; /* with the mount's connection */
	int cwd;		 /* where the mount was made from, which may have been removed */
	struct heir_welcome welcome;
	/* Of a daemon that has died: */
	const char *option;		 /* one of HEIR_OPTION_*, with the signal */
	int program;			 /* what it ran */
	int estate;			 /* what it has left */
	int holder;			 /* socket to it */
	int conf;			 /* that it went by */
	void (*leave)(const void *data); /* called in the child: closes what is its parent's */
	const void *data;
};

/* Somebody may have asked. Return: its end of the socket to the heir, which the daemon is to get, if it was
 * started; or -1. */
int heir_start(struct heir *h, const struct heir_gift *gift, int64_t now);

/* The daemon stands still, and has given it all. */
void heir_loads(struct heir *h, int64_t now);

/* The daemon has died. Return: 0; or -errno: none was started. */
int heir_revive(struct heir *h, const struct heir_gift *gift, int64_t now);

enum heir_word {
	HEIR_WAITS,  /* nothing new */
	HEIR_CLAIMS, /* @ret_id is its child */
	/* If it is the daemon and dies: *@ret_fd, which is the caller's. -1: nothing after all; or,
	 * unless
	 * *@ret_id is 0, it did not arrive. */
	HEIR_LEAVES,
	HEIR_READY,
	HEIR_OVER, /* it is gone, or refused: `words` */
};

/* What it says. */
enum heir_word heir_hear(struct heir *h, int64_t now, uint32_t *ret_id, int *ret_fd);

/* There is none: kills it, tells who asked why. */
void heir_end(struct heir *h, const char *words);

/* It is the daemon now, instead of @former, or of one that is gone: 0. */
void heir_succeeds(struct heir *h, pid_t former);

/* This process has ended, and its number is not its any more. If it was the one before: who asked
 * for another is told, that there is but one. */
void heir_reaped(struct heir *h, pid_t pid, int status);

/* In a child of the spawner's: closes what is here. */
void heir_leave(const struct heir *h);

#endif
