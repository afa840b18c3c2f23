/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: requests and answers of one connection, one after the other. */
#ifndef XSBX_VM_NET_FILTER_H1_H
#define XSBX_VM_NET_FILTER_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proxy.h"

struct h1;

int h1_new(struct proxy *p, struct h1 **ret_h1);
void h1_free(struct h1 *h);

/* Takes what a side says. Return: how much of it; the rest is to come again, when there is more or behind proxy_go_on(). */
size_t h1_take(struct h1 *h, enum side s, const void *bytes, size_t len);

/* A side will say nothing more. @cut: it has not said so itself */
void h1_ended(struct h1 *h, enum side s, bool cut);

/* Does a request wait for leave? */
bool h1_asks(const struct h1 *h);

/* It could not be dialled, or the server is not trusted; p->failed and p->why say why. */
void h1_unreachable(struct h1 *h);

void h1_recheck(struct h1 *h);

#endif
