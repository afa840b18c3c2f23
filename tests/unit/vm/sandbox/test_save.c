/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a real sandbox, saved, looked at, and put into others: the agent as a process of the host, and in a jail. */
/* modules: vm tests/unit/fixture/jail_fixture.c tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "tests/unit/fixture/jail_fixture.h"
#include "tests/unit/fixture/patience.h"
#include "vm/base/buf.h"
#include "vm/base/remove.h"
#include "vm/checkpoint/pack.h"
#include "vm/guest/internal.h"
#include "vm/sandbox/internal.h"
#include "vm/spawn/policy.h"
#include "vm/spawn/spawner.h"
#include "vm/policy/job.h"

/*
 * With MACHINES in the environment, in machines instead, of the images in the user's cache; with MEASURE, it is said how long it took.
 */

static char build[PATH_MAX], agent[PATH_MAX + 32], top[64];
static uv_loop_t here; /* the fixtures have a loop of their own */
static struct vm *machinery;
static struct spawner *spawner;
static struct policy *policy;
static enum vm_backend kind;
static bool with_pool;

/* ---- a backend: the agent as a child ---- */

struct backend {
	uv_process_t process;
	const struct backend_events *events;
	void *data;
	char root[96];
	bool destroyed;
};

static void on_process_closed(uv_handle_t *handle)
{
	struct backend *b = handle->data;

	remove_tree(b->root);
	b->events->destroyed(b->data);
	free(b);
}

static void on_agent_exit(uv_process_t *process, int64_t status, int sig)
{
	struct backend *b = process->data;
	struct problem p;

	if (b->destroyed) {
		uv_close((uv_handle_t *)process, on_process_closed);
		return;
	}
	problem_set(&p, PROBLEM_AGENT_EXITED, "", "%d %d", (int)status, sig);
	b->events->down(b->data, &p);
}

