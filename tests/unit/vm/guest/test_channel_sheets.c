/* SPDX-License-Identifier: Apache-2.0 */
/* What a channel sends from sheets: left where it is, held, and written down as where it lies; records that name what is not there. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/estate.h"
#include "vm/base/sheets.h"
#include "vm/guest/channel_internal.h"
#include "vm/guest/channel_record.h"

/* As in channel_record.c, where none is ever used for something else. */
enum { FD = 1, GENERATION = 2, SENT = 12, FRAME = 13, PARTS = 17 };
enum { FRAME_CLASS = 1, FRAME_SENT, FRAME_WIRE, FRAME_WRITTEN, FRAME_TAIL };
enum { PART_BYTES = 1, PART_HELD };
enum { HELD_PLACE = 1, HELD_LEN };

#define LEN 5000u

static uv_loop_t loop;
static struct estate *estate;
static struct sheets *sheets;
static struct channel ch;
static struct channel_scratch scratch;
static int pair[2];

static int on_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	(void)data;
	(void)h;
	(void)in;
	return 0;
}

static const struct channel_events events = {.frame = on_frame};

static int set_up(void **state)
{
	(void)state;
	scratch = (struct channel_scratch){0};
	ch = (struct channel){0};
	if (estate_new(&estate) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	sheets = estate_sheets(estate);
	scratch.left = estate;
	return sheets ? uv_loop_init(&loop) : -1;
}

static void on_closed(void *data)
{
	(void)data;
}

static int tear_down(void **state)
{
	(void)state;
	if (ch.open)
		channel_close(&ch, on_closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	close(pair[1]);
	for (unsigned i = 0; i < SHEETS; i++)
		assert_int_equal(sheets->held[i], 0);
	estate_free(estate);
	return uv_loop_close(&loop);
}

static void put_held(struct buf *out, unsigned tag, uint64_t place, uint64_t len)
{
	const size_t at = record_open(out, tag);

	record_u64(out, HELD_PLACE, place);
	record_u64(out, HELD_LEN, len);
	record_close(out, at);
}

static void begin(struct buf *out)
{
	record_u64(out, FD, 1);
	record_u64(out, GENERATION, 1);
}

static void put_sent(struct buf *out)
{
	record_u64(out, SENT, 0);
	record_u64(out, SENT, 0);
}

static void put_parts(struct buf *out, uint64_t place, uint64_t len)
{
	const size_t at = record_open(out, PARTS);

	record_bytes(out, PART_BYTES, "head", 4);
	put_held(out, PART_HELD, place, len);
	record_bytes(out, PART_BYTES, "tail", 4);
	record_close(out, at);
}

/* @says: bytes of payload, by its header. */
static void put_frame(struct buf *out, uint64_t place, uint64_t len, uint32_t says)
{
	const struct proto_header h = {says, PROTO_STDIN, 0, 1, 1};
	const size_t at = record_open(out, FRAME);
	uint8_t wire[PROTO_HEADER];

	proto_header_pack(&h, wire);
	record_u64(out, FRAME_CLASS, CHANNEL_BULK);
	record_u64(out, FRAME_SENT, 0);
	record_bytes(out, FRAME_WIRE, wire, sizeof(wire));
	put_held(out, FRAME_TAIL, place, len);
	record_close(out, at);
}

/* An heir reads it. Return: what it says of that. */
static int take(struct buf *out)
{
	struct fdbag fds = {.owned = true};
	int r;

	assert_int_equal(out->failed, 0);
	fdbag_put(&fds, dup(pair[0]));
	r = channel_take(&ch, record_reader(out->data, out->len), &fds, &loop, &scratch, &events,
			 NULL);
	fdbag_clear(&fds);
	buf_clear(out);
	return r;
}

static const struct {
	uint64_t place, len;
} nowhere[] = {{(uint64_t)SHEETS * SHEET_SIZE, LEN},
	       {(uint64_t)SHEETS * SHEET_SIZE - LEN + 1, LEN},
	       {SHEET_SIZE - 1, LEN},
	       {INT64_MAX, LEN},
	       {0, CHANNEL_LONG - 1},
	       {0, 0},
	       {0, (uint64_t)PROTO_PAYLOAD_MAX + 1},
	       {UINT64_MAX, LEN},
	       {SHEET_SIZE, UINT64_MAX - SHEET_SIZE + LEN}};

static void places_that_are_none(void **state)
{
	struct buf out = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		begin(&out);
		put_parts(&out, nowhere[i].place, nowhere[i].len);
		put_sent(&out);
		assert_int_equal(take(&out), -EBADMSG);
		begin(&out);
		put_sent(&out);
		put_frame(&out, nowhere[i].place, nowhere[i].len, (uint32_t)nowhere[i].len);
		assert_int_equal(take(&out), -EBADMSG);
	}
	/* The header of a frame says another length than it has. */
	begin(&out);
	put_sent(&out);
	put_frame(&out, 0, LEN, LEN - 1);
	assert_int_equal(take(&out), -EBADMSG);
	/* More than a record of the link may have. */
	begin(&out);
	put_parts(&out, 0, LINK_DATA_MAX - 7);
	put_sent(&out);
	assert_int_equal(take(&out), -EBADMSG);
	/* Nobody has left anything. */
	scratch.left = NULL;
	begin(&out);
	put_parts(&out, 0, LEN);
	put_sent(&out);
	assert_int_equal(take(&out), -EBADMSG);
}

static void heirs_hold_what_is_named(void **state)
{
	struct buf out = {0};
	char got[8 + LINK_HEADER + LEN];

	(void)state;
	memset(sheets->mem + SHEET_SIZE, 'x', LEN);
	begin(&out);
	put_parts(&out, SHEET_SIZE, LEN);
	put_sent(&out);
	put_frame(&out, 2 * SHEET_SIZE + 8, LEN, LEN);
	assert_int_equal(take(&out), 0);
	assert_int_equal(sheets->held[1], 1);
	assert_int_equal(sheets->held[2], 1);
	scratch.left = NULL;
	assert_int_equal(channel_flush(&ch), 0);
	assert_int_equal(sheets->held[1], 0);
	assert_int_equal(sheets->held[2], 0);
	assert_int_equal(recv(pair[1], got, sizeof(got), MSG_WAITALL), sizeof(got));
	assert_memory_equal(got + LINK_HEADER, "headxxxx", 8);
	assert_memory_equal(got + LINK_HEADER + LEN, "xxxxtail", 8);
}

/* One that does not lie there is copied, as is a short one. */
static void frames_of_other_bytes(void **state)
{
	static char elsewhere[LEN];
	struct channel_frame *f = channel_frame_new(PROTO_STDIN, 1, 3 * LEN);

	(void)state;
	assert_non_null(f);
	channel_frame_add(f, sheets, elsewhere, LEN);
	/* Nobody holds it: it may be others' any moment. */
	channel_frame_add(f, sheets, sheets->mem, LEN);
	sheets_hold(sheets, sheets->mem);
	channel_frame_add(f, sheets, sheets->mem, CHANNEL_LONG - 1);
	assert_int_equal(f->out.len, 2 * LEN + CHANNEL_LONG - 1);
	assert_int_equal(f->ntail, 0);
	channel_frame_add(f, sheets, sheets->mem, LEN);
	assert_int_equal(f->ntail, LEN);
	assert_int_equal(channel_frame_size(f), 3 * LEN + CHANNEL_LONG - 1);
	assert_int_equal(sheets->held[0], 2);
	channel_frame_free(f);
	assert_int_equal(sheets->held[0], 1);
	sheets_let_go(sheets, sheets->mem);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(places_that_are_none),
		test(heirs_hold_what_is_named),
		test(frames_of_other_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
