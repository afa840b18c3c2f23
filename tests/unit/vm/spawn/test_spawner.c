/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: what its children get, how they are reaped, and that nothing outlives the daemon. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/unit/fixture/free_rules.h"
#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/spawn/program.h"
#include "vm/host/kvm.h"
#include "vm/spawn/child.h"
#include "vm/spawn/server.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

#define RUN_MS 60000 /* for what takes milliseconds */

static bool died;

static void on_died(void *data)
{
	*(bool *)data = true;
}

static int setup(void **state)
{
	died = false;
	spawner_fixture_setup(state);
	spawner_watch(sp, on_died, &died);
	return 0;
}

static unsigned ndone;

static void on_done(struct program *c)
{
	(void)c;
	ndone++;
}

/* Runs a shell script to its end. */
static void run(struct program *c, const char *script, uint32_t flags, unsigned ms)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	memset(c, 0, sizeof(*c));
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(c, argv, flags, ms, on_done), 0);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
}

static void output_and_status(void **state)
{
	struct program c;

	(void)state;
	run(&c, "echo hello; echo lost >&2; exit 3", 0, RUN_MS);
	assert_string_equal(c.output, "hello\n");
	assert_int_equal(c.failed, 0);
	assert_true(WIFEXITED(c.status));
	assert_int_equal(WEXITSTATUS(c.status), 3);
	run(&c, "kill -TERM $$", 0, RUN_MS);
	assert_true(WIFSIGNALED(c.status));
	assert_int_equal(WTERMSIG(c.status), SIGTERM);
}

static void more_than_is_kept(void **state)
{
	struct program c;

	(void)state;
	run(&c, "yes | head -c 300000", 0, RUN_MS);
	assert_int_equal(c.len, sizeof(c.output) - 1);
	assert_int_equal(c.status, 0);
}

static void not_there(void **state)
{
	static const char *const argv[] = {"/nonexistent/program", NULL};
	struct program c = {0};

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 1000, on_done), 0);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(c.failed, -ENOENT);
}

static void deadline(void **state)
{
	struct program c;

	(void)state;
	run(&c, "echo before; exec sleep 1000", 0, 100);
	assert_true(c.late);
	assert_true(WIFSIGNALED(c.status));
	assert_string_equal(c.output, "before\n");
}

/* A child has the descriptors it was given, no signals blocked or ignored, no way to more
 * privileges, a session of its own, and an empty environment. */
static void clean_child(void **state)
{
	struct program c;
	char *end;
	long pid;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	/* The fourth is the directory that is being listed. */
	run(&c, "exec ls /proc/self/fd", 0, RUN_MS);
	assert_string_equal(c.output, "0\n1\n2\n3\n");
	run(&c, "grep -E '^(Sig(Blk|Ign)|NoNewPrivs)' /proc/self/status | sort | tr -d '\\n\\t '",
	    0, 5000);
	assert_string_equal(c.output, "NoNewPrivs:1SigBlk:0000000000000000SigIgn:0000000000000000");
	run(&c, "cut -d' ' -f1,6 /proc/$$/stat; :", 0, RUN_MS);
	pid = strtol(c.output, &end, 10);
	assert_int_equal(pid, strtol(end, NULL, 10)); /* the number of its session */
	run(&c, "tr '\\0' '\\n' </proc/$$/environ", 0, RUN_MS);
	assert_string_equal(c.output, "");
	run(&c, "cat /proc/self/oom_score_adj", SPAWN_OOM_FIRST, RUN_MS);
	assert_string_equal(c.output, "500\n");
	signal(SIGPIPE, SIG_DFL);
}

static void probes_kvm(void **state)
{
	struct kvm_verdict v;
	struct program c;

	(void)state;
	run(&c, "", SPAWN_KVM_PROBE, RUN_MS);
	assert_int_equal(c.len, sizeof(v));
	memcpy(&v, c.output, sizeof(v));
	assert_non_null(strstr(v.why, "KVM"));
}

static void many(void **state)
{
	static const char *const argv[] = {"/bin/true", NULL};
	static struct program c[200];

	(void)state;
	memset(c, 0, sizeof(c));
	ndone = 0;
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(spawner_fixture_kept(&c[i], argv, 0, 30000, on_done), 0);
	while (ndone < 200)
		uv_run(&loop, UV_RUN_ONCE);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(c[i].failed, 0);
		assert_int_equal(c[i].status, 0);
	}
}

/* A child that is killed before it was there. */
static void killed_early(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL};
	struct program c = {0};

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 30000, on_done), 0);
	child_kill(&c.child);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(WIFSIGNALED(c.status));
}

static int why_failed;