static int own_start(struct backends *all, const struct backend_spec *spec,
		     const struct backend_events *events, void *data, struct backend **ret_backend,
		     int *ret_stream, struct problem *ret_problem)
{
	static unsigned n;
	struct backend *b = calloc(1, sizeof(*b));
	char drivers[PATH_MAX + 32];
	int fds[2];
	uv_stdio_container_t stdio[4] = {{.flags = UV_IGNORE},
					 {.flags = UV_INHERIT_FD, .data.fd = 2},
					 {.flags = UV_INHERIT_FD, .data.fd = 2},
					 {.flags = UV_INHERIT_FD}};
	char *argv[] = {agent,	 (char *)"--local", (char *)"3", (char *)"--root",
			b->root, (char *)"--lib",   drivers,	 NULL};
	const uv_process_options_t options = {.file = agent,
					      .args = argv,
					      .stdio = stdio,
					      .stdio_count = 4,
					      .exit_cb = on_agent_exit};

	(void)spec;
	(void)ret_problem;
	snprintf(drivers, sizeof(drivers), "%s/drivers", build);
	snprintf(b->root, sizeof(b->root), "%s/%u", top, n++);
	assert_int_equal(mkdir(b->root, 0755), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	stdio[3].data.fd = fds[1];
	b->events = events;
	b->data = data;
	b->process.data = b;
	assert_int_equal(uv_spawn(all->ctx->loop, &b->process, &options), 0);
	close(fds[1]);
	*ret_backend = b;
	*ret_stream = fds[0];
	return 1;
}

static void own_destroy(struct backend *b)
{
	b->destroyed = true;
	if (uv_process_kill(&b->process, SIGKILL) < 0)
		uv_close((uv_handle_t *)&b->process, on_process_closed);
}

static void own_info(struct backend *b, struct backend_info *ret_info)
{
	*ret_info = (struct backend_info){.accel = "none", .pid = b->process.pid};
}

static const struct backend_ops own_ops = {
	.name = "child", .start = own_start, .destroy = own_destroy, .info = own_info};

/* ---- a sandbox, and what is heard of it ---- */

struct heard {
	struct sandbox *s;
	enum sandbox_state state;
	struct buf out;
	bool ended, closed, answered;
	unsigned status;
	struct saved *saved;
	struct problem problem;
	bool failed;
};

static void on_state(void *data, enum sandbox_state state)
{
	((struct heard *)data)->state = state;
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	(void)run;
	(void)stream;
	buf_append(&((struct heard *)data)->out, bytes, len);
}

static void on_exit_of_run(void *data, uint32_t run, const struct vm_result *result)
{
	struct heard *h = data;

	(void)run;
	h->status = result->status;
	h->ended = true;
}

static void on_saved(void *data, struct saved *saved, const struct problem *why)
{
	struct heard *h = data;

	h->answered = true;
	h->saved = saved;
	if (why)
		h->problem = *why;
}

static void on_closed(void *data, const struct problem *problem)
{
	struct heard *h = data;

	h->closed = true;
	h->failed = problem;
	if (problem)
		h->problem = *problem;
}

static const struct sandbox_events events = {.state = on_state,
					     .output = on_output,
					     .exit = on_exit_of_run,
					     .saved = on_saved,
					     .closed = on_closed};

static void on_late(uv_timer_t *timer)
{
	(void)timer;
	fail_msg("nothing was heard of it");
}

/* Goes round until @what, or the sandbox's end. */
static void await(const struct heard *h, const bool *what)
{
	static uv_timer_t timer;

	uv_timer_init(&here, &timer);
	uv_timer_start(&timer, on_late, (uint64_t)patience_ms() * 4, 0);
	while (!*what && !(h && h->closed))
		uv_run(&here, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&here, UV_RUN_NOWAIT);
}

static void await_ready(const struct heard *h)
{
	static const bool never;

	while (h->state != SANDBOX_READY && !h->closed)
		uv_run(&here, UV_RUN_ONCE);
	if (h->closed)
		await(h, &never);
}

static void start_with(struct heard *h, struct saved *from, unsigned files_mb)
{
	const struct sandbox_spec spec = {
		.name = "saved",
		.image = "raw",
		.language = "raw",
		.backend = kind,
		.memory_mb = 512,
		.cpus = 1,
		.limits = {.files_mb = files_mb, .files_inodes = 200000, .processes = 100},
		.owner = getuid(),
		.group = getgid(),
		.from = from,
		.pool = {.target = with_pool, .low = with_pool},
	};

	*h = (struct heard){0};
	assert_int_equal(sandbox_new(machinery, &spec, &events, h, &h->s), 0);
}

static void start(struct heard *h, struct saved *from)
{
	start_with(h, from, 400);
	await_ready(h);
	if (h->closed)
		fail_msg("%s", h->problem.cause);
}

static void finish(struct heard *h)
{
	if (!h->closed)
		sandbox_close(h->s);
	await(NULL, &h->closed);
	buf_clear(&h->out);
}

/* Return: what it wrote. */
static const char *run(struct heard *h, const char *code)
{
	static uint32_t n;
	const struct sandbox_run r = {
		.id = ++n, .code = code, .code_len = strlen(code), .limit = {1u << 20, 1u << 20}};

	buf_clear(&h->out);
	h->ended = false;
	assert_int_equal(sandbox_run(h->s, &r), 0);
	await(h, &h->ended);
	if (!h->ended || h->status)
		fail_msg("%s: status %u: %s", code, h->status, buf_str(&h->out));
	return buf_str(&h->out);
}

static struct saved *save(struct heard *h)
{
	h->answered = false;
	assert_int_equal(sandbox_save(h->s, false), 0);
	assert_int_equal(sandbox_save(h->s, false), -EBUSY);
	await(h, &h->answered);
	if (!h->saved)
		fail_msg("%s", h->problem.cause);
	return h->saved;
}

/* ---- around each test ---- */

static void on_vm_closed(void *data)
{
	*(bool *)data = true;
}

static void begin_with(enum vm_backend backend, const struct backend_ops *machine)
{
	char cache[PATH_MAX];
	struct vm_config cfg = {.runtime_dir = top,
				.qemu = "qemu-system-x86_64",
				.agent = agent,
				.accel = "tcg",
				.image_builder = "none",
				.admission_s = 60,
				.boot_s = 300};
	const struct policy_view view = {0};
	struct spawner_rules rules = {.job = policy_job, .runtime_dir = top};

	snprintf(cache, sizeof(cache), "%s/cache", top);
	if (machine == &backend_qemu)
		snprintf(cache, sizeof(cache), "%s/.cache/xsbxfs", getenv("HOME"));
	cfg.cache_dir = cache;
	(void)mkdir(top, 0700);
	(void)mkdir(cache, 0700);
	kind = backend;
	if (backend == VM_PROCESS || machine == &backend_qemu) {
		const struct policy_config permitted = {.vm = &cfg, .view = &view, .nviews = 1};

		policy_prepare(cache);
		assert_int_equal(policy_new(&permitted, &policy), 0);
		cfg.policy = rules.data = policy;
		assert_int_equal(spawner_start(&rules, &spawner), 0);
	}
	uv_loop_init(&here);
	assert_int_equal(vm_new_with(machine, &here, spawner, &cfg, NULL, NULL, &machinery), 0);
}

static int begin_child(void **state)
{
	(void)state;
	begin_with(VM_MICROVM, &own_ops);
	return 0;
}

static int begin_process(void **state)
{
	(void)state;
	begin_with(VM_PROCESS, &own_ops);
	return 0;
}

static int begin_machine(void **state)
{
	(void)state;
	begin_with(VM_MICROVM, &backend_qemu);
	return 0;
}

static int end(void **state)
{
	bool gone = false;

	(void)state;
	with_pool = false;
	vm_close(machinery, on_vm_closed, &gone);
	await(NULL, &gone);
	while (uv_loop_alive(&here))
		uv_run(&here, UV_RUN_ONCE);
	assert_int_equal(uv_loop_close(&here), 0);
	if (spawner)
		spawner_stop(spawner);
	spawner = NULL;
	policy_free(policy);
	policy = NULL;
	remove_tree(top);
	return 0;
}

/* ---- tests ---- */

static const char fill[] =
	"mkdir -p d/e empty; echo hello >d/e/f; ln d/e/f hard; ln -s d/e/f link; ln -s /etc out\n"
	"head -c 3000000 /dev/urandom >large; truncate -s 1G hole; printf x | dd of=hole bs=1 "
	"seek=500M "
	"conv=notrunc 2>/dev/null\n"
	"mkfifo fifo; touch $'not\\xffutf8' \"$(printf 'n%.0s' {1..255})\"; echo secret >none; "
	"chmod 0 none\n"
	"chmod 1770 empty; touch -d @1234567890.123456789 d; chmod 711 .; mkdir locked; touch "
	"locked/in; chmod 0 locked\n";
static const char look[] =
	"stat -c '%n %F %a %h %s %Y %u %g' . * d/* d/e/*; stat -c '%n %b' hole large; cksum large "
	"d/e/f; readlink link out\n"
	"[ hard -ef d/e/f ] && echo one; stat -c %y d; chmod 600 none; cat none; chmod 0 none\n"
	"tail -c +524288001 hole | head -c 1; chmod 700 locked; ls locked; chmod 0 locked\n";

static void goes_round(void **state)
{
	struct heard first, second;
	struct sandbox_info info;
	struct saved *saved;
	struct pack_attr a;
	char *before;
	uint32_t e;

	(void)state;
	start(&first, NULL);
	sandbox_info(first.s, &info);
	assert_string_equal(info.lost, "");
	run(&first, fill);
	before = strdup(run(&first, look));
	saved = save(&first);
	/* It goes on. */
	assert_string_equal(run(&first, "echo more >more; cat d/e/f"), "hello\n");
	finish(&first);
	/* What it was can be looked at without it. */
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "more", &e), -ENOENT);
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "hole", &e), 0);
	pack_attr(saved->pack, e, &a);
	assert_int_equal(a.size, 1u << 30);
	assert_true(a.blocks <= 256);
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "link", &e), 0);
	assert_string_equal(pack_target(saved->pack, e), "d/e/f");
	assert_int_equal(pack_flaws(saved->pack).changed, 0);
	assert_int_equal(pack_flaws(saved->pack).left_out, 1);
	assert_true(saved_files_bytes(saved) < 4u << 20);
	/* More than one can begin with it. */
	for (unsigned i = 0; i < 2; i++) {
		start(&second, saved);
		sandbox_info(second.s, &info);
		assert_false(info.kept);
		assert_non_null(strstr(info.lost, "files"));
		assert_string_equal(run(&second, look), before);
		run(&second, "rm -rf d large; chmod 700 locked; rm -rf locked");
		finish(&second);
	}
	saved_unref(saved);
	free(before);
}

