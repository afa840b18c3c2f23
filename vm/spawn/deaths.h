/* SPDX-License-Identifier: Apache-2.0 */
/* How often the daemon has died, and what is to be done about it. */
#ifndef XSBX_VM_SPAWN_DEATHS_H
#define XSBX_VM_SPAWN_DEATHS_H

#include <stdint.h>

#define DEATHS_MOST 6u /* unless the configuration says otherwise */

/*
 * Theory of operation
 * -------------------
 * One that dies is followed by another one at once. If that dies as well, it may be for the same
 * reason, and so will the next: what has killed it is among what it has inherited, or somebody does
 * it again and again. So deaths in a row are counted: each of a daemon that had not served for a
 * minute. The last but two of as many as there may be are followed after a while, in which the
 * reason may go; the last one is followed by a daemon that only puts the sessions to sleep, and
 * ends. If that dies too, nothing more is tried.
 *
 * Whoever waits for an answer waits as long as all of this takes, so the waits are few and come
 * late: what kills at once, every time, is ended by the number of deaths, and not by patience. Six
 * in a row take a bit more than six seconds then, and three of them as good as none; who sets
 * another limit moves the three waits, and who sets none has a mount that goes on for ever, and at
 * once. Who hangs on its way has died as well, as soon as it has not said for seven seconds that it
 * gets on (heir.h): six of them last less than a minute. Who says so has a minute, each of the six.
 * Who asks for the end meanwhile, by a signal or an unmount, has no wait before the next one, which
 * is told of that.
 */
struct deaths {
	unsigned most; /* in a row; 0: DEATHS_MOST */
	unsigned n;
	int64_t since; /* when the one that serves began to, in ms; 0: it has not begun */
};

enum deaths_verdict {
	DEATHS_AGAIN, /* there is to be another one, after *@ret_wait ms */
	DEATHS_LAST,  /* likewise, and it only ends the mount in good order */
	DEATHS_OVER,
};

/* A daemon serves since now. */
void deaths_serves(struct deaths *d, int64_t now);

/* It has died, or never came so far. */
enum deaths_verdict deaths_count(struct deaths *d, int64_t now, int64_t *ret_wait);

#endif
