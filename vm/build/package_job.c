/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the packages that sandboxes request into layers. */
#include "package_job.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "package_internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/order/order.h"

/*
 * Theory of operation
 * -------------------
 * A sandbox whose layer is missing waits, without a place in the admission, like one whose image is
 * missing; and layers are made, one at a time:
 *
 *	QUEUED -> FETCH -> BEGIN -> PREPARE -> RUN -> PACK -> PUBLISH -> there
 *	                               |        |      |        |
 *	                               +--------+------+--------+-> ABANDON -> FAILED
 *
 * FETCH queries the store, if there is one and the layer is a single file; if it is not there, it is
 * made here. Layers made here are offered to the store.
 *
 * BEGIN, PUBLISH and ABANDON work on the disk, in a worker thread; BEGIN waits while another mount is
 * making the same layer, and may find that it has been made. PREPARE runs a program as the user, which
 * the spawner starts. RUN and PACK use sandboxes, see sandbox/installer.c; a layer that is used as a
 * directory is not packed. Their disk usage is watched, see package_watch.c. For the order of QUEUED
 * jobs see package_queue.c.
 *
 * Until PUBLISH the layer has no final name. A daemon that is killed before that leaves an unlocked
 * directory, which is removed by the next mount, or when the layer is needed again.
 *
 * All output goes to `events` and to the console of waiting sandboxes; its last lines explain a
 * failure.
 */

#define LOCK_NS	   200000000l /* between two looks at what another mount does */
#define SCRIPT_MAX 65536u
#define ASKS_USER  4u	   /* of one user, at once */
#define RETRY_MS   600000u /* after a failure, if nobody asks */

static void on_worked(uv_work_t *req, int status);
static void go(struct package_jobs *in, enum package_step step);
static void fetched(struct package_jobs *in);
static void begin_next(struct package_jobs *in);

/* ---- beginning and end ---- */

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

int package_jobs_init(struct package_jobs *in, const struct vm_packages *cfg)
{
	struct vm_packages *c = &in->cfg;
	bool bad = false;

	in->lock = -1;
	TAILQ_INIT(&in->installs);
	TAILQ_INIT(&in->waits);
	*c = (struct vm_packages){
		.dir = copy_text(cfg->dir, &bad),
		.python_index = copy_text(cfg->python_index, &bad),
		.python_hosts = copy_text(cfg->python_hosts, &bad),
		.npm_registry = copy_text(cfg->npm_registry, &bad),
		.npm_hosts = copy_text(cfg->npm_hosts, &bad),
		.layer_bytes = cfg->layer_bytes,
	};
	if (cfg->offline && *cfg->offline) {
		c->offline = realpath(cfg->offline, NULL);
		if (!c->offline)
			c->offline = copy_text(cfg->offline, &bad);
	}
	in->script = read_script(cfg->dir);
	if (asprintf(&in->source, "%s\n%s\n%s", c->python_index ? c->python_index : "",
		     c->npm_registry ? c->npm_registry : "", c->offline ? c->offline : "") < 0) {
		in->source = NULL;
		bad = true;
	}
	return bad ? -ENOMEM
		   : layers_init(&in->layers, in->ctx->cache_dir, in->ctx->shared_dir,
				 cfg->layer_bytes);
}

void package_jobs_fini(struct package_jobs *in)
{
	struct vm_packages *c = &in->cfg;
	const char *const strings[] = {c->dir,		c->python_index, c->python_hosts,
				       c->npm_registry, c->npm_hosts,	 c->offline};
	struct package_job *job;

	while (in->ctx && (job = TAILQ_FIRST(&in->installs))) {
		package_ask_answer(job, &(struct problem){.cause = "xsbxfs is ending"});
		package_job_forget(in, job);
	}
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free((char *)strings[i]);
	free(in->script);
	free(in->source);
	layers_fini(&in->layers);
}

void package_jobs_cut(struct package_jobs *in)
{
	if (in->current && in->current->step == PACKAGE_PREPARE)
		child_kill(&in->prepare.child);
	package_jobs_watch_close(in);
}

/* ---- what is needed ---- */

void package_jobs_need(const struct package_jobs *in, const struct backend_ops *ops,
		       const struct sandbox_spec *spec, struct layer_need *ret_need)
{
	*ret_need = (struct layer_need){
		.form = ops->needs_image ? LAYER_EROFS : LAYER_TREE,
		.host = !ops->needs_image && !spec->image_view,
		.image = spec->image,
		.language = spec->language,
		.packages = spec->packages,
		.source = in->source,
	};
}

struct layer *package_jobs_layer(struct package_jobs *in, const struct layer_need *need)
{
	char key[DIGEST_HEX];
	const char *why;

