/* SPDX-License-Identifier: Apache-2.0 */
/* Takes secrets out of what a server says on a connection over which they may have gone. */
#ifndef XSBX_VM_NET_FILTER_CLEANSE_H
#define XSBX_VM_NET_FILTER_CLEANSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "redact.h"

struct exchange;
struct head;
struct net;
struct proxy;

/*
 * One stream of bytes of a server. All zeroes is one that is not used yet.
 *
 * - `link` is in net->secrets.cleansers while something is held back.
 */
struct cleanser {
	TAILQ_ENTRY(cleanser) link;
	struct redact redact;
	struct proxy *p;
	int64_t until_ms; /* what is held back goes on, if nothing more has come by then */
	bool listed, stalled;
	bool streams; /* set by its owner: its server may wait for the guest before it says more */
	bool blocked; /* set by its owner: the server may be unable to say more, or it is too much that is held back */
};

/**
 * cleanser_init() - Begin a stream
 * @c: All zeroes
 * @p: Its connection
 * @emit: Called for what goes on; it may be called from the main loop, too
 * @data: For it
 */
void cleanser_init(struct cleanser *c, struct proxy *p,
		   void (*emit)(void *data, const void *bytes, size_t len), void *data);

/* Frees what is held back. It may be used again. */
void cleanser_fini(struct cleanser *c);

/* The server has said this; and this was all. Out of memory, the connection is broken. */
void cleanser_feed(struct cleanser *c, const void *bytes, size_t len);
void cleanser_finish(struct cleanser *c);

/**
 * cleanse_head() - Take secrets out of the head of an answer, or out of a trailer
 * @p: Its connection
 * @x: The request that it answers
 * @head: Head
 * @trailer: It is one
 *
 * Return: NET_OK; NET_SECRET_HIDDEN if its body is encoded: it cannot be searched.
 */
unsigned cleanse_head(const struct proxy *p, const struct exchange *x, struct head *head,
		      bool trailer);

/* Does the head of an answer say that its body is one in pieces, each of which may be waited for? */
bool cleanse_streams(const struct head *head);

/* To be called before and after poll(). @listens: is a connection's server listened to? */
void cleanse_prepare(struct net *net, bool (*listens)(const struct proxy *p), int *timeout_ms);
void cleanse_run(struct net *net);

#endif
