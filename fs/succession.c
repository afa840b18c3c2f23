/* SPDX-License-Identifier: Apache-2.0 */
/* One daemon after another behind a live mount. See succession.h. */
#include "succession.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/keep/keeper.h"
#include "fs/session/fs.h"
#include "vm/base/fdpass.h"
#include "vm/base/io.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

#define QUIET_MS	1000  /* so long the kernel's requests wait for a quiet moment */
#define KEEP_MS		10000 /* for what is on its way to state_dir */
#define TRY_MS		1
#define SIZE_MOST	(4ull << 30) /* of all records */

/* Counted up when records change so that an older version would misread them; new fields are no such change. */
#define RECORDS_VERSION 2u

/* What the two say to each other. */
enum word_op {
	WORD_READY = 1, /* the heir can load */
	WORD_ESTATE,  /* here is all; the records in a memfd, then packets of `nfds` descriptors */
	WORD_REFUSED, /* it is not going to be: why */
};

struct word {
	uint32_t op, version;
	uint64_t size; /* of the records */
	uint32_t nfds;
	char text[256];
};

/* Never reuse. */
enum process_tag {
	TAG_TIE = 1,
	TAG_STDERR,
	TAG_PERMITTED,
	TAG_STATE_LOCK, /* of what is kept */
	TAG_ENDING,	/* the exit status, and one */
	TAG_HOST,	/* of vm_host_put() */
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

/* Not for a program of another version, or another configuration, which may think otherwise of it. */
static void put_host(const struct succession *s, struct buf *out)
{
	struct buf fields = {0};

	vm_host_put(s->fs->vm, &fields);
	out->failed |= fields.failed;
	record_bytes(out, TAG_HOST, fields.data, fields.len);
	buf_clear(&fields);
}

void succession_put_process(const struct succession *s, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_TIE, fdbag_put(fds, spawner_tie_fd(s->spawner)));
	/* In the background it is whoever's who waits for the start, and perhaps for the end of what is said there. */
	if (s->fs->conf->foreground)
		record_u64(out, TAG_STDERR, fdbag_put(fds, STDERR_FILENO));
	record_str(out, TAG_PERMITTED, s->permitted);
	record_u64(out, TAG_STATE_LOCK, s->keeper ? fdbag_put(fds, keeper_lock(s->keeper)) : 0);
	if (s->ending)
		record_u64(out, TAG_ENDING, s->status + 1u);
	if (vm_host_is_known(s->fs->vm))
		put_host(s, out);
}

static int put_process(const struct succession *s, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_begin(out, HANDOVER_PROCESS, 0);

	succession_put_process(s, out, fds);
	return record_end(out, at);
}

static int put_connection(const struct devfuse *d, struct buf *out)
{
	const size_t at = record_begin(out, HANDOVER_CONNECTION, 0);
	const int r = devfuse_put(d, out);

	return r < 0 ? r : record_end(out, at);
}

/* All there is. Return: 0, -EAGAIN, -errno, with a reason. */
static int write_down(struct succession *s, struct buf *out, struct fdbag *fds, struct problem *why)
{
	int r = put_process(s, out, fds);

	if (r == 0)
		r = handover_put(s->fs, out, fds, why);
	if (r == -EAGAIN || why->code)
		return r;
	if (r == 0)
		r = put_connection(s->fuse, out);
	if (r == 0)
		r = record_end(out, record_begin(out, HANDOVER_END, 0));
	if (r < 0)
		problem_set(why, PROBLEM_FAILED, "", "%s",
			    r == -EOPNOTSUPP ? "it is not known any more what the kernel has asked"
					     : strerror(-r));
	return r;
}

static int send_estate(int sock, const struct buf *records, const struct fdbag *fds)
{
	struct word w = {.op = WORD_ESTATE,
			 .version = RECORDS_VERSION,
			 .size = records->len,
			 .nfds = (uint32_t)fds->n};
	_cleanup_close_ int fd = memfd_create("xsbxfs-estate", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fileio_write(fd, records->data, records->len);

	if (r == 0)
		r = only_errno(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0));
	return r == 0 ? fdbag_send(fds, sock) : r;
}

