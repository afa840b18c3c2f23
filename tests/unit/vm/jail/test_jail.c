/* SPDX-License-Identifier: Apache-2.0 */
/* The jail: what cannot be done inside, each beside a control without it; that it fails closed. */
/* modules: tests/unit/fixture/jail_fixture.c tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/unit/fixture/jail_fixture.h"
#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/jail/cell.h"
#include "vm/spawn/child.h"
#include "vm/task/overlay_diff.h"
#include "vm/base/util.h"

/* Whoever has taken over the daemon chooses the descriptors: none of them may lead out of the jail. */
static void no_way_out(void **state)
{
	const struct {
		const char *path;
		int flags;
	} bad[] = {
		{"/", O_RDONLY | O_DIRECTORY},
		{"/", O_PATH | O_DIRECTORY},
		{"/etc/passwd", O_PATH},
		{"/etc/passwd", O_RDONLY}, /* by /proc/self/fd it can be opened for writing */
	};
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;
	int p[2];

	(void)state;
	if (!jail_fixture_works())
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const int fd = open(bad[i].path, bad[i].flags | O_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		close(p[1]);
		jail_fixture_start(&r, &spec, "/bin/sh", "true", fd);
		close(fd);
		jail_fixture_finish(&r, p[0]);
		assert_int_equal(r.failed, -EPERM);
		assert_string_equal(r.step, "the spawner does not allow it");
	}
	jail_fixture_run(&r, &spec, "echo a pipe can be given");
	assert_string_equal(r.out, "a pipe can be given\n");
}

/* A device that the host does not have is missed by who opens it, and then known to be missing. */
static void no_device(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	if (!jail_fixture_works())
		skip();
	assert_int_equal(spec.mounts[7].kind, JAIL_DEV);
	spec.mounts[7].source = "of-no-host";
	jail_fixture_run(&r, &spec, "test -c /dev/null && test -d /dev/pts && ls /dev/of-no-host");
	assert_int_equal(r.failed, 0);
	assert_non_null(strstr(r.out, "No such file"));
}

/* Asks for what looks through changes, with @fd for their directory. */
static void ask_for_changes(struct jail_fixture_result *r, int fd)
{
	static const char *const argv[] = {OVERLAY_LIST, NULL}, *const envp[] = {NULL};
	const struct jail_spec spec = jail_fixture_usual();
	const struct free_job job = {.argv = argv,
				     .envp = envp,
				     .target = {{0, OVERLAY_UPPER_FD}},
				     .ntargets = 1,
				     .flags = SPAWN_TREE,
				     .jail = &spec};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec request_spec = {request, (size_t)n, &fd, 1};

	assert_true(fd >= 0);
	jail_fixture_ask(r, &request_spec);
	while (!r->over)
		uv_run(&loop, UV_RUN_ONCE);
}

/* What is copied into a working directory has to be what a sandbox has changed, and no directory of the host's. */
static void only_changes(void **state)
{
	const int fds[] = {open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC),
			   open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC),
			   open("/etc/passwd", O_RDONLY | O_CLOEXEC)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct jail_fixture_result r;

		ask_for_changes(&r, fds[i]);
		assert_int_equal(r.failed, -EPERM);
		close(fds[i]);
	}
}

/* One that this spawner gives to jails, or our own, where they have none. */
static uint32_t jail_id(void)
{
	uint32_t id = 0x70000000;

	while (jail_has_private_ids() && !jail_has_id(id))
		id += 2;
	return jail_has_private_ids() ? id : geteuid();
}

/* A directory in the host's memory is not a sandbox's, whoever it belongs to. */
static void not_host_memory(void **state)
{
	char dir[] = "/dev/shm/xsbx-test.XXXXXX";
	struct jail_fixture_result r;
	struct statfs fs;
	int fd;

	(void)state;
	if (statfs("/dev/shm", &fs) < 0 || fs.f_type != TMPFS_MAGIC || !mkdtemp(dir))
		skip();
	assert_int_equal(chown(dir, jail_id(), (gid_t)-1), 0);
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	rmdir(dir); /* it is still there for who has it open */
	ask_for_changes(&r, fd);
	close(fd);
	assert_int_equal(r.failed, -EPERM);
}