static void on_copier_failed(struct child *c, int err, const char *step)
{
	(void)c;
	(void)step;
	why_failed = err;
}

static void on_copier_exited(struct child *c, int status)
{
	(void)c;
	(void)status;
	why_failed = 1;
}

/* Memory is copied of machines that this spawner has started, and of nothing else. */
static void copies_machines_only(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL},
				 *const copy[] = {"copy", NULL}, *const none[] = {NULL};
	struct program c = {0};
	char request[256];

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 30000, on_done), 0);
	while (c.child.state != CHILD_RUNNING)
		uv_run(&loop, UV_RUN_ONCE);
	for (uint32_t id = 0; id <= c.child.id; id++) {
		const struct free_job job = {
			.argv = copy, .envp = none, .flags = SPAWN_RAM, .machine = id};
		struct child copier = {.failed = on_copier_failed, .exited = on_copier_exited};
		struct spawn_spec spec = {request, 0, NULL, 0};
		const ssize_t n = free_pack(&job, request, sizeof(request));

		assert_true(n > 0);
		spec.size = (size_t)n;
		why_failed = 0;
		assert_int_equal(child_start(sp, &spec, &copier), 0);
		while (!why_failed)
			uv_run(&loop, UV_RUN_ONCE);
		assert_int_equal(why_failed, -ESRCH);
	}
	child_kill(&c.child);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
}

/* Whether it has gone, at once or after a while. */
static bool gone_within(pid_t pid, int ms)
{
	_cleanup_close_ int fd = pidfd_open(pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd < 0 || poll(&p, 1, ms) > 0;
}

/* What a child leaves behind dies with it. */
static void orphans(void **state)
{
	struct program c;

	(void)state;
	run(&c, "sleep 1000 >/dev/null & echo $!", 0, RUN_MS);
	assert_int_equal(c.status, 0);
	assert_true(gone_within((pid_t)strtol(c.output, NULL, 10), patience_ms()));
}

static void big_request(void **state)
{
	static char text[SPAWN_MESSAGE_MAX];
	const char *const argv[] = {"/bin/echo", text, NULL};
	struct program c = {0};

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 1000, on_done), -E2BIG);
}

/* Without its spawner the daemon learns it, and nothing it had is left. */
static void spawner_dies(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL};
	struct program c = {0}, late = {0};
	pid_t child;

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 30000, on_done), 0);
	while (c.child.state != CHILD_RUNNING)
		uv_run(&loop, UV_RUN_ONCE);
	child = c.child.pid;
	kill(spawner_pid(sp), SIGKILL);
	while (!died || !ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(WIFSIGNALED(c.status));
	assert_true(gone_within(child, patience_ms()));
	assert_int_equal(spawner_fixture_kept(&late, argv, 0, 1000, on_done), -EPIPE);
}

/* The signals of a terminal and of `pkill` are not for the spawner. */
static void ignores_signals(void **state)
{
	struct program c;

	(void)state;
	kill(spawner_pid(sp), SIGTERM);
	kill(spawner_pid(sp), SIGINT);
	kill(spawner_pid(sp), SIGHUP);
	run(&c, "echo alive", 0, RUN_MS);
	assert_string_equal(c.output, "alive\n");
	assert_int_not_equal(getsid(spawner_pid(sp)), getsid(0));
}

static void only_child(const char *what)
{
	struct program c;
	char script[128];

	snprintf(script, sizeof(script),
		 "read -r all < /proc/$PPID/task/$PPID/children; test \"$all\" = \"%d $$\"",
		 (int)spawner_fixture_daemon);
	for (int i = 0; i < 500; i++) {
		run(&c, script, 0, RUN_MS);
		if (c.status == 0)
			return;
		usleep(10000);
	}
	fail_msg("%s", what);
}

