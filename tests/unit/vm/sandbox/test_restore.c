/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that begin from what is on a disk: it is read when it is needed, and has to fit what there is now. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c tests/unit/fixture/saved_fixture.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "tests/unit/fixture/saved_fixture.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"
#include "vm/guest/internal.h"
#include "vm/sandbox/network_internal.h"

static char top[64];

#define WORDS "kernel 6.18\nrootfs 1234\nqemu 7.2.1\n"

/* ---- images, and a vault ---- */

static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_images(void)
{
	static const char *const dirs[] = {"images", "images/templates", "images/templates/python",
					   "images/templates/kernel"};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", top, dirs[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	put("agent", "agent");
	put("images/templates/python/rootfs.erofs", "first");
	put("images/templates/python/manifest.json", "{}");
	put("images/templates/kernel/vmlinux", "kernel");
	put("images/templates/kernel/modules.cpio", "modules");
	put("images/templates/kernel/manifest.json", "{}");
	images_free(vm->backends.images);
	snprintf(path, sizeof(path), "%s/agent", top);
	vm->backends.images = images_new(top, NULL, path, "auto");
	vm->image_jobs.images = vm->package_jobs.images = vm->backends.images;
}

static int setup(void **state)
{
	struct problem why;
	int fd;

	assert_int_equal(sandbox_fixture_setup(state), 0);
	log_relay(open("/dev/null", O_WRONLY | O_CLOEXEC));
	strcpy(top, "/tmp/test_restore.XXXXXX");
	assert_non_null(mkdtemp(top));
	make_images();
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(vm_keep(vm, fd, &why), 0);
	close(fd);
	fake_agent.words = WORDS;
	return 0;
}

static int teardown(void **state)
{
	const int r = sandbox_fixture_teardown(state);

	(void)remove_tree(top);
	return r;
}

static void on_stored(void *data, int err, const struct problem *why)
{
	assert_null(why);
	assert_int_equal(err, 0);
	*(bool *)data = true;
}

static bool is_true(void *data)
{
	return *(bool *)data;
}

/* What was saved of a machine like those of the fixture, or files; on the disk alone. @network: it had a card. */
static struct saved *described_on_disk(bool memory, bool network, const char *words)
{
	struct point *p = memory ? saved_fixture_point(1, 2) : NULL;
	struct saved *s;
	bool done = false;

	if (p) {
		p->fit = (struct point_fit){.memory_mb = 192, .cpus = 1, .network = network};
		free(p->machine);
		p->machine = words ? strdup(words) : NULL;
	}
	s = saved_new(saved_fixture_pack(1, 5000), p);
	vault_store(vm_vault(vm), s, on_stored, &done);
	assert_true(fake_spin(is_true, &done));
	saved_unload(s);
	assert_null(saved_pack(s));
	return s;
}

static struct saved *made_on_disk(bool memory, bool network)
{
	return described_on_disk(memory, network, WORDS);
}

static struct saved *on_disk(bool memory)
{
	return made_on_disk(memory, false);
}

static bool has_booted(void *data)
{
	(void)data;
	return fake_agent.started > fake_agent.destroyed;
}

static void expect_unfit(const char *cause)
{
	until_closed(&seen[0]);
	if (fake_agent.words)
		assert_int_equal(seen[0].problem.code, PROBLEM_NOT_RESTORED);
	else
		assert_int_equal(seen[0].problem.code, PROBLEM_NO_RESOURCES);
	if (!strstr(seen[0].problem.cause, cause))
		fail_msg("%s", seen[0].problem.cause);
	assert_int_equal(fake_agent.started, 0);
}

/* ---- memory ---- */

static void goes_on(void **state)
{
	struct saved *s = on_disk(true);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		memset(&seen[i], 0, sizeof(seen[i]));
		seen[i].from = s;
		open_sandbox(&seen[i], 0);
		until(&seen[i], SANDBOX_STARTING);
		assert_true(fake_spin(has_booted, NULL));
		assert_true(fake_agent.from_point);
		/* Its image's file is the one of now. */
		assert_true(saved_point(s)->disk >= 0);
		fake_boot();
		until(&seen[i], SANDBOX_READY);
		close_it(&seen[i]);
		if (i == 0)
			saved_unload(s);
	}
	saved_unref(s);
}

