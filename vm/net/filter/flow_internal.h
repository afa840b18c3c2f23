/* SPDX-License-Identifier: Apache-2.0 */
/* A flow, as the files that have it in their hands know it. */
#ifndef XSBX_VM_NET_FILTER_FLOW_INTERNAL_H
#define XSBX_VM_NET_FILTER_FLOW_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "flow.h"
#include "guard.h"
#include "net.h"
#include "proxy.h"
#include "vm/base/buf.h"

enum flow_state { FLOW_CHECKING, FLOW_ASKING, FLOW_DIALING, FLOW_OPEN, FLOW_PROXIED, FLOW_DEAD };

/*
 * What is on its way from one side to the other.
 * - `kept` is at [at, cleared) what is to be written, and behind that what the guard holds.
 */
struct half {
	struct buf kept;
	size_t at, cleared;
	bool ended; /* nothing more will come */
	bool shut;  /* and the other side was told */
};

/* - `to.address` and `to.port` say where it goes if that is an address, `to.host` what it means by it. */
struct flow {
	TAILQ_ENTRY(flow) link;
	uint32_t id;
	enum flow_state state;
	int fd[2], place[2];
	struct half half[2]; /* by the side that it comes from */
	uint64_t passed[2];  /* bytes, likewise */
	bool inbound, by_alias;
	/* Since it began: what is said has to be for its name; it is to be no proxy. */
	bool guarded, no_proxy;
	bool left;	  /* leave was given for it */
	bool asked_dial;  /* the daemon is dialling for the proxy */
	unsigned refused; /* why it is, if it is to be told so */
	struct guard guard;
	struct proxy *proxy;
	struct asker asker;
	struct net *net;
	uint32_t alias; /* where the guest's packets go, in network order */
	struct destination to;
	struct verdict verdict;
	time_t since;
	int64_t began_ms, began_mono_ms;
};

/* ---- flow_life.c ---- */

/* One that has just come; it owns both descriptors. Return: NULL without memory, and they are closed. */
struct flow *flow_new(struct net *net, int guest, int host);
/* By @change more connections use the name that it was looked up by. */
void flow_count_user(struct net *net, const struct flow *f, int change);
/* It is over; or it is not let through, for @reason, and that is reported. */
void flow_kill(struct net *net, struct flow *f);
void flow_refuse(struct net *net, struct flow *f, unsigned reason);
/* Asks the daemon for a connection to where it leads. */
void flow_dial(struct net *net, struct flow *f);
/* What is to be relayed as it is may go on, once somebody has allowed it, if that is needed. */
void flow_admit(struct net *net, struct flow *f);

#endif