/* News whose descriptors can't be had are about one process: that one is ended, and the rest goes on. */
static void no_descriptors(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL};
	struct program c = {0}, after;
	struct rlimit before, few;
	int *filler, n = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){MIN(before.rlim_cur, (rlim_t)200), before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	filler = calloc(few.rlim_cur, sizeof(*filler));
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 60000, on_done), 0);
	while ((filler[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	assert_int_equal(errno, EMFILE);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	while (n)
		close(filler[--n]);
	free(filler);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(c.failed, -EMFILE);
	assert_false(died);
	run(&after, "echo fine", 0, 5000);
	assert_string_equal(after.output, "fine\n");
	only_child("what could not be held was not ended");
}

/* ---- the death of the daemon ---- */

static void on_started(struct child *c)
{
	(void)!write(*(int *)c->data, &c->pid, sizeof(c->pid));
	uv_stop(&loop);
}

static void on_failed(struct child *c, int err, const char *step)
{
	(void)c;
	(void)err;
	(void)step;
	abort();
}

static void on_exited(struct child *c, int status)
{
	(void)c;
	(void)status;
}

/* A daemon: tells the numbers of its spawner and of a child, then dies without a word. */
static void be_daemon(int fd, const char *dir)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL}, *const envp[] = {NULL};
	const struct free_job job = {.argv = argv, .envp = envp};
	const struct spawner_rules rules = {.job = free_rules.job, .runtime_dir = dir};
	char request[256];
	const struct spawn_spec spec = {request, (size_t)free_pack(&job, request, sizeof(request)),
					NULL, 0};
	struct child c = {
		.started = on_started, .failed = on_failed, .exited = on_exited, .data = &fd};
	struct spawner *own;
	pid_t pid;

	if (spawner_start(&rules, &own) < 0)
		abort();
	pid = spawner_pid(own);
	(void)!write(fd, &pid, sizeof(pid));
	uv_loop_init(&loop);
	if (spawner_attach(own, &loop) < 0 || child_start(own, &spec, &c) < 0)
		abort();
	uv_run(&loop, UV_RUN_DEFAULT);
	kill(getpid(), SIGKILL);
}

static void daemon_dies(void **state)
{
	char dir[] = "/tmp/xsbx-test.XXXXXX", file[64];
	pid_t numbers[2], pid;
	int p[2];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/sub", dir);
	assert_int_equal(mkdir(file, 0700), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		be_daemon(p[1], dir);
	close(p[1]);
	assert_int_equal(read(p[0], &numbers[0], sizeof(pid_t)), sizeof(pid_t));
	assert_int_equal(read(p[0], &numbers[1], sizeof(pid_t)), sizeof(pid_t));
	close(p[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* the guard */
	assert_true(gone_within(numbers[0], patience_ms()));
	assert_true(gone_within(numbers[1], 0));
	assert_int_equal(access(dir, F_OK), -1);
	prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

static pid_t parent_of(pid_t pid)
{
	char path[64], line[256];
	int parent;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_int_equal(sscanf(strrchr(line, ')'), ") %*c %d", &parent), 1);
	return parent;
}

/* The guard has the daemon's end, whatever that is, once all is in order. */
static void guard_ends_as_daemon(void **state)
{
	static const struct {
		int exits, signum;
	} ends[] = {{0, 0}, {3, 0}, {0, SIGKILL}, {0, SIGTERM}, {0, SIGSEGV}};
	struct spawner *own;
	int status;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			const struct rlimit no_core = {0, 0};

			if (spawner_start(&free_rules, &own) < 0)
				abort();
			setrlimit(RLIMIT_CORE, &no_core);
			if (ends[i].signum) {
				(void)signal(ends[i].signum, SIG_DFL); /* cmocka has a handler */
				raise(ends[i].signum);
			}
			spawner_stop(own);
			_exit(ends[i].exits);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (ends[i].signum)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == ends[i].signum);
		else
			assert_int_equal(status, W_EXITCODE(ends[i].exits, 0));
	}
}

/* Signals to the process that was started are the daemon's. */
static void guard_forwards(void **state)
{
	static const int signums[] = {SIGTERM, SIGINT, SIGHUP};
	struct spawner *own;
	int p[2], status;
	sigset_t set;

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	for (size_t i = 0; i < ARRAY_SIZE(signums); i++) {
		char byte;
		pid_t pid = fork();

		if (pid == 0) {
			int got = 0;

			if (spawner_start(&free_rules, &own) < 0)
				abort();
			sigemptyset(&set);
			sigaddset(&set, signums[i]);
			sigprocmask(SIG_BLOCK, &set, NULL);
			(void)!write(p[1], "", 1);
			sigwait(&set, &got);
			spawner_stop(own);
			_exit(got);
		}
		assert_int_equal(read(p[0], &byte, 1), 1);
		kill(pid, signums[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), signums[i]);
	}
	close(p[0]);
	close(p[1]);
}

/* To kill the process that was started is to end the daemon and all its children. */
static void guard_dies(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL};
	struct program c = {0};
	pid_t child, spawner = spawner_pid(sp), daemon = spawner_fixture_daemon;

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 30000, on_done), 0);
	while (c.child.state != CHILD_RUNNING)
		uv_run(&loop, UV_RUN_ONCE);
	child = c.child.pid;
	kill(parent_of(spawner), SIGKILL);
	while (!died || !ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(gone_within(child, patience_ms()));
	assert_true(gone_within(daemon, patience_ms()));
	assert_true(gone_within(spawner, patience_ms()));
}

