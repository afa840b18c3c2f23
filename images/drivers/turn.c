/* SPDX-License-Identifier: Apache-2.0 */
/* The native part of drivers: the control socket, and the descriptors of a turn. */
#include "turn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "token.h"

/*
 * Theory of operation
 * -------------------
 * turn.so has three users. Bun calls the functions of this file through its foreign function
 * interface. Python and bash get their loops from it, see turn_python.c and turn_bash.c.
 *
 * The agent knows a driver that waits for requests by the instruction and the depth of the stack. So
 * the call is made by syscall(2): the C library's recvmsg(2) takes another way when there are
 * threads. The key and what is made of it stay in here. User code may put another socket in the place
 * of ours, and speak from there: what does not come from our parent is ignored.
 *
 * User code shares the table of descriptors, and may have closed or filled any part of it. So the
 * socket lies high, out of the way of what counts or closes low numbers; the places after it
 * are kept occupied, to be free when a request brings descriptors; and these may come in the
 * places of 0, 1 and 2 themselves.
 *
 * Other threads go on while a turn's descriptors are put in place. So the pipe for records comes first: what one
 * of them writes in between goes to this turn or to where the ended one's output went, and in no other order
 * than it was written in. The other way round it would see this turn's outputs, with the ended turn's pipe for records,
 * which nobody reads any more. A turn without such a pipe gets none: the ended one's does not stay.
 */

#define HIGH_FD 1000 /* where the socket goes; the places after it stay occupied, see turn_open */
#define STEADY	32   /* after so many writes to one output the other one is not expected soon */
#define LOOKS	100  /* at most, for what was written so to be read, when it comes after all */
#define LOOK_NS 100000

static int ctl_fd = -1;
static int copy_fd = -1; /* of the last DRIVER_COPY */
static uint8_t key[DRIVER_KEY_SIZE];
static uint8_t copy_key[DRIVER_KEY_SIZE];
static char *code; /* of the turn, terminated by NUL */
static size_t code_len;
static char *place; /* of the turn: words, see driver.h; or NULL */
static size_t place_len;
static int former = -1; /* the directory that it was entered from */
static volatile sig_atomic_t interrupted;
static bool executed; /* code that may have drawn random numbers */
static bool prepare;  /* DRIVER_PREPARE came: the machine will be copied while we wait */
static bool prepared; /* for that, by turn_renew_prepare() */
static int last_out;  /* the output that was written last in this turn, or 0 */
static int steady;    /* how often in a row, at most STEADY */
static bool unsteady; /* it was STEADY until a moment ago */

/* Where the pipe for records goes, behind the places that are kept. */
static int records_fd(void)
{
	return ctl_fd + DRIVER_NFDS + 2;
}

