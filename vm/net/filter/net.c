/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one sandbox: permitted destinations, and messages to the daemon. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authority.h"
#include "tls.h"
#include "vm/base/guest_net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

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
	struct way *w = ret_way;

	*w = (struct way){.address = alias || address == htonl(NET_REFUSER) ? 0 : address};
	if (alias)
		snprintf(w->name, sizeof(w->name), "%s", alias->name);
	else if (w->address)
		inet_ntop(AF_INET, &address, w->name, sizeof(w->name));
	else
		return NET_NAME;
	w->prospect = egress_foresee(&net->egress, w->name, w->address, port);
	if (w->prospect.may || w->prospect.asks)
		return NET_OK;
	if (w->prospect.verdict.rule)
		return NET_RULE;
	if (w->address)
		return allow_literal(&net->egress.allow, address, 0) ? NET_PORT : NET_ADDRESS;
	return allow_name(&net->egress.allow, w->name, 0) == ALLOW_REFUSED ? NET_NAME : NET_PORT;
}

bool net_has_words(const struct net *net, uint16_t port)
{
	return port == 80 || (port == 443 && net->authority);
}

/* ---- looking into TLS ---- */

static void read_trust(struct net *net)
{
	struct stat st;
	void *bytes;

	if (net->trust < 0)
		return;
	if (fstat(net->trust, &st) == 0 && st.st_size > 0) {
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, net->trust, 0);
		if (bytes != MAP_FAILED) {
			(void)tls_kit_trust(net->kit, bytes, (size_t)st.st_size);
			munmap(bytes, (size_t)st.st_size);
		}
	}
	close(net->trust);
	net->trust = -1;
}

struct tls_kit *net_kit(struct net *net)
{
	if (!net->authority && authority_new(&net->authority) < 0)
		return NULL;
	if (!net->kit && tls_kit_new(net->authority, &net->kit) < 0)
		return NULL;
	read_trust(net);
	return net->kit;
}

void net_prepare_kit(struct net *net)
{
	if (net->authority || (!net->egress.rules.n && !net->egress.uses.n) ||
	    authority_new(&net->authority) < 0)
		return;
	(void)net_tell_authority(net);
}

int net_tell_authority(struct net *net)
{
	struct net_authority msg = {.header = {.type = NET_AUTHORITY}};
	const int len = net->authority ? authority_der(net->authority, msg.der) : 0;

	if (len <= 0)
		return 0;
	msg.header.id = (uint32_t)len;
	return net_insist(net, &msg, sizeof(msg));
}

void net_wake_at(int *timeout_ms, int64_t now_ms, int64_t until_ms)
{
	const int64_t left = MAX(until_ms - now_ms, (int64_t)0);

	if (*timeout_ms < 0 || left < *timeout_ms)
		*timeout_ms = (int)MIN(left, (int64_t)INT_MAX);
}
