/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose agent is played by the test. */
#include "fake_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "vm/trouble.h"

#define IN_MAX (4u << 20)

struct backend {
	uv_timer_t timer;
	const struct backend_events *events;
	void *data;
};

struct fake_agent fake_agent;
static uint8_t in_buffer[IN_MAX];

static void on_destroyed(uv_handle_t *handle)
{
	struct backend *b = handle->data;

	fake_agent.destroyed++;
	if (fake_agent.backend == b)
		fake_agent.backend = NULL;
	b->events->destroyed(b->data);
	free(b);
}

static int fake_start(struct vm *vm, const struct backend_spec *spec,
		      const struct backend_events *events, void *data, struct backend **ret_backend,
		      int *ret_stream, struct vm_problem *ret_problem)
{
	struct backend *b;
	int pair[2];

	(void)spec;
	if (fake_agent.start_error) {
		int r = fake_agent.start_error;

		fake_agent.start_error = 0;
		trouble_set(ret_problem, "fake", "", "it was to fail");
		return r;
	}
	b = calloc(1, sizeof(*b));
	if (!b || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	uv_timer_init(vm->loop, &b->timer);
	b->timer.data = b;
	b->events = events;
	b->data = data;
	if (fake_agent.fd >= 0 && fake_agent.nold < ARRAY_SIZE(fake_agent.old))
		fake_agent.old[fake_agent.nold++] = fake_agent.fd;
	fake_agent.in_len = 0;
	fake_agent.fd = pair[1];
	fcntl(pair[1], F_SETFL, O_NONBLOCK);
	fake_agent.backend = b;
	fake_agent.started++;
	*ret_backend = b;
	*ret_stream = pair[0];
	return 0;
}

static void fake_destroy(struct backend *b)
{
	fake_agent.destroying++;
	uv_close((uv_handle_t *)&b->timer, on_destroyed);
}

static void fake_info(struct backend *b, struct backend_info *ret_info)
{
	(void)b;
	*ret_info = (struct backend_info){.accel = "none"};
}

const struct backend_ops backend_fake = {
	.name = "fake", .start = fake_start, .destroy = fake_destroy, .info = fake_info};

void fake_agent_init(uv_loop_t *loop)
{
	memset(&fake_agent, 0, sizeof(fake_agent));
	fake_agent.loop = loop;
	fake_agent.fd = -1;
	fake_agent.in = in_buffer;
	STAILQ_INIT(&fake_agent.frames);
}

void fake_hang_up(void)
{
	if (fake_agent.fd >= 0)
		close(fake_agent.fd);
	fake_agent.fd = -1;
	fake_agent.in_len = 0;
}

void fake_free(struct fake_frame *f)
{
	if (f)
		free(f->payload);
	free(f);
}

void fake_agent_fini(void)
{
	struct fake_frame *f;

	while ((f = STAILQ_FIRST(&fake_agent.frames))) {
		STAILQ_REMOVE_HEAD(&fake_agent.frames, link);
		fake_free(f);
	}
	fake_hang_up();
	while (fake_agent.nold)
		close(fake_agent.old[--fake_agent.nold]);
}

static void take_frames(void)
{
	size_t at = 0;

	while (fake_agent.in_len - at >= PROTO_HEADER) {
		struct fake_frame *f = calloc(1, sizeof(*f));

		if (!f || proto_header_unpack(fake_agent.in + at, &f->h) < 0)
			abort();
		if (fake_agent.in_len - at < PROTO_HEADER + f->h.length) {
			free(f);
			break;
		}
		f->payload = malloc(f->h.length + 1);
		memcpy(f->payload, fake_agent.in + at + PROTO_HEADER, f->h.length);
		STAILQ_INSERT_TAIL(&fake_agent.frames, f, link);
		at += PROTO_HEADER + f->h.length;
	}
	memmove(fake_agent.in, fake_agent.in + at, fake_agent.in_len - at);
	fake_agent.in_len -= at;
}

static void fake_read(void)
{
	ssize_t n = 1;

	while (fake_agent.fd >= 0 && n > 0) {
		n = read(fake_agent.fd, fake_agent.in + fake_agent.in_len,
			 IN_MAX - fake_agent.in_len);
		if (n > 0)
			fake_agent.in_len += (size_t)n;
		take_frames();
	}
}

static void on_tick(uv_timer_t *timer)
{
	(*(unsigned *)timer->data)++;
}

bool fake_spin(bool (*done)(void *data), void *data)
{
	unsigned ticks = 0;
	uv_timer_t tick;

	uv_timer_init(fake_agent.loop, &tick);
	tick.data = &ticks;
	uv_timer_start(&tick, on_tick, 1, 1);
	fake_read();
	while (!done(data) && ticks < 30000) {
		uv_run(fake_agent.loop, UV_RUN_ONCE);
		fake_read();
	}
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(fake_agent.loop, UV_RUN_NOWAIT);
	return done(data);
}

static bool never(void *data)
{
	return --*(int *)data < 0;
}

void fake_settle(void)
{
	int turns = 12;

	fake_spin(never, &turns);
}

static struct fake_frame *find(enum proto_type type)
{
	struct fake_frame *f;

	STAILQ_FOREACH(f, &fake_agent.frames, link)
	{
		if (f->h.type == type)
			return f;
	}
	return NULL;
}

bool fake_got(enum proto_type type)
{
	fake_read();
	return find(type);
}

static bool is_there(void *data)
{
	return find(*(enum proto_type *)data);
}

struct fake_frame *fake_expect(enum proto_type type)
{
	struct fake_frame *f;

	if (!fake_spin(is_there, &type))
		return NULL;
	while ((f = STAILQ_FIRST(&fake_agent.frames))) {
		STAILQ_REMOVE_HEAD(&fake_agent.frames, link);
		if (f->h.type == type)
			return f;
		fake_free(f);
	}
	return NULL;
}

void fake_send_raw(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len && fake_agent.fd >= 0) {
		ssize_t n = send(fake_agent.fd, p, len, MSG_NOSIGNAL);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			return;
		} else {
			uv_run(fake_agent.loop, UV_RUN_NOWAIT);
			fake_read();
		}
	}
}

void fake_send(enum proto_type type, uint8_t flags, uint32_t id, const void *payload, size_t len)
{
	const struct proto_header h = {(uint32_t)len, (uint16_t)type, flags, 1, id};
	uint8_t wire[PROTO_HEADER];

	proto_header_pack(&h, wire);
	fake_send_raw(wire, sizeof(wire));
	fake_send_raw(payload, len);
}

void fake_up(void)
{
	fake_agent.backend->events->up(fake_agent.backend->data);
}

void fake_down(const char *code, const char *cause)
{
	struct vm_problem p;

	trouble_set(&p, code, "", "%s", cause);
	fake_agent.backend->events->down(fake_agent.backend->data, &p);
}

void fake_boot(void)
{
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	fake_up();
	fake_free(fake_expect(PROTO_HELLO));
	put_u32(&o, PROTO_VERSION);
	put_u32(&o, 1);
	put_u64(&o, 1);
	put_str(&o, proto_cstr("6.1"));
	fake_send(PROTO_HELLO_OK, 0, 0, bytes, o.len);
	fake_free(fake_expect(PROTO_SETUP));
	o.len = 0;
	put_str(&o, proto_cstr("Fake 1.0"));
	put_u64(&o, 1);
	fake_send(PROTO_READY, 0, 0, bytes, o.len);
}