	if (layer_key(in->images, need, key, &why) < 0)
		return NULL;
	return layer_get(&in->layers, key);
}

/* ---- what is said ---- */

/* Keeps a fact. Return: false if the line is none, but words. */
static bool keep_fact(struct package_jobs *in, const char *line)
{
	if (strncmp(line, "index ", 6) == 0) {
		snprintf(in->index, sizeof(in->index), "%s", line + 6);
		return true;
	}
	if (strncmp(line, "host ", 5) == 0) {
		const size_t len = strlen(in->hosts);

		snprintf(in->hosts + len, sizeof(in->hosts) - len, "%s\n", line + 5);
		return true;
	}
	return false;
}

static void on_line(struct lines *w, char *text)
{
	struct package_jobs *in = w->data;
	struct package_job *job = in->current;

	if (job->step == PACKAGE_PREPARE && keep_fact(in, text))
		return;
	if (job->ask) {
		package_ask_line(job->ask, text);
		return;
	}
	text += strspn(text, " =>");
	if (!*text)
		return;
	snprintf(job->line, sizeof(job->line), "%s", text);
	context_event(in->ctx, "packages", "%.200s: %s", job->need.packages, text);
	wait_progress(&in->waits, job, text);
}

/* ---- the end of an install ---- */

static void over(struct package_jobs *in)
{
	in->current = NULL;
	if (in->lock >= 0)
		close(steal_fd(&in->lock));
	context_release(in->ctx);
	context_work(in->ctx);
	begin_next(in);
}

static void failed(struct package_jobs *in)
{
	struct package_job *job = in->current;

	if (job->ask) { /* nothing was to be kept */
		package_ask_answer(job, in->why.code ? &in->why : NULL);
		package_job_forget(in, job);
		over(in);
		return;
	}
	job->step = PACKAGE_FAILED;
	job->ended_at = uv_now(in->ctx->loop);
	job->problem = in->why;
	if (!in->ctx->closing) {
		log_warn("packages %.200s: %s", job->need.packages,
			 in->why.logged ? "not installed" : in->why.cause);
		context_event(in->ctx, "packages", "%.200s: not installed: %.300s",
			      job->need.packages, in->why.cause);
		job->problem.logged = true;
		wait_done(&in->waits, job, &job->problem);
	}
	over(in);
}

static void succeeded(struct package_jobs *in)
{
	struct package_job *job = in->current;
	/* Held, so that it is there for all who wait. */
	struct layer *l = in->ctx->closing ? NULL : layer_get(&in->layers, job->key);

	if (!l && !in->ctx->closing) {
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED,
			    "Remove it, or give each user who mounts a cache of his own.",
			    "what was installed as %.400s/%s can't be opened, or is another user's",
			    in->layers.dir, job->key);
		failed(in);
		return;
	}
	context_event(in->ctx, "packages", "%.200s: there after %llu s, %llu MiB",
		      job->need.packages,
		      (unsigned long long)((uv_now(in->ctx->loop) - job->started_at) / 1000),
		      (unsigned long long)(in->bytes >> 20));
	/* Nobody may find it, and wait for it, any more. */
	TAILQ_REMOVE(&in->installs, job, link);
	wait_done(&in->waits, job, in->ctx->closing ? &in->why : NULL);
	layer_put(l);
	package_job_free(job);
	over(in);
}

/* Something went wrong, and what there is has to go. */
static void give_up(struct package_jobs *in)
{
	if (in->lock < 0)
		failed(in);
	else
		go(in, PACKAGE_ABANDON);
}

printf_like(3, 4) static void give_up_because(struct package_jobs *in, const char *fix,
					      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	problem_setv(&in->why, PROBLEM_PACKAGES_FAILED, fix, fmt, ap);
	va_end(ap);
	give_up(in);
}

/* ---- the store ---- */

/* What it did not bring is made here, as if there were none. */
static void on_fetched(void *data, const char *key, enum store_end end, const char *why)
{
	struct package_jobs *in = data;

	(void)key;
	(void)why;
	in->fetched = end == STORE_DONE;
	in->damaged = end == STORE_DAMAGED;
	fetched(in);
}

static bool fetch(struct package_jobs *in)
{
	struct layer *there = layer_get(&in->layers, in->current->key);

	in->fetched = in->damaged = false;
	layer_put(there);
	return !there && in->current->need.form == LAYER_EROFS &&
	       store_client_get(in->store, STORE_LAYER, in->current->key, 0, in->layers.limit,
				on_fetched, in);
}

static void offer(struct package_jobs *in)
{
	if (in->current->need.form == LAYER_EROFS)
		store_client_put(in->store, STORE_LAYER, in->current->key, 0, in->damaged);
}

/* ---- the host, which a program of the user's is asked about ---- */

