/* SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/util.h"

/* Task flags in /proc/PID/stat, see the kernel's include/linux/sched.h. */
#define TASK_EXITING  0x00000004ul
#define TASK_SIGNALED 0x00000400ul

size_t caller_read(pid_t pid, const char *name, char *text, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[32];
	ssize_t n;

	*text = '\0';
	if (pid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, size - 1);
	n = MAX(n, 0);
	text[n] = '\0';
	return (size_t)n;
}

/*
 * A process that closes files because it exits has no memory any more. One that closes them in execve(2) has: it
 * then holds a lock that the kernel (6.18) also takes for /proc/PID/stat, while it waits for our answer. Reading
 * /proc/PID/statm takes no lock that is held while sleeping, and is one short line, unlike /proc/PID/status.
 */
static bool has_memory(pid_t pid)
{
	char text[256];

	return !caller_read(pid, "statm", text, sizeof(text)) ||
	       strcmp(text, "0 0 0 0 0 0 0\n") != 0;
}

bool caller_killed(pid_t pid)
{
	const unsigned long dying = TASK_EXITING | TASK_SIGNALED;
	unsigned long flags = 0;
	char text[512], *p;

	if (pid <= 0 || has_memory(pid) || !caller_read(pid, "stat", text, sizeof(text)))
		return false;
	p = strrchr(text, ')'); /* the name before it may hold anything */
	if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1)
		return false;
	return (flags & dying) == dying;
}

/* A name can be anybody's: who takes one of these can seek in what he reads, and mislead himself. */
bool caller_seeks(pid_t pid)
{
	static const char *const servers[] = {"sftp-server\n",
					      "sshd\n", /* `Subsystem sftp internal-sftp` */
					      "sshd-session\n" /* ... since OpenSSH 9.8 */};
	char name[32];

	if (!caller_read(pid, "comm", name, sizeof(name)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (strcmp(name, servers[i]) == 0)
			return true;
	return false;
}
