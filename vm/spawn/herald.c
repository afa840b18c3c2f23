/* SPDX-License-Identifier: Apache-2.0 */
/* In the guard: what the daemon says of itself is passed on to systemd. See herald.h. */
#include "herald.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "vm/base/log.h"
#include "vm/base/systemd.h"

void herald_open(struct herald *h)
{
	const char *address = getenv("NOTIFY_SOCKET");

	*h = (struct herald){.fd = -1};
	if (!address || !*address)
		return;
	h->fd = systemd_connect(address);
	if (h->fd < 0)
		log_warn("$NOTIFY_SOCKET: %s", strerror(-h->fd));
	else
		h->patience_us = systemd_patience_us();
}

static void set_alarm(uint64_t us)
{
	const struct itimerval t = {.it_value = {.tv_sec = (time_t)(us / 1000000),
						 .tv_usec = (suseconds_t)(us % 1000000)}};

	(void)setitimer(ITIMER_REAL, &t, NULL);
}

void herald_stop(struct herald *h)
{
	if (h->patience_us && !h->ending)
		set_alarm(0);
	h->ending = true;
}

/* Not a byte of it is the start of another assignment: it is printable, and one line. */
static void tell_status(const struct herald *h, const char *text)
{
	char state[HERALD_STATUS_MAX + 16];

	snprintf(state, sizeof(state), "STATUS=%.*s", (int)HERALD_STATUS_MAX, text);
	(void)systemd_notify(h->fd, state);
}

void herald_hear(void *data, const char *words)
{
	struct herald *h = data;

	if (h->fd < 0)
		return;
	switch ((enum herald_word)words[0]) {
	case HERALD_READY: (void)systemd_notify(h->fd, "READY=1"); break;
	case HERALD_STATUS: tell_status(h, words + 1); break;
	case HERALD_END:
		herald_stop(h);
		(void)systemd_notify(h->fd, "STOPPING=1");
		break;
	case HERALD_PING:
		if (!h->patience_us)
			break;
		(void)systemd_notify(h->fd, "WATCHDOG=1");
		if (!h->ending)
			set_alarm(h->patience_us / 2);
		break;
	}
}
