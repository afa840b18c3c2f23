/* SPDX-License-Identifier: Apache-2.0 */
/* The agent protocol: what is packed comes out again, and nothing is read past its end. */
/* modules: agent/protocol.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "agent/protocol.h"

static void header(void **state)
{
	const struct proto_header h = {0x00102030, 0x4142, 0x43, 0x44, 0x51525354};
	uint8_t wire[PROTO_HEADER];
	struct proto_header got;

	(void)state;
	proto_header_pack(&h, wire);
	assert_memory_equal(wire, "\x30\x20\x10\x00\x42\x41\x43\x44\x54\x53\x52\x51", PROTO_HEADER);
	assert_int_equal(proto_header_unpack(wire, &got), 0);
	assert_memory_equal(&got, &h, sizeof(h));
	wire[3] = 1;
	assert_int_equal(proto_header_unpack(wire, &got), -EPROTO);
}

/* A copy with nothing behind it, so that a read past the end is seen by the sanitizer. */
static struct proto_in exact(const uint8_t *data, size_t len, uint8_t **ret_copy)
{
	*ret_copy = malloc(len ? len : 1);
	memcpy(*ret_copy, data, len);
	return (struct proto_in){*ret_copy, *ret_copy + len, false};
}

typedef int (*unpack_fn)(struct proto_in *in);

/* Each cut of a message, and the message with a byte more, is refused. */
static void refuse_cuts(const uint8_t *data, size_t len, unpack_fn unpack)
{
	uint8_t longer[4096], *copy;
	struct proto_in in;

	for (size_t n = 0; n < len; n++) {
		in = exact(data, n, &copy);
		assert_int_equal(unpack(&in), -EPROTO);
		free(copy);
	}
	memcpy(longer, data, len);
	longer[len] = 0;
	in = exact(longer, len + 1, &copy);
	assert_int_equal(unpack(&in), -EPROTO);
	free(copy);
	in = exact(data, len, &copy);
	assert_int_equal(unpack(&in), 0);
	free(copy);
}

static struct proto_setup setup_got;
static struct proto_run run_got;
static struct proto_job job_got;
static struct proto_exit exit_got;
static struct proto_usage usage_got;
static struct proto_setattr setattr_got;

static int unpack_setup(struct proto_in *in)
{
	return proto_setup_unpack(in, &setup_got);
}

static int unpack_run(struct proto_in *in)
{
	return proto_run_unpack(in, &run_got);
}

static int unpack_job(struct proto_in *in)
{
	return proto_job_unpack(in, &job_got);
}

static int unpack_exit(struct proto_in *in)
{
	return proto_exit_unpack(in, &exit_got);
}

static int unpack_usage(struct proto_in *in)
{
	return proto_usage_unpack(in, &usage_got);
}

static int unpack_setattr(struct proto_in *in)
{
	return proto_setattr_unpack(in, &setattr_got);
}

