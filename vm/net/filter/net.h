/* SPDX-License-Identifier: Apache-2.0 */
/* The state of xsbxfs-net, the network of one sandbox. */
#ifndef XSBX_VM_NET_FILTER_NET_H
#define XSBX_VM_NET_FILTER_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "alias.h"
#include "ask.h"
#include "budget.h"
#include "denied.h"
#include "flow.h"
#include "guest.h"
#include "log.h"
#include "message.h"
#include "nic.h"
#include "vm/base/egress.h"
#include "vm/base/ms.h"
#include "pollset.h"
#include "secrets.h"

/* A port of the guest to which connections to a host's socket are forwarded. */
struct forward {
	int listener; /* -1: not in use */
	int waiting;  /* a connection that the stack has not accepted yet, or -1 */
	uint16_t port;
	int place;
};

struct authority;
struct tls_kit;

struct net {
	int control;
	bool goes; /* NET_GO has come; until then another helper may be started with this card */
	struct nic nic;
	struct stack *stack;
	struct pollset set;
	struct egress egress;
	struct aliases aliases;
	struct asks asks;
	struct log log;
	struct budget budget;
	struct secrets secrets;
	struct authority
		*authority; /* from the first connection or rule that needs it: net_kit() */
	struct tls_kit *kit;
	int trust; /* the file of certificates, until the kit has read it; or -1 */
	struct denied denied;
	struct flows flows;
	struct half_open half_open;
	struct answered answered;
	struct forward forwards[NET_FORWARDS_MAX];
	time_t now; /* monotonic, at the start of the turn */
	uint64_t bytes_in, bytes_out, connections;
	struct {
		uint64_t sum; /* of the counters, as the daemon was told last */
		int64_t ms;   /* and when; monotonic */
		bool ended;   /* a connection or an answer has ended since then */
	} told;
	size_t h2_kept; /* bytes of bodies that wait in all connections with HTTP/2 */
	int failure;	/* -errno: from the connection to the daemon, while a packet was handled */
};

/* The destination of a packet of the guest. */
struct way {
	char name
		[ALLOW_NAME_MAX +
		 1]; /* or the address as text; "" for NET_REFUSER, to which all names lead that are not allowed */
	uint32_t address; /* in network order; 0: by name */
	struct prospect prospect;
};

/**
 * net_find_way() - Determine the destination of an address, and whether it is allowed
 * @net: State
 * @address: In network order
 * @port: Port
 * @ret_way: Destination; its name is set in any case
 *
 * Return: NET_OK, if something may be allowed there, or asked for; or the reason why not (enum net_reason).
 */
unsigned net_find_way(struct net *net, uint32_t address, uint16_t port, struct way *ret_way);

/* Can a connection to this port that is refused be told why? */
bool net_has_words(const struct net *net, uint16_t port);

/* What looks into TLS; NULL if out of memory. */
struct tls_kit *net_kit(struct net *net);

/* Does something need it? Then the daemon is told of its authority, once. */
void net_prepare_kit(struct net *net);

/* Tells the daemon of the authority, if there is one. Return: 0 or -errno. */
int net_tell_authority(struct net *net);

/* The time-out of poll() is to end at @until_ms at the latest, of CLOCK_MONOTONIC as @now_ms. */
void net_wake_at(int *timeout_ms, int64_t now_ms, int64_t until_ms);

/* Reports a refusal to the daemon. */
void net_deny(struct net *net, unsigned reason, const char *name, uint16_t port);

/* Sends a message to the daemon. Return: 0 or -errno. */
int net_tell(struct net *net, const void *msg, size_t len);

/* Likewise, and waits for room. */
int net_insist(struct net *net, const void *msg, size_t len);

#endif
