/* SPDX-License-Identifier: Apache-2.0 */
/* The manager of all sandboxes: what the host can do, admission, and shutdown. */
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vm/net/dialer_process.h"
#include "vm/base/discard.h"
#include "vm/base/log.h"
#include "vm/base/trusted.h"
#include "vm/pool/pool.h"
#include "vm/spawn/registry.h"
#include "vm/spawn/child.h"
#include "vm/spawn/spawner.h"
#include "vm/base/problem.h"
#include "vm/sandbox/internal.h"
#include "trace_client.h"

#define KEY_LIMIT_MS 30000u

/* ---- what the context asks for ---- */

static void try_close(struct vm *vm);

static void on_event(void *data, const char *kind, const char *words)
{
	const struct vm *vm = data;

	if (vm->events && vm->events->event)
		vm->events->event(vm->data, kind, words);
}

static void on_woken(void *data)
{
	schedule_all(data);
	try_close(data);
}

static void on_work(void *data)
{
	struct vm *vm = data;

	pool_wake(&vm->pool);
}

static const struct context_ops context_ops = {
	.event = on_event,
	.woken = on_woken,
	.work = on_work,
};

void vm_log_level(struct vm *vm, enum log_level level)
{
	log_open(level);
	if (vm->ctx.spawner)
		spawner_log_level(vm->ctx.spawner, level);
}

/* ---- beginning ---- */

static void on_probed(struct probe *p)
{
	struct vm *vm = p->data;
	struct sandbox *s;

	TAILQ_FOREACH(s, &vm->sandboxes, link)
		s->ticket.held = false;
	if (p->fatal) {
		log_warn("accelerator: none, no machine can be started: %s", p->problem.cause);
		p->problem.logged = true;
		context_event(&vm->ctx, problem_code_str(p->problem.code), "%s", p->problem.cause);
	} else {
		log_info("accelerator: %s. %s", p->accel, probe_why(p));
		context_event(&vm->ctx, "accelerator", "%s: %s", p->accel, probe_why(p));
	}
	context_work(&vm->ctx);
	context_wake(&vm->ctx);
}

static void on_probe_closed(struct probe *p)
{
	struct vm *vm = p->data;

	context_release(&vm->ctx);
}

/* For the next start: after a crash, in which our guard ends as well. */
static void note_spawner(const char *runtime_dir, pid_t spawner)
{
	const int r = registry_write(runtime_dir, spawner);

	if (r < 0)
		log_warn("%s: what runs for this mount can't be noted there (%s), so that nobody "
			 "ends it after a crash",
			 runtime_dir, strerror(-r));
}

static void on_spawner_lost(void *data)
{
	struct vm *vm = data;
	struct problem p;
	struct sandbox *s;

	problem_set(&p, PROBLEM_SPAWNER_LOST, "Unmount, and mount again.",
		    "the process that starts sandboxes is gone, and all sandboxes with it");
	log_error("%s", p.cause);
	p.logged = true;
	vm->ctx.spawner_lost = true;
	TAILQ_FOREACH(s, &vm->sandboxes, link)
		sandbox_fail(s, &p);
	pool_close(&vm->pool);
	context_event(&vm->ctx, problem_code_str(p.code), "%s", p.cause);
}

/* More is known of files than before. */
static void on_digests(void *data)
{
	struct vm *vm = data;
	struct sandbox *s, *next;

	template_refresh_all(&vm->pool);
	for (s = TAILQ_FIRST(&vm->sandboxes); s; s = next) {
		next = TAILQ_NEXT(s, link);
		sandbox_on_digests(s);
	}
}

/* Is there room for an empty jail that is kept for the next one who needs it? */
static bool has_prefork_room(void *data)
{
	struct vm *vm = data;

	schedule_look(vm);
	return admission_room(&vm->admission, backend_process.overhead_mb);
}

static void on_pool_look(void *data)
{
	schedule_look(data);
}

/* Starts that users wait for and that take processor time. What waits for an image or packages takes none. */
static unsigned count_starting(void *data)
{
	const struct vm *vm = data;
	const struct sandbox *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, &vm->sandboxes, link)
		n += s->state == SANDBOX_STARTING && s->needs != NEEDS_IMAGE &&
		     s->needs != NEEDS_PACKAGES;
	return n;
}

