/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's link to its agent: starting the backend, greeting, set-up, and frames taken apart. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "vm/sandbox/network.h"
#include "internal.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

#define INODES_PER_MIB	341u /* 65536 in the default 192 MiB */
#define EXERCISE_RUN	UINT32_MAX
#define EXERCISE_MS	60000u
#define EXERCISE_BYTES	4096u
#define EXERCISES	3u
#define WARMUP_RUN	(UINT32_MAX - 1)
#define WARMUP_MS	300000u
#define WARMUP_LATE_MS	5000u
#define SETTLE_MS	500u /* the agent's log of the boot goes out in this time */
#define PANIC		"Kernel panic"
#define FIX_BOOT_FAILED "See the session's console; then reset the session to try again."

/* How a failed start looks from the machine's side. */
void link_boot_failed(struct sandbox *s, const struct problem *why)
{
	struct problem p;
	char quote[600];

	if (s->ops->drain && s->backend)
		s->ops->drain(s->backend);
	problem_set(&p, "boot-failed", FIX_BOOT_FAILED, "%.300s", why->cause);
	if (why->fix[0])
		snprintf(p.fix, sizeof(p.fix), "%s", why->fix);
	if (s->console.total)
		problem_add(&p, "; the console ends with: %s",
			    tail_quote(&s->console, PANIC, quote, sizeof(quote)));
	else if (strcmp(why->code, PROBLEM_NO_JAIL) != 0) /* where nothing ran, nothing was said */
		problem_add(&p, "; the console shows nothing");
	sandbox_fail(s, &p);
}

void link_overdue(struct sandbox *s)
{
	static const char *const waited_for[] = {
		[PHASE_WAIT] = "",
		[PHASE_IMAGE] = "",
		[PHASE_PACKAGES] = "",
		[PHASE_BOOT] = "the agent in the sandbox did not answer",
		[PHASE_SETUP] = "the interpreter did not start",
		[PHASE_WARM] = "the interpreter could not be exercised",
		[PHASE_SETTLE] = "",
		[PHASE_SAVE] = "the machine was not copied",
		[PHASE_RESET] = "no fresh interpreter came up",
		[PHASE_UP] = "",
	};
	struct problem p;

	static_assert(ARRAY_SIZE(waited_for) == SANDBOX_NPHASES, "words for each phase");
	problem_set(&p, "agent-silent",
		    "The machine may be overloaded: try again, or raise boot_timeout_s.",
		    "%s within %u s", waited_for[s->phase], (unsigned)(s->allowed_ms / 1000));
	if (s->phase == PHASE_RESET)
		sandbox_fail(s, &p);
	else
		link_boot_failed(s, &p);
}

/* ---- frames ---- */

static bool send_frame(struct sandbox *s, struct channel_frame *f)
{
	struct problem p;

	if (f && !f->out.bad) {
		channel_push(&s->channel, f, CHANNEL_CONTROL);
		return true;
	}
	channel_frame_free(f);
	problem_set(&p, "no-memory", "", "there is no memory for a message to the sandbox");
	sandbox_fail(s, &p);
	return false;
}

