/* SPDX-License-Identifier: Apache-2.0 */
/* The microVM backend: a QEMU process per sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend.h"
#include "qemu_argv.h"
#include "qmp.h"
#include "reader.h"
#include "spawn.h"
#include "tail.h"
#include "trouble.h"
#include "vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * QEMU gets six descriptors and nothing else: the kernel, the initrd and the root file system to
 * read, and one end of three socket pairs, for the agent, the console, and control (QMP). What it
 * prints (it prints only when something is wrong) is kept to explain why it ended.
 *
 * Control is used to learn when the agent opens and closes its end of the port: bytes to a port
 * that is not open yet wait in the socket, so a greeting could be sent at any time, but the time of
 * day in it would be as old as the boot took.
 *
 * Nothing in a machine is worth an orderly end: it is killed.
 */

#define QEMU_OVERHEAD_MB 110 /* translation buffer, heap, libraries */

struct backend {
	struct vm *vm;
	const struct backend_events *events;
	void *data;
	struct child child;
	struct reader console, words;
	struct qmp qmp;
	struct tail said; /* on its standard output and error */
	uint64_t started_at;
	bool child_gone, destroying;
	unsigned nopen; /* the child, the readers, the control connection */
};

/* Both ends of what is shared with QEMU. */
struct qemu_ends {
	int agent[2], console[2], control[2], words[2]; /* ours, QEMU's */
};

static void part_gone(struct backend *b)
{
	if (--b->nopen)
		return;
	b->events->destroyed(b->data);
	free(b);
}

/* ---- what QEMU says ---- */

static void on_reader_closed(struct reader *r)
{
	part_gone(r->data);
}

static void on_console(struct reader *r, const void *bytes, size_t len)
{
	struct backend *b = r->data;

	if (!b->destroying)
		b->events->console(b->data, bytes, len);
}

static void on_words(struct reader *r, const void *bytes, size_t len)
{
	struct backend *b = r->data;

	tail_add(&b->said, bytes, len);
}

static void on_event(void *data, const char *name, json_t *details)
{
	struct backend *b = data;
	const char *id = json_string_value(json_object_get(details, "id"));

	if (b->destroying || strcmp(name, "VSERPORT_CHANGE") != 0 || !id ||
	    strcmp(id, QEMU_AGENT_ID) != 0)
		return;
	if (json_is_true(json_object_get(details, "open")))
		b->events->up(b->data);
	else
		b->events->hangup(b->data);
}

/* Without control there is still the agent; if QEMU is gone, its end says so. */
static void on_control_lost(void *data, int err)
{
	(void)data;
	(void)err;
}

static void on_control_closed(void *data)
{
	part_gone(data);
}

static const struct qmp_events control_events = {on_event, on_control_lost, on_control_closed};

/* ---- its process ---- */

static void child_over(struct backend *b, struct vm_problem *p)
{
	char quote[400];

	b->child_gone = true;
	if (b->destroying) {
		part_gone(b);
		return;
	}
	if (b->console.open)
		reader_drain(&b->console);
	if (b->words.open)
		reader_drain(&b->words);
	if (b->said.total)
		trouble_add(p, "; it said: %s", tail_quote(&b->said, NULL, quote, sizeof(quote)));
	b->events->down(b->data, p);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct vm_problem p;

	trouble_set(&p, "qemu-failed", "xsbxfs --check shows whether QEMU is usable.",
		    "QEMU was not started: %s: %s", step, strerror(-err));
	child_over(c->data, &p);
}

static void on_exited(struct child *c, int status)
{
	struct backend *b = c->data;
	const double seconds = (double)(uv_now(b->vm->loop) - b->started_at) / 1000;
	struct vm_problem p;

	if (WIFSIGNALED(status))
		trouble_set(&p, "qemu-killed", "Reset the session; look for a lack of memory.",
			    "QEMU was killed by signal %d (%s) after %.1f s", WTERMSIG(status),
			    strsignal(WTERMSIG(status)), seconds);
	else if (WEXITSTATUS(status))
		trouble_set(&p, "qemu-exited", "", "QEMU ended with status %d after %.1f s",
			    WEXITSTATUS(status), seconds);
	else
		trouble_set(&p, "machine-off", "", "the machine switched itself off after %.1f s",
			    seconds);
	child_over(b, &p);
}

/* ---- starting ---- */

static void close_pair(int pair[2])
{
	if (pair[0] >= 0)
		close(pair[0]);
	if (pair[1] >= 0)
		close(pair[1]);
}

static void ends_close(struct qemu_ends *e)
{
	close_pair(e->agent);
	close_pair(e->console);
	close_pair(e->control);
	close_pair(e->words);
}

static int ends_open(struct qemu_ends *e)
{
	const int type = SOCK_STREAM | SOCK_CLOEXEC;

	if (socketpair(AF_UNIX, type, 0, e->agent) < 0 ||
	    socketpair(AF_UNIX, type, 0, e->console) < 0 ||
	    socketpair(AF_UNIX, type, 0, e->control) < 0 || pipe2(e->words, O_CLOEXEC) < 0)
		return -errno;
	return 0;
}

