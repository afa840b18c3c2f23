/* SPDX-License-Identifier: Apache-2.0 */
/* Another daemon goes on with sandboxes that live: the agent as a process of the host, in a jail, and in machines. */
/* modules: vm tests/unit/fixture/daemon_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fixture/daemon_fixture.h"
#include "vm/base/fdbag.h"
#include "vm/guest/internal.h"

/* ---- what has to hold ---- */

/* State and output of an interpreter go on, whatever is under way: nothing is lost, nothing is there twice. */
static void runs_go_on(void **state)
{
	static struct heard h;
	const unsigned lines = in_machines() ? 20000 : 200000;
	char code[200];
	size_t at = 0;

	(void)state;
	start(&h);
	run(&h, "x=41");
	replace(&h);
	assert_string_equal(run(&h, "echo $((x + 1))"), "42\n");
	snprintf(code, sizeof(code), "seq %u; echo end >&2", lines);
	begin_run(&h, code, false);
	for (unsigned i = 0; i < 20 && !h.nexits; i++) {
		pass(i % 3);
		replace(&h);
	}
	await(&h, &h.nexits, 1);
	assert_int_equal(h.result.outcome, VM_DONE);
	buf_append(&h.out, "", 1);
	for (unsigned i = 1; i <= lines; i++) {
		const unsigned long n = strtoul(h.out.data + at, NULL, 10);

		assert_int_equal(n, i);
		at += strcspn(h.out.data + at, "\n") + 1;
	}
	assert_int_equal(at, h.out.len - 1);
	assert_string_equal(buf_str(&h.err), "end\n");
	pass(50);
	assert_int_equal(h.nexits, 1);
	assert_string_equal(run(&h, "echo $x"), "41\n");
	finish(&h);
}

/* What a run ends with comes once, also if it ends while nobody is there. */
static void ends_meanwhile(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	for (unsigned i = 0; i < 4; i++) {
		begin_run(&h, "sleep 0.05; echo $i; exit 7", false);
		pass(i * 20);
		replace(&h);
		await(&h, &h.nexits, 1);
		assert_int_equal(h.result.status, 7);
		assert_int_equal(h.out.len, 1);
		assert_int_equal(h.nexits, 1);
	}
	finish(&h);
}

/* A deadline goes on, and so does who is asked to end. */
static void is_killed(void **state)
{
	static struct heard h;
	uint32_t id;

	(void)state;
	start(&h);
	id = begin_run(&h, "sleep 1000", false);
	pass(50);
	replace(&h);
	assert_int_equal(sandbox_signal(h.s, id, SANDBOX_KILL), 0);
	replace(&h);
	await(&h, &h.nexits, 1);
	assert_int_equal(h.result.outcome, VM_KILLED);
	assert_string_equal(run(&h, "echo on"), "on\n");
	finish(&h);
}

static void input_goes_on(void **state)
{
	static struct heard h;
	static char data[3 << 20];
	size_t at = 0, taken;
	uint32_t id;
	char sum[64];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)('a' + i * 7 % 26);
	data[sizeof(data) - 1] = '\n';
	start(&h);
	id = begin_run(&h, "sleep 0.2; cksum", true);
	for (unsigned round = 0;; round++) {
		const bool all = sandbox_write(h.s, id, data + at, sizeof(data) - at, true, &taken);

		at += taken;
		if (all)
			break;
		if (round % 5 == 0)
			replace(&h);
		pass(2);
	}
	replace(&h);
	await(&h, &h.nexits, 1);
	snprintf(sum, sizeof(sum), "%s", buf_str(&h.out));
	assert_non_null(strstr(sum, " 3145728\n"));
	begin_run(&h, "cksum", true);
	id++;
	at = 0;
	while (!sandbox_write(h.s, id, data + at, sizeof(data) - at, true, &taken)) {
		at += taken;
		pass(1);
	}
	await(&h, &h.nexits, 1);
	assert_string_equal(buf_str(&h.out), sum);
	finish(&h);
}

static void job(struct heard *h, uint32_t id, const char *code)
{
	const struct sandbox_job j = {
		.id = id, .code = proto_cstr(code), .limit = {1 << 20, 1 << 20}};

	assert_int_equal(sandbox_job(h->s, &j), 0);
}

static void jobs_go_on(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	job(&h, SANDBOX_JOB_ID, "while [ ! -e go ]; do sleep 0.01; done; echo went; exit 3");
	job(&h, SANDBOX_JOB_ID + 1, "sleep 1000 & echo left");
	await(&h, &h.njobs, 1);
	replace(&h);
	run(&h, "touch go");
	replace(&h);
	await(&h, &h.njobs, 2);
	assert_int_equal(h.job.status, 3);
	assert_non_null(strstr(buf_str(&h.out), "went"));
	await(&h, &h.ngone, 1); /* the other has left something */
	replace(&h);
	assert_int_equal(sandbox_job_forget(h.s, SANDBOX_JOB_ID + 1), 0);
	replace(&h);
	await(&h, &h.ngone, 2);
	assert_int_equal(h.njobs, 2);
	finish(&h);
}

