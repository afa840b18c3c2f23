/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is killed at any instant, and another one that goes on with its agent: no frame is lost or comes twice. */
/* modules: vm tests/unit/fixture/handed.c */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/fixture/handed.h"
#include "vm/base/estate.h"
#include "vm/base/sheets.h"
#include "vm/base/util.h"
#include "vm/guest/channel_record.h"

/*
 * This process is the agent. It sends frames that are numbered, and the daemons, its children, answer each: with a frame of
 * control, and some with one of bulk, each numbered as well, so that the agent sees what is missing or comes twice. What they
 * have handled and said so far is in the estate beside the channel. Each is killed, by a signal at some
 * time, or by itself at the Nth of the steps at which it matters.
 */

#define DEATHS	     1000 /* or its argument */
#define STEPS_MAX    60
#define FRAME_MAX    (100u << 10)
#define AHEAD_MAX    300 /* frames that were not answered */

#define KIND_CHANNEL 1u
#define KIND_COUNTS  2u

struct counts {
	uint32_t in;			/* frames handled */
	uint32_t out[CHANNEL_NCLASSES]; /* frames pushed */
};

/* Shared with the children: what they found wrong. */
struct verdict {
	char words[256];
	uint32_t deaths, steps[8];
};

static struct verdict *verdict;
static int near_fd, far_fd;
static struct handed handed;
static bool touched = true;
static bool mortal; /* this is a daemon that kills itself, at the step: */
static unsigned step_left;
static uint64_t seed;
static unsigned deaths = DEATHS;

static uint32_t chance(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static uint8_t byte_of(uint32_t id, size_t at)
{
	return (uint8_t)(id * 31 + at * 7 + at / 251);
}

static uint32_t length_of(uint32_t id)
{
	return id % 13 == 5 ? id * 7919 % FRAME_MAX : id % 5 == 1 ? id * 31 % 3000 : id % 40;
}

/* ---- the steps, of which each may be the last ---- */

enum step { BEFORE_PEEK, PEEKED, BEFORE_SEND, SENT, BEFORE_TAKING, TAKEN, WRITTEN, COMMITTED };

static void step(enum step s)
{
	if (!mortal)
		return;
	if (step_left-- == 0) {
		verdict->steps[s]++;
		kill(getpid(), SIGKILL);
	}
}

/* In place of libc's: nothing else here uses these. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n;

	step(BEFORE_SEND);
	n = syscall(SYS_sendmsg, fd, message, flags);
	step(SENT);
	return n;
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	const bool peeks = flags & MSG_PEEK;
	ssize_t got;

	step(peeks ? BEFORE_PEEK : BEFORE_TAKING);
	got = syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL);
	step(peeks ? PEEKED : TAKEN);
	return got;
}

/* ---- the daemon ---- */

static uv_loop_t loop;
static struct turn end_of_turn;
static struct channel ch;
static struct channel_scratch scratch;
static struct counts counts;
static struct sheets *sheets;
static int sheet = -1; /* on which is written; -1: none is free */
static size_t sheet_at;

static void wrong(const char *words, uint32_t a, uint32_t b)
{
	snprintf(verdict->words, sizeof(verdict->words), "%s: %u, %u", words, a, b);
	_exit(1);
}

/* The rest of a long frame lies where an heir finds it, as of a request that was received there. */
static void add_from_sheet(struct channel_frame *f, uint32_t id, size_t len)
{
	const size_t from = f->out.len;
	unsigned char *bytes = sheets->mem + (size_t)sheet * sheets->size + sheet_at;

	for (size_t i = from; i < len; i++)
		bytes[i - from] = byte_of(id, i);
	sheet_at += len - from;
	sheets_hold(sheets, bytes);
	channel_frame_add(f, sheets, bytes, len - from);
	sheets_let_go(sheets, bytes);
}

/* Behind what this turn has written, if there is room, or on another one; decided at the commit. */
static void settle_sheet(void)
{
	if (sheet >= 0 && !sheets->held[sheet])
		sheet_at = 0;
	else if (sheet < 0 || sheets->size - sheet_at < FRAME_MAX)
		sheet_at = 0, sheet = sheets_free(sheets, SHEETS);
}

static void answer(enum channel_class cl)
{
	const uint32_t id = counts.out[cl]++, len = length_of(id);
	const bool from_sheet =
		cl == CHANNEL_BULK && len > 5000 && sheet >= 0 && sheets->size - sheet_at >= len;
	const size_t own = from_sheet ? id % 50 : len;
	struct channel_frame *f =
		channel_frame_new(cl == CHANNEL_BULK ? PROTO_STDIN : PROTO_PING, id, own);

	if (!f)
		wrong("no memory", 0, 0);
	for (size_t i = 0; i < own; i++)
		f->out.data[i] = byte_of(id, i);
	f->out.len = own;
	if (from_sheet)
		add_from_sheet(f, id, len);
	channel_push(&ch, f, cl);
}

static int on_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	(void)data;
	if (h->id != counts.in || h->length != length_of(h->id))
		wrong("another frame was due", counts.in, h->id);
	for (size_t i = 0; in->p < in->end; i++)
		if (*in->p++ != byte_of(h->id, i))
			wrong("bytes of a frame", h->id, (uint32_t)i);
	counts.in++;
	answer(CHANNEL_CONTROL);
	if (h->id % 3 == 0)
		answer(CHANNEL_BULK);
	return 0;
}