/* After an upgrade of something. */
static void is_another_machine(void **state)
{
	static const struct {
		const char *words, *cause;
	} cases[] = {
		{"kernel 6.19\nrootfs 1234\nqemu 7.2.1\n", "kernel has changed"},
		{"kernel 6.18\nrootfs 5678\nqemu 7.2.1\n", "rootfs has changed"},
		{"kernel 6.18\nrootfs 1234\nqemu 10.0.2\n", "qemu has changed"},
		{"kernel 6.18\nrootfs 1234\nqemu 7.2.1\nflags avx512\n", "has changed"},
		{NULL, "it is not known what its memory is of"},
	};
	struct saved *s = on_disk(true);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&seen[0], 0, sizeof(seen[0]));
		seen[0].from = s;
		fake_agent.words = cases[i].words;
		open_sandbox(&seen[0], 0);
		expect_unfit(cases[i].cause);
	}
	/* Nothing is lost: back on what there was, it goes on. */
	fake_agent.words = WORDS;
	memset(&seen[0], 0, sizeof(seen[0]));
	seen[0].from = s;
	open_ready(&seen[0], 0);
	close_it(&seen[0]);
	saved_unref(s);
}

/* Its image went while it was saved: then there is no word of what has changed. */
static void is_of_nobody_knows_what(void **state)
{
	struct saved *s = described_on_disk(true, false, NULL);

	(void)state;
	seen[0].from = s;
	open_sandbox(&seen[0], 0);
	expect_unfit("it could not be found out what machine its memory is of when it was saved");
	saved_unref(s);
}

/* It is waited for that the files are read, and no longer than for anything else. */
static void is_not_known_yet(void **state)
{
	struct saved *s = on_disk(true);

	(void)state;
	fake_agent.describe_error = -EAGAIN;
	seen[0].from = seen[1].from = s;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_settle();
	assert_int_equal(seen[0].s->needs, NEEDS_DIGESTS);
	sandbox_on_digests(seen[0].s); /* still not */
	assert_int_equal(seen[0].s->needs, NEEDS_DIGESTS);
	fake_agent.describe_error = 0;
	sandbox_on_digests(seen[0].s);
	assert_true(fake_spin(has_booted, NULL));
	fake_boot();
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);

	saved_unload(s);
	fake_agent.describe_error = -EAGAIN;
	open_sandbox(&seen[1], 0);
	until_closed(&seen[1]);
	assert_int_equal(seen[1].problem.code, PROBLEM_NO_RESOURCES); /* nothing is given up */
	assert_non_null(strstr(seen[1].problem.cause, "in time"));
	saved_unref(s);
}

static void flip(const struct saved *s, const char *file)
{
	char path[PATH_MAX], byte;
	int fd;

	snprintf(path, sizeof(path), "%s/saved/%s/%s", top, saved_id(s), file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, 300), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, 300), 1);
	close(fd);
}

static void is_damaged(void **state)
{
	struct saved *s = on_disk(true), *files;

	(void)state;
	flip(s, "stream");
	seen[0].from = s;
	open_sandbox(&seen[0], 0);
	expect_unfit("memory that was saved is damaged");
	/* Its files can be had. */
	files = saved_files_only(s);
	memset(&seen[0], 0, sizeof(seen[0]));
	seen[0].from = files;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	assert_true(fake_spin(has_booted, NULL));
	fake_boot();
	fake_free(fake_expect(PROTO_UNPACK));
	close_it(&seen[0]);
	saved_unref(files);
	saved_unref(s);
}

static int take_no_card(struct backend *b, bool *ret_stream)
{
	(void)b;
	(void)ret_stream;
	return -ENODEV;
}