static void stands_still(void **state)
{
	static struct heard h;

	(void)state;
	start(&h);
	run(&h, "(while :; do echo >>beat; sleep 0.01; done) &\n sleep 0.1");
	assert_int_equal(sandbox_freeze(h.s), 0);
	await(&h, &h.nfrozen, 1);
	replace(&h);
	pass(200);
	sandbox_thaw(h.s);
	replace(&h);
	run(&h, "a=$(wc -l <beat); sleep 0.3; [ $(wc -l <beat) -gt $a ]");
	assert_int_equal(sandbox_reset(h.s), 0);
	h.state = SANDBOX_STARTING;
	while (h.state != SANDBOX_READY && !h.nclosed)
		uv_run(&here->loop, UV_RUN_ONCE);
	replace(&h);
	assert_string_equal(run(&h, "echo $x."), ".\n");
	finish(&h);
}

/* ---- files ---- */

static int ask(struct heard *h, const struct vm_file *req)
{
	h->nanswers = 0;
	assert_int_equal(sandbox_file(h->s, req, on_answer, h), 0);
	await(h, &h->nanswers, 1);
	return h->err_of_file;
}

static uint64_t lookup(struct heard *h, const char *name)
{
	const struct vm_file req = {.op = VM_LOOKUP, .node = VM_FILES_ROOT, .name = name};

	assert_int_equal(ask(h, &req), 0);
	return h->reply.node;
}

static int getattr(struct heard *h, uint64_t node)
{
	const struct vm_file req = {.op = VM_GETATTR, .node = node};

	return ask(h, &req);
}

static void files_go_on(void **state)
{
	static struct heard h;
	static uint8_t data[1 << 20];
	struct vm_file rq = {.op = VM_CREATE,
			     .node = VM_FILES_ROOT,
			     .name = "big",
			     .flags = O_RDWR | O_APPEND,
			     .mode = 0644};
	uint64_t handle;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	start(&h);
	assert_int_equal(ask(&h, &rq), 0);
	handle = h.reply.handle;
	for (unsigned i = 0; i < 4; i++) {
		rq = (struct vm_file){.op = VM_WRITE,
				      .claim = i + 1,
				      .handle = handle,
				      .offset = i * sizeof(data),
				      .data = data,
				      .size = sizeof(data)};
		h.nanswers = 0;
		assert_int_equal(sandbox_file(h.s, &rq, on_answer, &h), 0);
		/* It is on its way, a part of it perhaps answered. */
		for (unsigned n = 0; n <= i; n++) {
			uv_run(&here->loop, UV_RUN_NOWAIT);
			replace_with(&h, NULL, 0, &rq);
		}
		await(&h, &h.nanswers, 1);
		assert_int_equal(h.err_of_file, 0);
		assert_int_equal(h.reply.size, sizeof(data));
	}
	assert_true(h.nclaimed > 0);
	for (unsigned i = 0; i < 4; i++) {
		rq = (struct vm_file){.op = VM_READ,
				      .handle = handle,
				      .offset = i * sizeof(data),
				      .size = sizeof(data)};
		assert_int_equal(ask(&h, &rq), 0);
		assert_int_equal(h.reply.size, sizeof(data));
		assert_memory_equal(h.bytes, data, sizeof(data));
		if (i == 1)
			replace(&h);
	}
	assert_string_equal(run(&h, "wc -c <big"), "4194304\n");
	finish(&h);
}

/* Handles that were given out without the agent, and what it is told that we hold. */
static void nodes_and_early_handles(void **state)
{
	static struct heard h;
	struct vm_held_node held[2];
	struct vm_file rq = {.op = VM_OPEN, .flags = O_RDONLY};
	uint64_t one, other, handle;

	(void)state;
	start(&h);
	run(&h, "echo hello >a; echo world >b");
	one = lookup(&h, "a");
	other = lookup(&h, "b");
	rq.node = one;
	for (unsigned i = 0; i < 20 && !(h.reply.handle & EARLY_HANDLE); i++) {
		assert_int_equal(ask(&h, &rq), 0);
		pass(5);
	}
	handle = h.reply.handle;
	held[0] = (struct vm_held_node){one, 1};
	replace_with(&h, held, 1, NULL);
	rq = (struct vm_file){.op = VM_READ, .node = one, .handle = handle, .size = 100};
	assert_int_equal(ask(&h, &rq), 0);
	assert_int_equal(h.reply.size, 6);
	assert_memory_equal(h.bytes, "hello\n", 6);
	assert_int_equal(getattr(&h, one), 0);
	assert_int_equal(getattr(&h, other), -ESTALE);
	/* What is not told changes nothing. */
	other = lookup(&h, "b");
	replace(&h);
	assert_int_equal(getattr(&h, one), 0);
	assert_int_equal(getattr(&h, other), 0);
	run(&h, "rm a");
	assert_int_equal(ask(&h, &rq), 0);
	assert_memory_equal(h.bytes, "hello\n", 6);
	finish(&h);
}