/* The moment. Return: 0 if it came to nothing, and this is the daemon still; -EAGAIN: it is none; -errno. */
static int hand_over(struct succession *s, struct problem *why)
{
	const uint64_t began = log_now();
	struct fdbag fds = {0};
	struct buf records = {0};
	int r = -EAGAIN;

	if (s->keeper && !keeper_may_yield(s->keeper))
		problem_set(why, PROBLEM_BUSY, "", "sessions are being written to state_dir");
	else
		r = write_down(s, &records, &fds, why);

	if (r == 0) {
		r = spawner_yield(s->spawner);
		if (r < 0)
			problem_set(why, PROBLEM_BUSY, "", "%s",
				    r == -EAGAIN ? "processes are being started" : strerror(-r));
	}
	if (r == 0) {
		log_debug("written down: %zu bytes, %zu descriptors, %llu us", records.len, fds.n,
			  (unsigned long long)(log_now() - began) / 1000);
		/* If it does not get all of it, it gives up, as the spawner will hear. */
		r = send_estate(s->heir, &records, &fds);
		if (r < 0)
			shutdown(s->heir, SHUT_RDWR);
		r = spawner_await(s->spawner);
	}
	fdbag_clear(&fds);
	buf_clear(&records);
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

/* Return: a word, with the records' file of WORD_ESTATE. */
static int hear(int sock, struct word *ret_w, int *ret_fd)
{
	size_t nfds;
	ssize_t n = fdpass_receive(sock, ret_w, sizeof(*ret_w), ret_fd, 1, &nfds, 0);

	if (nfds == 0)
		*ret_fd = -1;
	ret_w->text[sizeof(ret_w->text) - 1] = '\0';
	return n == sizeof(*ret_w) ? 0 : n < 0 ? (int)n : -EPIPE;
}

/* The spawner goes by the configuration of the first daemon, for ever. */
static int check_permitted(const struct succession *s, const struct record_field *f,
			   struct problem *why)
{
	char sum[DIGEST_HEX];
	int r = record_get_str(f, sum, sizeof(sum));

	if (r < 0 || s->revives || strcmp(sum, s->permitted) == 0)
		return r;
	problem_set(why, PROBLEM_FAILED, "",
		    "the configuration permits sandboxes other things of this host than it did "
		    "when the mount was made (paths, limits, programs); unmount for that");
	return -EPERM;
}

static int get_descriptor(struct succession *s, const struct record_field *f, struct fdbag *fds)
{
	uint32_t n = 0;
	int r = record_get_u32(f, UINT32_MAX, &n), fd = r < 0 ? -1 : fdbag_take(fds, n);

	if (f->tag == TAG_TIE)
		spawner_tie(s->spawner, steal_fd(&fd));
	else if (fd >= 0 && dup2(fd, STDERR_FILENO) < 0)
		r = -errno;
	lent_close(&fd);
	return r;
}

/* It has to be the same directory, or none for both. */
static int get_lock(struct succession *s, const struct record_field *f, struct fdbag *fds,
		    struct problem *why)
{
	uint32_t n = 0;
	int r = record_get_u32(f, UINT32_MAX, &n), fd = r < 0 ? -1 : fdbag_take(fds, n);

	if (r < 0)
		return r;
	if (fd < 0 && !s->keeper)
		return 0;
	r = fd >= 0 && s->keeper ? keeper_inherit(s->keeper, fd) : -EBADMSG;
	if (!s->keeper)
		lent_close(&fd);
	if (r < 0)
		problem_set(why, PROBLEM_FAILED, "",
			    "the mount keeps its sessions elsewhere than the configuration says "
			    "now (keep, state_dir); unmount for that");
	return r;
}

static int get_ending(struct succession *s, const struct record_field *f)
{
	uint64_t status = 0;
	int r = record_get(f, 1, UINT8_MAX + 1u, &status);

	if (r < 0)
		return r;
	s->ending = true;
	s->status = (uint8_t)(status - 1);
	return 0;
}

static int get_process(struct succession *s, struct record_reader fields, struct fdbag *fds,
		       struct problem *why)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_TIE || f.tag == TAG_STDERR)
			r = get_descriptor(s, &f, fds);
		else if (f.tag == TAG_PERMITTED)
			r = check_permitted(s, &f, why);
		else if (f.tag == TAG_STATE_LOCK)
			r = get_lock(s, &f, fds, why);
		else if (f.tag == TAG_ENDING)
			r = get_ending(s, &f);
		else if (f.tag == TAG_HOST && s->revives)
			r = f.is_bytes ? vm_host_get(s->fs->vm, record_inside(&f)) : -EBADMSG;
		if (r < 0)
			return r;
	}
	return r;
}

