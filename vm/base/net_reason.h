/* SPDX-License-Identifier: Apache-2.0 */
/* Why something was refused. */
#ifndef XSBX_VM_BASE_NET_REASON_H
#define XSBX_VM_BASE_NET_REASON_H

enum net_reason {
	NET_OK,
	NET_NAME,	     /* a name that is not on the list was looked up */
	NET_QUERY,	     /* a record of an allowed name that is not served, such as TXT */
	NET_NAME_SERVER,     /* a name server other than ours was asked */
	NET_ADDRESS,	     /* an address that no allowed name stands for */
	NET_PORT,	     /* an allowed name, another port */
	NET_PROTOCOL,	     /* UDP, ICMP, IPv6, anything but TCP over IPv4 */
	NET_SERVER_NAME,     /* the TLS server name is another than the one looked up */
	NET_NO_SERVER_NAME,  /* TLS without a server name */
	NET_ENCRYPTED_HELLO, /* TLS that hides the server name */
	NET_NOT_TLS,	     /* port 443, and no TLS */
	NET_HOST,	     /* the HTTP request names another host */
	NET_NO_HOST,	     /* the HTTP request names no host */
	NET_NOT_HTTP,	     /* port 80, and no well-formed HTTP/1 */
	NET_PRIVATE,	     /* the name stands for an address that is not public */
	NET_UNRESOLVED,	     /* the name has no address */
	NET_UNREACHABLE,     /* no refusal of ours: the connection failed */
	NET_WITHDRAWN,	     /* the list no longer allows an open connection */
	NET_BUSY,	     /* too many connections at once */
	NET_NREASONS
};

/* What `net/denied` says; never NULL. */
const char *net_reason_str(unsigned reason);

#endif
