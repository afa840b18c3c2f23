/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's network may be used for: rules, and which secrets go where. */
#include "ruleset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "vm/base/problem.h"
#include "vm/base/secret_list.h"
#include "vm/base/rules.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"

static const char rules_fix[] =
	"Write VERB METHODS PLACE, with allow, deny or ask, e.g. allow GET,HEAD "
	"api.example.com/v1*, or deny * example.com/admin*; the first that fits decides.";
static const char secrets_fix[] =
	"Write PLACE and how it goes there, and the secret's name, e.g. api.example.com bearer "
	"NAME; also basic USER NAME, header HEADER NAME, query KEY NAME, placeholder NAME.";

/* A list of either kind. */
struct list {
	enum ruleset_kind kind;
	union {
		struct rules rules;
		struct secret_uses uses;
	};
};

static const char *name_of(enum ruleset_kind kind)
{
	return kind == RULESET_RULES ? "rules" : "secrets";
}

static const char **text_at(struct settings *s, enum ruleset_kind kind)
{
	return kind == RULESET_RULES ? &s->spec.policy.rules : &s->spec.policy.secrets;
}

const char *ruleset_text(const struct settings *s, enum ruleset_kind kind)
{
	return *text_at((struct settings *)s, kind);
}

static int list_parse(struct list *list, enum ruleset_kind kind, const char *text, size_t len,
		      char words[static 128])
{
	*list = (struct list){.kind = kind};
	return kind == RULESET_RULES ? rules_parse(text, len, &list->rules, words)
				     : secret_uses_parse(text, len, &list->uses, words);
}

static void list_fini(struct list *list)
{
	if (list->kind == RULESET_RULES)
		rules_fini(&list->rules);
	else
		secret_uses_fini(&list->uses);
}

static size_t list_n(const struct list *list)
{
	return list->kind == RULESET_RULES ? list->rules.n : list->uses.n;
}

static int list_print(const struct list *list, size_t i, char *text, size_t size)
{
	return list->kind == RULESET_RULES ? rules_print(&list->rules, i, text, size)
					   : secret_uses_print(&list->uses, i, text, size);
}

/* Appends them all, with @end behind each. Return: as buf_append(). */
static int list_render(const struct list *list, const char *end, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < list_n(list) && r >= 0; i++) {
		const int n = list_print(list, i, NULL, 0);
		_cleanup_free_ char *text = n < 0 ? NULL : malloc((size_t)n + 1);

		if (!text)
			return -ENOMEM;
		list_print(list, i, text, (size_t)n + 1);
		r = buf_printf(out, "%s%s", text, end);
	}
	return r;
}

