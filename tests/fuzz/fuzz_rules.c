/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes rules, uses of secrets and files of them: what is accepted is printed as it would be written, and decides alike. */
/* modules: vm/base/buf.c vm/base/rules.c vm/base/secret_use.c vm/base/secret_list.c vm/base/place.c vm/base/http_path.c vm/base/allow.c vm/base/words.c */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vm/base/http_path.h"
#include "vm/base/rules.h"
#include "vm/base/secret_list.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"

#define LINE_MAX_SIZE (PLACE_WORD_MAX + RULES_TEXT_MAX + 64)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct rules *rules, size_t i)
{
	static struct http_path path;
	const struct rule *r = &rules->rule[i];
	const struct rule_question q = {.method = "GET",
					.host = r->place.host.name[0] ? r->place.host.name
								      : "a.test",
					.port = r->place.host.port ? r->place.host.port : 443,
					.path = &path};
	const struct rule_reach reach = rules_reach(rules, q.host, q.port);
	struct rule_answer answer;

	assert(http_path_read("/v1/x", 5, &path) == 0);
	answer = rules_judge(rules, &q, RULE_DENY);
	assert(answer.rule <= rules->n && answer.verb != RULE_NONE);
	if (answer.rule)
		assert(answer.verb == rules->rule[answer.rule - 1].verb);
	if (!reach.look && reach.answer.rule)
		assert(answer.rule == reach.answer.rule && answer.verb == reach.answer.verb);
	if (answer.rule && answer.verb != RULE_DENY)
		assert(reach.may_allow || reach.may_ask);
}

static void fuzz_rules(const char *text, size_t size)
{
	static char line[LINE_MAX_SIZE], again[LINE_MAX_SIZE];
	char why[128] = "";
	struct rules rules, one;

	if (rules_parse(text, size, &rules, why) < 0) {
		assert(why[0] && strlen(why) < sizeof(why));
		return;
	}
	for (size_t i = 0; i < rules.n; i++) {
		const int n = rules_print(&rules, i, line, sizeof(line));

		assert(n > 0 && (size_t)n < sizeof(line));
		assert(rules_parse(line, (size_t)n, &one, why) == 0 && one.n == 1);
		rules_print(&one, 0, again, sizeof(again));
		assert(!strcmp(line, again));
		rules_fini(&one);
		judge(&rules, i);
	}
	rules_fini(&rules);
}

static void fuzz_uses(const char *text, size_t size)
{
	static char line[LINE_MAX_SIZE];
	char why[128] = "";
	struct secret_uses uses, one;

	if (secret_uses_parse(text, size, &uses, why) < 0) {
		assert(why[0] && strlen(why) < sizeof(why));
		return;
	}
	for (size_t i = 0; i < uses.n; i++) {
		const int n = secret_uses_print(&uses, i, line, sizeof(line));

		assert(n > 0 && (size_t)n < sizeof(line));
		assert(secret_uses_parse(line, (size_t)n, &one, why) == 0 && one.n == 1);
		assert(!strcmp(one.use[0].name, uses.use[i].name));
		secret_uses_fini(&one);
	}
	secret_uses_fini(&uses);
}

/* An owner's file: what it takes has what it needs. */
static void fuzz_list(const char *text, size_t size)
{
	char why[128] = "";
	struct vm_secrets list;

	if (secret_list_parse(text, size, &list, why) < 0) {
		assert(why[0] && strlen(why) < sizeof(why));
		return;
	}
	for (size_t i = 0; i < list.n; i++) {
		const struct vm_secret *s = &list.secret[i];

		assert(secret_name_is_valid(s->name, strlen(s->name)));
		assert(s->argument[0] == '/' && s->hosts[0] && !s->nusers);
		assert(s->from == VM_SECRET_FILE || s->from == VM_SECRET_COMMAND);
		assert(secret_list_find(&list, s->name) == s);
	}
	secret_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_rules((const char *)data, size);
	fuzz_uses((const char *)data, size);
	fuzz_list((const char *)data, size);
	return 0;
}
