/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a process as user code: its own session, the user's ids, no privileges. */
#ifndef XSBX_AGENT_CORE_SPAWN_H
#define XSBX_AGENT_CORE_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct chance_end;
struct guest_env;

#define SPAWN_BELL	4 /* descriptor numbers in the child; and as words, for its arguments */
#define SPAWN_CTL_WORD	"3"
#define SPAWN_BELL_WORD "4"

struct spawn {
	const struct guest_env *env;
	bool spare;    /* has lowest priority, see interp.h */
	bool stands;   /* who starts it may stand still until it is executed, see spawn_run() */
	unsigned nice; /* it gives way to others: 0 to PROTO_NICE_MAX */
	bool root;     /* not as the user: as root, with few capabilities */
	bool tty;      /* in_fd is a terminal, which becomes its controlling one */
	const char *const *argv; /* argv[0] is looked up in the agent's PATH */
	char *const *envp;
	const char *cwd; /* or NULL: the working directory */
	int in_fd;	 /* becomes 0; -1: /dev/null */
	int out_fd;	 /* becomes 1 */
	int err_fd;	 /* becomes 2 */
	int ctl_fd;	 /* becomes SPAWN_CTL_WORD, or -1 */
	int bell_fd;	 /* becomes SPAWN_BELL, or -1 */
	uint32_t nproc;	 /* rlimits */
	uint32_t nofile;
	uint64_t fsize; /* 0: none */
	/* Or NULL: its random numbers follow from a seed, see chance.h; those of job `job`, or of the interpreter. */
	const struct chance_end *chance;
	uint32_t job;
};

/**
 * spawn_prepare() - Once, before anything is started
 * @env: Complete but for `ruleset`, which is set
 *
 * Signals that our parent ignored are not ignored any more, capabilities that no program is to have
 * can't be had by executing one, and the rules for files of a jail are made.
 *
 * Return: 0 or -errno.
 */
int spawn_prepare(struct guest_env *env);

/**
 * spawn_run() - Start it
 * @s: What to start
 * @ret_pid: The child
 * @ret_step: On failure, the step that failed, as a static string
 *
 * User code may stop the child as soon as it has the user's id. Who @stands goes on when it does,
 * spares the copying of memory, and can't be dumped or traced from now on.
 *
 * Return: 0 when the program was executed, or -errno; no child is left then.
 */
int spawn_run(const struct spawn *s, pid_t *ret_pid, const char **ret_step);

#endif
