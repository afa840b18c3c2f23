/* SPDX-License-Identifier: Apache-2.0 */
/* Times single operations for the benchmark: prints one line of nanoseconds for each. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void sleep_until(uint64_t at)
{
	struct timespec t = {.tv_sec = (time_t)(at / 1000000000u),
			     .tv_nsec = (long)(at % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void report_span(const char *name, uint64_t start, uint64_t end, int failed)
{
	if (failed)
		printf("%s fail\n", name);
	else
		printf("%s %llu\n", name, (unsigned long long)(end - start));
}

static void report(const char *name, uint64_t start, int failed)
{
	report_span(name, start, now(), failed);
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

/* The same for threads, of something short. */
static int64_t read_answer(const char *path)
{
	char answer[4096];
	int64_t total = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((n = read(fd, answer, sizeof(answer))) > 0)
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

/* The program that is run. */
static char code[BLOCK];
static size_t code_len;

static int load_code(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, code, sizeof(code));

	if (len < 0) {
		perror(path);
		return -1;
	}
	close(fd);
	code_len = (size_t)len;
	return 0;
}

/* run SESSION CODEFILE N: from before the open of `in` until `stdout` and then `exit_code` have been
 * read to their ends. */
static int bench_run(char *const args[])
{
	static char in[PATH_MAX], out[PATH_MAX], status[PATH_MAX];
	long n = strtol(args[2], NULL, 10);

	if (load_code(args[1]) < 0)
		return 1;
	snprintf(in, sizeof(in), "%s/in", args[0]);
	snprintf(out, sizeof(out), "%s/stdout", args[0]);
	snprintf(status, sizeof(status), "%s/exit_code", args[0]);
	for (long i = 0; i < n; i++) {
		uint64_t start = now();
		int failed = write_all(in, code, code_len) < 0 || read_all(out) < 0 ||
			     read_all(status) <= 0;

		report("run", start, failed);
	}
	return 0;
}

/* Writes the program to @in; @ret_closing is the moment before close(2), which submits it. */
static int submit(const char *in, uint64_t *ret_closing)
{
	int fd = open(in, O_WRONLY | O_TRUNC | O_CLOEXEC), failed;

	if (fd < 0)
		return -1;
	failed = write(fd, code, code_len) != (ssize_t)code_len;
	*ret_closing = now();
	return close(fd) < 0 || failed ? -1 : 0;
}

/* next SESSION CODEFILE N PAUSE: a program in a session that has run others, PAUSE microseconds after the last one.
 * `whole` from before the open of `in`, `in` from before its close, both until `stdout` has been read to its end. */
static int bench_next(char *const args[])
{
	static char in[PATH_MAX], out[PATH_MAX];
	long n = strtol(args[2], NULL, 10), pause_us = strtol(args[3], NULL, 10);

	if (load_code(args[1]) < 0)
		return 1;
	snprintf(in, sizeof(in), "%s/in", args[0]);
	snprintf(out, sizeof(out), "%s/stdout", args[0]);
	for (long i = 0; i < n; i++) {
		uint64_t start, closing = 0, end;
		int failed;

		if (pause_us)
			sleep_until(now() + (uint64_t)pause_us * 1000);
		start = now();
		failed = submit(in, &closing) < 0 || read_all(out) <= 0;

		end = now();
		report_span("whole", start, end, failed);
		report_span("in", closing, end, failed);
	}
	return 0;
}

/* ---- new sessions ---- */

/* One session, from its making to its end. */
struct life {
	char path[PATH_MAX];
	uint64_t at, begin, closing, end, down_begin, down_end;
	char how[16]; /* as status.json says it */
	int failed;
};

/* The value of the first "NAME": in a JSON text, up to a quote or comma. */
static void json_word(const char *text, const char *name, char *ret_word, size_t size)
{
	char quoted[64];
	const char *p;
	size_t len;

	ret_word[0] = '\0';
	snprintf(quoted, sizeof(quoted), "\"%s\": ", name);
	p = strstr(text, quoted);
	if (!p)
		return;
	p += strlen(quoted);
	p += *p == '"';
	len = strcspn(p, "\",\n}");
	snprintf(ret_word, size, "%.*s", (int)len, p);
}

/* Return: a descriptor of the sandbox's process, or -1. */
static int look_at(struct life *l)
{
	char path[PATH_MAX + 16], word[32], text[16384];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/status.json", l->path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	json_word(text, "start", l->how, sizeof(l->how));
	json_word(text, "pid", word, sizeof(word));
	return strtol(word, NULL, 10) > 0 ? pidfd_open((pid_t)strtol(word, NULL, 10), 0) : -1;
}

