/* SPDX-License-Identifier: Apache-2.0 */
/* What may be reached and asked for: the allow list, rules, leave. */
#ifndef XSBX_VM_BASE_EGRESS_H
#define XSBX_VM_BASE_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/allow.h"
#include "vm/base/http_path.h"
#include "vm/base/net_policy.h"
#include "vm/base/rules.h"
#include "vm/base/secret_use.h"

/* All zeroes allows nothing. */
struct egress {
	struct allow allow;
	struct rules rules;
	unsigned nfirst; /* so many of them, at the beginning, are the administrator's */
	struct secret_uses uses;
	struct net_policy all; /* its texts are not used: NULL */
};

/**
 * egress_parse() - Make a policy
 * @allow: Text of the allow list, as the three texts in @all terminated or NULL
 * @all: Everything else
 * @ret_egress: Result; release it with egress_fini(). Untouched on failure
 * @ret_why: Human-readable reason if -EINVAL or -E2BIG is returned
 *
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM.
 */
int egress_parse(const char *allow, const struct net_policy *all, struct egress *ret_egress,
		 char ret_why[static 128]);

void egress_fini(struct egress *p);

/* Who has decided: @rule is its number from 1, or 0 for the allow list; @first: of the administrator's. */
struct verdict {
	enum rule_verb verb; /* never RULE_NONE */
	unsigned rule;
	bool first;
};

/* What can be said of a connection before its first bytes are seen. */
struct prospect {
	bool look;     /* it has to be looked into: rules or secrets depend on its requests */
	bool may;      /* some request may be allowed without anybody's leave */
	bool asks;     /* some may be with it */
	bool guarded;  /* the name that is said in it has to be the one it is for */
	bool loose;    /* it is allowed, and HTTP in it may name any host */
	bool no_proxy; /* ... but not ask for one, as of a proxy: rules would not see that */
	struct verdict verdict; /* of a connection in which no HTTP is spoken */
};

/* @host: canonical name, or address as text (then @address is not 0, in network order). @port: 0 for any. */
struct prospect egress_foresee(const struct egress *p, const char *host, uint32_t address,
			       uint16_t port);

/* May something be reached by this name, on some port? */
bool egress_resolves(const struct egress *p, const char *host);

/* May it have an address that is not public, if the lists are the administrator's? Its name is in one of them. */
bool egress_names(const struct egress *p, const char *host, uint16_t port);

/* All addresses in the lists, for @port, in network byte order. Return: how many. */
size_t egress_addresses(const struct egress *p, uint16_t port,
			uint32_t ret_addresses[static ALLOW_ENTRIES_MAX]);

/* The same for a request. @path: NULL for a connection without requests. */
struct verdict egress_judge(const struct egress *p, const char *method, const char *host,
			    uint32_t address, uint16_t port, const struct http_path *path);

/* The rule of a verdict as text, or "". */
void egress_print_rule(const struct egress *p, const struct verdict *v, char *ret_text,
		       size_t size);

#endif
