/* SPDX-License-Identifier: Apache-2.0 */
/* Jails that show what lies on a server that does not answer: the spawner does not wait for it. */
/* modules: tests/unit/fixture/jail_fixture.c tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/jail_fixture.h"
#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/mount_table.h"
#include "vm/base/spec.h"
#include "vm/base/util.h"
#include "vm/jail/view.h"

#define PATIENCE_MS 700

static const char root[] = "", below[] = "/sub";

/* A file system whose server takes requests and answers none: who asked sleeps, and SIGKILL does not wake him. */
static struct {
	char dir[64], path[80];
	int fd;
	uv_poll_t poll;
	unsigned asked;
} silent;

static void on_request(uv_poll_t *poll, int status, int events)
{
	char request[FUSE_MIN_READ_BUFFER];

	(void)poll;
	(void)status;
	(void)events;
	if (read(silent.fd, request, sizeof(request)) > 0)
		silent.asked++;
}

/* The only answer: that it is there. */
static void say_hello(void)
{
	struct {
		struct fuse_out_header header;
		struct fuse_init_out init;
	} out = {{sizeof(out), 0, 0},
		 {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096}};
	char request[FUSE_MIN_READ_BUFFER];
	const struct fuse_in_header *in = (const void *)request;

	assert_true(read(silent.fd, request, sizeof(request)) > (ssize_t)sizeof(*in));
	assert_int_equal(in->opcode, FUSE_INIT);
	out.header.unique = in->unique;
	assert_int_equal(write(silent.fd, &out, sizeof(out)), sizeof(out));
}

static bool mount_silent(void)
{
	char options[128];

	snprintf(silent.dir, sizeof(silent.dir), "/tmp/xsbx-test.XXXXXX");
	silent.asked = 0;
	silent.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (silent.fd < 0 || !mkdtemp(silent.dir))
		return false;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 silent.fd);
	if (mount("silent", silent.dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		rmdir(silent.dir);
		close(silent.fd);
		return false;
	}
	say_hello();
	return true;
}

static void unmount_silent(void)
{
	umount2(silent.dir, MNT_FORCE); /* all who sleep wake up */
	umount2(silent.dir, MNT_DETACH);
	rmdir(silent.dir);
}

static int setup(void **state)
{
	const struct spawner_rules rules = {.job = free_rules.job, .patience_ms = PATIENCE_MS};

	spawner_fixture_start(&rules);
	*state = mount_silent() ? &silent : NULL;
	if (!*state)
		return 0;
	uv_poll_init(&loop, &silent.poll, silent.fd);
	uv_poll_start(&silent.poll, UV_READABLE, on_request);
	return 0;
}

static int teardown(void **state)
{
	if (*state) {
		unmount_silent();
		uv_close((uv_handle_t *)&silent.poll, NULL);
	}
	spawner_fixture_teardown(state);
	if (*state)
		close(silent.fd);
	return 0;
}

/* A jail that shows a path on it. */
static void ask(struct jail_fixture_result *r, const char *path, uint32_t kind, uint32_t flags)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct jail_spec spec = jail_fixture_usual();

	snprintf(silent.path, sizeof(silent.path), "%s%s", silent.dir, path);
	spec.mounts[spec.nmounts++] = (struct jail_mount){kind, flags, silent.path, "/data"};
	jail_fixture_start(r, &spec, "/bin/sh", "true", null);
}

static void others_start(void)
{
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	jail_fixture_run(&r, &spec, "echo fine");
	assert_string_equal(r.out, "fine\n");
}

/* The child sleeps and can't be killed: it is given up, and is reaped when it comes to its end. */
static void path_below(void **state)
{
	struct jail_fixture_result r;

	if (!*state)
		skip();
	ask(&r, below, JAIL_RO, 0);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ETIMEDOUT);
	assert_non_null(strstr(r.step, "opening /tmp/xsbx-test."));
	assert_true(silent.asked > 0);
	assert_true(spawner_fixture_has_children());
	others_start();
	assert_true(spawner_fixture_has_children());
	unmount_silent();
	spawner_fixture_await_childless();
}

/* The daemon, in whose only thread a stamp is taken, does not even ask. */
static void stamped(void **state)
{
	char dir[] = "/tmp/xsbx-test.XXXXXX", path[80], first[DIGEST_HEX], other[DIGEST_HEX];
	struct vm_path shown[] = {{dir, "/here", false}, {path, "/there", false}};
	struct sandbox_spec spec = {.paths = shown, .npaths = 1};

	if (!*state)
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(view_stamp(&spec, first), 0);
	assert_int_equal(strlen(first), DIGEST_HEX - 1);
	snprintf(path, sizeof(path), "%s%s", silent.dir, below);
	spec.npaths = 2;
	assert_int_equal(view_stamp(&spec, other), -EAGAIN);
	assert_string_equal(other, "");
	spec = (struct sandbox_spec){.paths = shown, .npaths = 1, .work = path};
	assert_int_equal(view_stamp(&spec, other), -EAGAIN);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(silent.asked, 0);
	/* The control: of what is known, it says whether that is another. */
	spec.work = silent.dir;
	assert_int_equal(view_stamp(&spec, other), 0);
	assert_string_not_equal(other, first);
	spec.work = NULL;
	assert_int_equal(view_stamp(&spec, other), 0);
	assert_string_equal(other, first);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(view_stamp(&spec, other), 0);
	assert_string_not_equal(other, first);
	assert_int_equal(rmdir(dir), 0);
	assert_true(view_stamp(&spec, other) < 0);
}

