/* SPDX-License-Identifier: Apache-2.0 */
/* Jail specs of the two network programs, xsbxfs-net and xsbxfs-dial. */
#include "jail_spec.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "vm/base/util.h"
#include "vm/jail/view.h"

/*
 * Theory of operation
 * -------------------
 * xsbxfs-net reads data from a guest, so it has the most restricted jail: its program and libraries,
 * read-only, no /proc, no /dev, a network namespace without any interface, and memory for a few
 * hundred connections.
 *
 * xsbxfs-dial never sees data from a guest, except names. It is in the host's network, but its user
 * namespace has no privileges there. The few files that configure name resolution are visible, in
 * their version at its start: these are copies of mounts, and if a file is replaced on the host, the
 * old one stays here. So the daemon checks whether they are still the same, and replaces the process
 * if not. The daemon can stat(2) these files, but not read them.
 */

#define CELL_USER   1000u
#define NET_MEMORY  (64ull << 20) /* 256 connections, with what is on its way in each */
#define NET_FILES   1024u	  /* three for each connection */
#define DIAL_MEMORY (128ull << 20)
#define DIAL_FILES  8192u
#define STACK	    (1ull << 20)
#define NET_PIDS    4u
#define DIAL_PIDS   32u

static const char *const names[] = {
	[NET_PROGRAM_NET] = "xsbxfs-net",
	[NET_PROGRAM_DIAL] = "xsbxfs-dial",
};

static const char *const resolver[] = {"/etc/resolv.conf",    "/etc/hosts",    "/etc/nsswitch.conf",
				       "/etc/host.conf",      "/etc/gai.conf", "/etc/services",
				       "/run/systemd/resolve"};

static void show(struct net_jail *j, const char *path)
{
	view_show(&j->spec, JAIL_RO, JAIL_OPTIONAL, path, path);
}

/* Libraries, and where they are looked for. */
static void show_libraries(struct net_jail *j)
{
	show(j, "/usr/lib");
	show(j, "/usr/lib64");
	show(j, "/usr/local/lib");
	show(j, "/etc/ld.so.cache");
	view_show_top(&j->spec, "", "/lib", j->leads[0]);
	view_show_top(&j->spec, "", "/lib64", j->leads[1]);
}

static void set_limits(struct net_jail *j, unsigned files)
{
	j->spec.nrlimits = 4;
	/* As everywhere: with 0 the kernel would still hand a core to a program, if the host has one. */
	j->spec.rlimits[0] = (struct jail_rlimit){RLIMIT_CORE, 0, 1};
	j->spec.rlimits[1] = (struct jail_rlimit){RLIMIT_NOFILE, 0, files};
	j->spec.rlimits[2] = (struct jail_rlimit){RLIMIT_FSIZE, 0, 0};
	/* Threads have stacks of this size, which count as data. */
	j->spec.rlimits[3] = (struct jail_rlimit){RLIMIT_STACK, 0, STACK};
}

int net_jail_find(const char *agent, enum net_program program, char ret_path[PATH_MAX])
{
	char path[PATH_MAX];
	const char *slash;

	if (!realpath(agent, path))
		return -errno;
	slash = strrchr(path, '/');
	snprintf(path + (slash + 1 - path), sizeof(path) - (size_t)(slash + 1 - path), "%s",
		 names[program]);
	return realpath(path, ret_path) && access(ret_path, X_OK) == 0 ? 0 : -errno;
}

int net_jail(const char *agent, enum net_program program, struct net_jail *ret_jail)
{
	const bool dials = program == NET_PROGRAM_DIAL;
	struct net_jail *j = ret_jail;
	int r;

	j->spec = (struct jail_spec){
		.use = dials ? JAIL_DIAL : JAIL_NET,
		.flags = JAIL_LANDLOCK | JAIL_DATA_LIMIT | (dials ? JAIL_HOST_NET : 0u),
		.user = CELL_USER,
		.host_name = dials ? "dial" : "net",
		.pids = dials ? DIAL_PIDS : NET_PIDS,
		.memory = dials ? DIAL_MEMORY : NET_MEMORY,
	};
	r = net_jail_find(agent, program, j->program);
	if (r < 0)
		return r;
	view_show(&j->spec, JAIL_RO, 0, j->program, NET_JAIL_PROGRAM);
	show_libraries(j);
	for (size_t i = 0; dials && i < ARRAY_SIZE(resolver); i++)
		show(j, resolver[i]);
	set_limits(j, dials ? DIAL_FILES : NET_FILES);
	return 0;
}

uint64_t net_jail_resolver_version(void)
{
	uint64_t hash = 14695981039346656037ull;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(resolver); i++) {
		const bool there = stat(resolver[i], &st) == 0 && S_ISREG(st.st_mode);
		const uint64_t parts[] = {there ? st.st_ino : 0, there ? st.st_dev : 0};

		for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
			hash = (hash ^ parts[k]) * 1099511628211ull;
	}
	return hash;
}
