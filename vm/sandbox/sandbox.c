/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox comes to be: asked for, taken from the pool, or made in the background. */
#include <errno.h>
#include <string.h>

#include "network.h"
#include "vm/pool/pool.h"
#include "vm/pool/template_job.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

#define USER_NAMEMAX 64
#define NOBODY	     ((uid_t)-1) /* owns what was not asked for */

/* ---- what it is to be ---- */

int sandbox_env_copy(const struct sandbox_env *env, size_t n, struct sandbox_env **ret_env,
		     size_t *ret_n)
{
	*ret_n = 0;
	*ret_env = NULL;
	if (n > PROTO_ENV_MAX)
		return -E2BIG;
	*ret_env = calloc(n + 1, sizeof(**ret_env));
	if (!*ret_env)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct sandbox_env *copy = *ret_env + i;

		if (strlen(env[i].name) > 256 || strlen(env[i].value) > 4096)
			return -E2BIG;
		copy->name = strdup(env[i].name);
		copy->value = strdup(env[i].value);
		++*ret_n;
		if (!copy->name || !copy->value)
			return -ENOMEM;
	}
	return 0;
}

void sandbox_env_free(struct sandbox_env *env, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((char *)env[i].name);
		free((char *)env[i].value);
	}
	free(env);
}

void sandbox_spec_free(struct sandbox *s)
{
	sandbox_env_free(s->env, s->nenv);
	view_free(&s->view);
	free(s->name);
	free(s->image);
	free(s->language);
	free(s->packages);
	free(s->warmup);
	s->env = NULL;
	s->nenv = 0;
	s->name = s->image = s->language = s->packages = s->warmup = NULL;
}

/* On failure all is as it was. */
static int copy_spec(struct sandbox *s, const struct sandbox_spec *spec)
{
	struct sandbox copy = {.name = strndup(spec->name, USER_NAMEMAX),
			       .image = strdup(spec->image),
			       .language = strdup(spec->language),
			       .packages = strdup(spec->packages ? spec->packages : ""),
			       .warmup = strdup(spec->warmup ? spec->warmup : "")};
	int r = sandbox_env_copy(spec->env, spec->nenv, &copy.env, &copy.nenv);

	if (!copy.name || !copy.image || !copy.language || !copy.packages || !copy.warmup)
		r = -ENOMEM;
	if (r == 0)
		r = view_copy(&copy.view, spec);
	if (r < 0) {
		sandbox_spec_free(&copy);
		return r;
	}
	sandbox_spec_free(s);
	s->name = copy.name;
	s->image = copy.image;
	s->language = copy.language;
	s->packages = copy.packages;
	s->warmup = copy.warmup;
	s->env = copy.env;
	s->nenv = copy.nenv;
	s->view = copy.view;
	s->ops = vm_backend_ops(s->vm, spec->backend);
	s->memory_mb = spec->memory_mb;
	s->cpus = MAX(spec->cpus, 1u);
	s->limits = spec->limits;
	s->networked = spec->network && s->ops->take_card;
	s->ticket.owner = s->slot.owner = spec->owner;
	s->slot.cpus = s->cpus * 100;
	s->ticket.memory_mb = spec->memory_mb + s->ops->overhead_mb;
	return 0;
}

/* ---- nobody listens ---- */

void sandbox_unheard_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

void sandbox_unheard_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
			    size_t len)
{
	(void)data;
	(void)run;
	(void)stream;
	(void)bytes;
	(void)len;
}

void sandbox_unheard_exit(void *data, uint32_t run, const struct vm_result *result)
{
	(void)data;
	(void)run;
	(void)result;
}

/* ---- making one ---- */

static void init_timer(struct sandbox *s, uv_timer_t *timer)
{
	uv_timer_init(s->vm->ctx.loop, timer);
	timer->data = s;
	s->nopen++;
}

static void on_work(struct deferred *d)
{
	sandbox_work(container_of(d, struct sandbox, work));
}

/* Return: NULL, with *ret_err, if it can't be made. */
static struct sandbox *make(struct vm *vm, const struct sandbox_spec *spec, enum sandbox_kind kind,
			    const struct sandbox_events *events, int *ret_err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r = -ENOMEM;

	if (s) {
		s->vm = vm;
		s->kind = kind;
		s->events = events;
		s->work.run = on_work;
		r = copy_spec(s, spec);
		if (r == 0 && kind == SANDBOX_USER)
			r = network_new(s, spec);
	}
	*ret_err = r;
	if (r < 0) {
		if (s)
			sandbox_spec_free(s);
		free(s);
		return NULL;
	}
	s->asked_at = uv_now(vm->ctx.loop);
	guestfile_init(&s->files, &s->channel);
	init_timer(s, &s->deadline);
	init_timer(s, &s->heartbeat);
	init_timer(s, &s->grace);
	TAILQ_INSERT_TAIL(&vm->sandboxes, s, link);
	return s;
}

static void join(struct sandbox *s, struct template *t)
{
	s->template = t;
	if (t)
		t->refs++;
}

/* Return: false if there have to be packages, and they are not there. */
static bool find_layer(struct sandbox *s)
{
	struct layer_need need;

	if (!*s->packages || s->layer)
		return true;
	installer_need(&s->vm->installer, s->ops, s->view.image, s->image, s->language, s->packages,
		       &need);
	s->layer = installer_layer(&s->vm->installer, &need);
	return s->layer;
}

static void ask_for_layer(struct sandbox *s)
{
	struct installer *in = &s->vm->installer;
	struct layer_need need;
	struct problem p;

	installer_need(in, s->ops, s->view.image, s->image, s->language, s->packages, &need);
	if (installer_ask(in, &need, s, &p) < 0)
		sandbox_fail(s, &p);
}

