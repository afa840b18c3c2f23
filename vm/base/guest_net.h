/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the network between a guest and its gateway, which is also its name server. */
#ifndef XSBX_VM_BASE_GUEST_NET_H
#define XSBX_VM_BASE_GUEST_NET_H

#define NET_GATEWAY 0xc6120001 /* 198.18.0.1 */
#define NET_REFUSER \
	0xc6120009 /* 198.18.0.9: where names that are not allowed lead if there are too many of them, to be told so */
#define NET_GUEST	0xc6120002 /* 198.18.0.2 */
#define NET_PREFIX	30
#define NET_MTU_MAX	65520
#define NET_MTU_DEFAULT 16000
#define NET_RESOLV_CONF "nameserver 198.18.0.1\noptions timeout:5 attempts:2\n"

#endif
