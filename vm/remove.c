/* SPDX-License-Identifier: Apache-2.0 */
/* Removing directories. */
#include "remove.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 ? -errno : 0;
}

int remove_tree(const char *path)
{
	int r = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	return r == -1 ? -errno : r;
}

int remove_tree_at_once(const char *path)
{
	char away[PATH_MAX];
	int n = snprintf(away, sizeof(away), "%s.gone-%d", path, (int)getpid());

	if (n < 0 || (size_t)n >= sizeof(away) || rename(path, away) < 0)
		return remove_tree(path);
	return remove_tree(away);
}
