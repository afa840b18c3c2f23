/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: their state, and finding, verifying and discarding their snapshots. */
#include "template.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vm/base/buf.h"
#include "vm/base/log.h"
#include "pool.h"
#include "vm/base/config.h"
#include "vm/base/problem.h"
#include "vm/base/trusted.h"
#include "vm/build/package_job.h"
#include "vm/build/store_client.h"
#include "vm/host/tsc.h"
#include "vm/image/layer.h"

/*
 * Theory of operation
 * -------------------
 * Sandboxes that agree in image, language, memory, processors, the template's own variables and limits
 * and what they see of the host share a template. What a session sets beyond that (more variables,
 * another quota) is part of SETUP, which every sandbox is sent however it started; an interpreter that
 * does not fit is started anew.
 *
 *	UNKNOWN -> LOADING -> READY <-----+
 *	              |                   |
 *	              +----> NONE -> BUILDING
 *	                       ^        |
 *	                       +--------+--> BROKEN
 *
 * Nobody waits for a snapshot to be made: sandboxes boot until there is one. They do wait for one
 * that is being read, which is faster than booting. The key is a digest of everything that determines the
 * machine: the checksums of its files, QEMU's version, the command line, what is done to it before it is
 * copied. It is computed again before each use; if it has changed, an image was replaced, and the
 * snapshot with all idle clones is dropped. Large files that were never read take a worker thread some
 * time (see image/digest_cache.c); until then there is no key, and sandboxes boot.
 *
 * What this user has not himself is looked for in the shared directory, which root has filled for all: the key of a
 * snapshot names nobody, so it is the same for every user whose images, programs and settings are the same.
 *
 * A snapshot whose clones don't work is removed and made again. If that does not help either, the
 * template is BROKEN for a while, and says so.
 */

#define TEMPLATES_MAX  64u
#define CLONE_FAILURES 3u
#define BROKEN_MS      600000u
#define PROCEDURE      6u /* to be changed with what is done to a machine before it is copied */
#define TRY_AGAIN_MS   5000u
#define TSC_PPM	       50u
#define NOBODY	       ((uid_t)-1) /* has what was not asked for */

static const char *const state_str[] = {
	[TEMPLATE_UNKNOWN] = "unknown", [TEMPLATE_LOADING] = "loading",
	[TEMPLATE_NONE] = "none",	[TEMPLATE_BUILDING] = "building",
	[TEMPLATE_READY] = "ready",	[TEMPLATE_PLAIN] = "plain",
	[TEMPLATE_BROKEN] = "broken",
};
static_assert(ARRAY_SIZE(state_str) == TEMPLATE_NSTATES, "a name for each state");

const char *template_state_str(enum template_state state)
{
	return state_str[state];
}

static struct template *find(struct pool *p, const struct sandbox_spec *spec)
{
	struct template *t;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (spec_is_kind(&t->spec, spec))
			return t;
	}
	return NULL;
}

static void template_free(struct template *t)
{
	snapshot_close(&t->snapshot);
	snapshot_close(&t->recording);
	layer_put(t->layer);
	ahead_clear(&t->ahead);
	spec_free(&t->spec);
	free(t);
}

/* Forgets the one that was not used for longest, of those that can be. */
static void forget_one(struct pool *p)
{
	struct template *t, *oldest = NULL;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (!t->refs && !t->prepared && (!oldest || t->used_at < oldest->used_at))
			oldest = t;
	}
	if (!oldest)
		return;
	TAILQ_REMOVE(&p->templates, oldest, link);
	p->ntemplates--;
	template_free(oldest);
}

static struct template *make(struct pool *p, const struct sandbox_spec *spec)
{
	struct template *t = calloc(1, sizeof(*t));