/* What the words quote may be of any bytes. */
static int refuse(struct problem *why, enum ruleset_kind kind, int e, char *words)
{
	for (char *c = words; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return problem_set(why, e == -E2BIG ? PROBLEM_TOO_LONG : PROBLEM_INVALID,
			   kind == RULESET_RULES ? rules_fix : secrets_fix, "%s: %s", name_of(kind),
			   words);
}

/* The canonical text of one that is valid. Return: 0 or -ENOMEM. */
static int print_all(const struct list *list, char **ret_text)
{
	struct buf all = {0};
	int r = list_render(list, " ", &all);

	if (r >= 0 && all.len)
		r = buf_truncate(&all, all.len - 1);
	if (r >= 0) {
		*ret_text = strdup(buf_str(&all));
		r = *ret_text ? 0 : -ENOMEM;
	}
	buf_clear(&all);
	return r;
}

/* Hosts of rules that allow or ask must be as those of `allow` must be: makes such a list of them. */
static int check_hosts(const struct rules *rules, const struct settings_limits *limits,
		       struct problem *why)
{
	struct buf hosts = {0};
	int r = 0;

	for (size_t i = 0; i < rules->n && r >= 0; i++) {
		const struct rule *rule = &rules->rule[i];

		if (rule->verb != RULE_DENY)
			r = buf_printf(&hosts, "%.*s ", (int)strcspn(rule->place.word, "/"),
				       rule->place.word);
	}
	if (r >= 0)
		r = netset_check_hosts("rules", buf_str(&hosts), limits, why);
	buf_clear(&hosts);
	return r;
}

static int set(struct settings *s, enum ruleset_kind kind, const char *text, size_t len,
	       const struct settings_limits *limits, struct problem *why)
{
	struct list list;
	char words[128] = "", *canonical = NULL;
	int r = list_parse(&list, kind, text, len, words);

	if (r == -EINVAL || r == -E2BIG)
		return refuse(why, kind, r, words);
	if (r < 0)
		return r;
	if (kind == RULESET_RULES && limits)
		r = check_hosts(&list.rules, limits, why);
	if (r == 0)
		r = print_all(&list, &canonical);
	list_fini(&list);
	if (r < 0)
		return r;
	free((char *)*text_at(s, kind));
	*text_at(s, kind) = canonical;
	return 0;
}

int ruleset_rules(struct settings *s, const char *text, size_t len,
		  const struct settings_limits *limits, struct problem *why)
{
	return set(s, RULESET_RULES, text, len, limits, why);
}

int ruleset_secrets(struct settings *s, const char *text, size_t len, struct problem *why)
{
	return set(s, RULESET_SECRETS, text, len, NULL, why);
}

/* Rules and those of the administrator's that come first are one list to who judges by them. */
static int check_together(const char *first, const char *rules, struct problem *why)
{
	_cleanup_free_ char *all = NULL;
	struct list list;
	char words[128] = "";
	int r;

	if (asprintf(&all, "%s\n%s", first, rules) < 0) {
		all = NULL;
		return -ENOMEM;
	}
	r = list_parse(&list, RULESET_RULES, all, strlen(all), words);
	if (r == 0)
		list_fini(&list);
	return r == -E2BIG
		       ? problem_set(why, PROBLEM_TOO_LONG, rules_fix,
				     "rules: with those that the administrator has put first: %s",
				     words)
		       : r;
}

int ruleset_check(const struct settings *s, const struct settings_limits *limits,
		  struct problem *why)
{
	const struct net_policy *p = &s->spec.policy;
	struct list list;
	char words[128] = "";
	int r;

	if (!s->spec.network && (*p->rules || *p->secrets))
		return problem_set(why, PROBLEM_NETWORK_OFF,
				   "Write network = on as well; or leave it empty.",
				   "%s: nothing can be reached but with network = on",
				   name_of(*p->rules ? RULESET_RULES : RULESET_SECRETS));
	r = list_parse(&list, RULESET_RULES, p->rules, strlen(p->rules), words);
	if (r < 0)
		return r == -ENOMEM ? r : refuse(why, RULESET_RULES, r, words);
	if (limits)
		r = check_hosts(&list.rules, limits, why);
	if (r == 0 && limits && limits->first_rules && *p->rules)
		r = check_together(limits->first_rules, p->rules, why);
	list_fini(&list);
	return r;
}

/* May it go to the host of @use? Return: 0, -EINVAL, -ENOMEM. */
static int check_place(const struct secret_use *use, const struct vm_secret *secret,
		       const struct settings_limits *limits, struct problem *why)
{
	const struct allow_entry *host = &use->place.host;
	struct allow hosts;
	char entry[ALLOW_NAME_MAX + 16], words[VM_WHY_MAX];
	int r = allow_parse(secret->hosts, strlen(secret->hosts), &hosts, words);
	bool named;

	if (r < 0)
		return r == -ENOMEM ? r : -EINVAL;
	named = allow_name(&hosts, host->name, host->port) != ALLOW_REFUSED;
	allow_fini(&hosts);
	snprintf(entry, sizeof(entry), "%s%s:%u", host->kind == ALLOW_BELOW ? "*." : "", host->name,
		 host->port);
	/* This machine is no matter of the comparison of lists. */
	if (!strcmp(host->name, ALLOW_HOST))
		r = named ? 0 : -EPERM;
	else
		r = vm_allow_permitted(entry, strlen(entry), secret->hosts, &limits->host_ports,
				       words);
	if (r == 0 || r == -ENOMEM)
		return r;
	return problem_set(
		why, PROBLEM_NOT_ALLOWED,
		"Name a host that the secret may be sent to; `hosts` of [secret NAME] in "
		"xsbxfs.conf says which these are.",
		"secrets: %s may not be sent to %s", secret->name, entry);
}

static int check_use(const struct secret_use *use, const struct vm_secrets *secrets, bool own_file,
		     const struct settings_limits *limits, uid_t uid, uid_t mounter,
		     struct problem *why)
{
	const struct vm_secret *secret = secret_list_find(secrets, use->name);

	if (secret && secret_is_for(secret, uid, mounter))
		return own_file ? 0 : check_place(use, secret, limits, why);
	if (own_file)
		return 0;
	return problem_set(why, PROBLEM_NOT_ALLOWED,
			   "Ask the administrator for [secret NAME] in xsbxfs.conf; or have a file "
			   "of your own: secrets_file = /path.",
			   "secrets: there is no secret \"%s\" for you", use->name);
}

int ruleset_may_use(const struct settings *s, const struct vm_secrets *secrets,
		    const struct settings_limits *limits, uid_t uid, uid_t mounter,
		    struct problem *why)
{
	const struct net_policy *p = &s->spec.policy;
	struct secret_uses uses;
	char words[128];
	int r = secret_uses_parse(p->secrets, strlen(p->secrets), &uses, words);

	if (r < 0)
		return r == -ENOMEM ? r : refuse(why, RULESET_SECRETS, r, words);
	for (size_t i = 0; i < uses.n && r == 0; i++)
		r = check_use(&uses.use[i], secrets, *p->secrets_file, limits, uid, mounter, why);
	secret_uses_fini(&uses);
	return r;
}

int ruleset_render(const struct settings *s, enum ruleset_kind kind, struct buf *out)
{
	const char *const text = ruleset_text(s, kind);
	struct list list;
	char words[128];
	int r = list_parse(&list, kind, text, strlen(text), words);

	if (r < 0)
		return r;
	r = list_render(&list, "\n", out);
	list_fini(&list);
	return r;
}
