/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that are watched: a tree of names, found by the numbers that inotify gives them. */
#ifndef XSBX_AGENT_FILES_WATCHDIR_H
#define XSBX_AGENT_FILES_WATCHDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#define WATCHDIR_BUCKETS 1024u
#define WATCHDIR_MAX	 65536u /* more are not watched */

/*
 * - It has a number, and is in a bucket, once it is watched; `wd` is -1 until then.
 * - In `todo` until its entries were looked at. Then `told` says whether they are new, each of them.
 */
struct watchdir {
	LIST_ENTRY(watchdir) near;  /* those of the same bucket, by wd */
	LIST_ENTRY(watchdir) alike; /* likewise, by parent and name */
	TAILQ_ENTRY(watchdir) next;
	LIST_ENTRY(watchdir) beside;
	LIST_HEAD(, watchdir) children;
	struct watchdir *parent; /* NULL: the working directory */
	int wd;
	bool todo, told;
	char name[];
};

struct watchdirs {
	LIST_HEAD(, watchdir) buckets[WATCHDIR_BUCKETS];
	LIST_HEAD(, watchdir) names[WATCHDIR_BUCKETS];
	TAILQ_HEAD(, watchdir) todo;
	struct watchdir *root;
	size_t n;
};

/**
 * watchdirs_init() - Begin with the working directory
 * @t: Tree, zeroed or cleared
 *
 * Return: 0 or -ENOMEM.
 */
int watchdirs_init(struct watchdirs *t);

/** watchdirs_clear() - Forget all. */
void watchdirs_clear(struct watchdirs *t);

/**
 * watchdir_add() - Add a directory, to be looked at
 * @t: Tree
 * @parent: Where it is
 * @name: Its name there
 * @told: Its entries are new as well
 *
 * Return: 0; also if it is there already; -ENOMEM, -ENOSPC.
 */
int watchdir_add(struct watchdirs *t, struct watchdir *parent, const char *name, bool told);

/** watchdir_set() - It is watched by this number, and no other is any more. */
void watchdir_set(struct watchdirs *t, struct watchdir *d, int wd);

/** watchdir_looked() - Its entries were looked at. */
void watchdir_looked(struct watchdirs *t, struct watchdir *d);

/** watchdir_find() - The directory with this number, or NULL. */
struct watchdir *watchdir_find(const struct watchdirs *t, int wd);

/** watchdir_child() - That of this name in @parent, or NULL. */
struct watchdir *watchdir_child(const struct watchdirs *t, const struct watchdir *parent,
				const char *name);

/**
 * watchdir_move() - A directory was renamed
 * @t: Tree
 * @d: The directory; it is freed and another one takes its place
 * @parent: Where it is now
 * @name: Its name there
 *
 * Return: 0; or -ENOMEM, -EINVAL (@parent is below it): it is where it was.
 */
int watchdir_move(struct watchdirs *t, struct watchdir *d, struct watchdir *parent,
		  const char *name);

/**
 * watchdir_drop() - Forget a directory and all below it
 * @t: Tree
 * @d: The directory
 * @notify: The inotify descriptor, which watches them no longer; -1: it does not any more
 */
void watchdir_drop(struct watchdirs *t, struct watchdir *d, int notify);

/**
 * watchdir_path() - Write the path of an entry, below the working directory
 * @d: Its directory
 * @name: Its name, or "": the directory's own path
 * @buf: Where to
 * @size: Of @buf, with a NUL
 *
 * Return: its length, or -1 if it is longer.
 */
int watchdir_path(const struct watchdir *d, const char *name, char *buf, size_t size);

#endif
