/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's end of the protocol, fed with frames, against a real directory and a fake interpreter. */
/* modules: agent/agent.c agent/lease.c agent/server.c agent/core/chance.c agent/core/filter.c agent/core/reach.c agent/core/kin.c agent/core/chacha.c agent/core/code.c agent/core/conn.c agent/protocol.c agent/link.c agent/files/files.c agent/files/tree.c agent/files/watch.c agent/files/watchdir.c agent/files/attr.c agent/files/io.c agent/files/ops.c agent/files/lock.c agent/files/locks.c agent/files/lockbook.c agent/files/node.c agent/files/number.c agent/files/inodes.c agent/files/origin.c agent/files/note.c agent/files/pack.c agent/files/unpack.c agent/files/walk.c agent/files/clear.c agent/pack_record.c agent/interp/rest.c agent/core/log.c agent/core/loop.c agent/core/learn.c agent/run/oom.c agent/run/run.c agent/job/job.c agent/job/program.c agent/job/tty.c agent/guest/swap.c agent/interp/spare.c agent/interp/loss.c agent/output/output.c agent/output/stream.c agent/output/apart.c agent/output/journal.c agent/output/records.c agent/output/pipe.c agent/output/drain.c agent/run/stdin.c agent/core/proc.c agent/core/proc_signal.c agent/run/acct.c agent/guest/quota.c agent/guest/clock.c agent/interp/config.c agent/run/ipc.c agent/guest/net.c agent/guest/ca.c vm/base/io.c agent/still.c agent/freeze.c agent/resume.c */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/server.h"
#include "agent/job/holder.h"
#include "agent/run/killer.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * The first byte of an input chooses between ways to read the rest: as a byte stream, sent after a HELLO, as it is or in
 * records of the link; or as rows {type, flags, id, u16 length, payload}, each of which becomes
 * a frame with a good header. Frames are fed one by one, and the loop goes round a few times
 * between them, so that runs have time to get somewhere.
 *
 * The interpreter is a fake that never starts a process: a turn writes its code to both streams,
 * and the first byte of the code says how it ends. The directory is real, on a tmpfs where there is
 * one, with a limit on the size of files.
 */

#define FILE_MAX (2u << 20)
#define ROUNDS	 4 /* loop iterations between two frames */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct agent agent;
	int turn_fds[2]; /* copies of stdout and stderr, as an interpreter holds them */
	int verdict;	 /* first byte of the code */

	int host; /* our end of the connection */
	const uint8_t *next, *end;
	bool raw, link;
	struct link_out to;
	unsigned idle;
	bool (*before_wait)(struct loop *l);
	unsigned nholders;
	bool dying[256]; /* holders, by their number */
} fuzz;

static char root[64];

/* ---- the fake interpreter ---- */

static void on_answer(struct loop_timer *t)
{
	struct interp *i = container_of(t, struct interp, deadline);
	struct rusage ru = {0};
	bool dies = fuzz.verdict == 'd' && i->doing == DRIVER_RUN;
	enum interp_state was = i->state;

	if (i->state == INTERP_ENDING || dies) {
		i->state = INTERP_NONE;
		i->pid = 0;
		i->on_death(i, i->state == was ? was : INTERP_BUSY, fuzz.verdict << 8, &ru);
	} else if (i->state == INTERP_STARTING) {
		i->state = INTERP_IDLE;
		i->on_ready(i);
	} else if (i->state == INTERP_BUSY && !(fuzz.verdict == 'h' && i->doing == DRIVER_RUN)) {
		i->state = INTERP_IDLE;
		i->on_done(i, i->doing, fuzz.verdict);
	}
}

int interp_start(struct interp *i, enum interp_rank rank, const char **ret_step)
{
	*ret_step = "fake";
	i->rank = rank;
	i->used = i->warm = i->killed = false;
	i->can_copy = i->can_order = true;
	i->deadline.fire = on_answer;
	i->pid = getpid(); /* whose counters can be read */
	i->state = INTERP_STARTING;
	strcpy(i->version, "Fake 1.0");
	loop_arm(i->loop, &i->deadline, 0);
	return 0;
}