/* The program is gone, and has said all it had to say. */
static void on_over(struct program *t)
{
	struct package_jobs *in = t->data;
	char quote[600];

	if (t->failed)
		give_up_because(in, "", "%.300s/prepare was not started: %s", in->cfg.dir,
				strerror(-t->failed));
	else if (in->ctx->closing)
		give_up_because(in, "", "xsbxfs is ending");
	else if (!WIFEXITED(t->status) || WEXITSTATUS(t->status))
		give_up_because(in, "Mend what it says, and run again.",
				"packages can't be installed on this host: %s",
				tail_quote(&in->lines.said, "error: ", quote, sizeof(quote)));
	else
		go(in, PACKAGE_RUN);
}

static int prepare(struct package_jobs *in)
{
	const struct layer_need *need = &in->current->need;
	struct order order = {.program = ORDER_PACKAGES};

	order.packages.language =
		strcmp(need->language, "python") == 0 ? ORDER_PYTHON : ORDER_JAVASCRIPT;
	order_set(order.packages.image, need->host ? "" : need->image);
	in->prepare = (struct program){.lines = &in->lines, .over = on_over, .data = in};
	return program_start(&in->prepare, in->ctx->loop, in->ctx->spawner, &order, sizeof(order));
}

/* ---- on the disk ---- */

static void work(uv_work_t *req)
{
	struct package_jobs *in = container_of(req, struct package_jobs, work);
	const struct package_job *job = in->current;
	const struct timespec pause = {0, LOCK_NS};
	const char *dir = in->layers.dir;

	if (job->step == PACKAGE_BEGIN) {
		layer_clean(dir);
		in->result = layer_begin(dir, job->key, &in->lock);
		if (in->result == -EAGAIN)
			nanosleep(&pause, NULL);
		if (in->result == -EEXIST && in->fetched)
			layer_trim(dir, job->key, in->layers.limit);
	} else if (job->step == PACKAGE_PUBLISH) {
		/* What came after the last look of the watch. */
		in->result = layer_room(dir, job->key, in->layers.limit, &in->bytes);
		in->full = in->result < 0;
		if (!in->full)
			in->result = layer_publish(dir, job->key, job->need.form, in->layers.limit,
						   &in->bytes);
	} else {
		layer_abandon(dir, job->key);
		in->result = 0;
	}
}

static void begun(struct package_jobs *in)
{
	if (in->result == -EEXIST)
		succeeded(in);
	else if (in->result == -EAGAIN && !in->ctx->closing)
		go(in, PACKAGE_BEGIN);
	else if (in->result < 0)
		give_up_because(in, "Look for a full disk, or for rights that are missing.",
				"there is no room for packages in %.400s: %s", in->layers.dir,
				strerror(-in->result));
	else
		go(in, PACKAGE_PREPARE);
}

static void published(struct package_jobs *in)
{
	if (in->result == 0) {
		offer(in);
		succeeded(in);
	} else if (in->full || in->result == -E2BIG) {
		package_jobs_explain_room(in, in->result, in->bytes);
		give_up(in);
	} else if (in->result == -EFBIG) {
		give_up_because(
			in, "Name fewer packages, or raise layer_limit.",
			"the packages take %llu MiB, which is more than all layers may have",
			(unsigned long long)(in->bytes >> 20));
	} else {
		give_up_because(in, "", "the layer can't be kept: %s", strerror(-in->result));
	}
}

static void on_worked(uv_work_t *req, int status)
{
	struct package_jobs *in = container_of(req, struct package_jobs, work);

	if (status < 0)
		in->result = -ECANCELED;
	if (in->current->step == PACKAGE_BEGIN)
		begun(in);
	else if (in->current->step == PACKAGE_PUBLISH)
		published(in);
	else
		failed(in);
}

/* ---- one step after the other ---- */

static void start_work(struct package_jobs *in)
{
	int r = uv_queue_work(in->ctx->loop, &in->work, work, on_worked);

	if (r == 0)
		return;
	problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "", "no packages can be installed: %s",
		    strerror(-r));
	failed(in);
}

static void go(struct package_jobs *in, enum package_step step)
{
	int r = 0;

	in->current->step = step;
	switch (step) {
	case PACKAGE_PUBLISH: in->ops->let_go(in->data); __attribute__((fallthrough));
	case PACKAGE_BEGIN:
	case PACKAGE_ABANDON: start_work(in); return;
	case PACKAGE_PREPARE: r = prepare(in); break;
	case PACKAGE_RUN:
	case PACKAGE_PACK: r = in->ops->run(in->data); break;
	case PACKAGE_FETCH:
	case PACKAGE_QUEUED:
	case PACKAGE_FAILED: break;
	}
	if (r < 0)
		give_up_because(in, "", "no packages can be installed: %s", strerror(-r));
}

