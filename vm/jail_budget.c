/* SPDX-License-Identifier: Apache-2.0 */
/* What a jail may use up of what the kernel counts for the whole host, or for whoever made the jail. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "jail_internal.h"
#include "util.h"

/*
 * The kernel counts instances of inotify for the user of a namespace and for the one who made it, too:
 * without a limit of its own, a jail takes all that the host's root has. Settings below `user` are those
 * of the user namespace of the process that writes them, those below `net` of its network namespace.
 *
 * The table of neighbours of IPv6 is one for all namespaces. A jail's network has no IPv6 anyway.
 */
static const struct {
	const char *path, *value;
} budget[] = {
	{"/proc/sys/user/max_inotify_instances", JAIL_INOTIFY_INSTANCES},
	{"/proc/sys/user/max_inotify_watches", JAIL_INOTIFY_WATCHES},
};

static const char no_ipv6[] = "/proc/sys/net/ipv6/conf/eth0/disable_ipv6";

/* A kernel without the thing to be counted has no setting for it. */
static int set(const char *path, const char *value)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

int jail_budget_set(bool card)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(budget); i++)
		r = set(budget[i].path, budget[i].value);
	return r == 0 && card ? set(no_ipv6, "1") : r;
}
