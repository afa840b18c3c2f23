/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons for refusals of the network filter. */
#include "net_reason.h"

#include <assert.h>

#include "vm/base/util.h"

static const char *const strings[] = {
	[NET_OK] = "allowed",
	[NET_NAME] = "name not allowed",
	[NET_QUERY] = "no such records are served",
	[NET_NAME_SERVER] = "foreign name server",
	[NET_ADDRESS] = "address not allowed",
	[NET_PORT] = "port not allowed",
	[NET_PROTOCOL] = "protocol not allowed",
	[NET_SERVER_NAME] = "other TLS server name",
	[NET_NO_SERVER_NAME] = "no TLS server name",
	[NET_ENCRYPTED_HELLO] = "encrypted TLS server name",
	[NET_NOT_TLS] = "not TLS",
	[NET_HOST] = "other HTTP host",
	[NET_NO_HOST] = "no HTTP host",
	[NET_NOT_HTTP] = "not HTTP",
	[NET_PRIVATE] = "private address",
	[NET_UNRESOLVED] = "name does not resolve",
	[NET_UNREACHABLE] = "unreachable",
	[NET_WITHDRAWN] = "no longer allowed",
	[NET_BUSY] = "too many connections",
	[NET_PATH] = "a path that servers read in different ways",
	[NET_RULE] = "denied by a rule",
	[NET_DENIED_BY_HAND] = "denied by hand",
	[NET_NOT_ASKED] = "nobody gave leave in time",
	[NET_UNTRUSTED] = "the server's certificate is not trusted",
	[NET_BAD_ANSWER] = "the server's answer is not whole",
	[NET_SECRET_MISSING] = "its secret has no value",
	[NET_SECRET_HIDDEN] = "an encoded answer to a request with a secret",
	[NET_CLIENT] = "the program broke off TLS",
	[NET_BUDGET] = "the budget is used up",
	[NET_SECRET_TRACE] = "TRACE would repeat its secret",
	[NET_LONG] = "a path too long to be asked for",
	[NET_HUNG_UP] = "it hung up while it waited for leave",
	[NET_UPSTREAM] = "the upstream proxy refused it",
};
static_assert(ARRAY_SIZE(strings) == NET_NREASONS, "a string for each reason");

const char *net_reason_str(unsigned reason)
{
	return reason < NET_NREASONS ? strings[reason] : "unknown";
}
