/* SPDX-License-Identifier: Apache-2.0 */
/* A backend with many machines, whose agents answer by themselves, in a time that stands still. */
#include "machines_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "vm/buf.h"
#include "vm/trouble.h"

#define BEGINNING 1000000u /* ms; so that no time is 0 by chance */
#define KHZ	  2000000u
#define HOST_MB	  65536u

struct machines machines;

/* ---- the host: its clock, its processors, its memory ---- */

static uint64_t now_ms = BEGINNING;

/* In place of the C library's: what libuv takes for the time goes on when a test says so. */
int clock_gettime(clockid_t id, struct timespec *tp)
{
	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, id, tp);
	tp->tv_sec = (time_t)(now_ms / 1000);
	tp->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

void machines_skip(uint64_t ms)
{
	now_ms += ms;
}

int get_nprocs(void)
{
	return 4;
}

void tsc_start(struct tsc_meter *m)
{
	(void)m;
}

uint64_t tsc_khz(const struct tsc_meter *m)
{
	(void)m;
	return machines.khz;
}

int host_open(struct host *h, const char *root)
{
	(void)root;
	*h = (struct host){.root = NULL};
	return 0;
}

void host_close(struct host *h)
{
	(void)h;
}

void host_read(const struct host *h, struct host_reading *ret_reading)
{
	(void)h;
	*ret_reading = (struct host_reading){
		.total_mb = HOST_MB,
		.available_mb = HOST_MB,
		.pressure = HOST_PRESSURE_UNKNOWN,
	};
}

unsigned host_cpus(const struct host *h)
{
	(void)h;
	return 400;
}

int host_demand_ms(const struct host *h, int pid, uint64_t *ret_ms)
{
	(void)h;
	(void)pid;
	*ret_ms = 0;
	return 0;
}

/* ---- worker threads: there is one, and it can be kept busy ---- */

static uv_sem_t may_go_on;
static uv_work_t blocker;

static void block(uv_work_t *req)
{
	(void)req;
	uv_sem_wait(&may_go_on);
}

static void unblocked(uv_work_t *req, int status)
{
	(void)req;
	(void)status;
	uv_sem_destroy(&may_go_on);
}

void machines_hold_jobs(void)
{
	uv_sem_init(&may_go_on, 0);
	uv_queue_work(machines.loop, &blocker, block, unblocked);
	machines.jobs_held = true;
}

void machines_release_jobs(void)
{
	if (machines.jobs_held)
		uv_sem_post(&may_go_on);
	machines.jobs_held = false;
}

/* ---- machines ---- */

void machines_init(uv_loop_t *loop)
{
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	machines = (struct machines){.loop = loop, .words = "a machine", .khz = KHZ};
	TAILQ_INIT(&machines.list);
}

