/* SPDX-License-Identifier: Apache-2.0 */
/* --prefetch, --export, --import: prepares a host without mounting. */
#ifndef XSBX_FS_PREFETCH_H
#define XSBX_FS_PREFETCH_H

#include <stdbool.h>
#include <stdio.h>
#include <uv.h>

struct conf;
struct fs;
struct vm_events;

/*
 * Embedded by its owner, who keeps it until the loop has ended.
 *
 * - `done` is called once, from the loop, unless prefetch_close() comes first.
 * - `items` gets a line for each object that belongs into a bundle; or is NULL.
 */
struct prefetch {
	struct fs *fs;
	FILE *items;
	void (*done)(void *data, bool failed);
	void *data;
	uv_timer_t timer;
	unsigned waited; /* ticks of the timer */
	bool open;
};

/* Selects the templates to prepare: those named, or all that the configuration prepares. Return: 0, or
 * -ENOENT for an unknown name, which is *ret_name. */
int prefetch_choose(struct conf *conf, const char **ret_name);

/* Starts; fs->vm must exist. */
void prefetch_start(struct prefetch *p);
void prefetch_close(struct prefetch *p);

/* Prints events of struct vm as lines on standard output. */
extern const struct vm_events prefetch_events;

/* Executes the program that writes a bundle of @n items, or reads one. Return: 1 on failure. */
int prefetch_export(const struct conf *conf, char *const items[], size_t n);
int prefetch_import(const struct conf *conf);

#endif
