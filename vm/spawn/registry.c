/* SPDX-License-Identifier: Apache-2.0 */
/* Which spawner a mount has. */
#include "registry.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "vm/base/util.h"

#define FILE_NAME "/processes"
#define FILE_NEW  "/processes.new"
#define REAP_MS	  2000

/* A process for all times: a number alone comes again. */
struct process {
	int pid;
	unsigned long long start; /* ticks since boot */
};

static FILE *open_in(const char *dir, const char *file, const char *mode)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", dir, file);
	return fopen(path, mode);
}

static int read_boot_id(char id[64])
{
	_cleanup_file_ FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f)
		return -errno;
	return fscanf(f, "%63s", id) == 1 ? 0 : -EIO;
}

/* Return: 0, -ESRCH if there is no such process (any more). */
static int read_start(int pid, unsigned long long *ret_start)
{
	_cleanup_file_ FILE *f = NULL;
	char path[64], line[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return -ESRCH;
	/* The name, in parentheses, may hold anything; the 20th field after it is the start. */
	p = strrchr(line, ')');
	for (unsigned field = 0; p && field < 20; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EIO;
	*ret_start = strtoull(p, NULL, 10);
	return 0;
}

int registry_write(const char *runtime_dir, pid_t pid)
{
	_cleanup_file_ FILE *f = open_in(runtime_dir, FILE_NEW, "we");
	char path[PATH_MAX], temporary[PATH_MAX], boot[64];
	struct process spawner = {.pid = pid};
	int r = f ? read_boot_id(boot) : -errno;

	if (r == 0)
		r = read_start(spawner.pid, &spawner.start);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s" FILE_NAME, runtime_dir);
	snprintf(temporary, sizeof(temporary), "%s" FILE_NEW, runtime_dir);
	fprintf(f, "%s\nspawner %d %llu\n", boot, spawner.pid, spawner.start);
	if (fflush(f) == 0 && rename(temporary, path) == 0)
		return 0;
	r = -errno;
	(void)unlink(temporary);
	return r;
}

/* Return: a descriptor of exactly this process, or -ESRCH if it is gone. */
static int open_process(const struct process *p)
{
	_cleanup_close_ int fd = pidfd_open(p->pid, 0);
	unsigned long long start;

	if (fd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	/* Looked at after the descriptor was opened: it can't be another one from here on. */
	if (read_start(p->pid, &start) < 0 || start != p->start)
		return -ESRCH;
	return steal_fd(&fd);
}

/* Takes a line "WORD PID START" apart. Return: 0 or -EBADMSG. */
static int read_process(FILE *f, const char *word, struct process *ret_process)
{
	const size_t len = strlen(word);
	char line[128], *pos, *end;
	long pid;

	if (!fgets(line, sizeof(line), f) || strncmp(line, word, len) != 0)
		return -EBADMSG;
	pid = strtol(line + len, &pos, 10);
	if (pid <= 1 || pid > INT_MAX)
		return -EBADMSG;
	ret_process->pid = (int)pid;
	ret_process->start = strtoull(pos, &end, 10);
	return end > pos ? 0 : -EBADMSG;
}

static int read_registry(const char *runtime_dir, char boot[64], struct process *ret_spawner)
{
	_cleanup_file_ FILE *f = open_in(runtime_dir, FILE_NAME, "re");

	if (!f)
		return -errno;
	if (!fgets(boot, 64, f))
		return -EBADMSG;
	boot[strcspn(boot, "\n")] = '\0';
	return read_process(f, "spawner ", ret_spawner);
}

int registry_reap(const char *runtime_dir)
{
	_cleanup_close_ int fd = -1;
	char boot[64], boot_now[64];
	struct process spawner = {0};
	struct pollfd p = {.events = POLLIN};
	int r = read_registry(runtime_dir, boot, &spawner);

	if (r < 0)
		return r;
	r = read_boot_id(boot_now);
	if (r < 0)
		return r;
	if (strcmp(boot, boot_now) != 0)
		return 0;
	fd = open_process(&spawner);
	if (fd < 0)
		return fd == -ESRCH ? 0 : fd;
	/* It may be about to clean up by itself; that is worth a moment. */
	p.fd = fd;
	if (poll(&p, 1, REAP_MS) > 0)
		return 1;
	if (pidfd_send_signal(fd, SIGKILL, NULL, 0) < 0)
		return -errno;
	return poll(&p, 1, REAP_MS) > 0 ? 1 : -ETIMEDOUT;
}
