/* SPDX-License-Identifier: Apache-2.0 */
/* The microVM backend: a QEMU process per sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "qemu_argv.h"
#include "qemu_internal.h"
#include "vm/base/config.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/point.h"
#include "vm/image/layer.h"
#include "vm/order/order.h"

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
 * How machines are copied is in qemu_copy.c, how they stand still in qemu_still.c.
 *
 * Machines contain nothing that needs an orderly shutdown: they are killed. They run in a jail, see qemu_jail.c.
 */

#define QEMU_OVERHEAD_MB 110 /* translation buffer, heap, libraries */

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

static void listen_to(struct backend *b, struct ends *e)
{
	qemu_listen(b, &e->console[0], &e->words[0]);
	qmp_open(&b->qmp, b->all->ctx->loop, steal_fd(&e->control[0]));
	if (b->qmp.reader.open)
		b->nopen++;
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
					  : "Build the images: " IMAGES_COMMAND,
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
	if (spec->mode == MACHINE_CLONE && qemu_accept_copy(b) < 0)
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
		qemu_part_gone(b);
}

static void qemu_info(struct backend *b, struct backend_info *ret_info)
{
	const bool runs = b->child.state == CHILD_RUNNING;

	*ret_info = (struct backend_info){
		.accel = b->kvm ? "kvm" : "tcg",
		.pid = runs ? b->child.pid : 0,
		.report = runs ? &b->child.report : NULL,
		.used_us = b->child.used_us,
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
	.point_copy = qemu_copy_now,
	.point_cancel = qemu_copy_cancel,
	.restore = qemu_restore,
	.stop = qemu_stop,
	.cont = qemu_cont,
	.describe = qemu_describe,
	.take_card = qemu_take_card,
	.put = qemu_put,
	.take = qemu_take,
	.go = qemu_go,
	.drain = qemu_drain,
};
