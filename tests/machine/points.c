/* SPDX-License-Identifier: Apache-2.0 */
/* Points of real machines: one runs, is copied and goes on, and its copies go on from there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "vm/base/arch.h"
#include "vm/base/buf.h"
#include "vm/base/problem.h"
#include "vm/base/rlimit.h"
#include "vm/base/remove.h"
#include "vm/checkpoint/point.h"
#include "vm/confine.h"
#include "vm/guest/guest.h"
#include "vm/policy/job.h"
#include "vm/sandbox/internal.h"
#include "vm/order/policy.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

/*
 * points AGENT [N]: tells what is wrong, and ends with 1; or 0. With N it also measures so many points, copies from their
 * start to the end of a run, and clones; with BUSY set, of a machine where something runs in the background.
 */

#define FAMILY 3 /* sandboxes at once */
#define MOST   200

static uv_loop_t loop;
static struct vm *vm;
static bool vm_gone;
static int wrong;

struct box {
	struct sandbox *s;
	enum sandbox_state state;
	bool closed, exited, saved, failed;
	struct buf out;
	struct vm_result result;
	struct saved *from;
	uint32_t runs;
	char name[32];
};

static void printf_like(1, 2) complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	wrong = 1;
}

static double now_ms(void)
{
	return (double)uv_hrtime() / 1e6;
}

/* ---- events ---- */

static void on_state(void *data, enum sandbox_state state)
{
	((struct box *)data)->state = state;
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	(void)run;
	(void)stream;
	buf_append(&((struct box *)data)->out, bytes, len);
}

static void on_exit_of(void *data, uint32_t run, const struct vm_result *result)
{
	struct box *b = data;

	(void)run;
	b->result = *result;
	b->exited = true;
}

static void on_saved(void *data, struct saved *saved, const struct problem *why)
{
	struct box *b = data;

	if (why)
		complain("%s: not saved: %s", b->name, why->cause);
	b->failed = why;
	b->from = saved;
	b->saved = true;
}

static void on_console(void *data, const void *bytes, size_t len)
{
	(void)data;
	if (getenv("CONSOLE"))
		fwrite(bytes, 1, len, stderr);
}

static void on_closed(void *data, const struct problem *problem)
{
	struct box *b = data;

	if (problem)
		complain("%s ended: %s", b->name, problem->cause);
	b->closed = true;
}

static const struct sandbox_events events = {
	.state = on_state,
	.console = on_console,
	.output = on_output,
	.exit = on_exit_of,
	.saved = on_saved,
	.closed = on_closed,
};

static void on_vm_event(void *data, const char *kind, const char *words)
{
	(void)data;
	fprintf(stderr, "%s: %s\n", kind, words);
}

static const struct vm_events vm_events = {.event = on_vm_event};

/* ---- steps, each to its end ---- */

static bool await(const bool *what, const struct box *b)
{
	while (!*what && !b->closed)
		uv_run(&loop, UV_RUN_ONCE);
	return *what;
}

static const struct sandbox_spec kind = {
	.image = "python",
	.language = "python",
	.backend = VM_MICROVM,
	.memory_mb = 192,
	.cpus = 1,
	.allow = "",
};

/* Also networked. */
static bool start_networked(struct box *b, const char *name, struct saved *from, bool alone,
			    const char *allow)
{
	struct sandbox_spec spec = kind;

	*b = (struct box){.state = SANDBOX_WAITING, .out.limit = 1 << 20};
	snprintf(b->name, sizeof(b->name), "%s", name);
	spec.name = b->name;
	spec.label.who = b->name;
	spec.from = from;
	spec.alone = alone;
	spec.network = allow;
	spec.allow = allow ? allow : "";
	if (sandbox_new(vm, &spec, &events, b, &b->s) < 0) {
		complain("%s was not made", name);
		return false;
	}
	while (b->state != SANDBOX_READY && !b->closed)
		uv_run(&loop, UV_RUN_ONCE);
	return !b->closed;
}

static bool start(struct box *b, const char *name, struct saved *from, bool alone)
{
	return start_networked(b, name, from, alone, NULL);
}

/* Return: what it has printed. */
static const char *run(struct box *b, const char *code)
{
	struct sandbox_run r = {
		.id = ++b->runs, .code = code, .code_len = strlen(code), .timeout_ms = 60000};

	r.limit[0] = r.limit[1] = 1 << 20;
	b->out.len = 0;
	b->exited = false;
	if (sandbox_run(b->s, &r) < 0) {
		complain("%s did not run", b->name);
		return "";
	}
	await(&b->exited, b);
	buf_append(&b->out, "", 1);
	return b->out.data;
}

