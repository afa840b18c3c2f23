/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's network may be used for, beyond names and ports: rules, secrets, leave, budgets. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_SANDBOX_POLICY_H
#define XSBX_VM_SANDBOX_SANDBOX_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/net_policy.h"
#include "vm/net/allow_check.h"

struct sandbox;

/* Rules are counted from 1, those of the session as net/rules shows them; this says that it is one of the administrator's. */
#define SANDBOX_RULE_FIRST 0x80000000u

/* A connection or request of a sandbox that waits for somebody to allow it. Texts are printable. */
struct sandbox_asked {
	uint32_t id;		   /* for sandbox_decide(); not used again by this sandbox */
	int64_t time_ms, until_ms; /* since 1970; it is refused by itself then */
	const char *method;	   /* "" for a connection of which nothing more is known */
	const char *scheme;	   /* http, https, or tcp */
	const char *host;
	uint16_t port;
	const char *path; /* as it was asked for, with its query; "" */
	unsigned
		rule; /* that asks, from 1 (see above); 0: because `ask` is set and nothing allows it */
};

/* Why one waits no more, without sandbox_decide(). */
enum sandbox_unasked {
	SANDBOX_UNASKED_LATE,
	SANDBOX_UNASKED_GONE /* the program gave up */,
	SANDBOX_UNASKED_RULES /* they decide now */
};

/* A connection, or a request over one that was looked into, that has ended. Texts are printable. */
struct sandbox_logged {
	int64_t time_ms; /* since 1970, when it began */
	uint64_t took_ms;
	uint32_t lost;	     /* number of those before this one that were too many to be reported */
	const char *method;  /* "": a connection that was not looked into */
	const char *scheme;  /* http, https, or tcp */
	const char *version; /* of HTTP: 1.0, 1.1, 2; or "" */
	const char *host;    /* or address */
	uint16_t port;
	const char *
		path; /* with its query, of which secrets are taken out; cut off behind 1024 bytes */
	unsigned status; /* of the answer; 0: none */
	uint64_t bytes_in, bytes_out;
	bool refused;
	unsigned rule;	    /* that decided, from 1 (see above); 0: the allow list */
	const char *secret; /* that went with it, or "" */
	const char *reason; /* why it was refused or cut off, or "" */
};

/**
 * sandbox_policy() - Replace what the network may be used for, at once, even for open connections
 * @s: Sandbox, in any state
 * @allow: The allow list
 * @policy: All else; copied
 * @ret_why: Human-readable reason on failure
 *
 * Return: 0; -EINVAL or -E2BIG for invalid lists, with nothing changed; -EOPNOTSUPP for a sandbox without a network, or one whose
 * filter is of a version that knows no policy; -ENETDOWN if its network has failed; -errno.
 */
int sandbox_policy(struct sandbox *s, const char *allow, const struct net_policy *policy,
		   char ret_why[static VM_WHY_MAX]);

/* Lets one that waits go on, or refuses it: this one alone. One that does not wait any more is no error. */
void sandbox_decide(struct sandbox *s, uint32_t id, bool allowed);

#endif
