/* SPDX-License-Identifier: Apache-2.0 */
/* Limits a jail's use of kernel resources that are counted per host, or for the jail's creator. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "internal.h"
#include "vm/base/util.h"

/*
 * The kernel counts inotify instances for the user of a namespace and also for the namespace's creator:
 * without its own limit, a jail could use up those of the host's root. Settings below `user` apply to
 * the user namespace of the process that writes them, those below `net` to its network namespace.
 * Namespaces and fanotify are also refused by the system call filter. (Mount namespaces cannot be
 * forbidden here: the kernel makes one for each mount that is not attached yet.)
 *
 * The memory of all TCP sockets of the host has a single limit, which cannot be set per namespace;
 * control groups count a jail's socket buffers except those of connections not accepted yet, and even
 * beyond the limit each socket still gets a little. So buffers start small and do not grow much, which
 * is enough for any rate, as the peer is always on this host; few connections may wait to be accepted;
 * and closed ones are soon forgotten.
 *
 * The IPv6 neighbour table is shared by all namespaces, but a jail's network has no IPv6. For IPv4, the
 * card has one neighbour, its gateway: see NET_PREFIX.
 */
struct setting {
	const char *path, *value;
};

static const struct setting of_user[] = {
	{"/proc/sys/user/max_inotify_instances", JAIL_INOTIFY_INSTANCES},
	{"/proc/sys/user/max_inotify_watches", JAIL_INOTIFY_WATCHES},
	{"/proc/sys/user/max_fanotify_groups", "0"},
	{"/proc/sys/user/max_fanotify_marks", "0"},
	{"/proc/sys/user/max_cgroup_namespaces", "0"},
	{"/proc/sys/user/max_ipc_namespaces", "0"},
	{"/proc/sys/user/max_net_namespaces", "0"},
	{"/proc/sys/user/max_pid_namespaces", "0"},
	{"/proc/sys/user/max_time_namespaces", "0"},
	{"/proc/sys/user/max_user_namespaces", "0"},
	{"/proc/sys/user/max_uts_namespaces", "0"},
};

static const struct setting of_net[] = {
	{"/proc/sys/net/ipv4/tcp_rmem", "4096 16384 " JAIL_TCP_RECEIVE},
	{"/proc/sys/net/ipv4/tcp_wmem", "4096 16384 " JAIL_TCP_SEND},
	{"/proc/sys/net/core/somaxconn", "128"},
	{"/proc/sys/net/ipv4/tcp_max_syn_backlog", "128"},
	{"/proc/sys/net/ipv4/tcp_max_tw_buckets", "1024"},
	{"/proc/sys/net/ipv4/tcp_orphan_retries", "1"},
	{"/proc/sys/net/ipv4/tcp_fin_timeout", "10"},
};

/* Numbers of processes: who is to find them all has fewer to try. Before Linux 6.14 they are the host's. */
static const struct setting numbers = {"/proc/sys/kernel/pid_max", JAIL_PID_MAX};

static const struct setting no_ipv6 = {"/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1"};

/* A kernel without the thing to be counted has no setting for it. */
static int set(const struct setting *s)
{
	_cleanup_close_ int fd = open(s->path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return write(fd, s->value, strlen(s->value)) < 0 ? -errno : 0;
}

static int set_all(const struct setting *list, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = set(&list[i]);
	return r;
}

static bool has_own_numbers(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 14));
}

int jail_budget_set(const struct jail_spec *spec)
{
	int r = set_all(of_user, ARRAY_SIZE(of_user));

	/* Where that can't be had, it takes longer. */
	if (r == 0 && has_own_numbers())
		(void)set(&numbers);
	/* Without an interface there is nothing to hold. */
	if (r == 0 && (spec->flags & (JAIL_LOOPBACK | JAIL_CARD)))
		r = set_all(of_net, ARRAY_SIZE(of_net));
	return r == 0 && (spec->flags & JAIL_CARD) ? set(&no_ipv6) : r;
}

/* ---- speculation ---- */

/* The kernel's own words in /proc/PID/status. */
static const char *const words[] = {
	"not told",
	"not vulnerable",
	"not affected",
	"unsupported",
	"vulnerable",
	"thread vulnerable",
	"thread mitigated",
	"thread force mitigated",
	"globally mitigated",
	"always enabled",
	"always disabled",
	"conditional enabled",
	"conditional disabled",
	"conditional force disabled",
	"unknown",
};

/* It fails where the processor needs none, where the kernel has settled it for all, and where it has
 * nothing to offer: no reason to do without the sandbox. */
void jail_mitigate(void)
{
	(void)prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_FORCE_DISABLE, 0, 0);
	(void)prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, PR_SPEC_FORCE_DISABLE, 0, 0);
}

static unsigned word_of(const char *status, const char *key)
{
	const char *line = strstr(status, key);
	size_t len = line ? strcspn(line + strlen(key), "\n") : 0;

	for (unsigned i = 1; line && i < ARRAY_SIZE(words); i++) {
		if (len == strlen(words[i]) && memcmp(line + strlen(key), words[i], len) == 0)
			return i;
	}
	return 0;
}

uint64_t jail_speculation(const char *status)
{
	return word_of(status, "\nSpeculation_Store_Bypass:\t") << 8 |
	       word_of(status, "\nSpeculationIndirectBranch:\t");
}

void jail_speculation_str(uint64_t value, char *out, size_t size)
{
	const uint64_t top = ARRAY_SIZE(words) - 1;

	snprintf(out, size, "store bypass: %s; indirect branches: %s",
		 words[MIN(value >> 8 & 0xff, top)], words[MIN(value & 0xff, top)]);
}
