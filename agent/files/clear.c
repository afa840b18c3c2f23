/* SPDX-License-Identifier: Apache-2.0 */
/* Removes all that is in a directory. See clear.h. */
#include "clear.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int clear_begin(struct clear *c, int dir)
{
	int fd = walk_open(dir, ".");

	c->list.first = c->list.end = 0;
	return fd < 0 ? fd : walk_enter(&c->walk, fd, "");
}

/* Lists the directory from its beginning: what was there is gone. */
static int again(struct clear *c)
{
	c->list.first = c->list.end = 0;
	return lseek(walk_here(&c->walk)->fd, 0, SEEK_SET) < 0 ? -errno : 1;
}

/* The directory is empty. */
static int go_out(struct clear *c)
{
	char name[sizeof(((struct dirent64 *)0)->d_name)];

	if (c->walk.n == 1) {
		clear_end(c);
		return 0;
	}
	(void)stpcpy(name, walk_here(&c->walk)->name);
	walk_leave(&c->walk);
	if (unlinkat(walk_here(&c->walk)->fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return again(c);
}

int clear_step(struct clear *c)
{
	struct walk_dir *here = walk_here(&c->walk);
	const struct dirent64 *d;
	int fd, r = walk_next(&c->list, here->fd, &d);

	if (r < 0)
		return r;
	/* Entries may have been passed over while others were removed: it is over when a whole list has none. */
	if (r == 0) {
		if (here->listed)
			return go_out(c);
		here->listed = true;
		return again(c);
	}
	here->listed = false;
	if (unlinkat(here->fd, d->d_name, 0) == 0 || errno == ENOENT)
		return 1;
	if (errno != EISDIR)
		return -errno;
	if (unlinkat(here->fd, d->d_name, AT_REMOVEDIR) == 0)
		return 1;
	if (errno != ENOTEMPTY)
		return -errno;
	fd = walk_open(here->fd, d->d_name);
	r = fd < 0 ? fd : walk_enter(&c->walk, fd, d->d_name);
	c->list.first = c->list.end = 0;
	return r < 0 ? r : 1;
}

void clear_end(struct clear *c)
{
	walk_end(&c->walk);
}
