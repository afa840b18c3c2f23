/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through a tree. See walk.h. */
#include "walk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/util.h"
#include "agent/pack_record.h"

int walk_open(int dir, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(dir, name, flags | O_NOATIME);

	/* Only an owner need not leave a trace of having looked. */
	if (fd < 0 && errno == EPERM)
		fd = openat(dir, name, flags);
	return fd < 0 ? -errno : fd;
}

int walk_enter(struct walk *w, int fd, const char *name)
{
	struct walk_dir d = {.fd = fd, .name = strdup(name)};
	int r = d.name ? 0 : -ENOMEM;

	if (r == 0 && w->n == PACK_DEPTH_MAX)
		r = -ENAMETOOLONG;
	if (r == 0 && fstat(fd, &d.st) < 0)
		r = -errno;
	if (r == 0 && w->n == w->cap) {
		const size_t cap = w->cap ? 2 * w->cap : 16;
		struct walk_dir *dirs = realloc(w->dirs, cap * sizeof(*dirs));

		if (dirs) {
			w->dirs = dirs;
			w->cap = cap;
		}
		r = dirs ? 0 : -ENOMEM;
	}
	if (r < 0) {
		free(d.name);
		close(fd);
		return r;
	}
	w->dirs[w->n++] = d;
	return 0;
}

struct walk_dir *walk_here(const struct walk *w)
{
	assert(w->n > 0);
	return &w->dirs[w->n - 1];
}

void walk_leave(struct walk *w)
{
	struct walk_dir *d = walk_here(w);

	close(d->fd);
	free(d->name);
	free(d->todo);
	w->n--;
}

void walk_end(struct walk *w)
{
	while (w->n)
		walk_leave(w);
	free(w->dirs);
	*w = (struct walk){0};
}

int walk_todo(struct walk *w, const char *name)
{
	struct walk_dir *d = walk_here(w);
	const size_t len = strlen(name) + 1;

	if (d->todo_cap - d->todo_len < len) {
		const size_t cap = 2 * d->todo_cap + len + 64;
		char *todo = realloc(d->todo, cap);

		if (!todo)
			return -ENOMEM;
		d->todo = todo;
		d->todo_cap = cap;
	}
	memcpy(d->todo + d->todo_len, name, len);
	d->todo_len += len;
	return 0;
}

void walk_path(const struct walk *w, const char *name, char ret[WALK_PATH_MAX])
{
	static const char cut[] = "...";
	char *at = ret + WALK_PATH_MAX - 1;
	size_t i = w->n;

	/* From its end, as that tells most. */
	*at = '\0';
	for (;;) {
		const size_t len = strlen(name), slash = *at != '\0' && *name;

		if ((size_t)(at - ret) < len + slash + sizeof(cut)) {
			at -= sizeof(cut) - 1;
			memcpy(at, cut, sizeof(cut) - 1);
			break;
		}
		if (slash)
			*--at = '/';
		at -= len;
		memcpy(at, name, len);
		if (!i)
			break;
		name = w->dirs[--i].name;
	}
	memmove(ret, at, strlen(at) + 1);
}

int walk_next(struct walk_list *l, int fd, const struct dirent64 **ret_entry)
{
	for (;;) {
		const struct dirent64 *d = (const void *)(l->data + l->first);

		if (l->first == l->end) {
			const ssize_t n = getdents64(fd, l->data, sizeof(l->data));

			l->first = l->end = 0;
			if (n <= 0)
				return n < 0 ? -errno : 0;
			l->end = (size_t)n;
			continue;
		}
		l->first += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		*ret_entry = d;
		return 1;
	}
}
