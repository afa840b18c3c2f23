/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of machines: one is saved as a snapshot, or as it runs, and another begins from that. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "qemu_argv.h"
#include "qemu_internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/point.h"

/*
 * Theory of operation
 * -------------------
 * A machine is saved by a migration to a file, of everything except its memory, which is a file
 * already. A clone is a machine that maps this memory privately and reads the migration. Its
 * commands are queued in the control socket before it starts, which saves round trips; the opening
 * of the agent's port is reported by the same event as after a boot.
 *
 * A clone that stands by is such a machine without the last command: QEMU is linked, jailed and has made its devices,
 * which is half of the time of a start, and waits.
 *
 * How one is saved that runs, and goes on, is in qemu_point.c.
 */

static void tell_saved(struct backend *b, const char *error)
{
	const backend_saved_fn fn = b->saved;

	if (error && qemu_is_ending(b))
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

void qemu_on_migration(struct backend *b, const char *status)
{
	if (strcmp(status, "completed") == 0)
		tell_saved(b, NULL);
	else if (strcmp(status, "failed") == 0 && b->saved &&
		 qmp_execute(&b->qmp, "query-migrate", NULL, on_why, b) < 0)
		tell_saved(b, "QEMU gives no reason");
}

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
	if (!error || b->destroying || b->child_gone || qemu_is_ending(b))
		return;
	problem_set(&p, b->copy ? PROBLEM_NOT_RESTORED : PROBLEM_CLONE_FAILED, "",
		    "the %s can't be restored: %s", b->copy ? "saved memory" : "snapshot", error);
	qemu_tell_down(b, &p);
}

int qemu_accept_copy(struct backend *b)
{
	return set_capabilities(b, on_clone_reply);
}

/* If it can't be asked, the agent never answers, and waiting for that is spared. */
void qemu_restore(struct backend *b)
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

int qemu_save(struct backend *b, backend_saved_fn fn)
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

/* ---- points ---- */

static void on_ready(struct qemu_point *q)
{
	struct backend *b = container_of(q, struct backend, point);

	if (!b->destroying)
		b->pointing->ready(b->data);
}

static void on_runs(struct qemu_point *q)
{
	struct backend *b = container_of(q, struct backend, point);

	if (!b->destroying)
		b->pointing->runs(b->data);
}

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
		b->pointing->pointed(b->data, err);
	qemu_part_gone(b);
}

int qemu_point(struct backend *b, struct point *p, const struct backend_point_events *events)
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
				       .ready = on_ready,
				       .runs = on_runs,
				       .done = on_pointed};
	r = qemu_point_begin(&b->point);
	if (r < 0)
		return r;
	b->to = p;
	b->pointing = events;
	b->nopen++;
	return 0;
}

void qemu_copy_now(struct backend *b)
{
	qemu_point_copy(&b->point);
}

void qemu_copy_cancel(struct backend *b)
{
	qemu_point_cancel(&b->point);
}
