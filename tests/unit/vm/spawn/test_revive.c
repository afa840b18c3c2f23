/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon dies: another one has its children, its descriptors and its estate; but not for ever. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/estate.h"
#include "vm/base/fdbag.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/memory.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"
#include "vm/jail/cell.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner_internal.h"

#define NOBODY 4711 /* a child that there never was */
#define CONF   "as it was read"

/* What the daemon leaves, and what becomes of that: memory that all of them share. */
struct left {
	uint32_t claimed; /* a child; 0: none */
	unsigned lent;	  /* number of a pipe's end; 0: none */
	bool never_ready; /* each ends before that */
	bool refuses;	  /* likewise, and says so */
	char turns[4];	  /* each in its turn: 'r': likewise; 'x': it ends; else it serves */
	bool stays;	  /* when it is asked to end */
	unsigned dies;	  /* so many end behind it */
	unsigned hang;	  /* so many say nothing any more */
	unsigned slow_ms; /* each takes so long, and says that it gets on */
	enum {
		COPIES_NOT,
		COPIES,
		COPIES_AND_DIES
	} copies;		/* this, and hands it over; the first ends then */
	_Atomic unsigned begun; /* how many were started */
	_Atomic unsigned last;	/* of these, only to end */
	_Atomic unsigned ready;
};

/* What one that serves says, over what is the mount's connection. */
struct news {
	pid_t pid;
	int inherited, lent, takes;
	uint32_t instance;
	char conf[32];
	struct spawn_note note; /* the first */
};

/* Return: 0 or less. */
static int hand_over_copy(struct spawner *mine, const struct left *e)
{
	_cleanup_close_ int fd = memory_new("copy");

	if (fd < 0 || write(fd, e, sizeof(*e)) != sizeof(*e))
		return -1;
	return spawner_copied(mine, fd);
}

static int be_heir(bool last)
{
	struct left *e =
		mmap(NULL, sizeof(*e), PROT_READ | PROT_WRITE, MAP_SHARED, HEIR_FD_ESTATE, 0);
	struct news news = {.pid = getpid()};
	struct fdbag bag = {.owned = true};
	struct spawner *mine = NULL;
	char byte;
	int fd;

	if (e == MAP_FAILED)
		return 2;
	e->begun++;
	e->last += last;
	if (e->stays)
		signal(SIGTERM, SIG_IGN);
	news.inherited = spawner_inherit(&mine);
	news.lent = lent_inherit(HEIR_FD_DAEMON, fdbag_set, &bag);
	if (e->refuses)
		spawner_refuse(mine, "its own words");
	if (e->begun <= sizeof(e->turns) && e->turns[e->begun - 1]) {
		if (e->turns[e->begun - 1] == 'r')
			spawner_refuse(mine, "not now");
		_exit(3);
	}
	if (e->begun <= e->hang)
		pause();
	for (unsigned ms = 0; ms < e->slow_ms; ms += 100) {
		spawner_alive(mine);
		usleep(100000);
	}
	if (e->never_ready || news.inherited < 0 || news.lent < 0)
		_exit(3); /* whatever it has still is no leak */
	news.instance = jail_instance_id();
	(void)!pread(HEIR_FD_CONF, news.conf, sizeof(news.conf) - 1, 0);
	fd = fdbag_take(&bag, e->lent);
	news.takes = fd >= 0 && write(fd, "w", 1) == 1;
	fdbag_clear(&bag);
	if ((e->claimed && spawner_claim(mine, e->claimed) < 0) || spawner_claim(mine, NOBODY) < 0)
		return 4;
	if (e->copies && hand_over_copy(mine, e) < 0)
		return 8;
	if (e->copies == COPIES_AND_DIES && e->begun == 1)
		_exit(3);
	if (spawner_ready(mine) < 0)
		return 5;
	if (e->ready++ < e->dies)
		abort();
	fcntl(HEIR_FD_SPAWNER, F_SETFL, 0);
	do
		if (recv(HEIR_FD_SPAWNER, &news.note, sizeof(news.note), 0) != sizeof(news.note))
			return 6;
	while (news.note.op == SPAWN_NOTE_LOG);
	if (!last && send(HEIR_FD_CONNECTION, &news, sizeof(news), MSG_NOSIGNAL) < 0)
		return 7;
	/* It serves until the test is over. */
	if (!last)
		(void)!recv(HEIR_FD_CONNECTION, &byte, 1, 0);
	spawner_stop(mine);
	return 0;
}

