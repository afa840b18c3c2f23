/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a machine that runs. See qemu_point.h. */
#include "qemu_point.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "vm/base/arch.h"
#include "vm/base/context.h"
#include "vm/base/log.h"
#include "vm/base/memory.h"
#include "vm/base/util.h"
#include "vm/order/order.h"
#include "vm/task/ram_copy.h"

/*
 * Theory of operation
 * -------------------
 *	QEMU			   daemon		    copier (task/ram_copy.c)
 *	gpa2hva <------------------ begin
 *	  its memory's address ---> starts --------------->
 *		     `ready` <----- <--------------------- READY
 *		     copy --------->
 *	add-fd, stop,
 *	xen-save-devices-state <--
 *	  stopped ----------------> ----------------------> GO
 *	  devices are written ---->  <--------------------- COPIED
 *	cont, remove-fd <----------
 *	  runs ----- `runs` <------ ----------------------> SAVED
 *				     <--------------------- its end
 *
 * xen-save-devices-state writes what a migration has of all devices and nothing of the memory; it needs no Xen. QEMU could
 * migrate the memory itself, but it would write all of it, also what is as in the base.
 *
 * Whoever wants user code to stand still meanwhile stops it between `ready` and the copy, and lets it go on from `runs`
 * on: what comes before and behind takes several times as long, of a machine that has much memory of its own.
 *
 * Whatever fails, a machine that was stopped is told to go on, and `done` comes when nothing is on its way any more: no
 * answer of one attempt is mistaken for one of the next.
 */

#define FDSET	 9 /* lower numbers are those of disks */
#define LIMIT_MS 20000u

/* ---- the end ---- */

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_files(struct qemu_point *p)
{
	close_one(&p->talk);
	close_one(&p->stream);
	close_one(&p->devices);
	if (p->whole)
		close_one(&p->base);
}

static void over(struct qemu_point *p)
{
	if (p->err == 0)
		p->err = memory_seal(p->stream);
	if (p->err == 0 && p->whole)
		p->err = memory_seal(p->base);
	if (p->err < 0)
		drop_files(p);
	close_one(&p->talk);
	close_one(&p->devices);
	p->active = false;
	p->done(p, p->err);
}

static void on_timer_closed(uv_handle_t *handle)
{
	over(handle->data);
}

static void part_gone(struct qemu_point *p)
{
	if (--p->nopen == 0)
		uv_close((uv_handle_t *)&p->limit, on_timer_closed);
}

/* ---- commands ---- */

static int execute(struct qemu_point *p, const char *command, json_t *args, qmp_reply_fn fn)
{
	int r = qmp_execute(p->qmp, command, args, fn, p);

	p->nopen += r == 0;
	return r;
}

static void fail(struct qemu_point *p, int err);

/* Return: whether all is well. */
static bool reply_ok(struct qemu_point *p, const char *what, const char *error)
{
	if (error && !p->err) {
		log_trace(p->label, "backend", "%s: %s", what, error);
		fail(p, -EIO);
	}
	return !error && !p->err;
}

static void on_any(void *data, json_t *ret, const char *error)
{
	(void)ret;
	(void)reply_ok(data, "copying", error);
	part_gone(data);
}

