/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages a template's snapshot is to have imported. */
#include "ahead.h"

#include <string.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A package is imported ahead until that has failed once, in this mount; then the snapshot is made without it. What is
 * imported is part of the snapshot's key, so that the one without it is found on the disk by the next mount as well,
 * when the same import has failed there.
 */

#define FAILED_MAX 3u /* after so many the snapshot is made without any: each has cost a machine */

/* Is this name among those that failed? */
static bool has_failed(struct ahead *a, const char *name, size_t len)
{
	const char *end;

	for (const char *p = buf_str(&a->without); p && (end = strchr(p, '\n')); p = end + 1) {
		if ((size_t)(end - p) == len && memcmp(p, name, len) == 0)
			return true;
	}
	return false;
}

const char *ahead_list(struct ahead *a, const struct sandbox_spec *spec)
{
	const char *word = spec->packages ? spec->packages : "";
	int r = buf_truncate(&a->list, 0);

	if (a->off || !spec->warmup || strcmp(spec->warmup, SPEC_WARMUP_AUTO) != 0)
		word = "";
	while (r == 0 && *word) {
		/* The name ends before a version or extras; that of npm may begin with "@". */
		const size_t len = 1 + strcspn(word + 1, "=@[ ");

		if (!has_failed(a, word, len))
			r = buf_printf(&a->list, "%.*s\n", (int)len, word);
		word += strcspn(word, " ");
		word += strspn(word, " ");
	}
	return r == 0 ? buf_str(&a->list) : NULL;
}

void ahead_failed(struct ahead *a, const char *culprit)
{
	a->nfailed++;
	if (!*culprit || a->nfailed >= FAILED_MAX || buf_printf(&a->without, "%s\n", culprit) < 0)
		a->off = true;
}

void ahead_clear(struct ahead *a)
{
	buf_clear(&a->without);
	buf_clear(&a->list);
}
