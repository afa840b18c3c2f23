/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of HTTP requests in a form in which they can be compared, and patterns for them. */
#include "http_path.h"

#include <errno.h>
#include <string.h>

#include "vm/base/util.h"

/* What a reading of a path is made of; the last segment may be empty without being counted. */
struct shape {
	size_t segments, empty, dots;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* The byte that %XX at @at stands for, or -1. */
static int encoded(const char *at, size_t len)
{
	int high, low;

	if (len < 3 || at[0] != '%')
		return -1;
	high = hex_digit(at[1]);
	low = hex_digit(at[2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Decodes until nothing is left to decode. Return: its length, or -EINVAL if there is a control character. */
static ssize_t decode(const char *text, size_t len, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int byte;

		ret[n++] = text[i];
		/* What has been decoded may be the last digit of a byte, or the % of the next one. */
		while (n >= 3 && (byte = encoded(ret + n - 3, 3)) >= 0) {
			if (is_control((char)byte))
				return -EINVAL;
			n -= 3;
			ret[n++] = (char)byte;
		}
	}
	ret[n] = '\0';
	return (ssize_t)n;
}

static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Is a character there in more bytes than it takes? Some decoders make a dot or a slash of it. */
static bool has_overlong(const char *text)
{
	for (; *text; text++) {
		const unsigned char a = (unsigned char)text[0], b = (unsigned char)text[1];

		if (!continues(text[1]))
			continue;
		if (a == 0xc0 || a == 0xc1 || (a == 0xe0 && b < 0xa0) || (a == 0xf0 && b < 0x90))
			return true;
	}
	return false;
}

/* Return: 0, -EINVAL, or -ENAMETOOLONG if it is @size bytes or more. */
static int write_plain(const char *text, size_t len, char *ret, size_t size)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int byte = (unsigned char)text[i];
		const bool is_encoded = text[i] == '%';
		bool as_is;

		if (is_encoded) {
			byte = encoded(text + i, len - i);
			if (byte < 0)
				return -EINVAL;
			i += 2;
		}
		as_is = is_unreserved((char)byte) ||
			(!is_encoded && (byte == '/' || byte == HTTP_PATTERN_ANY));
		if (n + (as_is ? 1 : 3) >= size)
			return -ENAMETOOLONG;
		if (as_is) {
			ret[n++] = (char)byte;
			continue;
		}
		ret[n++] = '%';
		ret[n++] = digits[byte >> 4];
		ret[n++] = digits[byte & 15];
	}
	ret[n] = '\0';
	return 0;
}

/* What a generous server makes of the segment of @len bytes at @segment. Return: its length. */
static size_t bare_segment(char *segment, size_t len)
{
	const char *const parameter = memchr(segment, ';', len);
	size_t n = parameter ? (size_t)(parameter - segment) : len, dots = 0;

	for (size_t i = 0; i < n; i++)
		dots += segment[i] == '.';
	if (n > 0 && strspn(segment, ". ") >= n && (dots == 1 || dots == 2)) {
		memset(segment, '.', dots);
		return dots;
	}
	while (n > 0 && (segment[n - 1] == '.' || segment[n - 1] == ' '))
		n--;
	return n;
}

/* Makes a bare path of a decoded one, in place. */
static void strip_segments(char *path)
{
	char *in = path, *out = path;

	for (char *c = path; *c; c++)
		if (*c == '\\')
			*c = '/';
	while (*in == '/') {
		char *const segment = in + 1;
		const size_t len = strcspn(segment, "/"), n = bare_segment(segment, len);

		*out++ = '/';
		memmove(out, segment, n);
		out += n;
		in = segment + len;
	}
	*out = '\0';
}

/* Removes dot segments and empty ones, in place. Return: what there was. */
static struct shape straighten(char *path)
{
	struct shape s = {0};
	const char *in = path;
	char *out = path;