/* A daemon whose spawner was killed is waited for: its end is the guard's. */
static void spawner_dies_first(void **state)
{
	char dir[] = "/tmp/xsbx-test.XXXXXX";
	const struct spawner_rules rules = {.job = free_rules.job, .runtime_dir = dir};
	struct spawner *own;
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	pid = fork();
	if (pid == 0) {
		if (spawner_start(&rules, &own) < 0)
			abort();
		kill(spawner_pid(own), SIGKILL);
		usleep(100000);
		_exit(access(dir, F_OK) == 0 ? 5 : 6);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, W_EXITCODE(5, 0));
	assert_int_equal(access(dir, F_OK), -1);
}

/* A daemon that closes its end and goes on is nobody's any more. */
static void daemon_hides(void **state)
{
	struct spawner_ends ends;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		if (spawner_fork(&free_rules, &ends) < 0)
			abort();
		close(ends.sock);
		pause();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- the daemon's runtime directory ---- */

/* Its lock, with the process that has it. */
static int lock_of(const char *dir, pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	dprintf(fd, "%d\n", (int)pid);
	return fd;
}

/* A spawner comes to its end late: whose lock is there? Return: whether the directory still is. */
static bool left_after(char *dir, bool stop, bool taken, bool ours)
{
	const struct spawner_rules rules = {.job = free_rules.job, .runtime_dir = dir};
	struct spawner *own;
	int lock = -1;
	pid_t pid, guard;

	assert_non_null(mkdtemp(dir));
	guard = spawner_fixture_fork(&rules, &own);
	pid = spawner_pid(own);
	if (stop)
		kill(pid, SIGSTOP);
	if (taken)
		lock = lock_of(dir, ours ? guard : 1);
	spawner_fixture_goodbye(own);
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(guard, NULL, 0), guard);
	assert_true(gone_within(pid, patience_ms()));
	if (lock >= 0)
		close(lock);
	return access(dir, F_OK) == 0;
}

static void runtime_directories(void **state)
{
	char own[] = "/tmp/xsbx-test.XXXXXX", nobodys[] = "/tmp/xsbx-test.XXXXXX",
	     taken[] = "/tmp/xsbx-test.XXXXXX", lock[64];

	(void)state;
	assert_false(left_after(own, false, true, true));
	assert_false(left_after(nobodys, true, false, false));
	/* A successor of the daemon has mounted in the same place. */
	assert_true(left_after(taken, true, true, false));
	snprintf(lock, sizeof(lock), "%s/lock", taken);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(rmdir(taken), 0);
}

/* What the spawner says arrives here, with the name of whose process it is, and only at the level that was asked for,
 * which may change. */
static void its_log(void **state)
{
	static const struct log_label label = {.who = "python/demo", .run = 3};
	static const char *const argv[] = {"/bin/sh", "-c", "read secret", NULL};
	char said[4096];
	struct program c = {0};
	int ends[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	log_relay(ends[1]);
	run(&c, "exit 0", 0, 5000);
	log_open(LOG_LEVEL_DEBUG);
	run(&c, "exit 0", 0, 5000); /* the spawner's own is as it was */
	assert_int_equal(read(ends[0], said, sizeof(said)), -1);

	spawner_log_level(sp, LOG_LEVEL_DEBUG);
	memset(&c, 0, sizeof(c));
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 5000, on_done), 0);
	c.child.label = &label;
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	n = read(ends[0], said, sizeof(said) - 1);
	assert_true(n > 0);
	said[n] = '\0';
	assert_true(strncmp(said, "3python/demo#3 spawner: child forked, process ", 46) == 0);
	assert_non_null(strstr(said, "\n3python/demo#3 spawner: sh runs in process "));
	assert_non_null(strstr(said, " ended, status 1\n"));
	assert_null(strstr(said, "secret"));

	spawner_log_level(sp, LOG_LEVEL_INFO);
	run(&c, "exit 0", 0, 5000);
	assert_int_equal(read(ends[0], said, sizeof(said)), -1);
	log_open(LOG_LEVEL_INFO);
	log_relay(-1);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, spawner_fixture_teardown)
		T(output_and_status),
		T(its_log),
		T(more_than_is_kept),
		T(not_there),
		T(deadline),
		T(clean_child),
		T(probes_kvm),
		T(many),
		T(killed_early),
		T(orphans),
		T(big_request),
		T(spawner_dies),
		T(ignores_signals),
		T(no_descriptors),
		T(copies_machines_only),
		cmocka_unit_test(daemon_dies),
		cmocka_unit_test(guard_ends_as_daemon),
		cmocka_unit_test(guard_forwards),
		T(guard_dies),
		cmocka_unit_test(spawner_dies_first),
		cmocka_unit_test(daemon_hides),
		cmocka_unit_test(runtime_directories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