	if (!t || spec_copy_kind(&t->spec, spec) < 0) {
		free(t);
		return NULL;
	}
	t->pool = p;
	t->ops = backends_ops(p->backends, spec->backend);
	t->state = t->ops->save ? TEMPLATE_UNKNOWN : TEMPLATE_PLAIN;
	TAILQ_INIT(&t->waits);
	TAILQ_INIT(&t->idle);
	snapshot_init(&t->snapshot);
	snapshot_init(&t->recording);
	TAILQ_INSERT_TAIL(&p->templates, t, link);
	p->ntemplates++;
	return t;
}

/* ---- its packages ---- */

bool template_layer(struct template *t)
{
	struct layer_need need;

	if (!*t->spec.packages || t->layer)
		return true;
	package_jobs_need(t->pool->packages, t->ops, &t->spec, &need);
	t->layer = package_jobs_layer(t->pool->packages, &need);
	return t->layer;
}

void template_free_layers(struct pool *p)
{
	struct template *t;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (!t->refs && !t->prepared)
			t->layer = layer_put(t->layer);
	}
}

void template_install(struct template *t)
{
	struct layer_need need;
	struct problem p;

	if (template_layer(t))
		return;
	package_jobs_need(t->pool->packages, t->ops, &t->spec, &need);
	t->packages_failed = package_jobs_ask(t->pool->packages, &need, NULL, &p) < 0;
	if (t->packages_failed)
		snprintf(t->problem, sizeof(t->problem), "%.500s", p.cause);
}

/* ---- its guests ---- */

bool template_start(struct template *t, enum machine_mode mode, bool brief, bool standby,
		    struct ticket *ticket, const struct guest_events *events, void *data,
		    struct guest **ret_guest)
{
	const struct snapshot *snap = mode == MACHINE_RECORD ? &t->recording : &t->snapshot;
	const struct guest_config cfg = {
		.ops = t->ops,
		.spec = &t->spec,
		.layer = t->layer,
		.mode = mode,
		.ram = mode == MACHINE_COLD ? -1 : snap->ram,
		.state = mode == MACHINE_COLD ? -1 : snap->state,
		.background = true,
		.brief = brief,
		.standby = standby,
		.imports = mode == MACHINE_RECORD ? ahead_list(&t->ahead, &t->spec) : NULL,
	};
	struct pool *p = t->pool;

	p->ops->look(p->data);
	ticket->owner = NOBODY;
	ticket->memory_mb = t->spec.memory_mb + t->ops->overhead_mb;
	if (!template_layer(t) || !admission_room(p->admission, ticket->memory_mb) ||
	    guest_new(p->guests, &cfg, events, data, ret_guest) < 0)
		return false;
	admission_place(p->admission, ticket);
	return true;
}

void template_empty(struct template *t)
{
	struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link)
		guest_close(i->guest);
}

/* ---- its files, in worker threads ---- */

enum job_kind { JOB_LOAD, JOB_STORE, JOB_REMOVE };

/* Independent of what happens to the template meanwhile: it has its own key and descriptors. */
struct template_job {
	uv_work_t work;
	struct template *template; /* holds a reference */
	enum job_kind kind;
	char key[DIGEST_HEX];
	char *dir;
	char *shared; /* where it is looked for besides, or NULL */
	bool publish;
	uint64_t limit;
	struct snapshot snapshot;
	bool from_shared;
	int result, shared_result;
	char why[TRUSTED_WHY]; /* the shared one is not trusted */
};

static void job_done(struct template_job *job);

/* The user's own, or that of the shared directory. */
static void load(struct template_job *job)
{
	snapshot_clean(job->dir);
	job->result = snapshot_load(job->dir, job->key, &job->snapshot);
	/* What was fetched was put there by somebody who does not look at the rest. */
	if (job->result == 0)
		snapshot_trim(job->dir, job->limit);
	if (job->result != -ENOENT || !job->shared)
		return;
	job->shared_result = snapshot_load_shared(job->shared, job->key, &job->snapshot, job->why);
	job->from_shared = job->shared_result == 0;
	if (job->from_shared)
		job->result = 0;
}