static void lock(struct vm_file *rq, uint64_t handle, uint64_t owner, uint64_t token,
		 enum proto_lock_type type, bool wait)
{
	*rq = (struct vm_file){.op = VM_LOCK,
			       .handle = handle,
			       .lock = {.owner = owner,
					.token = token,
					.end = 9,
					.type = type,
					.wait = wait,
					.pid = 1}};
}

/* Those that are held stay; those that are waited for are waited for still, and can't be granted to nobody. */
static void locks_go_on(void **state)
{
	static struct heard h;
	struct vm_file rq = {.op = VM_OPEN, .flags = O_RDWR};
	uint64_t one, other;

	(void)state;
	start(&h);
	run(&h, "echo >a");
	rq.node = lookup(&h, "a");
	assert_int_equal(ask(&h, &rq), 0);
	one = h.reply.handle;
	assert_int_equal(ask(&h, &rq), 0);
	other = h.reply.handle;
	lock(&rq, one, 1, 1, PROTO_LOCK_EXCLUSIVE, false);
	assert_int_equal(ask(&h, &rq), 0);
	lock(&rq, other, 2, 2, PROTO_LOCK_EXCLUSIVE, true);
	h.nanswers = 0;
	assert_int_equal(sandbox_file(h.s, &rq, on_answer, &h), 0);
	pass(50);
	assert_int_equal(h.nanswers, 0);
	replace(&h); /* it is not asked for once more */
	lock(&rq, other, 3, 3, PROTO_LOCK_SHARED, false);
	assert_int_equal(ask(&h, &rq), -EAGAIN); /* it is held */
	lock(&rq, one, 1, 4, PROTO_UNLOCK, false);
	assert_int_equal(ask(&h, &rq), 0);
	pass(50);
	lock(&rq, one, 4, 5, PROTO_LOCK_EXCLUSIVE, false);
	assert_int_equal(ask(&h, &rq), 0); /* the one that waited did not get it */
	lock(&rq, other, 2, 6, PROTO_LOCK_EXCLUSIVE, true);
	rq.claim = 66;
	h.nanswers = 0;
	assert_int_equal(sandbox_file(h.s, &rq, on_answer, &h), 0);
	replace_with(&h, NULL, 0, &rq);
	pass(50);
	replace_with(&h, NULL, 0, &rq);
	pass(50);
	assert_int_equal(h.nanswers, 0);
	lock(&rq, one, 4, 7, PROTO_UNLOCK, false);
	assert_int_equal(sandbox_file(h.s, &rq, on_answer, &h), 0);
	await(&h, &h.nanswers, 2);
	assert_int_equal(h.err_of_file, 0);
	finish(&h);
}

/* ---- many, and machines ---- */

/* Each is charged, above the limits too. */
static void are_charged(void **state)
{
	static struct heard h;
	struct vm_admission a;
	unsigned max = cfg.max_vms;

	(void)state;
	start(&h);
	begin_run(&h, "sleep 1000", false);
	pass(20);
	cfg.max_vms = 1;
	replace(&h);
	vm_admission(here->vm, &a);
	assert_int_equal(a.running, 1);
	assert_int_equal(a.runs, 1);
	assert_true(a.promised_mb >= 256);
	cfg.max_vms = max;
	finish(&h);
	vm_admission(here->vm, &a);
	assert_int_equal(a.running, 0);
	assert_int_equal(a.runs, 0);
}

/* A machine that stands still is not disturbed, and goes on with what is sent to it next. */
static void still_machine(void **state)
{
	static struct heard h;
	struct sandbox_info info = {.stands_still = false};

	(void)state;
	start(&h);
	run(&h, "x=1");
	for (unsigned i = 0; i < 100 && !info.stands_still; i++) {
		pass(100);
		sandbox_info(h.s, &info);
	}
	assert_true(info.stands_still);
	for (unsigned i = 0; i < 3; i++) {
		replace(&h);
		pass(1500);
		sandbox_info(h.s, &info);
		assert_true(info.stands_still);
	}
	assert_string_equal(run(&h, "echo $x"), "1\n");
	finish(&h);
}

