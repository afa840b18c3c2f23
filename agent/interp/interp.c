/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter's process: starting it, talking to its driver, noticing its end. */
#include "interp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "agent/core/log.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "rest.h"
#include "agent/core/spawn.h"
#include "token.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * The socket to the driver lives in the same process as user code, which may find, read, write and
 * close it, and pass it to its children. So messages are only claims, and are verified:
 *
 *  - by their sender: the kernel reports the process, which has to be the interpreter;
 *  - by a token of the request in flight, which only native code in that process can make;
 *  - by what the interpreter does next. The place where its main thread waits for requests
 *    (instruction and stack depth) was recorded before it received any code. A request is done when
 *    the thread is there again (rest.c). Until then the turn continues, including its deadline, and
 *    the last claim before that is the one that counts.
 *
 * The end of the process also ends a turn, with its wait status. The end of a process between two turns,
 * or while starting, is noticed twice: its side of the socket is closed, and some time later it can be
 * waited for. From the first on it is INTERP_ENDING and gets no requests; it is killed only if the
 * second does not follow, so that the real cause of its end is reported. A driver that does not become
 * ready, or does not answer WARM or SEED in time, is killed; a turn has the run's own deadline.
 *
 * A copy (interp_copy()) is a child of ours that the kernel identifies with its first message. Before
 * that there is no process to kill: instead, the copy's socket is closed, which makes it exit.
 */

#define READY_US    60000000u /* emulated processors are slow */
#define WARM_US	    60000000u
#define SEED_US	    10000000u
#define COPY_US	    20000000u
#define DEAF_US	    500000u /* from the end of its socket to that of its process */
#define AWAKE_US    1000000u

/* A driver has answered and is on its way to its place: that takes it some microseconds. */
#define YIELDS	    8u
#define LOOKS	    6u
#define LOOK_NS	    20000u
#define LOOK_US	    1000u
#define LOOK_MAX_US 50000u

static const char *const state_names[] = {
	[INTERP_NONE] = "none", [INTERP_STARTING] = "starting", [INTERP_IDLE] = "idle",
	[INTERP_BUSY] = "busy", [INTERP_ENDING] = "ending",
};
_Static_assert(ARRAY_SIZE(state_names) == INTERP_NSTATES, "each state has a name");

