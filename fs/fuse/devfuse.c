/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE mount and its connection to the kernel: mounting, serving requests, unmounting. */
#include "devfuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "vm/base/aim.h"
#include "vm/base/blackbox.h"
#include "vm/base/log.h"
#include "vm/spawn/spawner.h"
#include "fs/config/daemon.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "devfuse_internal.h"
#include "ops.h"

#define REQUESTS_PER_TURN 64 /* of the kernel, before timers and sandboxes have their turn */
#define REQUEST_MAX	  (OPS_WRITE_MAX + 4096u) /* with its headers */
#define UNMOUNT_MS	  1000 /* the end waits no longer than this for the mount to go */

static void printf_like(2, 0) on_fuse_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_write(level <= FUSE_LOG_ERR	      ? LOG_LEVEL_ERROR
		  : level <= FUSE_LOG_WARNING ? LOG_LEVEL_WARN
					      : LOG_LEVEL_DEBUG,
		  "libfuse: %s", text);
}

/* libfuse says no more than that it failed. */
static const char *mount_trouble(const struct conf *c)
{
	const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	const int err = errno;

	if (fd >= 0)
		close(fd);
	else if (err == ENOENT || err == ENODEV || err == ENXIO)
		return "cannot mount: there is no /dev/fuse; load it with: modprobe fuse; a "
		       "container has to be given it: --device /dev/fuse";
	else if (err == EACCES || err == EPERM)
		return "cannot mount: this user may not open /dev/fuse; chmod 666 /dev/fuse is "
		       "usual; a container has to be allowed it: --device /dev/fuse";
	if (getuid() && access(c->mountpoint, W_OK) < 0)
		return "cannot mount: this user may not write to the mount point, which "
		       "fusermount3 asks for; chown gives it to him";
	if (c->allow_other && getuid())
		return "cannot mount; allow_other needs user_allow_other in /etc/fuse.conf";
	return getuid() ? "cannot mount; is fuse3 installed, and fusermount3 set-uid root?"
			: "cannot mount; is this allowed here? It takes CAP_SYS_ADMIN";
}

/* libfuse frees its copy of the mount point when it unmounts, and that is not always its
 * business. */
static void ignore_leaks(bool yes)
{
#ifdef __SANITIZE_ADDRESS__
	if (yes)
		__lsan_disable();
	else
		__lsan_enable();
#else
	(void)yes;
#endif
}

/* What libfuse says to the kernel passes here. There is one mount in a process, and libfuse tells
 * no more of it here than what the handlers are told. */
static struct devfuse *serving;

static void keep_reply(struct devfuse *d, const struct iovec *iov, int count)
{
	buf_clear(&d->init_reply);
	for (int i = 0; i < count; i++)
		(void)buf_append(&d->init_reply, iov[i].iov_base, iov[i].iov_len);
}

static ssize_t on_reply(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	const struct fuse_in_header *init = (const void *)serving->init.data;
	struct devfuse *d = serving;

	(void)userdata;
	if (out->unique && out->unique == d->current)
		d->current = 0;
	else if (out->unique)
		devfuse_drop(d, out->unique);
	if (init && out->unique == init->unique && !d->init_reply.len)
		keep_reply(d, iov, count);
	if (d->deaf || (!reply_is_at_once() && devfuse_queue(d, iov, count, out->len)))
		return (ssize_t)out->len;
	return writev(fd, iov, count);
}

static ssize_t on_receive(int fd, void *data, size_t len, void *userdata)
{
	(void)userdata;
	return read(fd, data, len);
}

static int new_session(struct devfuse *d, struct fs *fs, const struct conf *c,
		       struct spawner *spawner, const char **ret_why)
{
	char name[] = "xsbxfs", dash_o[] = "-o", options[128];
	char *argv[] = {name, dash_o, options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);

	d->fs = fs;
	d->spawner = spawner;
	serving = d;
	unanswered_init(&d->unanswered, REQUEST_MAX);
	/* noexec: what a sandbox leaves in files/ is not run on this side by mistake. */
	snprintf(options, sizeof(options), "fsname=xsbxfs,subtype=xsbxfs,nosuid,nodev,noexec%s%s",
		 owner_is_checked(fs->shown) ? ",default_permissions" : "",
		 c->allow_other ? ",allow_other" : "");
	fuse_set_log_func(on_fuse_log);
	d->se = fuse_session_new(&args, &ops, sizeof(ops), fs);
	fuse_opt_free_args(&args);
	if (!d->se) {
		*ret_why = "libfuse does not accept the mount options";
		return -EINVAL;
	}
	d->request.mem = malloc(REQUEST_MAX);
	if (!d->request.mem)
		*ret_why = "out of memory";
	return d->request.mem ? 0 : -ENOMEM;
}

