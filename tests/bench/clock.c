/* SPDX-License-Identifier: Apache-2.0 */
/* Times single operations for the benchmark: prints one line of nanoseconds for each. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * In C, because what is timed takes microseconds. Each mode prints `NAME NANOSECONDS` for each
 * time, or `NAME fail` where an operation failed; what exactly lies between start and stop of the
 * clock is said at each mode below, and again by the script that shows the figures.
 */

#define BLOCK (1u << 20)

static char block[BLOCK];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void report(const char *name, uint64_t start, int failed)
{
	if (failed)
		printf("%s fail\n", name);
	else
		printf("%s %llu\n", name, (unsigned long long)(now() - start));
}

/* Return: bytes read to the end of file, or -1. */
static int64_t read_all(const char *path)
{
	int64_t total = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((n = read(fd, block, sizeof(block))) > 0)
		total += n;
	close(fd);
	return n < 0 ? -1 : total;
}

static int write_all(const char *path, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), failed = 0;

	if (fd < 0)
		return -1;
	while (len) {
		ssize_t n = write(fd, data, len < BLOCK ? len : BLOCK);

		if (n < 0) {
			failed = -1;
			break;
		}
		data += n;
		len -= (size_t)n;
	}
	return close(fd) < 0 ? -1 : failed;
}

/* node PATH N: open(2), read(2) to the end of file, close(2). */
static int bench_node(char *const args[])
{
	const char *path = args[0];
	long n = strtol(args[1], NULL, 10);

	for (long i = 0; i < n; i++) {
		uint64_t start = now();

		report("node", start, read_all(path) < 0);
	}
	return 0;
}

/* run SESSION CODEFILE N: from before the open of `in` until `stdout` and then `exit_code` have been
 * read to their ends. */
static int bench_run(char *const args[])
{
	static char code[BLOCK], in[4096], out[4096], status[4096];
	long n = strtol(args[2], NULL, 10);
	int fd = open(args[1], O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, code, sizeof(code));

	if (len < 0) {
		perror(args[1]);
		return 1;
	}
	close(fd);
	snprintf(in, sizeof(in), "%s/in", args[0]);
	snprintf(out, sizeof(out), "%s/stdout", args[0]);
	snprintf(status, sizeof(status), "%s/exit_code", args[0]);
	for (long i = 0; i < n; i++) {
		uint64_t start = now();
		int failed = write_all(in, code, (size_t)len) < 0 || read_all(out) < 0 ||
			     read_all(status) <= 0;

		report("run", start, failed);
	}
	return 0;
}

/* seq DIR BYTES N: write a file in blocks of 1 MiB, including close(2); read it again the same way, after
 * its cached pages were dropped as far as a user can. */
static int bench_seq(char *const args[])
{
	static char path[4096];
	size_t bytes = strtoul(args[1], NULL, 10);
	long n = strtol(args[2], NULL, 10);
	char *data = malloc(bytes);

	if (!data)
		return 1;
	memset(data, 'x', bytes);
	snprintf(path, sizeof(path), "%s/seq", args[0]);
	for (long i = 0; i < n; i++) {
		uint64_t start = now();
		int fd;

		report("write", start, write_all(path, data, bytes) < 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0) {
			fsync(fd);
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			close(fd);
		}
		start = now();
		report("read", start, read_all(path) != (int64_t)bytes);
		unlink(path);
	}
	free(data);
	return 0;
}

/* ops DIR N: one file after the other, each call timed by itself: create, write of 4 KiB and close; stat;
 * open, read and close; rename; unlink. */
static int bench_ops(char *const args[])
{
	static char path[4096], other[4096];
	long n = strtol(args[1], NULL, 10);
	struct stat st;

	memset(block, 'x', 4096);
	for (long i = 0; i < n; i++) {
		uint64_t start;

		snprintf(path, sizeof(path), "%s/f%ld", args[0], i);
		snprintf(other, sizeof(other), "%s/g%ld", args[0], i);
		start = now();
		report("create", start, write_all(path, block, 4096) < 0);
		start = now();
		report("stat", start, stat(path, &st) < 0);
		start = now();
		report("openread", start, read_all(path) != 4096);
		start = now();
		report("rename", start, rename(path, other) < 0);
		start = now();
		report("unlink", start, unlink(other) < 0);
	}
	return 0;
}

static const struct mode {
	const char *name;
	int nargs;
	int (*fn)(char *const args[]);
} modes[] = {
	{"node", 2, bench_node},
	{"run", 3, bench_run},
	{"seq", 3, bench_seq},
	{"ops", 2, bench_ops},
};

int main(int argc, char *argv[])
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (argc == modes[i].nargs + 2 && !strcmp(argv[1], modes[i].name))
			return modes[i].fn(argv + 2);
	}
	fputs("usage: clock node PATH N | run SESSION CODEFILE N | seq DIR BYTES N | ops DIR N\n",
	      stderr);
	return 2;
}
