/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the daemon and xsbxfs-net. */
#ifndef XSBX_VM_NET_FILTER_MESSAGE_H
#define XSBX_VM_NET_FILTER_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "vm/base/allow.h"
#include "vm/base/net_policy.h"
#include "vm/base/rules.h"
#include "vm/base/secret_use.h"

/*
 * Each message is a packet on a SOCK_SEQPACKET socket pair: a header, followed by data that depends on the
 * type. Both sides are built from the same source and run on the same machine, so these are plain structs.
 * The daemon does not trust what it reads: a message with a wrong size or type ends the helper.
 *
 *	to the helper	NET_ALLOW	a new list; its text follows the header
 *			NET_POLICY	all else that it may be used for; the four texts follow
 *			NET_TRUST	with a file of certificates, by which servers are judged
 *			NET_SECRET	a secret's name, with a pipe or file in which its value is; it replaces
 *					one of this name. Answered with NET_SECRET_READ
 *			NET_DECIDED	the answer to NET_ASKED with that `id`
 *			NET_FORWARD	`id` is the guest's port; with a listening socket
 *					(missing if out of descriptors, as in NET_DIALED)
 *			NET_UNFORWARD	`id` is the guest's port; connections stay
 *			NET_DIALED	the answer to NET_DIAL with that `id`; with a socket if NET_OK
 *			NET_ASK_STATS
 *			NET_GO		the helper may use the card: it is known that it has it
 *			NET_RESYNC	another daemon, of which what NET_GO says is true as well; the ports of
 *					the guest that it forwards follow the header: connections to others
 *					are not accepted any more. Its list, and a listening socket for each,
 *					come behind it
 *	to the daemon	NET_READY	the helper is confined and running; sent once
 *			NET_RESYNCED	the answer to NET_RESYNC with that `id`: each NET_DIAL that was not answered comes again,
 *					behind it
 *			NET_DIAL	requests a connection; `id` is new
 *			NET_HANG_UP	cancels the NET_DIAL with that `id`
 *			NET_DENIED	a connection or lookup was refused; `id` counts them, from 1, as far as they
 *					are told
 *			NET_STATS	asked for, or because something has changed; `id` is the number of requests, as far
 *					as it goes
 *			NET_AUTHORITY	the certificate of the session's authority, when there is one
 *			NET_SECRET_READ	a value has come, or not
 *			NET_ASKED	a connection or request waits for leave; `id` is new, or it is said again behind
 *					NET_RESYNCED
 *			NET_UNASKED	it waits no more
 *			NET_LOGGED	a connection or request has ended; `id` counts them, from 1, as far as they are
 *					told
 *			NET_CALLED	somebody has connected to the guest's port `id`: a machine that
 *					stands still is to go on
 */
enum net_type {
	NET_ALLOW = 1,
	NET_FORWARD,
	NET_UNFORWARD,
	NET_DIALED,
	NET_ASK_STATS,
	NET_READY,
	NET_DIAL,
	NET_HANG_UP,
	NET_DENIED,
	NET_STATS,
	NET_CALLED,
	NET_GO,
	NET_RESYNC,
	NET_RESYNCED,
	NET_POLICY,
	NET_TRUST,
	NET_SECRET,
	NET_DECIDED,
	NET_AUTHORITY,
	NET_ASKED,
	NET_UNASKED,
	NET_LOGGED,
	NET_SECRET_READ,
};

#define NET_FORWARDS_MAX 10
#define NET_MESSAGE_MAX                                                            \
	(sizeof(struct net_policy_message) + ALLOW_TEXT_MAX + 2 * RULES_TEXT_MAX + \
	 SECRET_USES_TEXT_MAX + 4)
#define NET_METHOD_MAX 24
#define NET_PATH_MAX   1024

struct net_header {
	uint32_t type, id;
};

struct net_dialed {
	struct net_header header;
	uint32_t reason; /* enum net_reason */
};

