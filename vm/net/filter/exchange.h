/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its answer: judged, asked for, told of. */
#ifndef XSBX_VM_NET_FILTER_EXCHANGE_H
#define XSBX_VM_NET_FILTER_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "ask.h"
#include "message.h"
#include "secrets.h"
#include "vm/base/egress.h"

struct net;

/* Where a connection goes. */
struct destination {
	char host[ALLOW_NAME_MAX +
		  1];	  /* canonical name, or address as text; "": as the first request says */
	uint32_t address; /* in network order, if `host` is one; else 0 */
	uint16_t port;
	const char *scheme; /* http, https */
};

enum exchange_state {
	EXCHANGE_NONE,
	EXCHANGE_WAITS, /* for leave, or for the value of a secret */
	EXCHANGE_REFUSED,
	EXCHANGE_GOES,
};

/*
 * Embedded by its owner; all zeroes before exchange_begin().
 *
 * - `method`, `target` and `version` are kept as they came, printable; of `target` what is not is encoded, and it ends with dots
 *   where it is too long to be told.
 */
struct exchange {
	enum exchange_state state;
	struct net *net;
	struct destination *to;
	char method[NET_METHOD_MAX], version[8], target[NET_PATH_MAX];
	struct verdict verdict;
	unsigned reason; /* of the end: NET_OK, why it was refused, or what went wrong with it */
	struct asker asker;
	struct secret_waiter waiter; /* for the value of a secret */
	bool left;		     /* leave was given for this one */
	struct http_path *
		path; /* both readings, until it is over; NULL: it has none, and nothing depends on that */
	char secret[SECRET_NAME_MAX +
		    1]; /* the name of the first that has gone with it: see dress.h */
	const char *
		why; /* in words, where there is more to say than its reason; NULL or empty: there is not */
	unsigned status;
	uint64_t bytes_in, bytes_out;
	int64_t began_ms, began_mono_ms;
	/* Set by its owner: called when it waits no more. */
	void (*answered)(struct exchange *x);
};

/**
 * exchange_begin() - Judge a request
 * @x: All zeroes, but for `answered`
 * @net: State
 * @to: Where its connection goes; must outlive it
 * @version: 1.0, 1.1, 2
 * @method: Its method
 * @target: Its target in origin form, terminated
 * @authority: The host that it names, with or without a port; NULL: none
 * @websocket: It asks for a switch to that
 *
 * Its state says what is to be done; with WAITS, `answered` is called.
 */
void exchange_begin(struct exchange *x, struct net *net, struct destination *to,
		    const char *version, const char *method, const char *target,
		    const char *authority, bool websocket);

/* Does nothing depend on which host a request names, as long as it asks for none that is elsewhere, as a proxy is asked? Then
 * the @authority above is its destination. */
bool exchange_takes_any_host(const struct net *net, const struct destination *to);

/* It is refused, or went wrong, for another reason than the policy. */
void exchange_fail(struct exchange *x, unsigned reason);

/* Is it still allowed? Called when the policy has changed. Return: NET_OK or the reason why not. */
unsigned exchange_recheck(struct exchange *x);

/* The server has taken one to switch for what it is otherwise. Return: NET_OK, or why that is refused. */
unsigned exchange_judge_as(struct exchange *x, const char *method);

/* It is over: told of, and all zeroes but for `answered`. */
void exchange_end(struct exchange *x);

/* Tells of a connection of which no request was seen. */
void exchange_note(struct net *net, const struct destination *to, unsigned reason);

/* The line of text that refuses it, or says what went wrong. Return: its status. */
unsigned exchange_explain(const struct exchange *x, char *ret_text, size_t size);

#endif