static int interp_begin(struct interp *i, enum driver_type what)
{
	i->doing = what;
	i->state = INTERP_BUSY;
	loop_arm(i->loop, &i->deadline, 0);
	return 0;
}

int interp_run(struct interp *i, uint32_t turn, const int fds[DRIVER_NFDS], uint32_t code_len,
	       unsigned how, const uint8_t *seed)
{
	char code[4096];
	ssize_t n = pread(fds[3], code, sizeof(code), 0);

	(void)turn;
	(void)code_len;
	(void)how;
	(void)seed;
	i->used = true;
	fuzz.verdict = n > 0 ? (unsigned char)code[0] : 0;
	for (int k = 0; k < 2; k++) {
		close_fd(&fuzz.turn_fds[k]);
		fuzz.turn_fds[k] = fcntl(fds[1 + k], F_DUPFD_CLOEXEC, 0);
		if (n > 0 && write(fds[1 + k], code, (size_t)n) < 0)
			abort();
	}
	/* Not all of it need be one. */
	if (fds[DRIVER_FD_RECORDS] >= 0 && n > 0 &&
	    write(fds[DRIVER_FD_RECORDS], code, (size_t)n) < 0)
		abort();
	return interp_begin(i, DRIVER_RUN);
}

int interp_copy(struct interp *from, struct interp *to)
{
	const char *step;

	(void)interp_begin(from, DRIVER_COPY);
	return interp_start(to, INTERP_SPARE, &step);
}

void interp_set_rank(struct interp *i, enum interp_rank rank)
{
	i->rank = rank;
}

void interp_hurry(struct interp *i)
{
	(void)i;
}

void interp_rest(struct interp *i)
{
	(void)i;
}

void interp_tidy(struct interp *i)
{
	(void)i;
}

bool interp_nudge(struct interp *i)
{
	return i->state == INTERP_IDLE;
}

bool interp_prepare(struct interp *i)
{
	return i->state == INTERP_IDLE;
}

bool interp_ask_timers(struct interp *i)
{
	i->timers = 0;
	return true;
}

bool interp_unread(const struct interp *i)
{
	(void)i;
	return false;
}

bool interp_is_deaf(const struct interp *i)
{
	(void)i;
	return false;
}

bool interp_listens(const struct interp *i)
{
	(void)i;
	return true;
}

void interp_fini(struct interp *i)
{
	i->state = INTERP_NONE;
}

int interp_warm(struct interp *i)
{
	return interp_begin(i, DRIVER_WARM);
}

int interp_seed(struct interp *i, const uint8_t seed[32])
{
	(void)seed;
	return interp_begin(i, DRIVER_SEED);
}

void interp_interrupt(struct interp *i)
{
	fuzz.verdict = 130;
	loop_arm(i->loop, &i->deadline, 0);
}

void interp_give_up(struct interp *i)
{
	interp_kill(i);
}

void interp_kill(struct interp *i)
{
	if (i->state == INTERP_NONE || i->state == INTERP_ENDING)
		return;
	i->was = i->state;
	i->state = INTERP_ENDING;
	i->killed = true;
	loop_arm(i->loop, &i->deadline, 0);
}

bool interp_reaped(struct interp *i, pid_t pid, int wait_status, const struct rusage *ru)
{
	(void)i;
	(void)pid;
	(void)wait_status;
	(void)ru;
	return false;
}

void interp_log_end(const char *which, enum interp_state was, int wait_status)
{
	(void)which;
	(void)was;
	(void)wait_status;
}

/* ---- the fake holder: its job has echoed its code, and says how it ended by its first byte ---- */

static void report(int fd, const struct holder_report *r)
{
	if (write(fd, r, sizeof(*r)) < 0)
		abort();
}

/* No such process can be. */
static pid_t holder_pid(unsigned n)
{
	return (pid_t)(INT32_MAX - (int)n);
}

int holder_pipe(int *ret_ours, int *ret_its)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	*ret_ours = fds[0];
	*ret_its = fds[1];
	return 0;
}

