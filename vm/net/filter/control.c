/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with the daemon, and what it decides: ways out and ports in. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "net.h"
#include "reason.h"
#include "stack.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

#define ACCEPTS 16 /* of one port in one turn */

int net_tell(struct net *net, const void *msg, size_t len)
{
	return send(net->control, msg, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
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

static int replace_list(struct net *net, const char *text, size_t len)
{
	struct allow list;
	char why[128];
	int r;

	r = allow_parse(text, len, &list, why);
	if (r < 0)
		return r == -ENOMEM ? r : -EPROTO; /* the daemon has read it as well */
	allow_fini(&net->allow);
	net->allow = list;
	flow_recheck(net);
	return 0;
}

static struct forward *find_forward(struct net *net, uint32_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++)
		if (net->forwards[i].listener >= 0 && net->forwards[i].port == port)
			return &net->forwards[i];
	return NULL;
}

/* Takes over @listener. */
static int add_forward(struct net *net, uint32_t port, int listener)
{
	struct forward *f = NULL;

	if (listener < 0)
		return 0; /* no descriptor was left for it: it leads nowhere, and all else goes on */
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards) && !f; i++)
		if (net->forwards[i].listener < 0)
			f = &net->forwards[i];
	if (!f || port == 0 || port > 65535 || find_forward(net, port) ||
	    stack_forward(net->stack, (uint16_t)port) < 0) {
		close(listener);
		return -EPROTO;
	}
	*f = (struct forward){
		.listener = listener, .waiting = -1, .port = (uint16_t)port, .place = -1};
	return 0;
}

static int remove_forward(struct net *net, uint32_t port)
{
	struct forward *f = find_forward(net, port);

	if (!f)
		return 0; /* its listener has not come */
	close(f->listener);
	if (f->waiting >= 0)
		close(f->waiting);
	f->listener = f->waiting = -1;
	return 0;
}

static int tell_stats(struct net *net)
{
	const struct net_stats msg = {
		.header = {.type = NET_STATS},
		.bytes_in = net->bytes_in,
		.bytes_out = net->bytes_out,
		.connections = net->connections,
		.denied = net->denied.total,
		.open = flow_count(&net->flows),
		.names = (uint32_t)net->aliases.nslots,
	};

	net_tell(net, &msg, sizeof(msg));
	return 0;
}

/* One message; @fd came with it or is -1. Takes over @fd. */
static int obey(struct net *net, const struct net_header *h, size_t len, int fd)
{
	const struct net_dialed *dialed = (const struct net_dialed *)h;

	if (len >= sizeof(*h) && h->type == NET_FORWARD)
		return add_forward(net, h->id, fd);
	if (len == sizeof(*dialed) && h->type == NET_DIALED) {
		flow_dialed(net, h->id, dialed->reason, fd);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	if (len < sizeof(*h))
		return -EPROTO;
	if (h->type == NET_ALLOW)
		return replace_list(net, (const char *)(h + 1), len - sizeof(*h));
	if (h->type == NET_UNFORWARD)
		return remove_forward(net, h->id);
	if (h->type == NET_ASK_STATS)
		return tell_stats(net);
	return -EPROTO;
}

int net_listen(struct net *net)
{
	static union {
		struct net_header header;
		char bytes[NET_MESSAGE_MAX];
	} in;

	for (;;) {
		int fd = -1, r;
		size_t nfds;
		const ssize_t n =
			fdpass_receive(net->control, &in, sizeof(in), &fd, 1, &nfds, MSG_DONTWAIT);

		if (n == 0)
			return -EPIPE;
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		r = obey(net, &in.header, (size_t)n, fd);
		if (r < 0)
			return r;
	}
}

/* Hands a connection from outside to the guest. Return: false if the stack cannot take it now. */
static bool hand_in(struct net *net, const struct forward *f, int host)
{
	const int guest = stack_connect(net->stack, f->port);

	if (guest == -EAGAIN)
		return false;
	if (guest >= 0)
		flow_forward(net, guest, host);
	else
		close(host);
	return true;
}

void net_prepare_forwards(struct net *net, int *timeout_ms)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++) {
		struct forward *f = &net->forwards[i];
		const bool ready = f->waiting < 0 && flow_count(&net->flows) < FLOWS_MAX;

		f->place = -1;
		if (f->listener >= 0)
			f->place = pollset_add(&net->set, f->listener, ready ? POLLIN : 0);
		if (f->waiting >= 0)
			*timeout_ms = *timeout_ms < 0 ? 10 : MIN(*timeout_ms, 10);
	}
}

void net_run_forwards(struct net *net)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++) {
		struct forward *f = &net->forwards[i];

		if (f->waiting >= 0 && hand_in(net, f, f->waiting))
			f->waiting = -1;
		if (f->waiting >= 0 || !pollset_events(&net->set, f->place))
			continue;
		for (unsigned n = 0; n < ACCEPTS && flow_count(&net->flows) < FLOWS_MAX; n++) {
			const int host =
				accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

			if (host < 0)
				break;
			if (!hand_in(net, f, host)) {
				f->waiting = host;
				break;
			}
		}
	}
}
