/* SPDX-License-Identifier: Apache-2.0 */
/* In the guard: what the daemon says of itself is passed on to systemd, and a daemon that says nothing more is ended. */
#ifndef XSBX_VM_SPAWN_HERALD_H
#define XSBX_VM_SPAWN_HERALD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * systemd knows the guard, which it has started, and believes nobody else (NotifyAccess=main). Whether the mount serves
 * only the daemon can say, which is confined, and may have been taken over by a guest: so it says one of the words below, through
 * the pipe by which its log comes, and the guard says what of it systemd is to hear. One daemon after the other has that pipe.
 *
 * The pings come from the daemon's loop. Where they stay away systemd would end the whole service, sessions and all; but a daemon
 * that hangs is no worse than one that was killed, for another one goes on. So at half of that time the guard kills it, and the next
 * one's pings come before systemd has lost patience; if they don't, there is nothing more to be saved.
 */

/* What the daemon says, behind LOG_WORD. */
enum herald_word {
	HERALD_READY = 'R',  /* it serves */
	HERALD_PING = 'P',   /* its loop turns */
	HERALD_STATUS = 'S', /* with a line of text behind it */
	HERALD_END = 'E',    /* it is about to end */
};

#define HERALD_STATUS_MAX 256u

struct herald {
	int fd;		      /* to systemd, or -1 */
	uint64_t patience_us; /* systemd's; 0: it waits for ever */
	bool ending;	      /* no daemon is ended for silence any more */
};

/* By $NOTIFY_SOCKET and so on; all of it is off where that is not set. */
void herald_open(struct herald *h);

/* For log_serve(): @data is a struct herald. SIGALRM comes if it is not called in time. */
void herald_hear(void *data, const char *words);

/* The alarm is somebody else's from now on. May be called in the handler of a signal. */
void herald_stop(struct herald *h);

#endif
