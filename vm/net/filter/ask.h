/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and connections that wait for somebody to allow them. */
#ifndef XSBX_VM_NET_FILTER_ASK_H
#define XSBX_VM_NET_FILTER_ASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "message.h"

#define ASKS_MAX   64  /* questions at a time */
#define ASKERS_MAX 512 /* ... and who waits for them */

struct net;

/* Who waits. Embedded by its owner, who zeroes it, and sets `answered` and `data`. */
struct asker {
	TAILQ_ENTRY(asker) link;
	struct ask *ask; /* NULL: it does not wait */
	/* Called once, from ask_run() or ask_decide(), unless ask_give_up() was before. @reason: NET_OK if it was allowed */
	void (*answered)(struct asker *a, unsigned reason);
	void *data;
};

/* A question; several connections, or requests that only read, which ask the same are one. */
struct ask {
	TAILQ_ENTRY(ask) link;
	TAILQ_HEAD(, asker) askers;
	struct net_asked msg;
	int64_t until_ms; /* monotonic */
};

struct asks {
	TAILQ_HEAD(, ask) list;
	unsigned n, waiting;
	uint32_t next_id;
};

void ask_init(struct asks *asks);

/**
 * ask_for() - Wait for leave
 * @net: State
 * @a: Who waits
 * @what: What for; `header` and times are filled in
 *
 * Return: 0; -EBUSY: too many wait.
 */
int ask_for(struct net *net, struct asker *a, const struct net_asked *what);

/* Does not wait any more, if it did. */
void ask_give_up(struct net *net, struct asker *a);

/* The answer to a question, which need not be there any more. */
void ask_decide(struct net *net, uint32_t id, bool allowed);

/* Another policy: what it decides need not be asked any more. */
void ask_recheck(struct net *net);

/* Tells all questions again. Return: 0 or -errno. */
int ask_again(struct net *net);

/* Before and after poll(). */
void ask_prepare(const struct net *net, int *timeout_ms);
void ask_run(struct net *net);

#endif