int succession_get(struct succession *s, const struct record *rec, struct fdbag *fds,
		   struct problem *why)
{
	int r;

	spawner_alive(s->spawner);
	switch (rec->kind) {
	case HANDOVER_PROCESS: return get_process(s, rec->fields, fds, why);
	case HANDOVER_CONNECTION:
		r = devfuse_get(s->fuse, rec->fields);
		if (r == -EOPNOTSUPP)
			problem_set(why, PROBLEM_FAILED, "",
				    "this version wants other things of the kernel than the mount "
				    "was made with; unmount to upgrade");
		return r;
	default: return handover_get(s->fs, rec, fds, why);
	}
}

static int load(struct succession *s, const void *data, size_t size, struct fdbag *fds,
		struct problem *why)
{
	struct record_reader reader = record_reader(data, size);
	struct record rec = {0};
	int r;

	while ((r = record_next(&reader, &rec)) > 0 && rec.kind != HANDOVER_END) {
		r = succession_get(s, &rec, fds, why);
		if (r < 0)
			break;
	}
	if (r >= 0 && (r == 0 || rec.kind != HANDOVER_END))
		r = -EBADMSG;
	if (r > 0)
		r = handover_join(s->fs, why);
	if (r < 0 && !why->code)
		problem_set(why, PROBLEM_FAILED, "",
			    "what it was given can't be read: record %u: %s", rec.kind,
			    strerror(-r));
	return r;
}

/* Reads it into memory of its own: who made the file can change it still. */
static int read_estate(int file, size_t size, void **ret_data)
{
	void *data = malloc(size);
	int r = data ? fileio_read_at(file, data, size, 0) : -ENOMEM;

	if (r == 0)
		*ret_data = data;
	else
		free(data);
	return r;
}

static int load_estate(struct succession *s, const struct word *w, int file, struct problem *why)
{
	_cleanup_free_ void *data = NULL;
	struct fdbag fds = {0};
	int r;

	if (w->version != RECORDS_VERSION || file < 0 || w->size == 0 || w->size > SIZE_MOST) {
		problem_set(
			why, PROBLEM_FAILED, "",
			"this version does not understand what it was given; unmount to upgrade");
		return -EBADMSG;
	}
	r = fdbag_receive(&fds, HEIR_FD_DAEMON, w->nfds);
	if (r == 0)
		r = read_estate(file, w->size, &data);
	if (r == 0)
		r = load(s, data, w->size, &fds, why);
	else
		problem_set(why, PROBLEM_FAILED, "", "what it was given did not arrive: %s",
			    strerror(-r));
	fdbag_clear(&fds);
	return r;
}

int succession_load(struct succession *s, char *ret_why, size_t why_size)
{
	_cleanup_close_ int file = -1;
	struct problem why = {0};
	struct word w;
	int r;

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
	r = load_estate(s, &w, file, &why);
	if (r < 0) {
		snprintf(ret_why, why_size, "%s", why.cause);
		return r;
	}
	return 0;
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
