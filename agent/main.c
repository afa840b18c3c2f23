/* SPDX-License-Identifier: Apache-2.0 */
/* xsbx-agent: PID 1 of a guest or of a jail (--jail), or a plain process for tests (--local). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "server.h"
#include "agent/guest/init.h"
#include "agent/core/log.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/core/spawn.h"

#define USER_ID 1000

static struct agent agent;

static int serve(struct guest_env *env, int fd, bool local)
{
	const char *step = "preparing to start programs";
	int r = spawn_prepare(env);

	if (r == 0)
		r = agent_init(&agent, env, fd, local, &step);
	if (r < 0) {
		log_fatal(step, r);
		return r;
	}
	r = server_run(&agent);
	if (r < 0)
		log_fatal("connection to the host", r);
	return r;
}

/* Never returns: a PID 1 that does panics the kernel. */
static void guest(void)
{
	struct guest_env env = {.random_fd = -1, .kmsg_fd = -1, .swap = SWAP_NONE};
	const char *step = "";
	int fd = init_guest(&env, &step);

	if (fd < 0)
		log_fatal(step, fd);
	else
		(void)serve(&env, fd, false);
	init_reboot();
}

/* The jail is finished: views, namespaces, limits and the filter were there before us. What is left
 * is what the kernel of a guest would be told, and what user code is started with. */
static int jail(struct guest_env *env, int fd)
{
	int r;

	env->work = env->home = "/home/user";
	env->lib = "/run/xsbx/lib";
	env->packages = access(GUEST_ENV_PACKAGES, F_OK) == 0 ? GUEST_ENV_PACKAGES : NULL;
	env->jail = true;
	proc_jailed();
	env->drop = getuid() == 0;
	env->uid = env->gid = USER_ID;
	r = serve(env, fd, true);
	/* With us end all others. */
	return r < 0 ? 1 : 0;
}

static int usage(void)
{
	fputs("usage: xsbx-agent --jail FD --memory KIB [--write DIR]... [--store DIR]\n"
	      "       xsbx-agent --local FD --root DIR --lib DRIVERDIR [--packages DIR]\n",
	      stderr);
	return 2;
}

static int local(int fd, const char *root, const char *lib, const char *packages)
{
	static char work[PATH_MAX], drivers[PATH_MAX];
	struct guest_env env = {.work = work,
				.home = work,
				.lib = drivers,
				.packages = packages,
				.random_fd = -1,
				.kmsg_fd = -1,
				.swap = SWAP_NONE};
	int r;

	if (!realpath(lib, drivers)) {
		log_fatal(lib, errno);
		return 1;
	}
	snprintf(work, sizeof(work), "%s/files", root);
	(void)mkdir(work, 0755);
	if (chdir(root) < 0 || !realpath("files", work)) {
		log_fatal(work, errno);
		return 1;
	}
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		log_fatal("becoming a subreaper", errno);
		return 1;
	}
	r = serve(&env, fd, true);
	agent_fini(&agent);
	return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"local", required_argument, NULL, 'l'},
						{"root", required_argument, NULL, 'r'},
						{"lib", required_argument, NULL, 'd'},
						{"packages", required_argument, NULL, 'p'},
						{"jail", required_argument, NULL, 'j'},
						{"memory", required_argument, NULL, 'm'},
						{"write", required_argument, NULL, 'w'},
						{"store", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	struct guest_env jailed = {.random_fd = -1, .kmsg_fd = -1, .swap = SWAP_NONE};
	const char *root = NULL, *lib = NULL, *packages = NULL;
	int c, fd = -1, jail_fd = -1;

	/* The kernel hands words of its command line that it does not know to PID 1. */
	if (getpid() == 1 &&
	    (argc < 2 || (strcmp(argv[1], "--local") != 0 && strcmp(argv[1], "--jail") != 0)))
		guest();
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'l': fd = (int)strtol(optarg, NULL, 10); break;
		case 'r': root = optarg; break;
		case 'd': lib = optarg; break;
		case 'j': jail_fd = (int)strtol(optarg, NULL, 10); break;
		case 'p': packages = optarg; break;
		case 'm': jailed.memory_kib = strtoull(optarg, NULL, 10); break;
		case 's': jailed.store = optarg; break;
		case 'w':
			if (jailed.nwrite == GUEST_ENV_WRITE_MAX)
				return usage();
			jailed.write[jailed.nwrite++] = optarg;
			break;
		default: return usage();
		}
	}
	if (jail_fd >= 0 && fd < 0 && optind == argc)
		return jail(&jailed, jail_fd);
	if (fd < 0 || !root || !lib || optind < argc)
		return usage();
	return local(fd, root, lib, packages);
}
