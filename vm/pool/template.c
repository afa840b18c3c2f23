/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: what is known of them, and their snapshots found, checked and given up. */
#include "template.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "vm/base/buf.h"
#include "vm/base/log.h"
#include "pool.h"
#include "template_job.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * Sandboxes that agree in image, language, memory, processors, the template's own variables and limits
 * and what they see of the host are of one template. What a session sets beyond that (more variables,
 * another quota) is part of SETUP, which
 * every sandbox is sent however it started; an interpreter that does not fit is started anew.
 *
 *	UNKNOWN -> LOADING -> READY <-----+
 *	              |                   |
 *	              +----> NONE -> BUILDING
 *	                       ^        |
 *	                       +--------+--> BROKEN
 *
 * Nobody waits for a snapshot to be made: sandboxes boot until there is one. They do wait for one
 * that is being read, which is faster than booting. The key is made of the text that describes the
 * machine, all of it: the checksums of its files, QEMU's version, the command line, what is done to
 * it before it is copied. Before each use it is made again, and if it is another one, an image was
 * replaced, and the snapshot with all idle clones is given up. Large files that were never read take
 * a worker thread some time (see image/digest_cache.c); until then there is no key, and sandboxes boot.
 *
 * A snapshot whose clones don't work is removed and made again. If that does not help either, the
 * template is BROKEN for a while, and says so.
 */

#define TEMPLATES_MAX  64u
#define CLONE_FAILURES 3u
#define BUILD_FAILURES 3u
#define RETRY_MS       600000u
#define PROCEDURE      5u /* to be changed with what is done to a machine before it is copied */
#define CLONE_RETRY_MS 5000u
#define TSC_PPM	       50u

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

static bool same_env(const struct template *t, const struct sandbox_spec *spec)
{
	if (t->nenv != spec->ntemplate_env)
		return false;
	for (size_t i = 0; i < t->nenv; i++) {
		if (strcmp(t->env[i].name, spec->template_env[i].name) != 0 ||
		    strcmp(t->env[i].value, spec->template_env[i].value) != 0)
			return false;
	}
	return true;
}

static bool same_text(const char *have, const char *wanted)
{
	return strcmp(have, wanted ? wanted : "") == 0;
}

static struct template *find(struct vm *vm, const struct sandbox_spec *spec)
{
	struct template *t;

	TAILQ_FOREACH(t, &vm->templates, link) {
		if (t->backend == spec->backend && t->memory_mb == spec->memory_mb &&
		    t->cpus == MAX(spec->cpus, 1u) && t->network == spec->network &&
		    strcmp(t->image, spec->image) == 0 &&
		    strcmp(t->language, spec->language) == 0 && same_env(t, spec) &&
		    memcmp(&t->limits, &spec->template_limits, sizeof(t->limits)) == 0 &&
		    same_text(t->packages, spec->packages) && same_text(t->warmup, spec->warmup) &&
		    view_serves(&t->view, spec))
			return t;
	}
	return NULL;
}

static void template_free(struct template *t)
{
	sandbox_env_free(t->env, t->nenv);
	view_free(&t->view);
	snapshot_close(&t->snapshot);
	snapshot_close(&t->recording);
	layer_put(t->layer);
	free(t->image);
	free(t->language);
	free(t->packages);
	free(t->warmup);
	free(t);
}

/* Forgets the one that was not used for longest, of those that can be. */
static void forget_one(struct vm *vm)
{
	struct template *t, *oldest = NULL;

	TAILQ_FOREACH(t, &vm->templates, link) {
		if (!t->refs && !t->prepared && (!oldest || t->used_at < oldest->used_at))
			oldest = t;
	}
	if (!oldest)
		return;
	TAILQ_REMOVE(&vm->templates, oldest, link);
	vm->ntemplates--;
	template_free(oldest);
}

static struct template *make(struct vm *vm, const struct sandbox_spec *spec)
{
	struct template *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->vm = vm;
	t->backend = spec->backend;
	t->ops = vm_backend_ops(vm, spec->backend);
	t->state = t->ops->save ? TEMPLATE_UNKNOWN : TEMPLATE_PLAIN;
	TAILQ_INIT(&t->waiters);
	TAILQ_INIT(&t->pool);
	snapshot_init(&t->snapshot);
	snapshot_init(&t->recording);
	t->image = strdup(spec->image);
	t->language = strdup(spec->language);
	t->packages = strdup(spec->packages ? spec->packages : "");
	t->warmup = strdup(spec->warmup ? spec->warmup : "");
	t->memory_mb = spec->memory_mb;
	t->cpus = MAX(spec->cpus, 1u);
	t->limits = spec->template_limits;
	t->network = spec->network;
	if (!t->image || !t->language || !t->packages || !t->warmup ||
	    sandbox_env_copy(spec->template_env, spec->ntemplate_env, &t->env, &t->nenv) < 0 ||
	    view_copy(&t->view, spec) < 0) {
		template_free(t);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&vm->templates, t, link);
	vm->ntemplates++;
	return t;
}

