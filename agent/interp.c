/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter's process: starting it, talking to its driver, noticing its end. */
#include "interp.h"

#include <dirent.h>
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
#include <unistd.h>

#include "interp_config.h"
#include "log.h"
#include "place.h"
#include "spawn.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The socket to the driver lives in the same process as user code, which may find, read, write and
 * close it. So what arrives there is only a hint: an answer counts if it carries the nonce of the
 * request that is in flight, anything else is ignored; and the end of a turn is believed from the
 * process's exit just as well. A driver that does not become ready, or does not answer WARM or
 * SEED in time, is killed; a turn has the run's own deadline.
 *
 * A copy (interp_copy()) is made by the driver of the process that is copied, which has not seen
 * user code; so its word about the process number is taken. Until that has come there is no process
 * to kill: the copy's socket is closed, which it takes for its end.
 */

#define READY_US 60000000u /* emulated processors are slow */
#define WARM_US	 60000000u
#define SEED_US	 10000000u
#define COPY_US	 20000000u
#define DEAF_US	 500000u /* from the end of its socket to that of its process */

static const char *const state_names[] = {
	[INTERP_NONE] = "none", [INTERP_STARTING] = "starting", [INTERP_IDLE] = "idle",
	[INTERP_BUSY] = "busy", [INTERP_ENDING] = "ending",
};
_Static_assert(ARRAY_SIZE(state_names) == INTERP_NSTATES, "each state has a name");

const char *interp_state_name(enum interp_state s)
{
	return s < INTERP_NSTATES ? state_names[s] : "unknown";
}

static void interp_gone(struct interp *i, int wait_status, const struct rusage *ru)
{
	i->pid = 0;
	i->state = INTERP_NONE;
	i->on_death(i, i->was, wait_status, ru);
}

static void on_interp_deadline(struct loop_timer *t)
{
	struct interp *i = container_of(t, struct interp, deadline);
	const struct rusage none = {0};

	if (i->state == INTERP_ENDING) {
		interp_gone(i, 0, &none);
		return;
	}
	log_line("the interpreter (%s) did not answer in time", interp_state_name(i->state));
	interp_kill(i);
}

static void interp_idle(struct interp *i)
{
	loop_disarm(i->loop, &i->deadline);
	i->state = INTERP_IDLE;
}

static void interp_message(struct interp *i, const struct driver_msg *m, const char *text,
			   size_t len)
{
	if (i->state == INTERP_STARTING && m->type == DRIVER_READY) {
		memcpy(i->version, text, len);
		i->version[len] = '\0';
		i->can_copy = m->status & DRIVER_CAN_COPY;
		i->can_seed = m->status & DRIVER_CAN_SEED;
		if (!i->pid)
			i->pid = m->turn > 1 && m->turn <= INT32_MAX ? (pid_t)m->turn : 0;
		i->start_us = now_us() - i->born;
		interp_idle(i);
		i->on_ready(i);
	} else if (i->state == INTERP_BUSY && m->type == DRIVER_DONE &&
		   memcmp(m->nonce, i->nonce, DRIVER_NONCE) == 0) {
		memset(i->nonce, 0, sizeof(i->nonce));
		interp_idle(i);
		i->on_done(i, i->doing, m->status & 255);
	}
}

/* After recv() has failed: was the last copy of the other end closed with our request in it? */
static void interp_check_reset(struct interp *i)
{
	i->unread = i->unread || errno == ECONNRESET;
}

static void on_ctl_ready(struct loop_source *s, uint32_t events)
{
	struct interp *i = container_of(s, struct interp, ctl);
	struct {
		struct driver_msg m;
		char text[DRIVER_VERSION];
	} in;
	ssize_t n = recv(s->fd, &in, sizeof(in), MSG_DONTWAIT);

	if (n < 0)
		interp_check_reset(i);
	if (n >= (ssize_t)sizeof(in.m)) {
		interp_message(i, &in.m, in.text, (size_t)n - sizeof(in.m));
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 || (n == 0 && !(events & (EPOLLHUP | EPOLLRDHUP))))
		return; /* too short to mean anything */

	/* No copy of the other end is left. In a turn that may be user code closing what it does
	 * not know: it goes on until it ends or its time is up. */
	(void)loop_watch(i->loop, s, 0);
	if (i->state == INTERP_IDLE && i->pid > 0)
		loop_arm(i->loop, &i->deadline, DEAF_US); /* it is ending: how, that tells */
	else if (i->state != INTERP_BUSY || i->doing != DRIVER_RUN)
		interp_kill(i);
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
	loop_close(i->loop, &i->ctl);
	loop_close(i->loop, &i->out);
	close_fd(&i->bell);
}