/* ---- the test is the daemon ---- */

static struct {
	char dir[32], self[4096];
	char *argv[2];
	int connection[2];
	int estate;
	struct left *e, was; /* it, and what it was at the end */
	pid_t guard;
	bool died;
	FILE *log; /* the guard's */
	char said[4096];
	int patience_ms; /* of the spawner, or 0 */
	int lent[2];	 /* a pipe; the writing end is lent */
} t;

/* So many holders can't be told of at first: there are too many descriptors on their way. The spawner
 * counts. */
static atomic_int *crowded;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct spawn_note note = {0};

	if (message->msg_controllen && message->msg_iov->iov_len == sizeof(note))
		memcpy(&note, message->msg_iov->iov_base, sizeof(note));
	if (crowded && note.op == SPAWN_NOTE_HOLDER && atomic_fetch_sub(crowded, 1) > 0) {
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Return: a file in memory with this text. */
static int text_file(const char *text)
{
	const int fd = memory_new("conf");

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

/* All but that it counts. */
static void prepare(unsigned deaths)
{
	_cleanup_close_ int conf = text_file(CONF);
	struct spawner_rules rules = free_rules;
	int holder, err;

	snprintf(t.dir, sizeof(t.dir), "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t.connection), 0);
	t.argv[0] = t.self;
	t.died = false;
	rules.argv = t.argv;
	rules.runtime_dir = t.dir;
	rules.mountpoint = "/nothing/is/mounted/here";
	rules.deaths = deaths;
	rules.patience_ms = t.patience_ms;
	assert_int_equal(memory_seal(conf), 0);
	rules.conf = conf;
	t.log = tmpfile();
	assert_non_null(t.log);
	err = dup(STDERR_FILENO);
	dup2(fileno(t.log), STDERR_FILENO);
	t.guard = spawner_fixture_fork(&rules, &sp);
	dup2(err, STDERR_FILENO);
	close(err);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(spawner_attach(sp, &loop), 0);
	assert_int_equal(spawner_mounted(sp, t.connection[1]), 0);
	close(t.connection[1]);
	t.estate = memfd_create("estate", MFD_CLOEXEC);
	assert_int_equal(ftruncate(t.estate, sizeof(*t.e)), 0);
	t.e = mmap(NULL, sizeof(*t.e), PROT_READ | PROT_WRITE, MAP_SHARED, t.estate, 0);
	assert_true(t.e != MAP_FAILED);
	assert_int_equal(spawner_estate(sp, t.estate, &holder), 0);
	assert_int_equal(lent_begin(holder), 0);
	assert_int_equal(pipe2(t.lent, O_CLOEXEC), 0);
	t.e->lent = lent_put(t.lent[1]);
	assert_int_equal(t.e->lent, 1);
}

static void begin(unsigned deaths)
{
	prepare(deaths);
	assert_int_equal(spawner_survives(sp), 0);
}

static void nothing(void *data)
{
	(void)data;
}

/* Without a goodbye. */
static void die(void)
{
	struct unsent *u;
	struct child *c;

	while ((c = TAILQ_FIRST(&sp->children)))
		TAILQ_REMOVE(&sp->children, c, link);
	spawner_detach(sp, nothing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	lent_end();
	close(t.lent[1]);
	close(sp->sock);
	close(sp->tie);
	free(sp->over);
	while ((u = STAILQ_FIRST(&sp->unsent))) {
		STAILQ_REMOVE_HEAD(&sp->unsent, link);
		for (size_t i = 0; i < u->nfds; i++)
			close(u->fds[i]);
		free(u);
	}
	free(sp);
	t.died = true;
}

/* Return: how all that ended, as of the guard. */
static int end(void)
{
	int status = -1;

	if (!t.died) {
		spawner_detach(sp, nothing, NULL);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_int_equal(uv_loop_close(&loop), 0);
		lent_end();
		close(t.lent[1]);
		spawner_fixture_goodbye(sp);
	}
	close(t.connection[0]); /* ends one that serves */
	assert_int_equal(waitpid(t.guard, &status, 0), t.guard);
	assert_int_equal(access(t.dir, F_OK), -1); /* which is removed, whoever ends it */
	if (t.died)
		spawner_fixture_killed();
	close(t.lent[0]);
	rewind(t.log);
	t.said[fread(t.said, 1, sizeof(t.said) - 1, t.log)] = '\0';
	fclose(t.log);
	t.was = *t.e;
	munmap(t.e, sizeof(*t.e));
	close(t.estate);
	return status;
}

static struct news news(void)
{
	struct news n = {0};

	assert_int_equal(recv(t.connection[0], &n, sizeof(n), 0), sizeof(n));
	return n;
}

static bool started;

static void on_started(struct child *c)
{
	(void)c;
	started = true;
}

static void on_failed(struct child *c, int err, const char *step)
{
	(void)c;
	fail_msg("%s: %s", step, strerror(-err));
}

static bool exited;

static void on_exited(struct child *c, int status)
{
	(void)c;
	(void)status;
	exited = true;
}

/* Return: a pidfd of it. */
static int start_child(struct child *c)
{
	const char *const argv[] = {"/bin/sleep", "1000", NULL}, *const envp[] = {NULL};
	const struct free_job job = {.argv = argv, .envp = envp};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {.request = request, .size = (size_t)n};

	started = exited = false;
	*c = (struct child){.started = on_started, .failed = on_failed, .exited = on_exited};
	assert_int_equal(child_start(sp, &spec, c), 0);
	spawner_fixture_await(&started);
	return c->pidfd;
}

static bool ends_within(int pidfd, int ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* ---- tests ---- */

static void another_goes_on(void **state)
{
	_cleanup_close_ int kept = -1, other = -1;
	struct child claimed, unknown;
	struct news n;
	char byte;

	(void)state;
	begin(0);
	kept = start_child(&claimed);
	other = start_child(&unknown);
	t.e->claimed = claimed.id;
	die();
	n = news();
	assert_int_equal(n.inherited, 0);
	assert_int_equal(n.instance, jail_instance_id());
	assert_string_equal(n.conf, CONF);
	assert_int_equal(n.lent, 0);
	assert_true(n.takes);
	assert_int_equal(read(t.lent[0], &byte, 1), 1);
	/* What is not known any more has ended. */
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, NOBODY);
	assert_true(ends_within(other, patience_ms()));
	assert_false(ends_within(kept, 50));
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(t.e->last, 0);
	assert_int_equal(end(), 0); /* its own end is a good one */
	assert_true(ends_within(kept, patience_ms()));
}

static int write_nothing(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	return 0;
}

/* The daemon has heard how its child ended, and dies before it has written that down: the next one hears the same. */
static void an_end_is_told_again(void **state)
{
	static const struct turn_ops ops = {.write = write_nothing};
	struct estate *e;
	struct turn turn;
	struct child c;
	struct news n;

	(void)state;
	begin(0);
	assert_int_equal(estate_new(&e), 0);
	turn_start(&turn, &loop, e, &ops, NULL);
	spawner_set_turn(sp, &turn);
	(void)start_child(&c);
	assert_int_equal(kill(c.pid, SIGTERM), 0);
	while (!exited)
		uv_run(&loop, UV_RUN_ONCE); /* and not to the end of the turn */
	t.e->claimed = c.id;
	turn_hush(&turn, &sp->acknowledges); /* that is how it dies */
	turn_close(&turn);
	die();
	n = news();
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, c.id);
	assert_int_equal(n.note.status, SIGTERM);
	assert_int_equal(end(), 0);
	estate_free(e);
}

/* One after the other dies; the one behind the last of them serves. */
static void again(void **state)
{
	struct news n;

	(void)state;
	begin(1000);
	t.e->dies = 7;
	die();
	n = news();
	assert_true(n.takes);
	assert_int_equal(t.e->begun, 8);
	assert_int_equal(t.e->last, 0);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	n = news();
	assert_true(n.takes);
	assert_int_equal(t.e->begun, 9);
	assert_int_equal(end(), 0);
}

/* Too often: the last is to end in good order. */
static void the_last(void **state)
{
	(void)state;
	begin(2);
	t.e->dies = 1;
	die();
	assert_int_equal(end(), 0);
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.ready, 2);
	assert_int_equal(t.was.last, 1);
}

/* ... and if it can't, the mount ends as if there had been no estate. */
static void no_other(void **state)
{
	int status;

	(void)state;
	begin(2);
	t.e->never_ready = true;
	die();
	status = end();
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.last, 1);
	/* There is nobody else who could tell, from the first to the last. */
	assert_non_null(
		strstr(t.said,
		       "the daemon died: it was killed by signal 9 (Killed); another one goes on"));
	assert_non_null(
		strstr(t.said, "the daemon died: it ended with status 3; that is too often"));
	assert_non_null(strstr(
		t.said, "the daemon died 3 times in a row, at last: it ended with status 3"));
}

/* Who can't go on with what there is, and says why, has not died, and is asked but twice. */
static void who_refuses(void **state)
{
	(void)state;
	begin(0);
	t.e->refuses = true;
	die();
	assert_true(WIFSIGNALED(end()));
	assert_int_equal(t.was.begun, 2);
	assert_int_equal(t.was.last, 0);
	assert_non_null(
		strstr(t.said, "no other daemon can go on, and the mount ends: its own words"));
	assert_null(strstr(t.said, "times in a row"));
}

/* The directory where the mount was made is gone. */
static void from_nowhere(void **state)
{
	char dir[] = "/tmp/xsbxfs-unit.XXXXXX", before[4096];

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	begin(0);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(rmdir(dir), 0);
	die();
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(end(), 0);
}

#define PATIENCE_MS 800

/* Who hangs is given up after a while, as if it had died. */
static void who_hangs(void **state)
{
	(void)state;
	t.patience_ms = PATIENCE_MS;
	begin(0);
	t.patience_ms = 0;
	t.e->hang = 1;
	die();
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 2);
	assert_int_equal(end(), 0);
}

