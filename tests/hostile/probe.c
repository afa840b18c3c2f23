/* SPDX-License-Identifier: Apache-2.0 */
/* Tries what user code must not be able to do, and says how it went: "NAME: possible|ERRNO|signal N". */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Built statically, so that it runs in any view of files. With names as arguments, only these.
 */

#define SECONDS 10

int probe_result(long r)
{
	return r < 0 ? -errno : 0;
}

/* In a process of its own, which says on a pipe how it went. */
static void run_one(const struct probe *p)
{
	int pipe_fds[2], status = 0, result = -ECHILD;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		printf("%s: not tried\n", p->name);
		return;
	}
	if (pid == 0) {
		alarm(SECONDS);
		result = p->try();
		_exit(write(pipe_fds[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
	}
	close(pipe_fds[1]);
	n = read(pipe_fds[0], &result, sizeof(result));
	close(pipe_fds[0]);
	waitpid(pid, &status, 0);
	if (n == sizeof(result) && result >= 0)
		printf("%s: possible\n", p->name);
	else if (n == sizeof(result))
		printf("%s: %s\n", p->name, strerrorname_np(-result));
	else
		printf("%s: signal %d\n", p->name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fflush(stdout);
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return true;
	}
	return argc < 2;
}

static void run(const struct probe *list, size_t n, int argc, char **argv)
{
	for (size_t i = 0; i < n; i++) {
		if (wanted(list[i].name, argc, argv))
			run_one(&list[i]);
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	run(spaces_probes, n_spaces_probes, argc, argv);
	run(kernel_probes, n_kernel_probes, argc, argv);
	run(rights_probes, n_rights_probes, argc, argv);
	return 0;
}
