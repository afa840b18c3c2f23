/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2: requests and answers of one connection, side by side. */
#ifndef XSBX_VM_NET_FILTER_H2_H
#define XSBX_VM_NET_FILTER_H2_H

#include "proxy.h"

/* As those of h1.h. */
int h2_new(struct proxy *p, struct h2 **ret_h2);
void h2_free(struct h2 *h);
size_t h2_take(struct h2 *h, enum side s, const void *bytes, size_t len);
void h2_ended(struct h2 *h, enum side s, bool cut);
void h2_unreachable(struct h2 *h);
void h2_recheck(struct h2 *h);

/* Has both sides told what is there for them. */
void h2_run(struct h2 *h);

#endif
