/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, on the host's side. See lease.h. */
#include "lease.h"

#include <errno.h>

#include "file_wire.h"
#include "vm/base/util.h"

/* Requests before a lease is asked for, and again after a refusal; each doubles that. */
#define LEASE_AFTER  4
#define LEASE_AGAIN  32
#define LEASE_SELDOM 1024

void lease_init(struct guest_lease *l, struct channel *channel)
{
	l->channel = channel;
	known_init(&l->known);
}

/* It is true only as long as nothing was sent that makes code run. */
struct known *lease_known(struct guest_lease *l)
{
	if (l->known.leased && l->commands != l->channel->commands)
		known_end(&l->known);
	return &l->known;
}

void lease_want(struct guest_lease *l)
{
	(void)lease_known(l);
	if (l->commands != l->channel->commands) {
		l->commands = l->channel->commands;
		l->asked = false;
		l->requests = 0;
		l->patience = LEASE_AFTER;
	}
	if (l->known.leased || l->asked || ++l->requests < l->patience)
		return;
	l->asked = channel_send(l->channel, PROTO_LEASE, ++l->number, NULL, 0) == 0;
}

int lease_on_leased(struct guest_lease *l, uint32_t id, struct proto_in *in)
{
	const uint32_t yes = get_u32(in);

	if (!get_end(in) || yes > 1)
		return -EPROTO;
	/* What was sent since the question is behind it. */
	if (!l->asked || id != l->number || l->commands != l->channel->commands)
		return 0;
	l->asked = false;
	if (yes) {
		known_begin(&l->known);
		return 0;
	}
	l->requests = 0;
	l->patience = MIN(MAX(l->patience * 2, (unsigned)LEASE_AGAIN), (unsigned)LEASE_SELDOM);
	return 0;
}

int lease_on_unleased(struct guest_lease *l, struct proto_in *in)
{
	known_end(&l->known);
	l->requests = 0;
	return get_end(in) ? 0 : -EPROTO;
}

int lease_on_noted(struct guest_lease *l, struct proto_in *in)
{
	const uint64_t node = get_u64(in);
	struct vm_attr attr;
	const int r = file_wire_attr(in, &attr);

	if (!get_end(in))
		return -EPROTO;
	if (r == 0 && node)
		known_attr(lease_known(l), node, &attr);
	return 0;
}

int lease_on_content(struct guest_lease *l, struct proto_in *in)
{
	const uint64_t handle = get_u64(in);
	const struct proto_str bytes = get_rest(in);

	if (in->bad || bytes.len > PROTO_CONTENT_MAX)
		return -EPROTO;
	known_content(lease_known(l), handle, bytes.data, bytes.len);
	return 0;
}
