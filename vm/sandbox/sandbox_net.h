/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: what it may reach, and its ports. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_SANDBOX_NET_H
#define XSBX_VM_SANDBOX_SANDBOX_NET_H

#include <stddef.h>
#include <stdint.h>

#include "vm/net/allow_check.h"

struct sandbox;
struct sandbox_port;

/**
 * sandbox_allow() - Replace the allow list, at once, also for open connections
 * @s: Sandbox, in any state
 * @text: List; empty for nothing
 * @len: Its length
 * @ret_why: Why not, for people
 *
 * Return: 0; -EINVAL or -E2BIG for what is no list, and nothing has changed; -EOPNOTSUPP for a sandbox
 * without a network; -ENETDOWN for one that has lost it; -errno.
 */
int sandbox_allow(struct sandbox *s, const char *text, size_t len, char ret_why[static VM_WHY_MAX]);

/* What is forwarded now, with the ports that the host really gave. Ports of the spec are there as soon
 * as they are bound, which is before the sandbox is READY. */
void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data);

/* The answer to sandbox_forward(): @err is 0 and @port what there is now; or it is -errno and @why is
 * the reason, for people. */
typedef void (*sandbox_forward_fn)(void *data, int err, const struct sandbox_port *port,
				   const char *why);

/**
 * sandbox_forward() - Make a port of the sandbox reachable at 127.0.0.1
 * @s: Sandbox, in any state but CLOSING
 * @guest: Its port
 * @host: Port of the host, or 0 for any that is free
 * @fn: Called once, from the loop: 0; -EADDRINUSE: somebody has that port; -EACCES: it takes
 *	privileges; -ESTALE: the sandbox went first; -errno
 * @data: Its first argument
 * @ret_why: Why not, for people
 *
 * Return: 0; -EEXIST: the sandbox's port is forwarded already; -ENOSPC: there are SANDBOX_PORTS_MAX;
 * -EINVAL: port 0; -EOPNOTSUPP: it has no network; -ENETDOWN: it has lost it; -ESTALE: it is closing; @fn is only called if 0.
 */
int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX]);

/* Ends that at once; connections stay. If sandbox_forward() has not answered yet, it does so now, with
 * -ESTALE. Return: 0 or -ENOENT. */
int sandbox_unforward(struct sandbox *s, uint16_t guest);

struct sandbox_traffic {
	uint64_t bytes_in, bytes_out; /* as the sandbox sees it */
	uint64_t connections;
	unsigned open; /* of those, now */
};

/* The last known figures of its network (asked for along with sandbox_usage()), never waits. Return: 0 or
 * -ENODATA. */
int sandbox_traffic(const struct sandbox *s, struct sandbox_traffic *ret_traffic);

#endif