void interp_log_end(const char *which, enum interp_state was, int wait_status)
{
	log_line("%s (%s) ended, %s %d", which, state_names[was],
		 WIFSIGNALED(wait_status) ? "signal" : "status",
		 WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
}

static void interp_gone(struct interp *i, int wait_status, const struct rusage *ru)
{
	i->pid = 0;
	i->state = INTERP_NONE;
	i->on_death(i, i->was, wait_status, ru);
}

/* A program beside it may have stopped it, which nobody has asked for. */
static void interp_awake(const struct interp *i)
{
	if (i->pid > 0)
		(void)kill(i->pid, SIGCONT);
}

/* Waits for an answer, and sees to it that one can come. */
static void interp_wait(struct interp *i, uint64_t us)
{
	i->until = now_us() + us;
	loop_arm(i->loop, &i->deadline, us < AWAKE_US ? us : AWAKE_US);
}

static void on_interp_deadline(struct loop_timer *t)
{
	struct interp *i = container_of(t, struct interp, deadline);
	const struct rusage none = {0};
	const uint64_t now = now_us();

	if (i->state != INTERP_ENDING && now < i->until) {
		interp_awake(i);
		interp_wait(i, i->until - now);
		return;
	}
	if (i->state == INTERP_ENDING && i->killed) {
		interp_gone(i, 0, &none);
		return;
	}
	log_line("the interpreter (%s) did not answer in time", state_names[i->state]);
	interp_kill(i);
}

/* Nothing can be asked of it any more. If that is so because it is ending, its descriptors were closed
 * before we can wait for it: how it ends is worth a moment. */
static void interp_hang_up(struct interp *i)
{
	(void)loop_watch(i->loop, &i->ctl, 0);
	if (i->pid <= 0) {
		interp_kill(i);
		return;
	}
	loop_disarm(i->loop, &i->look);
	i->was = i->state;
	i->state = INTERP_ENDING;
	loop_arm(i->loop, &i->deadline, DEAF_US);
}

/* What was asked is done. */
static void interp_idle(struct interp *i)
{
	bool starting = i->state == INTERP_STARTING;

	loop_disarm(i->loop, &i->deadline);
	loop_disarm(i->loop, &i->look);
	memset(i->nonce, 0, sizeof(i->nonce));
	i->answered = false;
	i->state = INTERP_IDLE;
	if (starting) {
		i->start_us = now_us() - i->born;
		i->on_ready(i);
	} else {
		i->on_done(i, i->doing, i->answer);
	}
	if (i->state == INTERP_IDLE && !i->ctl.events)
		interp_hang_up(i);
}

static void interp_message(struct interp *i, const struct driver_msg *m, const char *text,
			   size_t len)
{
	if (i->state == INTERP_STARTING && m->type == DRIVER_READY) {
		memcpy(i->version, text, len);
		i->version[len] = '\0';
		i->can_copy = m->status & DRIVER_CAN_COPY;
		i->can_seed = m->status & DRIVER_CAN_SEED;
		i->can_prove = m->status & DRIVER_CAN_PROVE;
		i->can_order = m->status & DRIVER_CAN_ORDER;
		i->can_import = m->status & DRIVER_CAN_IMPORT;
		i->can_place = m->status & DRIVER_CAN_PLACE;
		i->can_tell = m->status & DRIVER_CAN_TELL;
		i->can_prepare = m->status & DRIVER_CAN_PREPARE;
		if (!i->can_prove)
			log_line("the image is older than this agent: its driver is believed");
		i->answered = true;
	} else if (i->state == INTERP_BUSY && m->type == DRIVER_DONE &&
		   memcmp(m->nonce, i->nonce, DRIVER_NONCE) == 0) {
		/* A run that was not begun is the only answer below 0. */
		if (i->doing == DRIVER_RUN && m->status < 0 && m->status >= -255)
			i->answer = m->status;
		else
			i->answer = m->status & 255;
		i->answered = true;
	} else if (m->type == DRIVER_TIMERS) {
		i->timers = m->status < 0 ? 0 : m->status;
	}
}

/* Which process has sent this? Return: its number, or 0. */
static pid_t sender(struct msghdr *hdr)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		struct ucred cred;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
		    c->cmsg_len < CMSG_LEN(sizeof(cred)))
			continue;
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
		return cred.pid;
	}
	return 0;
}

/* Takes what the socket has. Return: its length, 0 at its end, -errno. */
static ssize_t interp_receive(struct interp *i)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(struct ucred))]; /* and none for descriptors */
	} control;
	struct {
		struct driver_msg m;
		char text[DRIVER_VERSION];
	} in;
	struct iovec iov = {&in, sizeof(in)};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(i->ctl.fd, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	pid_t pid;

	if (n < 0) {
		/* The last copy of the other end was closed, with our request in it? */
		i->unread = i->unread || errno == ECONNRESET;
		return -errno;
	}
	pid = sender(&hdr);
	if (!i->pid && i->state == INTERP_STARTING && pid > 1 && n > 0)
		i->pid = pid;
	if (pid > 1 && pid == i->pid && n >= (ssize_t)sizeof(in.m))
		interp_message(i, &in.m, in.text, (size_t)n - sizeof(in.m));
	return n;
}

static ssize_t interp_receive_all(struct interp *i)
{
	ssize_t n = 1;

	/* Not for ever: user code can go on sending. */
	for (int k = 0; k < 64 && n > 0; k++)
		n = interp_receive(i);
	return n;
}

/* Is it where it waits for requests? Then what it said last, which it did before, counts. */
static bool interp_look(struct interp *i)
{
	enum rest_state s = REST_UNKNOWN;

	if (i->can_prove)
		s = i->state == INTERP_STARTING ? rest_find(i->pid, &i->rest) : rest_look(&i->rest);
	if (s == REST_AWAY)
		return false;
	(void)interp_receive_all(i);
	interp_idle(i);
	return true;
}

static void on_look(struct loop_timer *t)
{
	struct interp *i = container_of(t, struct interp, look);

	if (interp_look(i))
		return;
	i->look_us = i->look_us < LOOK_MAX_US / 2 ? i->look_us * 2 : LOOK_MAX_US;
	loop_arm(i->loop, t, i->look_us);
}

