/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for tests: the agent as a plain process of this host, with no isolation at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "hosted.h"
#include "policy_internal.h"
#include "remove.h"
#include "trouble.h"
#include "vm_internal.h"

/*
 * Only the daemon for tests is built with this file. The agent's executable and the directory with
 * the interpreters' drivers come from the environment (XSBX_AGENT, XSBX_DRIVERS), the place of its
 * directories is a fresh one in the runtime directory, and what it prints is the console.
 */

#define PLACE "local." /* begins the name of a sandbox's directory */

struct backend {
	struct hosted hosted;
	char root[PATH_MAX];
};

static void on_gone(struct hosted *h)
{
	struct backend *b = container_of(h, struct backend, hosted);

	remove_tree(b->root);
	h->events->destroyed(h->data);
	free(b);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct vm_problem p;

	trouble_set(&p, "agent-failed", "Set XSBX_AGENT.", "the agent did not start: %s: %s", step,
		    strerror(-err));
	hosted_over(c->data, &p);
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
	hosted_over(c->data, &p);
}

int local_job(const struct policy *p, const struct order_local *o, struct spawn_job *job)
{
	static const struct spawn_target targets[] = {
		{0, HOSTED_AGENT_FD}, {1, STDOUT_FILENO}, {1, STDERR_FILENO}};
	const char *agent = getenv("XSBX_AGENT"), *lib = getenv("XSBX_DRIVERS");
	const char *path = getenv("PATH");

	policy_arg(job, agent ? agent : p->agent);
	policy_arg(job, "--local");
	policy_arg(job, policy_text(job, "%d", HOSTED_AGENT_FD));
	policy_arg(job, "--root");
	policy_arg(job, policy_text(job, "%s/" PLACE "%s", p->runtime, o->place));
	policy_arg(job, "--lib");
	policy_arg(job, lib ? lib : "/usr/lib/xsbx");
	if (o->layer[0]) {
		policy_arg(job, "--packages");
		policy_arg(job, policy_text(job, "%s/%s/tree", p->layers, o->layer));
	}
	policy_env(job, policy_text(job, "PATH=%s", path ? path : "/usr/bin:/bin"));
	memcpy(job->target, targets, sizeof(targets));
	job->ntargets = ARRAY_SIZE(targets);
	return 0;
}

static int spawn(struct hosted *h, const struct backend_spec *for_whom, int stream, int console)
{
	struct backend *b = container_of(h, struct backend, hosted);
	struct order order = {.program = ORDER_LOCAL};
	const int fds[] = {stream, console};
	const struct spawn_spec spec = {&order, sizeof(order), fds, ARRAY_SIZE(fds)};
	int r;

	h->child.started = hosted_started;
	h->child.failed = on_failed;
	h->child.exited = on_exited;
	if (!mkdtemp(b->root))
		return -errno;
	order_set(order.local.place, strrchr(b->root, '/') + sizeof(PLACE));
	if (for_whom->layer)
		order_set(order.local.layer, for_whom->layer->key);
	r = child_start(h->vm->spawner, &spec, &h->child);
	if (r < 0)
		remove_tree(b->root);
	return r;
}

static int local_start(struct vm *vm, const struct backend_spec *spec,
		       const struct backend_events *events, void *data,
		       struct backend **ret_backend, int *ret_stream,
		       struct vm_problem *ret_problem)
{
	struct backend *b = calloc(1, sizeof(*b));
	int r = -ENOMEM;

	if (b) {
		b->hosted =
			(struct hosted){.vm = vm, .events = events, .data = data, .gone = on_gone};
		snprintf(b->root, sizeof(b->root), "%s/" PLACE "XXXXXX", vm->runtime_dir);
		r = hosted_start(&b->hosted, spec, spawn, ret_stream);
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
	hosted_destroy(&b->hosted);
}

static void local_info(struct backend *b, struct backend_info *ret_info)
{
	*ret_info = (struct backend_info){.accel = "none", .pid = hosted_pid(&b->hosted)};
}

static void local_drain(struct backend *b)
{
	hosted_drain(&b->hosted);
}

const struct backend_ops backend_local = {
	.name = "local",
	.start = local_start,
	.destroy = local_destroy,
	.info = local_info,
	.drain = local_drain,
};
