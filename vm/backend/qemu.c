/* SPDX-License-Identifier: Apache-2.0 */
/* The microVM backend: a QEMU process per sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "backend.h"
#include "vm/spawn/order.h"
#include "qemu_argv.h"
#include "qemu_internal.h"
#include "qemu_point.h"
#include "qmp.h"
#include "vm/base/reader.h"
#include "vm/checkpoint/point.h"
#include "vm/image/layer.h"
#include "vm/spawn/child.h"
#include "vm/base/lines.h"
#include "vm/base/problem.h"

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
 * A machine is saved by a migration to a file, of everything except its memory, which is a file
 * already. A clone is a machine that maps this memory privately and reads the migration. Its
 * commands are queued in the control socket before it starts, which saves round trips; the opening
 * of the agent's port is reported by the same event as after a boot.
 *
 * A clone that stands by is such a machine without the last command: QEMU is linked, jailed and has made its devices,
 * which is half of the time of a start, and waits.
 *
 * Machines contain nothing that needs an orderly shutdown: they are killed. They run in a jail, see qemu_jail.c.
 */

#define QEMU_OVERHEAD_MB 110 /* translation buffer, heap, libraries */

static void close_files(const struct backend *b)
{
	const int fds[] = {b->state, b->card, b->ram, b->disk};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct backend *qemu_new(struct backends *all, const struct backend_events *events, void *data)
{
	struct backend *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->all = all;
	b->events = events;
	b->data = data;
	b->state = b->card = b->ram = b->disk = -1;
	return b;
}

void qemu_free(struct backend *b)
{
	close_files(b);
	free(b);
}

static void part_gone(struct backend *b)
{
	if (--b->nopen)
		return;
	b->events->destroyed(b->data);
	qemu_free(b);
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

static void tell_down(struct backend *b, const struct problem *p)
{
	if (b->told_down)
		return;
	b->told_down = true;
	b->events->down(b->data, p);
}

/* Commands have no answer because QEMU has ended. That is known here first; its end will say why. */
static bool is_ending(const struct backend *b)
{
	return b->qmp.reader.ended;
}

static void tell_saved(struct backend *b, const char *error)
{
	const backend_saved_fn fn = b->saved;

	if (error && is_ending(b))
		return;
	b->saved = NULL;
	if (fn && !b->destroying)
		fn(b->data, error);
}

static void on_why(void *data, json_t *ret, const char *error)
{
	const char *words = json_string_value(json_object_get(ret, "error-desc"));

	tell_saved(data, words ? words : error ? error : "QEMU gives no reason");
}

/* Of a migration in either direction. */
static void on_migration(struct backend *b, const char *status)
{
	if (strcmp(status, "completed") == 0)
		tell_saved(b, NULL);
	else if (strcmp(status, "failed") == 0 && b->saved &&
		 qmp_execute(&b->qmp, "query-migrate", NULL, on_why, b) < 0)
		tell_saved(b, "QEMU gives no reason");
}

static void on_event(void *data, const char *name, json_t *details)
{
	struct backend *b = data;
	const char *id = json_string_value(json_object_get(details, "id"));
	const char *status = json_string_value(json_object_get(details, "status"));
	const char *reason = json_string_value(json_object_get(details, "reason"));

	if (strcmp(name, "MIGRATION") == 0 && status)
		log_trace(b->child.label, "backend", "migration: %s", status);
	if (!b->destroying && strcmp(name, "MIGRATION") == 0 && status)
		on_migration(b, status);
	if (strcmp(name, "SHUTDOWN") == 0 && reason)
		b->reset = strcmp(reason, "guest-reset") == 0;

	if (b->destroying || strcmp(name, "VSERPORT_CHANGE") != 0 || !id ||
	    strcmp(id, QEMU_AGENT_ID) != 0)
		return;
	log_trace(b->child.label, "backend", "the agent's port is %s",
		  json_is_true(json_object_get(details, "open")) ? "open" : "closed");
	if (json_is_true(json_object_get(details, "open")))
		b->events->up(b->data);
	else
		b->events->hangup(b->data);
}

/* Without control there is still the agent; if QEMU is gone, its end says so. */
static void on_control_lost(void *data, int err)
{
	const struct backend *b = data;

	log_trace(b->child.label, "backend", "its control connection ended: %s",
		  err ? strerror(-err) : "end of file");
}

static void on_control_closed(void *data)
{
	part_gone(data);
}

static const struct qmp_events control_events = {on_event, on_control_lost, on_control_closed};

/* ---- its process ---- */

static void child_over(struct backend *b, struct problem *p)
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
		problem_add(p, "; it said: %s", tail_quote(&b->said, NULL, quote, sizeof(quote)));
	tell_down(b, p);
}

static void on_started(struct child *c)
{
	struct backend *b = c->data;

	log_trace(c->label, "backend", "QEMU runs, process %d", (int)c->pid);
	b->all->jail_seen[VM_MICROVM] = true;
	b->all->jail[VM_MICROVM] = c->report;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct problem p;

	problem_set(&p, PROBLEM_QEMU_FAILED, "xsbxfs --check shows whether QEMU is usable.",
		    "QEMU was not started: %s: %s", step, strerror(-err));
	child_over(c->data, &p);
}

static void on_exited(struct child *c, int status)
{
	struct backend *b = c->data;
	const double seconds = (double)(uv_now(b->all->ctx->loop) - b->started_at) / 1000;
	struct problem p;

	if (b->qmp.reader.open)
		reader_drain(&b->qmp.reader);
	if (c->oom_kills > c->stats.oom_noted && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		problem_set(&p, PROBLEM_OUT_OF_MEMORY,
			    "Reset the session; see what else uses the host's memory.",
			    "the host had no memory for QEMU, and killed it after %.1f s", seconds);
	else if (WIFSIGNALED(status))
		problem_set(&p, PROBLEM_QEMU_KILLED,
			    "Reset the session; look for a lack of memory.",
			    "QEMU was killed by signal %d (%s) after %.1f s", WTERMSIG(status),
			    strsignal(WTERMSIG(status)), seconds);
	else if (WEXITSTATUS(status))
		problem_set(&p, PROBLEM_QEMU_EXITED, "", "QEMU ended with status %d after %.1f s",
			    WEXITSTATUS(status), seconds);
	else
		problem_set(&p, PROBLEM_MACHINE_OFF, "", "the machine %s itself%s after %.1f s",
			    b->reset ? "reset" : "switched", b->reset ? "" : " off", seconds);
	child_over(b, &p);
}

/* ---- both ends of what QEMU shares with us ---- */

/* Each is a socket pair, but `words`, a pipe; -1 where there is none. */
struct ends {
	int agent[2], console[2], control[2], words[2];
	int card[2]; /* of a machine with a network */
};

#define ENDS_NONE                                       \
	{                                               \
		{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, \
		{                                       \
			-1, -1                          \
		}                                       \
	}

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
		pair[i] = -1;
	}
}

/* Opens all; what was opened before a failure is for ends_close(). Return: 0 or -errno. */
static int ends_open(struct ends *e, bool network)
{
	int *const pairs[] = {e->agent, e->console, e->control, e->card};
	int r = 0;

	*e = (struct ends)ENDS_NONE;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(pairs) - (network ? 0 : 1); i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) < 0)
			r = -errno;
	if (r == 0 && pipe2(e->words, O_CLOEXEC) < 0)
		r = -errno;
	return r;
}

