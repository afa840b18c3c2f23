/* SPDX-License-Identifier: Apache-2.0 */
/* Installing packages that sandboxes ask for, into layers. */
#include "package_job.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "package_internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * A sandbox whose layer is missing waits, without a place in the admission, as one does whose image
 * is missing; and the layer is made, one at a time:
 *
 *	QUEUED -> FETCH -> BEGIN -> PREPARE -> RUN -> PACK -> PUBLISH -> there
 *	                               |        |      |        |
 *	                               +--------+------+--------+-> ABANDON -> FAILED
 *
 * FETCH asks the store, where there is one and the layer is a single file; what it did not bring is
 * made here. What is made here is offered to it.
 *
 * BEGIN, PUBLISH and ABANDON work on the disk, in a worker thread; BEGIN waits as long as another
 * mount is at the same layer, and may find that this one has made it. PREPARE runs a program of the
 * user's, which the spawner starts. RUN and PACK have sandboxes, see package_run.c; a layer that is
 * used as a directory is not packed. What they take of the disk meanwhile is looked at, see
 * package_watch.c. Whose turn it is, when others are QUEUED, see package_queue.c.
 *
 * Until PUBLISH the layer has no name. Whoever is killed before that leaves a directory that nobody has
 * locked, which the next mount removes, or the next one who needs the layer.
 *
 * All that is said on the way goes to `events` and to the console of those who wait; its end explains
 * a failure.
 */

#define LOCK_NS	   200000000l /* between two looks at what another mount does */
#define SCRIPT_MAX 65536u

static void on_worked(uv_work_t *req, int status);
static void go(struct installer *in, enum install_step step);

/* ---- beginning and end ---- */

char *install_copy(const char *text, bool *bad)
{
	char *c = text && *text ? strdup(text) : NULL;

	*bad = *bad || (text && *text && !c);
	return c;
}

static char *read_script(const char *dir)
{
	char path[PATH_MAX], *text = NULL;
	size_t len = 0;
	FILE *f;

	if (!dir || snprintf(path, sizeof(path), "%s/install", dir) >= (int)sizeof(path))
		return NULL;
	f = fopen(path, "re");
	if (!f)
		return NULL;
	text = calloc(1, SCRIPT_MAX);
	if (text)
		len = fread(text, 1, SCRIPT_MAX - 1, f);
	fclose(f);
	if (len)
		return text;
	free(text);
	return NULL;
}

int installer_init(struct installer *in, struct vm *vm, const struct vm_packages *cfg)
{
	struct vm_packages *c = &in->cfg;
	bool bad = false;

	in->vm = vm;
	in->lock = -1;
	TAILQ_INIT(&in->installs);
	TAILQ_INIT(&in->waiters);
	*c = (struct vm_packages){
		.dir = install_copy(cfg->dir, &bad),
		.python_index = install_copy(cfg->python_index, &bad),
		.python_hosts = install_copy(cfg->python_hosts, &bad),
		.npm_registry = install_copy(cfg->npm_registry, &bad),
		.npm_hosts = install_copy(cfg->npm_hosts, &bad),
		.layer_bytes = cfg->layer_bytes,
	};
	if (cfg->offline && *cfg->offline) {
		c->offline = realpath(cfg->offline, NULL);
		if (!c->offline)
			c->offline = install_copy(cfg->offline, &bad);
	}
	in->script = read_script(cfg->dir);
	if (asprintf(&in->source, "%s\n%s\n%s", c->python_index ? c->python_index : "",
		     c->npm_registry ? c->npm_registry : "", c->offline ? c->offline : "") < 0) {
		in->source = NULL;
		bad = true;
	}
	return bad ? -ENOMEM : layers_init(&vm->layers, vm->ctx.cache_dir, cfg->layer_bytes);
}

void installer_fini(struct installer *in)
{
	struct vm_packages *c = &in->cfg;
	const char *const strings[] = {c->dir,		c->python_index, c->python_hosts,
				       c->npm_registry, c->npm_hosts,	 c->offline};
	struct install *job;

	while (in->vm && (job = TAILQ_FIRST(&in->installs))) {
		install_ask_answer(job, &(struct problem){.cause = "xsbxfs is ending"});
		install_forget(in, job);
	}
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free((char *)strings[i]);
	free(in->script);
	free(in->source);
}

void installer_cut(struct installer *in)
{
	if (in->current && in->current->step == INSTALL_PREPARE)
		child_kill(&in->prepare.child);
	installer_watch_close(in);
}

