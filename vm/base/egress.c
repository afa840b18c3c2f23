/* SPDX-License-Identifier: Apache-2.0 */
/* What may be reached and asked for: the allow list, rules, leave. */
#include "egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "util.h"

static int parse_rules(const struct net_policy *all, struct egress *p, char *why)
{
	const char *first = all->first ? all->first : "", *own = all->rules ? all->rules : "";
	_cleanup_free_ char *text = NULL;
	int r = rules_parse(first, strlen(first), &p->rules, why);

	if (r < 0)
		return r;
	p->nfirst = (unsigned)p->rules.n;
	rules_fini(&p->rules);
	if (asprintf(&text, "%s\n%s", first, own) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return rules_parse(text, strlen(text), &p->rules, why);
}

int egress_parse(const char *allow, const struct net_policy *all, struct egress *ret_egress,
		 char ret_why[static 128])
{
	const char *secrets = all->secrets ? all->secrets : "";
	struct egress p = {.all = *all};
	int r;

	p.all.first = p.all.rules = p.all.secrets = p.all.secrets_file = NULL;
	r = allow_parse(allow, strlen(allow), &p.allow, ret_why);
	if (r == 0)
		r = parse_rules(all, &p, ret_why);
	if (r == 0)
		r = secret_uses_parse(secrets, strlen(secrets), &p.uses, ret_why);
	if (r < 0) {
		egress_fini(&p);
		return r;
	}
	*ret_egress = p;
	return 0;
}

void egress_fini(struct egress *p)
{
	allow_fini(&p->allow);
	rules_fini(&p->rules);
	secret_uses_fini(&p->uses);
	*p = (struct egress){0};
}

static enum allow_verdict listed(const struct egress *p, const char *host, uint32_t address,
				 uint16_t port)
{
	if (!address)
		return allow_name(&p->allow, host, port);
	return allow_literal(&p->allow, address, port) ||
			       (allow_everything(&p->allow, port) && address_is_public4(address))
		       ? ALLOW_FREE
		       : ALLOW_REFUSED;
}

/* Where no rule says anything. Who learns gets what is public: this machine is not. */
static enum rule_verb otherwise(const struct egress *p, enum allow_verdict listed_as,
				const char *host, uint32_t address)
{
	if (listed_as != ALLOW_REFUSED)
		return RULE_ALLOW;
	if (p->all.learn && (address ? address_is_public4(address) : strcmp(host, ALLOW_HOST) != 0))
		return RULE_ALLOW;
	return p->all.ask && (!address || address_is_public4(address)) ? RULE_ASK : RULE_DENY;
}

struct verdict egress_judge(const struct egress *p, const char *method, const char *host,
			    uint32_t address, uint16_t port, const struct http_path *path)
{
	const struct rule_question q = {method, host, port, path};
	const enum rule_verb rest = otherwise(p, listed(p, host, address, port), host, address);
	const struct rule_answer a = rules_judge(&p->rules, &q, rest);
	const bool first = a.rule && a.rule <= p->nfirst;

	return (struct verdict){a.verb, a.rule && !first ? a.rule - p->nfirst : a.rule, first};
}

/* Does a rule that names the host allow whatever is spoken there? */
static bool is_free(const struct egress *p, const struct verdict *v)
{
	const size_t i = v->rule + (v->first ? 0 : p->nfirst);

	return v->rule && v->verb == RULE_ALLOW &&
	       p->rules.rule[i - 1].place.host.kind != ALLOW_ALL;
}

struct prospect egress_foresee(const struct egress *p, const char *host, uint32_t address,
			       uint16_t port)
{
	const struct rule_reach reach = rules_reach(&p->rules, host, port);
	const enum allow_verdict listed_as = listed(p, host, address, port);
	const bool rest = otherwise(p, listed_as, host, address) == RULE_ALLOW;
	struct prospect f = {.guarded = !address && listed_as != ALLOW_FREE};

	f.verdict = egress_judge(p, "", host, address, port, NULL);
	f.may = f.verdict.verb == RULE_ALLOW || (reach.look && (reach.may_allow || rest));
	f.asks = f.verdict.verb == RULE_ASK || (reach.look && reach.may_ask);
	f.look = reach.look || (f.may && secret_uses_have_host(&p->uses, host, port));
	f.loose = f.may && !f.guarded && !f.look;
	f.no_proxy = f.loose && p->rules.n && !is_free(p, &f.verdict);
	return f;
}

bool egress_resolves(const struct egress *p, const char *host)
{
	if (otherwise(p, listed(p, host, 0, 0), host, 0) != RULE_DENY)
		return true;
	for (size_t i = 0; i < p->rules.n; i++)
		if (p->rules.rule[i].verb != RULE_DENY &&
		    place_has_host(&p->rules.rule[i].place, host, 0))
			return true;
	return false;
}

bool egress_names(const struct egress *p, const char *host, uint16_t port)
{
	if (allow_name(&p->allow, host, port) == ALLOW_GUARDED)
		return true;
	for (size_t i = 0; i < p->rules.n; i++) {
		const struct rule *r = &p->rules.rule[i];

		if (r->verb == RULE_ALLOW && r->place.host.kind != ALLOW_ALL &&
		    place_has_host(&r->place, host, port))
			return true;
	}
	return false;
}

size_t egress_addresses(const struct egress *p, uint16_t port,
			uint32_t ret_addresses[static ALLOW_ENTRIES_MAX])
{
	size_t n = allow_addresses(&p->allow, port, ret_addresses);

	for (size_t i = 0; i < p->rules.n && n < ALLOW_ENTRIES_MAX; i++) {
		const struct rule *r = &p->rules.rule[i];

		if (r->verb == RULE_ALLOW && r->place.host.kind == ALLOW_ADDRESS &&
		    place_has_host(&r->place, r->place.host.name, port))
			ret_addresses[n++] = r->place.host.address;
	}
	return n;
}

void egress_print_rule(const struct egress *p, const struct verdict *v, char *ret_text, size_t size)
{
	const size_t i = v->rule + (v->first ? 0 : p->nfirst);

	*ret_text = '\0';
	if (v->rule && i <= p->rules.n)
		(void)rules_print(&p->rules, i - 1, ret_text, size);
}
