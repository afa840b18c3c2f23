/* SPDX-License-Identifier: Apache-2.0 */
/* Admits sandboxes and runs: the budgets, the state of the host, and the reasons for waiting. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "vm/base/rlimit.h"
#include "vm/jail/cgroup_stat.h"
#include "internal.h"

/*
 * Theory of operation
 * -------------------
 * admission.c decides which sandboxes may start, slots.c which runs may use processors; neither knows
 * the host or the time. This file does, and calls them whenever something was released.
 *
 * There are no events for the host having memory again, or a run starting to sleep. So while any
 * sandbox or run waits for that, and only then, a timer checks again.
 *
 * If memory is lacking, whatever no user has requested is ended: clones in the pool, then snapshots
 * without clones. Sessions are not: an idle session has a user's state, and ends by its own
 * idle_timeout_s or not at all.
 */

#define MEMORY_PERCENT	   92	 /* of the host's memory, times the overcommit */
#define DEFAULT_SANDBOX_MB 320	 /* of the host, for a sandbox with default settings */
#define PLACES_PER_CPU	   64u	 /* an idle clone takes 0.02 % of one, and 20 to 40 MiB */
#define OVERCOMMIT	   200	 /* per cent */
#define CPU_RESERVE	   50u	 /* hundredths of a processor, for the daemon and everybody else */
#define CPU_MOST	   4u	 /* runs that share a processor at most */
#define PRESSURE_MOST	   1000u /* hundredths of a per cent */
#define FLOOR_MIN_MB	   128u
#define FLOOR_MAX_MB	   1024u
#define FLOOR_PERCENT	   3u
#define POINT_FILES	   16u	/* one saved machine has three descriptors; most are for others */
#define READ_MS		   100u /* a reading is good for so long */
#define RECHECK_MS	   500u

static const char *const lack_str[] = {
	[LACK_NOTHING] = "",
	[LACK_PLACE] = "places",
	[LACK_OWN_PLACE] = "user-places",
	[LACK_MEMORY] = "memory-budget",
	[LACK_OWN_MEMORY] = "user-memory",
	[LACK_HOST_MEMORY] = "host-memory",
	[LACK_PRESSURE] = "memory-pressure",
	[LACK_START] = "starts",
};
static_assert(ARRAY_SIZE(lack_str) == ADMISSION_NLACKS, "a word for each lack");

/* ---- limits ---- */

static uint64_t floor_mb(const struct vm *vm, const struct vm_config *cfg)
{
	const uint64_t share = vm->reading.total_mb * FLOOR_PERCENT / 100;

	if (cfg->reserve_bytes)
		return cfg->reserve_bytes >> 20;
	return MIN(MAX(share, (uint64_t)FLOOR_MIN_MB), (uint64_t)FLOOR_MAX_MB);
}

static unsigned three_quarters(unsigned n)
{
	return MAX(n - n / 4, 1u);
}

/* Who may have what others may not. Return: 0 or -ENOMEM. */
static int take_owners(struct vm *vm, const struct vm_config *cfg, struct admission_limits *l)
{
	if (!cfg->nusers)
		return 0;
	vm->owners = calloc(cfg->nusers, sizeof(*vm->owners));
	if (!vm->owners)
		return -ENOMEM;
	for (size_t i = 0; i < cfg->nusers; i++) {
		const struct vm_user *u = &cfg->users[i];

		vm->owners[i] = (struct admission_owner){
			u->uid, u->max_vms == VM_AS_OTHERS ? l->owner_places : u->max_vms,
			u->memory_mb == VM_AS_OTHERS ? l->owner_memory_mb : u->memory_mb};
	}
	l->owners = vm->owners;
	l->nowners = cfg->nusers;
	return 0;
}