/* The control: one of a jail's, which was kept. */
static void kept_memory(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r, changes;
	int p[2];

	(void)state;
	assert_int_equal(spec.mounts[9].kind, JAIL_TMPFS);
	spec.mounts[9].source = "mode=755,size=1m,nr_inodes=32,uid=1000";
	spec.keep = "/tmp";
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	jail_fixture_start(&r, &spec, "/bin/sh", "sleep 1000", p[1]);
	close(p[1]);
	while (!r.started && !r.over)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(r.failed, 0);
	ask_for_changes(&changes, r.child.kept);
	child_kill(&r.child);
	jail_fixture_finish(&r, p[0]);
	assert_int_equal(changes.failed, 0);
}

static void works(void **state)
{
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	jail_fixture_run(
		&r, &spec,
		"set -e; echo hello | cat; echo x >/tmp/x; cat /tmp/x; mv /tmp/x /tmp/y; echo $$; "
		"hostname; id -u; test -c /dev/null; test -d /empty/dir; head -1 /etc/passwd; "
		"head -c4 /dev/urandom >/dev/null; ls /proc/self/ns >/dev/null; exit 3");
	assert_string_equal(r.out, "hello\nx\n1\ncell\n1000\nroot:x:0:0::/:/bin/sh\n");
	assert_int_equal(r.failed, 0);
	assert_true(WIFEXITED(r.status));
	assert_int_equal(WEXITSTATUS(r.status), 3);
}

/* A file of the host that is shown read-only, and changes for this jail alone. */
static void copies(void **state)
{
	static const struct jail_mount more[] = {
		{JAIL_COPY, 0, "/tmp/copy", "/usr/lib/os-release"},
		{JAIL_COPY, 0, "/tmp/none", "/usr/lib/there-is-none"},
		{JAIL_COPY, 0, "/tmp/dir", "/usr/lib"},
	};
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		spec.mounts[spec.nmounts++] = more[i];
	jail_fixture_run(&r, &spec,
			 "ls /tmp; cmp /tmp/copy /usr/lib/os-release && test -s /tmp/copy || exit; "
			 "(echo x >>/usr/lib/os-release) 2>/dev/null || echo refused; "
			 "echo new >/tmp/copy; cat /usr/lib/os-release");
	assert_string_equal(r.out, "copy\nrefused\nnew\n");
	jail_fixture_run(&r, NULL, "grep -c ^NAME= /usr/lib/os-release");
	assert_string_equal(r.out, "1\n");
}

/* What a shell can show, outside and inside. */
static void attempts(void **state)
{
	static const struct {
		const char *what, *script; /* succeeds where there is no jail */
	} tries[] = {
		{"read the host's accounts", "test -e /etc/hostname"},
		{"see the host's directories", "ls /var /home /root >/dev/null"},
		{"see other processes", "test -d /proc/$PPID"},
		{"write into the root", "d=$(mktemp -d /tmp/jail.XXXXXX) && rmdir $d && "
					"mkdir /jailtest.$$ && rmdir /jailtest.$$"},
		{"write into /usr", "mkdir /usr/jailtest.$$ && rmdir /usr/jailtest.$$"},
		{"raise a limit", "test \"$(ulimit -Hn)\" -gt 256"},
		{"have capabilities", "! grep -q 'CapBnd:.0*$' /proc/self/status"},
		{"see the interfaces of the host",
		 "test \"$(tail -n +3 /proc/net/dev | wc -l)\" -gt 1"},
		{"see the kernel's symbols", "test -s /proc/kallsyms"},
		{"see partitions through /sys", "test -d /sys/class"},
		{"mount", "unshare -m true"},
		{"make a user namespace", "unshare -U true"},
		{"keep a device",
		 "test -e /dev/mem -o -e /dev/fuse -o -e /dev/kmsg -o -e /dev/ptmx "
		 "-a ! -L /dev/ptmx"},
	};
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		jail_fixture_run(&r, NULL, tries[i].script);
		if (r.status != 0) {
			print_message("not possible without a jail either: %s: %s\n", tries[i].what,
				      r.out);
			continue;
		}
		jail_fixture_run(&r, &spec, tries[i].script);
		if (r.failed || r.status == 0)
			fail_msg("possible in a jail: %s (%s)", tries[i].what, r.step);
	}
}

