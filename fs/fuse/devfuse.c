/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE mount and its connection to the kernel: mounting, serving requests, unmounting. */
#include "devfuse.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "vm/base/log.h"
#include "vm/spawn/spawner.h"
#include "fs/config/daemon.h"
#include "fs/session/fs.h"
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
	if (c->allow_other && getuid())
		return "cannot mount; allow_other needs user_allow_other in /etc/fuse.conf";
	return getuid() ? "cannot mount; is fuse3 installed, and fusermount3 set-uid root?"
			: "cannot mount; is this allowed here? It takes CAP_SYS_ADMIN";
}

/* libfuse frees its copy of the mount point when it unmounts, and that is not always its business. */
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

int devfuse_mount(struct devfuse *d, struct fs *fs, const struct conf *c, struct spawner *spawner,
		  const char **ret_why)
{
	char name[] = "xsbxfs", dash_o[] = "-o", options[128];
	char *argv[] = {name, dash_o, options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	int r;

	d->fs = fs;
	d->spawner = spawner;
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
	ignore_leaks(true);
	d->request.mem = malloc(REQUEST_MAX);
	r = d->request.mem ? fuse_session_mount(d->se, c->mountpoint) : -ENOMEM;
	ignore_leaks(false);
	if (r < 0) {
		*ret_why = mount_trouble(c);
		return -EIO;
	}
	d->mounted = true;
	fs->kernel = (struct kernel *)d->se;
	r = spawner_mounted(spawner, fuse_session_fd(d->se));
	if (r < 0)
		*ret_why = "the spawner does not answer";
	return r;
}

/* fuse_session_receive_buf() without its words on standard error, where a mount goes while a request is being read.
 * Return: bytes or -errno. */
static int receive(struct devfuse *d)
{
	ssize_t n = read(fuse_session_fd(d->se), d->request.mem, REQUEST_MAX);

	if (n < 0)
		return -errno;
	if (fuse_session_exited(d->se))
		return 0;
	d->request.size = (size_t)n;
	return (int)n;
}

/* Errors of one request, which was being read when the mount went, or the connection was aborted: the next read says
 * how things are. See fuse_dev_do_read() in the kernel. */
static bool is_passing(int err)
{
	return err == -EINTR || err == -ENOENT || err == -ECONNABORTED;
}

/* Unmounted, and what is there now may be somebody else's; or the connection was aborted (fusectl), and what nobody
 * serves any more is still there. That can be told now, and not later. */
static void on_disconnected(struct devfuse *d)
{
	if (!mountwatch_sees(&d->watch)) {
		d->ended(d->data, 0, "unmounted");
		return;
	}
	spawner_unmount(d->spawner);
	d->ended(d->data, 0, "the kernel's connection was aborted");
}

static void on_request(uv_poll_t *handle, int status, int events)
{
	struct devfuse *d = handle->data;

	/* An unmount shows as an error of poll(2); what it is, receive says. */
	(void)events;
	for (int i = 0; i < REQUESTS_PER_TURN; i++) {
		int n = receive(d);

		if (is_passing(n) && (i + 1 < REQUESTS_PER_TURN || status == 0))
			continue;
		if (n == -EAGAIN && status == 0)
			return;
		if (n <= 0) {
			uv_poll_stop(&d->poll);
			if (n == 0 || n == -ENODEV)
				on_disconnected(d);
			else
				d->ended(d->data, n, strerror(-n));
			return;
		}
		d->fs->stats.requests++;
		fuse_session_process_buf(d->se, &d->request);
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

void devfuse_serve(struct devfuse *d, uv_loop_t *loop, const char *mountpoint)
{
	const int fd = fuse_session_fd(d->se);

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	uv_poll_init(loop, &d->poll, fd);
	d->poll.data = d;
	uv_poll_start(&d->poll, UV_READABLE, on_request);
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
	uv_poll_stop(&d->poll);
	uv_close((uv_handle_t *)&d->poll, NULL);
	/* If poll(2) finds an error there, it is unmounted, and maybe somebody else's now. */
	if (poll(&p, 1, 0) == 0 && !d->watch.gone)
		spawner_unmount(d->spawner);
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
}
