/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon is killed again and again, anywhere: whoever uses its mount sees each request answered once, and done once. */
/* modules: tests/unit/fixture/ledger.c tests/unit/fixture/own_mount.c */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture/handed.h"
#include "tests/unit/fixture/ledger.h"
#include "tests/unit/fixture/own_mount.h"
#include "vm/base/util.h"

#define SKIP		77
#define KILLS		400u /* or as many as the first argument says; the second one is the seed */
#define WRITERS		2u
#define RANDOM_US	4000u /* a daemon that doesn't kill itself lives no longer */
#define AIMED_MS	30
#define FINISH_SEC	60

/* What an appended word says. */
#define WORD(writer, n) ((uint64_t)(writer) << 56 | (n))
/* In whole pages the kernel passes them on in one piece. */
#define PAGES		__attribute__((aligned(4096)))

#define THE_END		(UINT64_MAX >> 8)

enum client {
	WRITER0,
	WRITER1,
	READER,
	POLLER,
	OPENER,
	MAKER,
	WAITER,
	BIG_WRITER,
	BIG_READER,
	NCLIENTS
};

static const char *const client_str[] = {"writer", "writer",	  "reader of the log",
					 "poller", "opener",	  "maker",
					 "waiter", "long writer", "long reader"};
static_assert(ARRAY_SIZE(client_str) == NCLIENTS, "each has a name");

static struct {
	struct ledger_report report;
	_Atomic bool stop;
	_Atomic uint64_t done[NCLIENTS]; /* how often each has come round */
	char failure[256];		 /* the first */
} * shared;

static char top[] = "/tmp/xsbxfs-killed-XXXXXX";

/* ---- who uses the mount ---- */

static void printf_like(1, 2) fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!*shared->failure)
		vsnprintf(shared->failure, sizeof(shared->failure), fmt, ap);
	va_end(ap);
	_exit(1);
}

static int open_node(const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		fail("open %s: %s", name, strerror(errno));
	return fd;
}

static void expect(const char *what, ssize_t n, ssize_t wanted)
{
	if (n != wanted)
		fail("%s: %zd, not %zd: %s", what, n, wanted, n < 0 ? strerror(errno) : "no error");
}

static void append(unsigned writer)
{
	const int fd = open_node("log", O_WRONLY);

	for (uint64_t n = 1; !shared->stop; n++) {
		const uint64_t word = WORD(writer, n);

		expect("append", write(fd, &word, sizeof(word)), sizeof(word));
		shared->done[writer]++;
		usleep(100);
	}
	expect("append", write(fd, &(uint64_t){WORD(writer, THE_END)}, sizeof(uint64_t)),
	       sizeof(uint64_t));
	shared->done[writer]++;
	close(fd);
}

/* Each word once, and those of one writer in their order. */
static void follow(enum client me)
{
	const int fd = open_node("log", O_RDONLY);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t seen[WRITERS] = {0}, words[512];
	unsigned ended = 0;

	while (ended < WRITERS) {
		ssize_t n;

		if (me == POLLER && poll(&p, 1, -1) != 1)
			fail("poll: %s", strerror(errno));
		n = read(fd, words, sizeof(words));
		if (n <= 0 || n % (ssize_t)sizeof(*words))
			fail("read of the log: %zd: %s", n, strerror(errno));
		for (size_t i = 0; i < (size_t)n / sizeof(*words); i++) {
			const uint64_t writer = words[i] >> 56;

			if (writer >= WRITERS)
				fail("the log: %#llx", (unsigned long long)words[i]);
			if (words[i] == WORD(writer, THE_END))
				ended++;
			else if (words[i] != WORD(writer, ++seen[writer]))
				fail("the log: %#llx, not number %llu",
				     (unsigned long long)words[i],
				     (unsigned long long)seen[writer]);
		}
		shared->done[me] += (size_t)n / sizeof(*words);
	}
	close(fd);
}