/* ... but not who has much to do. */
static void who_is_slow(void **state)
{
	(void)state;
	t.patience_ms = PATIENCE_MS;
	begin(0);
	t.patience_ms = 0;
	t.e->slow_ms = 2 * PATIENCE_MS + PATIENCE_MS / 2;
	die();
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(end(), 0);
}

/* One that ends while an heir loads is reaped then, and not when that is ready. */
static void reaped_meanwhile(void **state)
{
	struct child c;
	char path[32];
	struct news n;

	(void)state;
	begin(0);
	close(start_child(&c));
	snprintf(path, sizeof(path), "/proc/%d", (int)c.pid);
	t.e->claimed = c.id;
	t.e->slow_ms = 1500;
	die();
	while (t.e->begun < 1)
		usleep(1000);
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	for (unsigned ms = 0; access(path, F_OK) == 0; ms += 10) {
		assert_in_range(ms, 0, 1200);
		usleep(10000);
	}
	assert_int_equal(t.e->ready, 0);
	n = news();
	assert_true(n.takes);
	assert_int_equal(n.note.op, SPAWN_NOTE_EXITED);
	assert_int_equal(n.note.id, c.id);
	assert_int_equal(end(), 0);
}

/* The next one would come after five seconds. */
static void asked_meanwhile(void **state)
{
	struct timespec from, to;

	(void)state;
	begin(3);
	t.e->dies = 1;
	t.e->stays = true;
	die();
	while (t.e->ready < 1)
		usleep(1000);
	usleep(300000);
	assert_int_equal(t.e->begun, 1);
	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(kill(t.guard, SIGTERM), 0);
	assert_true(news().takes);
	clock_gettime(CLOCK_MONOTONIC, &to);
	assert_in_range(to.tv_sec - from.tv_sec, 0, 3);
	assert_int_equal(end(), 0);
}

