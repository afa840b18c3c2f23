/* SPDX-License-Identifier: Apache-2.0 */
/* The secrets of a session: their values, by name, and what waits for them. */
#ifndef XSBX_VM_NET_FILTER_SECRETS_H
#define XSBX_VM_NET_FILTER_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/secret_use.h"

struct cleanser;
struct net;
struct secret_entry;
struct secret_value;

/* Embedded in what cannot go on before a value has come. `ready` is called once, when one has, or is known not to. */
struct secret_waiter {
	TAILQ_ENTRY(secret_waiter) link;
	void (*ready)(struct secret_waiter *w);
	bool waits;
};

struct secrets {
	TAILQ_HEAD(, secret_entry) entries;
	TAILQ_HEAD(, secret_waiter) waiters;
	TAILQ_HEAD(, cleanser) cleansers; /* that hold something back: see cleanse.h */
	unsigned n;
};

void secrets_init(struct secrets *s);
void secrets_fini(struct secrets *s);

/**
 * secrets_read() - Read a value
 * @net: State
 * @name: Of the secret
 * @fd: Pipe or file; taken over
 *
 * The value is the first line. A second one may be `expires=SECONDS`. One that was there before stays until this one has come.
 * The daemon is told how it went: NET_SECRET_READ.
 */
void secrets_read(struct net *net, const char *name, int fd);

/* The policy has changed: values are forgotten that it does not name, or sends to other hosts than @before. */
void secrets_recheck(struct net *net, const struct secret_uses *before);

/* The value of a secret, or NULL. @ret_coming: is it on its way? May be NULL. */
struct secret_value *secrets_find(const struct net *net, const char *name, bool *ret_coming);

void secrets_wait(struct net *net, struct secret_waiter *w);
void secrets_give_up(struct net *net, struct secret_waiter *w);

/* To be called before and after poll(). */
void secrets_prepare(struct net *net, int *timeout_ms);
void secrets_run(struct net *net);

#endif