static void on_lost(void *data, int err)
{
	(void)data;
	if (err)
		wrong("the channel was lost", (uint32_t)-err, 0);
	_exit(0);
}

static void on_drained(void *data)
{
	(void)data;
}

static void on_touched(void *data)
{
	(void)data;
	touched = true;
}

static const struct channel_events events = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
	.touched = on_touched,
};

/* As that of a descriptor which is lent. */
static unsigned number_of(int fd)
{
	return fd >= 0;
}

static void on_difference(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			  uint64_t sub)
{
	(void)data;
	(void)key;
	if (kind == ESTATE_CHANNEL_BYTES)
		wrong("bytes beside the channel", what, (uint32_t)sub);
}

static bool is_bytes(uint32_t kind)
{
	return kind == ESTATE_CHANNEL_BYTES;
}

/* As an heir does that takes away what is nobody's: all that there is the channel names. */
static void compare(struct estate *e)
{
	struct estate_compare c = {.differs = on_difference, .is_whole = is_bytes};
	struct fdbag fds = {.number = number_of};
	struct buf out = {.limit = RECORD_MAX};

	estate_compare_begin(e, &c);
	channel_put(&ch, &out, &fds);
	estate_compare_end(e);
	buf_clear(&out);
	fdbag_clear(&fds);
}

static int write_down(void *data, struct estate *e)
{
	static bool compared;
	struct fdbag fds = {.number = number_of};
	struct buf out = {.limit = RECORD_MAX};
	int r;

	(void)data;
	/* What says nothing of itself may stay as it is there. */
	if (!touched)
		return 0;
	touched = false;
	channel_put(&ch, &out, &fds);
	r = out.failed ? -ENOMEM : estate_put(e, KIND_CHANNEL, 1, 0, out.data, out.len);
	if (r == 0)
		r = estate_put(e, KIND_COUNTS, 1, 0, &counts, sizeof(counts));
	buf_clear(&out);
	fdbag_clear(&fds);
	if (!compared && r == 0)
		compare(e);
	compared = true;
	settle_sheet();
	step(WRITTEN);
	return r;
}

static void on_committed(void *data)
{
	(void)data;
	step(COMMITTED);
}

static void on_estate_lost(void *data, int err)
{
	(void)data;
	wrong("the estate was lost", (uint32_t)-err, 0);
}

static const struct turn_ops turn_ops = {
	.write = write_down,
	.committed = on_committed,
	.lost = on_estate_lost,
};

static int take_channel(void *data, const struct record *rec, uint64_t sub)
{
	struct fdbag fds = {.owned = true};

	(void)data;
	(void)sub;
	fdbag_put(&fds, near_fd);
	return channel_take(&ch, rec->fields, &fds, &loop, &scratch, &events, NULL) < 0 ? -1 : 1;
}

static int take_counts(void *data, const struct record *rec, uint64_t sub)
{
	(void)data;
	(void)sub;
	memcpy(&counts, rec->fields.at, sizeof(counts));
	return 1;
}

