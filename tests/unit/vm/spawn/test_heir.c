/* SPDX-License-Identifier: Apache-2.0 */
/* One daemon after another: at each moment there is one, and what it had is the next one's, or its own still. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/fdpass.h"
#include "vm/base/memory.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/jail/cell.h"
#include "vm/spawn/heir.h"
#include "vm/spawn/heir_wire.h"

/* ---- the heir: this program, with another name for its first argument ---- */

enum act {
	DIES,
	REFUSES,
	GOES_AWAY,
	IS_READY,
	LEAVES,
	GOES_NONETHELESS,
	IS_OPEN,
	REPEATS,
	IS_LATE
};

/* What the daemon tells it. */
struct estate {
	uint32_t ids[2]; /* to be claimed; 0: none */
	enum act act;
};

/* What it tells the test, over what is the mount's connection. */
struct news {
	pid_t pid;
	int inherited, ready;
	uint32_t instance;
	char cwd[64], left[16];
};

static int say(const struct news *n)
{
	return send(HEIR_FD_CONNECTION, n, sizeof(*n), MSG_NOSIGNAL) == sizeof(*n) ? 0 : 1;
}

/* What it goes by, for who comes after it, perhaps as one may not say it. Return: 0 or -errno. */
static int say_conf(struct spawner *mine, enum act act)
{
	_cleanup_close_ int conf = memory_new("conf");

	if (conf < 0 || (act != IS_OPEN && memory_seal(conf) < 0))
		return -1;
	return spawner_conf(mine, conf);
}

/* Another daemon goes on where it dies, with what it has written. */
static int leave(struct spawner *mine)
{
	_cleanup_close_ int estate = memfd_create("estate", MFD_CLOEXEC);
	int holder = -1, r = spawner_estate(mine, estate, &holder);

	if (r == 0)
		close(holder);
	return r < 0 || write(estate, "its own", 7) != 7 ? -1 : 0;
}

/* One that does. */
static int be_next(void)
{
	struct news news = {.pid = getpid()};
	struct spawner *mine = NULL;
	char byte;

	news.inherited = spawner_inherit(&mine);
	if (pread(HEIR_FD_ESTATE, news.left, sizeof(news.left) - 1, 0) < 0)
		return 10;
	news.ready = spawner_ready(mine);
	if (say(&news) != 0)
		return 11;
	(void)!recv(HEIR_FD_CONNECTION, &byte, 1, 0);
	spawner_stop(mine);
	return 0;
}

static int be_heir(void)
{
	struct news news = {.pid = getpid(), .ready = 1};
	struct spawner *mine = NULL;
	struct estate e = {0};
	char byte;

	news.inherited = spawner_inherit(&mine);
	news.instance = jail_instance_id();
	(void)!getcwd(news.cwd, sizeof(news.cwd));
	if (recv(HEIR_FD_DAEMON, &e, sizeof(e), 0) != sizeof(e) || news.inherited < 0)
		return 3;
	if (e.act == DIES)
		return 4;
	if (e.act == REFUSES) {
		spawner_refuse(mine, "it is\nnot to be");
		return 0;
	}
	if (e.act == LEAVES || e.act == GOES_NONETHELESS) {
		/* Nothing else is begun before the daemon stands still. */
		if (say_conf(mine, e.act) < 0 || send(HEIR_FD_DAEMON, "", 1, 0) != 1 ||
		    leave(mine) < 0)
			return 12;
		if (e.act == LEAVES)
			(void)spawner_ready(mine);
		abort();
	}
	if (e.act == IS_LATE)
		usleep(200000); /* until the spawner has heard that the daemon stands still */
	if (e.act == REPEATS && say_conf(mine, e.act) < 0)
		return 8;
	if (e.act > GOES_NONETHELESS && say_conf(mine, e.act) < 0)
		return 9;
	for (unsigned i = 0; i < 2; i++)
		if (e.ids[i] && e.act <= IS_READY && spawner_claim(mine, e.ids[i]) < 0)
			return 5;
	if (e.act == GOES_AWAY)
		return 6;
	news.ready = spawner_ready(mine);
	if (say(&news) != 0)
		return 7;
	/* It serves until the test is over. */
	if (news.ready == 0)
		(void)!recv(HEIR_FD_CONNECTION, &byte, 1, 0);
	spawner_stop(mine);
	return 0;
}

