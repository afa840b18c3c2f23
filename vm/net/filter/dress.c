/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches secrets to requests that were allowed. */
#include "dress.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net.h"
#include "redact.h"
#include "secret_value.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * It is done last, to a request that was judged, with the path that was judged: so a secret goes to its place or nowhere. What the
 * guest has written itself where a secret goes is taken away first. Of several that would go to the same field the first counts.
 *
 * Such a request must not help to get the secret back past what is searched for it (cleanse.c): it asks for an answer that is
 * not encoded, for all of it, and for WebSocket without compression; and TRACE, which has the server repeat it, is refused.
 */

enum flavour { PLAIN, PERCENT, JSON };

/* What a value may be in place of a placeholder, at most for each byte. */
#define GROWTH 3

/* On port 443 nothing goes but within TLS, whoever has let something else pass there. */
static bool fits(const struct exchange *x, const struct secret_use *use)
{
	return x->path && (x->to->port != 443 || !strcmp(x->to->scheme, "https")) &&
	       secret_use_fits(use, x->to->host, x->to->port, x->path);
}

bool dress_has_to_wait(const struct exchange *x)
{
	const struct secret_uses *uses = &x->net->egress.uses;
	bool coming;

	for (size_t i = 0; i < uses->n; i++)
		if (fits(x, &uses->use[i]) && !secrets_find(x->net, uses->use[i].name, &coming) &&
		    coming)
			return true;
	return false;
}

/* Its value; NULL, with the reason, if there is none. */
static const struct secret_value *value_of(struct exchange *x, const struct secret_use *use)
{
	const struct secret_value *v = secrets_find(x->net, use->name, NULL);

	if (v && !*x->secret)
		snprintf(x->secret, sizeof(x->secret), "%s", use->name);
	return v;
}

/* All values that may go to this server: another request may have it repeat them. */
static unsigned note_all(const struct exchange *x, struct redact_set *sent)
{
	const struct secret_uses *uses = &x->net->egress.uses;

	for (size_t i = 0; i < uses->n; i++) {
		struct secret_value *v = secrets_find(x->net, uses->use[i].name, NULL);

		if (v && place_has_host(&uses->use[i].place, x->to->host, x->to->port) &&
		    redact_set_add(sent, v) < 0)
			return NET_BUSY; /* a connection that was there before too many new values */
	}
	return NET_OK;
}

/* ---- fields ---- */

static char same(char c)
{
	return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Removes all fields that a server may take for this one. */
static void remove_alike(struct head *head, const char *name)
{
	for (unsigned i = 0; i < head->n; i++) {
		const char *p = head_name_of(head, i), *q = name;

		while (*p && *q && same(*p) == same(*q)) {
			p++;
			q++;
		}
		if (!*p && !*q)
			head->field[i].gone = true;
	}
}

static int put_field(struct head *head, const char *name, const char *before, const void *value,
		     size_t len)
{
	struct buf text = {0};
	const char *all;
	int r;

	remove_alike(head, name);
	buf_append(&text, before, strlen(before));
	buf_append(&text, value, len);
	all = text.failed ? NULL : buf_str(&text);
	r = all ? head_add(head, name, all) : -ENOMEM;
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_clear(&text);
	return r;
}

/* Wipes and frees. */
static void drop(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_clear(b);
}

static int put_basic(struct head *head, const char *user, size_t user_len, const void *value,
		     size_t len)
{
	const size_t n = user_len + len;
	uint8_t *const plain = malloc(n + 1), *const text = malloc(4 * (n / 3 + 1) + 1);
	int r = plain && text ? 0 : -ENOMEM;

	if (r == 0) {
		memcpy(plain, user, user_len);
		memcpy(plain + user_len, value, len);
		EVP_EncodeBlock(text, plain, (int)n);
		r = put_field(head, "Authorization", "Basic ", text, strlen((const char *)text));
		explicit_bzero(plain, n);
		explicit_bzero(text, 4 * (n / 3 + 1));
	}
	free(plain);
	free(text);
	return r;
}

/* ---- the query ---- */

static int digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Is this parameter called @name, however it is spelt? */
static bool is_parameter(const char *p, size_t len, const char *name)
{
	const char *const end = p + len;

	for (; p < end && *p != '='; name++) {
		char c = *p++;

		if (c == '%' && end - p >= 2 && digit(p[0]) >= 0 && digit(p[1]) >= 0) {
			c = (char)(digit(p[0]) * 16 + digit(p[1]));
			p += 2;
		}
		if (!*name || strncasecmp(&c, name, 1) != 0)
			return false;
	}
	return *name == '\0';
}

/* Copies the query's parameters but those of this name. */
static void copy_query(struct buf *to, const char *query, const char *name)
{
	bool first = true;

	while (*query) {
		const size_t n = strcspn(query, "&;");

		if (n > 0 && !is_parameter(query, n, name)) {
			buf_append(to, first ? "?" : "&", 1);
			buf_append(to, query, n);
			first = false;
		}
		query += n + (query[n] != '\0');
	}
	buf_append(to, first ? "?" : "&", 1);
}

static void replace_first(struct head *head, struct buf *target)
{
	drop(&head->first);
	head->first = *target;
	*target = (struct buf){0};
}

static int put_query(struct head *head, const char *name, const struct secret_value *v)
{
	const char *const old = buf_str(&head->first);
	const size_t path = old ? strcspn(old, "?#") : 0;
	char *const text = malloc(3 * v->form[0].len);
	struct buf target = {.limit = HEAD_MAX};
	size_t n = 0;
	int r;

	if (old && text) {
		_cleanup_free_ char *query =
			old[path] == '?' ? strndup(old + path + 1, strcspn(old + path + 1, "#"))
					 : strdup("");

		n = secret_value_percent(v, text);
		buf_append(&target, old, path);
		copy_query(&target, query ? query : "", name);
		buf_printf(&target, "%s=", name);
		buf_append(&target, text, n);
		explicit_bzero(text, n);
	} else {
		target.failed = -ENOMEM;
	}
	free(text);
	r = target.failed;
	if (r == 0)
		replace_first(head, &target);
	drop(&target);
	return r;
}

/* ---- placeholders ---- */

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("._-", c));
}

