/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to an agent: frames cut anywhere, order of sending, and a far end that stalls. All of it at once, and in turns. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "vm/base/estate.h"
#include "vm/base/util.h"
#include "vm/guest/channel.h"

struct seen {
	unsigned nframes, nlost, ndrained, nclosed;
	uint32_t ids[64];
	size_t bytes;
	uint32_t sum;
	int lost, result;
	bool slow; /* each takes ten milliseconds */
};

static uv_loop_t loop;
static struct channel ch;
static struct channel_scratch *scratch;
static struct seen seen;
static int far;
static bool in_turns;
static struct turn end_of_turn;
static struct estate *estate;
static struct link_out far_to;
static struct link_in far_from;

static int on_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	struct seen *s = data;

	if (s->nframes < ARRAY_SIZE(s->ids))
		s->ids[s->nframes] = h->id;
	s->nframes++;
	s->bytes += (size_t)(in->end - in->p);
	if (s->slow)
		usleep(10000);
	while (in->p < in->end)
		s->sum = s->sum * 31 + *in->p++;
	return s->result;
}

static void on_lost(void *data, int err)
{
	struct seen *s = data;

	s->nlost++;
	s->lost = err;
}

static void on_drained(void *data)
{
	((struct seen *)data)->ndrained++;
}

static void on_closed(void *data)
{
	((struct seen *)data)->nclosed++;
}

static const struct channel_events events = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
};

static int write_nothing(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	return 0;
}

static const struct turn_ops turn_ops = {.write = write_nothing};

