/* SPDX-License-Identifier: Apache-2.0 */
/* Between server.c and dial.c. */
#ifndef XSBX_VM_NET_DIAL_SERVER_INTERNAL_H
#define XSBX_VM_NET_DIAL_SERVER_INTERNAL_H

#include "server.h"
#include "message.h"
#include "vm/base/packets.h"

struct dial;

#define DIAL_THREADS 16 /* for lookups, each of which may take seconds; main.c makes as many */

/*
 * - `threads` has for whom each lookup is that is at work; owner 0: the thread has nothing to do.
 * - `handles` counts the socket's handle and the dials; it is freed with the last one.
 */
struct dial_server {
	uv_loop_t *loop;
	struct dial_config cfg;
	struct packets packets;
	TAILQ_HEAD(dials, dial) dials;
	unsigned ndials;
	struct {
		uint32_t owner, user;
	} threads[DIAL_THREADS];
	unsigned handles;
};

void dial_server_unref(struct dial_server *server);

/**
 * dial_begin() - Begin to make a connection
 * @server: Server, which is told the outcome
 * @msg: What is asked for
 * @spared: Addresses that may be connected to although they are not public, in network order
 * @nspared: How many
 *
 * Return: 0 or -ENOMEM.
 */
int dial_begin(struct dial_server *server, const struct dial_connect *msg, const uint32_t *spared,
	       size_t nspared);

/* Nobody wants it any more; there need not be such a one. */
void dial_cancel(struct dial_server *server, uint32_t id);

void dial_end_all(struct dial_server *server);

#endif
