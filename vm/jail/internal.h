/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner does with jails, and what their files share. */
#ifndef XSBX_VM_JAIL_INTERNAL_H
#define XSBX_VM_JAIL_INTERNAL_H

#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cgroup_stat.h"
#include "jail.h"

struct statx;

/* What failed. Names in report.c. */
enum jail_step {
	JAIL_STEP_SPEC,
	JAIL_STEP_PLACE,
	JAIL_STEP_CLONE,
	JAIL_STEP_IDS_MAP,
	JAIL_STEP_CGROUP,
	JAIL_STEP_OWNED,
	JAIL_STEP_SYNC,
	JAIL_STEP_IDS,
	JAIL_STEP_HOST_NAME,
	JAIL_STEP_LOOPBACK,
	JAIL_STEP_CARD,
	JAIL_STEP_BUDGET,
	JAIL_STEP_SOURCE,
	JAIL_STEP_ROOT,
	JAIL_STEP_MOUNT,
	JAIL_STEP_PIVOT,
	JAIL_STEP_RLIMITS,
	JAIL_STEP_PRIVILEGES,
	JAIL_STEP_LANDLOCK,
	JAIL_STEP_SECCOMP,
	JAIL_STEP_KEEP,
	JAIL_STEP_VERIFY,
	JAIL_NSTEPS,
};

/* Why there is no jail: the step, its errno, and what it was about. */
struct jail_fault {
	uint32_t step;
	int32_t error; /* -errno */
	char what[JAIL_WHAT_MAX];
};

const char *jail_step_str(enum jail_step step);

/* Fills in a fault. Return: @error. */
int jail_fault_set(struct jail_fault *f, enum jail_step step, int error, const char *what);

enum jail_control {
	JAIL_C_MEMORY,
	JAIL_C_PIDS,
	JAIL_C_CPU,
	JAIL_NLIMITS,
	JAIL_C_COUNT = JAIL_NLIMITS, /* limits nothing, counts processor time */
	JAIL_NCONTROLS,
};

/* What one sandbox has of the host: a number, from which its ids and its control groups follow. */
struct jail_cell {
	bool taken;
	unsigned index;
	bool private_ids; /* ids of its own; else the daemon's */
	uint32_t base;	  /* its first id on the host */
	unsigned groups;  /* bits of enum jail_control: there is a directory */
	int into;	  /* v2 control group to be born in, or -1 */
	bool into_counts; /* and that it only counts */
	struct jail_report report;
};

/* ---- jail.c, in the spawner ---- */

/**
 * jail_place() - Find a place: a number, ids, control groups with their limits
 * @spec: What is wanted
 * @ret_cell: Result; give it back with jail_release() when its last process is gone
 * @fault: Why not
 *
 * Return: 0 or -errno.
 */
int jail_place(const struct jail_spec *spec, struct jail_cell *ret_cell, struct jail_fault *fault);
void jail_release(struct jail_cell *cell);

/* Is it one of those that this spawner gives to jails? */
bool jail_has_id(uint32_t id);

/* Could a jail of this spawner's begin with it? */
bool jail_is_first_id(uint32_t id);

/* A number that no other spawner of this host is likely to have. */
uint32_t jail_instance_id(void);

/* Away with every control group. */
void jail_release_all(void);

/**
 * jail_clone() - Fork into new namespaces
 * @spec: Spec
 * @cell: From jail_place()
 * @ret_pidfd: In the parent: the child's
 * @ret_go: In the child: a pipe for jail_enter(), whose other end the parent holds
 * @fault: Why not
 *
 * Return: 0 in the child, its process id in the parent, or -errno.
 */
pid_t jail_clone(const struct jail_spec *spec, struct jail_cell *cell, int *ret_pidfd, int *ret_go,
		 struct jail_fault *fault);

/**
 * jail_join() - In the child, before anything else: into the control groups
 * @cell: From jail_place(), whose descriptors are still open
 * @fault: Why not
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_join(const struct jail_cell *cell, struct jail_fault *fault);

/**
 * jail_enter() - In the child: everything but exec
 * @spec: Spec
 * @cell: From jail_place()
 * @go: From jail_clone(); closed
 * @tied: Called after the last change of identity, to tie the process to its parent
 * @data: Its argument
 * @fault: Why not
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_enter(const struct jail_spec *spec, struct jail_cell *cell, int go, void (*tied)(int data),
	       int data, struct jail_fault *fault);

/**
 * jail_verify() - Look from outside at what holds, after the program was started
 * @spec: Spec
 * @pid: Process
 * @cell: Its `report` is filled in
 * @fault: What was to hold and does not
 *
 * Return: 0 or -errno; the process must then be killed.
 */
int jail_verify(const struct jail_spec *spec, pid_t pid, struct jail_cell *cell,
		struct jail_fault *fault);

/* The id on the host of `user` of a spec. */
uint32_t jail_user_id(const struct jail_spec *spec, const struct jail_cell *cell);

/* The id on the host that the program begins with. */
uint32_t jail_first_id(const struct jail_spec *spec, const struct jail_cell *cell);