/* ---- the test is the daemon ---- */

static struct {
	char dir[32], self[4096];
	char *argv[301]; /* the heir's has one word more, and no NULL */
	int heir;	 /* socket to it, or -1 */
	int connection[2];
	pid_t guard;
} t;

static unsigned nbegun;

static bool on_begun(void *data, int fd)
{
	(void)data;
	nbegun++;
	if (t.heir >= 0) { /* as the daemon that does not know yet that the last one is over */
		close(fd);
		return false;
	}
	t.heir = fd;
	return true;
}

static void mount_now(void)
{
	assert_int_equal(spawner_mounted(sp, t.connection[1]), 0);
	close(steal_fd(&t.connection[1]));
}

static int setup_unmounted(void **state)
{
	struct spawner_rules rules = free_rules;
	char before[4096];

	(void)state;
	t.heir = -1;
	snprintf(t.dir, sizeof(t.dir), "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t.connection), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t.argv) - 1; i++)
		t.argv[i] = t.self;
	rules.argv = t.argv;
	rules.cwd = "/usr";
	rules.runtime_dir = t.dir;
	rules.mountpoint = "/nothing/is/mounted/here";
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(rules.cwd), 0);
	t.guard = spawner_fixture_fork(&rules, &sp);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(spawner_attach(sp, &loop), 0);
	spawner_on_heir(sp, on_begun, NULL);
	return 0;
}

static int setup(void **state)
{
	(void)setup_unmounted(state);
	mount_now();
	return 0;
}

static void nothing(void *data)
{
	(void)data;
}

/* @sp is the daemon still, or another is. */
static int teardown(void **state)
{
	int status = 1;

	(void)state;
	spawner_detach(sp, nothing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(t.connection[0]); /* ends an heir that serves */
	if (t.heir >= 0)
		close(t.heir);
	spawner_fixture_goodbye(sp);
	assert_int_equal(waitpid(t.guard, &status, 0), t.guard);
	assert_int_equal(status, 0);
	assert_int_equal(access(t.dir, F_OK), -1); /* which it removes */
	return 0;
}

static int connect_to(void)
{
	_cleanup_close_ int dir = open(t.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct sockaddr_un a = heir_address(dir);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(sock >= 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&a, sizeof(a)), 0);
	return sock;
}

/* Asks for an heir. Return: where the answer comes. */
static int ask(const char *program)
{
	_cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);
	const struct heir_ask request = {.magic = HEIR_MAGIC};
	int sock = connect_to();

	assert_true(fd >= 0);
	assert_int_equal(fdpass_send(sock, &request, sizeof(request), &fd, 1, 0), sizeof(request));
	return sock;
}

static struct heir_answer answer(int sock)
{
	struct heir_answer a = {0};

	assert_int_equal(recv(sock, &a, sizeof(a), 0), sizeof(a));
	assert_int_equal(a.magic, HEIR_MAGIC);
	close(sock);
	return a;
}

static void await_heir(void)
{
	while (t.heir < 0)
		uv_run(&loop, UV_RUN_ONCE);
}

static struct news news(void)
{
	struct news n = {0};

	assert_int_equal(recv(t.connection[0], &n, sizeof(n), 0), sizeof(n));
	return n;
}

static unsigned nstarted;

static void on_started(struct child *c)
{
	(void)c;
	nstarted++;
}

static void on_failed(struct child *c, int err, const char *step)
{
	(void)c;
	fail_msg("%s: %s", step, strerror(-err));
}

static unsigned nended;

static void on_exited(struct child *c, int status)
{
	(void)c;
	(void)status;
	nended++;
}

static void start_child(struct child *c)
{
	const char *const argv[] = {"/bin/sleep", "1000", NULL}, *const envp[] = {NULL};
	const struct free_job job = {.argv = argv, .envp = envp};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {.request = request, .size = (size_t)n};
	const unsigned before = nstarted;

	*c = (struct child){.started = on_started, .failed = on_failed, .exited = on_exited};
	assert_int_equal(child_start(sp, &spec, c), 0);
	while (nstarted == before)
		uv_run(&loop, UV_RUN_ONCE);
}