static void expect(struct box *b, const char *code, const char *said)
{
	const char *out = run(b, code);

	if (strcmp(out, said) != 0)
		complain("%s: %s: \"%s\" and not \"%s\"", b->name, code, out, said);
}

/* Return: what it is at this moment. */
static struct saved *point(struct box *b)
{
	const int r = sandbox_save(b->s, true);

	b->saved = false;
	if (r < 0) {
		complain("%s: not saved: %s", b->name, strerror(-r));
		return NULL;
	}
	await(&b->saved, b);
	return b->from;
}

static void end(struct box *b)
{
	if (!b->s)
		return;
	if (!b->closed)
		sandbox_close(b->s);
	while (!b->closed)
		uv_run(&loop, UV_RUN_ONCE);
	buf_clear(&b->out);
}

/* ---- what has to hold ---- */

#define RANDOM                                                                             \
	"import random, os\nprint(random.getrandbits(64), int.from_bytes(os.urandom(8)), " \
	"open('/proc/sys/kernel/random/uuid').read().strip())"
#define BEGIN                                                                               \
	"x = 41\nopen('f', 'w').write('hello')\nimport os, random, subprocess, time\n"      \
	"p = subprocess.Popen(['sh', '-c', 'while :; do date +%s >beat; sleep 1; done'])\n" \
	"def f(): return x + 1\nrandom.random()\nos.mkdir('d'); os.chdir('d')"
#define BEGIN_QUIET "x = 41\ndef f(): return x + 1"

static double wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check_clock(struct box *b)
{
	const double before = wall_clock(), its = strtod(run(b, "print(time.time())"), NULL);

	if (its < before - 0.5 || its > wall_clock() + 0.5)
		complain("%s: its clock is wrong: %.3f, at %.3f", b->name, its, before);
}

static void check_copy(struct box *b)
{
	char code[128];

	expect(b, "print(f(), open('../f').read(), os.getcwd() == '/home/user/d')",
	       "42 hello True\n");
	snprintf(code, sizeof(code), "print(open('/proc/sys/kernel/hostname').read() == '%s\\n')",
		 b->name);
	expect(b, code, "True\n");
	check_clock(b);
	/* What runs in the background goes on there. */
	expect(b,
	       "a = open('../beat').read()\n"
	       "for i in range(200):\n"
	       "  if open('../beat').read() > a: break\n"
	       "  time.sleep(0.1)\n"
	       "print(p.poll(), i < 199)",
	       "None True\n");
	if (b->result.fresh)
		complain("%s: its interpreter is fresh", b->name);
}

/* @alone: the first one boots, instead of being cloned. */
static void check_family(bool alone)
{
	struct box boxes[FAMILY], grandchild = {.closed = true};
	char said[FAMILY][256];
	struct saved *from, *again = NULL;

	if (!start(&boxes[0], "parent", NULL, alone))
		return;
	expect(&boxes[0], BEGIN, "");
	from = point(&boxes[0]);
	if (!from) {
		end(&boxes[0]);
		return;
	}
	expect(&boxes[0], "x = 1; print(f())", "2\n");
	for (int i = 1; i < FAMILY; i++) {
		if (start(&boxes[i], i == 1 ? "one" : "two", from, false))
			snprintf(said[i], sizeof(said[i]), "%s", run(&boxes[i], RANDOM));
	}
	snprintf(said[0], sizeof(said[0]), "%s", run(&boxes[0], RANDOM));
	for (int i = 0; i < FAMILY; i++) {
		for (int j = 0; j < i; j++)
			if (strcmp(said[i], said[j]) == 0)
				complain("%s and %s are as random: %s", boxes[i].name,
					 boxes[j].name, said[i]);
	}
	for (int i = 1; i < FAMILY; i++)
		check_copy(&boxes[i]);
	end(&boxes[0]);
	/* One of a copy, with what it has changed since. */
	expect(&boxes[1], "x = 7; open('../f', 'w').write('world')", "");
	again = point(&boxes[1]);
	if (again && start(&grandchild, "grandchild", again, false))
		expect(&grandchild, "print(f(), open('../f').read(), x)", "8 world 7\n");
	expect(&boxes[1], "print(f())", "8\n");
	expect(&boxes[2], "print(f(), open('../f').read())", "42 hello\n");
	end(&grandchild);
	for (int i = 1; i < FAMILY; i++)
		end(&boxes[i]);
	saved_unref(from);
	if (again)
		saved_unref(again);
}

