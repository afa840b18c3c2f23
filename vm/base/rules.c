/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for requests: which may be made, by method, host and path. */
#include "rules.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_path.h"
#include "vm/base/util.h"
#include "vm/base/words.h"

static const char *const verbs[] = {
	[RULE_ALLOW] = "allow", [RULE_ASK] = "ask", [RULE_DENY] = "deny"};
static_assert(ARRAY_SIZE(verbs) == RULE_DENY + 1, "a word for each verb");

const char *rule_verb_str(enum rule_verb verb)
{
	return verbs[verb] ? verbs[verb] : "";
}

static bool is_method_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The names of methods in @word, as upper case, into @ret. Return: what is wrong with them, or NULL. */
static const char *parse_methods(const struct word *word, char *ret)
{
	size_t name = 0;

	if (word->len == 1 && word->text[0] == '*') {
		memcpy(ret, "*", 2);
		return NULL;
	}
	for (size_t i = 0; i <= word->len; i++) {
		char c = i < word->len ? word->text[i] : ',';

		if (c == ',') {
			if (name == 0)
				return "methods are names with commas between them, or *";
			name = 0;
			ret[i] = c;
			continue;
		}
		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		if (!is_method_char(c))
			return c == '*' ? "a * stands for all methods, alone"
					: "methods are names with commas between them, or *";
		if (++name > RULES_METHOD_MAX)
			return "no method has such a long name";
		ret[i] = c;
	}
	ret[word->len] = '\0';
	return NULL;
}

static int refuse(const struct word *word, size_t rule, const char *why, char ret_why[static 128])
{
	snprintf(ret_why, 128, "rule %zu: %.*s: %s", rule + 1, (int)MIN(word->len, 24), word->text,
		 why);
	return -EINVAL;
}

/* The next rule from @words into @ret_rule, its texts to *@text. Return: 1, 0 if there is none, or -EINVAL. */
static int parse_rule(struct words *words, size_t i, struct rule *ret_rule, char **text,
		      char ret_why[static 128])
{
	struct word verb, methods, place;
	char why[128];
	int r;

	if (!words_next(words, &verb))
		return 0;
	*ret_rule = (struct rule){.methods = *text};
	for (size_t v = RULE_ALLOW; v < ARRAY_SIZE(verbs); v++)
		if (word_is(&verb, verbs[v]))
			ret_rule->verb = (enum rule_verb)v;
	if (ret_rule->verb == RULE_NONE)
		return refuse(&verb, i, "a rule begins with allow, deny or ask", ret_why);
	if (!words_next(words, &methods) || !words_next(words, &place))
		return refuse(&verb, i,
			      "methods and a place follow, as in: deny * example.com/admin*",
			      ret_why);
	/* Who leaves one out, and has another rule behind, is told so, and not that its verb is a host. */
	for (size_t v = RULE_ALLOW; v < ARRAY_SIZE(verbs); v++)
		if (word_is(&methods, verbs[v]) || word_is(&place, verbs[v]))
			return refuse(
				&verb, i,
				"methods and a place follow, as in: deny * example.com/admin*",
				ret_why);
	if (parse_methods(&methods, *text))
		return refuse(&methods, i, parse_methods(&methods, *text), ret_why);
	*text += methods.len + 1;
	r = place_parse(place.text, place.len, *text, &ret_rule->place, why);
	if (r < 0) {
		snprintf(ret_why, 128, "rule %zu: %.110s", i + 1, why);
		return r;
	}
	*text += r;
	return 1;
}