static int setup(void **state)
{
	int pair[2];

	(void)state;
	memset(&ch, 0, sizeof(ch));
	memset(&seen, 0, sizeof(seen));
	memset(&far_to, 0, sizeof(far_to));
	memset(&far_from, 0, sizeof(far_from));
	scratch = calloc(1, sizeof(*scratch));
	uv_loop_init(&loop);
	if (in_turns) {
		assert_int_equal(estate_new(&estate), 0);
		turn_start(&end_of_turn, &loop, estate, &turn_ops, NULL);
		scratch->turn = &end_of_turn;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	far = pair[1];
	fcntl(far, F_SETFL, O_NONBLOCK);
	assert_int_equal(channel_open(&ch, &loop, pair[0], scratch, &events, &seen), 0);
	ch.generation = 1;
	return 0;
}

static void on_halves_closed(void *data)
{
	(void)data;
}

static void close_all(void)
{
	channel_close(&ch, on_closed);
	halves_close(&scratch->halves, on_halves_closed, NULL);
	if (in_turns)
		turn_close(&end_of_turn);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(far);
	free(scratch);
	estate_free(estate);
	estate = NULL;
}

static int teardown(void **state)
{
	(void)state;
	close_all();
	assert_int_equal(seen.nclosed, 1);
	return 0;
}

static size_t frame(uint8_t *out, uint32_t id, uint8_t generation, const void *payload, size_t len)
{
	const struct proto_header h = {(uint32_t)len, PROTO_PONG, 0, generation, id};

	proto_header_pack(&h, out);
	if (len)
		memcpy(out + PROTO_HEADER, payload, len);
	return PROTO_HEADER + len;
}

/* Writes one record, if the socket takes it. Return: whether it did. */
static bool say(const void *bytes, size_t len)
{
	static uint8_t wire[LINK_RECORD_MAX];
	struct link_out to = far_to;

	link_head(&to, len, wire);
	memcpy(wire + LINK_HEADER, bytes, len);
	if (write(far, wire, LINK_HEADER + len) < 0)
		return false;
	far_to = to;
	return true;
}

/* The same frames, fed in pieces of every size. */
static void cut_anywhere(void **state)
{
	static uint8_t payload[300], bytes[2000];
	size_t len = 0;
	uint32_t sum;

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	len += frame(bytes + len, 1, 1, payload, 300);
	len += frame(bytes + len, 2, 1, NULL, 0);
	len += frame(bytes + len, 3, 1, payload, 1);
	len += frame(bytes + len, 4, 1, payload, 77);
	assert_int_equal(channel_feed(&ch, bytes, len), 0);
	assert_int_equal(seen.nframes, 4);
	assert_int_equal(seen.bytes, 378);
	sum = seen.sum;
	for (size_t step = 1; step < len; step++) {
		memset(&seen, 0, sizeof(seen));
		for (size_t at = 0; at < len; at += step)
			assert_int_equal(channel_feed(&ch, bytes + at, MIN(step, len - at)), 0);
		assert_int_equal(seen.nframes, 4);
		assert_int_equal(seen.ids[3], 4);
		assert_int_equal(seen.sum, sum);
	}
}

static void generations(void **state)
{
	uint8_t bytes[200];
	size_t len = frame(bytes, 1, 0, NULL, 0);

	(void)state;
	len += frame(bytes + len, 2, 2, NULL, 0);
	len += frame(bytes + len, 3, 1, NULL, 0);
	assert_int_equal(channel_feed(&ch, bytes, len), 0);
	assert_int_equal(seen.nframes, 1);
	assert_int_equal(seen.ids[0], 3);
}

static void too_long(void **state)
{
	static const uint32_t lengths[] = {CHANNEL_PAYLOAD_MAX + 1, PROTO_PAYLOAD_MAX, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		const struct proto_header h = {lengths[i], PROTO_PONG, 0, 1, 1};
		uint8_t wire[PROTO_HEADER];

		proto_header_pack(&h, wire);
		assert_int_equal(channel_feed(&ch, wire, sizeof(wire)), -EPROTO);
		assert_int_equal(ch.partial_len, 0);
		/* In two pieces: nothing is allocated for it either. */
		assert_int_equal(channel_feed(&ch, wire, 5), 0);
		assert_int_equal(channel_feed(&ch, wire + 5, 7), -EPROTO);
		assert_true(ch.partial_cap <= PROTO_HEADER);
		ch.partial_len = 0;
	}
}

static void turn(unsigned n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* Is there anything for the loop to do? */
static int poll_loop(void)
{
	struct pollfd p = {.fd = uv_backend_fd(&loop), .events = POLLIN};

	return poll(&p, 1, 0);
}

/* A megabyte of frames of all sizes through the socket, whose reads cut them as they like. */
static void through_the_socket(void **state)
{
	uint8_t *bytes = calloc(1, 3 << 20);
	size_t len = 0, sent = 0;
	unsigned n = 0;
	uint32_t sum;

	(void)state;
	for (size_t size = 0; len < 2 << 20; size = (size * 5 + 13) % (PROTO_DATA_MAX + 100)) {
		const size_t at = len + PROTO_HEADER;

		for (size_t i = 0; i < size; i++)
			bytes[at + i] = (uint8_t)(at + i);
		len += frame(bytes + len, n++, 1, bytes + at, size);
	}
	assert_int_equal(channel_feed(&ch, bytes, len), 0);
	assert_int_equal(seen.nframes, n);
	sum = seen.sum;
	memset(&seen, 0, sizeof(seen));
	while (sent < len) {
		const size_t part = MIN(len - sent, (size_t)LINK_DATA_MAX - sent % 5001);

		if (say(bytes + sent, part))
			sent += part;
		turn(1);
	}
	turn(3);
	assert_int_equal(seen.nframes, n);
	assert_int_equal(seen.sum, sum);
	assert_int_equal(seen.nlost, 0);
	free(bytes);
}

static void ends(void **state)
{
	uint8_t bytes[64] = {0};
	size_t len = frame(bytes, 1, 1, "abc", 3);

	(void)state;
	assert_true(say(bytes, len));
	assert_true(say(bytes, 5));
	shutdown(far, SHUT_RDWR);
	turn(3);
	assert_int_equal(seen.nframes, 1);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, 0);
	/* Sending to it is harmless. */
	assert_int_equal(channel_send(&ch, PROTO_PING, 0, "x", 1), 0);
	turn(3);
	assert_int_equal(seen.nlost, 1);
}

/* A machine that is killed has not read all it was sent; what it said before still counts. */
static void dies_with_something_unread(void **state)
{
	uint8_t bytes[64] = {0};
	size_t len = frame(bytes, 1, 1, "abc", 3);

	(void)state;
	assert_int_equal(channel_send(&ch, PROTO_PING, 0, "x", 1), 0);
	for (unsigned i = 0; i < 40; i++)
		assert_true(say(bytes, len));
	close(far);
	far = -1;
	turn(5);
	assert_int_equal(seen.nframes, 40);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, 0);
}