static int say(struct qemu_point *p, int32_t word)
{
	if (p->words.open &&
	    send(p->words.fd, &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(word))
		return 0;
	return -EPIPE;
}

static void on_running(void *data, json_t *ret, const char *error)
{
	struct qemu_point *p = data;

	(void)ret;
	if (reply_ok(p, "going on", error)) {
		log_trace(p->label, "backend", "stood still for %" PRIu64 " us",
			  (uv_hrtime() - p->stopped_at) / 1000);
		if (say(p, RAM_COPY_SAVED) < 0)
			fail(p, -EPIPE);
		else
			p->runs(p);
	}
	part_gone(p);
}

void qemu_point_forget(struct qmp *qmp)
{
	(void)qmp_execute(qmp, "remove-fd", json_pack("{s:i}", "fdset-id", FDSET), NULL, NULL);
}

/* It goes on, whatever becomes of the copy. */
static void go_on(struct qemu_point *p)
{
	if (!p->stopping)
		return;
	p->stopping = false;
	if (execute(p, "cont", NULL, on_running) < 0)
		fail(p, -EPIPE);
	qemu_point_forget(p->qmp);
}

static void fail(struct qemu_point *p, int err)
{
	if (p->err)
		return;
	p->err = err;
	go_on(p);
	child_kill(&p->copier);
	reader_close(&p->words);
}

/* One half is there: is the other, too? */
static void advance(struct qemu_point *p)
{
	if (p->copied && p->saved)
		go_on(p);
}

static void on_stopped(void *data, json_t *ret, const char *error)
{
	struct qemu_point *p = data;

	(void)ret;
	if (reply_ok(p, "stopping", error) && say(p, RAM_COPY_GO) < 0)
		fail(p, -EPIPE);
	part_gone(p);
}

static void on_saved(void *data, json_t *ret, const char *error)
{
	struct qemu_point *p = data;

	(void)ret;
	if (reply_ok(p, "saving the devices", error)) {
		p->saved = true;
		advance(p);
	}
	part_gone(p);
}

/* Everything is prepared. QEMU takes one command after the other. */
static void stop(struct qemu_point *p)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	int r;

	/* What it opens by that name has to be open in the same way. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->devices);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : qmp_add_fd(p->qmp, FDSET, fd, on_any, p);
	p->nopen += r == 0;
	p->stopped_at = uv_hrtime();
	if (r == 0) {
		p->stopping = true;
		r = execute(p, "stop", NULL, on_stopped);
	}
	if (r == 0)
		r = execute(p, "xen-save-devices-state",
			    json_pack("{s:s, s:b}", "filename", "/dev/fdset/9", "live", 0),
			    on_saved);
	if (r < 0)
		fail(p, r);
}

/* ---- the copier ---- */

static void on_words(struct reader *r, const void *bytes, size_t len)
{
	struct qemu_point *p = r->data;
	const int32_t *word = bytes;

	for (size_t i = 0; !p->err && i < len / sizeof(*word); i++) {
		if (word[i] == RAM_COPY_READY && !p->is_ready) {
			p->is_ready = true;
			p->ready(p);
		} else if (word[i] == RAM_COPY_COPIED && p->stopped_at) {
			p->copied = true;
			advance(p);
		} else {
			fail(p, word[i] < 0 && word[i] > -4096 ? word[i] : -EPROTO);
		}
	}
}

static void on_words_closed(struct reader *r)
{
	part_gone(r->data);
}

static void on_copier_failed(struct child *c, int err, const char *step)
{
	struct qemu_point *p = c->data;

	log_trace(p->label, "backend", "its memory is not copied: %s: %s", step, strerror(-err));
	fail(p, err);
	part_gone(p);
}

static void on_copier_exited(struct child *c, int status)
{
	struct qemu_point *p = c->data;

	if (p->words.open)
		reader_drain(&p->words);
	if (status)
		fail(p, -EIO);
	reader_close(&p->words);
	part_gone(p);
}

static int start_copier(struct qemu_point *p, uint64_t address)
{
	const struct order order = {.program = ORDER_POINT,
				    .point = {.machine = p->machine,
					      .memory_mb = p->memory_mb,
					      .whole = p->whole,
					      .address = address}};
	const int fds[] = {p->talk, p->stream, p->devices, p->base};
	const struct spawn_spec s = {&order, sizeof(order), fds, p->whole ? 4 : 3};
	int r;

	p->copier = (struct child){.data = p,
				   .label = p->label,
				   .failed = on_copier_failed,
				   .exited = on_copier_exited};
	r = child_start(p->ctx->spawner, &s, &p->copier);
	p->nopen += r == 0;
	close_one(&p->talk);
	return r;
}

/* "Host virtual address for 0x0 (ram) is 0x7f5a40000000" */
static void on_address(void *data, json_t *ret, const char *error)
{
	struct qemu_point *p = data;
	const char *text = json_string_value(ret), *at = text ? strstr(text, ") is 0x") : NULL;
	uint64_t address = at ? strtoull(at + strlen(") is "), NULL, 16) : 0;

	if (reply_ok(p, "finding its memory", error)) {
		int r = address ? start_copier(p, address) : -EPROTO;

		if (r < 0)
			fail(p, r);
	}
	part_gone(p);
}

/* ---- beginning ---- */

static void on_limit(uv_timer_t *timer)
{
	fail(timer->data, -ETIMEDOUT);
}

static int open_files(struct qemu_point *p, int *ret_talk)
{
	int pair[2];

	p->stream = memory_new("xsbx-point");
	p->devices = memory_new("xsbx-devices");
	if (p->whole)
		p->base = memory_new("xsbx-ram");
	if (p->stream < 0 || p->devices < 0 || (p->whole && p->base < 0))
		return -EMFILE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	p->talk = pair[1];
	*ret_talk = pair[0];
	return 0;
}

/* From now on there is a `done`. */
static void begin_limit(struct qemu_point *p)
{
	p->active = true;
	p->nopen = 1; /* the reader */
	p->limit.data = p;
	uv_timer_init(p->ctx->loop, &p->limit);
	uv_timer_start(&p->limit, on_limit, LIMIT_MS, 0);
}

int qemu_point_begin(struct qemu_point *p)
{
	int talk = -1, r;

	p->whole = p->base < 0;
	p->talk = -1;
	r = open_files(p, &talk);
	p->words = (struct reader){.data = p, .bytes = on_words, .closed = on_words_closed};
	if (r == 0)
		r = reader_open(&p->words, p->ctx->loop, talk);
	if (r == 0)
		begin_limit(p);
	if (r == 0)
		r = execute(p, "human-monitor-command",
			    json_pack("{s:s}", "command-line", "gpa2hva " ARCH_RAM), on_address);
	if (r < 0 && p->active)
		fail(p, r);
	if (p->active)
		return 0;
	drop_files(p);
	return r;
}

void qemu_point_copy(struct qemu_point *p)
{
	assert(p->is_ready && !p->stopped_at);
	if (p->err) /* and `done` is on its way */
		return;
	uv_timer_start(&p->limit, on_limit, LIMIT_MS, 0);
	stop(p);
}

void qemu_point_cancel(struct qemu_point *p)
{
	if (p->active)
		fail(p, -ECANCELED);
}