static void make_undumpable(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Occupy the places after the socket's, so that a turn's descriptors find room in a full table. */
static int reserve(int source, int base)
{
	for (int fd = base + DRIVER_NFDS + 1; fd > base; fd--) {
		if (fd != source && dup3(source, fd, O_CLOEXEC) < 0)
			return -errno;
	}
	return 0;
}

static void make_room(void)
{
	for (int i = 2; i <= DRIVER_NFDS + 1; i++)
		close(ctl_fd + i);
}

int turn_open(int fd)
{
	struct driver_msg first;
	const int on = 1;
	int base = HIGH_FD;
	int r;

	make_undumpable();
	if (recv(fd, &first, sizeof(first), 0) != sizeof(first) || first.type != DRIVER_KEY ||
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -EBADMSG;
	memcpy(key, first.seed, sizeof(key));
	explicit_bzero(&first, sizeof(first));
	while ((r = reserve(0, base)) < 0) {
		base /= 2;
		if (base < 16)
			return r;
	}
	if (dup3(fd, base, O_CLOEXEC) < 0)
		return -errno;
	close(fd);
	ctl_fd = base;
	(void)dup3(0, records_fd(), O_CLOEXEC);
	return base;
}

int turn_raise(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, records_fd() + 1);

	if (high < 0)
		return -errno;
	close(fd);
	return high;
}

void turn_close(void)
{
	close(ctl_fd);
}

/*
 * A child of our parent's: nobody but the agent could tell how it ends. The C library has no such
 * fork, and does not get to do what it does at each; in a process with one thread that is nothing
 * but noting the thread's number, for locks of which the copy has none and for its own threads.
 */
static pid_t fork_sibling(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* In the copy. */
static void become_copy(void)
{
	const int on = 1;

	(void)setsid();
	(void)setsockopt(copy_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	memcpy(key, copy_key, sizeof(key));
	executed = false; /* the kernel has done that at the fork */
	(void)dup3(copy_fd, ctl_fd, O_CLOEXEC);
	close(copy_fd);
	copy_fd = -1;
}

int turn_copy(void)
{
	pid_t pid = fork_sibling();

	if (pid == 0) {
		become_copy();
		return 0;
	}
	close(copy_fd);
	copy_fd = -1;
	return pid > 0 ? 1 : -EAGAIN;
}

static void close_all(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* Return: @len bytes, or as many as there are, with a NUL behind them; NULL if out of memory. */
static char *read_bytes(int fd, size_t len, off_t offset, size_t *ret_len)
{
	char *buf = malloc(len + 1);
	ssize_t n;

	*ret_len = 0;
	while (buf && *ret_len < len) {
		n = pread(fd, buf + *ret_len, len - *ret_len, offset + (off_t)*ret_len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		*ret_len += (size_t)n;
	}
	if (buf)
		buf[*ret_len] = '\0';
	return buf;
}

static void forget_place(void)
{
	free(place);
	place = NULL;
	place_len = 0;
}

/* Reads the words before the code. Return: 0 or -errno. */
static int read_place(int fd, size_t len)
{
	struct stat st;
	size_t n;

	if (fstat(fd, &st) < 0 || (size_t)st.st_size < len + 2)
		return -EBADMSG;
	place = read_bytes(fd, (size_t)st.st_size - len, 0, &n);
	if (!place)
		return -ENOMEM;
	place_len = n - 1; /* the empty word */
	return 0;
}

/* Read the code, and what comes before it, and close the descriptor. Return: 0 or -errno */
static int read_code(int fd, size_t len, bool has_place)
{
	int r;

	free(code);
	forget_place();
	r = has_place ? read_place(fd, len) : 0;
	code = read_bytes(fd, len, (off_t)(place ? place_len + 1 : 0), &code_len);
	close(fd);
	return r < 0 ? r : code ? 0 : -ENOMEM;
}

/* Back to where the turn has come from. */
static void leave_place(void)
{
	if (former < 0)
		return;
	(void)!fchdir(former);
	close(former);
	former = -1;
}

static int enter_place(void)
{
	int here, r = 0;

	if (!place || !*place)
		return 0;
	here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0)
		return -errno;
	/* User code closes low ones. */
	former = fcntl(here, F_DUPFD_CLOEXEC, records_fd() + 1);
	if (former < 0 || chdir(place) < 0)
		r = -errno;
	close(here);
	if (r < 0 && former >= 0)
		close(former);
	former = r < 0 ? -1 : former;
	return r;
}

static bool is_only_thread(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

/* The driver has done its part, and is about to wait: now nobody else is left who might do anything. */
static void prepare_copies(void)
{
	if (prepare && executed && is_only_thread()) {
		turn_renew_prepare();
		prepared = true;
	}
	prepare = false;
}

/* Something has happened. */
static void unprepare(void)
{
	if (prepared)
		turn_renew_forget();
	prepared = false;
}

/* Does this request say that the machine was copied? And what code does it bring? */
static void note_seed(const struct driver_msg *msg)
{
	const bool run = msg->type == DRIVER_RUN;
	const bool seed = msg->type == DRIVER_SEED || (run && (msg->status & DRIVER_RUN_SEED));

	if (executed && seed)
		(void)turn_renew(true);
	unprepare();
	prepare = msg->type == DRIVER_PREPARE;
	if (run && (!(msg->status & DRIVER_RUN_TRIAL) || (msg->status & DRIVER_RUN_IMPORT))) {
		executed = true;
		turn_renew_forget();
	}
}

/* Put the pipe for records in place, or, if there is none, what is no such pipe, for the last turn's must not
 * stay. */
static void place_records(int fd)
{
	if (fd >= 0 && dup3(fd, records_fd(), O_CLOEXEC) >= 0) {
		close(fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	/* If that does not work (user code may have lowered the limit of descriptors), its place is free. */
	if (dup3(ctl_fd + 1, records_fd(), O_CLOEXEC) < 0)
		close(records_fd());
}

/* Put the three streams of a turn in place, and before them the pipe for records if there is one. */
static void place_all(int *fds, int n)
{
	/* User code may have closed low descriptors, so that new ones got their numbers. */
	for (int i = 0; i < n; i++) {
		if (fds[i] > STDERR_FILENO)
			continue;
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	place_records(n > DRIVER_FD_RECORDS ? fds[DRIVER_FD_RECORDS] : -1);
	for (int i = 0; i <= STDERR_FILENO; i++) {
		dup2(fds[i], i);
		close(fds[i]);
	}
}

/* Does this message come from the agent? */
static bool from_parent(struct msghdr *hdr)
{
	struct ucred cred = {.pid = 0};

	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	}
	return cred.pid > 0 && cred.pid == getppid();
}

/*
 * The C library's two signals for its threads, which it lets nobody else set. It catches them for good once there was
 * a thread. Without any they come from nobody who means it, and the agent would have to reckon with that: so they are
 * at their default while there is but the one that waits.
 */
static const int library_signals[] = {32, 33};

struct kernel_action {
	unsigned long handler, flags, restorer, mask;
};

static struct kernel_action library_actions[2];
static bool hushed;

static void set_library_signals(const struct kernel_action *set, struct kernel_action *ret_was)
{
	for (int i = 0; i < 2; i++)
		(void)syscall(SYS_rt_sigaction, library_signals[i], set ? &set[i] : NULL,
			      ret_was ? &ret_was[i] : NULL, sizeof(set->mask));
}

static void hush_library(void)
{
	static const struct kernel_action nothing[2];

	set_library_signals(NULL, library_actions);
	hushed = (library_actions[0].handler || library_actions[1].handler) && is_only_thread();
	if (hushed)
		set_library_signals(nothing, NULL);
}

static void unhush_library(void)
{
	if (hushed)
		set_library_signals(library_actions, NULL);
}

/* Take the descriptors out of a message. Return: how many, at most DRIVER_NFDS. */
static int take_rights(struct msghdr *hdr, int *ret_fds)
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		if (n > DRIVER_NFDS)
			n = DRIVER_NFDS;
		memcpy(ret_fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	}
	return n;
}

/* Tell the agent that a run can't be taken; the next one may. Return: as turn_receive(). */
static int refuse(struct driver_msg *msg, int err)
{
	msg->type = DRIVER_DONE;
	msg->status = err;
	memset(msg->seed, 0, sizeof(msg->seed));
	(void)turn_send(msg, "");
	return -EBADMSG;
}

int turn_receive(struct driver_msg *ret_msg, int flags)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(DRIVER_NFDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = ret_msg, .iov_len = sizeof(*ret_msg)};
	struct msghdr hdr = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fds[DRIVER_NFDS];
	ssize_t len;
	int n, r;

	make_room();
	prepare_copies();
	interrupted = 0;
	last_out = steady = 0;
	hush_library();
	len = syscall(SYS_recvmsg, ctl_fd, &hdr, flags | MSG_CMSG_CLOEXEC);
	r = len < 0 ? -errno : 0;
	unhush_library();
	if (len <= 0)
		unprepare(); /* a handler of the user's may have run, or will */
	if (len < 0)
		return r;
	if (len == 0)
		return 0;
	n = take_rights(&hdr, fds);
	/* A nudge has done all that it is for. */
	if (len != sizeof(*ret_msg) || !from_parent(&hdr) || ret_msg->type == 0 ||
	    (ret_msg->type > DRIVER_TIDY && ret_msg->type != DRIVER_TIMERS &&
	     ret_msg->type != DRIVER_PREPARE)) {
		close_all(fds, n);
		return -EBADMSG;
	}
	note_seed(ret_msg);
	if (ret_msg->type == DRIVER_COPY && n == 1) {
		copy_fd = fds[0];
		memcpy(copy_key, ret_msg->seed, sizeof(copy_key));
		explicit_bzero(ret_msg->seed, sizeof(ret_msg->seed));
		return DRIVER_COPY;
	}
	if (ret_msg->type != DRIVER_RUN) {
		close_all(fds, n);
		return ret_msg->type == DRIVER_COPY ? -EBADMSG : (int)ret_msg->type;
	}
	if (n < DRIVER_FD_RECORDS) {
		close_all(fds, n);
		return refuse(ret_msg, -EMFILE);
	}
	place_all(fds, n);
	r = read_code(fds[DRIVER_FD_CODE], ret_msg->code_len, ret_msg->status & DRIVER_RUN_PLACE);
	if (r == 0)
		r = enter_place();
	(void)reserve(ctl_fd + 1, ctl_fd);
	return r < 0 ? refuse(ret_msg, r) : DRIVER_RUN;
}

char *turn_code(size_t *ret_len)
{
	*ret_len = code_len;
	return code;
}

void turn_copy_code(char *buf)
{
	memcpy(buf, code, code_len);
}

char *turn_place(size_t *ret_len)
{
	*ret_len = place_len;
	return place;
}

size_t turn_place_size(void)
{
	return place_len;
}

void turn_copy_place(char *buf)
{
	memcpy(buf, place, place_len);
}

int turn_send(const struct driver_msg *msg, const char *text)
{
	struct driver_msg m = *msg;
	struct iovec iov[] = {
		{.iov_base = &m, .iov_len = sizeof(m)},
		{.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)},
	};
	struct msghdr hdr = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	if (m.type == DRIVER_DONE) {
		leave_place();
		token_make(key, m.nonce, m.nonce);
	}
	do {
		n = sendmsg(ctl_fd, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

void turn_note_interrupts(void)
{
	const struct sigaction note = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};

	(void)sigaction(SIGINT, &note, NULL);
}

int turn_was_interrupted(void)
{
	return interrupted;
}

static bool is_empty(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) < 0 || n == 0;
}

/* Waits, not for long, until what was written to both has been read. Return: has it been? */
static bool are_read(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	for (int i = 0; unsteady && i < LOOKS; i++) {
		if (is_empty(STDOUT_FILENO) && is_empty(STDERR_FILENO))
			break;
		(void)nanosleep(&look, NULL);
	}
	unsteady = false;
	return is_empty(STDOUT_FILENO) && is_empty(STDERR_FILENO);
}

bool turn_is_steady(int fd)
{
	if (fd != last_out) {
		unsteady = steady == STEADY;
		steady = 0;
	}
	last_out = fd;
	steady += steady < STEADY;
	return steady == STEADY;
}

size_t turn_record(int fd, const void *data, size_t len)
{
	char buf[DRIVER_RECORD_MAX];
	const struct driver_record head = {.stream = (uint8_t)fd, .len = (uint16_t)len};
	const int mark = fd == STDOUT_FILENO ? DRIVER_MARK_STDOUT : DRIVER_MARK_STDERR;

	if (len == 0 || len > sizeof(buf) - sizeof(head))
		return 0;
	if (fcntl(records_fd(), F_GETSIG) != DRIVER_MARK_RECORDS || fcntl(fd, F_GETSIG) != mark ||
	    !are_read())
		return 0;
	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), data, len);
	/* It never waits: if the pipe is full, the other one is where to wait. */
	return write(records_fd(), buf, sizeof(head) + len) > 0 ? len : 0;
}

int turn_write(int fd, const char *buf, size_t len)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	ssize_t n;

	while (len > 0) {
		n = write(fd, buf, len);
		if (n >= 0) {
			buf += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			(void)poll(&wait, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}