/* ---- on disk ---- */

struct told {
	bool over;
	int err;
};

static void on_stored(void *data, int err, const struct problem *why)
{
	struct told *t = data;

	if (why)
		complain("not stored: %s", why->cause);
	t->err = err;
	t->over = true;
}

/* Return: what was stored of a machine, and is not in memory any more; or NULL. */
static struct saved *stored(struct box *b)
{
	struct told told = {.over = false};
	double t = now_ms();
	struct saved *s;

	b->saved = false;
	if (sandbox_save(b->s, true) < 0 || !await(&b->saved, b) || !b->from) {
		complain("%s was not saved", b->name);
		return NULL;
	}
	s = b->from;
	printf("saved: %.0f ms\n", now_ms() - t);
	t = now_ms();
	vault_store(vm_vault(vm), s, on_stored, &told);
	while (!told.over)
		uv_run(&loop, UV_RUN_ONCE);
	printf("stored: %.0f ms, %" PRIu64 " bytes\n", now_ms() - t, saved_bytes(s));
	saved_unload(s);
	if (told.err == 0 && !saved_is_loaded(s))
		return s;
	complain("%s is still in memory", b->name);
	return saved_unref(s);
}

/* One is stored, and others go on from what is read again; twice, with what an earlier one has read, and without. */
static void check_disk(void)
{
	struct box parent, copy;
	struct saved *from;
	struct problem why;
	char id[SAVED_ID_MAX];
	double t;

	if (!start(&parent, "stored", NULL, false))
		return;
	expect(&parent, BEGIN_QUIET, "");
	from = stored(&parent);
	end(&parent);
	for (unsigned i = 0; from && i < 2; i++) {
		t = now_ms();
		if (start(&copy, "loaded", from, false)) {
			expect(&copy, "print(f())", "42\n");
			printf("loaded, and first answer: %.0f ms\n", now_ms() - t);
			end(&copy);
		}
		saved_unload(from);
	}
	if (!from)
		return;
	snprintf(id, sizeof(id), "%s", saved_id(from));
	saved_unref(from);
	if (vault_find(vm_vault(vm), id, &from, &why) < 0) {
		complain("not found: %s", why.cause);
		return;
	}
	if (start(&copy, "found", from, false))
		expect(&copy, "print(f())", "42\n");
	end(&copy);
	saved_unref(from);
}

/* ---- networks ---- */

static uint16_t port;

/* In a process of its own, for the daemon's must not use networks. Who connects is greeted, and never left. */
static bool listen_at_home(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	socklen_t len = sizeof(a);
	pid_t pid;

	if (bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return false;
	port = ntohs(a.sin_port);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while ((peer = accept(fd, NULL, NULL)) >= 0)
			(void)!write(peer, "hi\n", 3);
		_exit(1);
	}
	close(fd);
	return pid > 0;
}

/* The connections of the first one are ended in a copy, which can make others. */
static void check_networked(void)
{
	struct box parent, copy;
	struct saved *from;
	char allow[64], code[512];

	snprintf(allow, sizeof(allow), "host.internal:%u", port);
	if (!start_networked(&parent, "networked", NULL, true, allow))
		return;
	snprintf(code, sizeof(code),
		 "import socket\n"
		 "def dial(): return socket.create_connection(('host.internal', %u), 30)\n"
		 "c = dial(); print(c.recv(9))",
		 port);
	expect(&parent, code, "b'hi\\n'\n");
	from = point(&parent);
	if (from && start_networked(&copy, "networked-copy", from, false, allow)) {
		expect(&copy, "print(dial().recv(9))", "b'hi\\n'\n");
		expect(&copy,
		       "try:\n  c.sendall(b'x'); print(c.recv(9) == b'')\n"
		       "except ConnectionError:\n  print(True)",
		       "True\n");
		end(&copy);
	}
	expect(&parent, "c.sendall(b'x'); print(dial().recv(9))", "b'hi\\n'\n");
	end(&parent);
	if (from)
		saved_unref(from);
}

