/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: its allow list, and its ports. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_SANDBOX_NET_H
#define XSBX_VM_SANDBOX_SANDBOX_NET_H

#include <stddef.h>
#include <stdint.h>

#include "vm/net/allow_check.h"

struct sandbox;
struct sandbox_port;

/* The ports forwarded now, with the actual host ports. Ports of the spec are included once they are
 * bound, which is before the sandbox is READY. */
void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data);

/* The answer to sandbox_forward(): @err is 0 and @port the new forwarding; or it is -errno and @why a
 * human-readable reason. */
typedef void (*sandbox_forward_fn)(void *data, int err, const struct sandbox_port *port,
				   const char *why);

/**
 * sandbox_forward() - Make a port of the sandbox reachable at 127.0.0.1
 * @s: Sandbox, in any state but CLOSING
 * @guest: Its port
 * @host: Port of the host, or 0 for any that is free
 * @fn: Called once, from the loop: 0; -EADDRINUSE: the port is in use; -EACCES: the port needs
 *	privileges; -ESTALE: the sandbox has ended first; -errno
 * @data: Its first argument
 * @ret_why: Human-readable reason on failure
 *
 * Return: 0; -EEXIST: the sandbox's port is forwarded already; -ENOSPC: SANDBOX_PORTS_MAX is reached;
 * -EINVAL: port 0; -EOPNOTSUPP: it has no network; -ENETDOWN: its network has failed; -ESTALE: it is
 * closing. @fn is only called if 0.
 */
int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX]);

/* Stops forwarding at once; open connections stay. If sandbox_forward() has not answered yet, it does so,
 * with -ESTALE. Return: 0 or -ENOENT. */
int sandbox_unforward(struct sandbox *s, uint16_t guest);

struct sandbox_traffic {
	uint64_t bytes_in, bytes_out; /* as the sandbox sees it */
	uint64_t connections;
	uint64_t requests; /* of HTTP, that were looked into */
	unsigned open;	   /* of those, open now */
};

/* The last known traffic counters (queried along with sandbox_usage()); never blocks. Return: 0 or
 * -ENODATA. */
int sandbox_traffic(const struct sandbox *s, struct sandbox_traffic *ret_traffic);

#endif
