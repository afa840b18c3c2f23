/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of a sandbox's network: decides where xsbxfs-net may connect to. */
#ifndef XSBX_VM_NET_GATEWAY_H
#define XSBX_VM_NET_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "vm/net/filter/message.h"
#include "allow_check.h"

/*
 * Usage: make a SOCK_SEQPACKET socket pair; start xsbxfs-net with one end as its --control; call
 * gateway_new() with the other; from then on gateway_allow() and gateway_forward() may be called at
 * any time, without waiting; at the end call gateway_close(), and end the helper, which also exits by
 * itself when the socket is closed.
 */
struct buf;
struct dialer;
struct fdbag;
struct gateway;
struct record_reader;
struct turn;

/* Called from the loop; only `ended` may close the gateway. */
struct gateway_events {
	void (*ready)(void *data); /* it has the card, and waits for gateway_go() */
	void (*denied)(void *data, const struct net_denied *what);
	/* A connection or request waits for leave; waits no more (NET_UNASKED_*). May be NULL. */
	void (*asked)(void *data, const struct net_asked *what);
	void (*unasked)(void *data, uint32_t id, unsigned why);
	/* One has ended. May be NULL. */
	void (*logged)(void *data, const struct net_logged *what);
	/* What has become of gateway_secret(). May be NULL. */
	void (*secret)(void *data, const struct net_secret_read *what);
	/* The certificate, as DER, of the authority by which it looks into TLS. May come again. May be NULL. */
	void (*authority)(void *data, const uint8_t *der, size_t len);
	/* A connection was made, and goes to the helper. @name: or address. May be NULL. */
	void (*connected)(void *data, const char *name, uint16_t port);
	void (*stats)(void *data, const struct net_stats *stats);
	/* The helper ended or violated the protocol; -errno. No more calls follow; close the
	 * gateway. */
	void (*ended)(void *data, int err);
	/* Somebody has connected to a forwarded port, which the guest may not have noticed. May be
	 * NULL. */
	void (*called)(void *data);
	/* With a turn: a message is about to be handled. May be NULL. */
	void (*touched)(void *data);
};

struct gateway_config {
	const struct gateway_events *events;
	void *data;
	struct dialer *dialer; /* makes the connections */
	uint32_t owner;	       /* not 0; identifies the sandbox to the dialer, for fairness */
	uint32_t user;	       /* the sandbox's user; likewise */
	bool trusted_names;    /* names in the list may resolve to non-public addresses */
	struct vm_host_ports host_ports; /* ports that ALLOW_HOST leads to */
	struct turn *const *turn;	 /* looked at each time, for it may begin later; or NULL */
};

/**
 * gateway_new() - Create the gateway of a helper
 * @loop: Event loop
 * @control: Our end of the socket pair; owned by the gateway on success
 * @cfg: Configuration
 * @ret_gateway: Result; end it with gateway_close()
 *
 * Nothing is allowed before gateway_allow().
 *
 * Return: 0 or -errno.
 */
int gateway_new(uv_loop_t *loop, int control, const struct gateway_config *cfg,
		struct gateway **ret_gateway);

/* The helper may use the card: it is known that it has it, and no other will be started with it.
 * Return: 0 or -errno. */
int gateway_go(struct gateway *gw);

/**
 * gateway_allow() - Replace the allow list, effective at once, even for open connections
 * @gw: Gateway
 * @text: List as vm/base/allow.h describes it; empty allows nothing
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why, and nothing has changed; -errno.
 */
int gateway_allow(struct gateway *gw, const char *text, size_t len,
		  char ret_why[static VM_WHY_MAX]);

/**
 * gateway_policy() - Replace the allow list, and all else that the network may be used for
 * @gw: Gateway
 * @allow: List, terminated
 * @policy: All else
 * @ret_why: What is wrong with it, for people
 *
 * Return: as gateway_allow(); -EOPNOTSUPP: the filter is of a version before, which knows nothing but lists.
 */
int gateway_policy(struct gateway *gw, const char *allow, const struct net_policy *policy,
		   char ret_why[static VM_WHY_MAX]);

/* The certificates by which servers are judged, in a file. @fd is duplicated. Return: 0 or -errno. */
int gateway_trust(struct gateway *gw, int fd);

/* The value of a secret, to be read from @fd, which is taken over in any case. Return: 0 or -errno. */
int gateway_secret(struct gateway *gw, const char *name, int fd);

/* Answers `asked`. */
void gateway_decide(struct gateway *gw, uint32_t id, bool allowed);

/**
 * gateway_forward() - Forward connections from a socket of the host to a port of the guest
 * @gw: Gateway
 * @guest: Port of the guest
 * @listener: Listening socket; it is duplicated
 *
 * Return: 0; -EEXIST: the guest's port is already forwarded; -ENOSPC: there are NET_FORWARDS_MAX;
 * -EINVAL: port 0; -errno.
 */
int gateway_forward(struct gateway *gw, uint16_t guest, int listener);

/* Stops forwarding; open connections stay. Return: 0, -ENOENT, -errno. */
int gateway_unforward(struct gateway *gw, uint16_t guest);

/* Requests statistics, which come as an event. Return: 0 or -errno. */
int gateway_ask_stats(struct gateway *gw);

/* Ends everything; @closed, which may be NULL, is called from the loop after the memory was freed. */
void gateway_close(struct gateway *gw, void (*closed)(void *data), void *data);

/* Appends the fields of a record by which another process can take it over: its socket. */
void gateway_put(const struct gateway *gw, struct buf *out, struct fdbag *fds);

/**
 * gateway_take() - Take over what another process has put
 *
 * As gateway_new(). Nothing is said to the helper, and no connection made for it, before
 * gateway_resync(); behind that gateway_allow() and gateway_forward() are due, as for a new one.
 *
 * Return: 0, -EBADMSG, or -errno.
 */
int gateway_take(uv_loop_t *loop, const struct record_reader *fields, struct fdbag *fds,
		 const struct gateway_config *cfg, struct gateway **ret_gateway);

/* The process before is gone. @ports: of the guest, @n of them, that are forwarded. Return: 0 or
 * -errno. */
int gateway_resync(struct gateway *gw, const uint16_t *ports, unsigned n);

#endif