static bool alive_after(int pidfd, int ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, ms) == 0;
}

/* ---- tests ---- */

static void another_daemon(void **state)
{
	_cleanup_close_ int former = -1;
	struct child claimed, other;
	struct estate e = {.act = IS_READY};
	struct heir_answer a;
	struct news n;
	int sock;

	(void)state;
	start_child(&claimed);
	start_child(&other);
	former = pidfd_open(spawner_fixture_daemon, 0);
	sock = ask(t.self);
	await_heir();
	e.ids[0] = claimed.id;
	e.ids[1] = 4711; /* there is none */
	assert_int_equal(spawner_yield(sp), 0);
	assert_int_equal(send(t.heir, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(spawner_await(sp), -EPIPE); /* nobody is talked to here any more */
	n = news();
	assert_int_equal(n.inherited, 0);
	assert_int_equal(n.ready, 0);
	assert_int_equal(n.instance, jail_instance_id());
	assert_string_equal(n.cwd, "/usr");
	a = answer(sock);
	assert_int_equal(a.pid, n.pid);
	assert_string_equal(a.words, "");
	assert_false(alive_after(former, 0)); /* before the answer */
	assert_false(alive_after(other.pidfd, patience_ms()));
	assert_true(alive_after(claimed.pidfd, 50));
	/* This one would not be there any more. It thinks that the spawner is lost, and ends what it knows. */
	nended = 0;
	while (nended < 2)
		uv_run(&loop, UV_RUN_ONCE);
}

/* The spawner does what it is asked for. */
static void serves(void)
{
	struct child c;

	start_child(&c);
	nended = 0;
	child_kill(&c);
	while (!nended)
		uv_run(&loop, UV_RUN_ONCE);
}

/* Whatever becomes of the heir, the daemon goes on. */
static void comes_to_nothing(enum act act, bool yields, const char *words)
{
	const struct estate e = {.ids = {1, 2}, .act = act};
	int sock = ask(t.self);
	struct heir_answer a;

	await_heir();
	if (yields)
		assert_int_equal(spawner_yield(sp), 0);
	assert_int_equal(send(t.heir, &e, sizeof(e), 0), sizeof(e));
	if (yields)
		assert_int_equal(spawner_await(sp), 0);
	close(steal_fd(&t.heir));
	a = answer(sock);
	assert_int_equal(a.pid, 0);
	assert_string_equal(a.words, words);
	serves();
}

static void no_heir(void **state)
{
	(void)state;
	serves();
	for (unsigned yields = 0; yields < 2; yields++) {
		comes_to_nothing(DIES, yields, "the new process ended");
		comes_to_nothing(REFUSES, yields, "it is?not to be");
	}
	comes_to_nothing(GOES_AWAY, true, "the new process ended");
	/* What another one is to go by: it can be changed; it is said twice; a guest may have been asked before. */
	comes_to_nothing(IS_OPEN, false, "the new process is not understood");
	comes_to_nothing(REPEATS, false, "the new process is not understood");
	comes_to_nothing(IS_LATE, true, "the new process is not understood");
	assert_int_equal(answer(ask("/dev/null")).pid, 0);
}

/* Who stands still for an heir that was given up meanwhile is told. */
static void late(void **state)
{
	(void)state;
	serves();
	comes_to_nothing(DIES, false, "the new process ended");
	assert_int_equal(spawner_yield(sp), 0);
	assert_int_equal(spawner_await(sp), 0);
}

/* ... and so is who gave all to one that was given up, while there is another already, who was given nothing. */
static void of_another(void **state)
{
	const struct estate e = {.act = DIES};
	struct heir_answer a;
	int sock, next;

	(void)state;
	serves();
	sock = ask(t.self);
	await_heir();
	assert_int_equal(send(t.heir, &e, sizeof(e), 0), sizeof(e));
	a = answer(sock);
	assert_int_equal(a.pid, 0);
	nbegun = 0;
	next = ask(t.self);
	while (!nbegun)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(spawner_yield(sp), 0);
	assert_int_equal(spawner_await(sp), 0);
	close(steal_fd(&t.heir));
	a = answer(next); /* the daemon did not take it */
	assert_int_equal(a.pid, 0);
	assert_string_equal(a.words, "the new process ended");
}

/* Who connects and says nothing keeps nobody waiting. */
static void silent(void **state)
{
	const uint64_t began = uv_hrtime();
	int first = connect_to(), next;
	struct ucred who = {0};
	socklen_t len = sizeof(who);
	struct heir_answer a;
	char byte;

	(void)state;
	serves();
	serves();
	assert_in_range(uv_hrtime() - began, 0, 4000000000);
	assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), -1);
	close(first); /* that is an answer, too */
	next = ask("/dev/null");
	assert_int_equal(getsockopt(next, SOL_SOCKET, SO_PEERCRED, &who, &len), 0);
	assert_int_equal(who.pid, spawner_pid(sp));
	serves();
	a = answer(next);
	assert_string_equal(a.words, "it was not given a program");
	serves();
}

