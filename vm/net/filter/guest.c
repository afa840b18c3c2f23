/* SPDX-License-Identifier: Apache-2.0 */
/* Handles frames from the guest. */
#include "guest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "dns.h"
#include "exchange.h"
#include "frame.h"
#include "net.h"
#include "vm/base/guest_net.h"
#include "vm/base/net_reason.h"
#include "stack.h"

/*
 * Theory of operation
 * -------------------
 * Only ARP and TCP get as far as the TCP/IP stack, and of TCP only what goes to a place that the
 * list allows, in packets that leave no room for interpretation: no options, no fragments, and from
 * the guest's own address. DNS queries are answered right here. Everything else ends here: requests a
 * program waits for are refused in the manner of their protocol, so that they fail at once instead of
 * after a minute; what a kernel sends unasked (multicast, router solicitations) is dropped silently.
 *
 * A connection is allowed or refused at its first packet. Which connection a socket of the stack
 * belongs to is known from the packet that ends the handshake (see stack.c); so half-open connections
 * are remembered, a few at a time, because the stack has buffers for each of them, and for as long as
 * the stack may wait for that packet.
 *
 * A connection to the guest is answered again (SYN, ACK) where the end of the handshake was lost on it:
 * its kernel drops that, and data behind it, while nobody accepts and the queue is full. libslirp reads
 * the options of such an answer as of a first one, and empties its buffers as if there had been nothing:
 * what it was to send then never comes. So it gets to see the options of the first answer only.
 *
 * A packet is judged by the list that was in force when the guest sent it: a lookup right after a write
 * to net/allow sees the new list. So the daemon's socket is read once more before each decision: an
 * update that was sent before the packet has arrived by then.
 */

#define HANDSHAKE_S 80 /* the stack gives up after 75 */
#define MULTICAST4  0xe0000000
#define REFUSED_MAX \
	512	      /* names that have addresses, behind which those that are refused get none */
#define REFUSED_TTL 1 /* seconds: the list may have it by then */

static int find_half_open(const struct half_open *t, const struct frame *f, time_t now)
{
	for (int i = 0; i < HALF_OPEN_MAX; i++)
		if (t->slots[i].since && now - t->slots[i].since <= HANDSHAKE_S &&
		    t->slots[i].sport == f->sport && t->slots[i].dport == f->dport &&
		    t->slots[i].address == f->dst)
			return i;
	return -1;
}

static int add_half_open(struct half_open *t, const struct frame *f, time_t now)
{
	for (int i = 0; i < HALF_OPEN_MAX; i++) {
		if (t->slots[i].since && now - t->slots[i].since <= HANDSHAKE_S)
			continue;
		t->slots[i].address = f->dst;
		t->slots[i].sport = f->sport;
		t->slots[i].dport = f->dport;
		t->slots[i].since = now;
		return i;
	}
	return -ENOSPC;
}

static const char *address_text(uint32_t address, char ret[static INET_ADDRSTRLEN])
{
	return inet_ntop(AF_INET, &address, ret, INET_ADDRSTRLEN);
}

static void listen_first(struct net *net)
{
	if (net->failure == 0)
		net->failure = control_listen(net);
}

/* The first packet of a connection. Return: may it go on to the stack? */
static bool begin_connection(struct net *net, const struct frame *f)
{
	uint8_t answer[FRAME_OWN_MAX];
	struct destination to = {.scheme = "tcp"};
	struct way way;
	unsigned reason;

	listen_first(net);
	if (find_half_open(&net->half_open, f, net->now) >= 0)
		return true;
	reason = net_find_way(net, f->dst, f->dport, &way);
	if (reason == NET_OK && f->dport == 0) /* to lists it is any port; nobody connects there */
		reason = NET_PORT;
	if (budget_is_spent(net))
		reason = NET_BUDGET; /* whatever may be reached: of a day's quota that is nothing */
	else if (reason != NET_OK && net_has_words(net, f->dport))
		reason = NET_OK; /* it is told why, in the connection */
	if (reason == NET_OK && net->flows.count >= FLOWS_MAX)
		reason = NET_BUSY;
	if (reason == NET_OK)
		reason = budget_connection(net);
	if (reason == NET_OK && stack_open(net->stack, f->dst, f->dport) < 0)
		reason = NET_ADDRESS;
	if (reason == NET_OK) /* if there are too many, it will come again */
		return add_half_open(&net->half_open, f, net->now) >= 0;
	net_deny(net, reason, way.name, f->dport);
	to.port = f->dport;
	snprintf(to.host, sizeof(to.host), "%s", way.name);
	exchange_note(net, &to, reason);
	nic_send(&net->nic, answer, frame_reset(f, answer));
	return false;
}

/* Has this answer to a connection been here before? */
static bool answered_before(struct answered *t, const struct frame *f)
{
	/* Consecutive numbers are far apart by a multiple of something: Fibonacci hashing spreads them. */
	uint32_t *slot = &t->ack[(f->ack * 2654435769u) >> 22];
	const bool before = *slot == f->ack;

	_Static_assert(ANSWERED_MAX == 1 << (32 - 22), "the shift fits the table");
	*slot = f->ack;
	return before;
}

