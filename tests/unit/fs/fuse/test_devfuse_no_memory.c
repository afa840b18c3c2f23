/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that there is no memory for is said at once: then no other daemon may go on with what was written before. */
/* modules: tests/unit/fixture/ledger.c */
#include <errno.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/fuse/devfuse_internal.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

#define LONG (8u << 20) /* longer than the outbox: it would lie in the heap */

static unsigned nlost;

static int on_write(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	return 0;
}

static void on_lost(void *data, int err)
{
	(void)data;
	assert_int_equal(err, -ENOMEM);
	nlost++;
}

/* Nothing as long as that can be had any more. */
static void no_memory(struct rlimit *ret_before)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;
	struct rlimit now;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	assert_int_equal(getrlimit(RLIMIT_AS, ret_before), 0);
	now = *ret_before;
	now.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + LONG / 4;
	assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
}

static void no_room(void **state)
{
	static const struct turn_ops ops = {.write = on_write, .lost = on_lost};
	static char bytes[LONG];
	const struct fuse_out_header header = {.len = LONG, .unique = 2};
	struct iovec iov = {bytes, LONG};
	struct devfuse d = {0};
	struct rlimit before;
	struct turn t = {0};
	struct estate *e;
	uv_loop_t loop;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* its memory can't be limited */
#endif
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(estate_new(&e), 0);
	unanswered_init(&d.unanswered, 1u << 20);
	turn_start(&t, &loop, e, &ops, NULL);
	assert_int_equal(devfuse_survive(&d, &t), 0);
	/* There is. */
	assert_true(devfuse_queue(&d, &iov, 1, LONG));
	assert_int_equal(nlost, 0);
	no_memory(&before);
	assert_false(devfuse_queue(&d, &iov, 1, LONG));
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(nlost, 1);
	assert_false(estate_is_whole(e));
	turn_hush(&t, &d.speaker);
	turn_close(&t);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	outbox_fini(&d.outbox);
	unanswered_fini(&d.unanswered);
	buf_clear(&d.fields);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_room)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