static const struct pool_ops pool_ops = {.look = on_pool_look, .starting = count_starting};

/* Tells the parts of each other. Nothing is done yet. */
static void connect_parts(struct vm *vm)
{
	vm->backends.ctx = &vm->ctx;
	vm->guests.ctx = &vm->ctx;
	vm->guests.backends = &vm->backends;
	vm->image_jobs.ctx = &vm->ctx;
	vm->package_jobs.ctx = &vm->ctx;
	vm->package_jobs.store = &vm->store;
	vm->package_jobs.ops = &installer_ops;
	vm->package_jobs.data = &vm->installer;
	vm->installer.vm = vm;
	vm->installer.jobs = &vm->package_jobs;
	vm->dialer_process.ctx = &vm->ctx;
	vm->pool = (struct pool){
		.ctx = &vm->ctx,
		.backends = &vm->backends,
		.guests = &vm->guests,
		.images = &vm->image_jobs,
		.packages = &vm->package_jobs,
		.store = &vm->store,
		.admission = &vm->admission,
		.slots = &vm->slots,
		.ops = &pool_ops,
		.data = vm,
	};
	TAILQ_INIT(&vm->pool.templates);
	TAILQ_INIT(&vm->sandboxes);
	TAILQ_INIT(&vm->workdir_tasks);
}

/* Copies of what is kept of the configuration. A program with a slash in its name is made
 * absolute, because the spawner has a working directory of its own. */
static int configure(struct vm *vm, const struct vm_config *cfg)
{
	struct backends *b = &vm->backends;
	int r;

	b->qemu = strchr(cfg->qemu, '/') ? realpath(cfg->qemu, NULL) : NULL;
	if (!b->qemu)
		b->qemu = strdup(cfg->qemu);
	b->policy = cfg->policy;
	vm->agent = strdup(cfg->agent);
	vm->admission_s = cfg->admission_s;
	vm->guests.boot_s = cfg->boot_s;
	vm->guests.host = &vm->host;
	vm->guests.stand_still = cfg->stand_still;
	vm->guests.ca = cfg->ca;
	vm->guests.ca_len = cfg->ca_len;
	vm->host_ports = cfg->host_ports;
	vm->pool.snapshot_bytes = cfg->snapshot_bytes;
	vm->key_command = cfg->key_command && *cfg->key_command;
	vm->key_limit_ms = KEY_LIMIT_MS;
	vm->ctx.publish = cfg->publish;
	vm->ctx.shared_dir = cfg->shared_dir ? strdup(cfg->shared_dir) : NULL;
	if (!b->qemu || !vm->agent || (cfg->shared_dir && !vm->ctx.shared_dir))
		return -ENOMEM;
	digest_jobs_init(&b->digests, &vm->ctx, on_digests, vm);
	b->images = images_new(vm->ctx.cache_dir, vm->ctx.shared_dir, vm->agent, cfg->kernel);
	vm->image_jobs.images = vm->package_jobs.images = b->images;
	vm->image_jobs.machines = b->machine->needs_image;
	r = b->images ? image_jobs_init(&vm->image_jobs, cfg->image_builder) : -ENOMEM;
	if (r == 0)
		r = package_jobs_init(&vm->package_jobs, &cfg->packages);
	if (r == 0)
		r = store_client_init(&vm->store, &vm->ctx, &cfg->store);
	if (r == 0)
		vm->trace = calloc(1, sizeof(*vm->trace));
	if (r == 0 && !vm->trace)
		r = -ENOMEM;
	return r < 0 ? r : trace_client_init(vm->trace, &vm->ctx, &cfg->trace);
}

static void vm_free(struct vm *vm)
{
	saved_packs_drop(&vm->packs);
	discard_stop(&vm->ctx); /* first: what goes from here on, goes at once */
	vault_free(vm->vault);
	template_free_all(&vm->pool);
	schedule_fini(vm);
	image_jobs_fini(&vm->image_jobs);
	store_client_fini(&vm->store);
	if (vm->trace)
		trace_client_fini(vm->trace);
	free(vm->trace);
	package_jobs_fini(&vm->package_jobs);
	images_free(vm->backends.images);
	free(vm->backends.qemu);
	free(vm->agent);
	if (vm->trust_fd >= 0)
		close(vm->trust_fd);
	context_fini(&vm->ctx);
	free(vm);
}

