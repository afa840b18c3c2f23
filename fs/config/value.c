/* SPDX-License-Identifier: Apache-2.0 */
/* Parses, checks and prints values of keys. */
#include "value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>

#include "settings.h"
#include "vm/base/allow.h"
#include "vm/base/problem.h"
#include "vm/base/rules.h"
#include "vm/base/upstream.h"

/* A value that is read: of which key, where it is put, and where it is said what is wrong with it. */
struct value {
	const struct key *k;
	void *at;
	const char *text;
	const struct key_context *ctx;
	struct problem *why;
};

static int invalid(const struct value *v, const char *fix, const char *what)
{
	return problem_set(v->why, PROBLEM_INVALID, fix, "%s: \"%s\" %s", v->k->name,
			   problem_quote(v->text).text, what);
}

/* ---- numbers ---- */

/* Digits. Return: what is behind them; NULL if there are none, or too many. */
static const char *read_digits(const char *text, uint64_t *ret_number)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; isdigit((unsigned char)text[i]); i++) {
		if (i == 18)
			return NULL;
		n = n * 10 + (unsigned)(text[i] - '0');
	}
	*ret_number = n;
	return i > 0 ? text + i : NULL;
}

/* A number of whichever size. */
static uint64_t number_at(const struct key *k, const void *at)
{
	return k->type == KEY_NUMBER ? *(const unsigned *)at : *(const uint64_t *)at;
}

static void put_number(const struct key *k, void *at, uint64_t n)
{
	if (k->type == KEY_NUMBER)
		*(unsigned *)at = (unsigned)n;
	else
		*(uint64_t *)at = n;
}

/* As it is written. */
struct digits {
	char text[24];
};

static struct digits write_number(const struct key *k, uint64_t n)
{
	static const char suffixes[] = "TGMK";
	struct digits d;

	for (unsigned i = 0; k->type == KEY_SIZE && n && i < 4; i++) {
		const unsigned shift = 40 - 10 * i;

		if (n % (1ull << shift))
			continue;
		snprintf(d.text, sizeof(d.text), "%" PRIu64 "%c", n >> shift, suffixes[i]);
		return d;
	}
	snprintf(d.text, sizeof(d.text), "%" PRIu64, n);
	return d;
}

static uint64_t limit_of(const struct key *k, const struct settings_limits *limits)
{
	return limits && k->limit ? number_at(k, (const char *)limits + k->limit) : 0;
}

/* Is it more than @limit, if there is one? */
static bool exceeds(const struct key *k, uint64_t n, uint64_t limit)
{
	return limit && (n > limit || ((k->flags & KEY_ENDLESS) && n == 0));
}

/* Return: 0, or -EINVAL if @n is more than is allowed. */
static int check_limit(const struct key *k, uint64_t n, const struct settings_limits *limits,
		       struct problem *why)
{
	const bool endless = k->flags & KEY_ENDLESS;
	const uint64_t limit = limit_of(k, limits);
	char fix[256];

	if (!exceeds(k, n, limit))
		return 0;
	snprintf(fix, sizeof(fix),
		 "Write %s = %s or less%s; the limit is set under [limits] in xsbxfs.conf.",
		 k->name, write_number(k, limit).text, endless ? " (0 would be without end)" : "");
	return problem_set(why, PROBLEM_LIMIT, fix,
			   "%s: %s is more than the administrator allows, which is %s", k->name,
			   write_number(k, n).text, write_number(k, limit).text);
}

static int refuse_number(const struct value *v, const char *what)
{
	const struct key *k = v->k;
	const bool bound = k->section == CONF_LIMITS;
	char fix[256];

	snprintf(fix, sizeof(fix), "Write a whole number from %u to %u without a unit, %s%s%s%s.",
		 k->min, k->max, bound ? "or 0 for no limit" : "e.g. ", bound ? "" : k->name,
		 bound ? "" : " = ", bound ? "" : k->standard);
	return problem_set(v->why, PROBLEM_INVALID, fix, "%s: %s", k->name, what);
}

static int set_number(const struct value *v)
{
	const struct key *k = v->k;
	uint64_t n;
	const char *rest = read_digits(v->text, &n);
	char what[96];
	int r;

	snprintf(what, sizeof(what), "\"%s\" is not a whole number", problem_quote(v->text).text);
	if (rest && !*rest)
		snprintf(what, sizeof(what), "%" PRIu64 " is too %s", n,
			 n < k->min ? "small" : "large");
	if (!rest || *rest || n > k->max || (n < k->min && (n || k->section != CONF_LIMITS)))
		return refuse_number(v, what);
	r = check_limit(k, n, v->ctx->limits, v->why);
	if (r == 0)
		put_number(k, v->at, n);
	return r;
}

int value_fit(const struct key *k, void *at, const struct settings_limits *limits,
	      struct problem *why)
{
	uint64_t standard = 0, n = number_at(k, at);
	int r = check_limit(k, n, limits, why);

	if (r == 0 || !read_digits(k->standard, &standard) || n != standard)
		return r;
	put_number(k, at, limit_of(k, limits));
	return 0;
}

