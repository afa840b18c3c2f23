/* SPDX-License-Identifier: Apache-2.0 */
/* Watches whether the mount is still visible in the daemon's mount namespace. See mountwatch.h. */
#include "mountwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/mount_table.h"
#include "vm/base/util.h"

#define AGAIN_MS 500u

bool mountwatch_sees(const struct mountwatch *w)
{
	_cleanup_free_ char *table = w->fd >= 0 ? mount_table_read(w->fd) : NULL;
	char device[MOUNT_DEVICE_MAX] = "";

	return table && mount_table_at(table, w->path, device) && strcmp(device, w->device) == 0 &&
	       mount_table_has_type(table, device, "fuse.xsbxfs");
}

bool mountwatch_is_covered(const struct mountwatch *w)
{
	_cleanup_free_ char *table = w->fd >= 0 ? mount_table_read(w->fd) : NULL;
	char device[MOUNT_DEVICE_MAX];

	return table && mount_table_has(table, w->device) &&
	       mount_table_at(table, w->path, device) && strcmp(device, w->device) != 0;
}

static void stop(struct mountwatch *w)
{
	if (!uv_is_closing((uv_handle_t *)&w->poll))
		uv_poll_stop(&w->poll);
	uv_timer_stop(&w->again);
}

static void on_again(uv_timer_t *timer)
{
	struct mountwatch *w = timer->data;

	if (w->busy(w->data))
		return;
	stop(w);
	w->ended(w->data);
}

static void look(struct mountwatch *w, const char *table)
{
	if (!w->device[0] || w->gone == !mount_table_has(table, w->device))
		return;
	/* It may come back: moved by two calls, or mounted again from a copy. */
	w->gone = !w->gone;
	if (w->gone)
		uv_timer_start(&w->again, on_again, AGAIN_MS, AGAIN_MS);
	else
		uv_timer_stop(&w->again);
}

static void read_news(struct mountwatch *w)
{
	_cleanup_free_ char *table = mount_table_read(w->fd);

	if (table)
		look(w, table);
	else
		stop(w);
}

static void on_news(uv_poll_t *poll, int status, int events)
{
	struct mountwatch *w = poll->data;

	(void)events;
	if (status < 0)
		stop(w);
	else
		read_news(w);
}

static void on_watched(uv_timer_t *timer)
{
	read_news(timer->data);
}

void mountwatch_is(struct mountwatch *w, const char *device)
{
	_cleanup_free_ char *table = w->fd >= 0 ? mount_table_read(w->fd) : NULL;

	snprintf(w->device, sizeof(w->device), "%s", device);
	if (table)
		look(w, table);
}

int mountwatch_start(struct mountwatch *w, uv_loop_t *loop, const char *path)
{
	_cleanup_close_ int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = NULL;
	int r;

	w->fd = -1;
	w->path = path;
	if (fd < 0)
		return -errno;
	table = mount_table_read(fd);
	if (!table)
		return -ENOENT;
	(void)mount_table_at(table, path, w->device);
	r = uv_poll_init(loop, &w->poll, fd);
	if (r < 0)
		return r;
	uv_timer_init(loop, &w->again);
	w->poll.data = w->again.data = w;
	w->fd = steal_fd(&fd);
	/* epoll takes what has changed until the loop first waits, and tells nobody: mounts_poll() in
	 * the kernel reports a change once, and adding a file asks it. */
	uv_timer_start(&w->again, on_watched, 1, 0);
	return uv_poll_start(&w->poll, UV_PRIORITIZED, on_news);
}

static void on_closed(uv_handle_t *handle)
{
	struct mountwatch *w = handle->data;

	close(w->fd);
	w->fd = -1;
}

void mountwatch_close(struct mountwatch *w)
{
	if (w->fd < 0 || uv_is_closing((uv_handle_t *)&w->again))
		return;
	uv_close((uv_handle_t *)&w->again, NULL);
	uv_close((uv_handle_t *)&w->poll, on_closed);
}