static int listen_in(struct devfuse *d, int fd)
{
	static const struct fuse_custom_io io = {.writev = on_reply, .read = on_receive};

	return fuse_session_custom_io(d->se, &io, fd);
}

int devfuse_mount(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		  const char **ret_why)
{
	int r = new_session(d, fs, c, spawner, ret_why);

	if (r < 0)
		return r;
	ignore_leaks(true);
	r = fuse_session_mount(d->se, c->mountpoint);
	ignore_leaks(false);
	if (r < 0) {
		*ret_why = mount_trouble(c);
		return -EIO;
	}
	d->mounted = true;
	fs->kernel = (struct kernel *)d->se;
	*ret_why = "out of memory";
	r = listen_in(d, fuse_session_fd(d->se));
	if (r < 0)
		return r;
	*ret_why = "the spawner does not answer";
	return spawner_mounted(spawner, fuse_session_fd(d->se));
}

int devfuse_inherit(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		    int connection, const char **ret_why)
{
	int r = new_session(d, fs, c, spawner, ret_why);

	if (r == 0)
		r = listen_in(d, connection);
	return r;
}

/* fuse_session_receive_buf() without its words on standard error, where a mount goes while a
 * request is being read.
 * Return: bytes or -errno. */
static int receive(struct devfuse *d, char *mem)
{
	ssize_t n = read(fuse_session_fd(d->se), mem, REQUEST_MAX);

	if (n < 0)
		return -errno;
	if (fuse_session_exited(d->se))
		return 0;
	if (d->survives && n > 0) {
		inbox_received(&d->inbox, (size_t)n);
		d->together++;
		devfuse_news(d);
	}
	return (int)n;
}

/* Errors of one request, which was being read when the mount went, or the connection was aborted:
 * the next read says how things are. See fuse_dev_do_read() in the kernel. */
static bool is_passing(int err)
{
	return err == -EINTR || err == -ENOENT || err == -ECONNABORTED;
}

/* Unmounted, and what is there now may be somebody else's; or the connection was aborted (fusectl),
 * and what nobody serves any more is still there. That can be told now, and not later. */
static void on_disconnected(struct devfuse *d)
{
	if (!mountwatch_sees(&d->watch)) {
		d->ended(d->data, 0, "unmounted");
		return;
	}
	spawner_unmount(d->spawner);
	d->ended(d->data, 0, "the kernel's connection was aborted");
}

