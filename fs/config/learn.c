/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes see of the host while they learn. See learn.h. */
#include "learn.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "paths.h"
#include "vm/base/buf.h"
#include "vm/base/path.h"
#include "vm/base/util.h"

#define FOUND_MAX 12u /* of the host's own directories, so that there is room for a template's */

/* What a sandbox has of its own, what is no files, and what only root has a use for. */
static const char *const not_shown[] = {"bin",	 "boot",  "dev",    "etc",	  "home", "lib",
					"lib32", "lib64", "libx32", "lost+found", "proc", "root",
					"run",	 "sbin",  "sys",    "tmp",	  "usr",  "var"};

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_shown(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (name[0] == '.' || strpbrk(name, " \t:\n") ||
	    snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return false;
	for (size_t i = 0; !*dir && i < ARRAY_SIZE(not_shown); i++)
		if (strcmp(name, not_shown[i]) == 0)
			return false;
	return strcmp(path, "/home/user") != 0 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Appends the directories in @dir. Return: how many there are by then. */
static unsigned list(const char *dir, unsigned n, struct buf *out)
{
	struct dirent **e = NULL;
	const int found = scandir(*dir ? dir : "/", &e, NULL, by_name);

	for (int i = 0; i < found; i++) {
		if (n < FOUND_MAX && is_shown(dir, e[i]->d_name) &&
		    buf_printf(out, "%s/%s ", dir, e[i]->d_name) == 0)
			n++;
		free(e[i]);
	}
	free((void *)e);
	return n;
}

int learn_find(const char *text, struct sandbox_spec *ret, struct problem *why)
{
	struct buf found = {0};
	int r = -ENOMEM;

	if (text && *text)
		return paths_set(ret, false, text, why);
	(void)list("/home", list("", 0, &found), &found);
	if (buf_append(&found, "", 1) == 0)
		r = paths_set(ret, false, found.data, why);
	buf_clear(&found);
	return r;
}

size_t learn_view(const struct sandbox_spec *base, const struct sandbox_spec *learn,
		  struct vm_path ret[VM_PATHS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < learn->npaths && n + base->npaths < VM_PATHS_MAX; i++) {
		bool covered = false;

		for (size_t k = 0; k < base->npaths; k++)
			covered = covered ||
				  path_is_within(learn->paths[i].target, base->paths[k].target);
		if (!covered)
			ret[n++] = learn->paths[i];
	}
	for (size_t i = 0; i < base->npaths && n < VM_PATHS_MAX; i++)
		ret[n++] = base->paths[i];
	return n;
}