static void on_tcp(struct net *net, const struct frame *f)
{
	const unsigned flags = f->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN);
	uint8_t bare[FRAME_OWN_MAX];
	int slot, fd;

	if ((flags & TCP_SYN) && (flags & (TCP_RST | TCP_FIN)))
		return;
	if (flags == TCP_SYN) {
		if (begin_connection(net, f))
			stack_input(net->stack, f->data, f->len);
		return;
	}
	if (flags == (TCP_SYN | TCP_ACK) && answered_before(&net->answered, f)) {
		stack_input(net->stack, bare, frame_without_options(f, bare));
		return;
	}
	slot = find_half_open(&net->half_open, f, net->now);
	if (slot < 0) {
		stack_input(net->stack, f->data, f->len);
		return;
	}
	/* There should be nothing; what is there anyway must not be taken for this one. */
	while ((fd = stack_accept(net->stack)) >= 0)
		close(fd);
	stack_input(net->stack, f->data, f->len);
	fd = stack_accept(net->stack);
	if (fd >= 0)
		flow_accept(net, fd, f->dst, f->dport);
	if (fd >= 0 || (flags & TCP_RST))
		net->half_open.slots[slot].since = 0;
}

static void on_lookup(struct net *net, const struct frame *f)
{
	uint8_t msg[DNS_MESSAGE_MAX], answer[FRAME_OWN_MAX];
	enum dns_rcode rcode = DNS_NOERROR;
	uint32_t address = 0, ttl = ALIAS_TTL;
	struct dns_query q;
	int r;

	listen_first(net);
	r = dns_parse(f->payload, f->payload_len, &q);
	if (r == -EBADMSG)
		return;
	if (r < 0) {
		rcode = DNS_FORMERR;
	} else if (!q.is_host || (q.type == DNS_PTR && !egress_resolves(&net->egress, q.name))) {
		rcode = DNS_NXDOMAIN;
		if (q.type != DNS_PTR)
			net_deny(net, NET_NAME, q.name, 0);
	} else if (!egress_resolves(&net->egress, q.name)) {
		/* It leads to where it is told so; nobody outside is asked for it. Floods of them leave room for names that
		 * are allowed. */
		net_deny(net, budget_is_spent(net) ? NET_BUDGET : NET_NAME, q.name, 0);
		if (q.type == DNS_A && (net->aliases.nslots >= REFUSED_MAX ||
					alias_get(&net->aliases, q.name, net->now, &address) < 0))
			address = htonl(NET_REFUSER);
		ttl = REFUSED_TTL;
	} else if (q.type == DNS_A) {
		if (alias_get(&net->aliases, q.name, net->now, &address) < 0) {
			net_deny(net, NET_BUSY, q.name, 0);
			rcode = DNS_REFUSED;
		}
	} else if (q.type != DNS_AAAA && q.type != DNS_HTTPS && q.type != DNS_SVCB) {
		net_deny(net, NET_QUERY, q.name, 0);
		rcode = DNS_REFUSED;
	}
	r = (int)dns_answer(&q, rcode, address, ttl, msg);
	nic_send(&net->nic, answer, frame_datagram(f, msg, (size_t)r, answer));
}

/* Is it one that programs send to somebody? */
static bool is_unicast(uint32_t address)
{
	return ntohl(address) < MULTICAST4 && ntohl(address) >> 24 != 0 &&
	       ntohl(address) != (NET_GATEWAY | 2); /* the network's broadcast address */
}

static void on_datagram(struct net *net, const struct frame *f)
{
	uint8_t answer[FRAME_OWN_MAX];
	char text[INET_ADDRSTRLEN];

	if (f->dst == htonl(NET_GATEWAY) && f->dport == DNS_PORT) {
		on_lookup(net, f);
		return;
	}
	if (!is_unicast(f->dst))
		return;
	net_deny(net, f->dport == DNS_PORT ? NET_NAME_SERVER : NET_PROTOCOL,
		 address_text(f->dst, text), f->dport);
	nic_send(&net->nic, answer, frame_prohibited(f, answer));
}

static void on_ipv6(struct net *net, const struct frame *f)
{
	const uint8_t *dst = f->data + FRAME_HEADER + 24;
	char text[INET6_ADDRSTRLEN];

	if (dst[0] == 0xff || (dst[0] == 0xfe && (dst[1] & 0xc0) == 0x80))
		return;
	net_deny(net, NET_PROTOCOL, inet_ntop(AF_INET6, dst, text, sizeof(text)), 0);
}

void guest_input(void *data, uint8_t *frame, size_t len)
{
	const struct frame f = frame_parse(frame, len);
	char text[INET_ADDRSTRLEN];
	struct net *net = data;
	const bool own = f.src == htonl(NET_GUEST);

	switch (f.kind) {
	case FRAME_ARP: stack_input(net->stack, frame, len); break;
	case FRAME_TCP:
		if (own)
			on_tcp(net, &f);
		break;
	case FRAME_UDP:
		if (own)
			on_datagram(net, &f);
		break;
	case FRAME_IPV4:
		if (own && is_unicast(f.dst))
			net_deny(net, NET_PROTOCOL, address_text(f.dst, text), 0);
		break;
	case FRAME_IPV6: on_ipv6(net, &f); break;
	case FRAME_BAD:
	case FRAME_OTHER: break;
	}
}