/* Whatever there is goes on; the first one begins. */
static void daemon_main(void)
{
	struct estate *e;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(far_fd);
	if (handed_open(&handed, &e) < 0)
		wrong("the estate can't be opened", 0, 0);
	uv_loop_init(&loop);
	turn_start(&end_of_turn, &loop, e, &turn_ops, NULL);
	scratch.turn = &end_of_turn;
	estate_each(e, KIND_COUNTS, take_counts, NULL);
	sheets = estate_sheets(e);
	if (!sheets)
		wrong("there are no sheets", 0, 0);
	scratch.left = e;
	r = estate_each(e, KIND_CHANNEL, take_channel, NULL);
	scratch.left = NULL;
	if (r < 0)
		wrong("the channel can't be opened", counts.in, 0);
	if (r == 0) {
		channel_open(&ch, &loop, near_fd, &scratch, &events, NULL);
		ch.to.next = 1; /* HELLO was number 0, which begins anew */
	}
	ch.generation = 1;
	sheet = sheets_free(sheets, SHEETS);
	channel_go(&ch);
	/* As RESUME does, it overtakes what was not fixed. */
	answer(CHANNEL_CONTROL);
	uv_run(&loop, UV_RUN_DEFAULT);
	_exit(0);
}

/* ---- the agent ---- */

struct agent {
	struct link_in from;
	struct link_out to;
	uint32_t sent;			 /* frames */
	uint32_t seen[CHANNEL_NCLASSES]; /* answers */
	uint8_t *out;			 /* frames, which are cut into records */
	size_t out_at, out_len;
	uint8_t wire[4 * LINK_RECORD_MAX]; /* records */
	size_t wire_at, wire_len;
	uint8_t *in; /* of frames */
	size_t in_len;
	bool over; /* nothing more is begun */
};

static struct agent agent;

/* Frames, of all sizes. */
static void more_frames(void)
{
	agent.out_at = agent.out_len = 0;
	for (unsigned n = 1 + chance(20); n; n--) {
		const uint32_t id = agent.sent++, len = length_of(id);
		const struct proto_header h = {len, PROTO_PONG, 0, 1, id};
		uint8_t *at = agent.out + agent.out_len;

		proto_header_pack(&h, at);
		for (size_t i = 0; i < len; i++)
			at[PROTO_HEADER + i] = byte_of(id, i);
		agent.out_len += PROTO_HEADER + len;
	}
}

/* Records, cut anywhere. */
static void more_records(void)
{
	agent.wire_at = agent.wire_len = 0;
	for (unsigned n = 1 + chance(4); n && agent.out_at < agent.out_len; n--) {
		const size_t most = MIN(agent.out_len - agent.out_at, (size_t)LINK_DATA_MAX),
			     len = chance(2) ? most : 1 + chance((uint32_t)most);
		uint8_t *at = agent.wire + agent.wire_len;

		link_head(&agent.to, len, at);
		memcpy(at + LINK_HEADER, agent.out + agent.out_at, len);
		agent.out_at += len;
		agent.wire_len += LINK_HEADER + len;
	}
}

/* Some at a time, so that there is often a part of a record at the end. */
static void agent_sends(void)
{
	const size_t left = agent.wire_len - agent.wire_at;
	const size_t len = chance(3) ? left : left ? 1 + chance((uint32_t)left) : 0;
	ssize_t n;

	if (left == 0 && agent.out_at == agent.out_len &&
	    (agent.over || agent.sent > agent.seen[CHANNEL_CONTROL] + AHEAD_MAX))
		return;
	if (left == 0 && agent.out_at == agent.out_len)
		more_frames();
	if (left == 0) {
		more_records();
		return;
	}
	n = write(far_fd, agent.wire + agent.wire_at, len);
	if (n > 0)
		agent.wire_at += (size_t)n;
}

static void agent_checks(const struct proto_header *h, const uint8_t *payload)
{
	const enum channel_class cl = h->type == PROTO_STDIN ? CHANNEL_BULK : CHANNEL_CONTROL;

	assert_int_equal(h->id, agent.seen[cl]);
	assert_int_equal(h->length, length_of(h->id));
	for (size_t i = 0; i < h->length; i++)
		if (payload[i] != byte_of(h->id, i))
			fail_msg("answer %u, byte %zu", h->id, i);
	agent.seen[cl]++;
}