static void messages(void **state)
{
	const struct proto_setup setup = {
		.language = proto_cstr("python"),
		.files_bytes = 1ull << 40,
		.tmp_bytes = 7,
		.files_inodes = 8,
		.nproc = 9,
		.nofile = 10,
		.fsize = 1ull << 33,
		.nenv = 2,
		.env = {{proto_cstr("A"), proto_cstr("")}, {proto_cstr("LONG"), proto_cstr("b=c")}},
	};
	const struct proto_run run = {1, 2000, 500, {3, 1ull << 33}, 4, {"co\0de", 5}};
	const struct proto_job job = {.flags = PROTO_RUN_STDIN,
				      .limit = {3, 1ull << 33},
				      .nice = 19,
				      .language = proto_cstr("python"),
				      .cwd = proto_cstr("/tmp"),
				      .env = {"A=\0LONG=b=c", 12},
				      .argv = {"a\0\0b c", 7},
				      .code = {"co\0de", 5}};
	const struct proto_exit ex = {PROTO_HOW_OOM, 137, 1, 0, 5, 6, 7, 8, {9, 10}, 11, 12};
	const struct proto_usage usage = {1, 2, 3, 4, 5, 6, 7, 8};
	const struct proto_setattr setattr = {1, 2, 3, 4, 5, -6, 7, 8, 9};
	uint8_t bytes[1024];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	(void)state;
	proto_setup_pack(&o, &setup);
	assert_false(o.bad);
	refuse_cuts(bytes, o.len, unpack_setup);
	assert_int_equal(setup_got.files_bytes, 1ull << 40);
	assert_int_equal(setup_got.fsize, 1ull << 33);
	assert_int_equal(setup_got.env[1].value.len, 3);
	o.len = 0;
	proto_run_pack(&o, &run);
	refuse_cuts(bytes, o.len, unpack_run);
	assert_int_equal(run_got.limit[1], 1ull << 33);
	assert_int_equal(run_got.code.len, 5);
	o.len = 0;
	proto_job_pack(&o, &job);
	refuse_cuts(bytes, o.len, unpack_job);
	assert_int_equal(job_got.limit[1], 1ull << 33);
	assert_int_equal(job_got.nice, 19);
	assert_int_equal(job_got.argv.len, 7);
	assert_int_equal(job_got.code.len, 5);
	o.len = 0;
	proto_exit_pack(&o, &ex);
	refuse_cuts(bytes, o.len, unpack_exit);
	assert_int_equal(exit_got.how, PROTO_HOW_OOM);
	assert_int_equal(exit_got.wall_us, 5);
	assert_int_equal(exit_got.dropped[1], 10);
	o.len = 0;
	proto_usage_pack(&o, &usage);
	refuse_cuts(bytes, o.len, unpack_usage);
	o.len = 0;
	proto_setattr_pack(&o, &setattr);
	refuse_cuts(bytes, o.len, unpack_setattr);
	assert_int_equal(setattr_got.atime, -6);
	assert_int_equal(setattr_got.mtime_ns, 9);
}

static void impossible_jobs(void **state)
{
	static const struct proto_job bad[] = {
		{.code = {"", 0}},
		{.argv = {"a", 1}},
		{.code = {"x", 1}, .env = {"A=", 2}},
		{.code = {"x", 1}, .env = {"A", 2}},
		{.code = {"x", 1}, .env = {"=x", 3}},
		{.code = {"x", 1}, .env = {"", 1}},
		{.code = {"x", 1}, .cwd = {"a\0b", 3}},
		{.code = {"x", 1}, .flags = PROTO_RUN_TRIAL},
		{.code = {"x", 1}, .language = {"a language that has a very long name", 36}},
	};
	uint8_t bytes[256] = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct proto_out o = {bytes, 0, sizeof(bytes), false};
		struct proto_in in;

		proto_job_pack(&o, &bad[i]);
		assert_false(o.bad);
		in = (struct proto_in){bytes, bytes + o.len, false};
		assert_int_equal(unpack_job(&in), -EPROTO);
	}
}

static void impossible_exits(void **state)
{
	static const struct proto_exit bad[] = {
		{.how = PROTO_NHOW}, {.how = 0xffffffff}, {.status = 256}, {.fresh = 2}};
	uint8_t bytes[256] = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct proto_out o = {bytes, 0, sizeof(bytes), false};
		struct proto_in in;

		proto_exit_pack(&o, &bad[i]);
		in = (struct proto_in){bytes, bytes + o.len, false};
		assert_int_equal(proto_exit_unpack(&in, &exit_got), -EPROTO);
	}
}

