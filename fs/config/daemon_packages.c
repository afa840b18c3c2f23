/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of packages' names that a configuration names, or that come with the program. */
#include <errno.h>
#include <string.h>

#include "daemon_internal.h"
#include "vm/base/problem.h"

static const struct {
	enum packages_kind kind;
	size_t offset;
	const char *key, *standard;
} lists[] = {
	{PACKAGES_PYTHON, offsetof(struct conf, python_list), "python_list", "pypi-top-10000.txt"},
	{PACKAGES_NPM, offsetof(struct conf, npm_list), "npm_list", "npm-top-10000.txt"},
};

int conf_settle_packages(struct conf *c, const struct conf_source *src)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct packages_list *l = &c->packages.list[lists[i].kind];
		const char *named = *(char **)((char *)c + lists[i].offset);
		_cleanup_free_ char *standard = NULL;
		int r;

		if (named && strcmp(named, "any") == 0) {
			l->any = true;
			continue;
		}
		if (asprintf(&standard, "%s/%s", c->installer, lists[i].standard) < 0) {
			standard = NULL;
			return -ENOMEM;
		}
		r = packages_load(l, lists[i].kind, named ? named : standard);
		/* Without the one that comes with the program, no name is on it. */
		if (r == -ENOMEM || (r < 0 && named))
			return conf_fail(src, -r, "%s: %s cannot be read: %s", lists[i].key,
					 problem_quote(named ? named : standard).text,
					 strerror(-r));
	}
	return 0;
}