struct backend *machines_of(const struct sandbox *s)
{
	return s->backend;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void on_soon(uv_timer_t *timer)
{
	struct backend *b = timer->data;

	b->then(b);
}

static void soon(struct backend *b, void (*fn)(struct backend *b))
{
	b->then = fn;
	uv_timer_start(&b->soon, on_soon, 0, 0);
}

static void come_up(struct backend *b)
{
	b->events->up(b->data);
}

static void go_down(struct backend *b)
{
	struct vm_problem p;

	trouble_set(&p, "fake", "", "it was to die");
	b->events->down(b->data, &p);
}

static int fake_start(struct vm *vm, const struct backend_spec *spec,
		      const struct backend_events *events, void *data, struct backend **ret_backend,
		      int *ret_stream, struct vm_problem *ret_problem)
{
	const enum backend_mode mode = spec->mode;
	struct backend *b;
	int pair[2];

	if ((spec->ram >= 0 && spec->state >= 0) != (mode != BACKEND_COLD))
		abort();
	if (machines.start_error[mode]) {
		trouble_set(ret_problem, "fake", "", "it was not to start");
		return machines.start_error[mode];
	}
	b = calloc(1, sizeof(*b));
	if (!b || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	uv_timer_init(vm->loop, &b->soon);
	b->soon.data = b;
	b->events = events;
	b->data = data;
	b->mode = mode;
	b->fd = pair[1];
	fcntl(b->fd, F_SETFL, O_NONBLOCK);
	b->ram = mode == BACKEND_RECORD ? dup(spec->ram) : -1;
	b->state = mode == BACKEND_RECORD ? dup(spec->state) : -1;
	TAILQ_INSERT_TAIL(&machines.list, b, link);
	machines.started[mode]++;
	if (machines.dies[mode])
		soon(b, go_down);
	else if (!machines.sleeps[mode])
		soon(b, come_up);
	*ret_backend = b;
	*ret_stream = pair[0];
	return 0;
}

static void on_destroyed(uv_handle_t *handle)
{
	struct backend *b = handle->data;

	TAILQ_REMOVE(&machines.list, b, link);
	close_fd(&b->fd);
	close_fd(&b->ram);
	close_fd(&b->state);
	machines.destroyed++;
	b->events->destroyed(b->data);
	free(b);
}

static void end(struct backend *b)
{
	if (machines.destroy_sleeps || b->stuck)
		uv_timer_start(&b->soon, on_soon, 1000, 0); /* and once more */
	else
		uv_close((uv_handle_t *)&b->soon, on_destroyed);
}

static void fake_destroy(struct backend *b)
{
	b->mute = true;
	uv_timer_stop(&b->soon);
	b->then = end;
	end(b);
}

static void fake_info(struct backend *b, struct backend_info *ret_info)
{
	(void)b;
	*ret_info = (struct backend_info){.accel = "none"};
}

static void have_saved(struct backend *b)
{
	if (!machines.save_error &&
	    (pwrite(b->ram, "memory", 6, 4096) != 6 || pwrite(b->state, "devices", 7, 0) != 7))
		abort();
	b->saved(b->data, machines.save_error);
}

static int fake_save(struct backend *b, backend_saved_fn fn)
{
	b->saved = fn;
	if (!machines.save_sleeps)
		soon(b, have_saved);
	return 0;
}

static int fake_describe(struct vm *vm, const struct backend_spec *spec, struct buf *out,
			 const char **ret_why)
{
	(void)vm;
	*ret_why = "it was not to say";
	if (machines.describe_error)
		return machines.describe_error;
	return buf_printf(out, "%s %s\n", spec->image, machines.words);
}

/* They have one, and what would be at its other end is not there either. */
static int fake_take_card(struct backend *b, bool *ret_stream)
{
	(void)b;
	(void)ret_stream;
	return -ENODEV;
}

const struct backend_ops backend_machines = {
	.name = "fake",
	.start = fake_start,
	.destroy = fake_destroy,
	.info = fake_info,
	.save = fake_save,
	.describe = fake_describe,
	.take_card = fake_take_card,
};

/* ---- agents ---- */

static void answer(struct backend *b, enum proto_type type, const struct proto_header *to,
		   const struct proto_out *o)
{
	const struct proto_header h = {(uint32_t)o->len, (uint16_t)type, 0, to->generation, to->id};
	uint8_t wire[PROTO_HEADER];

	proto_header_pack(&h, wire);
	(void)!send(b->fd, wire, sizeof(wire), MSG_NOSIGNAL);
	(void)!send(b->fd, o->data, o->len, MSG_NOSIGNAL);
}

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void respond(struct backend *b, const struct proto_header *h, const uint8_t *payload)
{
	static const struct proto_exit done = {.how = PROTO_HOW_DONE};
	struct proto_in in = {payload, payload + h->length, false};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	const uint32_t version = h->type == PROTO_HELLO ? get_u32(&in) : 0;

	switch (h->type) {
	case PROTO_HELLO:
		put_u32(&o, version);
		put_u32(&o, get_u32(&in));
		put_u64(&o, 1);
		put_str(&o, proto_cstr("6.1"));
		answer(b, PROTO_HELLO_OK, h, &o);
		break;
	case PROTO_SETUP:
	case PROTO_WARM:
		put_str(&o, proto_cstr("Fake 1.0"));
		put_u64(&o, 1);
		answer(b, PROTO_READY, h, &o);
		break;
	case PROTO_RUN:
		proto_exit_pack(&o, &done);
		answer(b, PROTO_EXIT, h, &o);
		break;
	case PROTO_CLOCK:
		put_u64(&o, wall_ns());
		answer(b, PROTO_CLOCK_OK, h, &o);
		break;
	default: break;
	}
}

static bool play(struct backend *b)
{
	const ssize_t n = read(b->fd, b->in + b->in_len, sizeof(b->in) - b->in_len);
	size_t at = 0;

	if (n <= 0)
		return false;
	b->in_len += (size_t)n;
	while (b->in_len - at >= PROTO_HEADER) {
		struct proto_header h;

		if (proto_header_unpack(b->in + at, &h) < 0)
			abort();
		if (b->in_len - at < PROTO_HEADER + h.length)
			break;
		if (!b->mute)
			respond(b, &h, b->in + at + PROTO_HEADER);
		at += PROTO_HEADER + h.length;
	}
	memmove(b->in, b->in + at, b->in_len - at);
	b->in_len -= at;
	return true;
}

bool machines_play(void)
{
	struct backend *b;
	bool any = false;

	TAILQ_FOREACH(b, &machines.list, link)
		any = play(b) || any;
	return any;
}