/* ---- what is needed ---- */

void installer_need(const struct installer *in, const struct backend_ops *ops, bool image_view,
		    const char *image, const char *language, const char *packages,
		    struct layer_need *ret_need)
{
	*ret_need = (struct layer_need){
		.form = ops->needs_image ? LAYER_EROFS : LAYER_TREE,
		.host = !ops->needs_image && !image_view,
		.image = image,
		.language = language,
		.packages = packages,
		.source = in->source,
	};
}

struct layer *installer_layer(struct installer *in, const struct layer_need *need)
{
	char key[DIGEST_HEX];
	const char *why;

	if (layer_key(in->vm->backends.images, need, key, &why) < 0)
		return NULL;
	return layer_get(&in->vm->layers, key);
}

/* ---- what is said ---- */

static void on_line(struct words *w, char *text)
{
	struct installer *in = w->data;
	struct install *job = in->current;
	struct sandbox *s;

	if (job->step == INSTALL_PREPARE && installer_fact(in, text))
		return;
	if (job->ask) {
		install_ask_line(job->ask, text);
		return;
	}
	text += strspn(text, " =>");
	if (!*text)
		return;
	snprintf(job->line, sizeof(job->line), "%s", text);
	context_event(&in->vm->ctx, "packages", "%.200s: %s", job->need.packages, text);
	TAILQ_FOREACH(s, &in->waiters, template_link) {
		if (!install_waits(s, job))
			continue;
		s->events->console(s->data, text, strlen(text));
		s->events->console(s->data, "\n", 1);
		s->awaits = true;
		context_defer(&in->vm->ctx, &s->work);
	}
}

/* ---- the end of an install ---- */

static void over(struct installer *in)
{
	in->current = NULL;
	if (in->lock >= 0)
		close(steal_fd(&in->lock));
	context_release(&in->vm->ctx);
	context_work(&in->vm->ctx);
	install_next(in);
}

static void failed(struct installer *in)
{
	struct install *job = in->current;

	if (job->ask) { /* nothing was to be kept */
		install_ask_answer(job, in->why.code[0] ? &in->why : NULL);
		install_forget(in, job);
		over(in);
		return;
	}
	job->step = INSTALL_FAILED;
	job->ended_at = uv_now(in->vm->ctx.loop);
	job->problem = in->why;
	if (!in->vm->ctx.closing) {
		log_info("packages %.200s: %s", job->need.packages, in->why.cause);
		context_event(&in->vm->ctx, "packages", "%.200s: not installed: %.300s",
			      job->need.packages, in->why.cause);
		install_release(in, job, &job->problem);
	}
	over(in);
}

static void succeeded(struct installer *in)
{
	struct install *job = in->current;
	/* Held, so that it is there for all who wait. */
	struct layer *l = in->vm->ctx.closing ? NULL : layer_get(&in->vm->layers, job->key);

	if (!l && !in->vm->ctx.closing) {
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED,
			    "Remove it, or give each user who mounts a cache of his own.",
			    "what was installed as %.400s/%s can't be opened, or is another user's",
			    in->vm->layers.dir, job->key);
		failed(in);
		return;
	}
	context_event(&in->vm->ctx, "packages", "%.200s: there after %llu s, %llu MiB",
		      job->need.packages,
		      (unsigned long long)((uv_now(in->vm->ctx.loop) - job->started_at) / 1000),
		      (unsigned long long)(in->bytes >> 20));
	if (!in->vm->ctx.closing)
		install_release(in, job, NULL);
	layer_put(l);
	install_forget(in, job);
	over(in);
}

/* Something went wrong, and what there is has to go. */
static void give_up(struct installer *in)
{
	if (in->lock < 0)
		failed(in);
	else
		go(in, INSTALL_ABANDON);
}

void installer_give_up(struct installer *in, const char *fix, const char *fmt, ...)
{
	char cause[800];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cause, sizeof(cause), fmt, ap);
	va_end(ap);
	problem_set(&in->why, PROBLEM_PACKAGES_FAILED, fix, "%s", cause);
	give_up(in);
}

/* ---- on the disk ---- */