#define TEXT(n)	    #n
#define NUMBER(n)   TEXT(n)
#define KEYCTL	    NUMBER(SYS_keyctl)
#define USERFAULTFD NUMBER(SYS_userfaultfd)

/* System calls, by Python; the control shows that the probe works. */
static void system_calls(void **state)
{
	static const char probe[] =
		"import ctypes, errno, sys\n"
		"c = ctypes.CDLL(None, use_errno=True)\n"
		"KEYCTL, USERFAULTFD = " KEYCTL ", " USERFAULTFD "\n"
		"def t(name, f, *a):\n"
		"    ctypes.set_errno(0)\n"
		"    r = f(*a)\n"
		"    print(name, errno.errorcode.get(ctypes.get_errno(), 0) if r < 0 else 'ok')\n"
		"t('ptrace', c.ptrace, 0, 0, 0, 0)\n"
		"t('unshare', c.unshare, 0x40000000)\n"
		"t('keyctl', c.syscall, KEYCTL, 0, -3, 0)\n"
		"t('io_uring', c.syscall, 425, 0, 0)\n"
		"t('userfaultfd', c.syscall, USERFAULTFD, 0)\n"
		"t('fsopen', c.syscall, 430, b'tmpfs', 0)\n"
		"t('clone3', c.syscall, 435, 0, 0)\n"
		"t('unknown', c.syscall, 10000)\n"
		"t('packet', c.socket, 17, 3, 0)\n"
		"t('vsock', c.socket, 40, 1, 0)\n"
		"t('raw', c.socket, 2, 3, 1)\n"
		"t('stream', c.socket, 2, 1, 0)\n"
		"t('route', c.socket, 16, 3, 0)\n"
		"t('netfilter', c.socket, 16, 3, 12)\n"
		"t('personality', c.personality, 0x0400000)\n"
		"t('bind-remount', c.mount, 0, b'/', 0, 0x1020, 0)\n";
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	if (access("/usr/bin/python3", X_OK) < 0 || geteuid() != 0)
		skip();
	jail_fixture_run_with(&r, NULL, "/usr/bin/python3", probe);
	assert_non_null(strstr(r.out, "ptrace ok\n"));
	assert_non_null(strstr(r.out, "unshare ok\n"));
	assert_non_null(strstr(r.out, "packet ok\n"));
	assert_non_null(strstr(r.out, "raw ok\n"));
	assert_non_null(strstr(r.out, "netfilter ok\n"));
	assert_non_null(strstr(r.out, "personality ok\n"));
	jail_fixture_run_with(&r, &spec, "/usr/bin/python3", probe);
	assert_string_equal(r.out, "ptrace EPERM\nunshare EPERM\nkeyctl EPERM\nio_uring EPERM\n"
				   "userfaultfd EPERM\nfsopen ENOSYS\nclone3 ENOSYS\n"
				   "unknown ENOSYS\npacket EAFNOSUPPORT\nvsock EAFNOSUPPORT\n"
				   "raw EPERM\nstream ok\nroute ok\nnetfilter ENOSYS\n"
				   "personality ENOSYS\nbind-remount EPERM\n");
}

static void quotas(void **state)
{
	const struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	jail_fixture_run(&r, &spec,
			 "head -c 900000 /dev/zero >/tmp/a && echo fits; "
			 "head -c 900000 /dev/zero >/tmp/b || echo full");
	assert_non_null(strstr(r.out, "fits\n"));
	assert_non_null(strstr(r.out, "full\n"));
	jail_fixture_run(&r, &spec,
			 "for i in 1 2 3 4 5 6 7 8; do : >/tmp/$i; done; echo few; "
			 "for i in $(seq 64); do touch /tmp/f$i || { echo many; break; }; done");
	assert_non_null(strstr(r.out, "few\n"));
	assert_non_null(strstr(r.out, "many\n"));
}

