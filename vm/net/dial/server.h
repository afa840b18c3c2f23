/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves names, connects, and binds, for the daemon, which can do none of these. */
#ifndef XSBX_VM_NET_DIAL_SERVER_H
#define XSBX_VM_NET_DIAL_SERVER_H

#include <netinet/in.h>
#include <uv.h>

#include "vm/base/upstream.h"

#define DIAL_ADDRESSES_MAX 8
#define DIAL_THREADS	   16 /* for lookups, which may take seconds each; main.c sets the pool to this */

struct dial_server;

union dial_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct dial_config {
	/*
	 * Resolves names that are known here: fills in addresses, and returns their number. -1: ask
	 * the system. NULL: always ask the system.
	 */
	int (*resolve)(void *data, const char *name,
		       union dial_address ret_addresses[static DIAL_ADDRESSES_MAX]);
	/* The daemon is gone, or violated the protocol; -errno. No more calls follow; close the server. */
	void (*ended)(void *data, int err);
	void *data;
	/* The proxy by which all goes out that is not spared; NULL: there is none. Outlives the server. */
	const struct upstream_proxy *upstream;
};

/* Serves requests on @sock, which it owns on success. Return: 0 or -errno. */
int dial_server_new(uv_loop_t *loop, int sock, const struct dial_config *cfg,
		    struct dial_server **ret_server);

/* Cancels everything; its memory is freed when the loop has closed its handles. */
void dial_server_close(struct dial_server *server);

#endif
