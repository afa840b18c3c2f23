/* SPDX-License-Identifier: Apache-2.0 */
/* Where the control groups of this process can be seen. */
#include "cgroups.h"

#include <limits.h>
#include <string.h>

#include "path.h"
#include "util.h"

bool cgroups_has_word(const char *list, const char *word, const char *separators)
{
	char copy[1024], *rest = copy, *item;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((item = strsep(&rest, separators))) {
		if (strcmp(item, word) == 0)
			return true;
	}
	return false;
}

/* Our own group, as /proc/self/cgroup has it. Version 2 is the hierarchy without names. */
static bool own_path(const char *prefix, const char *controller, char ret[PATH_MAX])
{
	_cleanup_file_ FILE *f = path_open(prefix, "/proc/self/cgroup");
	char line[PATH_MAX + 128];

	while (f && fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (*controller ? cgroups_has_word(list + 1, controller, ",") : !list[1]) {
			snprintf(ret, PATH_MAX, "%s", path);
			return true;
		}
	}
	return false;
}

/* What of our group's path @own lies below @root; "" if it lies elsewhere. */
static const char *below(const char *root, const char *own)
{
	const size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(own, root, len) != 0 || (own[len] && own[len] != '/') || strstr(own, "/.."))
		return "";
	return strcmp(own + len, "/") == 0 ? "" : own + len;
}

int cgroups_find(const char *prefix, const char *controller, cgroups_fn found, void *data)
{
	char own[PATH_MAX], root[PATH_MAX], point[PATH_MAX], type[32], options[1024];
	const char *wanted = *controller ? "cgroup" : "cgroup2";
	_cleanup_free_ char *line = NULL;
	_cleanup_file_ FILE *f = NULL;
	size_t size = 0;
	int r = 0;

	if (!own_path(prefix, controller, own))
		return 0;
	f = path_open(prefix, "/proc/self/mountinfo");
	while (r == 0 && f && getline(&line, &size, f) > 0) {
		const char *rest = strstr(line, " - ");

		/* 36 35 98:0 /root /point opts tags - type source super */
		if (!rest || sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2 ||
		    sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
			continue;
		if (strcmp(type, wanted) == 0 &&
		    (!*controller || cgroups_has_word(options, controller, ",")))
			r = found(data, point, below(root, own));
	}
	return r;
}
