/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon that is to follow the one that serves. See heir.h. */
#include "heir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/memory.h"
#include "vm/base/util.h"
#include "wire.h"

#define START_MS  30000 /* until it can load: it configures itself, and waits for the daemon */
#define SILENT_MS 7000	/* while it loads */
#define LOAD_MS	  30000 /* altogether; the daemon stands still */
#define REVIVE_MS 60000 /* likewise, without a daemon: there is nobody else who could go on */
#define BACKLOG	  16

static_assert(LENT_GIVE_MS < SILENT_MS, "who waits for the holder in vain can say so");

struct sockaddr_un heir_address(int dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" HEIR_SOCKET, dir);
	return a;
}

int heir_listen(const struct spawner_rules *rules)
{
	_cleanup_close_ int fd = -1, dir = -1;
	struct sockaddr_un a;

	if (!rules->runtime_dir || !rules->mountpoint || !rules->argv)
		return -1;
	dir = open(rules->runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	a = heir_address(dir);
	(void)unlink(a.sun_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, BACKLOG) == 0)
		return steal_fd(&fd);
	log_warn("nobody can take this mount over: %s", strerror(errno));
	return -1;
}

void heir_init(struct heir *h, const struct spawner_rules *rules, int listener)
{
	int r;

	*h = (struct heir){.asker = -1, .sock = -1, .conf = -1, .program = -1};
	h->silent_ms = rules->patience_ms ? rules->patience_ms : SILENT_MS;
	r = askers_init(&h->askers, listener);
	if (listener < 0)
		return;
	/* Again: who connects is told who did that last. */
	if (r == 0 && listen(listener, BACKLOG) < 0)
		r = -errno;
	if (r < 0)
		log_warn("nobody can take this mount over: %s", strerror(-r));
}

int heir_fd(const struct heir *h, bool served)
{
	switch (h->state) {
	case HEIR_NONE: return served && !h->former ? h->askers.epoll : -1;
	case HEIR_STARTING:
	case HEIR_LOADING: return h->sock;
	}
	return -1;
}

int64_t heir_until(const struct heir *h, bool served)
{
	if (h->state != HEIR_NONE)
		return h->until;
	return heir_fd(h, served) >= 0 ? askers_until(&h->askers) : INT64_MAX;
}

/* ---- its start ---- */

/* Return: 0, or -errno with a reason. */
static int check_program(int fd, const char **ret_why)
{
	struct stat st;

	*ret_why = "it was not given a program";
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_why = "root's mount is only taken over by a program that is root's, and that nobody "
		   "else may write to";
	if (geteuid() == 0 && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))))
		return -EPERM;
	return 0;
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int sock, const char *fmt, ...)
{
	const struct spawn_request req = {.op = SPAWN_OP_REFUSE};
	char message[sizeof(req) + HEIR_WORDS_MAX];
	va_list ap;

	memcpy(message, &req, sizeof(req));
	va_start(ap, fmt);
	vsnprintf(message + sizeof(req), HEIR_WORDS_MAX, fmt, ap);
	va_end(ap);
	(void)fdpass_send(sock, message, sizeof(req) + strlen(message + sizeof(req)), NULL, 0, 0);
	_exit(127);
}

/* The mount's command line, behind the word that it is an heir. Return: it, to be freed, or NULL. */
static char **arguments(char *const *argv, const char *option)
{
	static char word[32];
	char **ret_argv;
	size_t n = 0;

	while (argv[n])
		n++;
	ret_argv = calloc(n + 2, sizeof(*ret_argv));
	if (!ret_argv)
		return NULL;
	snprintf(word, sizeof(word), "%s", option);
	ret_argv[0] = argv[0];
	ret_argv[1] = word;
	memcpy(ret_argv + 2, argv + 1, n * sizeof(*argv)); /* with the NULL */
	return ret_argv;
}

