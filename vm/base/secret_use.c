/* SPDX-License-Identifier: Apache-2.0 */
/* Which secrets go with which requests: names of secrets, never their values. */
#include "secret_use.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "vm/base/util.h"
#include "vm/base/words.h"

static const struct way {
	const char *word, *argument; /* what its argument is; NULL: it has none */
} ways[] = {
	[SECRET_BEARER] = {"bearer", NULL},	   [SECRET_BASIC] = {"basic", "a user"},
	[SECRET_HEADER] = {"header", "a header"},  [SECRET_QUERY] = {"query", "a parameter"},
	[SECRET_IN_PLACE] = {"placeholder", NULL},
};
static_assert(ARRAY_SIZE(ways) == SECRET_IN_PLACE + 1, "a row for each way");

const char *secret_way_str(enum secret_way way)
{
	return ways[way].word;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Is @word made of letters, digits and @others alone? */
static bool is_made_of(const struct word *word, const char *others)
{
	for (size_t i = 0; i < word->len; i++)
		if (!is_alnum(word->text[i]) && (!word->text[i] || !strchr(others, word->text[i])))
			return false;
	return word->len > 0;
}

bool secret_name_is_valid(const char *name, size_t len)
{
	const struct word word = {.text = name, .len = len};

	return len <= SECRET_NAME_MAX && is_made_of(&word, "._-") && name[0] != '.' &&
	       name[0] != '-';
}

/* Headers that say where a message ends or goes, or what becomes of the connection. */
static bool frames_messages(const struct word *header)
{
	static const char *const names[] = {"Host",
					    "Content-Length",
					    "Transfer-Encoding",
					    "Connection",
					    "Keep-Alive",
					    "Upgrade",
					    "TE",
					    "Trailer",
					    "HTTP2-Settings",
					    "Expect",
					    "Via",
					    "Forwarded",
					    "Content-Encoding",
					    "Proxy-Connection"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (header->len == strlen(names[i]) &&
		    !strncasecmp(header->text, names[i], header->len))
			return true;
	return header->len >= 4 && !strncasecmp(header->text, "Sec-", 4);
}

/* Return: what is wrong with the argument, or NULL. */
static const char *check_argument(enum secret_way way, const struct word *argument)
{
	if (argument->len > SECRET_NAME_MAX)
		return "it is too long";
	switch (way) {
	case SECRET_BASIC:
		for (size_t i = 0; i < argument->len; i++)
			if (argument->text[i] <= ' ' || argument->text[i] > '~' ||
			    argument->text[i] == ':')
				return "a user is printable ASCII without a colon";
		return NULL;
	case SECRET_HEADER:
		if (!is_made_of(argument, "-_"))
			return "a header is a name of letters, digits, - and _";
		return frames_messages(argument) ? "this header carries no secret" : NULL;
	case SECRET_QUERY:
		return is_made_of(argument, "-._~")
			       ? NULL
			       : "a parameter is a name of letters, digits, -, ., _ and ~";
	case SECRET_BEARER:
	case SECRET_IN_PLACE: break;
	}
	return NULL;
}

static int refuse(const struct word *word, size_t use, const char *why, char ret_why[static 128])
{
	snprintf(ret_why, 128, "line %zu: %.*s: %s", use + 1, (int)MIN(word->len, 24), word->text,
		 why);
	return -EINVAL;
}

static char *keep(char **to, const struct word *word)
{
	char *const at = memcpy(*to, word->text, word->len);

	at[word->len] = '\0';
	*to += word->len + 1;
	return at;
}

/* What follows the place. Return: 0 or -EINVAL. */
static int parse_way(struct words *words, size_t i, struct secret_use *use, char **to,
		     char ret_why[static 128])
{
	static const char how[] = "write PLACE bearer NAME, or basic USER, header HEADER, query "
				  "KEY, placeholder";
	struct word way, argument, name;
	size_t w = 0;

	if (!words_next(words, &way)) {
		snprintf(ret_why, 128, "line %zu: %s", i + 1, how);
		return -EINVAL;
	}
	while (w < ARRAY_SIZE(ways) && !word_is(&way, ways[w].word))
		w++;
	if (w == ARRAY_SIZE(ways))
		return refuse(&way, i, how, ret_why);
	use->way = (enum secret_way)w;
	use->argument = "";
	if (ways[w].argument) {
		const char *why = NULL;
		char missing[64];

		snprintf(missing, sizeof(missing), "%s and the secret's name follow",
			 ways[w].argument);
		if (!words_next(words, &argument))
			return refuse(&way, i, missing, ret_why);
		why = check_argument(use->way, &argument);
		if (why)
			return refuse(&argument, i, why, ret_why);
		use->argument = keep(to, &argument);
	}
	if (!words_next(words, &name))
		return refuse(&way, i, "the name of a secret is missing", ret_why);
	if (!secret_name_is_valid(name.text, name.len))
		return refuse(&name, i,
			      "a secret's name is letters, digits, ., _ and -, at most 64",
			      ret_why);
	use->name = keep(to, &name);
	return 0;
}

/* Return: 1, 0 if there is no other use, or -EINVAL. */
static int parse_use(struct words *words, size_t i, struct secret_use *use, char **to,
		     char ret_why[static 128])
{
	struct word place;
	char why[128];
	int r;

	if (!words_next(words, &place))
		return 0;
	r = place_parse(place.text, place.len, *to, &use->place, why);
	if (r < 0) {
		snprintf(ret_why, 128, "line %zu: %.110s", i + 1, why);
		return r;
	}
	*to += r;
	if (use->place.host.kind == ALLOW_ALL)
		return refuse(&place, i, "name the host: no secret goes to all of them", ret_why);
	if (!use->place.host.port)
		use->place.host.port = 443;
	r = parse_way(words, i, use, to, ret_why);
	return r < 0 ? r : 1;
}

int secret_uses_parse(const char *text, size_t len, struct secret_uses *ret_uses,
		      char ret_why[static 128])
{
	struct words words = {.text = text, .len = len};
	struct secret_uses uses = {0};
	char *to;
	int r;

	if (len > SECRET_USES_TEXT_MAX) {
		snprintf(ret_why, 128, "the list is longer than %d bytes", SECRET_USES_TEXT_MAX);
		return -E2BIG;
	}
	uses.use = calloc(SECRET_USES_MAX, sizeof(*uses.use));
	uses.text = malloc(PLACE_STORE_SIZE(len) + SECRET_USES_MAX * 8);
	if (!uses.use || !uses.text) {
		secret_uses_fini(&uses);
		return -ENOMEM;
	}
	to = uses.text;
	for (;;) {
		struct secret_use use = {0};

		r = parse_use(&words, uses.n, &use, &to, ret_why);
		if (r <= 0)
			break;
		if (uses.n == SECRET_USES_MAX) {
			snprintf(ret_why, 128, "there are more than %d lines", SECRET_USES_MAX);
			r = -E2BIG;
			break;
		}
		uses.use[uses.n++] = use;
	}
	if (r < 0) {
		secret_uses_fini(&uses);
		return r;
	}
	*ret_uses = uses;
	return 0;
}

void secret_uses_fini(struct secret_uses *uses)
{
	free(uses->use);
	free(uses->text);
	*uses = (struct secret_uses){0};
}

int secret_uses_print(const struct secret_uses *uses, size_t i, char *ret_text, size_t size)
{
	const struct secret_use *u = &uses->use[i];

	return snprintf(ret_text, size, "%s %s %s%s%s", u->place.word, secret_way_str(u->way),
			u->argument, u->argument[0] ? " " : "", u->name);
}

bool secret_use_fits(const struct secret_use *use, const char *host, uint16_t port,
		     const struct http_path *path)
{
	return place_has_host(&use->place, host, port) && place_has_path(&use->place, path);
}

bool secret_uses_have_host(const struct secret_uses *uses, const char *host, uint16_t port)
{
	for (size_t i = 0; i < uses->n; i++)
		if (place_has_host(&uses->use[i].place, host, port))
			return true;
	return false;
}
