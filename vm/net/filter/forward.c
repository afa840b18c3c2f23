/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards connections from listening sockets of the host to ports of the guest. */
#include "forward.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"
#include "stack.h"
#include "vm/base/util.h"

#define ACCEPTS 16 /* of one port in one turn */

static struct forward *find_forward(struct net *net, uint32_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++)
		if (net->forwards[i].listener >= 0 && net->forwards[i].port == port)
			return &net->forwards[i];
	return NULL;
}

int forward_add(struct net *net, uint32_t port, int listener)
{
	struct forward *f = find_forward(net, port);

	if (listener < 0)
		return 0; /* no descriptor was left for it: it leads nowhere, and all else goes on */
	if (f) {
		close(f->listener);
		f->listener = listener;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards) && !f; i++)
		if (net->forwards[i].listener < 0)
			f = &net->forwards[i];
	if (!f || port == 0 || port > 65535 || stack_forward(net->stack, (uint16_t)port) < 0) {
		close(listener);
		return -EPROTO;
	}
	*f = (struct forward){
		.listener = listener, .waiting = -1, .port = (uint16_t)port, .place = -1};
	return 0;
}

int forward_remove(struct net *net, uint32_t port)
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

void forward_keep(struct net *net, const uint16_t port[NET_FORWARDS_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++) {
		size_t k = 0;

		while (k < NET_FORWARDS_MAX && port[k] != net->forwards[i].port)
			k++;
		if (net->forwards[i].listener >= 0 && k == NET_FORWARDS_MAX)
			forward_remove(net, net->forwards[i].port);
	}
}

/* Hands a connection from outside to the guest. Return: false if the stack cannot take it now. */
static bool hand_in(struct net *net, const struct forward *f, int host)
{
	const int guest = stack_connect(f->port);

	if (guest == -EAGAIN)
		return false;
	if (guest >= 0) {
		const struct net_header called = {NET_CALLED, f->port};

		net_tell(net, &called, sizeof(called));
		flow_forward(net, guest, host);
	} else {
		close(host);
	}
	return true;
}

void forward_prepare(struct net *net, int *timeout_ms)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++) {
		struct forward *f = &net->forwards[i];
		const bool ready = f->waiting < 0 && net->flows.count < FLOWS_MAX;

		f->place = -1;
		if (f->listener >= 0)
			f->place = pollset_add(&net->set, f->listener, ready ? POLLIN : 0);
		if (f->waiting >= 0)
			*timeout_ms = *timeout_ms < 0 ? 10 : MIN(*timeout_ms, 10);
	}
}

void forward_run(struct net *net)
{
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++) {
		struct forward *f = &net->forwards[i];

		if (f->waiting >= 0 && hand_in(net, f, f->waiting))
			f->waiting = -1;
		if (f->waiting >= 0 || !pollset_events(&net->set, f->place))
			continue;
		for (unsigned n = 0; n < ACCEPTS && net->flows.count < FLOWS_MAX; n++) {
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
