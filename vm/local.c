/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for tests: the agent as a plain process of this host, with no isolation at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend.h"
#include "reader.h"
#include "remove.h"
#include "spawn.h"
#include "trouble.h"
#include "vm_internal.h"

/*
 * Only the daemon for tests is built with this file. The agent's executable and the directory with
 * the interpreters' drivers come from the environment (XSBX_AGENT, XSBX_DRIVERS), the place of its
 * directories is a fresh one in the runtime directory, and what it prints is the console.
 */

#define AGENT_FD 3

struct backend {
	struct vm *vm;
	const struct backend_events *events;
	void *data;
	struct child child;
	struct reader console;
	bool child_gone, destroying;
	unsigned nopen;
	char root[PATH_MAX];
};

static void part_gone(struct backend *b)
{
	if (--b->nopen)
		return;
	remove_tree(b->root);
	b->events->destroyed(b->data);
	free(b);
}

static void on_console_closed(struct reader *r)
{
	part_gone(r->data);
}

static void on_console(struct reader *r, const void *bytes, size_t len)
{
	struct backend *b = r->data;

	if (!b->destroying)
		b->events->console(b->data, bytes, len);
}

/* The child is no more; the backend goes when it is destroyed. */
static void child_over(struct backend *b, const struct vm_problem *p)
{
	b->child_gone = true;
	if (b->destroying)
		part_gone(b);
	else
		b->events->down(b->data, p);
}

static void on_started(struct child *c)
{
	struct backend *b = c->data;

	if (!b->destroying)
		b->events->up(b->data);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct vm_problem p;

	trouble_set(&p, "agent-failed", "Set XSBX_AGENT.", "the agent did not start: %s: %s", step,
		    strerror(-err));
	child_over(c->data, &p);
}

static void on_exited(struct child *c, int status)
{
	struct vm_problem p;

	if (WIFSIGNALED(status))
		trouble_set(&p, "agent-killed", "Reset the session.",
			    "the agent's process was killed by signal %d", WTERMSIG(status));
	else
		trouble_set(&p, "agent-exited", "Reset the session.",
			    "the agent's process ended with status %d", WEXITSTATUS(status));
	child_over(c->data, &p);
}

static int spawn(struct backend *b, int stream, int console)
{
	const char *agent = getenv("XSBX_AGENT"), *lib = getenv("XSBX_DRIVERS");
	const char *path = getenv("PATH");
	char number[16], path_env[4096];
	const char *const argv[] = {
		agent ? agent : b->vm->agent, "--local", number, "--root", b->root, "--lib",
		lib ? lib : "/usr/lib/xsbx",  NULL};
	const char *const envp[] = {path_env, NULL};
	const struct spawn_fd fds[] = {
		{stream, AGENT_FD}, {console, STDOUT_FILENO}, {console, STDERR_FILENO}};
	const struct spawn_spec spec = {argv, envp, fds, ARRAY_SIZE(fds), 0};

	snprintf(number, sizeof(number), "%d", AGENT_FD);
	snprintf(path_env, sizeof(path_env), "PATH=%s", path ? path : "/usr/bin:/bin");
	b->child.data = b;
	b->child.started = on_started;
	b->child.failed = on_failed;
	b->child.exited = on_exited;
	return child_start(b->vm->spawner, &spec, &b->child);
}

static int start_child(struct backend *b, int *ret_stream)
{
	_cleanup_close_ int ours = -1, theirs = -1, out = -1, in = -1;
	int pair[2], p[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	out = p[1];
	if (!mkdtemp(b->root))
		return -errno;
	r = spawn(b, theirs, out);
	if (r < 0) {
		remove_tree(b->root);
		return r;
	}
	b->nopen = 1;
	b->console.data = b;
	b->console.bytes = on_console;
	b->console.closed = on_console_closed;
	if (reader_open(&b->console, b->vm->loop, steal_fd(&in)) == 0)
		b->nopen++;
	*ret_stream = steal_fd(&ours);
	return 0;
}

static int local_start(struct vm *vm, const struct backend_spec *spec,
		       const struct backend_events *events, void *data,
		       struct backend **ret_backend, int *ret_stream,
		       struct vm_problem *ret_problem)
{
	struct backend *b = calloc(1, sizeof(*b));
	int r = -ENOMEM;

	(void)spec;
	if (b) {
		b->vm = vm;
		b->events = events;
		b->data = data;
		snprintf(b->root, sizeof(b->root), "%s/local.XXXXXX", vm->runtime_dir);
		r = start_child(b, ret_stream);
	}
	if (r < 0) {
		trouble_set(ret_problem, "agent-failed", "", "the agent can't be started: %s",
			    strerror(-r));
		free(b);
		return r;
	}
	*ret_backend = b;
	return 0;
}

static void local_destroy(struct backend *b)
{
	b->destroying = true;
	child_kill(&b->child);
	reader_close(&b->console);
	if (b->child_gone)
		part_gone(b);
}

static void local_info(const struct backend *b, struct backend_info *ret_info)
{
	*ret_info = (struct backend_info){
		.accel = "none", .pid = b->child.state == CHILD_RUNNING ? b->child.pid : 0};
}

static void local_drain(struct backend *b)
{
	if (b->console.open)
		reader_drain(&b->console);
}

const struct backend_ops backend_local = {
	.name = "local",
	.start = local_start,
	.destroy = local_destroy,
	.info = local_info,
	.drain = local_drain,
};