int holder_start(const struct spawn *s, int fd, pid_t *ret_pid)
{
	struct holder_report r = {.news = HOLDER_STARTED, .pid = holder_pid(1000)};
	char code[4096] = "";
	ssize_t n = s->ctl_fd < 0 ? 0 : pread(s->ctl_fd, code, sizeof(code), 0);

	if (code[0] == 'n' || fuzz.nholders == ARRAY_SIZE(fuzz.dying))
		return -EAGAIN;
	if (n > 0 &&
	    (write(s->out_fd, code, (size_t)n) < 0 || write(s->err_fd, code, (size_t)n) < 0))
		abort();
	r.news = code[0] == 'f' ? HOLDER_FAILED : HOLDER_STARTED;
	if (code[0] != 's')
		report(fd, &r);
	r.news = HOLDER_ENDED;
	r.status = (unsigned char)code[0] << 8;
	if (code[0] != 'h' && code[0] != 'f' && code[0] != 's')
		report(fd, &r);
	*ret_pid = holder_pid(++fuzz.nholders);
	return 0;
}

/* Those below which all was killed. */
static void holders_reap(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(fuzz.dying); i++) {
		if (fuzz.dying[i])
			(void)jobs_reaped(&fuzz.agent.jobs, holder_pid(i), 0);
		fuzz.dying[i] = false;
	}
}

/* ---- the fake killer: there is nobody to kill but the interpreter ---- */

static void on_fake_kill(struct loop_timer *t)
{
	struct killer *k = container_of(t, struct killer, timer);

	k->active = false;
	if (k->scope.holder)
		fuzz.dying[INT32_MAX - k->scope.holder] = true;
	else
		interp_kill(fuzz.agent.spares.active);
	k->done(k);
}

void killer_start(struct killer *k, const struct proc_scope *scope, uint64_t grace_us)
{
	(void)grace_us;
	k->active = true;
	k->scope = scope ? *scope : (struct proc_scope){0};
	k->timer.fire = on_fake_kill;
	loop_arm(k->loop, &k->timer, 0);
}

void killer_ignore(struct killer *k, pid_t pid)
{
	(void)k;
	(void)pid;
}

void killer_hurry(struct killer *k)
{
	(void)k;
}

void killer_all(void)
{
}

/* ---- the fake freezer: nothing of the machine's may be stopped ---- */

static void on_fake_freeze(struct loop_timer *t)
{
	struct freezer *f = container_of(t, struct freezer, timer);

	assert(f->state == FREEZER_FREEZING);
	f->state = FREEZER_FROZEN;
	f->done(f, 0);
}

int freezer_start(struct freezer *f)
{
	assert(f->state == FREEZER_THAWED);
	f->state = FREEZER_FREEZING;
	f->timer.fire = on_fake_freeze;
	loop_arm(f->loop, &f->timer, 0);
	return 0;
}

int freezer_check(const struct freezer *f)
{
	assert(f->state == FREEZER_FROZEN);
	return 0;
}

void freezer_thaw(struct freezer *f)
{
	if (f->state == FREEZER_THAWED)
		return;
	f->state = FREEZER_THAWED;
	loop_disarm(f->loop, &f->timer);
}

/* ---- the host ---- */

