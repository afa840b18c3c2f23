/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through a tree by descriptors: the directories that it is in, the innermost last. */
#ifndef XSBX_AGENT_FILES_WALK_H
#define XSBX_AGENT_FILES_WALK_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define WALK_PATH_MAX 256u /* of what is said of a path */
#define WALK_BUF      16384u

/* A directory that the walk is in. */
struct walk_dir {
	int fd;	    /* owned */
	char *name; /* in the directory before; owned; "" of the first */
	struct stat st;
	bool listed;
	/* Names, each with its NUL, of directories in it that are still to be visited. */
	char *todo;
	size_t todo_at, todo_len, todo_cap;
};

struct walk {
	struct walk_dir *dirs;
	size_t n, cap;
};

/* What getdents64() has said of a directory and was not used yet. */
struct walk_list {
	size_t first, end;
	uint8_t data[WALK_BUF] __attribute__((aligned(8)));
};

/**
 * walk_open() - Open a directory, to be listed
 * @dir: Directory that it is in
 * @name: Its name, which is not followed if it is a link
 *
 * Return: descriptor or -errno.
 */
int walk_open(int dir, const char *name);

/**
 * walk_enter() - Go into a directory
 * @w: Walk, all zeroes at first
 * @fd: The directory; the walk takes ownership, even on failure
 * @name: Its name; copied
 *
 * Return: 0 or -errno; -ENAMETOOLONG if it is too deep.
 */
int walk_enter(struct walk *w, int fd, const char *name);

/** walk_leave() - Go out of the innermost one. */
void walk_leave(struct walk *w);

/** walk_end() - Leave all. */
void walk_end(struct walk *w);

/** walk_here() - The innermost directory. */
struct walk_dir *walk_here(const struct walk *w);

/** walk_todo() - Note that @name is to be visited in the innermost one. Return: 0 or -ENOMEM. */
int walk_todo(struct walk *w, const char *name);

/**
 * walk_path() - The path of @name in the innermost directory, for a message
 * @w: Walk
 * @name: May be ""
 * @ret: Filled in; a long one begins with "..."
 */
void walk_path(const struct walk *w, const char *name, char ret[WALK_PATH_MAX]);

/**
 * walk_next() - Get the next entry of a directory, without "." and ".."
 * @l: List, empty at first
 * @fd: The directory
 * @ret_entry: The entry, valid until the next call
 *
 * Return: 1, 0 at the end, or -errno.
 */
int walk_next(struct walk_list *l, int fd, const struct dirent64 **ret_entry);

#endif