static void fetched(struct package_jobs *in)
{
	if (in->ctx->closing)
		give_up_because(in, "", "xsbxfs is ending"); /* of a directory there is none yet */
	else
		go(in, PACKAGE_BEGIN);
}

void package_jobs_ran(struct package_jobs *in, bool well)
{
	const struct package_job *job = in->current;

	lines_end(&in->lines);
	if (in->ctx->closing && !in->why.code)
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "", "xsbxfs is ending");
	if (!well || in->ctx->closing || job->ask)
		give_up(in);
	else if (job->step == PACKAGE_RUN && job->need.form == LAYER_EROFS)
		go(in, PACKAGE_PACK);
	else
		go(in, PACKAGE_PUBLISH);
}

static void begin_next(struct package_jobs *in)
{
	struct package_job *job;

	if (in->current || in->ctx->closing)
		return;
	job = package_job_choose(in);
	if (!job)
		return;
	in->current = job;
	in->lines = (struct lines){.line = on_line, .data = in};
	in->bytes = 0;
	in->why.code = PROBLEM_NONE;
	in->index[0] = in->hosts[0] = '\0';
	job->started_at = uv_now(in->ctx->loop);
	context_hold(in->ctx);
	job->step = PACKAGE_FETCH;
	if (job->ask || !fetch(in))
		go(in, PACKAGE_BEGIN);
}

/* ---- asking ---- */

static void forget_old_failures(struct package_jobs *in)
{
	struct package_job *job, *following;

	for (job = TAILQ_FIRST(&in->installs); job; job = following) {
		following = TAILQ_NEXT(job, link);
		if (job->step == PACKAGE_FAILED &&
		    uv_now(in->ctx->loop) - job->ended_at >= RETRY_MS)
			package_job_forget(in, job);
	}
}

int package_jobs_ask(struct package_jobs *in, const struct layer_need *need, struct wait *w,
		     struct problem *ret_problem)
{
	char key[DIGEST_HEX];
	struct package_job *job;
	const char *why;
	int r = layer_key(in->images, need, key, &why);

	if (r == 0 && (!in->script || !in->ctx->spawner || in->ctx->spawner_lost)) {
		why = "the installer's files are missing";
		r = -ENOENT;
	}
	forget_old_failures(in);
	job = r == 0 ? package_job_find(in, key) : NULL;
	if (job && !w && job->step == PACKAGE_FAILED) {
		*ret_problem = job->problem;
		return -EAGAIN;
	}
	if (r == 0 && !job) {
		job = package_job_new(in, key, need);
		why = "there is no memory";
		r = -ENOMEM;
	}
	if (!job) {
		problem_set(ret_problem, PROBLEM_PACKAGES_FAILED, "",
			    "the packages can't be installed: %s", why);
		return r;
	}
	if (job->step == PACKAGE_FAILED) {
		job->step = PACKAGE_QUEUED;
		job->line[0] = '\0';
		job->problem.code = PROBLEM_NONE;
	}
	job->prepared = job->prepared || !w;
	if (w)
		wait_for(w, &in->waits, job);
	begin_next(in);
	return 0;
}

static unsigned asks_of(const struct package_jobs *in, uid_t owner)
{
	const struct package_job *job;
	unsigned n = 0;

	TAILQ_FOREACH(job, &in->installs, link)
		for (const struct package_ask *a = job->ask; a; a = a->next)
			n += a->owner == owner;
	return n;
}

int package_jobs_versions(struct package_jobs *in, const struct backend_ops *ops,
			  const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
			  void *data)
{
	const struct sandbox_spec spec = {.image_view = what->image_view,
					  .image = what->image,
					  .language = what->language,
					  .packages = packages};
	struct package_ask *ask;
	struct layer_need need;
	struct package_job *job;
	char key[DIGEST_HEX];
	const char *why;
	int r;

	package_jobs_need(in, ops, &spec, &need);
	if (!in->script || !in->ctx->spawner || in->ctx->spawner_lost || in->ctx->closing)
		return -ENOENT;
	if (asks_of(in, what->owner) >= ASKS_USER)
		return -EBUSY;
	r = layer_key(in->images, &need, key, &why);
	if (r < 0)
		return r;
	ask = calloc(1, sizeof(*ask));
	job = package_job_find(in, key);
	if (ask && !job)
		job = package_job_new(in, key, &need);
	if (!ask || !job) {
		free(ask);
		return -ENOMEM;
	}
	*ask = (struct package_ask){.owner = what->owner, .fn = fn, .data = data};
	if (job->ask) {
		ask->next = job->ask->next;
		job->ask->next = ask;
		return 0;
	}
	job->ask = ask;
	begin_next(in);
	return 0;
}