/**
 * jail_keep() - Take hold of a directory of a jail, which then stays when its processes are gone
 * @spec: Says which
 * @pid: Its first process, which runs
 * @ret_fd: Result, for looking up only; -1 if nothing was asked for
 * @fault: Why not
 *
 * Return: 0 or -errno.
 */
int jail_keep(const struct jail_spec *spec, pid_t pid, int *ret_fd, struct jail_fault *fault);

/* ---- idmap.c ---- */

/* The source of a mount, as it is asked for. Return: a descriptor (O_PATH) or -errno. */
int jail_open_source(const struct jail_mount *m);

/* What is known of @fd without asking anybody, as a server might never answer: kind, ids, device. Return: 0
 * or -errno. */
int jail_look_at(int fd, struct statx *ret_stat);

/* For how long a word of another process is waited for in the spawner, and the socket of the daemon, without
 * which none is. */
void idmap_patience(int ms, int sock);

/* Return: 0 when there is something to be read, or its end, -ETIMEDOUT, or -ECANCELED if there is nobody any
 * more for whom it would be. */
int jail_await_word(int from);

/* In the spawner, before the child is made: the mounts that are JAIL_OWNED, where they need it. */
int idmap_open(const struct jail_spec *spec, const struct jail_cell *cell,
	       struct jail_fault *fault);

/* In the child: the mount number @i, or -1 if it needs nothing special. */
int idmap_take(uint32_t i);

/* In the spawner, when the child was made. */
void idmap_close(void);

/* ---- device.c ---- */

#define JAIL_DEVICE_NODE "node"

/* In the spawner, before the child is made: a node for the device that the spec asks for beside the usual
 * ones, which belongs to the jail. If there can be none, the host's is taken. */
void jail_device_open(const struct jail_spec *spec, const struct jail_cell *cell);

/* Is there such a node? */
bool jail_device_given(void);

/* In the child: a mount of a directory with that node alone, or -1. */
int jail_device_take(void);

/* In the spawner, when the child was made. */
void jail_device_close(void);

/* ---- mounts.c ---- */

/* Opens all sources while paths of the host mean what they say, and rights are what they were. */
int jail_mounts_open(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		     struct jail_fault *fault);

/* Puts the view together and makes it all there is. */
int jail_mounts_build(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		      struct jail_fault *fault);

/* ---- stat.c ---- */

/* Of a host of so many processors on which nothing has happened. Made at the first call; NULL without
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

/* ---- cgroup.c ---- */

/* Makes the groups of @cell and notes in its report what they limit. Return: 0, or -errno if a controller that
 * works could not be used for it; then nothing is left of it. */
int jail_cgroup_make(const struct jail_spec *spec, struct jail_cell *cell,
		     struct jail_fault *fault);

/**
 * jail_cgroup_look() - Could a controller be had? Nothing is made.
 * @c: Controller
 * @ret_version: Of control groups
 *
 * Return: 0, -ENOENT if it is not there for us, -EBUSY if others are in our group, or -errno.
 */
int jail_cgroup_look(enum jail_control c, int *ret_version);
const char *jail_control_str(enum jail_control c);

/* Moves this process in, where it was not born there. Return: 0 or -errno. */
int jail_cgroup_enter(const struct jail_cell *cell);
void jail_cgroup_remove(struct jail_cell *cell);
void jail_cgroup_remove_all(void);

/* Opens what the groups of @cell count. */
void jail_cgroup_watch(const struct jail_cell *cell, struct cgroup_stat *ret_stat);

/* For a spawner that was killed, by a process with the same jail_instance_id(): away with all its groups. */
void jail_cgroup_sweep(void);

/* ---- limit.c ---- */

/* Writes to a file of a group. Return: 0 or -errno. */
int jail_limit_write(int dir, const char *name, const char *text);

/* A kernel may have a controller, but not its limit. */
bool jail_limit_can(int dir, enum jail_control c, int version);

/* Limits what a group may have; JAIL_C_COUNT has no limits. Return: 0 or -errno. */
int jail_limit_set(int dir, enum jail_control c, int version, uint64_t value);

/* ---- cgroup_sweep.c ---- */

#define JAIL_GROUP_PREFIX "xsbxfs_" /* of the names of groups on which there is a lock */

/* Removes groups below @parent that a dead spawner left, but not @ours. */
void cgroup_sweep_dead(int parent, const char *ours);

/* Removes a group and those in it, of whose processes the last may still be ending. */
void cgroup_sweep_one(int parent, const char *name);

/* Makes a group that stays ours while we live. Return: its descriptor, or -errno. */
int cgroup_sweep_claim(int parent, const char *name);

/* ---- seccomp.c ---- */

/* The filter of a use, made at the first call. Return: 0 or -errno. */
int jail_seccomp_filter(enum jail_use use, struct sock_fprog *ret_prog);

/* A filter to be added to one of these: no set-id bits. Return: 0 or -errno. */
int jail_seccomp_no_setid(struct sock_fprog *ret_prog);

#endif