static int spawn(struct backend *b, const struct backend_spec *spec, const struct image *image,
		 const struct qemu_ends *e)
{
	static const char *const envp[] = {"LC_ALL=C", NULL};
	const struct qemu_machine machine = {
		.qemu = b->vm->qemu,
		.name = spec->name,
		.kvm = strcmp(b->vm->probe.accel, "kvm") == 0,
		.tsc_khz = tsc_khz(&b->vm->tsc),
		.memory_mb = spec->memory_mb,
		.cpus = spec->cpus,
	};
	const struct spawn_fd fds[] = {
		{e->words[1], STDOUT_FILENO},	  {e->words[1], STDERR_FILENO},
		{e->control[1], QEMU_FD_CONTROL}, {e->agent[1], QEMU_FD_AGENT},
		{e->console[1], QEMU_FD_CONSOLE}, {image->kernel, QEMU_FD_KERNEL},
		{image->initrd, QEMU_FD_INITRD},  {image->rootfs, QEMU_FD_ROOTFS},
	};
	struct qemu_argv argv;
	const struct spawn_spec s = {argv.argv, envp, fds, ARRAY_SIZE(fds), SPAWN_OOM_FIRST};

	qemu_argv(&machine, &argv);
	b->child.data = b;
	b->child.failed = on_failed;
	b->child.exited = on_exited;
	return child_start(b->vm->spawner, &s, &b->child);
}

static void open_reader(struct backend *b, struct reader *r, int *fd,
			void (*bytes)(struct reader *r, const void *bytes, size_t len))
{
	r->data = b;
	r->bytes = bytes;
	r->closed = on_reader_closed;
	if (reader_open(r, b->vm->loop, steal_fd(fd)) == 0)
		b->nopen++;
}

/* Takes our ends but the agent's. */
static void listen_to(struct backend *b, struct qemu_ends *e)
{
	open_reader(b, &b->console, &e->console[0], on_console);
	open_reader(b, &b->words, &e->words[0], on_words);
	qmp_init(&b->qmp, &control_events, b);
	qmp_open(&b->qmp, b->vm->loop, steal_fd(&e->control[0]));
	if (b->qmp.reader.open)
		b->nopen++;
}

static int begin(struct backend *b, const struct backend_spec *spec, int *ret_stream,
		 struct vm_problem *ret_problem)
{
	struct qemu_ends e = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	struct image image;
	const char *why;
	int r = images_open(b->vm->images, spec->image, &image, &why);

	if (r < 0) {
		trouble_set(ret_problem, r == -ENOEXEC ? "no-agent" : "no-image",
			    r == -ENOEXEC ? "Build the agent (make), or set `agent` to it."
					  : "Build the images: scripts/images",
			    "%s", why);
		return r;
	}
	r = ends_open(&e);
	if (r == 0)
		r = spawn(b, spec, &image, &e);
	if (r < 0) {
		ends_close(&e);
		trouble_set(ret_problem, r == -EPIPE ? "spawner-lost" : "no-resources",
			    r == -EPIPE ? "Unmount, and mount again." : "",
			    "QEMU can't be started: %s", strerror(-r));
		return r;
	}
	b->nopen = 1;
	b->started_at = uv_now(b->vm->loop);
	listen_to(b, &e);
	*ret_stream = steal_fd(&e.agent[0]);
	ends_close(&e);
	return 0;
}

static int qemu_start(struct vm *vm, const struct backend_spec *spec,
		      const struct backend_events *events, void *data, struct backend **ret_backend,
		      int *ret_stream, struct vm_problem *ret_problem)
{
	struct backend *b;
	int r;

	if (vm->probe.fatal) {
		*ret_problem = vm->probe.problem;
		return -ENOTSUP;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		trouble_set(ret_problem, "no-memory", "", "there is no memory for a sandbox");
		return -ENOMEM;
	}
	b->vm = vm;
	b->events = events;
	b->data = data;
	r = begin(b, spec, ret_stream, ret_problem);
	if (r < 0) {
		free(b);
		return r;
	}
	*ret_backend = b;
	return 0;
}

static void qemu_destroy(struct backend *b)
{
	b->destroying = true;
	child_kill(&b->child);
	reader_close(&b->console);
	reader_close(&b->words);
	qmp_close(&b->qmp);
	if (b->child_gone)
		part_gone(b);
}

static void qemu_info(const struct backend *b, struct backend_info *ret_info)
{
	*ret_info = (struct backend_info){
		.accel = b->vm->probe.accel,
		.pid = b->child.state == CHILD_RUNNING ? b->child.pid : 0,
	};
}

static void qemu_drain(struct backend *b)
{
	if (b->console.open)
		reader_drain(&b->console);
}

const struct backend_ops backend_qemu = {
	.name = "microvm",
	.needs_image = true,
	.overhead_mb = QEMU_OVERHEAD_MB,
	.start = qemu_start,
	.destroy = qemu_destroy,
	.info = qemu_info,
	.drain = qemu_drain,
};