/* It had a network, or ports, and has neither by now: it goes on with the card that it has, which leads nowhere. */
static void keeps_its_card(void **state)
{
	struct saved *s = made_on_disk(true, true);
	struct backend_ops wired = backend_fake;

	(void)state;
	wired.take_card = take_no_card;
	vm->backends.machine = &wired;
	seen[0].from = s;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	assert_true(fake_spin(has_booted, NULL));
	assert_true(fake_agent.from_point);
	assert_true(seen[0].s->guest->spec.network);
	assert_string_equal(seen[0].s->network->allow, "");
	assert_false(seen[0].s->network->trusted_names);
	close_it(&seen[0]);
	saved_unref(s);
}

/* ---- files ---- */

static void files_are_read(void **state)
{
	struct saved *s = on_disk(false);

	(void)state;
	seen[0].from = s;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_boot();
	fake_free(fake_expect(PROTO_UNPACK));
	assert_non_null(saved_pack(s));
	close_it(&seen[0]);

	/* It ends while they are being read. */
	saved_unload(s);
	seen[1].from = s;
	open_sandbox(&seen[1], 0);
	until(&seen[1], SANDBOX_STARTING);
	fake_boot();
	close_it(&seen[1]);

	/* They are damaged: it does not start, and says so. */
	saved_unload(s);
	flip(s, "pack");
	seen[2].from = s;
	open_sandbox(&seen[2], 0);
	until(&seen[2], SANDBOX_STARTING);
	fake_boot();
	until_closed(&seen[2]);
	assert_int_equal(seen[2].problem.code, PROBLEM_NOT_RESTORED);
	assert_non_null(strstr(seen[2].problem.cause, "damaged"));
	saved_unref(s);
}

static void never(struct saved *s, bool memory, struct wait *w)
{
	(void)s;
	(void)memory;
	(void)w;
}

/* The disk does not answer: that is waited for no longer than for memory. */
static void files_are_not_read(void **state)
{
	struct saved *s = on_disk(false);
	const struct saved_ops *ops = s->ops;
	struct saved_ops hung = *ops;

	(void)state;
	hung.load = never;
	s->ops = &hung;
	seen[0].from = s;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_boot();
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_NO_RESOURCES); /* nothing is given up */
	assert_non_null(strstr(seen[0].problem.cause, "in time"));
	s->ops = ops;
	saved_unref(s);
}

/* ---- what it began from, when it has begun ---- */

static bool is_on_disk(const char *id)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/saved/%s", top, id);
	return access(path, F_OK) == 0;
}

static bool is_removed(void *data)
{
	return !is_on_disk(data);
}

/* The agent takes its files. */
static void fill(void)
{
	struct fake_frame *f = fake_expect(PROTO_UNPACK);
	uint8_t wire[16];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, PROTO_UNPACK_WINDOW);
	fake_send(PROTO_UNPACKED, 0, f->h.id, wire, o.len);
	o.len = 0;
	put_u32(&o, 0);
	put_str(&o, proto_cstr(""));
	fake_send(PROTO_UNPACKED, PROTO_F_EOF, f->h.id, wire, o.len);
	fake_free(f);
}

/* A sandbox that goes on, and one that ends, keep nothing on the disk that nobody names any more. */
static void is_let_go(void **state)
{
	struct sandbox_info info;
	char id[SAVED_ID_MAX];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const bool memory = i == 0, begins = i < 2;
		struct saved *s = on_disk(memory);

		snprintf(id, sizeof(id), "%s", saved_id(s));
		memset(&seen[i], 0, sizeof(seen[i]));
		seen[i].from = s;
		open_sandbox(&seen[i], 0);
		until(&seen[i], SANDBOX_STARTING);
		if (memory)
			assert_true(fake_spin(has_booted, NULL));
		if (begins)
			fake_boot();
		if (begins && !memory)
			fill();
		if (begins)
			until(&seen[i], SANDBOX_READY);
		else
			sandbox_close(seen[i].s);
		saved_unref(s);
		vault_forget(vm_vault(vm), vault_mark(vm_vault(vm)));
		assert_true(fake_spin(is_removed, id));
		if (begins) {
			sandbox_info(seen[i].s, &info);
			assert_true(info.kept == memory);
			assert_true(!*info.lost == memory);
			close_it(&seen[i]);
		} else {
			until_closed(&seen[i]);
		}
	}
}

/* ---- saving for a disk ---- */

static struct saved *save(struct seen *e, const char *replaced)
{
	uint8_t none[4] = {0};

