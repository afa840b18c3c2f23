/* SPDX-License-Identifier: Apache-2.0 */
/* What user code can send to the agent in its driver's name. */
/* modules: agent/interp/interp.c agent/core/loop.c agent/core/log.c agent/core/proc.c */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/interp/interp.h"
#include "agent/interp/config.h"
#include "agent/core/guest_env.h"
#include "agent/core/spawn.h"
#include "agent/core/util.h"

/*
 * An input is records {how, length, bytes}: each is one datagram. The bits of `how`: 1 puts the token
 * that is waited for into it, 2 says that the interpreter is at rest, 4 hands it a descriptor
 * along, 8 asks for a warming up before.
 */

enum { TOKEN = 1, REST = 2, RIGHTS = 4, WARM = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int driver = -1;
static bool at_rest;

void interp_argv(const struct interp *i, struct interp_argv *ret_argv)
{
	(void)i;
	memset(ret_argv, 0, sizeof(*ret_argv));
}

int spawn_run(const struct spawn *s, pid_t *ret_pid, const char **ret_step)
{
	(void)ret_step;
	driver = fcntl(s->ctl_fd, F_DUPFD_CLOEXEC, 0);
	*ret_pid = getpid(); /* who sends: the kernel tells */
	return 0;
}

uint64_t rest_socket(int fd)
{
	return (uint64_t)fd;
}

enum rest_state rest_find(pid_t pid, struct rest *ret_r)
{
	(void)pid;
	ret_r->pc = 1;
	return at_rest ? REST_THERE : REST_AWAY;
}

void rest_forget(struct rest *r)
{
	*r = (struct rest){.file = -1};
}

enum rest_state rest_look(const struct rest *r)
{
	(void)r;
	return at_rest ? REST_THERE : REST_AWAY;
}

static void on_ready(struct interp *i)
{
	if (i->state != INTERP_IDLE || strlen(i->version) > DRIVER_VERSION)
		abort();
}

static void on_done(struct interp *i, enum driver_type what, int status)
{
	if (i->state != INTERP_IDLE || what != DRIVER_WARM || status < 0 || status > 255)
		abort();
}

static void on_death(struct interp *i, enum interp_state was, int wait_status,
		     const struct rusage *ru)
{
	(void)i;
	(void)was;
	(void)wait_status;
	(void)ru;
}

static void send_one(const struct interp *i, uint8_t how, const uint8_t *bytes, size_t len)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint8_t copy[256];
	struct iovec iov = {copy, len};
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

	memcpy(copy, bytes, len);
	if (how & TOKEN && len >= sizeof(struct driver_msg))
		memcpy(copy + offsetof(struct driver_msg, nonce), i->nonce, DRIVER_NONCE);
	if (how & RIGHTS) {
		hdr.msg_control = control.space;
		hdr.msg_controllen = sizeof(control.space);
		control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
						 .cmsg_type = SCM_RIGHTS,
						 .cmsg_len = CMSG_LEN(sizeof(int))};
		memcpy(CMSG_DATA(&control.align), &driver, sizeof(driver));
	}
	(void)sendmsg(driver, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool stop(struct loop *l)
{
	loop_stop(l, 0);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct guest_env env;
	static const struct interp_config config;
	struct loop loop = {.before_wait = NULL};
	struct interp i = {.loop = &loop,
			   .env = &env,
			   .config = &config,
			   .ctl.fd = -1,
			   .out.fd = -1,
			   .bell = -1,
			   .rest.file = -1,
			   .on_ready = on_ready,
			   .on_done = on_done,
			   .on_death = on_death};
	const uint8_t *end = data + size;
	const char *step;

	if (loop_init(&loop) < 0 || interp_start(&i, INTERP_ACTIVE, &step) < 0)
		abort();
	for (int n = 0; n < 64 && end - data >= 2 && i.ctl.fd >= 0; n++) {
		size_t len = data[1] < end - data - 2 ? data[1] : (size_t)(end - data - 2);

		at_rest = data[0] & REST;
		if (data[0] & WARM && i.state == INTERP_IDLE)
			(void)interp_warm(&i);
		send_one(&i, data[0], data + 2, len);
		i.ctl.ready(&i.ctl, EPOLLIN);
		data += 2 + len;
	}
	if (i.state == INTERP_IDLE && i.answered)
		abort();
	interp_fini(&i);
	close_fd(&driver);
	loop.before_wait = stop;
	(void)loop_run(&loop);
	loop_fini(&loop);
	return 0;
}
