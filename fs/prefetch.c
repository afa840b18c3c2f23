/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a host without mounting. */
#include "prefetch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/log.h"
#include "fs/session/fs.h"
#include "fs/session/spec.h"

/*
 * Theory of operation
 * -------------------
 * struct vm is used as with a mount, and does its usual background work: missing images are built,
 * snapshots are fetched, or made and offered. The difference is that there are no users, no pools of
 * clones, and that it ends when everything is on the disk.
 *
 * A bundle is written afterwards by xsbxfs-store, which is executed by another process: by then this one
 * can't run programs any more, and sends it the list of objects through a pipe.
 */

#define TICK_MS	   100u
#define GIVE_UP_MS (3600u * 1000u)
#define MISSING_MS 5000u /* an image that is missing, and nobody builds it */

/* ---- what is to be ready ---- */

int prefetch_choose(struct conf *conf, const char **ret_name)
{
	for (size_t i = 0; i < conf->ntemplates; i++) {
		struct conf_template *t = &conf->template[i];

		t->prepare = !conf->nnames && t->prepare;
		t->settings.spec.pool = (struct vm_pool){0};
	}
	for (size_t n = 0; n < conf->nnames; n++) {
		struct conf_template *t = conf_template_find(conf, conf->names[n]);

		*ret_name = conf->names[n];
		if (!t)
			return -ENOENT;
		t->prepare = true;
	}
	return 0;
}

/* ---- how far it is ---- */

struct tally {
	struct prefetch *p;
	unsigned failed, waiting;
	bool print;
};

/* A line of progress, which may quote an installer. */
static void printf_like(1, 2) say(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_printable(text, strlen(text), false);
	puts(text);
	fflush(stdout);
}

static void tell(const struct tally *y, const struct vm_template_status *st, const char *words)
{
	if (y->print)
		say("%-4s %s (%s, %u MiB, %u CPUs%s%s%s): %s", words ? "fail" : "ok", st->image,
		    st->language, st->memory_mb, st->cpus, st->network ? ", network" : "",
		    *st->packages ? ", " : "", st->packages,
		    words		  ? words
		    : st->fetched	  ? "fetched"
		    : st->built_ms	  ? "made"
		    : st->key && *st->key ? "was there"
					  : "needs nothing");
}

static void look_at(void *data, const struct vm_template_status *st)
{
	struct tally *y = data;
	struct vm_image_status image;

	vm_image_status(y->p->fs->vm, st->image, &image);
	if ((strcmp(st->state, "ready") == 0 && st->saved) || strcmp(st->state, "plain") == 0) {
		tell(y, st, NULL);
	} else if (st->save_failed) {
		y->failed++;
		tell(y, st, "its snapshot can't be kept on the disk");
	} else if (st->packages_failed || strcmp(st->state, "broken") == 0) {
		y->failed++;
		tell(y, st, st->problem);
	} else if (strcmp(image.state, "failed") == 0 ||
		   (strcmp(image.state, "missing") == 0 && y->p->waited * TICK_MS > MISSING_MS)) {
		y->failed++;
		tell(y, st, image.problem);
	} else {
		y->waiting++;
		if (y->print)
			tell(y, st, "not ready in time");
	}
}

/* Images are those that the links lead to now, the user's own or root's. */
static void list_image(struct prefetch *p, const char *name)
{
	bool shared;
	const char *dir = vm_image_where(p->fs->vm, name, &shared), *key;

	if (!dir)
		return;
	key = strrchr(dir, '/');
	fprintf(p->items, "%s=%s\n", name, key ? key + 1 : dir);
}

static void list_item(void *data, const struct vm_template_status *st)
{
	struct prefetch *p = data;

	if (strcmp(st->state, "plain") == 0)
		return;
	list_image(p, st->image);
	if (*st->layer)
		fprintf(p->items, "layer:%s\n", st->layer);
	fprintf(p->items, "snapshot:%s\n", st->key);
}

static void finish(struct prefetch *p, const struct tally *y)
{
	struct tally again = {.p = p, .print = true};
	struct vm_store_status store;

	vm_templates(p->fs->vm, look_at, &again);
	vm_store_status(p->fs->vm, &store);
	if (store.problem[0])
		say("warn store: %s", store.problem);
	if (p->items) {
		list_image(p, "kernel");
		list_image(p, "kernel-own");
		vm_templates(p->fs->vm, list_item, p);
		fflush(p->items);
	}
	fflush(stdout);
	prefetch_close(p);
	p->done(p->data, y->failed || y->waiting);
}

static void on_tick(uv_timer_t *timer)
{
	struct prefetch *p = timer->data;
	struct tally y = {.p = p};
	struct vm_store_status store;

	p->waited++;
	vm_templates(p->fs->vm, look_at, &y);
	vm_store_status(p->fs->vm, &store);
	if ((y.waiting || strcmp(store.state, "busy") == 0) && p->waited * TICK_MS < GIVE_UP_MS)
		return;
	finish(p, &y);
}

static void on_event(void *data, const char *kind, const char *words)
{
	(void)data;
	say("%s: %s", kind, words);
}

const struct vm_events prefetch_events = {.event = on_event};

void prefetch_start(struct prefetch *p)
{
	spec_prepare(p->fs);
	uv_timer_init(p->fs->loop, &p->timer);
	p->timer.data = p;
	p->open = true;
	uv_timer_start(&p->timer, on_tick, TICK_MS, TICK_MS);
}

void prefetch_close(struct prefetch *p)
{
	if (p->open)
		uv_close((uv_handle_t *)&p->timer, NULL);
	p->open = false;
}

/* ---- bundles ---- */

static int become(const char *const argv[])
{
	execv(argv[0], (char *const *)argv);
	fprintf(stderr, "xsbxfs: error: %s: %s\n", argv[0], strerror(errno));
	return 1;
}

int prefetch_export(const struct conf *conf, char *const items[], size_t n)
{
	const char **argv = calloc(n + 7, sizeof(*argv));
	size_t at = 0;

	if (!argv)
		return 1;
	argv[at++] = conf->vm.store.program;
	if (conf->vm.shared_dir) {
		argv[at++] = "--shared";
		argv[at++] = conf->vm.shared_dir;
	}
	argv[at++] = "export";
	argv[at++] = conf->file;
	argv[at++] = conf->vm.cache_dir;
	for (size_t i = 0; i < n; i++)
		argv[at++] = items[i];
	return become(argv);
}

int prefetch_import(const struct conf *conf)
{
	const char *const argv[] = {conf->vm.store.program, "import", conf->file,
				    conf->vm.cache_dir, NULL};

	return become(argv);
}
