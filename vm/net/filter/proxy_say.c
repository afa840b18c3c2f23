/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are looked into: what whoever reads them says to their sides. See proxy.c. */
#include "proxy.h"
#include "tls.h"

void proxy_say(struct proxy *p, enum side s, const void *bytes, size_t len)
{
	struct channel *c = &p->side[s];
	int r;

	if (p->broken || len == 0)
		return;
	if (!c->up)
		r = buf_append(&c->later, bytes, len);
	else if (!c->tls)
		r = buf_append(&c->out, bytes, len);
	else
		r = tls_write(c->tls, bytes, len);
	if (r < 0)
		p->broken = true;
}

void proxy_dial(struct proxy *p)
{
	p->dials = true;
}

void proxy_finish(struct proxy *p)
{
	p->over = true;
	for (int s = 0; s < 2; s++) {
		struct channel *c = &p->side[s];

		if (!c->tls || !c->up || (s == SIDE_GUEST && p->abrupt))
			continue;
		tls_end(c->tls);
	}
}

void proxy_cut(struct proxy *p)
{
	p->abrupt = true;
	proxy_finish(p);
}

void proxy_go_on(struct proxy *p)
{
	p->again = true;
}

static void say_to_guest(void *data, const void *bytes, size_t len)
{
	proxy_say(data, SIDE_GUEST, bytes, len);
}

void proxy_make_tunnel(struct proxy *p, struct exchange *x)
{
	/* What an asker was linked into is over by now. */
	p->tunnel = *x;
	p->tunnel.answered = NULL;
	*x = (struct exchange){.answered = x->answered};
	p->speech = PROXY_TUNNEL;
	cleanser_init(&p->cleanser, p, say_to_guest, p);
	p->cleanser.streams = true;
	proxy_go_on(p);
}
