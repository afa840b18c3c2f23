/* SPDX-License-Identifier: Apache-2.0 */
/* A session's hold on a sandbox. See the theory of operation in session.h. */
#include "binding.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vm/base/log.h"
#include "fs/mount.h"
#include "fs/config/network.h"
#include "fs/config/paths.h"
#include "quota.h"

void lease_set_state(struct session *s, enum session_state state)
{
	if (s->state == state)
		return;
	s->state = state;
	s->state_mtime = fs_now();
	if (state == SESSION_CLOSED)
		s->fs->stats.sessions_closed++;
	if (state == SESSION_IDLE)
		session_touch(s);
	if (!s->dead)
		events_add(&s->fs->events, s, "session", session_state_str(state));
}

void lease_close(struct session *s, const struct problem *why)
{
	s->closed = *why;
	session_problem(s, why);
	lease_set_state(s, SESSION_CLOSED);
}

/* ---- ends of runs ---- */

static void run_over(struct session *s, struct run *r)
{
	s->fs->stats.runs[r->state]++;
	s->runs_mtime = r->ended;
	events_add_run(&s->fs->events, s, r);
	log_trace(run_label(s, r), "fs", "its result can be read: %s", run_state_str(r->state));
}

void lease_refuse(struct session *s, struct run *r, const struct problem *why)
{
	TAILQ_REMOVE(&s->queue, r, queue);
	s->nqueued--;
	run_refuse(r, why);
	session_problem(s, why);
	run_over(s, r);
	run_unref(r);
}

static void refuse_all(struct session *s, const struct problem *why)
{
	struct run *r;

	while ((r = TAILQ_FIRST(&s->queue)))
		lease_refuse(s, r, why);
}

static void timed_out(struct run *r)
{
	struct problem *p = &r->result.problem;

	snprintf(p->code, sizeof(p->code), "timeout");
	snprintf(p->cause, sizeof(p->cause),
		 "run %u was ended because it took longer than timeout_s = %u", r->number,
		 r->timeout_s);
	snprintf(p->fix, sizeof(p->fix),
		 "echo 'timeout_s = %u' >> config gives the next ones more time; 0 is no limit.",
		 r->timeout_s * 4);
}

/* The active run has ended. */
static void finish(struct session *s, const struct vm_result *result)
{
	struct run *r = s->active;

	s->active = NULL;
	run_ended_with(r, result);
	if (result->outcome == VM_TIMEOUT && !r->result.problem.code[0])
		timed_out(r);
	if (r->result.problem.code[0])
		session_problem(s, &r->result.problem);
	run_over(s, r);
	run_unref(r);
}

void lease_cut(struct session *s, const struct problem *why)
{
	if (s->sandbox) {
		lease_info(s);
		sandbox_close(s->sandbox);
		if (s->active) {
			s->lease->input = s->active->input;
			s->active->input = (struct buf){0};
		}
		s->lease->s = NULL;
		s->lease = NULL;
		s->sandbox = NULL;
		s->standing = (struct problem){0};
		s->ready = s->reset_asked = false;
		s->epoch++;
		files_gone(&s->files);
		pause_void(s);
	}
	if (s->active) {
		/* Its processes end with the sandbox, at somebody's word: that much is known. */
		struct vm_result killed = {
			.outcome = VM_KILLED, .status = 137, .fresh = true, .problem = *why};

		finish(s, &killed);
	}
	refuse_all(s, why);
}

void lease_info(struct session *s)
{
	if (!s->sandbox)
		return;
	sandbox_info(s->sandbox, &s->info);
	snprintf(s->interpreter, sizeof(s->interpreter), "%s", s->info.interpreter);
	s->info.interpreter = s->interpreter; /* the sandbox's own goes with it */
}

/* ---- what the sandbox reports ---- */

static void on_state(void *data, enum sandbox_state state)
{
	struct session *s = ((struct lease *)data)->s;

	if (!s || s->dead)
		return;
	if (state != SANDBOX_READY)
		return;
	if (!s->ready) {
		s->ready = true;
		if (strcmp(s->error.code, PROBLEM_IMAGE_MISSING) == 0 ||
		    strcmp(s->error.code, PROBLEM_PACKAGES_WAIT) == 0)
			session_problem(s, NULL); /* what was waited for is there */
		lease_info(s);
		changes_begin(s);
		s->files_mtime = fs_now();
		files_ready(&s->files);
	}
	if (!s->active && s->pause.state != PAUSE_STILL)
		lease_set_state(s, SESSION_IDLE);
	lease_pump(s);
	wait_wake(s->fs, &s->wait);
}