/* The use that is meant by the name at @p, of which @ret_len characters count: a dot at the end may be that of a sentence. */
static const struct secret_use *meant(const struct exchange *x, const char *p, size_t len,
				      size_t *ret_len)
{
	const struct secret_uses *uses = &x->net->egress.uses;
	size_t n = 0;

	while (n < len && is_name_char(p[n]))
		n++;
	for (; n > 0; n--) {
		for (size_t i = 0; i < uses->n; i++) {
			const struct secret_use *u = &uses->use[i];

			if (u->way == SECRET_IN_PLACE && strlen(u->name) == n &&
			    !memcmp(u->name, p, n) && fits(x, u)) {
				*ret_len = n;
				return u;
			}
		}
		if (p[n - 1] != '.')
			break;
	}
	return NULL;
}

static void put_value(struct buf *to, const struct secret_value *v, enum flavour flavour)
{
	char *const text = malloc(GROWTH * v->form[0].len);
	size_t n = v->form[0].len;

	if (!text) {
		to->failed = -ENOMEM;
		return;
	}
	if (flavour == PERCENT)
		n = secret_value_percent(v, text);
	else if (flavour == JSON)
		n = secret_value_json(v, text);
	else
		memcpy(text, v->form[0].bytes, n);
	buf_append(to, text, n);
	explicit_bzero(text, n);
	free(text);
}

/* Copies @text to @to with values in the place of placeholders. Return: how many, or -errno: -ENOKEY, a value is missing. */
static int swap(struct exchange *x, const char *text, size_t len, enum flavour flavour,
		struct buf *to)
{
	const size_t prefix = strlen(SECRET_PLACEHOLDER);
	int count = 0;

	while (len > 0 && !to->failed) {
		const char *const hit = memmem(text, len, SECRET_PLACEHOLDER, prefix);
		const size_t before = hit ? (size_t)(hit - text) : len;
		const struct secret_use *use;
		const struct secret_value *v;
		size_t n = 0;

		buf_append(to, text, before);
		text += before;
		len -= before;
		if (!hit)
			break;
		use = meant(x, text + prefix, len - prefix, &n);
		v = use ? value_of(x, use) : NULL;
		if (use && !v)
			return -ENOKEY;
		if (v)
			put_value(to, v, flavour);
		else
			buf_append(to, text, prefix);
		count += v != NULL;
		text += prefix + n;
		len -= prefix + n;
	}
	return to->failed ? to->failed : count;
}

/* The same inside of `Basic BASE64`. Return: as swap(); 0 also if it is something else. */
static int swap_basic(struct exchange *x, struct head *head, unsigned i)
{
	const char *value = head_value_of(head, i);
	struct buf out = {0};
	uint8_t *plain;
	size_t len;
	int n, r = 0;

	if (strncasecmp(value, "Basic ", 6) != 0)
		return 0;
	value += 6 + strspn(value + 6, " ");
	len = strcspn(value, " ");
	plain = malloc(len / 4 * 3 + 4);
	if (!plain)
		return -ENOMEM;
	n = len % 4 == 0 ? EVP_DecodeBlock(plain, (const uint8_t *)value, (int)len) : -1;
	for (size_t k = len; n > 0 && k > 0 && value[k - 1] == '=' && len - k < 2; k--)
		n--;
	if (n > 0)
		r = swap(x, (const char *)plain, (size_t)n, PLAIN, &out);
	if (r > 0) {
		const int put = put_basic(head, "", 0, out.data, out.len);

		r = put < 0 ? put : r;
	}
	free(plain);
	drop(&out);
	return r;
}

static int swap_fields(struct exchange *x, struct head *head)
{
	const unsigned n = head->n;
	int r = 0;

	for (unsigned i = 0; i < n && r >= 0; i++) {
		struct buf out = {.limit = HEAD_MAX};

		if (head->field[i].gone)
			continue;
		r = swap(x, head_value_of(head, i), head->field[i].value_len, PLAIN, &out);
		if (r > 0)
			r = head_put_value(head, i, out.data, out.len);
		else if (r == 0 && !strcasecmp(head_name_of(head, i), "Authorization"))
			r = swap_basic(x, head, i);
		drop(&out);
	}
	return r;
}

