/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's network may be used for, told its filter; and what the filter tells of that. */
#include "gateway_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/buf.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

void gateway_touch(const struct gateway *gw)
{
	if (turn_is_on(gateway_turn(gw)) && gw->cfg.events->touched)
		gw->cfg.events->touched(gw->cfg.data);
}

bool gateway_is_text(const char *text, size_t size)
{
	const size_t len = strnlen(text, size);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return false;
	return len > 0 && len < size;
}

/* Printable, terminated, possibly empty. */
static bool is_word(const char *text, size_t size)
{
	return !*text || gateway_is_text(text, size);
}

int gateway_on_authority(struct gateway *gw, const struct net_authority *m)
{
	if (m->header.id == 0 || m->header.id > sizeof(m->der))
		return -EPROTO;
	if (gw->cfg.events->authority)
		gw->cfg.events->authority(gw->cfg.data, m->der, m->header.id);
	return 0;
}

/* Does a rule of the administrator's ask there, as the filter says? What that asks for may be allowed beyond what sessions may. */
static bool first_asks(const struct egress *e, const struct net_asked *m)
{
	const struct rule *r = m->rule && m->rule <= e->nfirst ? &e->rules.rule[m->rule - 1] : NULL;

	return m->first && r && r->verb == RULE_ASK && place_has_host(&r->place, m->host, m->port);
}

int gateway_on_asked(struct gateway *gw, const struct net_asked *m)
{
	struct net_asked asked = *m;
	int r;

	if (!is_word(m->method, sizeof(m->method)) ||
	    !gateway_is_text(m->scheme, sizeof(m->scheme)) ||
	    !gateway_is_text(m->host, sizeof(m->host)) || !is_word(m->path, sizeof(m->path)) ||
	    m->port == 0 || m->time_ms < 0 || m->until_ms < 0 || /* no record has such a time */
	    !allow_is_canonical(m->host))
		return -EPROTO;
	r = leaves_ask(&gw->leaves, m);
	asked.first = first_asks(&gw->egress, m);
	if (r == 0 && gw->cfg.events->asked)
		gw->cfg.events->asked(gw->cfg.data, &asked);
	return r;
}

int gateway_on_unasked(struct gateway *gw, const struct net_unasked *m)
{
	if (m->why >= NET_NUNASKED)
		return -EPROTO;
	leaves_decide(&gw->leaves, m->header.id, false);
	if (gw->cfg.events->unasked)
		gw->cfg.events->unasked(gw->cfg.data, m->header.id, m->why);
	return 0;
}

int gateway_on_logged(struct gateway *gw, const struct net_logged *m)
{
	if (m->reason >= NET_NREASONS || !is_word(m->method, sizeof(m->method)) ||
	    !gateway_is_text(m->scheme, sizeof(m->scheme)) ||
	    !is_word(m->version, sizeof(m->version)) ||
	    !gateway_is_text(m->host, sizeof(m->host)) || !is_word(m->path, sizeof(m->path)) ||
	    !is_word(m->secret, sizeof(m->secret)))
		return -EPROTO;
	if (m->header.id && m->header.id == gw->logged)
		return 0;
	gw->logged = m->header.id;
	if (gw->cfg.events->logged)
		gw->cfg.events->logged(gw->cfg.data, m);
	return 0;
}

int gateway_on_secret(struct gateway *gw, const struct net_secret_read *m)
{
	if (m->result >= NET_NSECRET_RESULTS ||
	    !secret_name_is_valid(m->name, strnlen(m->name, sizeof(m->name))))
		return -EPROTO;
	if (gw->cfg.events->secret)
		gw->cfg.events->secret(gw->cfg.data, m);
	return 0;
}

/* ---- said ---- */

static bool is_text(const char *text)
{
	return text && *text;
}

static bool is_budget(const struct net_budget *b)
{
	return b->bytes || b->requests || b->connections;
}

/* More than a list? */
static bool is_policy(const struct net_policy *p)
{
	return is_text(p->first) || is_text(p->rules) || is_text(p->secrets) || p->ask ||
	       p->learn || p->rate || is_budget(&p->most);
}

static int send_list(struct gateway *gw, const char *allow)
{
	const struct net_header h = {.type = NET_ALLOW};

	return packets_send(&gw->packets, &h, sizeof(h), allow, strlen(allow), -1);
}

static int send_policy(struct gateway *gw, const char *allow, const struct net_policy *p)
{
	const char *const texts[] = {allow, p->first, p->rules, p->secrets};
	const struct net_policy_message m = {
		.header = {.type = NET_POLICY},
		.ask = p->ask,
		.learn = p->learn,
		.ask_s = p->ask_s,
		.most = p->most,
		.used = p->used,
		.rate = p->rate,
	};
	struct buf tail = {0};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		(void)buf_append(&tail, texts[i] ? texts[i] : "",
				 texts[i] ? strlen(texts[i]) + 1 : 1);
	r = tail.failed ? tail.failed
			: packets_send(&gw->packets, &m, sizeof(m), tail.data, tail.len, -1);
	buf_clear(&tail);
	if (r == 0)
		gw->has_policy = true;
	return r;
}

int gateway_policy(struct gateway *gw, const char *allow, const struct net_policy *policy,
		   char ret_why[static VM_WHY_MAX])
{
	const bool more = gw->has_policy || is_policy(policy);
	struct egress egress;
	int r;

	if (more && gw->lists_only) {
		snprintf(ret_why, VM_WHY_MAX,
			 "this sandbox's network is of a version before, which knows only lists of "
			 "names");
		return -EOPNOTSUPP;
	}
	r = egress_parse(allow, policy, &egress, ret_why);
	if (r < 0)
		return r;
	r = more ? send_policy(gw, allow, policy) : send_list(gw, allow);
	if (r < 0) {
		egress_fini(&egress);
		return r;
	}
	egress_fini(&gw->egress);
	gw->egress = egress;
	gw->recheck(gw);
	return 0;
}

int gateway_allow(struct gateway *gw, const char *text, size_t len, char ret_why[static VM_WHY_MAX])
{
	const struct net_policy nothing = {0};
	_cleanup_free_ char *list = strndup(text, len);

	return list ? gateway_policy(gw, list, &nothing, ret_why) : -ENOMEM;
}

int gateway_trust(struct gateway *gw, int fd)
{
	const struct net_header h = {.type = NET_TRUST};
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : packets_send(&gw->packets, &h, sizeof(h), NULL, 0, copy);
}

int gateway_secret(struct gateway *gw, const char *name, int fd)
{
	struct net_secret m = {.header = {.type = NET_SECRET}};

	snprintf(m.name, sizeof(m.name), "%s", name);
	return packets_send(&gw->packets, &m, sizeof(m), NULL, 0, fd);
}

void gateway_decide(struct gateway *gw, uint32_t id, bool allowed)
{
	const struct net_decided m = {{NET_DECIDED, id}, allowed};

	gateway_touch(gw);
	leaves_decide(&gw->leaves, id, allowed);
	(void)packets_send(&gw->packets, &m, sizeof(m), NULL, 0, -1);
}
