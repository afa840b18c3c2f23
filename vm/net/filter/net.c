/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one sandbox: permitted destinations, and messages to the daemon. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "vm/base/address.h"
#include "vm/base/net_reason.h"

int net_tell(struct net *net, const void *msg, size_t len)
{
	return send(net->control, msg, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int net_insist(struct net *net, const void *msg, size_t len)
{
	return send(net->control, msg, len, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void net_deny(struct net *net, unsigned reason, const char *name, uint16_t port)
{
	struct net_denied msg;

	if (denied_make(&net->denied, reason, name, port, &msg) &&
	    net_tell(net, &msg, sizeof(msg)) < 0)
		net->denied.lost += msg.lost + 1;
}

unsigned net_find_way(struct net *net, uint32_t address, uint16_t port, struct way *ret_way)
{
	const struct alias *alias = alias_find(&net->aliases, address, net->now);
	char text[INET_ADDRSTRLEN];
	enum allow_verdict verdict;

	*ret_way = (struct way){.by_name = alias != NULL};
	if (alias) {
		snprintf(ret_way->name, sizeof(ret_way->name), "%s", alias->name);
		verdict = allow_name(&net->allow, alias->name, port);
		ret_way->guarded = verdict == ALLOW_GUARDED;
		if (verdict != ALLOW_REFUSED)
			return NET_OK;
		verdict = allow_name(&net->allow, alias->name, 0);
		return verdict == ALLOW_REFUSED ? NET_NAME : NET_PORT;
	}
	inet_ntop(AF_INET, &address, text, sizeof(text));
	snprintf(ret_way->name, sizeof(ret_way->name), "%s", text);
	if (allow_literal(&net->allow, address, port) ||
	    (allow_everything(&net->allow, port) && address_is_public4(address)))
		return NET_OK;
	return allow_literal(&net->allow, address, 0) ? NET_PORT : NET_ADDRESS;
}