static void refused_frame(void **state)
{
	uint8_t bytes[64] = {0};
	size_t len = frame(bytes, 1, 1, NULL, 0);

	(void)state;
	seen.result = -EPROTO;
	len += frame(bytes + len, 2, 1, NULL, 0);
	assert_true(say(bytes, len));
	turn(3);
	assert_int_equal(seen.nframes, 1);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, -EPROTO);
}

static void cancelled_frame(void **state)
{
	uint8_t bytes[64] = {0};
	size_t len = frame(bytes, 1, 1, NULL, 0);

	(void)state;
	seen.result = -ECANCELED;
	assert_true(say(bytes, len));
	assert_true(say(bytes, len));
	turn(3);
	assert_int_equal(seen.nframes, 1);
	assert_int_equal(seen.nlost, 0);
}

static uint64_t push(uint32_t id, size_t len, enum channel_class cl)
{
	struct channel_frame *f = channel_frame_new(PROTO_F_WRITE, id, len);

	assert_non_null(f);
	memset(f->out.data, (int)id, len);
	f->out.len = len;
	return channel_push(&ch, f, cl);
}

/* Reads everything that comes. Return: the ids, in order. */
static size_t drain(uint32_t *ids, size_t max)
{
	static uint8_t bytes[8 << 20];
	size_t len = 0, at = 0, n = 0;

	for (unsigned quiet = 0; quiet < 5; quiet++) {
		ssize_t r;

		turn(1);
		while ((r = read(far, bytes + len, sizeof(bytes) - len)) > 0) {
			r = link_take(&far_from, bytes + len, (size_t)r);
			assert_true(r >= 0);
			len += (size_t)r;
			quiet = 0;
		}
	}
	while (at < len) {
		struct proto_header h;

		assert_int_equal(proto_header_unpack(bytes + at, &h), 0);
		assert_true(n < max);
		assert_int_equal(h.generation, 1);
		for (uint32_t i = 0; i < h.length; i++)
			assert_int_equal(bytes[at + PROTO_HEADER + i], (uint8_t)h.id);
		ids[n++] = h.id;
		at += PROTO_HEADER + h.length;
	}
	assert_int_equal(at, len);
	return n;
}

/* What is begun is finished, then control frames, then the rest; each class keeps its order. */
static void order(void **state)
{
	uint64_t tickets[4];
	uint32_t ids[64];
	size_t n;

	(void)state;
	tickets[2] = push(1, 1 << 20, CHANNEL_BULK);
	tickets[3] = push(2, 100000, CHANNEL_BULK);
	push(3, 100000, CHANNEL_BULK);
	tickets[0] = push(10, 5, CHANNEL_CONTROL);
	tickets[1] = push(11, 200000, CHANNEL_CONTROL);
	for (unsigned i = 0; i < ARRAY_SIZE(tickets); i++)
		assert_false(channel_has_sent(&ch, tickets[i]));
	n = drain(ids, ARRAY_SIZE(ids));
	assert_int_equal(n, 5);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[1], 10);
	assert_int_equal(ids[2], 11);
	assert_int_equal(ids[3], 2);
	assert_int_equal(ids[4], 3);
	for (unsigned i = 0; i < ARRAY_SIZE(tickets); i++)
		assert_true(channel_has_sent(&ch, tickets[i]));
	assert_false(channel_has_sent(&ch, tickets[1] + CHANNEL_NCLASSES));
	assert_false(channel_has_sent(&ch, 0));
	assert_true(seen.ndrained > 0);
	assert_int_equal(ch.queued[CHANNEL_BULK], 0);
	assert_int_equal(ch.queued[CHANNEL_CONTROL], 0);
}

/* What was pushed before is sent; what is pushed meanwhile waits, and is sent then. */
static void held(void **state)
{
	uint64_t ticket;
	uint32_t ids[8];

	(void)state;
	push(1, 1 << 20, CHANNEL_BULK);
	push(2, 5, CHANNEL_BULK);
	channel_hold(&ch, true);
	ticket = push(3, 5, CHANNEL_CONTROL);
	push(4, 100000, CHANNEL_BULK);
	assert_int_equal(drain(ids, ARRAY_SIZE(ids)), 2);
	assert_int_equal(ids[1], 2);
	assert_false(channel_has_sent(&ch, ticket));
	push(5, 5, CHANNEL_CONTROL);
	assert_int_equal(drain(ids, ARRAY_SIZE(ids)), 0);
	channel_hold(&ch, false);
	assert_int_equal(drain(ids, ARRAY_SIZE(ids)), 3);
	assert_int_equal(ids[0], 3);
	assert_int_equal(ids[1], 5);
	assert_int_equal(ids[2], 4);
	assert_true(channel_has_sent(&ch, ticket));
	assert_int_equal(ch.queued[CHANNEL_BULK], 0);
	channel_hold(&ch, true); /* and is closed with this one */
	push(6, 5, CHANNEL_CONTROL);
}