static void a_goodbye(void **state)
{
	(void)state;
	begin(0);
	assert_int_equal(end(), 0);
	assert_int_equal(t.was.begun, 0);
}

/* There is nothing to go on with: neither when that was given up, nor without the holder. */
static void nothing_left(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		begin(0);
		if (i == 0) {
			assert_int_equal(spawner_estate(sp, -1, NULL), 0);
		} else {
			const pid_t holder = spawner_fixture_child("xsbxfs-holder");
			_cleanup_close_ int fd = pidfd_open(holder, 0);

			assert_true(fd >= 0);
			assert_int_equal(kill(holder, SIGKILL), 0);
			assert_true(ends_within(fd, patience_ms()));
		}
		die();
		assert_true(WIFSIGNALED(end()));
		assert_int_equal(t.was.begun, 0);
	}
}

/* ---- holders ---- */

static struct {
	int fd; /* of the one that was heard of last; or -1 */
	unsigned lost, begun;
	bool never;
} holders;

static void on_holder(void *data, int fd, bool never)
{
	(void)data;
	if (holders.fd >= 0)
		close(holders.fd);
	holders.fd = fd;
	holders.lost += fd < 0;
	holders.begun += fd >= 0;
	holders.never |= never;
}

static void begin_with_holder(void)
{
	begin(0);
	memset(&holders, 0, sizeof(holders));
	holders.fd = -1;
	spawner_on_holder(sp, on_holder, NULL);
}