static int interp_socket(struct interp *i, int *ret_child)
{
	int ctl[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return -errno;
	i->ctl = (struct loop_source){.fd = ctl[0], .ready = on_ctl_ready};
	*ret_child = ctl[1];
	return 0;
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
	i->killed = i->used = i->holds = i->unread = false;
	i->warm = i->can_copy = i->can_seed = false;
	i->version[0] = '\0';
	i->deadline.fire = on_interp_deadline;
	loop_arm(i->loop, &i->deadline, deadline_us);
	if (loop_watch(i->loop, &i->ctl, EPOLLIN | EPOLLRDHUP) < 0 ||
	    loop_watch(i->loop, &i->out, EPOLLIN) < 0)
		interp_kill(i);
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
	if (r == 0) {
		const struct spawn s = {.place = i->place,
					.spare = rank == INTERP_SPARE,
					.argv = argv.v,
					.envp = i->config->envp,
					.log_fd = child[2],
					.ctl_fd = child[0],
					.bell_fd = child[1],
					.nproc = i->config->nproc,
					.nofile = i->config->nofile,
					.fsize = i->config->fsize};

		r = spawn_run(&s, &i->pid, ret_step);
	}
	for (int k = 0; k < 3; k++)
		close_fd(&child[k]);
	if (r < 0) {
		interp_release(i);
		return r;
	}
	interp_begin(i, rank, READY_US);
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
	if (sendmsg(i->ctl.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*m))
		return -errno;
	/* The bell's pipe can only be full if nobody listens to it. */
	if (i->bell >= 0 && write(i->bell, "", 1) != 1)
		log_line("the interpreter's bell: %s", strerror(errno));
	i->state = INTERP_BUSY;
	i->doing = (enum driver_type)m->type;
	if (deadline_us)
		loop_arm(i->loop, &i->deadline, deadline_us);
	return 0;
}

int interp_run(struct interp *i, uint32_t turn, const int fds[DRIVER_NFDS], uint32_t code_len,
	       const uint8_t *seed)
{
	struct driver_msg m = {.type = DRIVER_RUN, .turn = turn, .code_len = code_len};

	i->used = true;
	if (seed) {
		m.status = 1;
		memcpy(m.seed, seed, sizeof(m.seed));
	}
	return interp_send(i, &m, fds, DRIVER_NFDS, 0);
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
	r = interp_send(from, &m, &child, 1, COPY_US);
	close_fd(&child);
	if (r < 0) {
		interp_release(to);
		return r;
	}
	interp_begin(to, INTERP_SPARE, COPY_US);
	return 0;
}

/* Sets the scheduling policy of all threads. */
static void interp_schedule(const struct interp *i, int policy)
{
	const struct sched_param none = {0};
	char path[64];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", i->pid);
	d = i->place->guest ? opendir(path) : NULL;
	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.')
			(void)sched_setscheduler((pid_t)strtol(e->d_name, NULL, 10), policy, &none);
	}
	if (d)
		closedir(d);
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
	int fd;

	if (!i->place->guest || i->pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", i->pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, score, strlen(score)) < 0)
		log_line("%s: %s", path, strerror(errno));
	close_fd(&fd);
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

bool interp_unread(const struct interp *i)
{
	int bytes = 0;

	return i->ctl.fd >= 0 && ioctl(i->ctl.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
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
	if (i->state == INTERP_NONE || i->state == INTERP_ENDING)
		return;
	i->was = i->state;
	i->state = INTERP_ENDING;
	i->killed = true;
	interp_release(i);
	/* Whether it was reaped just now, or is a copy that never told its number: nobody will hear
	 * of its end. */
	if (i->pid <= 0 || kill(i->pid, SIGKILL) < 0)
		loop_arm(i->loop, &i->deadline, 0);
}

bool interp_reaped(struct interp *i, pid_t pid, int wait_status, const struct rusage *ru)
{
	if (pid != i->pid || i->state == INTERP_NONE)
		return false;
	i->pid = 0;
	/* It may have answered and then ended: take the answer first. (Not for ever: children of
	 * it can go on sending.) */
	for (int n = 0; n < 64 && i->state != INTERP_ENDING && i->ctl.events; n++) {
		char peek;

		if (recv(i->ctl.fd, &peek, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
			interp_check_reset(i);
			break;
		}
		on_ctl_ready(&i->ctl, EPOLLIN);
	}
	while (i->out.fd >= 0 && i->state == INTERP_STARTING) {
		char buf[4096];
		ssize_t n = read(i->out.fd, buf, sizeof(buf));

		if (n <= 0)
			break;
		log_bytes(buf, (size_t)n);
	}
	if (i->state != INTERP_ENDING) {
		i->was = i->state;
		i->unread = i->unread || interp_unread(i);
		interp_release(i);
	}
	loop_disarm(i->loop, &i->deadline);
	interp_gone(i, wait_status, ru);
	return true;
}

void interp_fini(struct interp *i)
{
	i->state = INTERP_NONE;
	interp_release(i);
}