/* Starting takes long, and the session's `error` says why. */
static void on_awaits(void *data, const struct problem *what)
{
	struct session *s = ((struct lease *)data)->s;

	if (s && !s->dead)
		session_problem(s, what);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	struct session *s = ((struct lease *)data)->s;
	struct buf *b;

	if (!s)
		return;
	b = &s->console;
	if (len > SESSION_CONSOLE_MAX) {
		bytes = (const char *)bytes + (len - SESSION_CONSOLE_MAX);
		len = SESSION_CONSOLE_MAX;
	}
	if (b->len + len > 2 * SESSION_CONSOLE_MAX) {
		size_t cut = b->len - MIN(b->len, (size_t)SESSION_CONSOLE_MAX / 2);

		memmove(b->data, b->data + cut, b->len - cut);
		b->len -= cut;
	}
	if (buf_append(b, bytes, len) < 0)
		s->console_lost = true;
	s->console_mtime = fs_now();
}

/* A run that prints faster than the disk writes has to wait; not so if writing fails, for that may be for
 * good. */
static void check_pace(struct session *s)
{
	if (s->active && s->sandbox)
		sandbox_hold(s->sandbox, s->fs->depot.err == 0 && run_is_behind(s->active));
}

void lease_relieved(void *data)
{
	struct fs *fs = data;

	for (unsigned i = 0; i < fs->nslots; i++)
		if (fs->slot[i])
			check_pace(fs->slot[i]);
}

/* Return: whether something of this run is lost from now on. */
static bool keep_output(struct session *s, enum vm_stream stream, const void *bytes, size_t len)
{
	const bool had_lost = run_lost(s->active);

	if (run_wants_disk(s->active, stream, len) && quota_disk_full(s->fs, s->uid))
		run_stop_keeping(s->active, stream, -EDQUOT);
	run_output(s->active, stream, bytes, len);
	return run_lost(s->active) && !had_lost;
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	struct session *s = ((struct lease *)data)->s;
	struct problem loss;

	if (!s || !s->active || s->active->number != run)
		return;
	if (keep_output(s, stream, bytes, len)) {
		run_lost_problem(s->active, &loss);
		session_problem(s, &loss);
		events_add(&s->fs->events, s, "output", loss.cause);
	}
	check_pace(s);
	s->fs->stats.output_bytes += len;
	wait_wake(s->fs, &s->wait);
}

static void on_run_exit(void *data, uint32_t run, const struct vm_result *result)
{
	struct session *s = ((struct lease *)data)->s;
	static const struct problem fresh = {.code = "fresh", .cause = "fresh = yes"};

	if (!s || !s->active || s->active->number != run)
		return;
	finish(s, result);
	session_touch(s);
	if (s->settings.fresh && s->sandbox) {
		/* The queue is for other sandboxes: cut without refusing it. */
		struct run_list keep = TAILQ_HEAD_INITIALIZER(keep);

		TAILQ_CONCAT(&keep, &s->queue, queue);
		lease_cut(s, &fresh);
		TAILQ_CONCAT(&s->queue, &keep, queue);
		lease_set_state(s, SESSION_NEW);
	} else if (s->sandbox) {
		lease_set_state(s, SESSION_IDLE);
	}
	wait_wake(s->fs, &s->wait);
	lease_pump(s);
}

static void on_denied(void *data, const struct sandbox_denied *what)
{
	struct session *s = ((struct lease *)data)->s;

	if (s && !s->dead)
		netnode_denied(s, what);
}

static void on_network_lost(void *data, const struct problem *problem)
{
	struct session *s = ((struct lease *)data)->s;

	if (!s || s->dead)
		return;
	s->standing = *problem;
	session_problem(s, problem);
	events_add(&s->fs->events, s, "network", problem->cause);
	s->ports_mtime = fs_now();
}

static void on_ports(void *data)
{
	struct session *s = ((struct lease *)data)->s;

	if (s && !s->dead)
		netnode_ports(s);
}

static void on_frozen(void *data, int err)
{
	struct session *s = ((struct lease *)data)->s;

	if (s && !s->dead)
		pause_answered(s, err);
}