int schedule_init(struct vm *vm, const struct vm_config *cfg)
{
	struct admission_limits l = {.pressure = PRESSURE_MOST};
	unsigned cpus, budget;
	int r = host_open(&vm->host, "");

	if (r < 0)
		return r;
	host_read(&vm->host, &vm->reading);
	vm->read_at = uv_now(vm->ctx.loop);
	cpus = host_cpus(&vm->host);
	budget = cpus > CPU_RESERVE ? cpus - CPU_RESERVE : 0;
	budget = (unsigned)((uint64_t)budget * (cfg->cpu_percent ? cfg->cpu_percent : OVERCOMMIT) /
			    100);
	slots_init(&vm->slots, MAX(budget, 100u), MAX(cpus, 100u) * CPU_MOST);

	l.memory_mb = vm->reading.total_mb * MEMORY_PERCENT / 100 *
		      (cfg->memory_percent ? cfg->memory_percent : OVERCOMMIT) / 100;
	if (cfg->memory_mb)
		l.memory_mb = MIN(l.memory_mb, (uint64_t)cfg->memory_mb);
	l.floor_mb = floor_mb(vm, cfg);
	l.places = cfg->max_vms;
	if (!l.places)
		l.places = (unsigned)MIN(l.memory_mb / DEFAULT_SANDBOX_MB,
					 (uint64_t)PLACES_PER_CPU * MAX(cpus / 100, 1u));
	l.places = MAX(l.places, 1u);
	l.starting = MAX(cpus / 100, 1u);
	l.owner_places = cfg->max_vms_user;
	if (!l.owner_places && cfg->shared)
		l.owner_places = three_quarters(l.places);
	l.owner_memory_mb = cfg->memory_mb_user;
	if (!l.owner_memory_mb && cfg->shared)
		l.owner_memory_mb = l.memory_mb - l.memory_mb / 4;
	r = take_owners(vm, cfg, &l);
	if (r < 0)
		return r;
	l.queue = cfg->queue;
	l.owner_queue = cfg->queue_user;
	admission_init(&vm->admission, &l);
	vm->max_points = rlimit_files() / POINT_FILES;
	return 0;
}

void schedule_fini(struct vm *vm)
{
	host_close(&vm->host);
	free(vm->owners);
}

/* ---- the host ---- */

void schedule_look(struct vm *vm)
{
	struct admission_now *now = &vm->admission.now;
	const unsigned starting = vm->admission.starting;

	if (uv_now(vm->ctx.loop) - vm->read_at >= READ_MS) {
		host_read(&vm->host, &vm->reading);
		vm->read_at = uv_now(vm->ctx.loop);
	}
	now->known = true;
	now->available_mb = vm->reading.available_mb;
	now->pressure = vm->reading.pressure == HOST_PRESSURE_UNKNOWN ? 0 : vm->reading.pressure;
	now->sealed_mb =
		(template_memory(&vm->pool) + saved_in_memory().bytes + vault_memory(vm->vault)) >>
		20;
	now->busy = vm->slots.used + (starting + 1) * 100 > vm->slots.budget;
}

/* Measures how much processor time the runs that hold processors want. */
static void sample(struct vm *vm)
{
	const uint64_t now = uv_now(vm->ctx.loop);
	struct slot *slot;

	TAILQ_FOREACH(slot, &vm->slots.holders, link) {
		const struct sandbox *s = container_of(slot, struct sandbox, slot);
		struct guest_info info;
		const struct backend_info *b = &info.backend;
		uint64_t ms = 0;

		guest_info(s->guest, &info);
		if ((b->stats && cgroup_stat_demand_ms(b->stats, &ms)) ||
		    (b->pid > 0 && host_demand_ms(&vm->host, b->pid, &ms) == 0))
			slots_sample(&vm->slots, slot, ms, now);
	}
}

/* ---- letting in ---- */

static void on_recheck(uv_timer_t *timer)
{
	struct vm *vm = timer->data;

	if (vm->slots.waiting)
		sample(vm);
	context_wake(&vm->ctx);
}

/* Must this lack be polled? Nothing tells us when the host has memory again, or a run sleeps. Return: ms, or 0: no. */
static uint64_t recheck_in(const struct vm *vm)
{
	if (vm->slots.waiting)
		return SLOTS_SAMPLE_MS;
	if (vm->admission.waiting &&
	    (vm->admission.lack == LACK_HOST_MEMORY || vm->admission.lack == LACK_PRESSURE ||
	     (vm->admission.lack == LACK_START && vm->admission.now.busy)))
		return RECHECK_MS;
	return 0;
}

