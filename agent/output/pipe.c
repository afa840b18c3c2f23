/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes between the agent and user code. */
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/guest_env.h"

int pipe_make(const struct guest_env *env, int ours, int ret_fds[2])
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0 ||
	    /* A pipe belongs to who made it; /dev/stdin and /dev/stdout open it again, as the user. */
	    (env->drop && fchown(fds[!ours], env->uid, env->gid) < 0)) {
		int r = -errno;

		close(fds[0]);
		close(fds[1]);
		return r;
	}
	memcpy(ret_fds, fds, sizeof(fds));
	return 0;
}