/* ---- its snapshot ---- */

static int describe(struct template *t, char ret_key[DIGEST_HEX], const char **ret_why)
{
	const struct backend_spec spec = {
		.name = "",
		.image = t->image,
		.memory_mb = t->memory_mb,
		.cpus = t->cpus,
		.network = t->network,
		.mode = BACKEND_RECORD,
		.ram = -1,
		.state = -1,
		.layer = t->layer,
	};
	const struct sandbox_limits *l = &t->limits;
	struct buf text = {0};
	int r = t->ops->describe(&t->vm->backends, &spec, &text, ret_why);

	if (r == 0)
		r = buf_printf(&text, "procedure %u\n%s %u %u\nlimits %u %u %u %u %u\n%s\n",
			       PROCEDURE, t->language, t->memory_mb, t->cpus, l->processes,
			       l->open_files, l->file_size_mb, l->files_mb, l->files_inodes,
			       t->warmup);
	for (size_t i = 0; r == 0 && i < t->nenv; i++)
		r = buf_printf(&text, "%s=%s\n", t->env[i].name, t->env[i].value);
	if (r == 0)
		r = digest_of(text.data, text.len, ret_key);
	buf_clear(&text);
	return r;
}

void template_drop(struct template *t)
{
	pool_empty(t);
	if (t->builder)
		sandbox_close(t->builder);
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
	if (t->ops->needs_image && (!t->vm->backends.probe.done || t->vm->backends.probe.fatal))
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
	t->asked = t->damaged = t->fetched = t->kept = t->unkept = false;
	t->retry_at = 0;
	t->problem[0] = '\0';
}

void template_refresh_all(struct vm *vm)
{
	struct template *t;

	TAILQ_FOREACH(t, &vm->templates, link) {
		template_refresh(t);
		template_load(t);
	}
	context_work(&vm->ctx);
}

struct template *template_get(struct vm *vm, const struct sandbox_spec *spec)
{
	const struct backend_ops *ops = vm_backend_ops(vm, spec->backend);
	struct template *t;