void sandbox_begin(struct sandbox *s)
{
	struct problem p;

	if (s->vm->ctx.closing) {
		sandbox_close(s);
	} else if ((s->view.npaths || s->view.work || s->view.image) && !s->ops->views) {
		problem_set(&p, "no-paths", "Write backend = process.",
			    "ro, rw, work and view are for processes, not for a "
			    "machine");
		sandbox_fail(s, &p);
	} else if (imager_lacks(&s->vm->imager, s->ops, &s->view, s->image, true)) {
		imager_wait(&s->vm->imager, s);
	} else if (!find_layer(s)) {
		ask_for_layer(s);
	} else if (!admission_possible(&s->vm->admission, &s->ticket)) {
		problem_set(&p, "no-place", "Ask for less memory (memory_mb).",
			    "a sandbox of %u MiB can never have a place: all sandboxes together "
			    "may have %llu MiB%s",
			    s->memory_mb, (unsigned long long)s->vm->admission.limits.memory_mb,
			    s->vm->admission.limits.owner_memory_mb
				    ? ", and those of one user three quarters of it"
				    : "");
		sandbox_fail(s, &p);
	} else if (!admission_queue_room(&s->vm->admission, s->ticket.owner)) {
		s->vm->refused++;
		problem_set(&p, "too-many-waiting",
			    "Try again when some of them have ended, or raise admission_queue or "
			    "admission_queue_user.",
			    "%u others wait for a place for their sandbox already",
			    s->vm->admission.waiting);
		sandbox_fail(s, &p);
	} else {
		if (s->ops->needs_image)
			probe_want(&s->vm->backends.probe);
		s->ticket.held = s->ops->needs_image && !s->vm->backends.probe.done;
		admission_wait(&s->vm->admission, &s->ticket);
		sandbox_deadline(s, s->vm->admission_s * 1000ull);
		context_wake(&s->vm->ctx);
	}
}

/* Gives an idle clone to somebody. It is up, but its name, its variables and its quota are not yet
 * theirs: that goes ahead of whatever they send. Return: 0 or -errno; it is then of no use. */
static int adopt(struct sandbox *s, const struct sandbox_spec *spec,
		 const struct sandbox_events *events, void *data)
{
	struct vm *vm = s->vm;
	int r = copy_spec(s, spec);

	if (r == 0)
		r = network_new(s, spec);
	if (r < 0)
		return r;
	s->kind = SANDBOX_USER;
	s->start = START_WARM;
	s->events = events;
	s->data = data;
	s->asked_at = s->admitted_at = s->hello_at = s->ready_at = uv_now(vm->ctx.loop);
	s->reported = SANDBOX_WAITING;
	s->unheard = 0;
	s->introduced = false;
	vm->started++;
	vm->starts[START_WARM]++;
	link_adopt(s);
	network_start(s);
	context_defer(&vm->ctx, &s->work);
	return 0;
}

/* A control group that bounds the processes of a jail was made when that was. */
static bool fits(const struct template *t, const struct sandbox_spec *spec)
{
	return t->ops->save || spec->limits.processes <= t->limits.processes;
}

int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox)
{
	struct template *t = spec->alone ? NULL : template_get(vm, spec);
	struct sandbox *s = NULL;
	int r;

	if (t)
		t->uses++;
	/* Whoever waits for a place comes first. */
	if (t && fits(t, spec) && !admission_contended(&vm->admission) &&
	    admission_own_room(&vm->admission, spec->owner, spec->memory_mb + t->ops->overhead_mb))
		s = pool_take(t);
	if (s) {
		r = adopt(s, spec, events, data);
		if (r < 0)
			sandbox_close(s);
		else
			*ret_sandbox = s;
		return r;
	}
	s = make(vm, spec, SANDBOX_USER, events, &r);
	if (!s)
		return r;
	s->data = data;
	join(s, t);
	/* With a port that can't be had it is at its end already. */
	if (s->state != SANDBOX_CLOSING)
		sandbox_begin(s);
	*ret_sandbox = s;
	return 0;
}

struct sandbox *sandbox_background(struct template *t, enum sandbox_kind kind,
				   const struct sandbox_events *events)
{
	const struct sandbox_spec spec = {
		.name = t->image,
		.image = t->image,
		.language = t->language,
		.backend = t->backend,
		.memory_mb = t->memory_mb,
		.cpus = t->cpus,
		.owner = NOBODY,
		.env = t->env,
		.nenv = t->nenv,
		.paths = t->view.path,
		.npaths = t->view.npaths,
		.work = t->view.work,
		.image_view = t->view.image,
		.limits = t->limits,
		.network = t->network,
		.packages = t->packages,
		.warmup = t->warmup,
	};
	struct vm *vm = t->vm;
	struct sandbox *s;
	int r;

	admit_look(vm);
	if (!template_layer(t) ||
	    !admission_room(&vm->admission, t->memory_mb + t->ops->overhead_mb))
		return NULL;
	s = make(vm, &spec, kind, events, &r);
	if (!s)
		return NULL;
	s->layer = layer_ref(t->layer);
	s->data = s;
	view_stamp(&s->view, s->shown);
	s->view.owner = t->view.owner;
	s->view.group = t->view.group;
	admission_place(&vm->admission, &s->ticket);
	join(s, t);
	s->start = kind == SANDBOX_POOL && t->ops->save ? START_SNAPSHOT : START_COLD;
	s->admitted_at = s->asked_at;
	s->phase = PHASE_BOOT;
	s->state = SANDBOX_STARTING;
	/* A machine that gives way to all others takes its time. */
	sandbox_deadline(s, vm->boot_s * (kind == SANDBOX_BUILD ? 5000ull : 1000ull));
	sandbox_go(s);
	return s;
}