static void open_often(void)
{
	for (uint64_t n = 1, is = 0; !shared->stop; n++) {
		const int fd = open_node("number", O_RDONLY);

		expect("read of a number", read(fd, &is, sizeof(is)), sizeof(is));
		if (is != n)
			fail("opened as number %llu, not %llu", (unsigned long long)is,
			     (unsigned long long)n);
		close(fd);
		shared->done[OPENER]++;
	}
}

static void make_and_remove(void)
{
	char path[64];

	for (uint64_t n = 1; !shared->stop; n++) {
		snprintf(path, sizeof(path), "%s/d%llu", top, (unsigned long long)(n % 20));
		if (mkdir(path, 0755) < 0)
			fail("mkdir: %s", strerror(errno));
		if (rmdir(path) < 0)
			fail("rmdir: %s", strerror(errno));
		shared->done[MAKER]++;
	}
}

static void on_alarm(int signum)
{
	(void)signum;
}

/* Reads that are interrupted end: whoever reads can be killed. */
static void wait_in_vain(void)
{
	const struct itimerval often = {{0, 1700}, {0, 1700}};
	const struct sigaction act = {.sa_handler = on_alarm};
	const int fd = open_node("never", O_RDONLY);
	char c;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (!shared->stop) {
		if (read(fd, &c, 1) != -1 || errno != EINTR)
			fail("a read that is interrupted: %s", strerror(errno));
		shared->done[WAITER]++;
	}
	close(fd);
}

static void write_big(void)
{
	static uint64_t words[LEDGER_BIG / sizeof(uint64_t)] PAGES;
	const int fd = open_node("big", O_WRONLY);

	for (uint64_t n = 1; !shared->stop; n++) {
		words[0] = n;
		for (size_t i = 1; i < ARRAY_SIZE(words); i++)
			words[i] = ledger_word(n, i);
		expect("long write", pwrite(fd, words, sizeof(words), 0), sizeof(words));
		shared->done[BIG_WRITER]++;
		usleep(5000);
	}
	close(fd);
}

static void read_big(void)
{
	static uint64_t words[LEDGER_BIG / sizeof(uint64_t)] PAGES;
	const int fd = open_node("big", O_RDONLY);

	while (!shared->stop) {
		expect("long read", pread(fd, words, sizeof(words), 0), sizeof(words));
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (words[i] != ledger_word(1, i))
				fail("a long read is wrong at %zu", i * sizeof(*words));
		shared->done[BIG_READER]++;
		usleep(5000);
	}
	close(fd);
}

static pid_t start_client(enum client client, int connection)
{
	const pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(connection);
	switch (client) {
	case WRITER0:
	case WRITER1: append(client); break;
	case READER:
	case POLLER: follow(client); break;
	case OPENER: open_often(); break;
	case MAKER: make_and_remove(); break;
	case WAITER: wait_in_vain(); break;
	case BIG_WRITER: write_big(); break;
	case BIG_READER: read_big(); break;
	case NCLIENTS: break;
	}
	_exit(0);
}

/* ---- who kills ---- */

static pid_t start_daemon(const struct ledger_order *o)
{
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ledger_run(o, &shared->report);
	}
	return pid;
}