static void work(uv_work_t *req)
{
	struct installer *in = container_of(req, struct installer, work);
	const struct install *job = in->current;
	const struct timespec pause = {0, LOCK_NS};
	const char *dir = in->vm->layers.dir;

	if (job->step == INSTALL_BEGIN) {
		layer_clean(dir);
		in->result = layer_begin(dir, job->key, &in->lock);
		if (in->result == -EAGAIN)
			nanosleep(&pause, NULL);
		if (in->result == -EEXIST && in->fetched)
			layer_trim(dir, job->key, in->vm->layers.limit);
	} else if (job->step == INSTALL_PUBLISH) {
		/* What came after the last look of the watch. */
		in->result = layer_room(dir, job->key, in->vm->layers.limit, &in->bytes);
		in->full = in->result < 0;
		if (!in->full)
			in->result = layer_publish(dir, job->key, job->need.form,
						   in->vm->layers.limit, &in->bytes);
	} else {
		layer_abandon(dir, job->key);
		in->result = 0;
	}
}

static void begun(struct installer *in)
{
	if (in->result == -EEXIST)
		succeeded(in);
	else if (in->result == -EAGAIN && !in->vm->ctx.closing)
		go(in, INSTALL_BEGIN);
	else if (in->result < 0)
		installer_give_up(in, "Look for a full disk, or for rights that are missing.",
				  "there is no room for packages in %.400s: %s", in->vm->layers.dir,
				  strerror(-in->result));
	else
		go(in, INSTALL_PREPARE);
}

static void published(struct installer *in)
{
	if (in->result == 0) {
		installer_offer(in);
		succeeded(in);
	} else if (in->full || in->result == -E2BIG) {
		installer_explain_room(in, in->result, in->bytes);
		give_up(in);
	} else if (in->result == -EFBIG) {
		installer_give_up(
			in, "Name fewer packages, or raise layer_limit.",
			"the packages take %llu MiB, which is more than all layers may have",
			(unsigned long long)(in->bytes >> 20));
	} else {
		installer_give_up(in, "", "the layer can't be kept: %s", strerror(-in->result));
	}
}

static void on_worked(uv_work_t *req, int status)
{
	struct installer *in = container_of(req, struct installer, work);

	if (status < 0)
		in->result = -ECANCELED;
	if (in->current->step == INSTALL_BEGIN)
		begun(in);
	else if (in->current->step == INSTALL_PUBLISH)
		published(in);
	else
		failed(in);
}

/* ---- one step after the other ---- */

static void start_work(struct installer *in)
{
	int r = uv_queue_work(in->vm->ctx.loop, &in->work, work, on_worked);

	if (r == 0)
		return;
	problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "", "no packages can be installed: %s",
		    strerror(-r));
	failed(in);
}

static void go(struct installer *in, enum install_step step)
{
	int r = 0;

	in->current->step = step;
	switch (step) {
	case INSTALL_PUBLISH: template_free_layers(in->vm); __attribute__((fallthrough));
	case INSTALL_BEGIN:
	case INSTALL_ABANDON: start_work(in); return;
	case INSTALL_PREPARE: r = installer_prepare(in); break;
	case INSTALL_RUN:
	case INSTALL_PACK: r = installer_run(in); break;
	case INSTALL_FETCH:
	case INSTALL_QUEUED:
	case INSTALL_FAILED:
	case INSTALL_NSTEPS: break;
	}
	if (r < 0)
		installer_give_up(in, "", "no packages can be installed: %s", strerror(-r));
}

void installer_fetched(struct installer *in)
{
	if (!in->vm->ctx.closing) {
		go(in, INSTALL_BEGIN);
		return;
	}
	problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "", "xsbxfs is ending");
	failed(in);
}

void installer_prepared(struct installer *in)
{
	go(in, INSTALL_RUN);
}

void installer_ran(struct installer *in, bool well)
{
	const struct install *job = in->current;

	words_end(&in->words);
	if (in->vm->ctx.closing && !in->why.code[0])
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "", "xsbxfs is ending");
	if (!well || in->vm->ctx.closing || job->ask)
		give_up(in);
	else if (job->step == INSTALL_RUN && job->need.form == LAYER_EROFS)
		go(in, INSTALL_PACK);
	else
		go(in, INSTALL_PUBLISH);
}

void install_next(struct installer *in)
{
	struct install *job;

	if (in->current || in->vm->ctx.closing)
		return;
	job = install_choose(in);
	if (!job)
		return;
	in->current = job;
	in->words = (struct words){.line = on_line, .data = in};
	in->bytes = 0;
	in->why.code[0] = '\0';
	in->index[0] = in->hosts[0] = '\0';
	job->started_at = uv_now(in->vm->ctx.loop);
	context_hold(&in->vm->ctx);
	job->step = INSTALL_FETCH;
	if (job->ask || !installer_fetch(in))
		go(in, INSTALL_BEGIN);
}
