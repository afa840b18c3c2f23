/* SPDX-License-Identifier: Apache-2.0 */
/* Private to network.c, network_ports.c and network_record.c: the network of one sandbox. */
#ifndef XSBX_VM_SANDBOX_NETWORK_INTERNAL_H
#define XSBX_VM_SANDBOX_NETWORK_INTERNAL_H

#include "internal.h"
#include "network.h"
#include "vm/base/egress.h"
#include "vm/base/lines.h"
#include "vm/net/gateway.h"
#include "vm/spawn/program.h"

#define NETWORK_LOST "the sandbox has lost its network; a new session has one"

enum port_state { PORT_FREE, PORT_BINDING, PORT_BOUND };

struct net_source;

struct port {
	struct network *network;
	enum port_state state;
	uint16_t guest, host;
	int listener;
	struct dialer_request request;
	sandbox_forward_fn fn; /* or NULL: a port of the spec, which the sandbox can't do without */
	void *data;
};

struct network {
	struct sandbox *s;
	const struct network_ops *ops;
	char *allow;
	struct net_policy policy; /* its texts are owned, and not NULL */
	bool trusted_names;
	struct port ports[SANDBOX_PORTS_MAX];
	uint32_t owner, user; /* for the dialer */

	struct gateway *gateway; /* from network_start() until its helper has ended */
	struct program filter;	 /* xsbxfs-net */
	struct lines said;	 /* its output */
	struct sandbox_traffic traffic;
	bool has_traffic;
	int card; /* of its machine, until its filter is known to have it; or -1 */
	bool card_is_stream;
	bool started, served, child_gone, closing;
	bool trust_sent; /* the filter has the certificates by which it judges servers */
	bool vouched;	 /* the guest has that of the filter's authority; see network_policy.c */
	bool lost;	 /* the filter has ended, and is not restarted */
	int broken;	 /* -errno: it was ended for what it had said; or 0 */
	TAILQ_HEAD(, net_source) sources; /* of its secrets; see network_secrets.c */
	char *sources_for;		  /* for which uses and file they are; or NULL */
	uv_timer_t refresh;
	bool has_timer;
	void (*part_gone)(struct network *n); /* one of: */
	unsigned
		nopen; /* the filter, the gateway, the timer, what fetches secrets, and one until network_close() */
};

/* Makes one without ports, which its spec's are. Return: 0, or as network_new(). */
int network_make(struct sandbox *s, const struct network_ops *ops);

/* Starts its filter with `card`. Return: 0 or -errno. */
int network_start_filter(struct network *n);

/* Tells a filter that was taken over all that it is to do. Return: 0 or -errno. */
int network_resync(struct network *n);

/* The filter can't be started: ends the sandbox. */
void network_not_started(struct network *n, int err);

/* Sets what is called for its filter. */
void network_prepare(struct network *n);

/* The gateway's configuration. */
void network_gateway_config(struct network *n, struct gateway_config *ret_cfg);

/* ---- what it may be used for: network_policy.c ---- */

/* Takes over copies of a spec's list and policy. Return: 0 or -ENOMEM. */
int network_copy_policy(struct network *n, const char *allow, const struct net_policy *policy);
void network_free_policy(struct network *n);

/* Tells the filter all of it. Return: 0 or -errno. */
int network_send_policy(struct network *n);

/* Sets the callbacks that concern it. */
void network_policy_events(struct gateway_events *events);

/* Is the guest told all that it has to know before programs run in it? */
bool network_is_vouched(const struct network *n);

/* ---- its secrets: network_secrets.c ---- */

void network_secrets_init(struct network *n);
void network_secrets_close(struct network *n);

/* Has the values of all secrets that the policy names sent to the filter. @anew: also if nothing has changed */
void network_secrets_send(struct network *n, bool anew);

/* A value has come there, or not. */
void network_secret_read(void *network, const struct net_secret_read *what);

/* ---- its ports: network_ports.c ---- */

/* Starts binding the ports of a new sandbox; a port that is not available ends it. */
void network_bind_ports(struct network *n, const struct sandbox_port *ports, size_t nports);

/* Tells the filter of those that are bound. Return: 0 or -errno. */
int network_hand_over_ports(struct network *n);

/* The filter is gone: closes them, so that connections are refused. Who has asked for one still gets it, or why not. */
void network_lose_ports(struct network *n);

/* All of them go, and whoever has asked for one is told. */
void network_end_ports(struct network *n);

#endif