static void work(uv_work_t *req)
{
	struct template_job *job = container_of(req, struct template_job, work);

	switch (job->kind) {
	case JOB_LOAD: load(job); break;
	case JOB_STORE:
		job->result = snapshot_store(job->dir, job->key, &job->snapshot, job->limit,
					     job->publish);
		break;
	case JOB_REMOVE: (void)snapshot_remove(job->dir, job->key); break;
	}
}

static void job_free(struct template_job *job)
{
	snapshot_close(&job->snapshot);
	free(job->dir);
	free(job->shared);
	free(job);
}

static void on_done(uv_work_t *req, int status)
{
	struct template_job *job = container_of(req, struct template_job, work);
	struct context *ctx = job->template->pool->ctx;

	if (status < 0)
		job->result = -ECANCELED;
	job->template->refs--;
	if (!ctx->closing)
		job_done(job);
	context_release(ctx);
	job_free(job);
}

static int dup_snapshot(const struct snapshot *s, struct snapshot *ret_s)
{
	*ret_s = *s;
	ret_s->ram = fcntl(s->ram, F_DUPFD_CLOEXEC, 3);
	ret_s->state = fcntl(s->state, F_DUPFD_CLOEXEC, 3);
	return ret_s->ram < 0 || ret_s->state < 0 ? -errno : 0;
}

/* May everybody read its snapshot? Variables that only its own configuration knows may be secrets. */
static bool is_public(const struct template *t)
{
	for (size_t i = 0; i < t->spec.nenv; i++)
		if (strcmp(t->spec.env[i].value, VM_CA_FILE) != 0)
			return false;
	return t->pool->ctx->publish;
}

/* Have something done by a worker thread; @s: for JOB_STORE, duplicated. Return: 0 or -errno. */
static int start_job(struct template *t, enum job_kind kind, const struct snapshot *s)
{
	struct template_job *job = calloc(1, sizeof(*job));
	int r = 0;

	if (!job)
		return -ENOMEM;
	snapshot_init(&job->snapshot);
	job->template = t;
	job->kind = kind;
	job->limit = t->pool->snapshot_bytes;
	memcpy(job->key, t->key, sizeof(job->key));
	if (asprintf(&job->dir, "%s/snapshots", t->pool->ctx->cache_dir) < 0) {
		job->dir = NULL;
		r = -ENOMEM;
	}
	job->publish = is_public(t);
	if (r == 0 && kind == JOB_LOAD && t->pool->ctx->shared_dir && !t->shuns_shared &&
	    asprintf(&job->shared, "%s/snapshots", t->pool->ctx->shared_dir) < 0) {
		job->shared = NULL;
		r = -ENOMEM;
	}
	if (r == 0 && s)
		r = dup_snapshot(s, &job->snapshot);
	if (r == 0)
		r = uv_queue_work(t->pool->ctx->loop, &job->work, work, on_done);
	if (r < 0) {
		job_free(job);
		return r;
	}
	t->refs++;
	context_hold(t->pool->ctx);
	return 0;
}

/* ---- its snapshot ---- */

static int describe(struct template *t, char ret_key[DIGEST_HEX], const char **ret_why)
{
	const struct backend_spec spec = {
		.name = "",
		.image = t->spec.image,
		.memory_mb = t->spec.memory_mb,
		.cpus = t->spec.cpus,
		.network = t->spec.network,
		.root = t->spec.root,
		.mode = MACHINE_RECORD,
		.ram = -1,
		.state = -1,
		.layer = t->layer,
	};
	const struct sandbox_limits *l = &t->spec.limits;
	const char *imports = ahead_list(&t->ahead, &t->spec), *code = spec_warmup_code(&t->spec);
	struct buf text = {0};
	int r = t->ops->describe(t->pool->backends, &spec, &text, ret_why);

	if (r == 0 && !imports)
		r = -ENOMEM;
	if (r == 0)
		r = buf_printf(&text, "procedure %u\n%s %u %u\nlimits %u %u %u %u %u\n%s\n",
			       PROCEDURE, t->spec.language, t->spec.memory_mb, t->spec.cpus,
			       l->processes, l->open_files, l->file_size_mb, l->files_mb,
			       l->files_inodes, code ? code : "");
	if (r == 0 && *imports)
		r = buf_printf(&text, "imports\n%s", imports);
	for (size_t i = 0; r == 0 && i < t->spec.nenv; i++)
		r = buf_printf(&text, "%s=%s\n", t->spec.env[i].name, t->spec.env[i].value);
	if (r == 0)
		r = digest_of(text.data, text.len, ret_key);
	buf_clear(&text);
	return r;
}

