/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the jail share: the parts that a jail is set up of. */
#ifndef XSBX_VM_JAIL_INTERNAL_H
#define XSBX_VM_JAIL_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "cell.h"
#include "jail.h"

/* ---- idmap.c ---- */

/* In the spawner, before the child is made: the mounts that are JAIL_OWNED, where they need it. */
int idmap_open(const struct jail_spec *spec, const struct jail_cell *cell,
	       struct jail_fault *fault);

/* In the child: the mount number @i, or -1 if it needs nothing special. */
int idmap_take(uint32_t i);

/* In the spawner, when the child was made. */
void idmap_close(void);

/* Writes a file of a process in /proc that says what its user namespace maps. Return: 0 or -errno. */
int jail_map_write(pid_t pid, const char *name, const char *text);

/* Ends a child, and waits for it. */
void jail_child_kill(pid_t pid);

/* ---- mounts.c ---- */

/* Opens all sources while paths of the host mean what they say, and rights are what they were. */
int jail_mounts_open(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		     struct jail_fault *fault);

/* Puts the view together and makes it all there is. */
int jail_mounts_build(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		      struct jail_fault *fault);

/* In the spawner, before the child is made: a node for the device that the spec asks for beside the usual
 * ones, which belongs to the jail. If there can be none, the host's is taken. */
void jail_device_open(const struct jail_spec *spec, const struct jail_cell *cell);

/* Is there such a node? */
bool jail_device_given(void);

/* In the spawner, when the child was made. */
void jail_device_close(void);

/* /proc/stat, of a host of so many processors on which nothing has happened. Made at the first call; NULL without
 * memory for it. */
const char *jail_stat_text(void);

/* ---- netns.c ---- */

/* The loopback interface of this network namespace is to be used. Return: 0 or -errno. */
int jail_loopback_up(void);

/* In the spawner, before the child is made: looks up what network cards are made with, if the spec asks for
 * one. */
void jail_card_find(const struct jail_spec *spec);

/* In the child: opens that, with the old view of /proc and the old identity. Return: a descriptor or -errno. */
int jail_card_open(void);

/* In the spawner, when the child was made. */
void jail_card_lose(void);

/* Makes a card of it, gives it an address, and sends it to @socket, which is closed, as @card is.
 * Return: 0 or -errno. */
int jail_card_set_up(int card, int socket);

/* ---- budget.c ---- */

#define JAIL_INOTIFY_INSTANCES "16" /* of 128 that a user of the host usually has */
#define JAIL_INOTIFY_WATCHES   "8192"
#define JAIL_TCP_RECEIVE       "1048576"
#define JAIL_TCP_SEND	       "262144"

/* In the child, with the old view, in which there are settings of the kernel: what it may use up.
 * Return: 0 or -errno. */
int jail_budget_set(const struct jail_spec *spec);

/* For this process and all that come from it, for ever: no speculation past a store or an indirect branch
 * of others, where the kernel lets a process choose. What came of it is in the report. */
void jail_mitigate(void);

/* What /proc/PID/status says of speculation, as a number, and that in words. */
uint64_t jail_speculation(const char *status);
void jail_speculation_str(uint64_t value, char *out, size_t size);

#endif