static void many_frames(void **state)
{
	static uint32_t ids[2000];
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		push(i, i * 3, CHANNEL_BULK);
	n = drain(ids, ARRAY_SIZE(ids));
	assert_int_equal(n, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(ids[i], i);
}

/* A frame of which a part was sent was not sent yet. */
static void half_sent(void **state)
{
	const uint64_t ticket = push(1, 1 << 20, CHANNEL_CONTROL);
	uint32_t id;

	(void)state;
	assert_non_null(ch.current);
	assert_false(channel_has_sent(&ch, ticket));
	assert_int_equal(drain(&id, 1), 1);
	assert_true(channel_has_sent(&ch, ticket));
}

/* Closing drops frames that never left. */
static void closed_with_frames(void **state)
{
	uint64_t ticket;

	(void)state;
	push(1, 4 << 20, CHANNEL_BULK);
	ticket = push(2, 10, CHANNEL_CONTROL);
	close_all();
	assert_false(channel_has_sent(&ch, ticket));
	setup(state);
}

/* Record of @len bytes of frames, of which only a part arrives at first: nobody waits in the loop for the rest. */
static void half_a_record(void **state)
{
	static uint8_t wire[LINK_RECORD_MAX];
	const size_t len = frame(wire + LINK_HEADER, 7, 1, "abc", 3);
	struct link_out to = far_to;
	unsigned wakes = 0;

	(void)state;
	link_head(&to, len, wire);
	for (size_t at = 0; at < LINK_HEADER + len; at++) {
		assert_int_equal(seen.nframes, 0);
		assert_int_equal(write(far, wire + at, 1), 1);
		turn(3);
		for (unsigned i = 0; in_turns && i < 20; i++)
			wakes += poll_loop() > 0;
	}
	turn(3);
	assert_int_equal(wakes, 0);
	assert_int_equal(seen.nframes, 1);
	assert_int_equal(seen.ids[0], 7);
	assert_false(ch.half.watched);
	/* The next one as usual; and the end is noticed behind a part of one, too. */
	far_to = to;
	assert_true(say(wire + LINK_HEADER, len));
	turn(3);
	assert_int_equal(seen.nframes, 2);
	assert_int_equal(write(far, wire, 5), 5);
	turn(3);
	assert_int_equal(seen.nlost, 0);
	shutdown(far, SHUT_RDWR);
	turn(3);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, 0);
}

/* What takes long is put off to the next turn, so that others have theirs; none is lost, or comes twice. */
static void slow_frames(void **state)
{
	uint8_t bytes[64] = {0};

	(void)state;
	seen.slow = true;
	for (uint32_t i = 0; i < 6; i++)
		assert_true(say(bytes, frame(bytes, i, 1, "abc", 3)));
	turn(1);
	assert_int_equal(seen.nframes, in_turns ? 1 : 6);
	turn(10);
	assert_int_equal(seen.nframes, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(seen.ids[i], i);
	assert_int_equal(ch.peeked, 0);
}

/* Without a turn, as with one, what says that it is longer than any is the end. */
static void impossible_record(void **state)
{
	static const uint8_t wire[LINK_HEADER] = {0xff, 0xff, 0xff, 0x7f};

	(void)state;
	assert_int_equal(write(far, wire, sizeof(wire)), sizeof(wire));
	turn(3);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(cut_anywhere),
		T(generations),
		T(too_long),
		T(through_the_socket),
		T(ends),
		T(refused_frame),
		T(cancelled_frame),
		T(order),
		T(dies_with_something_unread),
		T(many_frames),
		T(half_sent),
		T(closed_with_frames),
		T(held),
		T(half_a_record),
		T(impossible_record),
		T(slow_frames),
	};
	int failed = cmocka_run_group_tests_name("at once", tests, NULL, NULL);

	in_turns = true;
	return failed + cmocka_run_group_tests_name("in turns", tests, NULL, NULL);
}
