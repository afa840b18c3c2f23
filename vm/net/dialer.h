/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's client of xsbxfs-dial, which makes all connections of a mount. */
#ifndef XSBX_VM_NET_DIALER_H
#define XSBX_VM_NET_DIALER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "vm/base/packets.h"

/*
 * A request. Embedded by its owner, who sets `done` and `data` and keeps it until `done` was
 * called or dialer_cancel() has returned.
 *
 * - `done` is called once, from the loop. For a connection, @result is an enum net_reason, and
 *   NET_OK comes with the socket; for a port it is 0, with the port and a listening socket, or -errno.
 *   *@fd is closed unless the callee takes it.
 */
struct dialer_request {
	TAILQ_ENTRY(dialer_request) link;
	struct dialer *dialer;
	uint32_t id; /* 0: not pending */
	bool sent, listens;
	bool insists; /* retry if @port is taken: a cancelled request may still hold it for a moment */
	uint16_t port;
	size_t len;
	void *message; /* until it is sent */
	void (*done)(struct dialer_request *rq, int result, uint16_t port, int *fd);
	void *data;
};

/*
 * Embedded by its owner, who zeroes it and sets the first group.
 *
 * - The process is started by the first request, and again after it has ended: requests that were sent
 *   to it fail then, later ones do not.
 */
struct dialer {
	uv_loop_t *loop;
	/* Starts the process. Return: our end of its socket, or -errno. */
	int (*start)(struct dialer *d);
	/* Is its view of the host outdated? If so, it is replaced as soon as it is idle. May be
	 * NULL. */
	bool (*is_stale)(struct dialer *d);
	/* Called at the end of dialer_close(). */
	void (*closed)(struct dialer *d);

	struct packets packets;
	TAILQ_HEAD(dialer_requests, dialer_request) requests;
	uint32_t last_id;
	uint64_t started_at;
	bool gave_up; /* a request for a port was cancelled while pending */
	bool in_use;  /* the socket is open, or about to be closed */
	bool closing;
};

void dialer_init(struct dialer *d, uv_loop_t *loop);

struct dialer_target {
	uint32_t owner; /* not 0; identifies the sandbox, as each gets its share of lookups */
	uint32_t user;	/* its user; likewise */
	const char *name;
	uint32_t address; /* in network order, and `name` is its text; or 0 */
	uint16_t port;
	bool anywhere;		/* not only to public addresses */
	const uint32_t *spared; /* permitted non-public addresses, in network order */
	size_t nspared;
};

/* Return: 0; -EAGAIN if the process keeps ending; -ENOMEM; `done` is only called if 0. */
int dialer_connect(struct dialer *d, struct dialer_request *rq, const struct dialer_target *to);

/* Requests a socket that listens on 127.0.0.1; @port 0: any. Return: as above. */
int dialer_listen(struct dialer *d, struct dialer_request *rq, uint16_t port);

/* Its `done` will not be called. May be called for a request that is not pending. */
void dialer_cancel(struct dialer_request *rq);

/* Ends the process; there must be no further requests. `closed` is called from the loop, or at once if
 * nothing is open. */
void dialer_close(struct dialer *d);

#endif
