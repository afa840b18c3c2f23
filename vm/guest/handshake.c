/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's start-up: boot, HELLO, SETUP, exercises, and saving it if it is to be a snapshot. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "channel_record.h"
#include "internal.h"
#include "vm/base/exact.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/point.h"

/*
 * Theory of operation
 * -------------------
 * Each step sends a request to the agent and records in `due` which answer is expected. When it has arrived, or
 * when the clock was corrected, guest_advance() takes the next step of the phase. A guest that no user waits for
 * exercises its interpreter first; one that boots runs its template's warm-up; one that is to be a snapshot imports
 * packages before all that (imports.c), and is then left idle for a moment, so that no messages are in flight, and
 * saved.
 *
 * A guest that fails to start explains it with the last lines of its console.
 */

#define INODES_PER_MIB	341u /* 65536 in the default 192 MiB */
#define RESTORE_MS	15000ull /* a restore takes milliseconds; what takes longer than this is stuck */
#define EXERCISE_RUN	UINT32_MAX
#define EXERCISE_MS	60000u
#define EXERCISE_BYTES	4096u
#define EXERCISES	3u
#define EXERCISES_BRIEF 1u
#define WARMUP_RUN	PROTO_RUN_ID_WARMUP
#define WARMUP_MS	300000u
#define WARMUP_LATE_MS	5000u
#define SETTLE_MS	500u /* the agent's log of the boot goes out in this time */
#define PANIC		"Kernel panic"
#define FIX_BOOT_FAILED "See the session's console; the next run tries again."

/* ---- how it fails ---- */

/* It can't come up because of @why: ends the guest, and quotes its console. */
static void failed(struct guest *g, const struct problem *why)
{
	struct problem p = *why;
	char quote[600];

	if (g->ops->drain && g->backend)
		g->ops->drain(g->backend);
	problem_wrap(&p, PROBLEM_BOOT_FAILED, why->fix[0] ? why->fix : FIX_BOOT_FAILED, "%.300s",
		     why->cause);
	if (g->console.total)
		problem_add(&p, "; the console ends with: %s",
			    tail_quote(&g->console, PANIC, quote, sizeof(quote)));
	else if (why->code != PROBLEM_NO_JAIL) /* without a jail nothing ran */
		problem_add(&p, "; the console shows nothing");
	guest_fail(g, &p);
}

/* A reset is late: has the agent had a processor meanwhile? Else it has more time. */
static bool has_had_time(struct guest *g)
{
	const uint64_t allowed_ms = g->allowed_ms;

	if (g->late.on && starved_over(&g->late, g, STARVED_STEP_MS))
		return true;
	if (!g->late.on)
		starved_begin(&g->late, g);
	guest_deadline(g, STARVED_STEP_MS);
	g->allowed_ms = allowed_ms;
	return false;
}

void handshake_overdue(struct guest *g)
{
	static const char *const waited_for[] = {
		[GUEST_STANDBY] = "",
		[GUEST_BOOT] = "the agent in the sandbox did not answer",
		[GUEST_SETUP] = "the interpreter did not start",
		[GUEST_WARM] = "the interpreter could not be exercised",
		[GUEST_SETTLE] = "",
		[GUEST_SAVE] = "the machine was not copied",
		[GUEST_RESET] = "no fresh interpreter came up",
		[GUEST_UP] = "",
		[GUEST_ENDING] = "",
	};
	struct problem p;

	static_assert(ARRAY_SIZE(waited_for) == GUEST_NPHASES, "words for each phase");
	if (g->phase == GUEST_RESET && !has_had_time(g))
		return;
	problem_set(&p, PROBLEM_AGENT_SILENT,
		    "The machine may be overloaded: try again, or raise boot_timeout_s.",
		    "%s within %u s", waited_for[g->phase], (unsigned)(g->allowed_ms / 1000));
	g->import_failed = g->importing;
	if (g->phase == GUEST_RESET)
		guest_fail(g, &p);
	else
		failed(g, &p);
}