/* ... and nobody is one of those, however many they are. */
static void many_silent(void **state)
{
	int first[2 * ASKERS_MOST], last;
	const uint64_t began = uv_hrtime();
	struct heir_answer a;

	(void)state;
	serves();
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		first[i] = connect_to();
	a = answer(ask("/dev/null"));
	assert_string_equal(a.words, "it was not given a program");
	/* There was no room for the first. */
	a = answer(first[0]);
	assert_int_equal(a.pid, 0);
	assert_string_equal(a.words, "nothing was asked for, and others have come");
	/* The last may say something still. */
	last = first[ARRAY_SIZE(first) - 1];
	assert_int_equal(send(last, "?", 1, 0), 1);
	a = answer(last);
	assert_string_equal(a.words, "it was not understood");
	assert_in_range(uv_hrtime() - began, 0, 4000000000);
	/* ... but not for ever. */
	a = answer(first[ARRAY_SIZE(first) - 2]);
	assert_string_equal(a.words, "nothing was asked for");
	for (size_t i = 1; i < ARRAY_SIZE(first) - 2; i++)
		close(first[i]);
	serves();
}

/* No descriptor is left for who comes: nothing is asked about all the time, and he is heard later. */
static void no_room(void **state)
{
	struct askers a;
	struct rlimit most, none;
	struct pollfd p = {.events = POLLIN};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	    comes = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), program = -1, sock;
	const struct heir_ask ask = {.magic = HEIR_MAGIC};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(name);

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &len), 0);
	assert_int_equal(askers_init(&a, listener), 0);
	assert_int_equal(connect(comes, (struct sockaddr *)&name, len), 0);
	sock = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fdpass_send(comes, &ask, sizeof(ask), &sock, 1, 0), sizeof(ask));
	close(sock);
	p.fd = a.epoll;
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = most.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	sock = askers_next(&a, 5000, &program);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	assert_int_equal(sock, -1);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_in_range(askers_until(&a), 5001, 6000);
	sock = askers_next(&a, askers_until(&a), &program);
	assert_true(sock >= 0 && program >= 0);
	assert_true(askers_until(&a) == INT64_MAX);
	close(program);
	close(sock);
	close(comes);
	askers_close(&a, "");
}

/* Before there is a mount, who asks waits for it. */
static void before_the_mount(void **state)
{
	const struct estate e = {.act = DIES};
	struct pollfd p = {.events = POLLIN};

	(void)state;
	p.fd = ask(t.self);
	serves();
	assert_int_equal(poll(&p, 1, 100), 0);
	mount_now();
	await_heir();
	assert_int_equal(send(t.heir, &e, sizeof(e), 0), sizeof(e));
	assert_string_equal(answer(p.fd).words, "the new process ended");
	serves();
}