/* Until then, others are not behind it, nor behind more of its kind than may be on their way otherwise. */
static void others_meanwhile(void **state)
{
	const struct spawner_rules rules = {.job = free_rules.job, .patience_ms = patience_ms()};
	static struct jail_fixture_result waiting[20];

	spawner_fixture_start(&rules);
	assert_true(mount_silent());
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		ask(&waiting[i], below, JAIL_RO, 0);
	while (!silent.asked)
		on_request(NULL, 0, 0);
	for (int i = 0; i < 3; i++)
		others_start();
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		assert_false(waiting[i].over);
	unmount_silent();
	close(silent.fd);
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++) {
		spawner_fixture_await(&waiting[i].over);
		assert_int_not_equal(waiting[i].failed, 0);
		assert_int_not_equal(waiting[i].failed, -ETIMEDOUT);
	}
	spawner_fixture_teardown(state);
}

/* Who asks for the same just then is not waited for again, until some time has passed. */
static void once_more(void **state)
{
	struct jail_fixture_result first, r;
	uint64_t begin;

	if (!*state)
		skip();
	ask(&first, below, JAIL_RO, 0);
	spawner_fixture_await(&first.over);
	begin = uv_hrtime();
	for (int i = 0; i < 5; i++) {
		ask(&r, below, JAIL_RO, 0);
		spawner_fixture_await(&r.over);
		assert_int_equal(r.failed, -ETIMEDOUT);
		assert_string_equal(r.step, first.step);
	}
	/* Had each of them waited, this had been longer. */
	assert_true(uv_hrtime() - begin < 5 * PATIENCE_MS * 1000000ull);
	others_start();
	unmount_silent();
	usleep(PATIENCE_MS * 1000);
	ask(&r, below, JAIL_RO, 0);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ENOENT);
}

/* What is mounted is known without asking. */
static void its_root(void **state)
{
	struct jail_fixture_result r;

	if (!*state)
		skip();
	ask(&r, root, JAIL_RO, 0);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, 0);
	assert_int_equal(r.status, 0);
}

/* One that the spawner has to open. */
static void owned(void **state)
{
	struct jail_fixture_result r;

	if (!*state || !jail_has_private_ids())
		skip();
	ask(&r, below, JAIL_RW, JAIL_OWNED);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ETIMEDOUT);
	assert_non_null(strstr(r.step, "opening /tmp/xsbx-test."));
	assert_true(silent.asked > 0);
	others_start();
}

/* The control: what the kernel can't look up by itself, but somebody can. Links to processes' roots are such. */
static void owned_and_found(void **state)
{
	char dir[] = "/tmp/xsbx-test.XXXXXX", source[64];
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	if (!jail_has_private_ids())
		skip();
	assert_non_null(mkdtemp(dir));
	snprintf(source, sizeof(source), "/proc/self/root%s", dir);
	spec.mounts[spec.nmounts++] = (struct jail_mount){JAIL_RW, JAIL_OWNED, source, "/data"};
	jail_fixture_run(&r, &spec, "echo mine >/data/file && cat /data/file && rm /data/file");
	rmdir(dir);
	if (r.failed == -EOPNOTSUPP)
		skip();
	assert_int_equal(r.failed, 0);
	assert_string_equal(r.out, "mine\n");
}

/* Nor is it waited for at the end, when there are mounts to be taken away. */
static void the_end(void **state)
{
	_cleanup_close_ int fd = pidfd_open(spawner_pid(sp), 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct jail_fixture_result r;

	if (!*state)
		skip();
	ask(&r, below, JAIL_RO, 0);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ETIMEDOUT);
	assert_true(spawner_fixture_has_children());
	uv_close((uv_handle_t *)&silent.poll, NULL);
	spawner_fixture_teardown(state);
	assert_int_equal(poll(&p, 1, patience_ms()), 1);
	unmount_silent();
	close(silent.fd);
	*state = NULL;
	spawner_fixture_setup(state); /* for the teardown */
}

/* As spawner_stop() does, which then waits for a second. */
static void say_goodbye(void)
{
	for (int fd = STDERR_FILENO + 1; fd < 256; fd++) {
		socklen_t len = sizeof(int);
		int type;

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET)
			assert_int_equal(shutdown(fd, SHUT_WR), 0);
	}
}