static void host_send(const void *data, size_t len)
{
	if (send(fuzz.host, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN &&
	    errno != EPIPE)
		abort();
}

/* As a record of the link. */
static void host_record(const void *data, size_t len)
{
	static uint8_t record[LINK_RECORD_MAX];
	const uint8_t *p = data;

	while (len) {
		const size_t n = len < LINK_DATA_MAX ? len : LINK_DATA_MAX;

		link_head(&fuzz.to, n, record);
		memcpy(record + LINK_HEADER, p, n);
		host_send(record, LINK_HEADER + n);
		p += n;
		len -= n;
	}
}

static void host_frame(unsigned type, uint8_t flags, uint32_t id, const uint8_t *payload,
		       size_t len)
{
	struct proto_header h = {.length = (uint32_t)len,
				 .type = (uint16_t)type,
				 .flags = flags,
				 .generation = 1,
				 .id = id};
	uint8_t frame[PROTO_HEADER + 65536];

	proto_header_pack(&h, frame);
	if (len)
		memcpy(frame + PROTO_HEADER, payload, len);
	host_record(frame, PROTO_HEADER + len);
}

static void host_hello(void)
{
	uint8_t payload[128];
	struct proto_out o = {payload, 0, sizeof(payload), false};
	const uint8_t entropy[PROTO_ENTROPY] = {0};

	put_u32(&o, PROTO_VERSION);
	put_u32(&o, 1);
	put_u64(&o, 0);
	put_bytes(&o, entropy, sizeof(entropy));
	put_str(&o, proto_cstr("fuzz"));
	host_frame(PROTO_HELLO, 0, 0, payload, o.len);
}

static void host_feed(void)
{
	const uint8_t *p = fuzz.next;
	size_t len = (size_t)(fuzz.end - p);
	uint32_t id;

	if (fuzz.raw || len < 5) {
		if (fuzz.link)
			host_send(p, len);
		else
			host_record(p, len);
		fuzz.next = fuzz.end;
		return;
	}
	len = p[3] | (size_t)p[4] << 8;
	if (len > (size_t)(fuzz.end - p) - 5)
		len = (size_t)(fuzz.end - p) - 5;
	id = p[2];
	if (p[0] == PROTO_JOB || p[0] == PROTO_JOB_FORGET || p[0] == PROTO_JOB_WINDOW ||
	    (id > 127 && p[0] != PROTO_RUN))
		id = PROTO_JOB_ID | (id & 127);
	host_frame(p[0], p[1], id, p + 5, len);
	fuzz.next = p + 5 + len;
}

/* In place of the agent's own hook: goes on with the next frame where the agent would sleep. */
static bool fuzz_before_wait(struct loop *l)
{
	static char sink[65536];

	if (fuzz.before_wait(l))
		return true;
	holders_reap();
	while (recv(fuzz.host, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	if (fuzz.idle++ < ROUNDS)
		return true;
	fuzz.idle = 0;
	if (fuzz.next == fuzz.end)
		loop_stop(l, 0);
	else
		host_feed();
	return true;
}

/* ---- the fuzzer ---- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	if (ftw->level > 0)
		(void)remove(path);
	return 0;
}

static void remove_root(void)
{
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	(void)rmdir(root);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct rlimit size = {FILE_MAX, FILE_MAX};
	sigset_t told;

	(void)argc;
	(void)argv;
	/* The fuzzer's own thread must not be told of writes, either: it comes after this. */
	sigemptyset(&told);
	for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
		sigaddset(&told, n);
	if (sigprocmask(SIG_BLOCK, &told, NULL) < 0)
		abort();
	snprintf(root, sizeof(root), "%s/fuzz_agent.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(root) || setrlimit(RLIMIT_FSIZE, &size) < 0)
		abort();
	signal(SIGXFSZ, SIG_IGN);
	atexit(remove_root);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct guest_env env = {.work = root,
				      .home = root,
				      .lib = root,
				      .random_fd = -1,
				      .kmsg_fd = -1,
				      .swap = SWAP_NONE};
	const char *step;
	static unsigned n;
	int sv[2];

	if (size < 2 || size > 60000)
		return -1;
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.raw = data[0] & 1;
	fuzz.link = data[0] & 2;
	fuzz.next = data + 1;
	fuzz.end = data + size;
	fuzz.turn_fds[0] = fuzz.turn_fds[1] = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	fuzz.host = sv[1];
	if (agent_init(&fuzz.agent, &env, sv[0], true, &step) < 0)
		abort();
	fuzz.before_wait = fuzz.agent.loop.before_wait;
	fuzz.agent.loop.before_wait = fuzz_before_wait;
	host_hello();
	(void)server_run(&fuzz.agent);
	agent_fini(&fuzz.agent);
	close(fuzz.host);
	close_fd(&fuzz.turn_fds[0]);
	close_fd(&fuzz.turn_fds[1]);
	if (n++ % 64 == 0)
		(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