int rules_parse(const char *text, size_t len, struct rules *ret_rules, char ret_why[static 128])
{
	struct words words = {.text = text, .len = len};
	struct rules rules = {0};
	const size_t nwords = words_count(&words), most = MIN(nwords / 3 + 1, RULES_MAX + 1u);
	char *to;
	int r;

	if (len > RULES_TEXT_MAX) {
		snprintf(ret_why, 128, "the rules are longer than %d bytes", RULES_TEXT_MAX);
		return -E2BIG;
	}
	rules.rule = calloc(most, sizeof(*rules.rule));
	rules.text = malloc(PLACE_STORE_SIZE(len) + most * 8);
	if (!rules.rule || !rules.text) {
		rules_fini(&rules);
		return -ENOMEM;
	}
	to = rules.text;
	for (;;) {
		struct rule rule;

		r = parse_rule(&words, rules.n, &rule, &to, ret_why);
		if (r <= 0)
			break;
		if (rules.n == RULES_MAX) {
			snprintf(ret_why, 128, "there are more than %d rules", RULES_MAX);
			r = -E2BIG;
			break;
		}
		rules.rule[rules.n++] = rule;
	}
	if (r < 0) {
		rules_fini(&rules);
		return r;
	}
	*ret_rules = rules;
	return 0;
}

void rules_fini(struct rules *rules)
{
	free(rules->rule);
	free(rules->text);
	*rules = (struct rules){0};
}

int rules_print(const struct rules *rules, size_t i, char *ret_text, size_t size)
{
	const struct rule *r = &rules->rule[i];

	return snprintf(ret_text, size, "%s %s %s", rule_verb_str(r->verb), r->methods,
			r->place.word);
}

bool rule_is_whole(const struct rule *r)
{
	return !strcmp(r->methods, "*") && !r->place.plain;
}

static bool has_host(const struct rule *r, const char *host, uint16_t port)
{
	/* As with an allow list, the host is reached only by who names it. */
	if (r->verb != RULE_DENY && r->place.host.kind != ALLOW_NAME && !strcmp(host, ALLOW_HOST))
		return false;
	return place_has_host(&r->place, host, port);
}

bool rules_have_method(const char *methods, const char *method)
{
	const size_t len = strlen(method);
	const char *at = methods;

	if (!strcmp(at, "*"))
		return true;
	for (;;) {
		const size_t n = strcspn(at, ",");

		if (n == len && !memcmp(at, method, n))
			return true;
		if (at[n] == '\0')
			return false;
		at += n + 1;
	}
}

struct rule_answer rules_judge(const struct rules *rules, const struct rule_question *q,
			       enum rule_verb otherwise)
{
	struct rule_answer plain = {.verb = otherwise}, bare = {.verb = otherwise};
	unsigned open = PLACE_BOTH;

	assert(otherwise != RULE_NONE);
	for (size_t i = 0; i < rules->n && open; i++) {
		const struct rule *r = &rules->rule[i];
		const struct rule_answer answer = {.verb = r->verb, .rule = (unsigned)i + 1};
		unsigned fit;

		if (!has_host(r, q->host, q->port) ||
		    !(q->path ? rules_have_method(r->methods, q->method) : rule_is_whole(r)))
			continue;
		fit = open;
		if (q->path)
			fit &= place_fitting(&r->place, q->path, r->verb != RULE_ALLOW);
		if (fit & PLACE_PLAIN)
			plain = answer;
		if (fit & PLACE_BARE)
			bare = answer;
		open &= ~fit;
	}
	return bare.verb > plain.verb ? bare : plain;
}

struct rule_reach rules_reach(const struct rules *rules, const char *host, uint16_t port)
{
	struct rule_reach reach = {0};

	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->rule[i];
		const bool every_port = r->place.host.kind == ALLOW_ALL && !r->place.host.port;

		if (!has_host(r, host, port))
			continue;
		reach.may_allow |= r->verb == RULE_ALLOW;
		reach.may_ask |= r->verb == RULE_ASK;
		if (!rule_is_whole(r) || (port == 0 && !every_port)) {
			reach.look = true;
			continue;
		}
		if (!reach.look)
			reach.answer =
				(struct rule_answer){.verb = r->verb, .rule = (unsigned)i + 1};
		break;
	}
	return reach;
}
