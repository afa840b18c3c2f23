/* SPDX-License-Identifier: Apache-2.0 */
/* Handles messages from the daemon. */
#include "control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow.h"
#include "forward.h"
#include "net.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

/*
 * What was used is told without being asked for, soon after it has changed: the sandbox may end at any time, and the filter with
 * it, and what the daemon does not know by then counts for no budget and no quota.
 */
#define TELL_MS	      50
/* Behind the end of a connection or an answer, which may be all that a run waits for. */
#define TELL_ENDED_MS 1

static int replace_list(struct net *net, const char *text, size_t len)
{
	struct allow list;
	char why[128];
	int r;

	r = allow_parse(text, len, &list, why);
	if (r < 0)
		return r == -ENOMEM ? r : -EPROTO; /* the daemon has read it as well */
	allow_fini(&net->egress.allow);
	net->egress.allow = list;
	ask_recheck(net);
	flow_recheck(net);
	return 0;
}

/* The next of the texts behind a message. Return: NULL if it is not terminated. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, '\0', (size_t)(end - text));

	*at = zero ? zero + 1 : end;
	return zero ? text : NULL;
}

static int replace_policy(struct net *net, const struct net_policy_message *m, size_t len)
{
	const char *at = (const char *)(m + 1), *end = (const char *)m + len;
	struct net_policy all = {.ask = m->ask,
				 .ask_s = m->ask_s,
				 .learn = m->learn,
				 .most = m->most,
				 .used = m->used,
				 .rate = m->rate};
	const char *const allow = next_text(&at, end);
	struct egress egress, before = net->egress;
	char why[128];
	int r;

	all.first = next_text(&at, end);
	all.rules = next_text(&at, end);
	all.secrets = next_text(&at, end);
	if (!allow || !all.first || !all.rules || !all.secrets || at != end)
		return -EPROTO;
	r = egress_parse(allow, &all, &egress, why);
	if (r < 0)
		return r == -ENOMEM ? r : -EPROTO;
	net->egress = egress;
	net_prepare_kit(net);
	secrets_recheck(net, &before.uses);
	egress_fini(&before);
	ask_recheck(net);
	flow_recheck(net);
	return 0;
}

/* What changes when there is something to tell. */
static uint64_t sum_of(const struct net *net)
{
	return net->bytes_in + net->bytes_out + net->connections + net->budget.used.requests;
}

static int tell_stats(struct net *net)
{
	const struct net_stats msg = {
		.header = {.type = NET_STATS,
			   .id = (uint32_t)MIN(net->budget.used.requests, (uint64_t)UINT32_MAX)},
		.bytes_in = net->bytes_in,
		.bytes_out = net->bytes_out,
		.connections = net->connections,
		.denied = net->denied.total,
		.open = net->flows.count,
	};

	net->told.ms = ms_now(CLOCK_MONOTONIC);
	if (net_tell(net, &msg, sizeof(msg)) < 0)
		return 0; /* there is no room: it is told later */
	net->told.sum = sum_of(net);
	net->told.ended = false;
	return 0;
}

/* How long until it may be told. */
static int64_t due_in(const struct net *net)
{
	const int64_t since = ms_now(CLOCK_MONOTONIC) - net->told.ms;

	return MAX((net->told.ended ? TELL_ENDED_MS : TELL_MS) - since, (int64_t)0);
}

void control_prepare(const struct net *net, int *timeout_ms)
{
	if (net->goes && net->told.sum != sum_of(net))
		net_wake_at(timeout_ms, 0, due_in(net));
}

void control_run(struct net *net)
{
	if (net->goes && net->told.sum != sum_of(net) && due_in(net) == 0)
		(void)tell_stats(net);
}

/* Another daemon: what this one has answered is before it, what it had not read is behind the answer. */
static int resync(struct net *net, const struct net_resync *msg)
{
	const struct net_header done = {NET_RESYNCED, msg->header.id};
	int r;

	net->goes = true;
	forward_keep(net, msg->port);
	r = net_insist(net, &done, sizeof(done));
	if (r == 0)
		r = net_tell_authority(net);
	if (r == 0)
		r = ask_again(net);
	return r < 0 ? r : flow_dial_again(net);
}

static int read_secret(struct net *net, const struct net_secret *m, int fd)
{
	const size_t len = strnlen(m->name, sizeof(m->name));

	if (!secret_name_is_valid(m->name, len)) {
		if (fd >= 0)
			close(fd);
		return -EPROTO;
	}
	secrets_read(net, m->name, fd);
	return 0;
}

/* One message; @fd came with it or is -1. Takes over @fd. */
static int obey(struct net *net, const struct net_header *h, size_t len, int fd)
{
	const struct net_dialed *dialed = (const struct net_dialed *)h;

	if (len >= sizeof(*h) && h->type == NET_FORWARD)
		return forward_add(net, h->id, fd);
	if (len == sizeof(*dialed) && h->type == NET_DIALED) {
		flow_dialed(net, h->id, dialed->reason, fd);
		return 0;
	}
	if (len == sizeof(*h) && h->type == NET_TRUST) {
		if (net->trust >= 0)
			close(net->trust);
		net->trust = fd;
		return 0;
	}
	if (len == sizeof(struct net_secret) && h->type == NET_SECRET)
		return read_secret(net, (const struct net_secret *)h, fd);
	if (fd >= 0)
		close(fd);
	if (len < sizeof(*h))
		return -EPROTO;
	if (h->type == NET_ALLOW)
		return replace_list(net, (const char *)(h + 1), len - sizeof(*h));
	if (h->type == NET_POLICY && len >= sizeof(struct net_policy_message))
		return replace_policy(net, (const struct net_policy_message *)h, len);
	if (h->type == NET_DECIDED && len == sizeof(struct net_decided)) {
		ask_decide(net, h->id, ((const struct net_decided *)h)->allowed);
		return 0;
	}
	if (h->type == NET_UNFORWARD)
		return forward_remove(net, h->id);
	if (h->type == NET_RESYNC && len == sizeof(struct net_resync))
		return resync(net, (const struct net_resync *)h);
	if (h->type == NET_GO) {
		net->goes = true;
		return 0;
	}
	if (h->type == NET_ASK_STATS)
		return tell_stats(net);
	return -EPROTO;
}

int control_listen(struct net *net)
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
