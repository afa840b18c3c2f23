/* SPDX-License-Identifier: Apache-2.0 */
/* Why a network filter refused something. */
#ifndef XSBX_VM_BASE_NET_REASON_H
#define XSBX_VM_BASE_NET_REASON_H

enum net_reason {
	NET_OK,
	NET_NAME,	 /* lookup of a name that is not on the list */
	NET_QUERY,	 /* lookup of an unsupported record type of an allowed name, such as TXT */
	NET_NAME_SERVER, /* query to a name server other than ours */
	NET_ADDRESS,	 /* address that no allowed name resolved to */
	NET_PORT,	 /* allowed name, but another port */
	NET_PROTOCOL,	 /* UDP, ICMP, IPv6, anything but TCP over IPv4 */
	NET_SERVER_NAME, /* the TLS server name differs from the one looked up */
	NET_NO_SERVER_NAME,  /* TLS without a server name */
	NET_ENCRYPTED_HELLO, /* TLS with an encrypted server name */
	NET_NOT_TLS,	     /* port 443, but not TLS */
	NET_HOST,	     /* the HTTP request names another host */
	NET_NO_HOST,	     /* the HTTP request names no host */
	NET_NOT_HTTP,	     /* port 80, but not well-formed HTTP/1 */
	NET_PRIVATE,	     /* the name resolves to an address that is not public */
	NET_UNRESOLVED,	     /* the name has no address */
	NET_UNREACHABLE,     /* not refused: the connection failed */
	NET_WITHDRAWN,	     /* an open connection is no longer allowed by the list */
	NET_BUSY,	     /* too many connections at once */
	NET_PATH,	     /* servers read the path in different ways, and rules depend on it */
	NET_RULE,	     /* a rule denies it */
	NET_DENIED_BY_HAND,  /* somebody was asked, and said no */
	NET_NOT_ASKED,	     /* nobody has answered in time */
	NET_UNTRUSTED,	     /* the server's certificate is not trusted */
	NET_BAD_ANSWER,	     /* what the server answers is no HTTP, or ends too early */
	NET_SECRET_MISSING,  /* the value of a secret that was to go with it is not there */
	NET_SECRET_HIDDEN, /* an answer to a request with a secret comes encoded, and cannot be searched */
	NET_CLIENT,	   /* the program does not go on with TLS: it trusts other certificates */
	NET_BUDGET,	   /* the session has used up what it may use */
	NET_SECRET_TRACE, /* TRACE would have the server repeat its secret */
	NET_LONG,	  /* whoever is asked could not see all of its path */
	NET_UPSTREAM,	  /* the proxy that everything goes through refused it */
	NET_HUNG_UP,	  /* who asked has ended his side before anybody decided */
	NET_NREASONS
};

/* The text for `net/refused`; never NULL. */
const char *net_reason_str(unsigned reason);

#endif