bool devfuse_has_answer(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

/* One that has killed two daemons is not handled by a third. */
static void refuse(struct devfuse *d, uint64_t unique)
{
	struct fuse_out_header out = {.len = sizeof(out), .error = -EIO, .unique = unique};
	struct iovec iov = {&out, sizeof(out)};

	log_error(
		"request %llu of the kernel is answered with an error: two daemons have died of it",
		(unsigned long long)unique);
	if (d->current)
		(void)on_reply(fuse_session_fd(d->se), &iov, 1, NULL);
}

/* By which the kernel knows who polls, and libfuse tells it to nobody; 0: this is no such
 * request. */
static uint64_t poll_handle(const void *mem, size_t size)
{
	const struct fuse_in_header *in = mem;
	struct fuse_poll_in poll;

	if (in->opcode != FUSE_POLL || size < sizeof(*in) + sizeof(poll))
		return 0;
	memcpy(&poll, in + 1, sizeof(poll));
	return poll.kh;
}

uint64_t devfuse_handle(struct devfuse *d, void *mem, size_t size)
{
	const struct fuse_in_header *in = mem;
	uint64_t unanswered;

	if (in->opcode == FUSE_INIT && !d->init.len)
		(void)buf_append(&d->init, mem, size);
	d->fs->kh = poll_handle(mem, size);
	d->fs->request = in->unique;
	d->current = devfuse_has_answer(in->opcode) ? in->unique : 0;
	if (blackbox_is_poison(BLACKBOX_REQUEST, in->unique)) {
		refuse(d, in->unique);
	} else {
		blackbox_at(BLACKBOX_REQUEST, in->unique);
		aim_at("request: begun, %u", in->opcode);
		fuse_session_process_buf(d->se, &(struct fuse_buf){.mem = mem, .size = size});
		d->fs->who = (struct who){.known = false};
		aim_at("request: handled, %u", in->opcode);
		blackbox_done();
	}
	unanswered = d->current;
	d->current = 0;
	return unanswered;
}

int devfuse_take(struct devfuse *d, char *mem, size_t size)
{
	const bool held = d->survives && devfuse_hold(d, mem, size);
	const uint64_t unanswered = devfuse_handle(d, mem, size);

	if (!unanswered && held)
		sheets_let_go(d->inbox.sheets, mem);
	if (!unanswered)
		return 0;
	if (!d->survives)
		return unanswered_add(&d->unanswered, unanswered, (char **)&d->request.mem, size);
	unanswered_lend(&d->unanswered, unanswered, mem, size,
			held ? UNANSWERED_ON_SHEET : UNANSWERED_LENT);
	return 0;
}

/* Nothing can be received any more. */
static void on_trouble(struct devfuse *d, int err)
{
	uv_poll_stop(&d->poll);
	if (err == 0 || err == -ENODEV)
		on_disconnected(d);
	else
		d->ended(d->data, err, strerror(-err));
}

static void on_request(uv_poll_t *handle, int status, int events)
{
	struct devfuse *d = handle->data;
	char *mem;
	int n;

	/* An unmount shows as an error of poll(2); what it is, receive says. */
	(void)events;
	for (int i = 0; i < REQUESTS_PER_TURN; i++) {
		devfuse_make_room(d);
		mem = d->survives ? inbox_begin(&d->inbox) : d->request.mem;
		n = receive(d, mem);
		if (is_passing(n) && (i + 1 < REQUESTS_PER_TURN || status == 0))
			continue;
		if (n == -EAGAIN && status == 0) {
			if (!devfuse_no_more(d))
				return;
			continue;
		}
		if (n > 0) {
			d->fs->stats.requests++;
			n = devfuse_take(d, mem, (size_t)n);
			devfuse_handled(d);
			if (n == 0)
				continue;
		}
		on_trouble(d, n);
		return;
	}
}

static bool is_busy(void *data)
{
	const struct devfuse *d = data;

	return !TAILQ_EMPTY(&d->fs->handles.open);
}

static void on_unmounted_here(void *data)
{
	const struct devfuse *d = data;

	d->ended(d->data, 0, "unmounted; copies of the mount in other namespaces end with it");
}

void devfuse_serve(struct devfuse *d)
{
	uv_poll_start(&d->poll, UV_READABLE, on_request);
}

void devfuse_pause(struct devfuse *d)
{
	uv_poll_stop(&d->poll);
}

void devfuse_attach(struct devfuse *d, uv_loop_t *loop, const char *mountpoint)
{
	const int fd = fuse_session_fd(d->se);

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	uv_poll_init(loop, &d->poll, fd);
	d->poll.data = d;
	d->watch.busy = is_busy;
	d->watch.ended = on_unmounted_here;
	d->watch.data = d;
	(void)mountwatch_start(&d->watch, loop, mountpoint);
}

void devfuse_unmount(struct devfuse *d)
{
	struct pollfd p;

	if (!d->mounted)
		return;
	d->mounted = false;
	d->fs->kernel = NULL;
	p = (struct pollfd){.fd = fuse_session_fd(d->se)};
	devfuse_leave(d);
	uv_poll_stop(&d->poll);
	uv_close((uv_handle_t *)&d->poll, NULL);
	/* If poll(2) finds an error there, it is unmounted. */
	if (poll(&p, 1, 0) == 0)
		spawner_unmount(d->spawner);
	if (mountwatch_is_covered(&d->watch))
		log_warn("%s: something else is mounted over it, and it stays, dead, below that",
			 d->watch.path);
	mountwatch_close(&d->watch);
	/* What is left for libfuse is its own memory; it must not try, as we may not. */
	if (poll(&p, 1, UNMOUNT_MS) == 1 && (p.revents & POLLERR))
		fuse_session_unmount(d->se);
}

void devfuse_free(struct devfuse *d)
{
	if (d->se)
		fuse_session_destroy(d->se);
	free(d->request.mem);
	outbox_fini(&d->outbox);
	unanswered_fini(&d->unanswered);
	buf_clear(&d->init);
	buf_clear(&d->init_reply);
	buf_clear(&d->fields);
}