/* In the child. @fds: from HEIR_FD_SPAWNER on; -1: there is none. */
__attribute__((noreturn)) static void run(const struct heir_gift *g, int program, char *const *argv,
					  const int *fds, size_t n)
{
	const int cwd = fcntl(g->cwd, F_DUPFD_CLOEXEC, HEIR_FD_END);
	int high[HEIR_FD_END - HEIR_FD_SPAWNER];
	sigset_t none;

	program = fcntl(program, F_DUPFD_CLOEXEC, HEIR_FD_END);
	for (size_t i = 0; i < n; i++)
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, HEIR_FD_END);
	g->leave(g->data);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0 && dup2(high[i], HEIR_FD_SPAWNER + (int)i) < 0)
			_exit(127);
		if (fds[i] < 0)
			close(HEIR_FD_SPAWNER + (int)i);
	}
	if (close_range(HEIR_FD_END, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		fail(HEIR_FD_SPAWNER, "its descriptors: %s", strerror(errno));
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (fchdir(cwd) < 0)
		fail(HEIR_FD_SPAWNER, "%s, where the mount was made from: %s",
		     g->rules->cwd ? g->rules->cwd : "the directory", strerror(errno));
	fexecve(program, argv, environ);
	fail(HEIR_FD_SPAWNER, "the program could not be run: %s", strerror(errno));
}

static void close_pair(const int pair[2])
{
	for (size_t i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
	}
}

/* @theirs: its descriptor HEIR_FD_DAEMON. Return: 0 or -errno. */
static int launch(struct heir *h, const struct heir_gift *gift, int program, int theirs)
{
	_cleanup_free_ char **argv =
		arguments(gift->rules->argv, gift->option ? gift->option : HEIR_OPTION);
	int pair[2] = {-1, -1};
	pid_t pid;

	if (!argv)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	    fdpass_send(pair[0], &gift->welcome, sizeof(gift->welcome), NULL, 0, 0) < 0)
		pid = -1;
	else
		pid = _Fork();
	if (pid == 0) {
		const int fds[] = {pair[1], held_find(gift->held, HELD_CONNECTION), theirs,
				   gift->estate, gift->conf};

		run(gift, program, argv, fds, ARRAY_SIZE(fds));
	}
	if (pid < 0) {
		const int r = -errno;

		close_pair(pair);
		return r;
	}
	close(pair[1]);
	h->sock = pair[0];
	h->pid = pid;
	h->refused = h->ended = false;
	h->number++;
	return 0;
}

/* No disk is waited for when it is closed. Return: it, or -1. */
static int by_path(int program)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
	return open(path, O_PATH | O_CLOEXEC);
}

int heir_start(struct heir *h, const struct heir_gift *gift, int64_t now)
{
	_cleanup_close_ int program = -1;
	int daemon[2] = {-1, -1}, r;
	const char *why;

	h->asker = askers_next(&h->askers, now, &program);
	if (h->asker < 0)
		return -1;
	if (check_program(program, &why) < 0) {
		askers_answer(&h->asker, 0, why);
		return -1;
	}
	/* Without that nobody could go on when the heir dies: it is better not to be one. */
	h->program = by_path(program);
	r = h->program < 0 ? -errno : 0;
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, daemon) < 0)
		r = -errno;
	if (r == 0)
		r = launch(h, gift, program, daemon[1]);
	if (r < 0) {
		close_pair(daemon);
		if (h->program >= 0)
			close(steal_fd(&h->program));
		askers_answer(&h->asker, 0, "it could not be started");
		return -1;
	}
	close(daemon[1]);
	h->revives = false;
	h->state = HEIR_STARTING;
	h->until = now + START_MS;
	log_info("process %d is to take the mount over", (int)h->pid);
	return daemon[0];
}

/* It is heard of. */
static void wait_on(struct heir *h, int64_t now)
{
	if (h->state == HEIR_LOADING)
		h->until = MIN(now + h->silent_ms, h->latest);
}

void heir_loads(struct heir *h, int64_t now)
{
	h->state = HEIR_LOADING;
	h->latest = now + LOAD_MS;
	wait_on(h, now);
}

int heir_revive(struct heir *h, const struct heir_gift *gift, int64_t now)
{
	const int r = launch(h, gift, gift->program, gift->holder);

	if (r < 0)
		return r;
	h->revives = true;
	h->state = HEIR_LOADING;
	h->latest = now + REVIVE_MS;
	wait_on(h, now);
	return 0;
}

/* ---- what it says, and its end ---- */

