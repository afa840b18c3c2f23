/* SPDX-License-Identifier: Apache-2.0 */
/* A process that the daemon has the spawner start, on the event loop. Implemented by spawner_child.c. */
#ifndef XSBX_VM_SPAWN_CHILD_H
#define XSBX_VM_SPAWN_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "vm/base/turn.h"
#include "wire.h"

struct log_label;
struct spawner;

struct spawn_spec {
	const void *request; /* for the spawner's rules: a struct order */
	size_t size;
	const int *fds; /* in the order that the rules expect */
	size_t nfds;
	/* The caller's own ends of these, which the spawner keeps as well, until it has told the
	 * caller the child's end. So to close one is nothing that the child could notice: who wants
	 * that kills it. */
	const int *near;
	size_t nnear;
};

enum child_state { CHILD_NONE, CHILD_ASKED, CHILD_RUNNING, CHILD_GONE };

/*
 * A process. Embedded by its owner, who zeroes it, sets the callbacks, and keeps it until one of
 * `failed` and `exited` was called.
 *
 * - Exactly one of `failed` and `exited` is called, once, for each child_start() that returned 0;
 *   `exited` only after `started`.
 * - The strings of `failed` are only valid during the call.
 * - `pidfd` is open from `started` to the end of `exited`; that of one that was adopted when it had
 *   ended is -1.
 * - With a turn (spawner_set_turn()) nothing is killed, and no end is acknowledged to the spawner,
 *   before what follows from it is written down.
 */
struct child {
	struct spawner *spawner;
	uint32_t id;
	enum child_state state;
	bool doomed; /* to be killed as soon as it has started */
	/* It may be written down behind `exited`: its owner calls child_acknowledge() when that is no more
	 * so. */
	bool lingers;
	bool ended; /* and how: */
	int status;
	struct turn_speaker kills;
	pid_t pid;
	int pidfd;
	struct jail_report report; /* of its jail, from `started` on */
	struct cgroup_stat stats;  /* likewise, until the end of `exited` */
	int kept;		   /* likewise: the kept directory of its jail, or -1 */
	bool no_card;		   /* in `failed`: its jail's network card could not be made */
	uint64_t oom_kills; /* from `exited` on: processes of its jail killed by the OOM killer */
	uint64_t
		used_us; /* likewise: processor time that it and its jail have used, in microseconds; 0: not known */
	const struct log_label *label; /* for the log; may change; or NULL */
	TAILQ_ENTRY(child) link;
	void (*started)(struct child *c); /* may be NULL */
	void (*failed)(struct child *c, int err, const char *step);
	void (*exited)(struct child *c, int status); /* as from wait(2) */
	void *data;
};

/* Attaches the spawner to a loop. Return: 0 or -errno. */
int spawner_attach(struct spawner *sp, uv_loop_t *loop);

/* Like spawner_watch(), for vm.c: called before the children are reported as ended. */
void spawner_attended(struct spawner *sp, void (*died)(void *data), void *data);

/* Detaches it from the loop, after all children have ended; @done is called from the loop. */
void spawner_detach(struct spawner *sp, void (*done)(void *data), void *data);

/**
 * child_start() - Request a process
 * @sp: Spawner, attached to a loop
 * @spec: What to start; only needed during the call
 * @c: See struct child
 *
 * Return: 0, -EPIPE if the spawner is gone, -E2BIG, -ENOMEM.
 */
int child_start(struct spawner *sp, const struct spawn_spec *spec, struct child *c);

/* Sends SIGKILL, as soon as the process has started, and what is to be written down before is. Does
 * nothing if it has ended. */
void child_kill(struct child *c);

/* No record names the child with this id from the next one on, which its owner has seen to: of one
 * that `lingers`. */
void child_acknowledge(struct spawner *sp, uint32_t id);

/* A child that another daemon has started, with its id, pid and pidfd: it is @sp's from now on.
 * `exited` is called, at the latest soon, of one that had `ended` then. Return: 0, -EPIPE. */
int spawner_adopt(struct spawner *sp, struct child *c);

/* From now on the spawner is told what follows from something when that is written down. */
void spawner_set_turn(struct spawner *sp, struct turn *turn);

#endif