	while (*in == '/') {
		const char *const segment = in + 1;
		const size_t len = strcspn(segment, "/");
		const bool is_last = segment[len] == '\0';
		const bool up = len == 2 && segment[0] == '.' && segment[1] == '.';
		const bool dot = up || (len == 1 && segment[0] == '.');

		in = segment + len;
		s.segments++;
		s.dots += dot;
		s.empty += len == 0 && !is_last;
		if (up)
			while (out > path && *--out != '/')
				;
		if ((dot || len == 0) && !is_last)
			continue;
		*out++ = '/';
		if (!dot) {
			memmove(out, segment, len);
			out += len;
		}
	}
	*out = '\0';
	return s;
}

/* Do all servers agree on what the dot segments take away? */
static bool same_to_all(const struct shape *plain, const struct shape *bare)
{
	if (plain->dots != bare->dots)
		return false;
	return plain->dots == 0 ||
	       (plain->segments == bare->segments && plain->empty == 0 && bare->empty == 0);
}

int http_path_read(const char *target, size_t len, struct http_path *ret_path)
{
	const char *const query = memchr(target, '?', len);
	const size_t n = query ? (size_t)(query - target) : len;
	struct shape plain, bare;
	int r;

	for (size_t i = 0; i < len; i++)
		if (is_control(target[i]) || target[i] == ' ' || target[i] == '#')
			return -EINVAL;
	if (len == 1 && target[0] == '*') {
		memcpy(ret_path->plain, "*", 2);
		memcpy(ret_path->bare, "*", 2);
		return 0;
	}
	if (n == 0 || target[0] != '/')
		return -EINVAL;
	if (n > 1 && (target[1] == '/' || target[1] == '\\'))
		return -EILSEQ; /* to who reads it as a URL what follows is a host */
	if (n > HTTP_PATH_MAX)
		return -ENAMETOOLONG;
	r = write_plain(target, n, ret_path->plain, sizeof(ret_path->plain));
	if (r < 0)
		return r;
	if (decode(target, n, ret_path->bare) < 0)
		return -EINVAL;
	if (has_overlong(ret_path->bare))
		return -EILSEQ;
	strip_segments(ret_path->bare);
	plain = straighten(ret_path->plain);
	bare = straighten(ret_path->bare);
	return same_to_all(&plain, &bare) ? 0 : -EILSEQ;
}

/* Return: what in a decoded pattern is read in different ways, or NULL. */
static const char *doubtful(const char *decoded)
{
	if (has_overlong(decoded))
		return "a character is encoded in more bytes than it takes";
	if (strchr(decoded, '\\'))
		return "there is no \\ in the path of a rule: to servers it is a / or is not";
	if (strchr(decoded, ';'))
		return "there is no ; in the path of a rule: write a * for it and what follows";
	while (*decoded == '/') {
		const char *const segment = decoded + 1;
		const size_t len = strcspn(segment, "/");

		if ((len == 1 || len == 2) && strspn(segment, ".") >= len)
			return "there is no . or .. in the path of a rule";
		if (len > 0 && (segment[len - 1] == '.' || segment[len - 1] == ' '))
			return "no part of a path ends with a dot or a blank: write a * for it";
		decoded = segment + len;
	}
	return NULL;
}

const char *http_pattern_parse(const char *text, size_t len, char *ret_plain, char *ret_bare)
{
	char any[HTTP_PATTERN_MAX];
	const char *why;

	if (len == 0 || text[0] != '/')
		return "a path begins with a /";
	if (len > HTTP_PATTERN_MAX)
		return "the path is too long";
	for (size_t i = 0; i < len; i++) {
		if (is_control(text[i]) || text[i] == ' ' || text[i] == '#')
			return "there is a character in the path that no path has";
		if (text[i] == '?')
			return "rules judge paths, not what follows the ?";
		any[i] = text[i] == '*' ? HTTP_PATTERN_ANY : text[i];
	}
	if (write_plain(any, len, ret_plain, HTTP_PATTERN_PLAIN_SIZE(len)) < 0)
		return "a % is followed by two hexadecimal digits";
	if (decode(any, len, ret_bare) < 0)
		return "there is a character in the path that no path has";
	why = doubtful(ret_bare);
	if (why)
		return why;
	straighten(ret_plain);
	straighten(ret_bare);
	return NULL;
}

static void fold(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] - 'A' + 'a' : from[i]);
	to[len] = '\0';
}

/*
 * The piece before the first ANY begins the path, and the one behind the last ends it. Each of the others is taken where it is
 * first found behind the one before: if there is any way to place them, then this is one.
 */
static bool fits(const char *pattern, const char *path, size_t len)
{
	const char *any = strchr(pattern, HTTP_PATTERN_ANY), *piece;
	const size_t begin = any ? (size_t)(any - pattern) : strlen(pattern);
	size_t n;

	if (len < begin || memcmp(pattern, path, begin) != 0)
		return false;
	if (!any)
		return len == begin;
	path += begin;
	len -= begin;
	for (piece = any + 1; (any = strchr(piece, HTTP_PATTERN_ANY)) != NULL; piece = any + 1) {
		const char *at;

		n = (size_t)(any - piece);
		at = memmem(path, len, piece, n);
		if (!at)
			return false;
		len -= (size_t)(at - path) + n;
		path = at + n;
	}
	n = strlen(piece);
	return len >= n && memcmp(path + len - n, piece, n) == 0;
}

bool http_pattern_fits(const char *pattern, const char *path, bool any_case)
{
	char folded_pattern[HTTP_PATTERN_PLAIN_SIZE(HTTP_PATTERN_MAX)], folded[HTTP_PATH_MAX + 1];
	const size_t len = strlen(path), n = strlen(pattern);

	if (!any_case || len > HTTP_PATH_MAX || n >= sizeof(folded_pattern))
		return fits(pattern, path, len);
	fold(folded_pattern, pattern, n);
	fold(folded, path, len);
	return fits(folded_pattern, folded, len);
}