/* ---- what it is told ---- */

/* Sends @f; without memory for it, ends the guest. Return: whether it was sent. */
static bool push(struct guest *g, struct channel_frame *f)
{
	if (f && !f->out.bad) {
		channel_push(&g->channel, f, CHANNEL_CONTROL);
		return true;
	}
	free(f);
	guest_failf(g, PROBLEM_NO_MEMORY, "", "there is no memory for a message to the sandbox");
	return false;
}

void handshake_hello(struct guest *g)
{
	struct channel_frame *f = channel_frame_new(PROTO_HELLO, 0, 1024);
	uint8_t entropy[PROTO_ENTROPY] = {0};
	struct timespec now;

	/* With these flags it cannot fail, or be short, once the kernel has booted. */
	(void)!getrandom(entropy, sizeof(entropy), 0);
	clock_gettime(CLOCK_REALTIME, &now);
	/* 0 on the wire is none. */
	g->generation += (uint8_t)(g->generation + 1) ? 1 : 2;
	g->channel.generation = (uint8_t)g->generation;
	g->due = DUE_HELLO;
	g->trace.greeted = log_now();
	g->resume.due = false; /* that says as much, and more */
	g->resume.asked = 0;
	log_trace(&g->label, "guest", "greets the agent");
	if (f) {
		f->header.flags = (uint8_t)((log_has(LOG_LEVEL_DEBUG) ? PROTO_F_TRACE : 0) |
					    (g->copy ? PROTO_F_COPY : 0));
		g->copy = false;
		put_u32(&f->out, PROTO_VERSION);
		put_u32(&f->out, g->generation);
		put_u64(&f->out, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
		put_bytes(&f->out, entropy, sizeof(entropy));
		put_str(&f->out, proto_cstr(g->spec.name));
	}
	explicit_bzero(entropy, sizeof(entropy));
	if (push(g, f))
		guest_clock_ask(g);
}

void guest_files_limits(const struct guest *g, uint64_t *ret_bytes, uint32_t *ret_inodes)
{
	const struct sandbox_limits *l = &g->spec.limits;

	*ret_bytes = (uint64_t)(l->files_mb ? l->files_mb : g->spec.memory_mb) << 20;
	if (!l->files_mb)
		*ret_bytes = *ret_bytes * 2 / 5;
	*ret_inodes = l->files_inodes ? l->files_inodes : g->spec.memory_mb * INODES_PER_MIB;
}

static void send_setup(struct guest *g)
{
	const uint64_t memory = (uint64_t)g->spec.memory_mb << 20;
	const struct sandbox_limits *l = &g->spec.limits;
	struct proto_setup setup = {
		.language = proto_cstr(g->spec.language),
		.tmp_bytes = memory * 3 / 10,
		.tmp_inodes = g->spec.memory_mb * INODES_PER_MIB,
		.nproc = l->processes,
		.nofile = l->open_files,
		.fsize = (uint64_t)l->file_size_mb << 20,
		.nenv = (uint32_t)g->spec.nenv,
	};
	struct channel_frame *f;
	size_t size = 256;
	bool fixed = false;

	/* It has not told its version yet; what is started in jails is as new as we are. */
	if (g->spec.learn)
		push(g, channel_frame_new(PROTO_LEARN, 0, 0));

	for (size_t i = 0; i < g->spec.nenv; i++) {
		setup.env[i].name = proto_cstr(g->spec.env[i].name);
		setup.env[i].value = proto_cstr(g->spec.env[i].value);
		size += 8 + setup.env[i].name.len + setup.env[i].value.len;
	}
	guest_files_limits(g, &setup.files_bytes, &setup.files_inodes);
	if (exact_seed(g->spec.seed, &setup.seed) > 0)
		setup.exact |= PROTO_EXACT_SEED;
	if (exact_clock(g->spec.clock, &setup.clock_ns, &fixed) > 0)
		setup.exact |= PROTO_EXACT_CLOCK | (fixed ? PROTO_EXACT_FIXED : 0);
	setup.before = g->spec.before;
	log_trace(&g->label, "guest", "asks for an interpreter: %s", g->spec.language);
	f = channel_frame_new(PROTO_SETUP, 0, size);
	if (f)
		proto_setup_pack(&f->out, &setup);
	push(g, f);
}

void handshake_again(struct guest *g)
{
	g->changed = false;
	handshake_hello(g);
	send_setup(g);
}

/* The host's certificates, for a guest that can reach something that has one. */
static bool send_ca(struct guest *g, const void *more, size_t len)
{
	struct channel_frame *f;

	if (!g->networked || !(g->all->ca_len + len))
		return true;
	f = channel_frame_new(PROTO_TRUST, 0, g->all->ca_len + len);
	if (f && g->all->ca_len)
		put_bytes(&f->out, g->all->ca, g->all->ca_len);
	if (f && len)
		put_bytes(&f->out, more, len);
	return push(g, f);
}

void guest_trust(struct guest *g, const void *pem, size_t len)
{
	(void)send_ca(g, pem, len);
}

void handshake_run(struct guest *g, uint32_t id, struct proto_run *run)
{
	struct channel_frame *f = channel_frame_new(PROTO_RUN, id, run->code.len + 256);

	if (f)
		proto_run_pack(&f->out, run);
	g->due = DUE_RUN;
	g->run = id;
	push(g, f);
}

/* A run as users have them, whose output nobody reads. */
static void exercise(struct guest *g)
{
	const char *code = strcmp(g->spec.language, "python") == 0	 ? "print(1)\n"
			   : strcmp(g->spec.language, "javascript") == 0 ? "console.log(1)\n"
									 : "echo 1\n";
	struct proto_run run = {.flags = PROTO_RUN_TRIAL,
				.timeout_ms = EXERCISE_MS,
				.limit = {EXERCISE_BYTES, EXERCISE_BYTES},
				.credit = 2 * EXERCISE_BYTES,
				.code = proto_cstr(code)};

	handshake_run(g, EXERCISE_RUN, &run);
}

/* Runs the warm-up code, which every machine that boots runs. */
static void warm_up(struct guest *g)
{
	struct proto_run run = {.timeout_ms = WARMUP_MS,
				.limit = {EXERCISE_BYTES, EXERCISE_BYTES},
				.credit = 2 * EXERCISE_BYTES,
				.code = proto_cstr(g->spec.warmup)};

	g->warmed_up = true;
	g->phase = GUEST_WARM;
	guest_deadline(g, WARMUP_MS + WARMUP_LATE_MS);
	handshake_run(g, WARMUP_RUN, &run);
}

/* ---- copying ---- */

static void on_saved(void *data, const char *error)
{
	struct guest *g = data;

	if (g->phase == GUEST_ENDING)
		return;
	if (!error) {
		tell_owner(g, saved);
		guest_close(g);
		return;
	}
	guest_failf(g, PROBLEM_NOT_SAVED, "", "QEMU can't copy a machine: %s", error);
}

static void save(struct guest *g)
{
	int r;

	g->phase = GUEST_SAVE;
	guest_deadline(g, g->all->boot_s * 1000ull);
	r = g->ops->save(g->backend, on_saved);
	if (r == 0)
		return;
	guest_failf(g, PROBLEM_NOT_SAVED, "", "QEMU was not asked for a copy: %s", strerror(-r));
}

/* ---- from phase to phase ---- */

static void set_up(struct guest *g)
{
	g->hello_at = uv_now(g->all->ctx->loop);
	g->phase = GUEST_SETUP;
	g->due = DUE_READY;
	if (send_ca(g, NULL, 0)) /* first: there are interpreters that read it when they start */
		send_setup(g);
}

static void come_up(struct guest *g)
{
	log_trace(&g->label, "guest", "is up");
	g->phase = GUEST_UP;
	guest_deadline(g, 0);
	if (g->changed)
		handshake_again(g);
	still_touch(g);
	tell_owner(g, up);
}

/* The interpreter is ready, or has finished an exercise: takes the next step. */
static void warm(struct guest *g)
{
	if (g->background && !g->warming) {
		if (imports_begin(g))
			return;
		g->phase = GUEST_WARM;
		g->warming = true;
		g->exercises = g->brief ? EXERCISES_BRIEF : EXERCISES;
		if (!g->brief) {
			g->due = DUE_READY;
			channel_send(&g->channel, PROTO_WARM, 0, NULL, 0);
			return;
		}
	}
	if (g->exercises) {
		g->exercises--;
		exercise(g);
	} else if (g->mode != MACHINE_CLONE && spec_warmup_code(&g->spec) && !g->warmed_up) {
		warm_up(g);
	} else {
		g->ready_at = uv_now(g->all->ctx->loop);
		if (g->mode == MACHINE_RECORD) {
			g->imports_unproven = false;
			g->phase = GUEST_SETTLE;
			guest_deadline(g, SETTLE_MS);
		} else {
			come_up(g);
		}
	}
}

void guest_advance(struct guest *g)
{
	if (g->due != DUE_NOTHING)
		return;
	switch (g->phase) {
	case GUEST_STANDBY: break;
	case GUEST_BOOT: set_up(g); break;
	case GUEST_SETUP:
		if (!guest_clock_hold(g))
			warm(g);
		break;
	case GUEST_WARM: warm(g); break;
	case GUEST_SETTLE: save(g); break;
	case GUEST_RESET: come_up(g); break;
	case GUEST_SAVE:
	case GUEST_UP:
	case GUEST_ENDING: break;
	case GUEST_NPHASES: assert(0);
	}
}

/* ---- what it answers ---- */

int handshake_on_hello(struct guest *g, struct proto_in *in)
{
	const uint32_t version = get_u32(in), generation = get_u32(in);

	get_u64(in);
	get_str(in, 256);
	if (!get_end(in) || version < PROTO_VERSION_OLDEST || generation != g->generation ||
	    g->due != DUE_HELLO)
		return -EPROTO;
	g->version = MIN(version, PROTO_VERSION);
	log_trace(&g->label, "guest", "the agent has answered");
	/* guest_introduce() has sent SETUP already. */
	g->due = g->phase == GUEST_BOOT ? DUE_NOTHING : DUE_READY;
	guest_advance(g);
	return 0;
}

/* Copies text of the guest, truncated, without what is not printable. */
static void take_words(char *out, size_t size, struct proto_str words)
{
	size_t n = 0;

	for (uint32_t i = 0; i < words.len && n + 1 < size; i++) {
		if (words.data[i] >= 0x20 && words.data[i] < 0x7f)
			out[n++] = words.data[i];
	}
	out[n] = '\0';
}

int handshake_on_ready(struct guest *g, struct proto_in *in)
{
	const struct proto_str version = get_str(in, 256);

	get_u64(in);
	if (!get_end(in))
		return -EPROTO;
	if (g->due != DUE_READY)
		return 0; /* an interpreter that has ended was replaced */
	g->due = DUE_NOTHING;
	take_words(g->interpreter, sizeof(g->interpreter), version);
	log_trace(&g->label, "guest", "the interpreter is ready: %s", g->interpreter);
	guest_advance(g);
	return 0;
}

int handshake_on_failed(struct guest *g, struct proto_in *in)
{
	const uint32_t err = get_u32(in);
	const struct proto_str words = get_str(in, 4096);
	const bool was_up = g->phase == GUEST_RESET;
	const enum problem_code code = was_up ? PROBLEM_RESET_FAILED : PROBLEM_SETUP_FAILED;
	struct problem p;
	char text[512];

	/* It may come before the answer to a greeting, which waits for what is being swept. */
	if (!get_end(in) || (g->due == DUE_NOTHING && g->phase != GUEST_WARM))
		return -EPROTO;
	take_words(text, sizeof(text), words);
	problem_set(&p, code,
		    was_up ? "See the session's console; then reset the session." : FIX_BOOT_FAILED,
		    "the agent could not prepare the sandbox: %s%s%s", text, err ? ": " : "",
		    err && err < 134 ? strerror((int)err) : "");
	/* Only a process sandbox that shows the host's programs can lack it: images have it. */
	if (err == ENOENT && strcmp(g->spec.language, "javascript") == 0 &&
	    strcmp(text, "starting the program") == 0)
		problem_set(&p, code,
			    "Install bun in the PATH of the daemon, or give the template "
			    "view = image and image = javascript.",
			    "the interpreter, the program bun, was not found");
	guest_fail(g, &p);
	return 0;
}

/* Keeps the output of a warm-up, which is shown if it fails. */
static void take_output(struct guest *g, struct proto_in *in)
{
	struct proto_str bytes;

	get_u32(in);
	bytes = get_rest(in);
	if (bytes.len)
		tail_add(&g->said, bytes.data, bytes.len);
}

int handshake_on_exercise(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	char quote[400];
	struct proto_exit e;

	if (g->due != DUE_RUN || h->id != g->run ||
	    (h->type == PROTO_EXIT && proto_exit_unpack(in, &e) < 0))
		return -EPROTO;
	if (h->type != PROTO_EXIT) {
		if (h->id == WARMUP_RUN)
			take_output(g, in);
		else if (imports_is_run(h->id))
			imports_on_output(g, h, in);
		return 0;
	}
	g->due = DUE_NOTHING;
	if (imports_is_run(h->id)) {
		imports_on_exit(g, &e);
		return 0;
	}
	if (e.how == PROTO_HOW_DONE && e.status == 0) {
		guest_advance(g);
		return 0;
	}
	if (h->id == WARMUP_RUN)
		guest_failf(g, PROBLEM_WARMUP_FAILED,
			    "Correct warmup, in config or in xsbxfs.conf, or give it more memory.",
			    "the warmup %s: %s",
			    e.how == PROTO_HOW_TIMEOUT ? "took too long" : "failed",
			    tail_quote(&g->said, NULL, quote, sizeof(quote)));
	else
		guest_failf(g, PROBLEM_NOT_WARM, "", "the interpreter failed at its first program");
	return 0;
}

/* ---- what it runs in ---- */

static void on_up(void *data)
{
	struct guest *g = data;

	if (g->phase == GUEST_BOOT && !g->channel.generation)
		handshake_hello(g);
}

static void on_hangup(void *data)
{
	guest_hangup(data);
}

static void on_console(void *data, const void *bytes, size_t len)
{
	struct guest *g = data;

	tail_add(&g->console, bytes, len);
	tell_owner(g, console, bytes, len);
}

static void on_down(void *data, const struct problem *problem)
{
	struct guest *g = data;
	struct problem p = *problem;
	char quote[600];

	if (g->phase == GUEST_ENDING)
		return;
	if (g->phase == GUEST_BOOT || g->phase == GUEST_SETUP) {
		failed(g, problem);
		return;
	}
	if (tail_contains(&g->console, PANIC))
		problem_set(&p, PROBLEM_GUEST_PANIC,
			    "Reset the session; more memory may help (memory_mb).",
			    "the kernel in the sandbox gave up: %s",
			    tail_quote(&g->console, PANIC, quote, sizeof(quote)));
	else if (p.code == PROBLEM_MACHINE_OFF && g->console.total)
		problem_add(&p, "; the console ends with: %s",
			    tail_quote(&g->console, NULL, quote, sizeof(quote)));
	if (p.code == PROBLEM_OUT_OF_MEMORY)
		exec_out_of_memory(g);
	guest_fail(g, &p);
}

static void on_destroyed(void *data)
{
	struct guest *g = data;

	g->used_us = guest_used_us(g);
	g->backend = NULL;
	guest_part_closed(g);
}

static void on_touched(void *data)
{
	guest_touch(data);
}

static const struct backend_events backend_events = {
	.up = on_up,
	.hangup = on_hangup,
	.console = on_console,
	.down = on_down,
	.destroyed = on_destroyed,
	.touched = on_touched,
};

static uint64_t boot_ms(const struct guest *g)
{
	const uint64_t ms = g->all->boot_s * 1000ull;

	return g->mode == MACHINE_CLONE	   ? MIN(RESTORE_MS, ms)
	       : g->mode == MACHINE_RECORD ? ms * RECORD_TIMES
					   : ms;
}

void handshake_start(struct guest *g, const struct guest_config *cfg)
{
	static const char *const mode_words[] = {
		[MACHINE_COLD] = "is started",
		[MACHINE_RECORD] = "is started, to be copied",
		[MACHINE_CLONE] = "a copy is started",
	};
	const struct backend_spec spec = {
		.name = g->spec.name,
		.label = &g->label,
		.image = g->spec.image,
		.memory_mb = g->spec.memory_mb,
		.cpus = g->spec.cpus,
		.processes = g->spec.limits.processes,
		.mode = g->mode,
		.background = g->background,
		.standby = g->phase == GUEST_STANDBY,
		.ram = cfg->ram,
		.state = cfg->state,
		.point = cfg->point,
		.view = &g->spec,
		.network = g->networked,
		.root = g->spec.root,
		.layer = g->layer,
	};
	struct problem p = {0};
	int stream, r, up;

	static_assert(ARRAY_SIZE(mode_words) == MACHINE_NMODES, "words for each");
	/* What a clone's agent has seen, of the machine it was copied from. */
	g->generation = cfg->point ? cfg->point->generation : g->mode == MACHINE_CLONE;
	g->copy = cfg->point;
	log_trace(&g->label, "guest", "%s: %s", g->ops->name, mode_words[g->mode]);
	if (g->phase == GUEST_BOOT)
		guest_deadline(g, boot_ms(g));
	up = g->ops->start(g->all->backends, &spec, &backend_events, g, &g->backend, &stream, &p);
	if (up < 0) {
		g->backend = NULL;
		guest_fail(g, &p);
		return;
	}
	g->nopen++;
	r = channel_open(&g->channel, g->all->ctx->loop, stream, &g->all->scratch, &dispatch_events,
			 g);
	if (r < 0) {
		guest_failf(g, PROBLEM_NO_RESOURCES, "", "no connection to the sandbox: %s",
			    strerror(-r));
		return;
	}
	g->nopen++;
	if (up)
		on_up(g);
}

void handshake_take(struct guest *g, const struct record_reader *backend,
		    const struct record_reader *channel, struct fdbag *fds)
{
	const struct backend_spec spec = {.name = g->spec.name, .label = &g->label};
	int r = g->ops->take(g->all->backends, backend, fds, &spec, &backend_events, g,
			     &g->backend);

	if (r == 0) {
		g->nopen++;
		r = channel_take(&g->channel, *channel, fds, g->all->ctx->loop, &g->all->scratch,
				 &dispatch_events, g);
	} else {
		g->backend = NULL;
	}
	if (r == 0) {
		g->nopen++;
		log_trace(&g->label, "guest", "%s: was taken over", g->ops->name);
		return;
	}
	guest_failf(g, PROBLEM_AGENT_LOST, "Reset the session.",
		    "the sandbox was not taken over: %s",
		    r == -EBADMSG ? "what is known of it makes no sense" : strerror(-r));
}

void handshake_restore(struct guest *g)
{
	g->phase = GUEST_BOOT;
	guest_deadline(g, boot_ms(g));
	g->ops->restore(g->backend);
}