static void goes_round_of_an_idle_one(void **state)
{
	struct heard first, second;
	struct saved *saved;

	with_pool = true;
	start(&first, NULL);
	run(&first, "echo x >f; sleep 0.1");
	saved = save(&first);
	start(&second, saved);
	assert_string_equal(run(&second, "cat f"), "x\n");
	finish(&first);
	finish(&second);
	saved_unref(saved);
	(void)state;
}

static void is_no_run_meanwhile(void **state)
{
	const struct sandbox_run r = {.id = 900, .code = "true", .code_len = 4, .limit = {1, 1}};
	const struct sandbox_job j = {.id = SANDBOX_JOB_ID + 1, .code = {"true", 4}};
	struct heard h;

	(void)state;
	start(&h, NULL);
	run(&h, "head -c 100000000 /dev/zero | tr '\\0' x >f");
	assert_int_equal(sandbox_save(h.s, false), 0);
	assert_int_equal(sandbox_run(h.s, &r), -EBUSY);
	assert_int_equal(sandbox_job(h.s, &j), -EBUSY);
	assert_int_equal(sandbox_freeze(h.s), -EBUSY);
	await(&h, &h.answered);
	assert_non_null(h.saved);
	/* Streamed into one place: the daemon needs no more than the files. */
	assert_true(saved_files_bytes(h.saved) < 101u << 20);
	saved_unref(h.saved);
	/* A reset ends it, and nobody is told. */
	h.answered = false;
	assert_int_equal(sandbox_save(h.s, false), 0);
	while (!h.s->guest->pack.maker)
		uv_run(&here, UV_RUN_ONCE);
	assert_int_equal(sandbox_reset(h.s), 0);
	h.state = SANDBOX_STARTING;
	await_ready(&h);
	assert_false(h.answered);
	saved_unref(save(&h));
	/* So does its end. */
	h.answered = false;
	assert_int_equal(sandbox_save(h.s, false), 0);
	while (!h.s->guest->pack.maker)
		uv_run(&here, UV_RUN_ONCE);
	finish(&h);
	assert_false(h.answered);
}