/* It was given all before the spawner has read that the daemon stands still, which has been said
 * already. */
static bool is_early(const struct heir *h)
{
	struct spawn_request req = {0};

	return h->state == HEIR_STARTING &&
	       recv(h->sock, &req, sizeof(req), MSG_PEEK | MSG_DONTWAIT) == sizeof(req) &&
	       (req.op == SPAWN_OP_CLAIM || req.op == SPAWN_OP_READY || req.op == SPAWN_OP_ESTATE);
}

/* Once, and while it has been given nothing that a guest could have written. Return: whether it is
 * that. */
static bool take_conf(struct heir *h, int *fd)
{
	if (h->state != HEIR_STARTING || h->conf >= 0 || !memory_is_sealed(*fd))
		return false;
	h->conf = steal_fd(fd);
	return true;
}

enum heir_word heir_hear(struct heir *h, int64_t now, uint32_t *ret_id, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	char message[sizeof(struct spawn_request) + HEIR_WORDS_MAX];
	struct spawn_request req;
	size_t nfds;
	ssize_t n;

	if (is_early(h))
		return HEIR_WAITS;
	n = fdpass_receive(h->sock, message, sizeof(message), &fd, 1, &nfds, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return HEIR_WAITS;
	h->ended = n <= 0;
	snprintf(h->words, sizeof(h->words), "%s",
		 n <= 0 ? "the new process ended" : "the new process is not understood");
	if (n < (ssize_t)sizeof(req))
		return HEIR_OVER;
	memcpy(&req, message, sizeof(req));
	*ret_id = req.id;
	wait_on(h, now);
	if (req.op == SPAWN_OP_ALIVE)
		return HEIR_WAITS;
	if (req.op == SPAWN_OP_CONF && take_conf(h, &fd))
		return HEIR_WAITS;
	if (req.op == SPAWN_OP_CLAIM && h->state == HEIR_LOADING)
		return HEIR_CLAIMS;
	if (req.op == SPAWN_OP_ESTATE && h->state == HEIR_LOADING) {
		*ret_fd = steal_fd(&fd);
		return HEIR_LEAVES;
	}
	if (req.op == SPAWN_OP_READY && h->state == HEIR_LOADING)
		return HEIR_READY;
	if (req.op == SPAWN_OP_REFUSE) {
		const size_t len = MIN((size_t)n - sizeof(req), HEIR_WORDS_MAX - 1);

		memcpy(h->words, message + sizeof(req), len);
		h->words[len] = '\0';
		h->refused = true;
		log_printable(h->words, strlen(h->words), false);
	}
	return HEIR_OVER;
}

void heir_end(struct heir *h, const char *words)
{
	int *const its[] = {&h->sock, &h->conf, &h->program};

	if (h->state == HEIR_NONE)
		return;
	if (h->pid > 0) /* else it was reaped, and its number may be a stranger's */
		kill(h->pid, SIGKILL);
	for (size_t i = 0; i < ARRAY_SIZE(its); i++) {
		if (*its[i] >= 0)
			close(steal_fd(its[i]));
	}
	h->pid = 0;
	if (!h->revives)
		log_warn("the mount was not taken over: %s", words);
	h->state = HEIR_NONE;
	/* Who waits for the end of the daemon before last has asked for another one than this. */
	if (!h->former)
		askers_answer(&h->asker, 0, words);
}

void heir_succeeds(struct heir *h, pid_t former)
{
	if (former)
		h->former = former;
	h->successor = h->pid;
	h->pid = 0;
	h->sock = -1;
	h->state = HEIR_NONE;
	if (!h->former)
		askers_answer(&h->asker, h->successor, "");
}

void heir_reaped(struct heir *h, pid_t pid, int status)
{
	if (pid == h->pid && h->state != HEIR_NONE) {
		h->pid = 0; /* that it is over is heard by its socket */
		h->status = status;
	}
	if (pid != h->former)
		return;
	askers_answer(&h->asker, h->successor, "");
	h->former = 0;
}

void heir_leave(const struct heir *h)
{
	const int fds[] = {h->asker, h->sock, h->conf, h->program};

	askers_leave(&h->askers);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}