/* Return: whether anything came. */
static bool agent_reads(void)
{
	ssize_t n = read(far_fd, agent.in + agent.in_len, 64u << 10);
	size_t at = 0;

	if (n <= 0)
		return false;
	n = link_take(&agent.from, agent.in + agent.in_len, (size_t)n);
	assert_true(n >= 0);
	agent.in_len += (size_t)n;
	while (agent.in_len - at >= PROTO_HEADER) {
		struct proto_header h;

		assert_int_equal(proto_header_unpack(agent.in + at, &h), 0);
		if (agent.in_len - at < PROTO_HEADER + h.length)
			break;
		agent_checks(&h, agent.in + at + PROTO_HEADER);
		at += PROTO_HEADER + h.length;
	}
	memmove(agent.in, agent.in + at, agent.in_len - at);
	agent.in_len -= at;
	return true;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static bool has_more_to_say(void)
{
	return agent.wire_at < agent.wire_len || agent.out_at < agent.out_len;
}

/* Until nothing comes any more, and all was said. */
static void agent_finishes(void)
{
	uint64_t quiet = now_us();

	agent.over = true;
	while (now_us() < quiet + 300000) {
		struct pollfd p = {.fd = far_fd,
				   .events = POLLIN | (has_more_to_say() ? POLLOUT : 0)};

		poll(&p, 1, 20);
		if (has_more_to_say())
			agent_sends();
		if (agent_reads() || has_more_to_say())
			quiet = now_us();
	}
}

/* Until the daemon is dead. Return: its status. */
static int agent_lives(pid_t pid, uint64_t until)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct pollfd p = {.fd = far_fd, .events = POLLIN};

		poll(&p, 1, 0);
		for (unsigned i = 0; i < 4; i++)
			agent_sends();
		if (chance(3))
			agent_reads();
		if (now_us() >= until)
			kill(pid, SIGKILL);
	}
	return status;
}

static void one_death(unsigned i)
{
	const bool aimed = i % 2;
	const uint64_t until = now_us() + (aimed ? 200000 : 300 + chance(2500));
	int status;
	pid_t pid;

	step_left = chance(STEPS_MAX);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		mortal = aimed;
		daemon_main();
	}
	status = agent_lives(pid, until);
	if (verdict->words[0])
		fail_msg("%s", verdict->words);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	handed_take(&handed);
	verdict->deaths++;
}

static void killed(void **state)
{
	struct estate *e;
	int pair[2], status;
	pid_t pid;

	(void)state;
	seed = now_us();
	print_message("seed %llu\n", (unsigned long long)seed);
	verdict = mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_ptr_not_equal(verdict, MAP_FAILED);
	agent.out = malloc(30 * (size_t)(PROTO_HEADER + FRAME_MAX));
	agent.in = malloc(64u << 20);
	agent.to.next = 7;
	assert_int_equal(handed_init(&handed), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	near_fd = pair[0];
	far_fd = pair[1];
	fcntl(far_fd, F_SETFL, O_NONBLOCK);
	for (unsigned i = 0; i < deaths; i++)
		one_death(i);

	/* The last one dies of old age. */
	pid = fork();
	if (pid == 0)
		daemon_main();
	agent_finishes();
	shutdown(far_fd, SHUT_WR);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (verdict->words[0])
		fail_msg("%s", verdict->words);
	assert_int_equal(status, 0);
	handed_take(&handed);
	assert_int_equal(handed_open(&handed, &e), 0);
	assert_int_equal(estate_each(e, KIND_COUNTS, take_counts, NULL), 1);
	estate_free(e);
	assert_int_equal(counts.in, agent.sent);
	assert_int_equal(counts.out[CHANNEL_CONTROL], agent.seen[CHANNEL_CONTROL]);
	assert_int_equal(counts.out[CHANNEL_BULK], agent.seen[CHANNEL_BULK]);
	assert_int_equal(agent.seen[CHANNEL_BULK], (agent.sent + 2) / 3);
	print_message("%u deaths, %u frames, %u and %u answers; died before and behind peek %u %u, "
		      "send %u %u, "
		      "taking %u %u; written %u, committed %u\n",
		      verdict->deaths, agent.sent, agent.seen[0], agent.seen[1], verdict->steps[0],
		      verdict->steps[1], verdict->steps[2], verdict->steps[3], verdict->steps[4],
		      verdict->steps[5], verdict->steps[6], verdict->steps[7]);
	for (unsigned i = 0; i < ARRAY_SIZE(verdict->steps); i++)
		assert_true(verdict->steps[i] > 0);
	free(agent.out);
	free(agent.in);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(killed)};

	if (argc > 1)
		deaths = (unsigned)atoi(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