/* What is only there if it is asked for, behind all else. */
static void exact_setup(void **state)
{
	const struct proto_setup setup = {.language = proto_cstr("raw"),
					  .exact = PROTO_EXACT_SEED | PROTO_EXACT_CLOCK,
					  .before = 3,
					  .seed = 1ull << 63,
					  .clock_ns = 5};
	const size_t len = 4 + 4 + 8 + 8;
	uint8_t bytes[256];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct proto_in in;

	(void)state;
	proto_setup_pack(&o, &setup);
	in = (struct proto_in){bytes, bytes + o.len, false};
	assert_int_equal(proto_setup_unpack(&in, &setup_got), 0);
	assert_int_equal(setup_got.exact, setup.exact);
	assert_int_equal(setup_got.before, 3);
	assert_true(setup_got.seed == setup.seed && setup_got.clock_ns == 5);
	in = (struct proto_in){bytes, bytes + o.len - len, false};
	assert_int_equal(proto_setup_unpack(&in, &setup_got), 0);
	assert_int_equal(setup_got.exact, 0);
	for (size_t cut = 1; cut < len; cut++) {
		in = (struct proto_in){bytes, bytes + o.len - cut, false};
		assert_int_equal(proto_setup_unpack(&in, &setup_got), -EPROTO);
	}
	for (unsigned bad = 0; bad <= PROTO_EXACT_ALL + 1; bad += PROTO_EXACT_ALL + 1) {
		bytes[o.len - len] = (uint8_t)bad;
		in = (struct proto_in){bytes, bytes + o.len, false};
		assert_int_equal(proto_setup_unpack(&in, &setup_got), -EPROTO);
	}
}

static void too_many_variables(void **state)
{
	uint8_t bytes[64] = {0};
	struct proto_in in = {bytes, bytes + sizeof(bytes), false};

	(void)state;
	bytes[4 + 8 + 8 + 4 + 4 + 4] = PROTO_ENV_MAX + 1;
	assert_int_equal(proto_setup_unpack(&in, &setup_got), -EPROTO);
}

/* A cursor that went bad stays bad, and gives zeroes and empty strings. */
static void bad_cursor(void **state)
{
	static const uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 1, 2, 3};
	struct proto_in in = {bytes, bytes + sizeof(bytes), false};
	struct proto_str s = get_str(&in, 0xffffffff);

	(void)state;
	assert_true(in.bad);
	assert_int_equal(s.len, 0);
	assert_int_equal(get_u8(&in), 0);
	assert_int_equal(get_u64(&in), 0);
	assert_int_equal(get_rest(&in).len, 0);
	assert_false(get_end(&in));
}

/* A frame that is full refuses all that follows, whether it would fit or not. */
static void full(void **state)
{
	uint8_t bytes[10] = {0};
	struct proto_out o = {bytes, 0, 6, false};

	(void)state;
	put_u32(&o, 1);
	put_u32(&o, 2);
	assert_true(o.bad);
	assert_int_equal(o.len, 4);
	put_u8(&o, 3);
	assert_int_equal(o.len, 4);
	assert_int_equal(bytes[4], 0);
}

static void dirents(void **state)
{
	const struct proto_dirent d = {1, 2, S_IFREG, proto_cstr("name")};
	uint8_t bytes[60] = {0};
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct proto_in in = {bytes, bytes + 56, false};
	struct proto_dirent got;

	(void)state;
	assert_true(proto_dirent_pack(&o, &d));
	assert_true(proto_dirent_pack(&o, &d));
	assert_false(proto_dirent_pack(&o, &d));
	assert_int_equal(o.len, 56);
	assert_false(o.bad);
	proto_dirent_get(&in, &got);
	proto_dirent_get(&in, &got);
	assert_true(get_end(&in));
	assert_memory_equal(got.name.data, "name", 4);
}

static void names(void **state)
{
	static char many[PROTO_NAME_MAX + 1];
	static const struct proto_str bad[] = {{"", 0},	   {".", 1}, {"..", 2},
					       {"a/b", 3}, {"/", 1}, {"a\0", 2}};

	(void)state;
	memset(many, 'x', sizeof(many));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(proto_name_ok(bad[i]));
	assert_true(proto_name_ok((struct proto_str){many, PROTO_NAME_MAX}));
	assert_false(proto_name_ok((struct proto_str){many, PROTO_NAME_MAX + 1}));
	assert_true(proto_name_ok(proto_cstr("...")));
	assert_true(proto_name_ok(proto_cstr("..a")));
	assert_true(proto_name_ok(proto_cstr(" \n\xff")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header),	    cmocka_unit_test(messages),
		cmocka_unit_test(bad_cursor),	    cmocka_unit_test(impossible_jobs),
		cmocka_unit_test(impossible_exits), cmocka_unit_test(full),
		cmocka_unit_test(exact_setup),	    cmocka_unit_test(too_many_variables),
		cmocka_unit_test(dirents),	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