struct net_dial {
	struct net_header header;
	uint32_t address; /* in network order; 0: by name */
	uint16_t port, unused;
	char name[ALLOW_NAME_MAX + 1]; /* the address as text if there is no name */
};

struct net_denied {
	struct net_header header;
	int64_t time_ms; /* since 1970 */
	uint32_t lost;	 /* number of earlier reports that were dropped: there were too many */
	uint16_t port;	 /* 0: none */
	uint16_t reason; /* enum net_reason */
	char name[ALLOW_NAME_MAX + 1]; /* or address; printable */
};

struct net_stats {
	struct net_header header;
	uint64_t bytes_in, bytes_out; /* from the guest's point of view */
	uint64_t connections, denied, open;
};

/* Behind it: the allow list, the administrator's rules, the session's, uses of secrets, each with its zero. */
struct net_policy_message {
	struct net_header header;
	uint32_t ask, learn, ask_s, unused;
	struct net_budget most, used;
	uint64_t rate;
};

struct net_secret {
	struct net_header header;
	char name[SECRET_NAME_MAX + 4];
};

/* What has become of NET_SECRET. With anything but NET_SECRET_GOOD the value of before, if there was one, stays. */
enum net_secret_result {
	NET_SECRET_GOOD,
	NET_SECRET_EMPTY,     /* nothing came */
	NET_SECRET_SIZE,      /* too short or too long */
	NET_SECRET_CHARACTER, /* a control character, or more than a line */
	NET_SECRET_LATE,
	NET_SECRET_NO_MEMORY,
	NET_NSECRET_RESULTS
};

struct net_secret_read {
	struct net_header header;
	uint32_t result;    /* enum net_secret_result */
	uint32_t expires_s; /* as whoever made it has said; 0: not */
	char name[SECRET_NAME_MAX + 4];
};

struct net_decided {
	struct net_header header;
	uint32_t allowed;
};

struct net_authority {
	struct net_header header; /* `id`: the length of the certificate */
	uint8_t der[1024];
};

/* Texts are printable. */
struct net_asked {
	struct net_header header;
	int64_t time_ms, until_ms; /* since 1970 */
	uint32_t address;	   /* in network order, if `host` is one; else 0 */
	uint32_t rule,
		first; /* that asks, from 1; is it the administrator's? 0: nothing allows it */
	uint16_t port, unused;
	char method[NET_METHOD_MAX]; /* "": a connection */
	char scheme[8];
	char host[ALLOW_NAME_MAX + 3];
	char path[NET_PATH_MAX];
};

enum { NET_UNASKED_LATE, NET_UNASKED_GONE, NET_UNASKED_RULES, NET_NUNASKED };

struct net_unasked {
	struct net_header header;
	uint32_t why;
};

struct net_logged {
	struct net_header header;
	int64_t time_ms; /* since 1970 */
	uint64_t took_ms, bytes_in, bytes_out;
	uint32_t lost, rule, first;
	uint16_t port, status;
	uint16_t reason; /* enum net_reason */
	uint16_t refused;
	char method[NET_METHOD_MAX];
	char scheme[8], version[8];
	char secret[SECRET_NAME_MAX + 4];
	char host[ALLOW_NAME_MAX + 3];
	char path[NET_PATH_MAX];
	char pad[8];
};

struct net_resync {
	struct net_header header;
	uint16_t port[NET_FORWARDS_MAX]; /* 0: none */
};

static_assert(sizeof(struct net_policy_message) == 80, "no holes");
static_assert(sizeof(struct net_asked) == 40 + 24 + 8 + 256 + 1024, "no holes");
static_assert(sizeof(struct net_logged) == 60 + 24 + 16 + 68 + 256 + 1024 + 8, "no holes");
static_assert(sizeof(struct net_resync) == 28, "no holes");
static_assert(sizeof(struct net_dialed) == 12, "no holes");
static_assert(sizeof(struct net_stats) == 48, "no holes");
static_assert(sizeof(struct net_dial) == 16 + ALLOW_NAME_MAX + 3, "no holes but at the end");

#endif
