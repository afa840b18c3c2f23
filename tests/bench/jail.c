/* SPDX-License-Identifier: Apache-2.0 */
/* What the jail adds to a start of QEMU: the same command with and without it, in turn. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture/free_rules.h"
#include "vm/backend/qemu_jail.h"
#include "vm/spawn/child.h"
#include "vm/spawn/spawner.h"
#include "vm/base/util.h"

/*
 * jail QEMU N: N starts of either kind, through the spawner as the daemon does it, of a microVM that
 * is not run. Prints `KIND-exec`, from before the request is sent until the spawner has told that the
 * program runs, and, of a jail, that it looked from outside and all walls stand; and `KIND-greeting`,
 * from the same moment until the first byte of QMP's greeting. KIND is `plain` or `jailed`; behind it
 * a number of nanoseconds, or `fail`.
 */

#define CONTROL_FD 3
#define MEMORY_MB  192u
#define LIMIT_MB   (MEMORY_MB + 160u)
#define WAIT_MS	   20000

struct start {
	struct child child;
	uint64_t begin, running;
	bool over;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void on_started(struct child *c)
{
	struct start *s = c->data;

	s->running = now();
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct start *s = c->data;

	fprintf(stderr, "%s: %s\n", step, strerror(-err));
	s->over = true;
}

static void on_exited(struct child *c, int status)
{
	struct start *s = c->data;

	(void)status;
	s->over = true;
}

static void report(const char *kind, const char *what, uint64_t begin, uint64_t end)
{
	if (end)
		printf("%s-%s %llu\n", kind, what, (unsigned long long)(end - begin));
	else
		printf("%s-%s fail\n", kind, what);
}

static int ask(struct start *s, struct spawner *sp, const struct qemu_jail *jail, bool jailed,
	       int fd)
{
	const char *const argv[] = {jail->program,
				    "-M",
				    "microvm,pit=off,pic=off,rtc=on,isa-serial=off",
				    "-accel",
				    "tcg",
				    "-m",
				    "192",
				    "-nodefaults",
				    "-no-user-config",
				    "-display",
				    "none",
				    "-S",
				    "-sandbox",
				    "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
				    "-chardev",
				    "socket,id=control,fd=3",
				    "-mon",
				    "chardev=control,mode=control",
				    NULL};
	static const char *const envp[] = {NULL};
	const struct free_job job = {.argv = argv,
				     .envp = envp,
				     .target = {{0, CONTROL_FD}},
				     .ntargets = 1,
				     .flags = SPAWN_OOM_FIRST,
				     .jail = jailed ? &jail->spec : NULL};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {request, (size_t)MAX(n, 0), &fd, 1};

	s->child = (struct child){
		.started = on_started, .failed = on_failed, .exited = on_exited, .data = s};
	s->begin = now();
	return child_start(sp, &spec, &s->child);
}

/* Return: false if it could not even be asked for. */
static bool start(uv_loop_t *loop, struct spawner *sp, const struct qemu_jail *jail, bool jailed)
{
	const char *kind = jailed ? "jailed" : "plain";
	struct start s = {0};
	struct pollfd p = {.events = POLLIN};
	uint64_t greeted = 0;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	r = ask(&s, sp, jail, jailed, pair[1]);
	close(pair[1]);
	while (r == 0 && !s.running && !s.over)
		uv_run(loop, UV_RUN_ONCE);
	p.fd = pair[0];
	if (s.running && poll(&p, 1, WAIT_MS) == 1 && recv(pair[0], &(char){0}, 1, MSG_PEEK) == 1)
		greeted = now();
	report(kind, "exec", s.begin, s.running);
	report(kind, "greeting", s.begin, greeted);
	child_kill(&s.child);
	while (r == 0 && !s.over)
		uv_run(loop, UV_RUN_ONCE);
	close(pair[0]);
	return r == 0;
}

static void on_detached(void *data)
{
	(void)data;
}

int main(int argc, char *argv[])
{
	static struct qemu_jail jail;
	struct spawner *sp;
	uv_loop_t loop;
	bool good = true;
	long n;

	if (argc != 3) {
		fputs("usage: jail QEMU N\n", stderr);
		return 2;
	}
	n = strtol(argv[2], NULL, 10);
	if (qemu_jail(argv[1], false, LIMIT_MB, 1, &jail) < 0 ||
	    spawner_start(&free_rules, &sp) < 0 || uv_loop_init(&loop) < 0 ||
	    spawner_attach(sp, &loop) < 0) {
		fputs("no QEMU, or no process to start it\n", stderr);
		return 1;
	}
	for (long i = 0; good && i < n; i++)
		good = start(&loop, sp, &jail, false) && start(&loop, sp, &jail, true);
	spawner_detach(sp, on_detached, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	spawner_stop(sp);
	return good ? 0 : 1;
}
