/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are looked into: what their two sides say, in the clear. */
#ifndef XSBX_VM_NET_FILTER_PROXY_H
#define XSBX_VM_NET_FILTER_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanse.h"
#include "exchange.h"
#include "vm/base/buf.h"

struct h1;
struct h2;
struct net;
struct tls;

/* What may wait to be sent, or to be looked into, of one side, before no more is read of the other; and what is read at once, so
 * that both together are less than what has a mapping of its own (heap.c). */
#define PROXY_KEEPS 32768

enum side { SIDE_GUEST, SIDE_HOST };

/* One side. */
struct channel {
	struct tls *tls;  /* NULL: it is not encrypted */
	bool up;	  /* what is said to it can be sent */
	struct buf later; /* what is to be said to it when it is up */
	struct buf out;	  /* bytes for its socket, from `at` on */
	size_t at;
	struct buf in;	 /* what it has said, and nobody has taken yet */
	bool ended, cut; /* it will say nothing more; ... and did not say so itself */
	bool told;	 /* that the end was handed on */
	bool full;	 /* HTTP/2 has more to say to it than may wait */
};

enum proxy_speech { PROXY_SILENT, PROXY_HTTP1, PROXY_HTTP2, PROXY_TUNNEL };

/*
 * What flow.c looks at behind each call: `dials` (it is to be dialled, once), `over` (nothing more is read of the guest than to be
 * thrown away, and when all was sent it is closed), `broken` (it is to be closed at once, so that both sides notice).
 */
struct proxy {
	struct net *net;
	struct destination to;
	struct channel side[2];
	enum proxy_speech speech;
	struct h1 *h1;
	struct h2 *h2;
	struct exchange tunnel;	  /* the request that has made it one */
	struct cleanser cleanser; /* of what the server says in it */
	struct redact_set sent;	  /* all secrets that may have gone over it */
	bool dials, dialed, over, broken;
	bool abrupt; /* the server has not said that it ends, and the guest is not told so either */
	bool again;  /* proxy_go_on() was called */
	bool half_closed; /* the guest says nothing more, which the server is told when all was sent */
	unsigned failed; /* why it could not be dialled; NET_OK: it was, or was not tried */
	char why[200];	 /* in words, if there is more to say */
};

/**
 * proxy_new() - Begin to look into a connection
 * @net: State
 * @to: Where it goes; copied
 * @tls: Its client speaks TLS
 * @ret_proxy: Result; end it with proxy_free()
 *
 * Return: 0, -ENOMEM.
 */
int proxy_new(struct net *net, const struct destination *to, bool tls, struct proxy **ret_proxy);
void proxy_free(struct proxy *p);

/* What has come from a socket; that nothing more will. */
void proxy_read(struct proxy *p, enum side s, const void *bytes, size_t len);
void proxy_ended(struct proxy *p, enum side s);

/* The answer to `dials`: NET_OK, or why not. */
void proxy_dialed(struct proxy *p, unsigned reason);

/* Goes on behind proxy_go_on(), if that was called. */
void proxy_run(struct proxy *p);

/* The policy has changed: what is no longer allowed ends. */
void proxy_recheck(struct proxy *p);

/* Is there something to be read of this side? */
bool proxy_wants(const struct proxy *p, enum side s);

/* What is to be written to the socket of a side; and so much of it was. */
static inline size_t proxy_pending(const struct proxy *p, enum side s)
{
	return p->side[s].out.len - p->side[s].at;
}
void proxy_wrote(struct proxy *p, enum side s, size_t len);

/* ---- proxy_say.c: for h1.c and h2.c ---- */

/* Says something to a side. */
void proxy_say(struct proxy *p, enum side s, const void *bytes, size_t len);

/* Has it dialled, if it was not. Return: is it connected, or on its way? */
void proxy_dial(struct proxy *p);

/* Both sides are told that it is over, when all was sent. */
void proxy_finish(struct proxy *p);

/* Likewise, but so that the guest notices that it does not have all: nobody says that it ends here. */
void proxy_cut(struct proxy *p);

/* What is read waits for nothing any more: tries again to hand it on. */
void proxy_go_on(struct proxy *p);

/* What is said from now on passes as it is; @x is the request that did it, and is zeroes afterwards. */
void proxy_make_tunnel(struct proxy *p, struct exchange *x);

#endif
