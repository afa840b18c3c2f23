/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of jail/: the steps of setting up a jail. */
#ifndef XSBX_VM_JAIL_INTERNAL_H
#define XSBX_VM_JAIL_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "cell.h"
#include "jail.h"

/* ---- idmap.c ---- */

/* In the spawner, before the child is made: opens the JAIL_OWNED mounts, where they need id mapping. */
int idmap_open(const struct jail_spec *spec, const struct jail_cell *cell,
	       struct jail_fault *fault);

/* In the child: the mount number @i, or -1 if it needs no id mapping. */
int idmap_take(uint32_t i);

/* In the spawner, after the child was made. */
void idmap_close(void);

/* Writes a file of a process in /proc that says what its user namespace maps. Return: 0 or -errno. */
int jail_map_write(pid_t pid, const char *name, const char *text);

/* Ends a child, and waits for it. */
void jail_child_kill(pid_t pid);

/* ---- mounts.c ---- */

/* Opens all sources while the host's paths and the old privileges are still available. */
int jail_mounts_open(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		     struct jail_fault *fault);

/* Builds the view and makes it the root. */
int jail_mounts_build(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		      struct jail_fault *fault);

/* In the spawner, before the child is made: makes a node, owned by the jail, for the additional
 * device that the spec requests. If that is impossible, the host's node is used. */
void jail_device_open(const struct jail_spec *spec, const struct jail_cell *cell);

/* Is there such a node? */
bool jail_device_given(void);

/* In the spawner, after the child was made. */
void jail_device_close(void);

/* /proc/stat, of a host of so many processors on which nothing has happened. Made at the first
 * call; NULL without memory for it. */
const char *jail_stat_text(void);

/* ---- netns.c ---- */

/* Brings up the loopback interface of this network namespace. Return: 0 or -errno. */
int jail_loopback_up(void);

/* In the spawner, before the child is made: looks up the device that makes network cards, if the spec
 * requests one. */
void jail_card_find(const struct jail_spec *spec);

/* In the child: opens it, with the old view of /proc and the old identity. Return: a descriptor or
 * -errno. */
int jail_card_open(void);

/* In the spawner, after the child was made. */
void jail_card_lose(void);

/* Makes a card with it, sets its address, and sends it to @socket; closes both @socket and @card.
 * Return: 0 or -errno. */
int jail_card_set_up(int card, int socket);

/* ---- budget.c ---- */

#define JAIL_INOTIFY_INSTANCES "16" /* of 128 that a user of the host usually has */
#define JAIL_INOTIFY_WATCHES   "8192"
#define JAIL_PID_MAX	       "32768"
#define JAIL_TCP_RECEIVE       "1048576"
#define JAIL_TCP_SEND	       "262144"

/* In the child, with the old view, which has the kernel's settings: limits what it may use up.
 * Return: 0 or -errno. */
int jail_budget_set(const struct jail_spec *spec);

/* Disables speculation past stores and others' indirect branches, for this process and its descendants,
 * permanently, where the kernel lets a process choose. The result is in the report. */
void jail_mitigate(void);

/* The speculation lines of /proc/PID/status as a number, and that number in words. */
uint64_t jail_speculation(const char *status);
void jail_speculation_str(uint64_t value, char *out, size_t size);

#endif