/* The kernel's own first process inside dies with the spawner's order, and all others with it. */
static void all_die(void **state)
{
	const struct jail_spec spec = jail_fixture_usual();
	struct pollfd p;
	struct jail_fixture_result r;
	int pipes[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	jail_fixture_start(&r, &spec, "/bin/sh",
			   "for i in 1 2 3; do setsid sleep 1000 & done; echo up; wait", pipes[1]);
	close(pipes[1]);
	while (!r.started && !r.over)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	child_kill(&r.child);
	while (!r.over)
		uv_run(&loop, UV_RUN_ONCE);
	/* Only when the last process that holds it is gone does the pipe end. */
	for (;;) {
		p = (struct pollfd){.fd = pipes[0], .events = POLLIN};
		assert_int_equal(poll(&p, 1, patience_ms()), 1);
		if (read(pipes[0], &byte, 1) == 0)
			break;
	}
	close(pipes[0]);
}

static void fails_closed(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	spec.mounts[0].source = "/nonexistent/place";
	jail_fixture_run(&r, &spec, "true");
	assert_int_equal(r.failed, -ENOENT);
	assert_non_null(strstr(r.step, "opening /nonexistent/place"));
	spec = jail_fixture_usual();
	spec.mounts[9].source = "mode=1777,size=1m,nonsense=1";
	jail_fixture_run(&r, &spec, "true");
	assert_int_equal(r.failed, -EINVAL);
	assert_non_null(strstr(r.step, "mounting /tmp"));
	spec = jail_fixture_usual();
	spec.host_name =
		"a-name-that-is-much-longer-than-sixty-four-characters-which-is-all-there-is";
	jail_fixture_run(&r, &spec, "true");
	assert_int_equal(r.failed, -EINVAL);
	assert_non_null(strstr(r.step, "host name"));
	spec = jail_fixture_usual();
	jail_fixture_run_with(&r, &spec, "/nonexistent", "");
	assert_int_equal(r.failed, -ENOENT);
}

/* A device of the host that only root may open, or a group. */
static const char *closed_device(void)
{
	static const char *const names[] = {"kvm", "loop-control", "fuse", "hwrng", "snapshot"};
	char path[64];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/dev/%s", names[i]);
		if (stat(path, &st) == 0 && S_ISCHR(st.st_mode) && !(st.st_mode & 07))
			return names[i];
	}
	return NULL;
}

/* A jail may open the one device that it was given, whose ever it is on the host, and no other node
 * came with it. */
static void device(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	const char *name = closed_device();
	char script[256];
	struct jail_fixture_result r;

	(void)state;
	if (!name || !jail_has_private_ids()) {
		print_message("no device here that can be given\n");
		skip();
	}
	spec.mounts[7].source = name;
	snprintf(script, sizeof(script),
		 "exec 3<>/dev/%s && echo open; stat -c '%%a %%u' /dev/%s; ls /dev | tr '\\n' ' '",
		 name, name);
	jail_fixture_run(&r, &spec, script);
	assert_int_equal(r.failed, 0);
	assert_int_equal(strncmp(r.out, "open\n600 1000\n", 14), 0);
	assert_null(strstr(r.out, "given"));
	assert_null(strstr(r.out, "node"));
	/* Without it, there is none. */
	spec.mounts[7].source = NULL;
	jail_fixture_run(&r, &spec, script);
	assert_null(strstr(r.out, "open\n"));
}

static void report_is_true(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	char words[128];
	struct jail_fixture_result r;
	int pipes[2];

	(void)state;
	spec.memory = 64 << 20;
	spec.pids = 20;
	spec.cpu_percent = 50;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	jail_fixture_start(&r, &spec, "/bin/sh", "grep Cap /proc/self/status; sleep 1000",
			   pipes[1]);
	close(pipes[1]);
	while (!r.started && !r.over)
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(r.over);
	for (enum jail_layer l = 0; l < JAIL_NLAYERS; l++) {
		jail_finding_str(&r.child.report, l, words, sizeof(words));
		print_message("%s: %s\n", jail_layer_str(l), words);
		if (l <= JAIL_L_NET || l == JAIL_L_NNP || l == JAIL_L_SECCOMP || l == JAIL_L_CAPS)
			assert_int_equal(r.child.report.layer[l].state, JAIL_HOLDS);
		assert_int_not_equal(r.child.report.layer[l].state, JAIL_UNASKED);
	}
	assert_int_equal(r.child.report.layer[JAIL_L_CAPS].value, 0);
	child_kill(&r.child);
	jail_fixture_finish(&r, pipes[0]);
}