/* Until the daemon has heard of that, and of @n others. */
static void kill_holder(unsigned n)
{
	const unsigned lost = holders.lost + 1, begun = holders.begun + n;

	assert_int_equal(kill(spawner_fixture_child("xsbxfs-holder"), SIGKILL), 0);
	while (holders.lost < lost || holders.begun < begun)
		uv_run(&loop, UV_RUN_ONCE);
}

/* One that has ended is followed by another one, which has nothing until the daemon has lent it all. */
static void the_next_holder(void **state)
{
	(void)state;
	begin_with_holder();
	for (int i = 0; i < 2; i++) {
		kill_holder(1);
		assert_false(holders.never);
		lent_again(steal_fd(&holders.fd));
		lent_committed();
		assert_false(lent_is_away());
		assert_int_equal(spawner_survives(sp), 0);
	}
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* The daemon dies before that; or says it of the one before. */
static void not_lent_again(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		begin_with_holder();
		kill_holder(1);
		if (i == 1) {
			sp->holder_number--;
			assert_int_equal(spawner_survives(sp), 0);
		}
		die();
		close(steal_fd(&holders.fd));
		assert_true(WIFSIGNALED(end()));
		assert_int_equal(t.was.begun, 0);
		assert_non_null(
			strstr(t.said, "no other daemon can go on: the process that holds"));
	}
}

/* The daemon says that it does not hear; of one that was replaced already that is nothing new. */
static void a_deaf_one(void **state)
{
	pid_t first, second;

	(void)state;
	begin_with_holder();
	first = spawner_fixture_child("xsbxfs-holder");
	assert_int_equal(kill(first, SIGSTOP), 0);
	assert_int_equal(spawner_holder_deaf(sp, false), 0);
	assert_int_equal(spawner_holder_deaf(sp, false), 0);
	while (!holders.begun)
		uv_run(&loop, UV_RUN_ONCE);
	lent_again(steal_fd(&holders.fd));
	lent_committed();
	assert_int_equal(spawner_survives(sp), 0);
	while ((second = spawner_fixture_child("xsbxfs-holder")) == first)
		usleep(1000); /* it is dead, and not reaped yet */
	sp->holder_number--;
	assert_int_equal(spawner_holder_deaf(sp, false), 0);
	die();
	assert_true(news().takes);
	assert_int_equal(kill(second, 0), 0);
	assert_int_equal(holders.begun, 1);
	assert_int_equal(end(), 0);
}

/* Not for ever. */
static void no_more_holders(void **state)
{
	(void)state;
	begin_with_holder();
	for (int i = 0; i < 6; i++) {
		kill_holder(1);
		lent_again(steal_fd(&holders.fd));
		lent_committed();
		assert_int_equal(spawner_survives(sp), 0);
	}
	kill_holder(0);
	assert_true(holders.never);
	die();
	assert_true(WIFSIGNALED(end()));
	assert_int_equal(t.was.begun, 0);
}

/* The daemon lends the one that it has heard of last all that there is. */
static void lend_again(void)
{
	assert_false(holders.never);
	lent_again(steal_fd(&holders.fd));
	lent_committed();
	assert_false(lent_is_away());
	assert_int_equal(spawner_survives(sp), 0);
}

static void await_holder(unsigned begun)
{
	while (holders.begun < begun)
		uv_run(&loop, UV_RUN_ONCE);
}