/* Closes those that nobody has taken. */
static void ends_close(struct ends *e)
{
	int *const pairs[] = {e->agent, e->console, e->control, e->words, e->card};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		close_pair(pairs[i]);
}

/* The same file once more, for reading: clones must not share an offset, and the same descriptor would.
 * Return: descriptor or -errno. */
static int open_again(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- starting ---- */

void qemu_prepare(struct backend *b, const struct log_label *label)
{
	b->child.data = b;
	b->child.label = label;
	b->child.started = on_started;
	b->child.failed = on_failed;
	b->child.exited = on_exited;
	qmp_init(&b->qmp, &control_events, b);
}

static int spawn(struct backend *b, const struct backend_spec *spec, const struct image *image,
		 const struct ends *e, int state)
{
	struct order order = {.program = ORDER_MACHINE,
			      .machine = {
				      .mode = spec->mode,
				      .flags = (b->kvm ? ORDER_KVM : 0u) |
					       (b->own_kernel ? ORDER_OWN_KERNEL : 0u) |
					       (spec->network ? ORDER_NETWORK : 0u) |
					       (spec->layer ? ORDER_PACKED : 0u) |
					       (spec->root ? ORDER_ROOT : 0u),
				      .memory_mb = spec->memory_mb,
				      .cpus = spec->cpus,
				      .tsc_khz = tsc_khz(&b->all->tsc),
			      }};
	int fds[SPAWN_FDS_MAX] = {e->words[1],	 e->control[1], e->agent[1], e->console[1],
				  image->kernel, image->initrd, b->disk};
	const int near[] = {e->words[0], e->control[0], e->agent[0], e->console[0]};
	struct spawn_spec s = {&order, sizeof(order), fds, 7, near, ARRAY_SIZE(near)};

	order_set(order.machine.name, spec->name);
	/* Behind its numbers there may be anything. */
	order_set(order.machine.version, b->all->probe.qemu);
	order.machine.version[strspn(order.machine.version, "0123456789.")] = '\0';
	if (spec->layer)
		fds[s.nfds++] = spec->layer->file;
	if (spec->mode != MACHINE_COLD) {
		fds[s.nfds++] = spec->mode == MACHINE_CLONE ? b->ram : spec->ram;
		fds[s.nfds++] = state;
	}
	if (spec->network)
		fds[s.nfds++] = e->card[1];
	qemu_prepare(b, spec->label);
	return child_start(b->all->ctx->spawner, &s, &b->child);
}

static void open_reader(struct backend *b, struct reader *r, int *fd,
			void (*bytes)(struct reader *r, const void *bytes, size_t len))
{
	r->data = b;
	r->bytes = bytes;
	r->closed = on_reader_closed;
	if (reader_open(r, b->all->ctx->loop, steal_fd(fd)) == 0)
		b->nopen++;
}

void qemu_listen(struct backend *b, int *console, int *words)
{
	if (*console >= 0)
		open_reader(b, &b->console, console, on_console);
	if (*words >= 0)
		open_reader(b, &b->words, words, on_words);
}

/* Takes our ends but the agent's. */
static void listen_to(struct backend *b, struct ends *e)
{
	qemu_listen(b, &e->console[0], &e->words[0]);
	qmp_open(&b->qmp, b->all->ctx->loop, steal_fd(&e->control[0]));
	if (b->qmp.reader.open)
		b->nopen++;
}

/* ---- copies ---- */

/* Before 8.2 there is no file:, after 10 no fd: for files. */
static bool has_file_uri(const struct backends *all)
{
	return qemu_at_least(all->probe.qemu, 8, 2);
}

static int set_capabilities(struct backend *b, qmp_reply_fn fn)
{
	json_t *args =
		json_pack("{s:[{s:s, s:b}, {s:s, s:b}]}", "capabilities", "capability",
			  "x-ignore-shared", "state", !b->copy, "capability", "events", "state", 1);

	return args ? qmp_execute(&b->qmp, "migrate-set-capabilities", args, fn, b) : -ENOMEM;
}

/* @fd is what fd: calls the file with the state. */
static int migrate(struct backend *b, const char *command, const char *fd, qmp_reply_fn fn)
{
	char uri[64];
	json_t *args;

	if (has_file_uri(b->all))
		snprintf(uri, sizeof(uri), "file:/proc/self/fd/%d", QEMU_FD_STATE);
	else
		snprintf(uri, sizeof(uri), "fd:%s", fd);
	args = json_pack("{s:s}", "uri", uri);

	return args ? qmp_execute(&b->qmp, command, args, fn, b) : -ENOMEM;
}

static void on_clone_reply(void *data, json_t *ret, const char *error)
{
	struct backend *b = data;
	struct problem p;

	(void)ret;
	if (!error || b->destroying || b->child_gone || is_ending(b))
		return;
	problem_set(&p, b->copy ? PROBLEM_NOT_RESTORED : PROBLEM_CLONE_FAILED, "",
		    "the %s can't be restored: %s", b->copy ? "saved memory" : "snapshot", error);
	tell_down(b, &p);
}

/* If it can't be asked, the agent never answers, and waiting for that is spared. */
static void qemu_restore(struct backend *b)
{
	char number[16];

	log_trace(b->child.label, "backend", "restores its memory");
	snprintf(number, sizeof(number), "%d", QEMU_FD_STATE);
	if (migrate(b, "migrate-incoming", number, on_clone_reply) < 0)
		child_kill(&b->child);
}

static void on_save_reply(void *data, json_t *ret, const char *error)
{
	(void)ret;
	if (error)
		tell_saved(data, error);
}

static int qemu_save(struct backend *b, backend_saved_fn fn)
{
	int r;

	b->saved = fn;
	r = set_capabilities(b, on_save_reply);
	/* What comes in may be called by its number, what goes out only by a name. */
	if (r == 0 && !has_file_uri(b->all))
		r = qmp_give(&b->qmp, "state", b->state, on_save_reply, b);
	if (r == 0)
		r = migrate(b, "migrate", "state", on_save_reply);
	if (r < 0)
		b->saved = NULL;
	return r;
}

/* ---- standing still ---- */

/* QEMU does one command after the other. So each stop is answered before what was asked after it is done. */

static void on_stop_reply(void *data, json_t *ret, const char *error)
{
	struct backend *b = data;

	(void)ret;
	if (!b->destroying && !is_ending(b))
		b->stopped(b->data, error);
}

static void on_cont_reply(void *data, json_t *ret, const char *error)
{
	struct backend *b = data;

	(void)ret;
	if (error && !b->destroying && !is_ending(b))
		b->went_on(b->data, error);
}

static int qemu_stop(struct backend *b, backend_still_fn fn)
{
	const int r = qmp_execute(&b->qmp, "stop", NULL, on_stop_reply, b);

	b->stopped = fn;
	b->stops += r == 0;
	return r;
}

static int qemu_cont(struct backend *b, backend_still_fn fn)
{
	int r = 0;

	b->went_on = fn;
	if (--b->stops == 0)
		r = qmp_execute(&b->qmp, "cont", NULL, on_cont_reply, b);
	return r < 0 && is_ending(b) ? 0 : r;
}

/* ---- points ---- */

static void on_pointed(struct qemu_point *q, int err)
{
	struct backend *b = container_of(q, struct backend, point);
	struct point *p = steal_ptr(b->to);
	struct stat st;

	if (err == 0) {
		p->stream = q->stream;
		p->base = q->whole ? q->base : fcntl(b->ram, F_DUPFD_CLOEXEC, 3);
		p->disk = fcntl(b->disk, F_DUPFD_CLOEXEC, 3);
		p->kvm = b->kvm;
		p->own_kernel = b->own_kernel;
		p->tsc_khz = tsc_khz(&b->all->tsc);
		for (int i = 0; i < (q->whole ? 2 : 1); i++)
			if (fstat(i ? p->base : p->stream, &st) == 0)
				p->bytes += (uint64_t)st.st_blocks * 512;
		if (p->base < 0 || p->disk < 0)
			err = -EMFILE;
	}
	if (!b->destroying)
		b->pointed(b->data, err);
	part_gone(b);
}

static int qemu_point(struct backend *b, struct point *p, void (*fn)(void *data, int err))
{
	int r;

	if (b->point.active || b->destroying || b->child_gone)
		return -EBUSY;
	b->point = (struct qemu_point){.ctx = b->all->ctx,
				       .qmp = &b->qmp,
				       .machine = b->child.id,
				       .memory_mb = b->memory_mb,
				       .base = b->ram,
				       .label = b->child.label,
				       .done = on_pointed};
	r = qemu_point_begin(&b->point);
	if (r < 0)
		return r;
	b->to = p;
	b->pointed = fn;
	b->nopen++;
	return 0;
}

/* ---- a machine's life ---- */

/* Takes hold of what it is made of, which its spec only lends. Return: 0 or -errno. */
static int take_files(struct backend *b, const struct backend_spec *spec, const struct image *image)
{
	const struct point *p = spec->point;

	b->copy = p;
	b->memory_mb = spec->memory_mb;
	b->own_kernel = p ? p->own_kernel : image->own;
	b->disk = fcntl(p ? p->disk : image->rootfs, F_DUPFD_CLOEXEC, 3);
	if (b->disk >= 0 && spec->mode == MACHINE_CLONE)
		b->ram = fcntl(p ? p->base : spec->ram, F_DUPFD_CLOEXEC, 3);
	if (b->disk < 0 || (spec->mode == MACHINE_CLONE && b->ram < 0))
		return -errno;
	return p && p->kvm != b->kvm ? -ENOTSUP : 0;
}

static int begin(struct backend *b, const struct backend_spec *spec, int *ret_stream,
		 struct problem *ret_problem)
{
	_cleanup_close_ int state = -1;
	struct ends e;
	struct image image;
	const char *why;
	int r = images_open(b->all->images, spec->image, &image, &why);

	if (r < 0) {
		problem_set(ret_problem, r == -ENOEXEC ? PROBLEM_NO_AGENT : PROBLEM_NO_IMAGE,
			    r == -ENOEXEC ? "Build the agent (make), or set `agent` to it."
					  : "Build the images: scripts/images",
			    "%s", why);
		return r;
	}
	r = take_files(b, spec, &image);
	if (r == -ENOTSUP) {
		problem_set(ret_problem, PROBLEM_NOT_RESTORED, "",
			    "it was saved with %s, and machines run with %s now",
			    spec->point->kvm ? "KVM" : "emulation", b->kvm ? "KVM" : "emulation");
		return r;
	}
	e = (struct ends)ENDS_NONE;
	if (r == 0)
		r = ends_open(&e, spec->network);
	if (r == 0 && spec->mode != MACHINE_COLD)
		r = state = spec->point			  ? open_again(spec->point->stream)
			    : spec->mode == MACHINE_CLONE ? open_again(spec->state)
							  : fcntl(spec->state, F_DUPFD_CLOEXEC, 3);
	if (r >= 0)
		r = spawn(b, spec, &image, &e, state);
	if (r < 0) {
		ends_close(&e);
		problem_set(ret_problem, r == -EPIPE ? PROBLEM_SPAWNER_LOST : PROBLEM_NO_RESOURCES,
			    r == -EPIPE ? "Unmount, and mount again." : "",
			    "QEMU can't be started: %s", strerror(-r));
		ret_problem->logged = r == -EPIPE; /* by the owner of the spawner */
		return r;
	}
	b->nopen = 1;
	b->started_at = uv_now(b->all->ctx->loop);
	listen_to(b, &e);
	if (spec->mode == MACHINE_CLONE && set_capabilities(b, on_clone_reply) < 0)
		child_kill(&b->child);
	else if (spec->mode == MACHINE_CLONE && !spec->standby)
		qemu_restore(b);
	*ret_stream = steal_fd(&e.agent[0]);
	b->card = steal_fd(&e.card[0]);
	ends_close(&e);
	if (spec->mode == MACHINE_RECORD)
		b->state = steal_fd(&state);
	return 0;
}

static int qemu_start(struct backends *all, const struct backend_spec *spec,
		      const struct backend_events *events, void *data, struct backend **ret_backend,
		      int *ret_stream, struct problem *ret_problem)
{
	struct backend *b;
	int r;

	if (all->probe.fatal) {
		*ret_problem = all->probe.problem;
		return -ENOTSUP;
	}
	b = qemu_new(all, events, data);
	if (!b) {
		problem_set(ret_problem, PROBLEM_NO_MEMORY, "", "there is no memory for a sandbox");
		return -ENOMEM;
	}
	b->kvm = strcmp(all->probe.accel, "kvm") == 0;
	r = begin(b, spec, ret_stream, ret_problem);
	if (r < 0) {
		qemu_free(b);
		return r;
	}
	*ret_backend = b;
	return 0;
}

static void qemu_destroy(struct backend *b)
{
	b->destroying = true;
	qemu_point_cancel(&b->point);
	child_kill(&b->child);
	reader_close(&b->console);
	reader_close(&b->words);
	qmp_close(&b->qmp);
	if (b->child_gone)
		part_gone(b);
}

static void qemu_info(struct backend *b, struct backend_info *ret_info)
{
	const bool runs = b->child.state == CHILD_RUNNING;

	*ret_info = (struct backend_info){
		.accel = b->kvm ? "kvm" : "tcg",
		.pid = runs ? b->child.pid : 0,
		.report = runs ? &b->child.report : NULL,
	};
}

static int qemu_take_card(struct backend *b, bool *ret_stream)
{
	*ret_stream = true;
	return b->card < 0 ? -EBUSY : steal_fd(&b->card);
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
	.save = qemu_save,
	.point = qemu_point,
	.restore = qemu_restore,
	.stop = qemu_stop,
	.cont = qemu_cont,
	.describe = qemu_describe,
	.take_card = qemu_take_card,
	.put = qemu_put,
	.take = qemu_take,
	.drain = qemu_drain,
};