static void *live(void *arg)
{
	struct life *l = arg;
	char in[PATH_MAX + 16], out[PATH_MAX + 16];
	struct pollfd p;

	snprintf(in, sizeof(in), "%s/in", l->path);
	snprintf(out, sizeof(out), "%s/stdout", l->path);
	sleep_until(l->at);
	l->begin = now();
	l->failed =
		mkdir(l->path, 0755) < 0 || submit(in, &l->closing) < 0 || read_answer(out) <= 0;
	l->end = now();
	p = (struct pollfd){.fd = look_at(l), .events = POLLIN};
	l->down_begin = now();
	if (rmdir(l->path) < 0)
		perror(l->path);
	while (p.fd >= 0 && poll(&p, 1, 60000) < 0 && errno == EINTR)
		;
	l->down_end = p.fd >= 0 ? now() : 0;
	if (p.fd >= 0)
		close(p.fd);
	return NULL;
}

static void report_life(const struct life *l)
{
	char name[32];
	const char *how = l->how[0] ? l->how : "none";

	snprintf(name, sizeof(name), "%s-in", how);
	report_span(name, l->closing, l->end, l->failed);
	snprintf(name, sizeof(name), "%s-whole", how);
	report_span(name, l->begin, l->end, l->failed);
	if (l->down_end)
		report_span("down", l->down_begin, l->down_end, 0);
}

/* new TEMPLATE PREFIX CODEFILE N EVERY: N sessions, each made, given a program, read and removed. A
 * new one each EVERY microseconds, each in a thread of its own; with -1 one after the other. How a
 * sandbox started, HOW, is what status.json says. `HOW-whole` from before mkdir(2), `HOW-in` from
 * before close(2) of `in`, both until `stdout` has been read to its end; it must not be empty. `down`
 * from before rmdir(2) until the process of the sandbox has ended. `total` from the first of the
 * beginnings to the last of the ends. */
static int bench_new(char *const args[])
{
	long n = strtol(args[3], NULL, 10), every = strtol(args[4], NULL, 10);
	struct life *lives = calloc((size_t)n, sizeof(*lives));
	pthread_t *threads = calloc((size_t)n, sizeof(*threads));
	uint64_t first = now() + 10000000, last = 0;
	int failed = 0;

	if (!lives || !threads || load_code(args[2]) < 0)
		return 1;
	for (long i = 0; i < n; i++) {
		struct life *l = lives + i;

		snprintf(l->path, sizeof(l->path), "%s/%s-%ld", args[0], args[1], i);
		if (every < 0) {
			live(l);
			continue;
		}
		l->at = first + (uint64_t)(i * every) * 1000;
		if (pthread_create(threads + i, NULL, live, l) != 0)
			return 1;
	}
	for (long i = 0; i < n; i++) {
		if (every >= 0)
			pthread_join(threads[i], NULL);
		report_life(lives + i);
		first = i == 0 || lives[i].begin < first ? lives[i].begin : first;
		last = lives[i].end > last ? lives[i].end : last;
		failed |= lives[i].failed;
	}
	report_span("total", first, last, failed);
	free(lives);
	free(threads);
	return 0;
}

/* spawn N PROGRAM ARG...: a plain process, from before it is made to the end of its output. */
static int bench_spawn(char *const args[])
{
	char *const *argv = args + 1;
	long n = strtol(args[0], NULL, 10);

	for (long i = 0; i < n; i++) {
		uint64_t start = now();
		posix_spawn_file_actions_t actions;
		int p[2], failed;
		pid_t pid;
		char c[64];

		if (pipe2(p, O_CLOEXEC) < 0)
			return 1;
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, p[1], STDOUT_FILENO);
		failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0;
		close(p[1]);
		while (!failed && read(p[0], c, sizeof(c)) > 0)
			;
		report("spawn", start, failed);
		close(p[0]);
		posix_spawn_file_actions_destroy(&actions);
		if (!failed)
			waitpid(pid, NULL, 0);
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
	{"node", 2, bench_node}, {"run", 3, bench_run},	    {"next", 4, bench_next},
	{"new", 5, bench_new},	 {"spawn", 2, bench_spawn}, {"seq", 3, bench_seq},
	{"ops", 2, bench_ops},
};

int main(int argc, char *argv[])
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		/* Any number of arguments follows where the last one is a program's. */
		const int more = modes[i].fn == bench_spawn ? argc - modes[i].nargs - 2 : 0;

		if (argc == modes[i].nargs + 2 + MAX(more, 0) && !strcmp(argv[1], modes[i].name))
			return modes[i].fn(argv + 2);
	}
	fputs("usage: clock node PATH N | run SESSION CODEFILE N | next SESSION CODEFILE N PAUSE "
	      "|\n"
	      "       new TEMPLATE PREFIX CODEFILE N EVERY | spawn N PROGRAM ARG... |\n"
	      "       seq DIR BYTES N | ops DIR N\n",
	      stderr);
	return 2;
}