/* ... but one that can't be told for want of room has not ended, however often that is. */
static void no_deaths(void **state)
{
	(void)state;
	begin_with_holder();
	for (unsigned i = 1; i <= 8; i++) {
		assert_int_equal(spawner_holder_deaf(sp, true), 0);
		await_holder(i);
		lend_again();
	}
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* Nor is the spawner to take one for lost that it could not speak of at once. */
static void a_crowd(void **state)
{
	(void)state;
	atomic_store(crowded, 1);
	begin_with_holder(); /* the daemon waits for the answer */
	atomic_store(crowded, 150);
	kill_holder(1); /* one of them is not told of in time, which is not counted */
	lend_again();
	assert_true(atomic_load(crowded) <= 0);
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* The spawner reads nothing for a while; there is no room in the socket. */
static void stop_and_fill(void)
{
	const struct spawn_request none = {.op = SPAWN_OP_LOG, .id = LOG_NLEVELS};

	assert_int_equal(kill(spawner_pid(sp), SIGSTOP), 0);
	for (int i = 0; i < 3; i++) { /* until it has stopped, and there is none still */
		while (fdpass_send(sp->sock, &none, sizeof(none), NULL, 0, MSG_DONTWAIT) > 0)
			;
		usleep(10000);
	}
}

static void go_on(void)
{
	assert_int_equal(kill(spawner_pid(sp), SIGCONT), 0);
	while (!STAILQ_EMPTY(&sp->unsent))
		uv_run(&loop, UV_RUN_ONCE);
}

/* What the daemon has to say of holders is said when there is room again. */
static void said_later(void **state)
{
	(void)state;
	begin_with_holder();
	stop_and_fill();
	assert_int_equal(spawner_holder_deaf(sp, false), 0);
	go_on();
	await_holder(1);
	lent_again(steal_fd(&holders.fd));
	lent_committed();
	stop_and_fill();
	assert_int_equal(spawner_survives(sp), 0);
	go_on();
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* A daemon that does not read does not keep the spawner from anything. */
static void who_does_not_read(void **state)
{
	struct spawn_request req = {.op = SPAWN_OP_SPAWN};
	struct child c;
	int fd;

	(void)state;
	begin(0);
	fd = start_child(&c);
	for (req.id = 1000; req.id < 2000; req.id++) /* each is refused, and that is said */
		assert_int_equal(spawner_send(sp, &req, sizeof(req), NULL, 0), 0);
	req = (struct spawn_request){.op = SPAWN_OP_KILL, .id = c.id};
	assert_int_equal(spawner_send(sp, &req, sizeof(req), NULL, 0), 0);
	assert_true(ends_within(fd, patience_ms()));
	spawner_fixture_await(&exited);
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* What came along with what nobody understands is the spawner's to close, also if the daemon is gone. */
static void what_comes_along(void **state)
{
	int ends[2], fds[SPAWN_FDS_MAX];
	struct pollfd p = {.events = 0};
	pid_t spawner;

	(void)state;
	begin(0);
	spawner = spawner_pid(sp);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (size_t i = 0; i < SPAWN_FDS_MAX; i++)
		fds[i] = ends[1];
	assert_int_equal(kill(spawner, SIGSTOP), 0);
	assert_int_equal(fdpass_send(sp->sock, "", 1, fds, SPAWN_FDS_MAX, 0), 1);
	close(ends[1]);
	die();
	assert_int_equal(kill(spawner, SIGCONT), 0);
	assert_true(news().takes);
	p.fd = ends[0];
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_true(p.revents & POLLHUP);
	close(ends[0]);
	assert_int_equal(end(), 0);
}

/* An estate for which the spawner has no descriptor left is one that it did not get: that is said, and
 * what there was before counts still. */
static void lost_on_its_way(void **state)
{
	struct rlimit before, few;
	int holder = -1;

	(void)state;
	begin(0);
	assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){5, before.rlim_max}; /* as many as it polls, and has already */
	assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, &few, NULL), 0);
	assert_int_equal(spawner_estate(sp, t.estate, &holder), -ENOTSUP);
	assert_int_equal(prlimit(spawner_pid(sp), RLIMIT_NOFILE, &before, NULL), 0);
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* Who refuses is asked but twice in a row, of which a death is the end. */
static void now_and_then(void **state)
{
	(void)state;
	begin(0);
	memcpy(t.e->turns, "rxr", 4);
	die();
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 4);
	assert_int_equal(end(), 0);
}

/* Nothing is written there yet, and nobody knows of a mount. */
static void too_early(void **state)
{
	(void)state;
	prepare(0);
	die();
	assert_true(WIFSIGNALED(end()));
	assert_int_equal(t.was.begun, 0);
}

/* A second estate counts as soon as the daemon says so; until then the first does. */
static void not_yet(void **state)
{
	_cleanup_close_ int empty = memfd_create("empty", MFD_CLOEXEC);
	int holder;

	(void)state;
	begin(0);
	assert_int_equal(spawner_estate(sp, empty, &holder), 0);
	close(holder);
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* A second estate is the one that counts; so does its holder. */
static void another_estate(void **state)
{
	int holder;

	(void)state;
	begin(0);
	lent_end();
	assert_int_equal(spawner_estate(sp, t.estate, &holder), 0);
	assert_int_equal(lent_begin(holder), 0);
	assert_int_equal(lent_put(t.lent[0]), 1);
	assert_int_equal(lent_put(t.lent[1]), 2);
	t.e->lent = 2;
	assert_int_equal(spawner_survives(sp), 0);
	die();
	assert_true(news().takes);
	assert_int_equal(end(), 0);
}

/* What an heir has copied counts as soon as it is the daemon: the first estate nobody looks at any more. */
static void a_copy(void **state)
{
	struct news n;

	(void)state;
	begin(0);
	t.e->copies = COPIES;
	die();
	n = news();
	assert_int_equal(t.e->begun, 1);
	t.e->copies = COPIES_NOT;
	t.e->never_ready = true; /* who goes by it does not get far */
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	n = news();
	assert_true(n.takes);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 1);
	assert_int_equal(end(), 0);
}

/* ... and not before. */
static void a_copy_too_early(void **state)
{
	(void)state;
	begin(0);
	t.e->copies = COPIES_AND_DIES;
	die();
	assert_true(news().takes);
	assert_int_equal(t.e->begun, 2);
	assert_int_equal(end(), 0);
}

/* What the next one goes by is not for the daemon to say, who may be anybody by then; nor for one that goes on. */
static void what_it_goes_by(void **state)
{
	_cleanup_close_ int other = text_file("as it likes");
	struct news n;

	(void)state;
	begin(0);
	assert_int_equal(memory_seal(other), 0);
	assert_int_equal(spawner_conf(sp, other), 0);
	die();
	n = news();
	assert_true(n.takes);
	assert_string_equal(n.conf, CONF);
	assert_int_equal(kill(n.pid, SIGKILL), 0);
	assert_string_equal(news().conf, CONF);
	assert_int_equal(end(), 0);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_goes_on),   cmocka_unit_test(again),
		cmocka_unit_test(the_last),	     cmocka_unit_test(no_other),
		cmocka_unit_test(a_goodbye),	     cmocka_unit_test(nothing_left),
		cmocka_unit_test(another_estate),    cmocka_unit_test(what_it_goes_by),
		cmocka_unit_test(who_refuses),	     cmocka_unit_test(from_nowhere),
		cmocka_unit_test(asked_meanwhile),   cmocka_unit_test(an_end_is_told_again),
		cmocka_unit_test(too_early),	     cmocka_unit_test(who_hangs),
		cmocka_unit_test(who_is_slow),	     cmocka_unit_test(reaped_meanwhile),
		cmocka_unit_test(not_yet),	     cmocka_unit_test(a_copy),
		cmocka_unit_test(a_copy_too_early),  cmocka_unit_test(the_next_holder),
		cmocka_unit_test(not_lent_again),    cmocka_unit_test(a_deaf_one),
		cmocka_unit_test(no_more_holders),   cmocka_unit_test(no_deaths),
		cmocka_unit_test(a_crowd),	     cmocka_unit_test(said_later),
		cmocka_unit_test(who_does_not_read), cmocka_unit_test(what_comes_along),
		cmocka_unit_test(lost_on_its_way),   cmocka_unit_test(now_and_then)};

	if (argc > 1 && strncmp(argv[1], HEIR_OPTION_REVIVE, strlen(HEIR_OPTION_REVIVE)) == 0)
		return be_heir(strncmp(argv[1], HEIR_OPTION_LAST, strlen(HEIR_OPTION_LAST)) == 0);
	assert_non_null(realpath("/proc/self/exe", t.self));
	crowded = mmap(NULL, sizeof(*crowded), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(crowded != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
