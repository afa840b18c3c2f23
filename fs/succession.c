/* SPDX-License-Identifier: Apache-2.0 */
/* One daemon after another behind a live mount. See succession.h. */
#include "succession.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bequest.h"
#include "fs/fuse/devfuse.h"
#include "fs/keep/keeper.h"
#include "fs/session/fs.h"
#include "survival.h"
#include "vm/base/estate.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner.h"

#define QUIET_MS	1000  /* so long the kernel's requests wait for a quiet moment */
#define KEEP_MS		10000 /* for what is on its way to state_dir */
#define TRY_MS		1

/* Counted up when records change so that an older version would misread them; new fields are no such change. */
#define RECORDS_VERSION 3u

/* What the two say to each other. */
enum word_op {
	WORD_READY = 1, /* the heir can load */
	WORD_ESTATE,	/* here is all: the file of an estate, then what lent_give() says */
	WORD_REFUSED,	/* it is not going to be: why */
};

struct word {
	uint32_t op, version;
	uint64_t size; /* of the records, for the log */
	uint32_t unused;
	char text[256];
};

static void say(int sock, enum word_op op, const char *text)
{
	struct word w = {.op = op, .version = RECORDS_VERSION};

	snprintf(w.text, sizeof(w.text), "%s", text);
	(void)fdpass_send(sock, &w, sizeof(w), NULL, 0, MSG_DONTWAIT);
}

/* ---- the daemon that serves ---- */

static void on_poll_closed(uv_handle_t *handle)
{
	struct succession *s = handle->data;

	s->closing = false;
}

/* There is no heir any more: it goes on as before. */
static void refuse(struct succession *s, const char *why)
{
	log_info("the mount is not taken over now: %s", why);
	say(s->heir, WORD_REFUSED, why);
	s->closing = true;
	uv_close((uv_handle_t *)&s->poll, on_poll_closed);
	uv_timer_stop(&s->again);
	close(steal_fd(&s->heir));
	devfuse_serve(s->fuse);
}

/* All there is, and that it is now. Return: 0; -EAGAIN; -errno, with a reason. */
static int write_down(struct succession *s, struct estate **ret_e, struct problem *why)
{
	const int r = survival_leave(s->survival, ret_e);

	if (r == -EAGAIN)
		problem_set(why, PROBLEM_BUSY, "", "answers to the kernel are being said");
	else if (r < 0)
		problem_set(why, PROBLEM_FAILED, "", "%s%s",
			    r == -EOPNOTSUPP ? "it is not known any more what the kernel has asked"
					     : "the mount could not be written down: ",
			    r == -EOPNOTSUPP ? "" : strerror(-r));
	return r;
}

/* The file, and what its records speak of. */
static int send_estate(int sock, const struct estate *e)
{
	const struct word w = {
		.op = WORD_ESTATE, .version = RECORDS_VERSION, .size = estate_live(e)};
	const int fd = estate_fd(e);
	const int r = only_errno(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0));

	return r == 0 ? lent_give(sock) : r;
}

/* Nothing of this process changes before it is known who the daemon is. Return: as hand_over(). */
static int give(struct succession *s, const struct estate *e, struct problem *why)
{
	int r = spawner_yield(s->spawner);

	if (r < 0) {
		problem_set(why, PROBLEM_BUSY, "", "%s",
			    r == -EAGAIN ? "processes are being started" : strerror(-r));
		return r;
	}
	/* If it does not get all of it, it gives up, as the spawner will hear. */
	r = send_estate(s->heir, e);
	if (r < 0)
		shutdown(s->heir, SHUT_RDWR);
	return spawner_await(s->spawner);
}

/* The moment. Return: 0 if it came to nothing, and this is the daemon still; -EAGAIN: it is none; -errno. */
static int hand_over(struct succession *s, struct problem *why)
{
	const uint64_t began = log_now();
	struct estate *e;
	int r;

	if (s->keeper && !keeper_may_yield(s->keeper)) {
		problem_set(why, PROBLEM_BUSY, "", "sessions are being written to state_dir");
		return -EAGAIN;
	}
	r = write_down(s, &e, why);
	if (r < 0)
		return r;
	log_debug("written down: %zu bytes, %llu us", estate_live(e),
		  (unsigned long long)(log_now() - began) / 1000);
	r = give(s, e, why);
	survival_left(s->survival, e);
	return r;
}

/* While the kernel's requests are read still. What waits for a disk that does not answer is refused in the end. */
static bool is_written(const struct succession *s)
{
	return !s->keeper || keeper_may_yield(s->keeper) || uv_now(s->loop) >= s->until;
}

