/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hears of the mount. See notice.h. */
#include "notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/roster.h"
#include "vm/base/util.h"
#include "vm/spawn/herald.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

#define STATUS_MS 5000u /* a new line at the most as often */
#define LEAST_MS  50u
#define PINGS	  8u /* in systemd's time; at half of it the guard loses patience */

uint64_t notice_interval_ms(const char *watchdog_usec)
{
	const unsigned long long us = watchdog_usec ? strtoull(watchdog_usec, NULL, 10) : 0;

	if (!us || us / 1000 / PINGS > STATUS_MS)
		return STATUS_MS;
	return MAX(us / 1000 / PINGS, (uint64_t)LEAST_MS);
}

/* Appends to the line as much as there is room for. */
static void printf_like(3, 4) add(char *line, size_t size, const char *fmt, ...)
{
	const size_t len = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + len, size - len, fmt, ap);
	va_end(ap);
}

static bool is_being_made(struct fs *fs, size_t i)
{
	struct vm_image_status st;

	/* Templates have images in common. */
	for (size_t k = 0; k < i; k++) {
		if (strcmp(fs->conf->template[k].settings.spec.image,
			   fs->conf->template[i].settings.spec.image) == 0)
			return false;
	}
	vm_image_status(fs->vm, fs->conf->template[i].settings.spec.image, &st);
	return strcmp(st.state, "building") == 0;
}

static unsigned count_sessions(const struct fs *fs)
{
	unsigned n = 0;

	for (unsigned i = 0; i < fs->roster.n; i++)
		n += roster_at(&fs->roster, i) != NULL;
	return n;
}

void notice_describe(struct fs *fs, char *ret_line, size_t size)
{
	const unsigned sessions = count_sessions(fs);
	const char *separator = "; builds the image ";
	struct vm_status st;

	*ret_line = '\0';
	if (!fs->vm)
		return;
	vm_status(fs->vm, &st);
	add(ret_line, size, "%u session%s, %u with a sandbox", sessions, sessions == 1 ? "" : "s",
	    st.running);
	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		if (!is_being_made(fs, i))
			continue;
		add(ret_line, size, "%s%s", separator, fs->conf->template[i].settings.spec.image);
		separator = ", ";
	}
}

static void tell(struct notice *n)
{
	char line[NOTICE_STATUS_SIZE];

	notice_describe(n->fs, line, sizeof(line));
	if (strcmp(line, n->said) == 0 || !*line)
		return;
	memcpy(n->said, line, sizeof(line));
	spawner_herald(n->spawner, HERALD_STATUS, line);
}

static void on_timer(uv_timer_t *timer)
{
	struct notice *n = timer->data;

	spawner_herald(n->spawner, HERALD_PING, "");
	if (!n->fs->stopping)
		tell(n);
}

void notice_start(struct notice *n, uv_loop_t *loop, struct fs *fs, struct spawner *sp)
{
	const uint64_t ms = notice_interval_ms(getenv("WATCHDOG_USEC"));

	if (!fs->conf->foreground || !getenv("NOTIFY_SOCKET"))
		return;
	n->fs = fs;
	n->spawner = sp;
	n->on = true;
	uv_timer_init(loop, &n->timer);
	n->timer.data = n;
	uv_timer_start(&n->timer, on_timer, ms, ms);
	uv_unref((uv_handle_t *)&n->timer); /* it is nothing to wait for */
	spawner_herald(sp, HERALD_PING, "");
}

void notice_ready(struct notice *n)
{
	if (!n->on)
		return;
	tell(n);
	spawner_herald(n->spawner, HERALD_READY, "");
}

void notice_end(struct notice *n, const char *why)
{
	if (!n->on)
		return;
	spawner_herald(n->spawner, HERALD_END, "");
	spawner_herald(n->spawner, HERALD_STATUS, why);
}

void notice_close(struct notice *n)
{
	if (!n->on)
		return;
	n->on = false;
	uv_close((uv_handle_t *)&n->timer, NULL);
}