/* Nor one that is still waited for then. */
static void the_end_before(void **state)
{
	_cleanup_close_ int fd = pidfd_open(spawner_pid(sp), 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct jail_fixture_result r;

	if (!*state)
		skip();
	ask(&r, below, JAIL_RO, 0);
	while (!silent.asked)
		uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&silent.poll, NULL);
	say_goodbye();
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ECANCELED);
	spawner_fixture_teardown(state);
	assert_int_equal(poll(&p, 1, patience_ms()), 1);
	unmount_silent();
	close(silent.fd);
	*state = NULL;
	spawner_fixture_setup(state); /* for the teardown */
}

/* One that was mounted where the spawner guards, and never hangs. */
static char guarded[] = "/tmp/xsbx-test.guarded";
static int guarded_fd = -1; /* of its file system, that answers nothing */

/* Return: the other end of what the spawner takes for the mount's connection. */
static int guard_a_mount(int patience_ms)
{
	const struct spawner_rules rules = {
		.job = free_rules.job, .mountpoint = guarded, .patience_ms = patience_ms};

	char options[64];
	int ends[2];

	(void)umount2(guarded, MNT_DETACH);
	(void)mkdir(guarded, 0700);
	guarded_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	assert_true(guarded_fd >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", guarded_fd);
	assert_int_equal(mount("guarded", guarded, "fuse.xsbxfs", 0, options), 0);
	spawner_fixture_start(&rules);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(spawner_mounted(sp, ends[1]), 0);
	close(ends[1]);
	return ends[0];
}

static bool is_mounted(void)
{
	_cleanup_close_ int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = mount_table_read(fd);
	char device[MOUNT_DEVICE_MAX];

	assert_non_null(table);
	return mount_table_at(table, guarded, device);
}

static void let_go(struct pollfd *p)
{
	assert_int_equal(poll(p, 1, patience_ms()), 1);
	close(p->fd);
}

/* The end of the daemon, which has its mount detached, is not behind a path that is waited for. */
static void the_end_of_the_daemon(void **state)
{
	struct jail_fixture_result waiting, queued;
	struct pollfd p = {.events = POLLIN}, connection = {.events = POLLIN};

	(void)state;
	if (!jail_has_private_ids())
		skip();
	connection.fd = guard_a_mount(patience_ms());
	assert_true(mount_silent());
	p.fd = pidfd_open(spawner_pid(sp), 0);
	ask(&waiting, below, JAIL_RW, JAIL_OWNED);
	ask(&queued, below, JAIL_RW, JAIL_OWNED);
	while (!silent.asked)
		on_request(NULL, 0, 0);
	spawner_unmount(sp);
	assert_true(is_mounted());
	say_goodbye();
	while (is_mounted()) {
		uv_run(&loop, UV_RUN_NOWAIT);
		/* It is given up, a moment before or after; its time was not waited for. */
		if (waiting.over)
			assert_int_equal(waiting.failed, -ECANCELED);
		usleep(10000);
	}
	/* Who hangs has no copy of it. */
	let_go(&connection);
	unmount_silent();
	close(silent.fd);
	let_go(&p);
	spawner_fixture_await(&waiting.over);
	spawner_fixture_await(&queued.over);
	spawner_fixture_teardown(state);
	close(guarded_fd);
	assert_int_equal(rmdir(guarded), 0);
}

/* The daemon did not wait, and what is mounted there now is somebody else's. */
static void late_unmount(void **state)
{
	struct pollfd p = {.events = POLLIN};

	(void)state;
	close(guard_a_mount(0));
	p.fd = pidfd_open(spawner_pid(sp), 0);
	kill(spawner_pid(sp), SIGSTOP);
	spawner_unmount(sp);
	spawner_fixture_teardown(state);
	close(guarded_fd);
	assert_int_equal(umount2(guarded, 0), 0);
	assert_int_equal(mount("other", guarded, "tmpfs", 0, NULL), 0);
	pidfd_send_signal(p.fd, SIGCONT, NULL, 0);
	let_go(&p);
	assert_true(is_mounted());
	assert_int_equal(umount2(guarded, 0), 0);
	assert_int_equal(rmdir(guarded), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(its_root, setup, teardown),
		cmocka_unit_test_setup_teardown(path_below, setup, teardown),
		cmocka_unit_test_setup_teardown(stamped, setup, teardown),
		cmocka_unit_test_setup_teardown(once_more, setup, teardown),
		cmocka_unit_test_setup_teardown(owned, setup, teardown),
		cmocka_unit_test_setup_teardown(owned_and_found, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_before, setup, teardown),
		cmocka_unit_test(others_meanwhile),
		cmocka_unit_test(the_end_of_the_daemon),
		cmocka_unit_test(late_unmount),
	};

	if (!mount_silent()) {
		puts("no file system can be mounted here");
		return 77;
	}
	unmount_silent();
	close(silent.fd);
	if (!jail_fixture_possible())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