static void says_what_does_not_fit(void **state)
{
	struct heard h;
	struct saved *saved;

	(void)state;
	start(&h, NULL);
	run(&h, "mkdir d; head -c 3000000 /dev/zero | tr '\\0' x >d/big");
	saved = save(&h);
	finish(&h);
	start_with(&h, saved, 2);
	await_ready(&h);
	assert_true(h.failed);
	assert_int_equal(h.problem.code, PROBLEM_NOT_RESTORED);
	assert_non_null(strstr(h.problem.cause, "d/big: No space left on device"));
	finish(&h);
	/* Nor is there anything left of it that would be in the way of the next one. */
	start(&h, saved);
	assert_string_equal(run(&h, "wc -c <d/big"), "3000000\n");
	finish(&h);
	saved_unref(saved);
}

/* What it could store can be saved, and put into as much room. */
static void counts_as_the_sandbox_does(void **state)
{
	struct heard h;
	struct saved *saved;

	(void)state;
	start_with(&h, NULL, 1);
	await_ready(&h);
	run(&h, "t=$(printf 'x%.0s' {1..120}); for i in {1..3000}; do ln -s $t $i; done; "
		"head -c 2000000 /dev/zero | tr '\\0' x >big; ls | wc -l >&2; true");
	saved = save(&h);
	finish(&h);
	start_with(&h, saved, 1);
	await_ready(&h);
	assert_string_equal(run(&h, "wc -c <big; ls | wc -l"), "1048576\n3001\n");
	finish(&h);
	saved_unref(saved);
}

