/* SPDX-License-Identifier: Apache-2.0 */
/* Watches whether the mount is still visible in the daemon's mount namespace. See mountwatch.h. */
#include "mountwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/buf.h"
#include "vm/base/util.h"

#define TABLE_MAX (8u << 20)
#define AGAIN_MS  500u

/* Writes a path as the table has it: blanks and backslashes in octal. */
static void escape(const char *path, char *out, size_t size)
{
	size_t n = 0;

	for (; *path && n + 5 < size; path++) {
		if (strchr(" \t\n\\", *path))
			n += (size_t)snprintf(out + n, size - n, "\\%03o", (unsigned char)*path);
		else
			out[n++] = *path;
	}
	out[n] = '\0';
}

/* Finds in @table the device that is mounted at @path, the topmost one; or, if that is NULL, whether there is
 * @device. */
static bool find(const char *table, const char *path, char *device, size_t size)
{
	char want[4096 * 4 + 1] = "", line_device[32];
	bool found = false;

	if (path)
		escape(path, want, sizeof(want));
	for (const char *line = table; line && *line; line = strchr(line, '\n')) {
		int device_at = 0, path_at = 0, path_end = 0;

		line += *line == '\n';
		/* Number, parent, device, root, mount point. */
		if (sscanf(line, "%*u %*u %n%31s %*s %n%*s%n", &device_at, line_device, &path_at,
			   &path_end) < 1 ||
		    !path_end)
			continue;
		if (!path) {
			if (strcmp(line_device, device) == 0)
				return true;
		} else if ((size_t)(path_end - path_at) == strlen(want) &&
			   strncmp(line + path_at, want, strlen(want)) == 0) {
			snprintf(device, size, "%s", line_device);
			found = true; /* what was mounted later lies on top */
		}
	}
	return found;
}

/* Return: text to be freed, or NULL. Reading it also makes ready for the next news. */
static char *read_table(int fd)
{
	struct buf b = {.limit = TABLE_MAX};
	char part[16384];
	ssize_t n = -1;

	if (lseek(fd, 0, SEEK_SET) == 0) {
		while ((n = read(fd, part, sizeof(part))) > 0) {
			if (buf_append(&b, part, (size_t)n) < 0) {
				n = -1;
				break;
			}
		}
	}
	if (n < 0 || buf_append(&b, "", 1) < 0) {
		buf_clear(&b);
		return NULL;
	}
	return b.data;
}

/* Has a file system with that device this type? */
static bool has_type(const char *table, const char *device, const char *type)
{
	char field[40];

	snprintf(field, sizeof(field), " %s ", device);
	for (const char *at = strstr(table, field); at; at = strstr(at + 1, field)) {
		const char *end = strchrnul(at, '\n'), *found = strstr(at, type);

		if (found && found < end)
			return true;
	}
	return false;
}

bool mountwatch_sees(const struct mountwatch *w)
{
	_cleanup_free_ char *table = w->fd >= 0 ? read_table(w->fd) : NULL;
	char device[sizeof(w->device)] = "";

	return table && find(table, w->path, device, sizeof(device)) &&
	       strcmp(device, w->device) == 0 && has_type(table, device, " - fuse.xsbxfs ");
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

static void on_news(uv_poll_t *poll, int status, int events)
{
	struct mountwatch *w = poll->data;
	_cleanup_free_ char *table = read_table(w->fd);

	(void)events;
	if (status < 0 || !table) {
		stop(w);
		return;
	}
	if (w->gone == !find(table, NULL, w->device, sizeof(w->device)))
		return;
	/* It may come back: moved by two calls, or mounted again from a copy. */
	w->gone = !w->gone;
	if (w->gone)
		uv_timer_start(&w->again, on_again, AGAIN_MS, AGAIN_MS);
	else
		uv_timer_stop(&w->again);
}

int mountwatch_start(struct mountwatch *w, uv_loop_t *loop, const char *path)
{
	_cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = NULL;
	int r;

	w->fd = -1;
	w->path = path;
	if (fd < 0)
		return -errno;
	table = read_table(fd);
	if (!table || !find(table, path, w->device, sizeof(w->device)))
		return -ENOENT;
	r = uv_poll_init(loop, &w->poll, fd);
	if (r < 0)
		return r;
	uv_timer_init(loop, &w->again);
	w->poll.data = w->again.data = w;
	w->fd = steal_fd(&fd);
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
