/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches secrets to requests that were allowed. */
#ifndef XSBX_VM_NET_FILTER_DRESS_H
#define XSBX_VM_NET_FILTER_DRESS_H

#include <stdbool.h>

#include "exchange.h"
#include "head.h"

struct redact_set;

#define DRESS_BODY_MAX 65536

/* Does the value of a secret that may go with it come yet? */
bool dress_has_to_wait(const struct exchange *x);

/**
 * dress_request() - Attach the secrets of a request, when it goes on
 * @x: It; `secret` becomes the name of the first one
 * @head: Its head, `first` is the target in origin form
 * @sent: Of its connection: gets all secrets that this server may get
 * @ret_body: It has a body of a known length of up to DRESS_BODY_MAX, or none whose length is known, in which placeholders have
 *	to be looked for: gather it, if it is short enough, and call dress_body()
 *
 * Return: NET_OK, or why it cannot go on (enum net_reason).
 */
unsigned dress_request(struct exchange *x, struct head *head, struct redact_set *sent,
		       bool *ret_body);

/**
 * dress_body() - Replace the placeholders in a whole body
 * @x: The request
 * @type: The value of its Content-Type, or NULL
 * @body: Body; its length may be another one afterwards
 *
 * Return: NET_OK, or why it cannot go on.
 */
unsigned dress_body(struct exchange *x, const char *type, struct buf *body);

#endif
