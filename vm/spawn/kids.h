/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's children, but for the daemon. */
#ifndef XSBX_VM_SPAWN_KIDS_H
#define XSBX_VM_SPAWN_KIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "birth.h"
#include "vm/jail/setup.h"

/* A process that was started; the daemon has a struct child for it, with the same id. */
struct kid {
	uint32_t id;
	pid_t pid;
	struct jail_cell cell; /* if it is jailed */
	struct birth *birth;   /* until its program runs */
	bool machine;	       /* its memory may be copied */
	bool claimed;	       /* by the heir */
};

/* Zeroed at first. A pointer to one is valid until one is added or removed. */
struct kids {
	struct kid *item;
	size_t n, cap;
	size_t nbirths; /* of those on their way to their program */
	size_t nasking; /* of these, those that may wait for a server */
};

/* Makes room for one more, while there is none yet that could not be remembered. Return: 0 or
 * -ENOMEM. */
int kids_reserve(struct kids *k);

/* Adds one, whose cell and birth are owned by the table, in the room that was made. */
void kids_add(struct kids *k, const struct kid *kid);

/* By process, and by request. Return: one, or NULL. */
struct kid *kids_find(const struct kids *k, pid_t pid);
struct kid *kids_of(const struct kids *k, uint32_t id);

/* Its birth is over, if it had one left. */
void kids_born(struct kids *k, struct kid *kid);

/* It is gone, with all that it was the first process of. */
void kids_remove(struct kids *k, struct kid *kid);

/* Children of the spawner's own; 0: there is none. */
#define KIN_HOLDERS 2u

struct kin {
	pid_t daemon, heir;
	pid_t holder[KIN_HOLDERS];
};

/* Kills the processes that became children of this one by the death of their parents, and with @all
 * every child but the daemon. Return: how many. */
size_t kids_kill(const struct kids *k, const struct kin *kin, bool all);

/* Another daemon: kills those that it has not claimed. */
void kids_inherit(struct kids *k);

#endif
