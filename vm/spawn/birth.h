/* SPDX-License-Identifier: Apache-2.0 */
/* A child of the spawner's between its fork and the exec of its program, which takes some
 * milliseconds. */
#ifndef XSBX_VM_SPAWN_BIRTH_H
#define XSBX_VM_SPAWN_BIRTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server.h"
#include "vm/base/buf.h"

/* It outlives the job, whose strings are gone with the next one. */
struct birth {
	int status;	  /* closed by the exec, or says what failed */
	int pidfd;	  /* or -1 */
	int64_t until;	  /* when it is given up, of the spawner's clock */
	uint64_t what;	  /* hung_paths() of its job */
	char program[64]; /* for the log */
	char *keep;	  /* what `jail` calls so */
	struct buf asked; /* paths that it opens and nobody knew at its fork, each with its end */
	bool jailed;	  /* then: */
	/* What is looked at once the program runs: without mounts, its only string is `keep`. */
	struct jail_spec jail;
};

/**
 * birth_new() - Note what has to be known of a job once its program runs
 * @job: Job
 * @ret_status: The child's end of the status pipe, which the caller closes
 * @ret_birth: Result, with `pidfd` -1; free it with birth_free()
 *
 * Return: 0 or -errno.
 */
int birth_new(const struct spawn_job *job, int *ret_status, struct birth **ret_birth);
void birth_free(struct birth *b);

/* May it have to wait for a server or a disk, whatever the processors do? */
bool birth_asks(const struct birth *b);

/**
 * birth_end() - Whether the program runs, and is jailed as it should be
 * @b: Birth, whose `status` is readable or at its end
 * @given_up: Why that is not waited for any more (-errno), or 0
 * @pid: Its process
 * @cell: Its jail; the report is filled in
 * @ret_kept: The directory that is to be kept of it, or -1
 * @e: Why not
 *
 * Return: false with @e filled in; the process must then be killed.
 */
bool birth_end(const struct birth *b, int given_up, pid_t pid, struct jail_cell *cell,
	       int *ret_kept, struct spawn_error *e);

#endif
