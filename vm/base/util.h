/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for all code on the host: cleanup attributes, macros. */
#ifndef XSBX_VM_BASE_UTIL_H
#define XSBX_VM_BASE_UTIL_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h> /* MIN, MAX; libuv's header brings them in as well */
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)			(sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Of what returns how many, or -errno. MIN() would do it twice. Return: 0 or -errno. */
static inline int only_errno(ssize_t n)
{
	return n < 0 ? (int)n : 0;
}

/* Return: less than, equal to or greater than 0, as @a is before, at or after @b. */
static inline int time_compare(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* Calls an event callback of the owner of @o, unless it is NULL. */
#define tell_owner(o, event, ...) \
	((o)->events->event ? (o)->events->event((o)->data, ##__VA_ARGS__) : (void)0)

#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))

/* Releases what a local variable holds when it goes out of scope. */
#define _cleanup_(fn)	       __attribute__((cleanup(fn)))
#define _cleanup_free_	       _cleanup_(cleanup_free)
#define _cleanup_close_	       _cleanup_(cleanup_close)
#define _cleanup_file_	       _cleanup_(cleanup_file)
#define _cleanup_dir_	       _cleanup_(cleanup_dir)

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* Transfers ownership of a pointer or descriptor out of a scope. */
#define steal_ptr(p)                         \
	__extension__({                      \
		__typeof__(p) stolen_ = (p); \
		(p) = NULL;                  \
		stolen_;                     \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* Return: a copy; NULL for "" and NULL. *@bad is set if out of memory. */
static inline char *copy_text(const char *text, bool *bad)
{
	char *copy = text && *text ? strdup(text) : NULL;

	*bad = *bad || (text && *text && !copy);
	return copy;
}

/* Is this a valid name for a session, a template or an image? It becomes part of paths on the host. */
#define PLAIN_NAME_MAX 64u
#define PLAIN_NAME_FIX                                                    \
	"Use 1 to 64 of the characters A-Z a-z 0-9 . _ - and begin with " \
	"neither a dot nor a dash."

static inline bool plain_name_ok(const char *name)
{
	const size_t len = strlen(name);

	return len >= 1 && len <= PLAIN_NAME_MAX && *name != '.' && *name != '-' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}

#endif