/* The sandbox is gone without our asking. */
static void on_closed(void *data, const struct problem *problem)
{
	static const struct problem silent = {
		.code = "closed", .cause = "the sandbox was closed because xsbxfs is ending"};
	struct lease *lease = data;
	struct session *s = lease->s;
	bool was_up, anew;

	buf_clear(&lease->input);
	free(lease);
	if (!s)
		return;
	was_up = s->ready;
	pause_void(s);
	/* A reset came when the sandbox was ending already, which could not be seen yet. */
	anew = s->reset_asked && problem;
	s->lease = NULL;
	s->sandbox = NULL;
	s->standing = (struct problem){0};
	s->ready = s->reset_asked = false;
	s->epoch++;
	files_gone(&s->files);
	if (!problem)
		problem = &silent;
	if (!anew)
		refuse_all(s, problem);
	if (was_up && !anew) {
		lease_close(s, problem);
	} else {
		session_problem(s, problem);
		lease_set_state(s, anew ? SESSION_NEW : SESSION_FAILED);
	}
	log_warn("%s/%s: %s: %s", s->t->name, s->name, problem->code, problem->cause);
	wait_wake(s->fs, &s->wait);
	if (anew)
		lease_pump(s);
}

static const struct sandbox_events lease_events = {
	.state = on_state,
	.awaits = on_awaits,
	.console = on_console,
	.output = on_output,
	.exit = on_run_exit,
	.denied = on_denied,
	.ports = on_ports,
	.network_lost = on_network_lost,
	.frozen = on_frozen,
	.closed = on_closed,
};

/* ---- starting and feeding ---- */

#define ENV_MAX (SETTINGS_ENV_MAX + NETENV_MAX)

/* The variables of @st, and those that go with a network. Return: how many. */
static size_t list_env(const struct fs *fs, const struct settings *st, bool network,
		       struct sandbox_env env[ENV_MAX])
{
	for (size_t i = 0; i < st->nenv; i++)
		env[i] = (struct sandbox_env){st->env[i].name, st->env[i].value};
	return netenv_add(&fs->netenv, st, network, env, st->nenv);
}

static enum vm_backend backend_of(const struct settings *st)
{
	return st->backend == SETTINGS_PROCESS ? VM_PROCESS : VM_MICROVM;
}

/* Does a sandbox with these settings have an interface? Ports need one, even if no way leads out of it. */
static bool is_wired(const struct settings *st)
{
	return st->network || *st->ports;
}

/* Is it for whoever begins the session, and nobody knows now who that will be? */
static bool is_owners(const struct conf *conf, const struct settings *st)
{
	return conf->allow_other && geteuid() == 0 && (*st->rw || *st->work);
}

void lease_prepare(struct fs *fs)
{
	struct sandbox_env env[ENV_MAX];
	struct sandbox_port ports[SANDBOX_PORTS_MAX];

	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		const struct conf_template *t = &fs->conf->template[i];
		struct paths paths;
		const int r = paths_init(&paths, &t->settings);
		const struct sandbox_spec spec = {
			.name = t->name,
			.image = t->image,
			.language = t->language,
			.backend = backend_of(&t->settings),
			.memory_mb = t->settings.memory_mb,
			.cpus = t->settings.cpus,
			.owner = geteuid(),
			.group = getegid(),
			.paths = paths.path,
			.npaths = paths.n,
			.image_view = *t->settings.view != '\0',
			.work = *t->settings.work ? t->settings.work : NULL,
			.template_env = env,
			.ntemplate_env = list_env(fs, &t->settings, t->settings.network, env),
			.template_limits = t->settings.limits,
			.packages = t->settings.packages,
			.warmup = t->warmup,
			.pool = t->pool,
			.network = is_wired(&t->settings),
			.allow = t->settings.allow,
			.ports = ports,
			.nports = netset_list_ports(t->settings.ports, ports),
		};

		if (t->prepare && r == 0 && !is_owners(fs->conf, &t->settings))
			vm_prepare(fs->vm, &spec);
		paths_clear(&paths);
	}
}

/* The template's warm-up is for the template's packages. */
static const char *warmup_of(const struct session *s)
{
	const struct conf_template *t = s->t;

	return strcmp(t->settings.packages, s->settings.packages) == 0 ? t->warmup : NULL;
}

/* Does it differ from its template in size or backend, or in having a network? */
static bool is_odd(const struct settings *s, const struct settings *base)
{
	return is_wired(s) != is_wired(base) || s->backend != base->backend ||
	       s->memory_mb != base->memory_mb || s->cpus != base->cpus;
}

