/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for requests: which may be made, by method, host and path. */
#ifndef XSBX_VM_BASE_RULES_H
#define XSBX_VM_BASE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place.h"

struct http_path;

/*
 * A rule is three words, `VERB METHODS PLACE`; # starts a comment that ends with the line. Rules are separated by newlines or
 * blanks, so that a list can stand on one line; as text they are shown one a line.
 *
 *	allow GET,HEAD api.example.com/v1*
 *	deny * example.com/admin*
 *	ask POST *.example.org
 *
 * METHODS are names of methods, separated by commas, or *. WEBSOCKET is a method, too: a request to switch to that protocol; and
 * GET is not one. A place that is * or *.NAME is host.internal only to rules that deny.
 *
 * The first rule that fits a request decides. Where none fits, the allow list does (see vm/base/allow.h). A rule with the
 * methods * and without a path fits every connection to its host and port, whatever is spoken there; other rules fit requests of
 * HTTP alone, and to know these, connections to their hosts are looked into.
 */
#define RULES_TEXT_MAX	 32768
#define RULES_MAX	 512
#define RULES_WEBSOCKET	 "WEBSOCKET"

/* Bytes of a method's name: letters, digits, - and _. */
#define RULES_METHOD_MAX 32

/* The later, the stricter. */
enum rule_verb { RULE_NONE, RULE_ALLOW, RULE_ASK, RULE_DENY };

struct rule {
	enum rule_verb verb;
	const char *methods; /* as written, in upper case; or "*" */
	struct place place;
};

/* All zeroes is a valid list without rules. */
struct rules {
	struct rule *rule;
	size_t n;
	char *text;
};

/**
 * rules_parse() - Parse a list of rules
 * @text: Its text; need not be terminated
 * @len: Length in bytes
 * @ret_rules: Result; release it with rules_fini(). Untouched on failure
 * @ret_why: Human-readable reason if -EINVAL or -E2BIG is returned
 *
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM.
 */
int rules_parse(const char *text, size_t len, struct rules *ret_rules, char ret_why[static 128]);

void rules_fini(struct rules *rules);

/* The word for a verb that is not RULE_NONE. */
const char *rule_verb_str(enum rule_verb verb);

/* Does @r decide on whole connections, whatever is spoken there? */
bool rule_is_whole(const struct rule *r);

/* Is @method one of a rule's @methods? */
bool rules_have_method(const char *methods, const char *method);

/* Writes rule @i as text, without a newline. Return: as snprintf(). */
int rules_print(const struct rules *rules, size_t i, char *ret_text, size_t size);

/* What is asked for. */
struct rule_question {
	const char *method; /* WEBSOCKET for one; in upper case, as it came */
	const char *host;   /* canonical name, or an address as text */
	uint16_t port;
	const struct http_path
		*path; /* NULL: no HTTP is spoken, and only rules with * and without a path fit */
};

/* @rule: its index plus one, 0: none fits. */
struct rule_answer {
	enum rule_verb verb;
	unsigned rule;
};

/**
 * rules_judge() - Which rule decides on a request?
 * @rules: Rules
 * @q: Request
 * @otherwise: The verdict where no rule fits; not RULE_NONE
 *
 * Each reading of the path is judged, and the stricter verdict counts. Rules that deny or ask fit a path in any case of letters,
 * those that allow in the one written.
 */
struct rule_answer rules_judge(const struct rules *rules, const struct rule_question *q,
			       enum rule_verb otherwise);

/* What can be said of a connection before a request is seen. */
struct rule_reach {
	bool look; /* it depends on the request (or on the port, if that is 0): the connection has to be looked into */
	bool may_allow, may_ask;   /* some request may be, as far as these rules go */
	struct rule_answer answer; /* if not `look`: the verdict, and RULE_NONE if no rule fits */
};

/* Likewise, for any connection to @host and @port (0: any port). */
struct rule_reach rules_reach(const struct rules *rules, const char *host, uint16_t port);

#endif
