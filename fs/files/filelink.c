/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox's symbolic links are shown to the host. See filelink.h. */
#include "filelink.h"

#include <errno.h>
#include <string.h>

/* The working directory as a sandbox sees it. */
#define GUEST_DIR "/home/user"
#define PREFIX	  FILELINK_OUTSIDE "/"
#define RELATIVE  "%2E/" /* behind the prefix: what follows began with no slash */

struct text {
	char *at;
	size_t len, size;
	bool full;
};

static void put(struct text *t, const char *bytes, size_t n)
{
	if (n >= t->size - t->len) {
		t->full = true;
		return;
	}
	memcpy(t->at + t->len, bytes, n);
	t->len += n;
	t->at[t->len] = '\0';
}

static bool is_up(const char *p, size_t n)
{
	return n == 2 && p[0] == '.' && p[1] == '.';
}

/* Length of the component that begins at @p. */
static size_t component(const char *p, const char *end)
{
	const char *slash = memchr(p, '/', (size_t)(end - p));

	return (size_t)((slash ? slash : end) - p);
}

/* Does a relative path climb no more than @depth directories, and before it names anything? */
static bool stays_below(const char *p, const char *end, uint32_t depth, uint32_t *ret_up)
{
	bool named = false;
	uint32_t up = 0;

	while (p < end) {
		size_t n = component(p, end);

		if (is_up(p, n)) {
			if (named || ++up > depth)
				return false;
		} else if (n && !(n == 1 && p[0] == '.')) {
			named = true;
		}
		p += n;
		p += p < end;
	}
	*ret_up = up;
	return true;
}

static bool has_prefix(const char *p, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && memcmp(p, prefix, strlen(prefix)) == 0;
}

/* Return: what follows the working directory in an absolute target, or NULL if that is not below it. */
static const char *below_guest_dir(const char *p, const char *end)
{
	if (!has_prefix(p, (size_t)(end - p), GUEST_DIR))
		return NULL;
	p += strlen(GUEST_DIR);
	if (p < end && *p != '/')
		return NULL;
	while (p < end && *p == '/')
		p++;
	return p;
}

static void put_outside(struct text *t, const char *p, const char *end)
{
	put(t, PREFIX, strlen(PREFIX));
	if (*p == '/')
		p++;
	else
		put(t, RELATIVE, strlen(RELATIVE));
	while (p < end && !t->full) {
		size_t n = component(p, end);

		if (is_up(p, n))
			put(t, "%2E%2E", 6);
		else
			for (size_t i = 0; i < n; i++)
				put(t, p[i] == '%' ? "%25" : p + i, p[i] == '%' ? 3 : 1);
		p += n;
		if (p < end)
			put(t, p++, 1);
	}
}

int filelink_show(const char *target, size_t len, uint32_t depth, bool exact, char *out,
		  size_t size, uint32_t *ret_up)
{
	const char *end = target + len, *inside = NULL;
	struct text t = {.at = out, .size = size};
	uint32_t up = 0;

	if (len == 0 || memchr(target, '\0', len))
		return -EIO;
	if (target[0] == '/') {
		inside = exact ? below_guest_dir(target, end) : NULL;
		if (inside && (has_prefix(inside, (size_t)(end - inside), PREFIX) ||
			       !stays_below(inside, end, 0, &up)))
			inside = NULL;
		for (; inside && up < depth && !t.full; up++)
			put(&t, "../", 3);
		if (inside == end && !t.len)
			put(&t, ".", 1);
	} else if (!has_prefix(target, len, PREFIX) && stays_below(target, end, depth, &up)) {
		inside = target;
	}
	if (inside)
		put(&t, inside, (size_t)(end - inside));
	if (!inside || t.full) {
		t = (struct text){.at = out, .size = size};
		up = 0;
		put_outside(&t, target, end);
	}
	if (t.full)
		return -ENAMETOOLONG;
	*ret_up = up;
	return 0;
}

/* Undoes put_outside(). Return: false if that can't have made it. */
static bool get_outside(struct text *t, const char *p)
{
	if (strncmp(p, RELATIVE, strlen(RELATIVE)) == 0)
		p += strlen(RELATIVE);
	else
		put(t, "/", 1);
	while (*p) {
		if (*p != '%')
			put(t, p++, 1);
		else if (strncmp(p, "%2E", 3) == 0 || strncmp(p, "%25", 3) == 0)
			put(t, p[2] == 'E' ? "." : "%", 1), p += 3;
		else
			return false;
	}
	return t->len > 0;
}

int filelink_stored(const char *target, char *out, size_t size)
{
	struct text t = {.at = out, .size = size};

	if (strncmp(target, PREFIX, strlen(PREFIX)) == 0 &&
	    get_outside(&t, target + strlen(PREFIX)) && !t.full)
		return 0;
	t = (struct text){.at = out, .size = size};
	put(&t, target, strlen(target));
	return t.full ? -ENAMETOOLONG : 0;
}