void schedule_all(struct vm *vm)
{
	struct ticket *t;
	struct slot *slot;
	uint64_t ms;

	while (!vm->ctx.closing && (slot = slots_next(&vm->slots, uv_now(vm->ctx.loop))))
		slot->held(slot);
	while (!vm->ctx.closing && vm->admission.waiting) {
		schedule_look(vm);
		t = admission_next(&vm->admission);
		if (!t)
			break;
		t->admitted(t);
	}
	if (vm->ctx.closing)
		return;
	if (admission_full(&vm->admission) && !pool_yield(&vm->pool) &&
	    vm->admission.lack != LACK_PLACE && template_yield(&vm->pool))
		context_wake(&vm->ctx);
	ms = recheck_in(vm);
	if (ms && !uv_is_active((uv_handle_t *)&vm->recheck))
		uv_timer_start(&vm->recheck, on_recheck, ms, 0);
}

/* ---- questions ---- */

#define LEAVE_SOME "Remove, close or put to sleep (echo sleep > ctl) sessions that are not needed"

static void explain_probe(const struct probe *p, char *ret_why, size_t size)
{
	snprintf(ret_why, size, "it is still being tried out what machines can run on%s%s",
		 p->tries ? "; so far: " : "", p->tries ? p->problem.cause : "");
}

/* What one user may have is all in use. */
static void explain_own(const struct sandbox *s, enum admission_lack why, char *ret_why,
			size_t size, const char **ret_fix)
{
	struct admission_owner may, has;

	admission_of(&s->vm->admission, s->ticket.owner, &may, &has);
	if (why == LACK_OWN_PLACE) {
		*ret_fix = LEAVE_SOME "; the administrator sets the quota (machines).";
		snprintf(ret_why, size, "the user has %u sandbox%s, which is the most for one",
			 may.places, may.places == 1 ? "" : "es");
		return;
	}
	*ret_fix = LEAVE_SOME ", or ask for less memory (memory_mb); the administrator sets the "
			      "quota (memory_mb).";
	snprintf(ret_why, size,
		 "the user's sandboxes have %llu of the %llu MiB one user may have, and this one "
		 "needs %u",
		 (unsigned long long)has.memory_mb, (unsigned long long)may.memory_mb,
		 s->ticket.memory_mb);
}

void schedule_explain(const struct sandbox *s, char *ret_why, size_t size, const char **ret_fix)
{
	const struct admission *a = &s->vm->admission;
	const unsigned long long used = a->memory_used_mb, sealed = a->now.sealed_mb;
	enum admission_lack why;

	*ret_fix = LEAVE_SOME ", or wait longer (admission_timeout_s).";
	if (s->ops->needs_image && !s->vm->backends.probe.done) {
		explain_probe(&s->vm->backends.probe, ret_why, size);
		return;
	}
	why = admission_why(a, &s->ticket);
	switch (why) {
	case LACK_PLACE:
		*ret_fix = LEAVE_SOME ", or raise max_vms or admission_timeout_s.";
		if (a->limits.places == 1)
			snprintf(ret_why, size, "the only place is taken");
		else
			snprintf(ret_why, size, "all %u places are taken", a->limits.places);
		break;
	case LACK_MEMORY:
		snprintf(ret_why, size,
			 "of the %llu MiB for all sandboxes %llu are promised to others, and "
			 "snapshots and what was saved hold %llu; this one needs %u",
			 (unsigned long long)a->limits.memory_mb, used, sealed,
			 s->ticket.memory_mb);
		break;
	case LACK_OWN_PLACE:
	case LACK_OWN_MEMORY: explain_own(s, why, ret_why, size, ret_fix); break;
	case LACK_HOST_MEMORY:
		*ret_fix = "Free memory on the host, close sessions that are not needed, or lower "
			   "memory_mb or memory_reserve.";
		snprintf(ret_why, size,
			 "the host has %llu MiB of memory to spare: too little for %u more, with "
			 "%llu for what is starting and %llu kept in reserve",
			 (unsigned long long)a->now.available_mb, s->ticket.memory_mb,
			 (unsigned long long)a->starting_mb,
			 (unsigned long long)a->limits.floor_mb);
		break;
	case LACK_PRESSURE:
		*ret_fix = "Free memory on the host, or wait.";
		snprintf(ret_why, size,
			 "the host is short of memory: for %u %% of the last ten seconds it did "
			 "nothing but look for some",
			 a->now.pressure / 100);
		break;
	case LACK_START:
	case LACK_NOTHING:
		snprintf(ret_why, size, "others are starting, %u at a time", a->limits.starting);
		break;
	case ADMISSION_NLACKS: assert(0);
	}
}

