/* SPDX-License-Identifier: Apache-2.0 */
/* --prefetch, --export, --import: a machine is made ready without a mount. */
#ifndef XSBX_FS_PREFETCH_H
#define XSBX_FS_PREFETCH_H

#include <stdbool.h>
#include <stdio.h>
#include <uv.h>

struct conf;
struct fs;
struct vm_events;

/*
 * Embedded by its owner, who keeps it until the loop has run dry.
 *
 * - `done` is called once, from the loop, unless prefetch_close() comes first.
 * - `items` gets a line for each object that a bundle of all this would have; or is NULL.
 */
struct prefetch {
	struct fs *fs;
	FILE *items;
	void (*done)(void *data, bool failed);
	void *data;
	uv_timer_t timer;
	unsigned waited; /* turns of the timer */
	bool open;
};

/* Chooses what is to be made ready: the templates that are named, or all that are to be prepared. Return:
 * 0, or -ENOENT for a name that is none, which is *ret_name. */
int prefetch_choose(struct conf *conf, const char **ret_name);

/* Begins; the machinery is there. */
void prefetch_start(struct prefetch *p);
void prefetch_close(struct prefetch *p);

/* News of the machinery, as lines on standard output. */
extern const struct vm_events prefetch_events;

/* Becomes the program that writes a bundle of @n items, or reads one. Return: 1, if it can't. */
int prefetch_export(const struct conf *conf, char *const items[], size_t n);
int prefetch_import(const struct conf *conf);

#endif