/* The driver says that it is done: is it? */
static void interp_judge(struct interp *i)
{
	if (i->look.armed)
		return;
	/* What it has sent wakes us before it gets there, and on one processor keeps it from getting there. In a guest we
	 * run before anybody, and only sleeping lets it go on. */
	for (unsigned n = 0; n < YIELDS && !i->env->guest && loop_give_way(i->loop); n++) {
		if (interp_look(i))
			return;
	}
	for (unsigned n = 0; n < LOOKS; n++) {
		const struct timespec moment = {.tv_nsec = (long)LOOK_NS << n};

		if (interp_look(i))
			return;
		(void)nanosleep(&moment, NULL);
	}
	i->look_us = LOOK_US;
	loop_arm(i->loop, &i->look, i->look_us);
}

static void on_ctl_ready(struct loop_source *s, uint32_t events)
{
	struct interp *i = container_of(s, struct interp, ctl);
	ssize_t n = interp_receive_all(i);

	if (i->answered)
		interp_judge(i);
	if (n != 0 || s->fd < 0 || !(events & (EPOLLHUP | EPOLLRDHUP)))
		return;

	/* No copy of the other end is left. In a turn that may be user code closing what it does
	 * not know: it goes on until it ends or its time is up. */
	if (i->state == INTERP_BUSY && i->doing == DRIVER_RUN)
		(void)loop_watch(i->loop, s, 0);
	else
		interp_hang_up(i);
}