/* That it is there and not used is nothing to keep quiet about. */
static void look_at_shared(const struct vm *vm)
{
	char why[TRUSTED_WHY];
	int fd;

	if (!vm->ctx.shared_dir)
		return;
	fd = trusted_open(vm->ctx.shared_dir, O_RDONLY | O_DIRECTORY, why);
	if (fd >= 0)
		close(fd);
	else if (fd != -ENOENT)
		log_warn("the shared images, layers and snapshots are not used: %s", why);
}

static void start_probe(struct vm *vm, enum accel_wish wish, bool heir)
{
	int r;

	vm->backends.probe.data = vm;
	vm->backends.probe.accel = "none";
	if (!vm->backends.machine->needs_image)
		return;
	if (heir) {
		probe_prepare(&vm->backends.probe, vm->ctx.loop, vm->ctx.spawner, wish, on_probed);
		context_hold(&vm->ctx);
		return;
	}
	r = probe_start(&vm->backends.probe, vm->ctx.loop, vm->ctx.spawner, wish, on_probed);
	if (r == 0) {
		context_hold(&vm->ctx);
		return;
	}
	vm->backends.probe.loop = NULL;
	vm->backends.probe.done = vm->backends.probe.fatal = true;
	problem_set(&vm->backends.probe.problem, PROBLEM_NO_PROBE, "Unmount, and mount again.",
		    "nothing could be started: %s", strerror(-r));
	on_probed(&vm->backends.probe);
}

int vm_new_with(const struct backend_ops *machine, uv_loop_t *loop, struct spawner *spawner,
		const struct vm_config *cfg, const struct vm_events *events, void *data,
		struct vm **ret_vm)
{
	enum accel_wish wish;
	struct vm *vm;
	int r = accel_wish_parse(cfg->accel, &wish);

	if (r < 0)
		return r;
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return -ENOMEM;
	vm->events = events;
	vm->data = data;
	vm->backends.machine = machine;
	vm->trust_fd = -1;
	connect_parts(vm);
	tsc_sample(&vm->backends.tsc);
	r = context_init(&vm->ctx, loop, spawner, cfg->cache_dir, cfg->runtime_dir, &context_ops,
			 vm);
	if (r == 0)
		r = schedule_init(vm, cfg);
	if (r == 0)
		r = configure(vm, cfg);
	if (r == 0 && spawner) {
		note_spawner(vm->ctx.runtime_dir, spawner_pid(spawner));
		r = spawner_attach(spawner, loop);
	}
	if (r < 0) {
		vm_free(vm);
		return r;
	}
	context_start(&vm->ctx);
	discard_start(&vm->ctx);
	guests_init(&vm->guests);
	pool_init(&vm->pool);
	uv_timer_init(loop, &vm->recheck);
	vm->recheck.data = vm;
	uv_timer_init(loop, &vm->metering);
	vm->metering.data = vm;
	prefork_init(&vm->backends.prefork, &vm->backends, &process_prefork_ops, has_prefork_room,
		     vm);
	/* The timers of the guests, the pool, the admission, the meters and the jails in reserve, and the spawner. */
	vm->nparts = spawner ? 6 : 5;
	if (spawner)
		spawner_attended(spawner, on_spawner_lost, vm);
	look_at_shared(vm);
	start_probe(vm, wish, cfg->heir);
	*ret_vm = vm;
	return 0;
}

int vm_new(uv_loop_t *loop, struct spawner *spawner, const struct vm_config *cfg,
	   const struct vm_events *events, void *data, struct vm **ret_vm)
{
#ifdef XSBX_LOCAL_BACKEND
	/* Tests in machines ask for real ones. */
	const struct backend_ops *machine =
		getenv("XSBX_MACHINES") ? &backend_qemu : &backend_local;
#else
	const struct backend_ops *machine = &backend_qemu;
#endif

	return vm_new_with(machine, loop, spawner, cfg, events, data, ret_vm);
}

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved)
{
	return saved_take(vm_vault(vm), &vm->package_jobs.layers, &vm->packs, fields, fds, died,
			  ret_saved);
}

