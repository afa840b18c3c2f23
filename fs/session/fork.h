/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that begin as a copy of another, or of a checkpoint. */
#ifndef XSBX_FS_SESSION_FORK_H
#define XSBX_FS_SESSION_FORK_H

#include <stdbool.h>

struct checkpoint;
struct problem;
struct session;
struct settings;

/*
 * Theory of operation
 * -------------------
 * A copy is a session that is asleep with what was saved of another: it has that session's
 * settings, and nothing of its runs. The other goes on as if nothing had been. Where it is asleep
 * itself, or the copy is one of a checkpoint, there is something saved already; else it is saved
 * now, and the copy waits for that (saving.h).
 */
struct fork {
	struct session *source;
	struct checkpoint *cp; /* or NULL: as it is now */
};

/**
 * fork_find() - Find what `from = VALUE` means
 * @s: The session that is to be a copy
 * @value: The value
 * @ret_fork: Result, valid until control returns to the loop
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL, -EPERM (it is another user's).
 */
int fork_find(struct session *s, const char *value, struct fork *ret_fork, struct problem *why);

/* The settings that a copy begins with: ports of this machine are the source's, and others are chosen. Return: 0 or
 * -ENOMEM. */
int fork_settings(const struct fork *f, const char *value, struct settings *ret_settings);

/* Can it be copied now, or with @when_idle later? Return: 0, -EBUSY, -EOPNOTSUPP with @why. */
int fork_may(const struct fork *f, bool when_idle, struct problem *why);

/* @s, which has its settings, becomes the copy. */
void fork_begin(struct session *s, const struct fork *f);

#endif