int lease_start(struct session *s)
{
	char name[160];
	struct sandbox_env env[ENV_MAX], template_env[ENV_MAX];
	const struct settings *base = &s->t->settings;
	struct sandbox_port ports[SANDBOX_PORTS_MAX];
	struct paths paths;
	_cleanup_free_ char *allow = netenv_allow(&s->fs->netenv, &s->settings);
	int e = paths_init(&paths, &s->settings);
	const struct run *first = TAILQ_FIRST(&s->queue);
	const struct sandbox_spec spec = {
		.name = name,
		.label = {s->path, first ? first->number : 0, first ? first->began : 0},
		.image = s->t->image,
		.language = s->t->language,
		.backend = backend_of(&s->settings),
		.memory_mb = s->settings.memory_mb,
		.cpus = s->settings.cpus,
		.owner = s->uid,
		.group = s->gid,
		.paths = paths.path,
		.npaths = paths.n,
		.image_view = *s->settings.view != '\0',
		.work = *s->settings.work ? s->settings.work : NULL,
		.env = env,
		.nenv = list_env(s->fs, &s->settings, s->settings.network, env),
		.template_env = template_env,
		.ntemplate_env = list_env(s->fs, base, s->settings.network, template_env),
		.limits = s->settings.limits,
		.template_limits = base->limits,
		.packages = s->settings.packages,
		.warmup = warmup_of(s),
		.pool = s->t->pool,
		.network = is_wired(&s->settings),
		.allow = allow,
		.ports = ports,
		.nports = netset_list_ports(s->settings.ports, ports),
		.odd = is_odd(&s->settings, base),
	};

	assert(!s->sandbox && !s->dead);
	snprintf(name, sizeof(name), "%s-%s", s->t->name, s->name);
	log_trace(&spec.label, "fs", "asks for a sandbox");
	s->lease = e < 0 || !allow ? NULL : calloc(1, sizeof(*s->lease));
	if (!s->lease) {
		paths_clear(&paths);
		return -ENOMEM;
	}
	s->lease->s = s;
	e = sandbox_new(s->fs->vm, &spec, &lease_events, s->lease, &s->sandbox);
	paths_clear(&paths);
	if (e < 0) {
		free(s->lease);
		s->lease = NULL;
		session_problemf(s, "no-sandbox", "", "no sandbox could be made: %s", strerror(-e));
		lease_set_state(s, SESSION_FAILED);
		return e;
	}
	buf_clear(&s->console);
	s->console_lost = false;
	lease_set_state(s, SESSION_STARTING);
	return 0;
}

static int hand_over(struct session *s, struct run *r)
{
	const struct sandbox_run run = {
		.id = r->number,
		.began = r->began,
		.code = r->code.data,
		.code_len = r->code.len,
		.stdin_data = r->input.len ? r->input.data : NULL,
		.stdin_len = r->input.len,
		.timeout_ms = s->settings.timeout_s * 1000u,
		.grace_ms = s->settings.grace_s * 1000u,
		.limit = {s->fs->conf->output_bytes, s->fs->conf->output_bytes},
	};

	return sandbox_run(s->sandbox, &run);
}

void lease_pump(struct session *s)
{
	struct run *r = TAILQ_FIRST(&s->queue);
	int e;

	if (s->dead || s->active || s->changes.committing || s->pause.state != PAUSE_NONE)
		return;
	if (s->reset_asked && s->sandbox) {
		if (sandbox_reset(s->sandbox) == 0)
			s->reset_asked = false;
		return; /* READY will come */
	}
	if (!r)
		return;
	if (!s->sandbox) {
		struct problem p = {.code = "no-sandbox"};

		e = lease_start(s);
		if (e < 0) {
			snprintf(p.cause, sizeof(p.cause), "no sandbox could be made: %s",
				 strerror(-e));
			refuse_all(s, &p);
		}
		return;
	}
	e = s->ready ? hand_over(s, r) : -EBUSY;
	if (e == -EBUSY || e == -EAGAIN)
		return; /* READY will come */
	if (e < 0) {
		struct problem p = {.code = "not-sent"};

		snprintf(p.cause, sizeof(p.cause), "the run could not be sent: %s", strerror(-e));
		lease_refuse(s, r, &p);
		wait_wake(s->fs, &s->wait);
		lease_pump(s); /* nothing else would try those behind it */
		return;
	}
	TAILQ_REMOVE(&s->queue, r, queue);
	s->nqueued--;
	s->active = r; /* the queue's reference */
	run_started(r, s->settings.timeout_s);
	lease_set_state(s, SESSION_RUNNING);
	events_add_run(&s->fs->events, s, r);
}