static void on_again(uv_timer_t *timer)
{
	struct succession *s = timer->data;
	struct problem why = {0};
	int r;

	if (s->fs->stopping) {
		refuse(s, "the mount is ending");
		return;
	}
	if (!s->paused && !is_written(s)) {
		uv_timer_start(&s->again, on_again, TRY_MS, 0);
		return;
	}
	if (!s->paused) {
		s->paused = true;
		devfuse_pause(s->fuse);
		s->until = uv_now(s->loop) + QUIET_MS;
	}
	r = hand_over(s, &why);
	if (r == -EAGAIN && uv_now(s->loop) < s->until) {
		uv_timer_start(&s->again, on_again, TRY_MS, 0);
		return;
	}
	refuse(s, r == 0 ? "it did not come to be" : why.cause);
}

/* The heir has said something: that it is ready, or nothing any more. */
static void on_heir(uv_poll_t *poll, int status, int events)
{
	struct succession *s = poll->data;
	struct word w;
	size_t nfds;

	(void)events;
	if (status < 0 ||
	    fdpass_receive(s->heir, &w, sizeof(w), NULL, 0, &nfds, MSG_DONTWAIT) != sizeof(w) ||
	    w.op != WORD_READY) {
		refuse(s, "its heir is gone");
		return;
	}
	/* It says no more, but it may end while a quiet moment is waited for. */
	uv_poll_start(&s->poll, UV_DISCONNECT, on_heir);
	s->paused = false;
	s->until = uv_now(s->loop) + KEEP_MS;
	uv_timer_start(&s->again, on_again, 0, 0);
}

static bool on_begun(void *data, int fd)
{
	struct succession *s = data;

	if (s->heir >= 0 || s->closing || s->fs->stopping ||
	    uv_poll_init(s->loop, &s->poll, fd) < 0) {
		close(fd);
		return false;
	}
	s->heir = fd;
	s->poll.data = s;
	uv_poll_start(&s->poll, UV_READABLE, on_heir);
	return true;
}

void succession_await(struct succession *s)
{
	s->heir = -1;
	uv_timer_init(s->loop, &s->again);
	s->again.data = s;
	uv_unref((uv_handle_t *)&s->again);
	s->attached = true;
	spawner_on_heir(s->spawner, on_begun, s);
}

void succession_close(struct succession *s)
{
	if (!s->attached)
		return;
	s->attached = false;
	if (s->heir >= 0)
		refuse(s, "the mount is ending");
	uv_close((uv_handle_t *)&s->again, NULL);
	spawner_on_heir(s->spawner, NULL, NULL);
}

/* ---- the heir ---- */

/* Return: a word, with the file of WORD_ESTATE. */
static int hear(int sock, struct word *ret_w, int *ret_fd)
{
	size_t nfds;
	ssize_t n = fdpass_receive(sock, ret_w, sizeof(*ret_w), ret_fd, 1, &nfds, 0);

	if (nfds == 0)
		*ret_fd = -1;
	ret_w->text[sizeof(ret_w->text) - 1] = '\0';
	return n == sizeof(*ret_w) ? 0 : n < 0 ? (int)n : -EPIPE;
}

static int understand(const struct word *w, int file)
{
	return w->version == RECORDS_VERSION && file >= 0 ? 0 : -EBADMSG;
}

int succession_receive(struct succession *s, struct bequest *b, char *ret_why, size_t why_size)
{
	_cleanup_close_ int file = -1;
	struct word w;
	int r = bequest_prepare(b, s->fs->conf->survive);

	if (r < 0) {
		snprintf(ret_why, why_size, "%s", strerror(-r));
		return r;
	}
	if (s->keeper)
		keeper_wait(s->keeper);
	say(HEIR_FD_DAEMON, WORD_READY, "");
	r = hear(HEIR_FD_DAEMON, &w, &file);
	if (r < 0 || w.op != WORD_ESTATE) {
		snprintf(ret_why, why_size, "%s", r < 0 ? "the daemon is gone" : w.text);
		return r < 0 ? r : -EBUSY;
	}
	s->began = log_now();
	s->size = w.size;
	snprintf(ret_why, why_size,
		 "this version does not understand what it was given; unmount to upgrade");
	r = understand(&w, file);
	if (r < 0)
		return r;
	r = lent_adopt(HEIR_FD_DAEMON, bequest_take, b);
	if (r == 0)
		r = bequest_open(b, steal_fd(&file), s->spawner);
	if (r < 0)
		snprintf(ret_why, why_size, "what it was given did not arrive: %s", strerror(-r));
	return r;
}

int succession_ready(struct succession *s, char *ret_why, size_t why_size)
{
	const int r = spawner_ready(s->spawner);

	if (r < 0) {
		snprintf(ret_why, why_size, "the spawner: %s", strerror(-r));
		return r;
	}
	close(HEIR_FD_DAEMON);
	log_info("another daemon has taken the mount over: %llu bytes were loaded in %llu us",
		 (unsigned long long)s->size, (unsigned long long)(log_now() - s->began) / 1000);
	return 0;
}