	e->s->save = (struct save){.step = SAVE_POINT, .memory = true};
	assert_int_equal(guest_point_begin(e->s->guest), 0);
	fake_prepared();
	assert_int_equal(guest_point(e->s->guest), 0);
	fake_free(fake_expect(PROTO_POINT));
	fake_send(PROTO_POINTED, 0, e->s->guest->points_asked, none, sizeof(none));
	fake_settle();
	assert_non_null(fake_agent.point);
	fake_agent.point->base = saved_fixture_file(1 << 20, 0, 1000, 1);
	fake_agent.point->stream = saved_fixture_file(10000, 0, 10000, 2);
	fake_agent.point->disk = openat(AT_FDCWD, replaced, O_RDONLY | O_CLOEXEC);
	fake_pointed(0);
	return e->saved;
}

/* What it depends on is noted with it, as of then. */
static void is_described(void **state)
{
	char path[PATH_MAX];
	struct saved *s;

	(void)state;
	snprintf(path, sizeof(path), "%s/images/templates/python/rootfs.erofs", top);
	open_ready(&seen[0], 0);
	s = save(&seen[0], path);
	assert_int_equal(seen[0].nsaved, 1);
	assert_string_equal(saved_point(s)->machine, WORDS);
	saved_unref(s);

	/* Its image was replaced since it began: it is no machine of now. */
	s = save(&seen[0], "/dev/null");
	assert_non_null(strstr(saved_point(s)->machine, "replaced"));
	saved_unref(s);

	/* That is not known yet: no run begins before it is. */
	fake_agent.describe_error = -EAGAIN;
	vm->backends.digests.current = (void *)path; /* one is being computed */
	assert_int_equal(seen[0].nsaved, 2);
	(void)save(&seen[0], path);
	assert_int_equal(seen[0].nsaved, 2);
	assert_int_equal(call_run(&seen[0], &(struct sandbox_run){.id = 1, .code = ""}), -EBUSY);
	fake_agent.describe_error = 0;
	sandbox_on_digests(seen[0].s);
	assert_int_equal(seen[0].nsaved, 3);
	s = seen[0].saved;
	assert_string_equal(saved_point(s)->machine, WORDS);
	saved_unref(s);

	/* It can't be read: then it is of no machine, and nobody waits. */
	fake_agent.describe_error = -EAGAIN;
	(void)save(&seen[0], path);
	vm->backends.digests.current = NULL;
	sandbox_on_digests(seen[0].s);
	assert_int_equal(seen[0].nsaved, 4);
	assert_null(saved_point(seen[0].saved)->machine);
	saved_unref(seen[0].saved);
	close_it(&seen[0]);
}

/* The memory that is taken by it is nobody else's. */
static void is_admitted(void **state)
{
	const uint64_t before = (schedule_look(vm), vm->admission.now.sealed_mb);
	struct saved *s = saved_new(saved_fixture_pack(1, 5u << 20), NULL);

	(void)state;
	schedule_look(vm);
	assert_in_range(vm->admission.now.sealed_mb, before + 5, before + 6);
	saved_unref(s);
	schedule_look(vm);
	assert_int_equal(vm->admission.now.sealed_mb, before);
}

/* There are no more of them in memory than there are descriptors for. */
static void points_are_bounded(void **state)
{
	struct saved *s = saved_new(saved_fixture_pack(1, 100), saved_fixture_point(1, 2));

	(void)state;
	assert_in_range(vm->max_points, 1, 1u << 16);
	open_ready(&seen[0], 0);
	vm->max_points = 1;
	assert_int_equal(sandbox_save(seen[0].s, true), -EDQUOT);
	saved_unref(s);
	assert_int_equal(sandbox_save(seen[0].s, true), 0);
	close_it(&seen[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(goes_on),		TEST(is_another_machine), TEST(is_of_nobody_knows_what),
		TEST(is_not_known_yet), TEST(is_damaged),	  TEST(files_are_read),
		TEST(is_described),	TEST(keeps_its_card),	  TEST(files_are_not_read),
		TEST(is_admitted),	TEST(points_are_bounded), TEST(is_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