void template_drop(struct template *t)
{
	template_empty(t);
	if (t->builder)
		guest_close(t->builder);
	snapshot_close(&t->snapshot);
	if (t->state == TEMPLATE_READY || t->state == TEMPLATE_BUILDING)
		t->state = TEMPLATE_UNKNOWN;
}

void template_refresh(struct template *t)
{
	char key[DIGEST_HEX];
	const char *why;
	int r;

	if (t->state == TEMPLATE_PLAIN)
		return;
	/* Nothing is known yet of what machines run on. */
	if (t->ops->needs_image &&
	    (!t->pool->backends->probe.done || t->pool->backends->probe.fatal))
		return;
	r = template_layer(t) ? describe(t, key, &why) : -EAGAIN;
	if (r == -EAGAIN) {
		/* What there is was made of other files; of which, is not known yet. */
		if (t->key[0])
			template_drop(t);
		t->key[0] = '\0';
		if (t->state == TEMPLATE_NONE || t->state == TEMPLATE_BROKEN)
			t->state = TEMPLATE_UNKNOWN;
		return;
	}
	/* If it fails, starting a machine will fail too, with better words. */
	if (r < 0 || strcmp(key, t->key) == 0)
		return;
	if (t->key[0])
		template_drop(t);
	memcpy(t->key, key, sizeof(t->key));
	if (t->state != TEMPLATE_LOADING)
		t->state = TEMPLATE_UNKNOWN;
	t->clone_failures = t->build_failures = 0;
	t->asked = t->damaged = t->fetched = t->saved = t->save_failed = false;
	t->shared = t->shuns_shared = false;
	t->retry_at = 0;
	t->problem[0] = '\0';
}

void template_refresh_all(struct pool *p)
{
	struct template *t;

	TAILQ_FOREACH(t, &p->templates, link) {
		template_refresh(t);
		template_load(t);
	}
	context_work(p->ctx);
}

struct template *template_get(struct pool *p, const struct sandbox_spec *spec)
{
	const struct backend_ops *ops = backends_ops(p->backends, spec->backend);
	struct template *t;

	if ((!ops->save && !ops->pools) || p->ctx->closing || (view_wanted(spec) && !ops->views))
		return NULL;
	t = find(p, spec);
	if (!t && p->ntemplates >= TEMPLATES_MAX)
		forget_one(p);
	if (!t && p->ntemplates < TEMPLATES_MAX)
		t = make(p, spec);
	if (!t)
		return NULL;
	t->used_at = uv_now(p->ctx->loop);
	t->want = spec->pool;
	t->ad_hoc = spec->ad_hoc && !t->prepared;
	template_refresh(t);
	return t;
}