static void wait_for_processor(const struct sandbox *s, struct sandbox_wait *w)
{
	const struct slots *ss = &s->vm->slots;

	w->what = "processor";
	snprintf(w->why, sizeof(w->why),
		 ss->busy == 1 ? "%u run computes, and has the processors"
			       : "%u runs compute, and have the processors",
		 ss->busy);
	w->turn = slots_turn(ss, &s->slot);
	w->of = ss->waiting;
	w->ms = uv_now(s->vm->ctx.loop) - s->slot.since;
}

bool sandbox_waits(const struct sandbox *s, struct sandbox_wait *ret_wait)
{
	const char *fix;

	*ret_wait = (struct sandbox_wait){.what = ""};
	if (s->state == SANDBOX_CLOSING)
		return false;
	if (s->ticket.state == TICKET_WAITING) {
		ret_wait->what = "place";
		schedule_explain(s, ret_wait->why, sizeof(ret_wait->why), &fix);
		ret_wait->turn = admission_turn(&s->vm->admission, &s->ticket);
		ret_wait->of = s->vm->admission.waiting;
		ret_wait->ms = uv_now(s->vm->ctx.loop) - s->asked_at;
		return true;
	}
	if (s->slot.state != SLOT_WAITING)
		return false;
	wait_for_processor(s, ret_wait);
	return true;
}

void vm_user(const struct vm *vm, uid_t uid, struct vm_user_status *ret_status)
{
	struct admission_owner may, has;

	admission_of(&vm->admission, uid, &may, &has);
	*ret_status = (struct vm_user_status){
		.sandboxes = has.places,
		.memory_mb = has.memory_mb,
		.most = may.places ? MIN(may.places, vm->admission.limits.places)
				   : vm->admission.limits.places,
		.most_mb = may.memory_mb ? MIN(may.memory_mb, vm->admission.limits.memory_mb)
					 : vm->admission.limits.memory_mb,
	};
}

void vm_admission(struct vm *vm, struct vm_admission *ret_admission)
{
	const struct admission *a = &vm->admission;
	const struct sandbox *s;

	schedule_look(vm);
	*ret_admission = (struct vm_admission){
		.places = a->limits.places,
		.user_places = a->limits.owner_places,
		.running = a->running,
		.starting = a->starting,
		.waiting = a->waiting,
		.queue = a->limits.queue,
		.queue_user = a->limits.owner_queue,
		.refused = vm->refused,
		.lack = a->waiting ? lack_str[a->lack] : "",
		.memory_mb = a->limits.memory_mb,
		.promised_mb = a->memory_used_mb,
		.snapshots_mb = a->now.sealed_mb,
		.host_mb = vm->reading.total_mb,
		.available_mb = vm->reading.available_mb,
		.reserve_mb = a->limits.floor_mb,
		.pressure_known = vm->reading.pressure != HOST_PRESSURE_UNKNOWN,
		.pressure = a->now.pressure,
		.cpus = vm->slots.budget,
		.cpus_most = vm->slots.most,
		.cpus_used = vm->slots.used,
		.runs = vm->slots.held,
		.runs_waiting = vm->slots.waiting,
	};
	TAILQ_FOREACH(s, &vm->sandboxes, link)
		ret_admission->closing += s->state == SANDBOX_CLOSING;
}