static void of_root(void **state)
{
	char copy[64];
	struct heir_answer a;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(copy, sizeof(copy), "%s/copy", t.dir);
	assert_int_equal(close(open(copy, O_WRONLY | O_CREAT | O_EXCL, 0755)), 0);
	assert_int_equal(chmod(copy, 0775), 0);
	a = answer(ask(copy));
	assert_int_equal(a.pid, 0);
	assert_non_null(strstr(a.words, "root's"));
	assert_int_equal(chmod(copy, 0755), 0);
	assert_int_equal(chown(copy, 12001, 0), 0);
	a = answer(ask(copy));
	assert_non_null(strstr(a.words, "root's"));
}

/* Gives all to an heir that leaves something, and dies. */
static int of_a_leaver(enum act act)
{
	const struct estate e = {.act = act};
	int sock = ask(t.self);
	char byte;

	await_heir();
	assert_int_equal(send(t.heir, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(recv(t.heir, &byte, 1, 0), 1);
	assert_int_equal(spawner_yield(sp), 0);
	return sock;
}

/* From the moment at which it is the daemon its death is the end of nothing. */
static void dies_at_once(void **state)
{
	struct news n;

	(void)state;
	close(of_a_leaver(LEAVES));
	assert_int_equal(spawner_await(sp), -EPIPE);
	n = news();
	assert_int_equal(n.inherited, 0);
	assert_int_equal(n.ready, 0);
	assert_string_equal(n.left, "its own");
}

/* ... and before that it is nothing to the daemon that there is. */
static void dies_before(void **state)
{
	struct heir_answer a;
	int sock;

	(void)state;
	serves();
	sock = of_a_leaver(GOES_NONETHELESS);
	assert_int_equal(spawner_await(sp), 0);
	close(steal_fd(&t.heir));
	a = answer(sock);
	assert_int_equal(a.pid, 0);
	assert_string_equal(a.words, "the new process ended");
	serves();
}

static void leave_nothing(const void *data)
{
	(void)data;
}

/* The daemon before takes long to end, and the one that took the mount over dies meanwhile: one that goes
 * on is started. That the first ends then is no news of this one. */
static void a_slow_end(void **state)
{
	const pid_t former = getpid(), second = getppid(); /* nobody is killed by these */
	struct spawner_rules rules = free_rules;
	struct held held = {0};
	char *argv[] = {t.self, NULL};
	struct heir_gift gift = {.rules = &rules,
				 .held = &held,
				 .cwd = AT_FDCWD,
				 .program = -1,
				 .estate = -1,
				 .holder = -1,
				 .conf = -1,
				 .leave = leave_nothing};
	struct heir_answer a = {0};
	struct heir h;
	int line[2];
	pid_t third;

	(void)state;
	rules.argv = argv;
	heir_init(&h, &rules, heir_listen(&rules));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
	h.asker = line[0];
	h.pid = second;
	h.state = HEIR_LOADING;
	heir_succeeds(&h, former);
	assert_int_equal(heir_revive(&h, &gift, 0), 0);
	third = h.pid;
	assert_true(third > 0);
	heir_reaped(&h, former, 0);
	assert_int_equal(h.pid, third);
	assert_int_equal(recv(line[1], &a, sizeof(a), MSG_DONTWAIT), sizeof(a));
	assert_int_equal(a.pid, second);
	heir_end(&h, "");
	assert_int_equal(waitpid(third, NULL, 0), third);
	heir_leave(&h);
	close(line[1]);
}

int main(int argc, char *argv[])
{
#define heir_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		heir_test(another_daemon),
		heir_test(no_heir),
		heir_test(late),
		heir_test(of_another),
		heir_test(silent),
		heir_test(many_silent),
		heir_test(of_root),
		heir_test(dies_at_once),
		heir_test(dies_before),
		cmocka_unit_test(a_slow_end),
		cmocka_unit_test(no_room),
		cmocka_unit_test_setup_teardown(before_the_mount, setup_unmounted, teardown)};

	if (argc > 1 && strcmp(argv[1], HEIR_OPTION) == 0)
		return argc == (int)ARRAY_SIZE(t.argv) ? be_heir() : 13;
	if (argc > 1 && strncmp(argv[1], HEIR_OPTION_REVIVE, strlen(HEIR_OPTION_REVIVE)) == 0)
		return be_next();
	assert_non_null(realpath("/proc/self/exe", t.self));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
