/* SPDX-License-Identifier: Apache-2.0 */
#include "background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/base/log.h"

int background_enter(void)
{
	char why[1024];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot go into the background: %s", strerror(errno));
		exit(1);
	}
	if (pid == 0) {
		close(fds[0]);
		return fds[1];
	}
	close(fds[1]);
	n = read(fds[0], why, sizeof(why) - 1);
	if (n == 1 && why[0] == '\0')
		_exit(0);
	if (n > 0)
		_exit(1); /* the child has said why, on the same standard error */
	waitpid(pid, &status, 0);
	fprintf(stderr, "xsbxfs: error: the daemon died while it started\n");
	_exit(1);
}

void background_mounted(int parent)
{
	if (parent >= 0)
		setsid();
}

void background_ready(int parent)
{
	int fd;

	if (parent < 0)
		return;
	(void)!chdir("/");
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	close(fd);
	(void)!write(parent, "", 1);
	close(parent);
}

void background_failed(int parent, const char *why)
{
	if (parent >= 0)
		(void)!write(parent, why, strlen(why));
}
