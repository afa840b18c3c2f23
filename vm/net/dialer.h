/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of xsbxfs-dial, which makes all connections of a mount. */
#ifndef XSBX_VM_NET_DIALER_H
#define XSBX_VM_NET_DIALER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "vm/base/packets.h"

/*
 * Something asked for. Embedded by its owner, who sets `done` and `data` and keeps it until `done` was
 * called or dialer_cancel() returned.
 *
 * - `done` is called once, from the loop. Of a connection @result is one of enum net_reason, and
 *   NET_OK comes with the socket; of a port it is 0, with the port and a socket that listens, or -errno.
 *   *@fd is closed if it is left there.
 */
struct dialer_request {
	TAILQ_ENTRY(dialer_request) link;
	struct dialer *dialer;
	uint32_t id; /* 0: not asked for at the moment */
	bool sent, listens;
	bool insists; /* on @port: a request that was given up may be in its way, and only for now */
	uint16_t port;
	size_t len;
	void *message; /* until it is sent */
	void (*done)(struct dialer_request *rq, int result, uint16_t port, int *fd);
	void *data;
};

/*
 * Embedded by its owner, who zeroes it and sets the first group.
 *
 * - The process is started by the first request, and again when it has ended: what had been sent to it
 *   has failed then, what comes later has not.
 */
struct dialer {
	uv_loop_t *loop;
	/* Starts the process. Return: our end of its socket, or -errno. */
	int (*start)(struct dialer *d);
	/* Is its view of the host out of date? It is then replaced as soon as it has nothing to do. May be
	 * NULL. */
	bool (*is_stale)(struct dialer *d);
	/* The answer to dialer_close(). */
	void (*closed)(struct dialer *d);

	struct packets packets;
	TAILQ_HEAD(dialer_requests, dialer_request) requests;
	uint32_t last_id;
	uint64_t started_at;
	bool gave_up; /* a port, before the answer came */
	bool in_use;  /* the socket is open, or about to be closed */
	bool closing;
};

void dialer_init(struct dialer *d, uv_loop_t *loop);

struct dialer_target {
	uint32_t owner; /* not 0; which sandbox asks: each gets its share of lookups */
	uint32_t user;	/* whose it is; likewise */
	const char *name;
	uint32_t address; /* in network order, and `name` is its text; or 0 */
	uint16_t port;
	bool anywhere;		/* also to addresses that are not public */
	const uint32_t *spared; /* also to these, in network order */
	size_t nspared;
};

/* Return: 0; -EAGAIN if the process keeps ending; -ENOMEM; `done` is only called if 0. */
int dialer_connect(struct dialer *d, struct dialer_request *rq, const struct dialer_target *to);

/* For a socket that listens at 127.0.0.1; @port 0: any. Return: as above. */
int dialer_listen(struct dialer *d, struct dialer_request *rq, uint16_t port);

/* Its `done` will not be called. Fine for one that was not asked for, or is done. */
void dialer_cancel(struct dialer_request *rq);

/* Ends the process; nobody asks for anything any more. `closed` is called from the loop, or at once if
 * nothing is open. */
void dialer_close(struct dialer *d);

#endif
