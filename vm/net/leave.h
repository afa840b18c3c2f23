/* SPDX-License-Identifier: Apache-2.0 */
/* What a filter asks leave for, and where it was given. */
#ifndef XSBX_VM_NET_LEAVE_H
#define XSBX_VM_NET_LEAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/net/filter/message.h"

struct buf;
struct record_field;

#define LEAVES_ASKED_MAX 64 /* as an honest filter asks for at a time */
#define LEAVES_GIVEN_MAX 64 /* the oldest that was not used is forgotten */
#define LEAVE_AGAIN_MS	 5000

struct leave {
	TAILQ_ENTRY(leave) link;
	uint32_t id; /* of the question */
	uint16_t port;
	int64_t used_ms; /* since when it has been used, monotonic; 0: it has not */
	char host[ALLOW_NAME_MAX + 1];
};

/*
 * The filter is not trusted to remember what it was told: where it may connect to by leave is known here. Several may have asked the
 * same at once, each with a connection of its own: so what was used is good for LEAVE_AGAIN_MS more.
 */
struct leaves {
	TAILQ_HEAD(leave_list, leave) asked, given;
	unsigned nasked, ngiven;
};

void leaves_init(struct leaves *l);
void leaves_fini(struct leaves *l);

/* Leave is asked for; the same question may come again. Return: 0, -EPROTO for too many, -ENOMEM. */
int leaves_ask(struct leaves *l, const struct net_asked *what);

/* The question with that number, which need not be there, is answered, or was taken back. */
void leaves_decide(struct leaves *l, uint32_t id, bool given);

/* Was leave given for it? */
bool leaves_have(const struct leaves *l, const char *host, uint16_t port);

/* ... and it was used. */
void leaves_use(struct leaves *l, const char *host, uint16_t port);

/* Those that are asked for, and those that were given, in a record; each as a field with that tag. Who is shown a question decides of
 * what it was when it was asked, whatever the filter says of it to another daemon. */
void leaves_put(const struct leaves *l, unsigned asked, unsigned given, struct buf *out);
/* One that was given, or is asked for. Return: 0, -EBADMSG, -ENOMEM. */
int leaves_take(struct leaves *l, const struct record_field *f);
int leaves_take_asked(struct leaves *l, const struct record_field *f);

#endif
