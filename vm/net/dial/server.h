/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves names, connects, and binds, for a daemon that can do none of it. */
#ifndef XSBX_VM_NET_DIAL_SERVER_H
#define XSBX_VM_NET_DIAL_SERVER_H

#include <netinet/in.h>
#include <uv.h>

#define DIAL_ADDRESSES_MAX 8
#define DIAL_THREADS	   16 /* for lookups, each of which may take seconds; main.c makes as many */

struct dial_server;

union dial_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct dial_config {
	/*
	 * Answers for names that are known here: fills in addresses, and returns how many. -1: ask
	 * the system. NULL: always ask the system.
	 */
	int (*resolve)(void *data, const char *name,
		       union dial_address ret_addresses[static DIAL_ADDRESSES_MAX]);
	/* The daemon has gone, or spoke nonsense; -errno. Nothing follows; close the server. */
	void (*ended)(void *data, int err);
	void *data;
};

/* Serves at @sock, which it takes over if it succeeds. Return: 0 or -errno. */
int dial_server_new(uv_loop_t *loop, int sock, const struct dial_config *cfg,
		    struct dial_server **ret_server);

/* Gives up what it is doing; the memory is gone when the loop has nothing more to do with it. */
void dial_server_close(struct dial_server *server);

#endif