void vm_set_turn(struct vm *vm, struct turn *turn)
{
	struct channel_scratch *scratch = &vm->guests.scratch;

	vm->ctx.turn = scratch->turn = turn;
	if (vm->ctx.spawner)
		spawner_set_turn(vm->ctx.spawner, turn);
	/* Where it is not allowed, there is nothing to be done about it. */
	(void)mlock(scratch->bytes, sizeof(scratch->bytes));
}

bool vm_host_is_known(const struct vm *vm)
{
	return probe_is_known(&vm->backends.probe);
}

void vm_host_put(const struct vm *vm, struct buf *out)
{
	probe_put(&vm->backends.probe, out);
}

int vm_host_get(struct vm *vm, struct record_reader fields)
{
	return probe_get(&vm->backends.probe, fields);
}

void vm_host_go(struct vm *vm)
{
	probe_go(&vm->backends.probe);
}

void vm_set_left(struct vm *vm, struct estate *left)
{
	vm->guests.scratch.left = left;
}

/* ---- end ---- */

static void on_context_closed(struct context *c)
{
	struct vm *vm = container_of(c, struct vm, ctx);

	if (vm->closed)
		vm->closed(vm->closed_data);
	vm_free(vm);
}

static void part_closed(struct vm *vm)
{
	if (--vm->nparts == 0)
		context_close(&vm->ctx, on_context_closed);
}

static void on_recheck_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

static void on_metering_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

static void on_pool_closed(uv_handle_t *handle)
{
	part_closed(container_of((uv_timer_t *)handle, struct vm, pool.timer));
}

static void on_beat_closed(uv_handle_t *handle)
{
	part_closed(container_of((uv_timer_t *)handle, struct vm, guests.beat));
}

static void on_halves_closed(void *data)
{
	part_closed(data);
}

static void on_prefork_closed(uv_handle_t *handle)
{
	part_closed(container_of((uv_timer_t *)handle, struct vm, backends.prefork.timer));
}

static void on_spawner_detached(void *data)
{
	part_closed(data);
}

/* Closes the struct's own handles once nothing else is left. */
static void try_close(struct vm *vm)
{
	if (!vm->ctx.closing || !TAILQ_EMPTY(&vm->sandboxes) || !TAILQ_EMPTY(&vm->guests.list) ||
	    vm->ctx.holds || uv_is_closing((uv_handle_t *)&vm->pool.timer) ||
	    !dialer_process_close(&vm->dialer_process))
		return;
	uv_close((uv_handle_t *)&vm->pool.timer, on_pool_closed);
	uv_close((uv_handle_t *)&vm->guests.beat, on_beat_closed);
	uv_close((uv_handle_t *)&vm->recheck, on_recheck_closed);
	uv_close((uv_handle_t *)&vm->metering, on_metering_closed);
	uv_close((uv_handle_t *)&vm->backends.prefork.timer, on_prefork_closed);
	vm->nparts += halves_close(&vm->guests.scratch.halves, on_halves_closed, vm);
	if (vm->ctx.spawner)
		spawner_detach(vm->ctx.spawner, on_spawner_detached, vm);
}

void vm_close(struct vm *vm, void (*done)(void *data), void *data)
{
	struct sandbox *s;

	if (vm->ctx.closing)
		return;
	vm->ctx.closing = true;
	vm->closed = done;
	vm->closed_data = data;
	digest_jobs_stop(&vm->backends.digests);
	uv_timer_stop(&vm->recheck);
	prefork_clear(&vm->backends.prefork);
	TAILQ_FOREACH(s, &vm->sandboxes, link)
		sandbox_close(s);
	pool_close(&vm->pool);
	if (vm->backends.probe.loop)
		probe_close(&vm->backends.probe, on_probe_closed);
	image_jobs_cut(&vm->image_jobs);
	store_client_cut(&vm->store);
	trace_client_close(vm->trace);
	package_jobs_cut(&vm->package_jobs);
	workdir_cut(vm);
	vault_close(vm->vault);
	context_wake(&vm->ctx);
}

void vm_prepare(struct vm *vm, const struct sandbox_spec *spec)
{
	struct template *t = template_get(&vm->pool, spec);

	if (!t)
		return;
	t->prepared = true;
	t->ad_hoc = false;
	context_work(&vm->ctx);
}

/* ---- questions ---- */