/* How long the loop is kept from other sandboxes at most, in ms, as a timer sees it. */
static uv_timer_t pulse;
static uint64_t pulse_at, pulse_gap;

static void on_pulse(uv_timer_t *timer)
{
	const uint64_t now = uv_hrtime();

	(void)timer;
	pulse_gap = MAX(pulse_gap, now - pulse_at);
	pulse_at = now;
}

static void pulse_begin(void)
{
	pulse_gap = 0;
	pulse_at = uv_hrtime();
	uv_timer_init(&here, &pulse);
	uv_timer_start(&pulse, on_pulse, 1, 1);
}

static void pulse_end(const char *what)
{
	on_pulse(&pulse);
	uv_close((uv_handle_t *)&pulse, NULL);
	uv_run(&here, UV_RUN_NOWAIT);
	printf("             %s: the loop was busy for at most %.1f ms\n", what,
	       (double)pulse_gap / 1e6);
}

static double seconds(void)
{
	return (double)uv_hrtime() / 1e9;
}

static void measure(const char *what, double amount, const char *unit, double from)
{
	printf("             %s: %.0f %s/s\n", what, amount / (seconds() - from), unit);
}

/* Much data, and many files. */
static void is_fast(void **state)
{
	static const char *const code[] = {
		"head -c 100000000 /dev/urandom >f",
		"for d in {1..50}; do mkdir $d; for f in {1..1000}; do echo $f >$d/$f; done; done"};
	static const double amount[] = {95.4, 50000};
	static const char *const unit[] = {"MiB", "files"};

	(void)state;
	if (!getenv("MEASURE"))
		skip();
	for (unsigned i = 0; i < 2; i++) {
		struct heard h;
		struct saved *saved;
		double from, empty;

		start(&h, NULL);
		run(&h, code[i]);
		pulse_begin();
		from = seconds();
		saved = save(&h);
		measure("packed", amount[i], unit[i], from);
		pulse_end("packing");
		finish(&h);
		from = seconds();
		start(&h, NULL);
		empty = seconds() - from;
		finish(&h);
		from = seconds();
		pulse_begin();
		start(&h, saved);
		measure("put back", amount[i], unit[i], from + empty);
		pulse_end("putting back");
		printf("             an empty one starts in %.0f ms, the pack takes %.1f MiB\n",
		       empty * 1e3, (double)saved_files_bytes(saved) / (1 << 20));
		finish(&h);
		saved_unref(saved);
	}
}

int main(void)
{
	const struct CMUnitTest child[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_child, end),
		cmocka_unit_test_setup_teardown(is_no_run_meanwhile, begin_child, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_child, end),
	};
	const struct CMUnitTest process[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_process, end),
		cmocka_unit_test_setup_teardown(goes_round_of_an_idle_one, begin_process, end),
		cmocka_unit_test_setup_teardown(is_no_run_meanwhile, begin_process, end),
		cmocka_unit_test_setup_teardown(says_what_does_not_fit, begin_process, end),
		cmocka_unit_test_setup_teardown(counts_as_the_sandbox_does, begin_process, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_process, end),
	};
	const struct CMUnitTest machine[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_machine, end),
		cmocka_unit_test_setup_teardown(says_what_does_not_fit, begin_machine, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_machine, end),
	};
	const char *where = getenv("BUILD");
	int failed;

	signal(SIGPIPE, SIG_IGN);
	if (!realpath(where ? where : "build", build))
		return 1;
	snprintf(agent, sizeof(agent), "%s/xsbx-agent", build);
	/* A tmpfs is what sandboxes have. */
	snprintf(top, sizeof(top), "%s/test_save.%d",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	if (access(agent, X_OK) < 0) {
		printf("%s is not there: make tests\n", agent);
		return 77;
	}
	log_open(LOG_LEVEL_WARN);
	if (getenv("MACHINES"))
		return cmocka_run_group_tests(machine, NULL, NULL);
	failed = cmocka_run_group_tests(child, NULL, NULL);
	if (jail_fixture_possible())
		failed += cmocka_run_group_tests(process, NULL, NULL);
	/* At exit(3) libuv would join its threads, which another process has: the spawner was forked behind them. */
	fflush(NULL);
	_exit(failed);
}