bool value_lower(const struct key *k, void *at, const struct settings_limits *limits)
{
	const uint64_t limit = limit_of(k, limits);

	if (!exceeds(k, number_at(k, at), limit))
		return false;
	put_number(k, at, limit);
	return true;
}

static int set_size(const struct value *v)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	uint64_t n;
	const char *rest = read_digits(v->text, &n);
	unsigned shift = 0;
	char what[64];

	suffix = rest && *rest ? strchr(suffixes, toupper((unsigned char)*rest)) : NULL;
	if (suffix) {
		shift = 10u * (unsigned)(suffix - suffixes + 1);
		rest += strcmp(rest + 1, "iB") == 0 ? 3 : 1;
	}
	if (rest && !*rest && n <= ((uint64_t)v->k->max << 20) >> shift) {
		const int r = check_limit(v->k, n << shift, v->ctx->limits, v->why);

		if (r == 0)
			put_number(v->k, v->at, n << shift);
		return r;
	}
	snprintf(what, sizeof(what), "is not a size up to %uM", v->k->max);
	return invalid(v, "Write bytes, or a number with K, M, G or T behind it, e.g. 64M.", what);
}

static int set_host_ports(const struct value *v)
{
	struct vm_host_ports read = {0};
	_cleanup_free_ char *copy = strdup(v->text);
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (const char *word = strtok_r(copy, " \t,", &save); word;
	     word = strtok_r(NULL, " \t,", &save)) {
		if (read.n == VM_HOST_PORTS_MAX)
			return problem_set(v->why, PROBLEM_INVALID, "", "%s: more than %d ports",
					   v->k->name, VM_HOST_PORTS_MAX);
		if (allow_port(word, strlen(word), &read.port[read.n++]) < 0)
			return invalid(&(struct value){.k = v->k, .text = word, .why = v->why}, "",
				       "is no port: a number from 1 to 65535");
	}
	*(struct vm_host_ports *)v->at = read;
	return 0;
}

/* ---- one of several ---- */

int value_word(const struct key *k, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->words) && k->words[i]; i++) {
		if (strcmp(k->words[i], value) == 0)
			return (int)i;
	}
	return -EINVAL;
}

/* What else may be written for "yes" and "on", behind what for "no" and "off". */
static int read_flag(const char *text)
{
	static const char *const words[] = {"no", "yes", "off", "on", "false", "true", "0", "1"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(text, words[i]) == 0)
			return i % 2;
	}
	return -EINVAL;
}

static int refuse_word(const struct value *v)
{
	const char *const *w = v->k->words;
	const bool flag = v->k->type == KEY_FLAG, yes = strcmp(w[0], "no") == 0;
	char list[64] = "", fix[128] = "", what[128];

	for (size_t i = 0; w[i]; i++) {
		const size_t len = strlen(list);

		snprintf(list + len, sizeof(list) - len, "%s%s",
			 i == 0	    ? ""
			 : w[i + 1] ? ", "
				    : " or ",
			 w[i]);
	}
	if (flag)
		snprintf(fix, sizeof(fix), "Write %s or %s (or %s, true, false).", w[1], w[0],
			 yes ? "on, off" : "yes, no");
	else if (v->k->section == CONF_SESSION)
		snprintf(fix, sizeof(fix), "Write %s = %s.", v->k->name, list);
	if (flag || v->k->type == KEY_SWITCH)
		snprintf(what, sizeof(what), "is neither %s nor %s", w[flag], w[!flag]);
	else
		snprintf(what, sizeof(what), "is not %s", list);
	return invalid(v, fix, what);
}

static int set_word(const struct value *v)
{
	const int i = v->k->type == KEY_FLAG ? read_flag(v->text) : value_word(v->k, v->text);

	if (i < 0)
		return refuse_word(v);
	if (v->k->type == KEY_WORD)
		return value_keep(v->at, v->text);
	if (v->k->type == KEY_CHOICE)
		*(unsigned *)v->at = (unsigned)i;
	else
		*(bool *)v->at = i;
	return 0;
}

/* ---- texts ---- */

int value_keep(void *field, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

bool value_has_control(const char *text)
{
	for (; *text; text++) {
		if (iscntrl((unsigned char)*text))
			return true;
	}
	return false;
}

const char *value_home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw;

	if (home && *home == '/')
		return home;
	pw = getpwuid(getuid());
	return pw && pw->pw_dir && *pw->pw_dir == '/' ? pw->pw_dir : "/";
}

static int set_path(const struct value *v)
{
	const bool home = strncmp(v->text, "~/", 2) == 0;
	_cleanup_free_ char *cwd = NULL;
	char *path;

	if (*v->text == '\0')
		return problem_set(v->why, PROBLEM_INVALID, "", "%s: a path is missing",
				   v->k->name);
	if (value_has_control(v->text))
		return problem_set(v->why, PROBLEM_INVALID, "",
				   "%s: the path holds a control character", v->k->name);
	if (*v->text == '/' || value_word(v->k, v->text) >= 0 ||
	    (v->k->type == KEY_PROGRAM && !strchr(v->text, '/')))
		return value_keep(v->at, v->text);
	if (!home && !v->ctx->option)
		return invalid(v, "", "does not begin with / or ~/");
	if (!home)
		cwd = getcwd(NULL, 0);
	if (!home && !cwd)
		return problem_set(v->why, PROBLEM_INVALID, "",
				   "%s: the current directory has no path", v->k->name);
	if (asprintf(&path, "%s/%s", home ? value_home() : cwd, home ? v->text + 2 : v->text) < 0)
		return -ENOMEM;
	free(*(char **)v->at);
	*(char **)v->at = path;
	return 0;
}

