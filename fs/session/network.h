/* SPDX-License-Identifier: Apache-2.0 */
/* What a session keeps of its network: refusals, ports, changes while the sandbox runs. */
#ifndef XSBX_FS_SESSION_NETWORK_H
#define XSBX_FS_SESSION_NETWORK_H

#include <stdint.h>
#include <time.h>

#include "vm/base/buf.h"
#include "vm/vm.h"
#include "fs/config/settings.h"

#define NETLOG_KEPT 256 /* refusals of a session that net/denied shows */

/* Refusals of a session. All zeroes is empty and valid. */
struct netlog {
	char *line[NETLOG_KEPT]; /* by number modulo NETLOG_KEPT, with newlines */
	uint64_t next;		 /* number of the next line */
	uint64_t total;		 /* refusals, with those that were not reported one by one */
	struct timespec mtime;
	unsigned quiet;	      /* refusals since the last one that `events` has */
	unsigned left;	      /* events that may be made now */
	uint64_t refilled_ms; /* uv_now() when `left` last grew */
};

struct session;

void netlog_fini(struct netlog *log);

/* The sandbox's `denied`. */
void network_denied(struct session *s, const struct sandbox_denied *what);
/* The sandbox's `ports`. */
void network_ports_changed(struct session *s);

/**
 * network_apply() - Put changed settings into effect in the sandbox that runs
 * @s: Session with a sandbox
 * @with: Its settings from now on, if this succeeds
 *
 * Whether a port can be had is known later: if not, it goes from the settings again, and the session's
 * `error` says why.
 *
 * Return: 0; -EBUSY, -errno with the session's `error` saying why, and nothing changed.
 */
int network_apply(struct session *s, const struct settings *with);

/* Its ports, a line for each. */
void network_list_ports(const struct session *s, struct buf *out);

#endif