static int swap_query(struct exchange *x, struct head *head)
{
	const char *const old = buf_str(&head->first), *const query = old ? strchr(old, '?') : NULL;
	struct buf out = {.limit = HEAD_MAX};
	int r;

	if (!query)
		return old ? 0 : -ENOMEM;
	buf_append(&out, old, (size_t)(query - old));
	r = swap(x, query, strlen(query), PERCENT, &out);
	if (r > 0)
		replace_first(head, &out);
	drop(&out);
	return r;
}

/* ---- all of it ---- */

static int apply(struct head *head, const struct secret_use *use, const struct secret_value *v)
{
	const void *const bytes = v->form[0].bytes;
	const size_t len = v->form[0].len;
	char user[SECRET_NAME_MAX + 2];
	int n;

	switch (use->way) {
	case SECRET_BEARER: return put_field(head, "Authorization", "Bearer ", bytes, len);
	case SECRET_BASIC:
		n = snprintf(user, sizeof(user), "%s:", use->argument);
		return put_basic(head, user, (size_t)n, bytes, len);
	case SECRET_HEADER: return put_field(head, use->argument, "", bytes, len);
	case SECRET_QUERY: return put_query(head, use->argument, v);
	case SECRET_IN_PLACE: break;
	}
	return 0;
}

/* Where does it go? */
static const char *field_of(const struct secret_use *use)
{
	return use->way == SECRET_HEADER ? use->argument : "Authorization";
}

static bool collide(const struct secret_use *a, const struct secret_use *b)
{
	if (a->way == SECRET_IN_PLACE || b->way == SECRET_IN_PLACE ||
	    (a->way == SECRET_QUERY) != (b->way == SECRET_QUERY))
		return false;
	return !strcasecmp(a->way == SECRET_QUERY ? a->argument : field_of(a),
			   a->way == SECRET_QUERY ? b->argument : field_of(b));
}

static bool comes_late(const struct exchange *x, size_t i)
{
	const struct secret_uses *uses = &x->net->egress.uses;

	for (size_t k = 0; k < i; k++)
		if (fits(x, &uses->use[k]) && collide(&uses->use[k], &uses->use[i]))
			return true;
	return false;
}

/* Nothing that would hide the secret in the answer. */
static int ask_openly(struct head *head)
{
	static const char *const hides[] = {
		"Accept-Encoding", "A-IM",
		"Range",	   "Request-Range", /* Apache takes it for that */
		"If-Range",	   "Sec-WebSocket-Extensions"};

	for (size_t i = 0; i < ARRAY_SIZE(hides); i++)
		head_remove(head, hides[i]);
	return head_add(head, "Accept-Encoding", "identity");
}

static unsigned reason_of(int r)
{
	return r >= 0 ? NET_OK : r == -ENOKEY ? NET_SECRET_MISSING : NET_BUSY;
}

unsigned dress_request(struct exchange *x, struct head *head, struct redact_set *sent,
		       bool *ret_body)
{
	const struct secret_uses *uses = &x->net->egress.uses;
	bool in_place = false;
	int r = 0;

	*ret_body = false;
	for (size_t i = 0; i < uses->n && r >= 0; i++)
		in_place =
			in_place || (uses->use[i].way == SECRET_IN_PLACE && fits(x, &uses->use[i]));
	/* What the guest has written first, so that no value is looked at. */
	if (in_place)
		r = swap_fields(x, head);
	if (in_place && r >= 0)
		r = swap_query(x, head);
	for (size_t i = 0; i < uses->n && r >= 0; i++) {
		const struct secret_value *v;

		if (uses->use[i].way == SECRET_IN_PLACE || !fits(x, &uses->use[i]) ||
		    comes_late(x, i))
			continue;
		v = value_of(x, &uses->use[i]);
		r = v ? apply(head, &uses->use[i], v) : -ENOKEY;
	}
	if (r >= 0 && (*x->secret || in_place))
		r = ask_openly(head);
	if (r >= 0 && (*x->secret || in_place) && !strcmp(x->method, "TRACE"))
		return NET_SECRET_TRACE;
	*ret_body = in_place;
	return r < 0 ? reason_of(r) : note_all(x, sent);
}

static bool has_word(const char *text, const char *word)
{
	return text && strcasestr(text, word);
}

unsigned dress_body(struct exchange *x, const char *type, struct buf *body)
{
	const enum flavour flavour = has_word(type, "json")		       ? JSON
				     : has_word(type, "x-www-form-urlencoded") ? PERCENT
									       : PLAIN;
	/* Some values fit in, whatever they are; placeholders without end would be as many times all that this process has. */
	struct buf out = {.limit = DRESS_BODY_MAX + 2 * GROWTH * SECRET_VALUE_MAX};
	const int r = body->len ? swap(x, body->data, body->len, flavour, &out) : 0;

	out.limit = 0;
	if (r > 0) {
		drop(body);
		*body = out;
		out = (struct buf){0};
	}
	drop(&out);
	return reason_of(r);
}