/* A socket that listens here. */
static int listen_here(uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static void on_port(void *data, const struct sandbox_port *port)
{
	*(uint16_t *)data = port->host;
}

static int connect_to(uint16_t port)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* What is said to it comes back in capital letters. */
static void expect_echo(int fd, const char *said, const char *heard)
{
	char got[100];
	ssize_t n = -1;

	assert_int_equal(send(fd, said, strlen(said), MSG_NOSIGNAL), strlen(said));
	for (unsigned i = 0; i < 3000 && n < 0; i++) {
		pass(10);
		n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
	}
	assert_int_equal(n, strlen(heard));
	assert_memory_equal(got, heard, strlen(heard));
}

/* Connections stay open, ports are forwarded, and what is allowed still is, and nothing else. */
static void network_goes_on(void **state)
{
	static const struct sandbox_port wanted = {.guest = 8000};
	static const char server[] =
		"import socket, threading\n"
		"s = socket.create_server(('0.0.0.0', 8000))\n"
		"def serve(c):\n"
		"  for line in c.makefile('rb'): c.sendall(line.upper())\n"
		"def go():\n"
		"  while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()\n"
		"threading.Thread(target=go, daemon=True).start()\n";
	static struct heard h;
	struct sandbox_spec spec;
	char allow[100], code[200];
	uint16_t port = 0, here_port, other_port;
	int one, two;
	const int listener = listen_here(&here_port), other = listen_here(&other_port);

	(void)state;
	cfg.host_ports = (struct vm_host_ports){{here_port, other_port}, 2};
	replace_nothing();
	snprintf(allow, sizeof(allow), "host.internal:%u", here_port);
	spec = spec_of("python");
	spec.network = true;
	spec.allow = allow;
	spec.ports = &wanted;
	spec.nports = 1;
	start_as(&h, &spec);
	run(&h, server);
	sandbox_ports(h.s, on_port, &port);
	assert_int_not_equal(port, 0);
	one = connect_to(port);
	expect_echo(one, "hello\n", "HELLO\n");
	replace(&h);
	expect_echo(one, "again\n", "AGAIN\n");
	two = connect_to(port);
	expect_echo(two, "another\n", "ANOTHER\n");
	replace(&h);
	port = 0;
	sandbox_ports(h.s, on_port, &port);
	assert_int_not_equal(port, 0);
	snprintf(code, sizeof(code),
		 "socket.create_connection(('host.internal', %u), 60); print('yes')", here_port);
	assert_string_equal(run(&h, code), "yes\n");
	snprintf(code, sizeof(code),
		 "try: socket.create_connection(('host.internal', %u), 60); print('yes')\n"
		 "except OSError: print('no')",
		 other_port);
	assert_string_equal(run(&h, code), "no\n");
	assert_int_equal(sandbox_unforward(h.s, 8000), 0);
	expect_echo(one, "still\n", "STILL\n");
	assert_int_equal(connect_to(port), -1);
	replace(&h);
	expect_echo(two, "this too\n", "THIS TOO\n");
	close(one);
	close(two);
	close(listener);
	close(other);
	finish(&h);
}

int main(void)
{
	const struct CMUnitTest child[] = {
		cmocka_unit_test_setup_teardown(runs_go_on, begin_child, end),
		cmocka_unit_test_setup_teardown(ends_meanwhile, begin_child, end),
		cmocka_unit_test_setup_teardown(is_killed, begin_child, end),
		cmocka_unit_test_setup_teardown(input_goes_on, begin_child, end),
		cmocka_unit_test_setup_teardown(jobs_go_on, begin_child, end),
		cmocka_unit_test_setup_teardown(stands_still, begin_child, end),
		cmocka_unit_test_setup_teardown(files_go_on, begin_child, end),
		cmocka_unit_test_setup_teardown(nodes_and_early_handles, begin_child, end),
		cmocka_unit_test_setup_teardown(locks_go_on, begin_child, end),
		cmocka_unit_test_setup_teardown(are_charged, begin_child, end),
	};
	const struct CMUnitTest process[] = {
		cmocka_unit_test_setup_teardown(runs_go_on, begin_process, end),
		cmocka_unit_test_setup_teardown(jobs_go_on, begin_process, end),
		cmocka_unit_test_setup_teardown(stands_still, begin_process, end),
		cmocka_unit_test_setup_teardown(files_go_on, begin_process, end),
	};
	const struct CMUnitTest machines[] = {
		cmocka_unit_test_setup_teardown(runs_go_on, begin_machine, end),
		cmocka_unit_test_setup_teardown(input_goes_on, begin_machine, end),
		cmocka_unit_test_setup_teardown(jobs_go_on, begin_machine, end),
		cmocka_unit_test_setup_teardown(files_go_on, begin_machine, end),
		cmocka_unit_test_setup_teardown(locks_go_on, begin_machine, end),
		cmocka_unit_test_setup_teardown(still_machine, begin_machine, end),
		cmocka_unit_test_setup_teardown(network_goes_on, begin_machine, end),
	};

	return run_three("test_adopt", child, process, machines);
}