/* What is wrong with a URL, or NULL. What else may be the program that uses it knows, and says. */
static const char *check_url(const char *text)
{
	const char *host = strncmp(text, "https://", 8) == 0  ? text + 8
			   : strncmp(text, "http://", 7) == 0 ? text + 7
							      : "";

	return !*text || (*host && !strchr("/:", *host) && !strpbrk(text, "@?# \"'"))
		       ? NULL
		       : "is not https://HOST/PATH or http://HOST/PATH; credentials belong into "
			 "the environment";
}

static const char *check_upstream(const char *text)
{
	struct upstream_proxy p;

	return !*text || upstream_parse(text, &p) == 0 ? NULL : "is not http://HOST:PORT";
}

static const char *check_region(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text)
		       ? NULL
		       : "is no region, such as us-east-1";
}

static int set_text(const struct value *v)
{
	const enum key_type type = v->k->type;
	const char *wrong = type == KEY_URL				  ? check_url(v->text)
			    : type == KEY_REGION			  ? check_region(v->text)
			    : type == KEY_UPSTREAM			  ? check_upstream(v->text)
			    : type == KEY_NAME && !plain_name_ok(v->text) ? "is not a name"
									  : NULL;

	return wrong ? invalid(v, "", wrong) : value_keep(v->at, v->text);
}

static int set_max_allow(const struct value *v)
{
	char words[VM_WHY_MAX] = "";
	int r;

	if (strcmp(v->text, "any") == 0) {
		free(*(char **)v->at);
		*(char **)v->at = NULL;
		return 0;
	}
	r = vm_allow_check(v->text, strlen(v->text), words);
	if (r == -EINVAL || r == -E2BIG)
		return problem_set(v->why, PROBLEM_INVALID, "", "%s: %s", v->k->name, words);
	return r < 0 ? r : value_keep(v->at, v->text);
}

static int set_first_rules(const struct value *v)
{
	char words[128] = "";
	struct rules rules;
	const int r = rules_parse(v->text, strlen(v->text), &rules, words);

	if (r == -EINVAL || r == -E2BIG)
		return problem_set(v->why, PROBLEM_INVALID, "", "%s: %s", v->k->name, words);
	if (r < 0)
		return r;
	rules_fini(&rules);
	return value_keep(v->at, v->text);
}

static int set_own_file(const struct value *v)
{
	if (*v->text && *v->text != '/')
		return invalid(v, "Write a path that begins with /, or nothing.",
			       "is no absolute path");
	if (value_has_control(v->text) || strlen(v->text) >= PATH_MAX)
		return problem_set(v->why, PROBLEM_INVALID, "Name the file by another path.",
				   "%s: the path is too long, or holds a control character",
				   v->k->name);
	return value_keep(v->at, v->text);
}

/* ---- types ---- */

int value_set(const struct key *k, void *at, const char *value, const struct key_context *ctx,
	      struct problem *why)
{
	static int (*const set[KEY_NPLAIN])(const struct value *v) = {
		[KEY_FLAG] = set_word,
		[KEY_SWITCH] = set_word,
		[KEY_CHOICE] = set_word,
		[KEY_NUMBER] = set_number,
		[KEY_SIZE] = set_size,
		[KEY_HOST_PORTS] = set_host_ports,
		[KEY_TEXT] = set_text,
		[KEY_WORD] = set_word,
		[KEY_NAME] = set_text,
		[KEY_PATH] = set_path,
		[KEY_PROGRAM] = set_path,
		[KEY_URL] = set_text,
		[KEY_UPSTREAM] = set_text,
		[KEY_REGION] = set_text,
		[KEY_MAX_ALLOW] = set_max_allow,
		[KEY_COUNT] = set_number,
		[KEY_FIRST_RULES] = set_first_rules,
		[KEY_OWN_FILE] = set_own_file,
	};
	const struct value v = {k, at, value, ctx, why};

	return set[k->type](&v);
}

int value_print(const struct key *k, const void *at, struct buf *out)
{
	const char *text;

	if (k->type == KEY_NUMBER || k->type == KEY_SIZE || k->type == KEY_COUNT)
		return buf_printf(out, "%s", write_number(k, number_at(k, at)).text);
	if (k->type == KEY_CHOICE)
		text = k->words[*(const unsigned *)at];
	else if (k->type == KEY_FLAG)
		text = k->words[*(const bool *)at];
	else if (k->type == KEY_SWITCH) /* the first of them goes without saying */
		text = *(const bool *)at ? k->words[1] : "";
	else
		text = *(char *const *)at;
	return buf_append(out, text, strlen(text));
}