/* Clones come from a snapshot, which is made in the background. */
static void await_snapshot(void)
{
	for (int i = 0; i < 600; i++) {
		struct box b;
		struct sandbox_info info = {0};
		const double until = now_ms() + 500;

		if (!start(&b, "first", NULL, false))
			return;
		sandbox_info(b.s, &info);
		end(&b);
		if (strcmp(info.start, "cold") != 0)
			return;
		while (now_ms() < until)
			uv_run(&loop, UV_RUN_ONCE);
	}
}

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what, double *ms, int n)
{
	qsort(ms, (size_t)n, sizeof(*ms), compare);
	printf("%s: p50 %.1f ms, least %.1f, most %.1f, of %d\n", what, ms[n / 2], ms[0], ms[n - 1],
	       n);
}

static void measure(int n)
{
	static double clone[MOST], copy[MOST], take[MOST];
	struct saved *from;
	struct box parent, b;

	if (!start(&parent, "parent", NULL, false))
		return;
	expect(&parent, getenv("BUSY") ? BEGIN : BEGIN_QUIET, "");
	for (int i = 0; i < n; i++) {
		double t = now_ms();

		from = point(&parent);
		take[i] = now_ms() - t;
		if (!from)
			break;
		if (i == 0)
			printf("bytes: %" PRIu64 "\n", from->point->bytes);
		t = now_ms();
		if (start(&b, "clone", NULL, false))
			run(&b, "1");
		clone[i] = now_ms() - t;
		end(&b);
		t = now_ms();
		if (start(&b, "copy", from, false))
			run(&b, "1");
		copy[i] = now_ms() - t;
		end(&b);
		saved_unref(from);
		expect(&parent, "print(f())", "42\n");
	}
	end(&parent);
	report("point", take, n);
	report("clone", clone, n);
	report("copy", copy, n);
}

/* ---- the whole ---- */

static void on_vm_closed(void *data)
{
	(void)data;
	vm_gone = true;
}

/* What is tried, of machines that can be had. */
static int try(const struct confine_spec *confined, const char *runtime, int measured)
{
	struct problem why;
	const char *step;
	int state = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (vm_keep(vm, state, &why) < 0) {
		complain("nothing is kept: %s", why.cause);
		return 2;
	}
	close(state);
	if (confine(confined, &step) < 0) {
		complain("not confined: %s", step);
		return 2;
	}
	check_family(true);
	check_networked();
	await_snapshot();
	check_family(false);
	check_disk();
	if (measured && !wrong)
		measure(MAX(1, MIN(measured, MOST)));
	vm_close(vm, on_vm_closed, NULL);
	while (!vm_gone)
		uv_run(&loop, UV_RUN_ONCE);
	return wrong;
}

int main(int argc, char **argv)
{
	char runtime[] = "/tmp/xsbx-points.XXXXXX", cache[256];
	const char *home = getenv("HOME"), *own = getenv("XDG_CACHE_HOME");
	struct vm_config cfg = {
		.cache_dir = cache,
		.runtime_dir = runtime,
		.qemu = getenv("QEMU") ? getenv("QEMU") : ARCH_QEMU,
		.agent = argc > 1 ? argv[1] : "",
		.accel = getenv("ACCEL") ? getenv("ACCEL") : "auto",
		.image_builder = "none",
		.admission_s = 60,
		.boot_s = 120,
	};
	struct policy_config policy = {.vm = &cfg};
	struct spawner_rules rules = {.job = policy_job, .runtime_dir = runtime};
	const struct confine_spec confined = {.cache_dir = cache,
					      .runtime_dir = runtime,
					      .spool_dir = runtime,
					      .agent = cfg.agent};
	struct policy *sealed;
	struct spawner *spawner;
	int r;

	snprintf(cache, sizeof(cache), "%s%s/xsbxfs",
		 own	? own
		 : home ? home
			: "",
		 own ? "" : "/.cache");
	if (argc < 2 || !mkdtemp(runtime))
		return 2;
	rlimit_raise_files();
	if (!listen_at_home())
		return 2;
	signal(SIGPIPE, SIG_IGN);
	log_open(getenv("DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN);
	policy_prepare(cache, false);
	if (policy_new(&policy, &sealed) < 0)
		return 2;
	cfg.policy = sealed;
	rules.data = sealed;
	if (spawner_start(&rules, &spawner) < 0)
		return 2;
	if (confine_rings() < 0)
		return 2;
	uv_loop_init(&loop);
	cfg.host_ports = (struct vm_host_ports){{port}, 1};
	if (vm_new(&loop, spawner, &cfg, &vm_events, NULL, &vm) < 0)
		return 2;
	r = try(&confined, runtime, argc > 2 ? atoi(argv[2]) : 0);
	spawner_stop(spawner);
	policy_free(sealed);
	(void)remove_tree(runtime);
	return r;
}