void vm_store_status(const struct vm *vm, struct vm_store_status *ret_status)
{
	store_client_status(&vm->store, ret_status);
}

bool vm_traces(const struct vm *vm)
{
	return vm->trace->on;
}

void vm_trace(struct vm *vm, const char *json)
{
	trace_client_send(vm->trace, json);
}

void vm_trace_status(const struct vm *vm, struct vm_trace_status *ret_status)
{
	*ret_status = vm->trace->st;
}

void vm_status(const struct vm *vm, struct vm_status *ret_status)
{
	const unsigned pooled = pool_places(&vm->pool);

	*ret_status = (struct vm_status){
		.accel = vm->backends.probe.accel,
		.accel_why = vm->backends.machine->needs_image ? probe_why(&vm->backends.probe)
							       : "Sandboxes are plain processes.",
		.qemu = vm->backends.machine->needs_image ? vm->backends.probe.qemu : "not used",
		.max_vms = vm->admission.limits.places,
		.running = vm->admission.running - MIN(pooled, vm->admission.running),
		.pooled = pooled,
		.still = guests_still(&vm->guests),
		.cold = vm->starts[START_COLD],
		.snapshot = vm->starts[START_SNAPSHOT],
		.warm = vm->starts[START_WARM],
		.waiting = vm->admission.waiting,
		.started = vm->started,
		.failed = vm->failed,
	};
}

void vm_templates(struct vm *vm, void (*fn)(void *data, const struct vm_template_status *st),
		  void *data)
{
	const struct template *t;

	TAILQ_FOREACH(t, &vm->pool.templates, link) {
		const struct vm_template_status st = {
			.image = t->spec.image,
			.language = t->spec.language,
			.backend = t->spec.backend,
			.memory_mb = t->spec.memory_mb,
			.cpus = t->spec.cpus,
			.network = t->spec.network,
			.packages = t->spec.packages,
			.warmup = t->spec.warmup,
			.state = template_state_str(t->state),
			.problem = t->problem,
			.bytes = t->snapshot.bytes,
			.built_ms = t->built_ms,
			.pool = pool_wanted(t),
			.prepared = t->prepared,
			.ready = t->nidle[IDLE_READY],
			.filling = t->nidle[IDLE_FILLING],
			.standby = t->nidle[IDLE_STANDBY],
			.hits = t->hits,
			.misses = t->misses,
			.refills = t->refills,
			.refill_ms = t->refill_ms,
			.refill_sum_ms = t->refill_sum_ms,
			.key = t->key,
			.layer = t->layer ? t->layer->key : "",
			.packages_failed = t->packages_failed,
			.saved = t->saved,
			.save_failed = t->save_failed,
			.fetched = t->fetched,
			.shared = t->shared,
		};

		fn(data, &st);
	}
}

const char *vm_image(struct vm *vm, const char *name, const char **ret_why)
{
	if (!vm->backends.machine->needs_image) {
		*ret_why = "";
		return "{\"name\": \"none\", \"tools\": {}}";
	}
	return images_manifest(vm->backends.images, name, ret_why);
}

const char *vm_image_where(struct vm *vm, const char *name, bool *ret_shared)
{
	static char path[PATH_MAX];
	const char *why;

	*ret_shared = false;
	if (!vm->backends.machine->needs_image ||
	    images_where(vm->backends.images, name, path, ret_shared, &why) < 0)
		return NULL;
	return path;
}

void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status)
{
	const struct image_job *job = image_jobs_look(&vm->image_jobs, name);
	const char *why;

	*ret_status = (struct vm_image_status){.state = "ready", .step = "", .problem = ""};
	if (vm_image(vm, name, &why))
		return;
	ret_status->state = "missing";
	ret_status->problem = why;
	if (!job)
		return;
	ret_status->state = image_job_state_str(job->state);
	ret_status->step = job->step;
	if (job->state == IMAGE_JOB_FAILED)
		ret_status->problem = job->problem;
	if (job->state == IMAGE_JOB_BUILDING)
		ret_status->elapsed_ms = uv_now(vm->ctx.loop) - job->started_at;
}

int vm_offer(struct vm *vm, const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
	     void *data)
{
	return package_jobs_versions(&vm->package_jobs, backends_ops(&vm->backends, what->backend),
				     what, packages, fn, data);
}