static void offer(struct template *t)
{
	store_client_put(t->pool->store, STORE_SNAPSHOT, t->key, t->snapshot.tsc_khz, t->damaged);
	t->asked = true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* A guest that counts with another frequency has a clock that is fast or slow. */
static bool tsc_fits(struct backends *b, const struct snapshot *s)
{
	const uint64_t khz = tsc_khz(&b->tsc);

	return strcmp(b->probe.accel, "kvm") == 0 ||
	       distance(khz, s->tsc_khz) <= khz * TSC_PPM / 1000000;
}

/* Says why the shared one is not used, if it is there. */
static void explain_shared(const struct template *t, const struct template_job *job)
{
	const int r = job->shared_result;
	const char *why = r == -EPERM	  ? job->why
			  : r == -EBADMSG ? "it is damaged, or not for this version"
					  : strerror(-r);

	if (r == 0 || r == -ENOENT || r == -ECANCELED)
		return;
	log_warn("the shared snapshot of %s (%u MiB) is not used: %s", t->spec.image,
		 t->spec.memory_mb, why);
	context_event(t->pool->ctx, "snapshot", "%s: the shared one is not used: %s", t->spec.image,
		      why);
}

static void on_loaded(struct template_job *job)
{
	struct template *t = job->template;

	explain_shared(t, job);
	if (t->state != TEMPLATE_LOADING)
		return;
	t->state = TEMPLATE_NONE;
	if (strcmp(job->key, t->key) != 0) {
		t->state = TEMPLATE_UNKNOWN; /* an image was replaced in the meantime */
	} else if (job->result == 0 && tsc_fits(t->pool->backends, &job->snapshot)) {
		t->snapshot = job->snapshot;
		snapshot_init(&job->snapshot);
		t->state = TEMPLATE_READY;
		t->saved = true;
		t->shared = job->from_shared;
		if (!t->asked && !t->shared) /* it was here before there was a store, maybe */
			offer(t);
	} else if (job->result == -EBADMSG) {
		log_warn("the snapshot of %s (%u MiB) is damaged and will be made again",
			 t->spec.image, t->spec.memory_mb);
		context_event(t->pool->ctx, "snapshot", "%s: damaged, removed", t->spec.image);
		start_job(t, JOB_REMOVE, NULL);
	} else if (job->result < 0 && job->result != -ENOENT) {
		log_warn("the snapshot of %s (%u MiB) can't be read: %s", t->spec.image,
			 t->spec.memory_mb, strerror(-job->result));
	}
	wait_done(&t->waits, t, NULL);
	context_work(t->pool->ctx);
}

static void on_stored(struct template_job *job)
{
	struct template *t = job->template;

	if (job->result == 0) {
		if (strcmp(job->key, t->key) == 0) {
			t->saved = true;
			offer(t);
		}
		return;
	}
	t->save_failed = true;
	log_warn("the snapshot of %s (%u MiB) can't be kept for the next mount: %s", t->spec.image,
		 t->spec.memory_mb, strerror(-job->result));
	context_event(t->pool->ctx, "snapshot", "%s: not kept: %s", t->spec.image,
		      strerror(-job->result));
}

static void job_done(struct template_job *job)
{
	switch (job->kind) {
	case JOB_LOAD: on_loaded(job); break;
	case JOB_STORE: on_stored(job); break;
	case JOB_REMOVE: break;
	}
}

/* ---- who uses it ---- */

void template_load(struct template *t)
{
	if (t->state != TEMPLATE_UNKNOWN || !t->key[0])
		return;
	t->state = start_job(t, JOB_LOAD, NULL) == 0 ? TEMPLATE_LOADING : TEMPLATE_NONE;
}

/* What was not got is made here, as if there were no store. */
static void on_fetched(void *data, const char *key, enum store_end end, const char *why)
{
	struct template *t = data;

	(void)why;
	t->fetching = false;
	t->refs--;
	if (t->pool->ctx->closing)
		return;
	if (strcmp(key, t->key) == 0) {
		t->damaged = end == STORE_DAMAGED;
		if (end == STORE_DONE && t->state == TEMPLATE_NONE)
			t->state = TEMPLATE_UNKNOWN;
		t->fetched = end == STORE_DONE;
		template_load(t);
	}
	context_work(t->pool->ctx);
}

bool template_fetch(struct template *t)
{
	if (t->fetching || t->asked)
		return t->fetching;
	t->asked = true;
	t->fetching = store_client_get(t->pool->store, STORE_SNAPSHOT, t->key,
				       strcmp(t->pool->backends->probe.accel, "kvm") == 0
					       ? 0
					       : tsc_khz(&t->pool->backends->tsc),
				       t->pool->snapshot_bytes, on_fetched, t);
	if (t->fetching)
		t->refs++;
	return t->fetching;
}

bool template_wait(struct template *t, struct wait *w)
{
	template_refresh(t);
	template_load(t);
	if (t->state != TEMPLATE_LOADING)
		return false;
	wait_for(w, &t->waits, t);
	return true;
}

static void broken(struct template *t, const char *why)
{
	t->state = TEMPLATE_BROKEN;
	t->retry_at = uv_now(t->pool->ctx->loop) + BROKEN_MS;
	snprintf(t->problem, sizeof(t->problem), "%.500s", why);
	log_warn("no snapshots of %s (%u MiB), its sandboxes boot: %s", t->spec.image,
		 t->spec.memory_mb, why);
	context_event(t->pool->ctx, "snapshot", "%s: none, sandboxes boot: %s", t->spec.image, why);
}

void template_build_failed(struct template *t, const char *why)
{
	snprintf(t->problem, sizeof(t->problem), "%.500s", why);
	t->state = TEMPLATE_NONE;
	t->retry_at = uv_now(t->pool->ctx->loop) + TRY_AGAIN_MS;
	if (++t->build_failures >= TEMPLATE_BUILD_FAILURES)
		broken(t, why);
	else
		log_info("no snapshot of %s yet: %s", t->spec.image, why);
	context_work(t->pool->ctx);
}

void template_clone_works(struct template *t)
{
	t->clone_failures = t->build_failures = 0;
}

void template_clone_failed(struct template *t, const struct problem *problem)
{
	snprintf(t->problem, sizeof(t->problem), "%.500s", problem->cause);
	/* For one without snapshots, there is nothing to be made again; but not at once. */
	t->retry_at = uv_now(t->pool->ctx->loop) + TRY_AGAIN_MS;
	if (++t->clone_failures < CLONE_FAILURES || t->state != TEMPLATE_READY) {
		log_info("a clone of %s did not start: %s", t->spec.image, problem->cause);
		return;
	}
	t->clone_failures = 0;
	template_drop(t);
	t->state = TEMPLATE_NONE;
	/* Root's is not ours to remove. One of our own is made, and found first from then on. */
	t->shuns_shared = t->shuns_shared || t->shared;
	start_job(t, JOB_REMOVE, NULL);
	context_event(t->pool->ctx, "snapshot", "%s: clones don't start, removed: %s",
		      t->spec.image, problem->cause);
	template_build_failed(t, problem->cause);
}

void template_store(struct template *t)
{
	const int r = start_job(t, JOB_STORE, &t->snapshot);

	if (r < 0)
		log_warn("the snapshot of %s can't be kept: %s", t->spec.image, strerror(-r));
}

/* ---- its memory ---- */

uint64_t template_memory(const struct pool *p)
{
	const struct template *t;
	uint64_t bytes = 0;

	TAILQ_FOREACH(t, &p->templates, link)
		bytes += t->snapshot.bytes;
	return bytes;
}

bool template_yield(struct pool *p)
{
	struct template *t, *oldest = NULL;

	TAILQ_FOREACH(t, &p->templates, link) {
		if (t->state == TEMPLATE_READY && !t->refs &&
		    (!oldest || t->used_at < oldest->used_at))
			oldest = t;
	}
	if (!oldest)
		return false;
	snapshot_close(&oldest->snapshot);
	oldest->state = TEMPLATE_UNKNOWN; /* it is read again when it is needed */
	return true;
}

/* ---- the end ---- */

void template_free_all(struct pool *p)
{
	struct template *t;

	while ((t = TAILQ_FIRST(&p->templates))) {
		TAILQ_REMOVE(&p->templates, t, link);
		template_free(t);
	}
}