/* The limits of control groups, where there are any. */
static void group_limits(void **state)
{
	static const char bomb[] = "x = []\nwhile True: x.append(bytearray(1 << 20))";
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	spec.memory = 64 << 20;
	spec.pids = 12;
	jail_fixture_run(&r, &spec, "sleep 1");
	if (r.child.report.layer[JAIL_L_PIDS].state == JAIL_HOLDS) {
		jail_fixture_run(
			&r, &spec,
			"for i in $(seq 9); do sleep 5 & done; echo some; sleep 5 & sleep 5 & "
			"sleep 5 & sleep 5 & sleep 5 & sleep 5 & echo all");
		assert_non_null(strstr(r.out, "some\n"));
		assert_null(strstr(r.out, "all\n"));
	} else {
		print_message("no control group for processes here\n");
	}
	if (r.child.report.layer[JAIL_L_MEMORY].state == JAIL_HOLDS &&
	    access("/usr/bin/python3", X_OK) == 0) {
		jail_fixture_run_with(&r, &spec, "/usr/bin/python3", bomb);
		assert_true(WIFSIGNALED(r.status));
		assert_int_equal(WTERMSIG(r.status), SIGKILL);
	} else {
		print_message("no control group for memory here, or no Python\n");
	}
}

/* QEMU's and the helper's filters are subsets. */
static void other_uses(void **state)
{
	struct jail_spec spec = jail_fixture_usual();
	struct jail_fixture_result r;

	(void)state;
	spec.use = JAIL_QEMU;
	jail_fixture_run(&r, &spec, "echo alone; (echo child) || echo no; /bin/true || echo none");
	assert_non_null(strstr(r.out, "alone\n"));
	assert_null(strstr(r.out, "child\n"));
	spec.use = JAIL_NET;
	jail_fixture_run(&r, &spec, "echo alone; (echo child) || echo no");
	assert_non_null(strstr(r.out, "alone\n"));
	assert_null(strstr(r.out, "child\n"));
}

/* Many are built at the same time, by turns of two kinds: each is looked at as what it is to be, even if it ends at once,
 * or is ended before it was there. */
static void many_at_once(void **state)
{
	static struct jail_fixture_result r[48];
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
		struct jail_spec spec = jail_fixture_usual();
		char script[32];

		snprintf(script, sizeof(script), i % 2 && i % 8 != 3 ? "exit %u" : "sleep 100%u",
			 i);
		spec.keep_caps = i % 2 ? 0 : 1ull << CAP_KILL;
		jail_fixture_start(&r[i], &spec, "/bin/sh", script, null);
		if (i % 8 == 3)
			child_kill(&r[i].child);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
		const struct jail_finding *caps = &r[i].child.report.layer[JAIL_L_CAPS];

		while (!r[i].started && !r[i].over)
			uv_run(&loop, UV_RUN_ONCE);
		if (i % 2 == 0) {
			assert_int_equal(r[i].failed, 0);
			assert_int_equal(caps->state, JAIL_HOLDS);
			assert_int_equal(caps->value, 1ull << CAP_KILL);
			child_kill(&r[i].child);
		}
		spawner_fixture_await(&r[i].over);
		if (i % 8 == 3)
			assert_true(r[i].failed || WIFSIGNALED(r[i].status));
		else if (i % 2)
			assert_int_equal(WEXITSTATUS(r[i].status), i);
	}
	spawner_fixture_await_childless();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(works, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(no_way_out, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(only_changes, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(not_host_memory, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(kept_memory, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(no_device, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(copies, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(attempts, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(system_calls, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(quotas, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(all_die, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(fails_closed, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(device, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(report_is_true, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(group_limits, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(other_uses, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(many_at_once, spawner_fixture_setup,
						spawner_fixture_teardown),
	};

	if (!jail_fixture_possible())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