	if ((!ops->save && !ops->pools) || vm->ctx.closing || (view_wanted(spec) && !ops->views))
		return NULL;
	t = find(vm, spec);
	if (!t && vm->ntemplates >= TEMPLATES_MAX)
		forget_one(vm);
	if (!t && vm->ntemplates < TEMPLATES_MAX)
		t = make(vm, spec);
	if (!t)
		return NULL;
	t->used_at = uv_now(vm->ctx.loop);
	t->want = spec->pool;
	t->odd = spec->odd && !t->prepared;
	template_refresh(t);
	return t;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* A guest that counts with another frequency has a clock that is fast or slow. */
static bool tsc_fits(struct vm *vm, const struct snapshot *s)
{
	const uint64_t khz = tsc_khz(&vm->backends.tsc);

	return strcmp(vm->backends.probe.accel, "kvm") == 0 ||
	       distance(khz, s->tsc_khz) <= khz * TSC_PPM / 1000000;
}

static void release_waiters(struct template *t)
{
	struct sandbox *s;

	while ((s = TAILQ_FIRST(&t->waiters))) {
		TAILQ_REMOVE(&t->waiters, s, template_link);
		s->waits = false;
		template_start(s);
	}
}

static void on_loaded(struct template_job *job)
{
	struct template *t = job->template;
	struct vm *vm = t->vm;

	if (t->state != TEMPLATE_LOADING)
		return;
	t->state = TEMPLATE_NONE;
	if (strcmp(job->key, t->key) != 0) {
		t->state = TEMPLATE_UNKNOWN; /* an image was replaced in the meantime */
	} else if (job->result == 0 && tsc_fits(vm, &job->snapshot)) {
		t->snapshot = job->snapshot;
		snapshot_init(&job->snapshot);
		t->state = TEMPLATE_READY;
		t->kept = true;
		if (!t->asked) /* it was here before there was a store, maybe */
			template_offer(t);
	} else if (job->result == -EBADMSG) {
		log_warn("the snapshot of %s (%u MiB) is damaged and will be made again", t->image,
			 t->memory_mb);
		context_event(&vm->ctx, "snapshot", "%s: damaged, removed", t->image);
		template_job_start(t, JOB_REMOVE, NULL);
	} else if (job->result < 0 && job->result != -ENOENT) {
		log_warn("the snapshot of %s (%u MiB) can't be read: %s", t->image, t->memory_mb,
			 strerror(-job->result));
	}
	release_waiters(t);
	context_work(&vm->ctx);
}

static void on_stored(struct template_job *job)
{
	struct template *t = job->template;

	if (job->result == 0) {
		if (strcmp(job->key, t->key) == 0) {
			t->kept = true;
			template_offer(t);
		}
		return;
	}
	t->unkept = true;
	log_warn("the snapshot of %s (%u MiB) can't be kept for the next mount: %s", t->image,
		 t->memory_mb, strerror(-job->result));
	context_event(&t->vm->ctx, "snapshot", "%s: not kept: %s", t->image,
		      strerror(-job->result));
}

void template_job_done(struct template_job *job)
{
	switch (job->kind) {
	case JOB_LOAD: on_loaded(job); break;
	case JOB_STORE: on_stored(job); break;
	case JOB_REMOVE: break;
	}
}

/* ---- sandboxes ---- */

/* How a sandbox starts, now that it is known. */
void template_start(struct sandbox *s)
{
	s->start =
		s->template && s->template->state == TEMPLATE_READY ? START_SNAPSHOT : START_COLD;
	sandbox_go(s);
}

void template_load(struct template *t)
{
	if (t->state != TEMPLATE_UNKNOWN || !t->key[0])
		return;
	t->state = template_job_start(t, JOB_LOAD, NULL) == 0 ? TEMPLATE_LOADING : TEMPLATE_NONE;
}

bool template_prepare(struct sandbox *s)
{
	struct template *t = s->template;

	if (t)
		template_refresh(t);
	if (t)
		template_load(t);
	if (t && t->state == TEMPLATE_LOADING) {
		TAILQ_INSERT_TAIL(&t->waiters, s, template_link);
		s->waits = true;
		return false;
	}
	return true;
}

void template_leave(struct sandbox *s)
{
	if (s->waits)
		TAILQ_REMOVE(&s->template->waiters, s, template_link);
	s->waits = false;
}

static void broken(struct template *t, const char *why)
{
	t->state = TEMPLATE_BROKEN;
	t->retry_at = uv_now(t->vm->ctx.loop) + RETRY_MS;
	snprintf(t->problem, sizeof(t->problem), "%.500s", why);
	log_warn("no snapshots of %s (%u MiB), its sandboxes boot: %s", t->image, t->memory_mb,
		 why);
	context_event(&t->vm->ctx, "snapshot", "%s: none, sandboxes boot: %s", t->image, why);
}

void template_clone_works(struct template *t)
{
	t->clone_failures = t->build_failures = 0;
}

void template_clone_failed(struct template *t, const struct problem *problem)
{
	log_info("a clone of %s did not start: %s", t->image, problem->cause);
	snprintf(t->problem, sizeof(t->problem), "%.500s", problem->cause);
	/* For one without snapshots, there is nothing to be made again; but not at once. */
	t->retry_at = uv_now(t->vm->ctx.loop) + CLONE_RETRY_MS;
	if (++t->clone_failures < CLONE_FAILURES || t->state != TEMPLATE_READY)
		return;
	t->clone_failures = 0;
	template_drop(t);
	t->state = TEMPLATE_NONE;
	template_job_start(t, JOB_REMOVE, NULL);
	context_event(&t->vm->ctx, "snapshot", "%s: clones don't start, removed: %s", t->image,
		      problem->cause);
	template_build_failed(t, problem->cause);
}

void template_build_failed(struct template *t, const char *why)
{
	snprintf(t->problem, sizeof(t->problem), "%.500s", why);
	t->state = TEMPLATE_NONE;
	t->retry_at = uv_now(t->vm->ctx.loop) + 5000;
	if (++t->build_failures >= BUILD_FAILURES)
		broken(t, why);
	context_work(&t->vm->ctx);
}

uint64_t template_memory(const struct vm *vm)
{
	const struct template *t;
	uint64_t bytes = 0;

	TAILQ_FOREACH(t, &vm->templates, link)
		bytes += t->snapshot.bytes;
	return bytes;
}

bool template_yield(struct vm *vm)
{
	struct template *t, *oldest = NULL;

	TAILQ_FOREACH(t, &vm->templates, link) {
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

void template_free_all(struct vm *vm)
{
	struct template *t;

	while ((t = TAILQ_FIRST(&vm->templates))) {
		TAILQ_REMOVE(&vm->templates, t, link);
		template_free(t);
	}
}