void link_hello(struct sandbox *s)
{
	struct channel_frame *f = channel_frame_new(PROTO_HELLO, 0, 1024);
	uint8_t entropy[PROTO_ENTROPY] = {0};
	struct timespec now;

	/* With these flags it cannot fail, or be short, once the kernel has booted. */
	(void)!getrandom(entropy, sizeof(entropy), 0);
	clock_gettime(CLOCK_REALTIME, &now);
	s->generation++;
	s->channel.generation = (uint8_t)s->generation;
	if (f) {
		put_u32(&f->out, PROTO_VERSION);
		put_u32(&f->out, s->generation);
		put_u64(&f->out, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
		put_bytes(&f->out, entropy, sizeof(entropy));
		put_str(&f->out, proto_cstr(s->name));
	}
	explicit_bzero(entropy, sizeof(entropy));
	if (send_frame(s, f))
		wallclock_ask(s);
}

static void send_setup(struct sandbox *s)
{
	const uint64_t memory = (uint64_t)s->memory_mb << 20;
	const struct sandbox_limits *l = &s->limits;
	struct proto_setup setup = {
		.language = proto_cstr(s->language),
		.files_bytes = l->files_mb ? (uint64_t)l->files_mb << 20 : memory * 2 / 5,
		.tmp_bytes = memory * 3 / 10,
		.files_inodes = l->files_inodes ? l->files_inodes : s->memory_mb * INODES_PER_MIB,
		.tmp_inodes = s->memory_mb * INODES_PER_MIB,
		.nproc = l->processes,
		.nofile = l->open_files,
		.fsize = (uint64_t)l->file_size_mb << 20,
		.nenv = (uint32_t)s->nenv,
	};
	struct channel_frame *f;
	size_t size = 256;

	for (size_t i = 0; i < s->nenv; i++) {
		setup.env[i].name = proto_cstr(s->env[i].name);
		setup.env[i].value = proto_cstr(s->env[i].value);
		size += 8 + setup.env[i].name.len + setup.env[i].value.len;
	}
	f = channel_frame_new(PROTO_SETUP, 0, size);
	if (f)
		proto_setup_pack(&f->out, &setup);
	send_frame(s, f);
}

/* The host's certificates, for a guest that can reach something that has one. */
static bool send_trust(struct sandbox *s)
{
	struct channel_frame *f;

	if (!s->networked || !s->vm->ca_len)
		return true;
	f = channel_frame_new(PROTO_TRUST, 0, s->vm->ca_len);
	if (f)
		put_bytes(&f->out, s->vm->ca, s->vm->ca_len);
	return send_frame(s, f);
}

static int on_hello_ok(struct sandbox *s, struct proto_in *in)
{
	const uint32_t version = get_u32(in), generation = get_u32(in);

	get_u64(in);
	get_str(in, 256);
	if (!get_end(in) || version != PROTO_VERSION || generation != s->generation)
		return -EPROTO;
	if (s->unsettled == 2) {
		s->unsettled--;
		return 0;
	}
	if (s->phase != PHASE_BOOT)
		return -EPROTO;
	s->hello_at = uv_now(s->vm->ctx.loop);
	s->phase = PHASE_SETUP;
	if (send_trust(s)) /* first: there are interpreters that read it when they start */
		send_setup(s);
	return 0;
}

/* Foreign words, cut and made printable. */
static void take_words(char *out, size_t size, struct proto_str words)
{
	size_t n = 0;

	for (uint32_t i = 0; i < words.len && n + 1 < size; i++) {
		if (words.data[i] >= 0x20 && words.data[i] < 0x7f)
			out[n++] = words.data[i];
	}
	out[n] = '\0';
}

static void up(struct sandbox *s)
{
	s->phase = PHASE_UP;
	sandbox_deadline(s, 0);
	network_start(s);
	sandbox_set_state(s, SANDBOX_READY);
}

/* A run as users have them, whose output nobody reads. */
static void exercise(struct sandbox *s)
{
	const char *code = strcmp(s->language, "python") == 0	    ? "print(1)\n"
			   : strcmp(s->language, "javascript") == 0 ? "console.log(1)\n"
								    : "echo 1\n";
	const struct proto_run run = {
		.flags = PROTO_RUN_TRIAL,
		.timeout_ms = EXERCISE_MS,
		.limit = {EXERCISE_BYTES, EXERCISE_BYTES},
		.credit = EXERCISE_BYTES,
		.code = proto_cstr(code),
	};
	struct channel_frame *f = channel_frame_new(PROTO_RUN, EXERCISE_RUN, 256);

	if (f)
		proto_run_pack(&f->out, &run);
	send_frame(s, f);
}

/* What the template wants every machine that boots to have done. */
static void warm_up(struct sandbox *s)
{
	const struct proto_run run = {
		.timeout_ms = WARMUP_MS,
		.limit = {EXERCISE_BYTES, EXERCISE_BYTES},
		.credit = 2 * EXERCISE_BYTES,
		.code = proto_cstr(s->warmup),
	};
	struct channel_frame *f = channel_frame_new(PROTO_RUN, WARMUP_RUN, strlen(s->warmup) + 256);

	s->warmed_up = true;
	s->phase = PHASE_WARM;
	sandbox_deadline(s, WARMUP_MS + WARMUP_LATE_MS);
	if (f)
		proto_run_pack(&f->out, &run);
	send_frame(s, f);
}

/* The interpreter is there, or has imported what is usual. */
static void go_on(struct sandbox *s)
{
	if (s->kind != SANDBOX_USER && s->phase == PHASE_SETUP) {
		s->phase = PHASE_WARM;
		s->exercises = EXERCISES;
		channel_send(&s->channel, PROTO_WARM, 0, NULL, 0);
		return;
	}
	if (s->phase == PHASE_WARM && s->exercises) {
		s->exercises--;
		exercise(s);
		return;
	}
	if (s->start == START_COLD && *s->warmup && !s->warmed_up) {
		warm_up(s);
		return;
	}
	if (s->start == START_SNAPSHOT)
		template_clone_works(s->template);
	s->ready_at = uv_now(s->vm->ctx.loop);
	if (s->kind == SANDBOX_BUILD) {
		s->phase = PHASE_SETTLE;
		sandbox_deadline(s, SETTLE_MS);
		return;
	}
	admission_started(&s->vm->admission, &s->ticket);
	context_wake(&s->vm->ctx);
	context_work(&s->vm->ctx);
	up(s);
}

void link_clock_settled(struct sandbox *s)
{
	if (s->phase == PHASE_SETUP)
		go_on(s);
}

static int on_ready(struct sandbox *s, struct proto_in *in)
{
	const struct proto_str version = get_str(in, 256);

	get_u64(in);
	if (!get_end(in))
		return -EPROTO;
	if (s->unsettled == 1)
		s->unsettled--;
	else if (s->phase == PHASE_UP)
		return 0;
	take_words(s->interpreter, sizeof(s->interpreter), version);
	if (s->phase == PHASE_WARM || (s->phase == PHASE_SETUP && !wallclock_hold(s)))
		go_on(s);
	else if (s->phase == PHASE_RESET)
		up(s);
	return 0;
}

static int on_failed(struct sandbox *s, struct proto_in *in)
{
	const uint32_t err = get_u32(in);
	const struct proto_str words = get_str(in, 4096);
	const bool reset = s->phase == PHASE_RESET;
	struct problem p;
	char text[512];

	if (!get_end(in) ||
	    (s->phase != PHASE_SETUP && s->phase != PHASE_WARM && !reset && s->unsettled != 1))
		return -EPROTO;
	take_words(text, sizeof(text), words);
	problem_set(&p, reset ? "reset-failed" : "setup-failed", FIX_BOOT_FAILED,
		    "the agent could not prepare the sandbox: %s%s%s", text, err ? ": " : "",
		    err && err < 134 ? strerror((int)err) : "");
	/* Only a process sandbox that shows the host's programs can lack it: images have it. */
	if (err == ENOENT && strcmp(s->language, "javascript") == 0 &&
	    strcmp(text, "starting the interpreter") == 0)
		problem_set(&p, reset ? "reset-failed" : "setup-failed",
			    "Install bun in the PATH of the daemon, or give the template view = "
			    "image.",
			    "the interpreter, the program bun, was not found");
	sandbox_fail(s, &p);
	return 0;
}

static int on_log(struct sandbox *s, struct proto_in *in)
{
	const struct proto_str bytes = get_rest(in);

	if (bytes.len) {
		tail_add(&s->console, bytes.data, bytes.len);
		s->events->console(s->data, bytes.data, bytes.len);
	}
	return 0;
}

static unsigned reached(const struct sandbox *s, const struct sandbox_usage *u)
{
	unsigned r = 0;

	if (u->files_total && u->files_used >= u->files_total)
		r |= VM_REACHED_FILES;
	if (u->inodes_total && u->inodes_used >= u->inodes_total)
		r |= VM_REACHED_INODES;
	if (s->limits.processes && u->processes >= s->limits.processes)
		r |= VM_REACHED_PROCESSES;
	return r;
}

static int on_usage(struct sandbox *s, struct proto_in *in)
{
	struct proto_usage u;

	if (proto_usage_unpack(in, &u) < 0)
		return -EPROTO;
	s->usage = (struct sandbox_usage){
		.mem_total_kib = u.mem_total_kib,
		.mem_available_kib = u.mem_available_kib,
		.cpu_us = u.cpu_us,
		.files_used = u.files_used,
		.files_total = u.files_total,
		.inodes_used = u.inodes_used,
		.inodes_total = u.inodes_total,
		.processes = u.processes,
	};
	s->usage.reached = reached(s, &s->usage);
	s->turn.reached |= s->turn.sent ? s->usage.reached : 0;
	s->usage_known = true;
	return 0;
}

/* Files are only served once there are files. */
static int on_file_reply(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	return guestfile_reply(&s->files, h->id, in);
}

/* What a warm-up says is only of interest if it fails. */
static void take_output(struct sandbox *s, struct proto_in *in)
{
	struct proto_str bytes;

	get_u32(in);
	bytes = get_rest(in);
	if (bytes.len)
		tail_add(&s->said, bytes.data, bytes.len);
}

/* Of an exercise, or of a warm-up. */
static int on_exercised(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	struct problem p;
	char quote[400];
	struct proto_exit e;

	if ((h->id != EXERCISE_RUN && h->id != WARMUP_RUN) ||
	    (h->type == PROTO_EXIT && proto_exit_unpack(in, &e) < 0))
		return -EPROTO;
	if (h->type != PROTO_EXIT) {
		if (h->id == WARMUP_RUN)
			take_output(s, in);
		return 0;
	}
	if (e.how == PROTO_HOW_DONE && e.status == 0) {
		go_on(s);
		return 0;
	}
	if (h->id == WARMUP_RUN)
		problem_set(&p, "warmup-failed",
			    "Correct the template's warmup in xsbxfs.conf, or give it more memory.",
			    "the template's warmup %s: %s",
			    e.how == PROTO_HOW_TIMEOUT ? "took too long" : "failed",
			    tail_quote(&s->said, NULL, quote, sizeof(quote)));
	else
		problem_set(&p, "not-warm", "", "the interpreter failed at its first program");
	sandbox_fail(s, &p);
	return 0;
}

static int on_frozen(struct sandbox *s, struct proto_in *in)
{
	const uint32_t error = get_u32(in);

	if (!get_end(in) || !s->freezing || error > 4095)
		return -EPROTO;
	s->freezing = false;
	if (s->events->frozen)
		s->events->frozen(s->data, -(int)error);
	return 0;
}

static int take_frame(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	if (s->phase == PHASE_WARM && (h->type == PROTO_OUTPUT || h->type == PROTO_EXIT))
		return on_exercised(s, h, in);
	switch (h->type) {
	case PROTO_HELLO_OK: return on_hello_ok(s, in);
	case PROTO_PONG: return 0;
	case PROTO_CLOCK_OK: return wallclock_answer(s, h, in);
	case PROTO_READY: return on_ready(s, in);
	case PROTO_FAILED: return on_failed(s, in);
	case PROTO_OUTPUT: return turn_on_output(s, h, in);
	case PROTO_EXIT: return turn_on_exit(s, h, in);
	case PROTO_STDIN_CREDIT: return turn_on_stdin_credit(s, h, in);
	case PROTO_USAGE_REPLY: return on_usage(s, in);
	case PROTO_LOG: return on_log(s, in);
	case PROTO_FILE_REPLY: return on_file_reply(s, h, in);
	case PROTO_FROZEN: return on_frozen(s, in);
	case PROTO_LOCKED: return guestfile_locked(&s->files, in);
	default: return -EPROTO;
	}
}

static int on_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	struct sandbox *s = data;
	struct problem p;
	int r;

	if (s->state == SANDBOX_CLOSING || s->retry)
		return -ECANCELED;
	s->unheard = 0;
	r = take_frame(s, h, in);
	if (r == -EPROTO) {
		problem_set(&p, "agent-protocol", "Reset the session.",
			    "the agent in the sandbox sent a %s message that makes no sense",
			    proto_type_name(h->type));
		sandbox_fail(s, &p);
	}
	return r < 0 ? r : s->state == SANDBOX_CLOSING || s->retry ? -ECANCELED : 0;
}

static void on_lost(void *data, int err)
{
	struct sandbox *s = data;
	struct problem p;

	/* Its end was closed, with something unread or not: what it ran in may say why. */
	if (err == 0 || err == -ECONNRESET || err == -EPIPE) {
		link_hangup(s);
		return;
	}
	problem_set(&p, err == -EPROTO ? "agent-protocol" : "agent-lost", "Reset the session.",
		    "the connection to the agent in the sandbox failed: %s",
		    err == -EPROTO ? "what came was no message" : strerror(-err));
	sandbox_fail(s, &p);
}

static void on_drained(void *data)
{
	struct sandbox *s = data;

	if (s->state != SANDBOX_CLOSING)
		turn_pump_stdin(s);
}

const struct channel_events link_channel_events = {on_frame, on_lost, on_drained};

void link_adopt(struct sandbox *s)
{
	/* Frames of one class keep their order, and runs come behind these. */
	s->unsettled = 2;
	link_hello(s);
	send_setup(s);
}
