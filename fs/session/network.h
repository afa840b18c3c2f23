/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a session: its refusals, its ports, changes while the sandbox runs. */
#ifndef XSBX_FS_SESSION_NETWORK_H
#define XSBX_FS_SESSION_NETWORK_H

#include <stdint.h>
#include <time.h>

#include "vm/base/buf.h"
#include "vm/base/rate.h"
#include "vm/vm.h"
#include "fs/config/settings.h"

#define NETLOG_KEPT	 256		  /* newest refusals, which net/refused shows */
#define NETWORK_USED_MAX (UINT64_MAX / 4) /* no more is counted, or read from a record */

/* Limits what is told. All zeroes: nothing was told yet. */
struct netlog_rate {
	unsigned quiet; /* how many were not told since the last one that was */
	struct rate rate;
};

/* Refusals of a session. All zeroes is empty and valid. */
struct netlog {
	char **line;	/* by number modulo NETLOG_KEPT, with newlines; NULL: there was none */
	uint64_t next;	/* number of the next line */
	uint64_t total; /* refusals, including those not reported individually */
	struct timespec mtime;
	struct netlog_rate events,
		connections; /* refusals in `events`; connections in the audit log */
};

struct session;

void netlog_fini(struct netlog *log);

/* Callback `denied` of the sandbox. */
void network_denied(struct session *s, const struct sandbox_denied *what);
/* Callback `connected` of the sandbox. */
void network_connected(struct session *s, const char *name, uint16_t port);
/* What went on in the session at @ms since 1970, "run 7", "job build", with @between between them: what is told of a run may come
 * when that has ended. Return: as buf_append(). */
int network_who(const struct session *s, int64_t ms, const char *between, struct buf *out);
/* Counts what has ended to what it has used, unless that was counted when it began. */
void network_count(struct session *s, const struct sandbox_logged *what);
/* Its sandbox is about to go: the last look at what it has used. It has gone. */
void network_sample(struct session *s);
/* What it has used by now. */
struct net_budget network_used(struct session *s);
void network_gone(struct session *s);
/* Both together. */
struct net_budget network_sum(const struct net_budget *a, const struct net_budget *b);

/* Callback `ports` of the sandbox. */
void network_ports_changed(struct session *s);

/* What its network may be used for, with the settings @with, which it names. Whoever has no bytes left today reaches nothing. */
struct net_policy network_policy(const struct session *s, const struct settings *with);

/* Its allow list, likewise. Return: owned by the caller, or NULL. */
char *network_list(const struct session *s, const struct settings *with);

/**
 * network_apply() - Apply changed settings to the running sandbox
 * @s: Session with a sandbox
 * @with: Its new settings, effective if this succeeds
 *
 * Whether a port is available is known later: if not, it is removed from the settings again, and
 * the session's `error` says why.
 *
 * Return: 0; -EBUSY or -errno with nothing changed; the session's `error` says why.
 */
int network_apply(struct session *s, const struct settings *with);

/* Its sandbox is of another daemon, which may have been about to forward ports that the settings
 * have: asks for them once more. */
void network_resume(struct session *s);

/* Its ports, a line for each. */
void network_list_ports(const struct session *s, struct buf *out);

#endif