static void on_out_ready(struct loop_source *s, uint32_t events)
{
	struct interp *i = container_of(s, struct interp, out);
	char buf[4096];
	ssize_t n = read(s->fd, buf, sizeof(buf));

	(void)events;
	if (n > 0)
		log_bytes(buf, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		loop_close(i->loop, s);
}

static void interp_release(struct interp *i)
{
	loop_disarm(i->loop, &i->deadline);
	loop_disarm(i->loop, &i->look);
	loop_close(i->loop, &i->ctl);
	loop_close(i->loop, &i->out);
	close_fd(&i->bell);
	rest_forget(&i->rest);
}

static int interp_socket(struct interp *i, int *ret_child)
{
	int ctl[2];

	const int on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return -errno;
	(void)setsockopt(ctl[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	i->ctl = (struct loop_source){.fd = ctl[0], .ready = on_ctl_ready};
	i->peer = rest_socket(ctl[1]);
	*ret_child = ctl[1];
	return getrandom(i->key, sizeof(i->key), 0) == sizeof(i->key) ? 0 : -EIO;
}

/* Makes the three channels. The child's ends go into @child: socket, bell (or -1), output. */
static int interp_channels(struct interp *i, bool has_bell, int child[3])
{
	int out[2], bell[2] = {-1, -1};
	int r = interp_socket(i, &child[0]);

	if (r < 0)
		return r;
	if (has_bell) {
		if (pipe2(bell, O_CLOEXEC) < 0)
			return -errno;
		(void)fcntl(bell[1], F_SETFL, O_NONBLOCK);
	}
	i->bell = bell[1];
	child[1] = bell[0];
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	i->out = (struct loop_source){.fd = out[0], .ready = on_out_ready};
	child[2] = out[1];
	return 0;
}

/* A process, or the copy of one, is on its way. */
static void interp_begin(struct interp *i, enum interp_rank rank, uint64_t deadline_us)
{
	i->state = INTERP_STARTING;
	i->rank = rank;
	i->killed = i->used = i->holds = i->touched = i->unread = i->warm = i->answered = false;
	i->can_copy = i->can_seed = i->can_prove = i->can_order = i->can_import = false;
	i->can_tell = i->can_prepare = false;
	i->timers = -1;
	rest_forget(&i->rest);
	i->look.fire = on_look;
	i->version[0] = '\0';
	i->deadline.fire = on_interp_deadline;
	interp_wait(i, deadline_us);
	if (loop_watch(i->loop, &i->ctl, EPOLLIN | EPOLLRDHUP) < 0 ||
	    loop_watch(i->loop, &i->out, EPOLLIN) < 0)
		interp_kill(i);
}

/* It is there before the process is. */
static int interp_send_key(const struct interp *i)
{
	struct driver_msg m = {.type = DRIVER_KEY};

	memcpy(m.seed, i->key, sizeof(i->key));
	return send(i->ctl.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(m) ? 0
											: -errno;
}

int interp_start(struct interp *i, enum interp_rank rank, const char **ret_step)
{
	int child[3] = {-1, -1, -1};
	struct interp_argv argv;
	int r;

	i->ctl.fd = i->out.fd = i->bell = -1;
	i->born = now_us();
	interp_argv(i, &argv);
	*ret_step = "channels";
	r = interp_channels(i, argv.has_bell, child);
	if (r == 0)
		r = interp_send_key(i);
	if (r == 0) {
		const struct spawn s = {.env = i->env,
					.spare = rank == INTERP_SPARE,
					.argv = argv.v,
					.envp = i->config->envp,
					.in_fd = -1,
					.out_fd = child[2],
					.err_fd = child[2],
					.ctl_fd = child[0],
					.bell_fd = child[1],
					.nproc = i->config->nproc,
					.nofile = i->config->nofile,
					.fsize = i->config->fsize,
					.chance = i->config->chance};

		r = spawn_run(&s, &i->pid, ret_step);
	}
	for (int k = 0; k < 3; k++)
		close_fd(&child[k]);
	if (r < 0) {
		interp_release(i);
		return r;
	}
	interp_begin(i, rank, READY_US);
	i->touched = i->config->loads_other;
	return 0;
}

/* Sends one request with a nonce of its own. */
static int interp_send(struct interp *i, struct driver_msg *m, const int *fds, size_t nfds,
		       uint64_t deadline_us)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(DRIVER_NFDS * sizeof(int))];
	} control = {0};
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (getrandom(i->nonce, sizeof(i->nonce), 0) != sizeof(i->nonce))
		return -EIO;
	memcpy(m->nonce, i->nonce, sizeof(m->nonce));
	if (i->can_prove) /* that is what is expected back */
		token_make(i->key, i->nonce, i->nonce);
	if (nfds) {
		struct cmsghdr *c;

		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	if (sendmsg(i->ctl.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*m)) {
		int r = -errno;

		if (r == -EPIPE || r == -ECONNRESET)
			interp_hang_up(i); /* before we have heard of it */
		return r;
	}
	/* The bell's pipe can only be full if nobody listens to it. */
	if (i->bell >= 0 && write(i->bell, "", 1) != 1)
		log_line("the interpreter's bell: %s", strerror(errno));
	i->state = INTERP_BUSY;
	i->doing = (enum driver_type)m->type;
	i->answered = false;
	interp_awake(i);
	if (deadline_us)
		interp_wait(i, deadline_us);
	return 0;
}

int interp_run(struct interp *i, uint32_t turn, const int fds[DRIVER_NFDS], uint32_t code_len,
	       unsigned how, const uint8_t *seed)
{
	struct driver_msg m = {.type = DRIVER_RUN, .turn = turn, .code_len = code_len};

	/* One that can't knows of the seed alone. */
	m.status = (int32_t)(i->can_import ? how : how & DRIVER_RUN_PLACE);
	i->used = i->used || !(how & DRIVER_RUN_IMPORT);
	if (seed) {
		m.status |= DRIVER_RUN_SEED;
		memcpy(m.seed, seed, sizeof(m.seed));
	}
	return interp_send(i, &m, fds, fds[DRIVER_FD_RECORDS] < 0 ? DRIVER_FD_RECORDS : DRIVER_NFDS,
			   0);
}

int interp_warm(struct interp *i)
{
	struct driver_msg m = {.type = DRIVER_WARM};

	return interp_send(i, &m, NULL, 0, WARM_US);
}

int interp_seed(struct interp *i, const uint8_t seed[32])
{
	struct driver_msg m = {.type = DRIVER_SEED};

	memcpy(m.seed, seed, sizeof(m.seed));
	return interp_send(i, &m, NULL, 0, SEED_US);
}

int interp_copy(struct interp *from, struct interp *to)
{
	struct driver_msg m = {.type = DRIVER_COPY};
	int child = -1;
	int r;

	to->ctl.fd = to->out.fd = to->bell = -1;
	to->born = now_us();
	to->pid = 0;
	r = interp_socket(to, &child);
	if (r < 0)
		return r;
	memcpy(m.seed, to->key, sizeof(to->key));
	r = interp_send(from, &m, &child, 1, COPY_US);
	close_fd(&child);
	if (r < 0) {
		interp_release(to);
		return r;
	}
	interp_begin(to, INTERP_SPARE, COPY_US);
	to->touched = from->touched;
	return 0;
}

/* Sets the scheduling policy of all threads. */
static void interp_schedule(const struct interp *i, int policy)
{
	_cleanup_dir_ DIR *d = i->env->guest ? proc_threads(i->pid) : NULL;
	const struct sched_param none = {0};
	pid_t tid;

	while (d && (tid = proc_next(d)))
		(void)sched_setscheduler(tid, policy, &none);
}

void interp_hurry(struct interp *i)
{
	if (i->pid <= 0)
		return;
	(void)kill(i->pid, SIGCONT); /* user code, which has its user id, may have stopped it */
	interp_schedule(i, SCHED_OTHER);
}

void interp_rest(struct interp *i)
{
	if (i->pid > 0)
		interp_schedule(i, SCHED_IDLE);
}

/* Writes the place in the OOM killer's list. */
static void interp_oom_score(const struct interp *i, const char *score)
{
	char path[64];
	int r;

	if (!i->env->guest || i->pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", i->pid);
	r = proc_write(path, score);
	if (r < 0)
		log_line("%s: %s", path, strerror(-r));
}

void interp_set_rank(struct interp *i, enum interp_rank rank)
{
	if (i->rank == rank)
		return;
	i->rank = rank;
	interp_oom_score(i, rank == INTERP_SPARE ? "1000" : "0");
	if (rank == INTERP_ACTIVE)
		interp_hurry(i);
}

/* Sends what has no answer. */
static bool interp_tell(const struct interp *i, enum driver_type type)
{
	const struct driver_msg m = {.type = type};

	return i->state == INTERP_IDLE && i->can_prove &&
	       send(i->ctl.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(m);
}

void interp_tidy(struct interp *i)
{
	(void)interp_tell(i, DRIVER_TIDY);
}

bool interp_nudge(struct interp *i)
{
	return interp_tell(i, DRIVER_NUDGE);
}

bool interp_prepare(struct interp *i)
{
	return i->touched && i->can_prepare && interp_tell(i, DRIVER_PREPARE);
}

bool interp_ask_timers(struct interp *i)
{
	i->timers = -1;
	return i->can_tell && interp_tell(i, DRIVER_TIMERS) && write(i->bell, "", 1) == 1;
}

bool interp_unread(const struct interp *i)
{
	int bytes = 0;

	return i->ctl.fd >= 0 && ioctl(i->ctl.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool interp_is_deaf(const struct interp *i)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)i->pid);
	return i->pid > 0 && (proc_number(path, "SigIgn:", 16) >> (SIGINT - 1) & 1) != 0;
}

bool interp_listens(const struct interp *i)
{
	siginfo_t si = {.si_pid = 0};

	return i->ctl.events && i->pid > 0 &&
	       waitid(P_PID, (id_t)i->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == 0;
}

void interp_interrupt(struct interp *i)
{
	/* The group exists, and is no other, for as long as its leader was not reaped. */
	if (i->state != INTERP_BUSY || i->doing != DRIVER_RUN || i->pid <= 0)
		return;
	(void)kill(-i->pid, SIGINT);
	(void)kill(-i->pid, SIGCONT); /* what is stopped would not hear it */
}

void interp_kill(struct interp *i)
{
	if (i->state == INTERP_NONE || (i->state == INTERP_ENDING && i->killed))
		return;
	if (i->state != INTERP_ENDING)
		i->was = i->state;
	i->state = INTERP_ENDING;
	i->killed = true;
	interp_release(i);
	/* Whether it was reaped just now, or is a copy that never told its number: nobody will hear
	 * of its end. */
	if (i->pid <= 0 || kill(i->pid, SIGKILL) < 0)
		loop_arm(i->loop, &i->deadline, 0);
}

void interp_give_up(struct interp *i)
{
	if (i->state != INTERP_ENDING)
		interp_kill(i);
}

bool interp_reaped(struct interp *i, pid_t pid, int wait_status, const struct rusage *ru)
{
	if (pid != i->pid || i->state == INTERP_NONE)
		return false;
	if (i->ctl.fd >= 0)
		(void)interp_receive_all(i); /* which may tell that it has not taken the request */
	i->pid = 0;
	if (i->state != INTERP_ENDING) {
		i->was = i->state;
		i->unread = i->unread || interp_unread(i);
	}
	while (i->out.fd >= 0 && i->was == INTERP_STARTING) {
		char buf[4096];
		ssize_t n = read(i->out.fd, buf, sizeof(buf));

		if (n <= 0)
			break;
		log_bytes(buf, (size_t)n);
	}
	interp_release(i);
	interp_gone(i, wait_status, ru);
	return true;
}

void interp_fini(struct interp *i)
{
	i->state = INTERP_NONE;
	interp_release(i);
}
