/* SPDX-License-Identifier: Apache-2.0 */
/* What a network may be used for, beyond its allow list. */
#ifndef XSBX_VM_BASE_NET_POLICY_H
#define XSBX_VM_BASE_NET_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define NET_ASK_S_DEFAULT 120

/* All zeroes: nothing beyond the allow list. Texts may be NULL, which is as "". */
struct net_policy {
	const char *first; /* rules of the administrator, before all others (see vm/base/rules.h) */
	const char *rules; /* of the session */
	const char *secrets; /* which go where (see vm/base/secret_use.h) */
	const char *
		secrets_file; /* of the session's owner, with secrets of his own (see vm/base/secret_list.h) */
	bool ask;	      /* what nothing allows waits for somebody to allow it */
	unsigned ask_s; /* for so long; 0: NET_ASK_S_DEFAULT */
	bool learn;	/* everything public is allowed that no rule denies */
	/* What may be used in all, 0: no limit; and what the session had used before this sandbox began. Bytes count both ways. */
	struct net_budget {
		uint64_t bytes, requests, connections;
	} most, used;
	uint64_t rate; /* bytes a second, both ways together; 0: no limit */
};

#endif