/* Return: it was killed, and by nobody else than us. */
static bool one_life(int connection, struct handed *handed, unsigned *seed)
{
	const unsigned points = 2 * LEDGER_NPOINTS; /* half of them are none */
	struct ledger_order o = {connection, handed, (unsigned)rand_r(seed) % points, 0};
	struct pollfd p;
	int status;
	pid_t pid;

	if (o.point >= LEDGER_NPOINTS)
		o.point = LEDGER_NOWHERE;
	o.after = 1 + (unsigned)rand_r(seed) % (rand_r(seed) % 4 ? 4 : 40);
	pid = start_daemon(&o);
	if (o.point == LEDGER_NOWHERE) {
		usleep((unsigned)rand_r(seed) % RANDOM_US);
	} else {
		p = (struct pollfd){(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
		poll(&p, 1, AIMED_MS);
		close(p.fd);
	}
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		return false;
	handed_take(handed);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The last daemon lives until all are done. Return: 0, or 1, with words. */
static int finish(const pid_t *client, int connection, const struct handed *handed)
{
	const struct ledger_order o = {.connection = connection, .handed = handed};
	const uint64_t until = now_ms() + FINISH_SEC * 1000;
	const pid_t daemon = start_daemon(&o);
	unsigned left = NCLIENTS;
	bool gone[NCLIENTS] = {false};
	int status, bad = 0;

	usleep(100000);
	shared->stop = true;
	while (left && now_ms() < until) {
		for (unsigned i = 0; i < NCLIENTS; i++) {
			if (gone[i] || waitpid(client[i], &status, WNOHANG) != client[i])
				continue;
			gone[i] = true;
			left--;
			bad |= status;
		}
		usleep(1000);
	}
	for (unsigned i = 0; i < NCLIENTS; i++)
		if (!gone[i])
			fprintf(stderr, "%s waits for ever\n", client_str[i]);
	if (*shared->failure)
		fprintf(stderr, "%s\n", shared->failure);
	usleep(100000); /* for what the kernel forgets when the last ones are gone */
	kill(daemon, SIGKILL);
	waitpid(daemon, &status, 0);
	return left || bad;
}

static int same(const char *what, uint64_t is, uint64_t wanted)
{
	if (is == wanted)
		return 0;
	fprintf(stderr, "%s: %llu, not %llu\n", what, (unsigned long long)is,
		(unsigned long long)wanted);
	return 1;
}

static int check(void)
{
	const struct ledger_report *r = &shared->report;
	const _Atomic uint64_t *done = shared->done;
	int bad = same("errors", r->errors, 0);

	bad |= same("the log", r->log_len, (done[WRITER0] + done[WRITER1]) * sizeof(uint64_t));
	bad |= same("opened", r->opened, done[OPENER]);
	bad |= same("long writes", r->bigs, done[BIG_WRITER]);
	bad |= same("directories", r->linked, 0);
	bad |= same("directories that the kernel knows", r->known, 0);
	for (unsigned i = 0; i < NCLIENTS; i++)
		bad |= !done[i] && fprintf(stderr, "%s: nothing done\n", client_str[i]);
	return bad;
}

static int test(unsigned kills, unsigned seed)
{
	pid_t client[NCLIENTS];
	struct handed handed;
	int connection = own_mount(top), bad = 0;

	if (connection < 0) {
		printf("no mount here: %s\n", strerror(-connection));
		return SKIP;
	}
	if (handed_init(&handed) < 0)
		return 1;
	for (unsigned i = 0; i < NCLIENTS; i++)
		client[i] = start_client(i, connection);
	printf("%u kills, seed %u\n", kills, seed);
	fflush(stdout);
	for (unsigned i = 0; !bad && !*shared->failure && i < kills; i++)
		bad = !one_life(connection, &handed, &seed);
	bad |= finish(client, connection, &handed);
	if (!bad)
		bad = check();
	for (unsigned i = 0; i < NCLIENTS; i++)
		printf("%s: %llu\n", client_str[i], (unsigned long long)shared->done[i]);
	printf("forgotten: %llu, handled again: %llu\n",
	       (unsigned long long)shared->report.forgotten,
	       (unsigned long long)shared->report.replayed);
	/* Whoever waits still gets an error now. */
	own_unmount(top, connection);
	return bad;
}

int main(int argc, char **argv)
{
	const unsigned kills = argc > 1 ? (unsigned)atoi(argv[1]) : KILLS,
		       seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL);
	int status = 1;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !mkdtemp(top))
		return 1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		status = test(kills, seed);
		fflush(NULL);
		_exit(status);
	}
	waitpid(pid, &status, 0);
	rmdir(top);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
