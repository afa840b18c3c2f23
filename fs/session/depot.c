/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of output: kept in memory until they are on disk. See depot.h. */
#include "depot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include "vm/base/io.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

#define RETRY_MS    1000
#define BLOCK_FIRST 512u /* bytes that a block begins with */
#define SLOTS_MORE  256u

/* ---- the file ---- */

/* A file without a name. Not every file system can make one; there it loses its name at once. Return:
 * descriptor or -errno. */
static int unnamed_file(int dirfd)
{
	static unsigned counter;
	char name[48];
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	snprintf(name, sizeof(name), ".spool-%d-%u", (int)getpid(), counter++);
	fd = openat(dirfd, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)unlinkat(dirfd, name, 0);
	return fd;
}

/* Offset of a slot in the file. */
static off_t place(uint32_t slot)
{
	return (off_t)slot * DEPOT_BLOCK;
}

/* Bytes free where @dir is, or -errno. */
static int64_t depot_room(int dir)
{
	struct statvfs st;

	return fstatvfs(dir, &st) < 0 ? -errno : (int64_t)(st.f_bavail * st.f_frsize);
}

/* ---- a job, in another thread ---- */

static void give_back(const struct depot_job *job)
{
	/* Without support for holes, the space is only reused, and the file truncated when it is empty. */
	for (unsigned i = 0; i < job->nleft; i++)
		(void)fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				place(job->left[i]), DEPOT_BLOCK);
	if (job->empty)
		(void)!ftruncate(job->fd, 0);
}

static int write_block(const struct depot_job *job, const unsigned char *key, const struct block *b,
		       uint32_t slot)
{
	_cleanup_free_ char *veiled = malloc(b->len);
	int r = veiled ? veil(key, b->nonce, 0, b->data, veiled, b->len) : -ENOMEM;

	return r < 0 ? r : fileio_write_at(job->fd, veiled, b->len, place(slot));
}

static void on_work(uv_work_t *work)
{
	const struct depot *d = container_of(work, struct depot, work);
	struct depot_job *job = &container_of(work, struct depot, work)->job;

	if (job->fd < 0)
		job->fd = unnamed_file(job->dir);
	if (job->fd < 0) {
		job->err = job->fd;
		job->room = job->fd;
		return;
	}
	give_back(job);
	job->room = depot_room(job->dir);
	while (job->nwritten < job->nblocks && job->err == 0) {
		job->err = write_block(job, d->key, job->block[job->nwritten],
				       job->slot[job->nwritten]);
		if (job->err == 0)
			job->nwritten++;
	}
}

/* ---- slots ---- */

/* Makes room for more slots, on all lists, so that freeing a slot can't fail. */
static int grow(struct depot *d)
{
	const uint32_t cap = d->cap + SLOTS_MORE;
	uint32_t *vacant = reallocarray(d->vacant, cap, sizeof(*vacant)), *left, *freed;

	if (!vacant)
		return -ENOMEM;
	d->vacant = vacant;
	left = reallocarray(d->left, cap, sizeof(*left));
	if (!left)
		return -ENOMEM;
	d->left = left;
	freed = reallocarray(d->freed, cap, sizeof(*freed));
	if (!freed)
		return -ENOMEM;
	d->freed = freed;
	d->cap = cap;
	return 0;
}

static int slot_take(struct depot *d, uint32_t *ret_slot)
{
	if (d->nvacant) {
		*ret_slot = d->vacant[--d->nvacant];
	} else {
		if (d->nslots == d->cap && grow(d) < 0)
			return -ENOMEM;
		*ret_slot = d->nslots++;
	}
	d->nused++;
	return 0;
}

/* ---- jobs ---- */

static void on_done(uv_work_t *work, int status);
static void on_retry(uv_timer_t *timer);

/* The blocks for the next job. */
static void choose_blocks(struct depot *d)
{
	struct depot_job *job = &d->job;
	struct block *b;

	d->keyed = d->keyed || veil_random(d->key, sizeof(d->key)) == 0;
	while (d->keyed && job->nblocks < DEPOT_BATCH && (b = TAILQ_FIRST(&d->queue))) {
		if (veil_random(b->nonce, sizeof(b->nonce)) < 0 || slot_take(d, &b->slot) < 0)
			break;
		b->veiled = true;
		TAILQ_REMOVE(&d->queue, b, link);
		b->state = BLOCK_WRITING;
		job->slot[job->nblocks] = b->slot;
		job->block[job->nblocks++] = block_ref(b);
	}
}

static void kick(struct depot *d)
{
	struct depot_job *job = &d->job;
	int r;

	if (d->busy || d->closing || d->taken || (TAILQ_EMPTY(&d->queue) && !d->nleft))
		return;
	*job = (struct depot_job){.dir = d->dir, .fd = d->fd};
	while (job->nleft < DEPOT_BATCH && d->nleft)
		job->left[job->nleft++] = d->left[--d->nleft];
	job->empty = d->nused == 0 && !d->nfreed;
	choose_blocks(d);
	if (!job->nblocks && !job->nleft) {
		d->err = -ENOMEM; /* grow() has failed, or there is nothing random */
		uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
		return;
	}
	d->busy = true;
	r = uv_queue_work(d->loop, &d->work, on_work, on_done);
	assert(r == 0);
	(void)r;
}

static void on_retry(uv_timer_t *timer)
{
	struct depot *d = timer->data;

	if (TAILQ_EMPTY(&d->queue))
		d->err = 0; /* nothing is left to be written */
	kick(d);
}

static void stored(struct depot *d, struct block *b)
{
	d->waiting -= b->len;
	b->state = BLOCK_STORED;
	free(b->data);
	b->data = NULL;
	b->cap = 0;
	if (b->trail.id)
		touched_add(d->touched, TOUCHED_BLOCK, &b->touch);
}

static void slot_free(struct depot *d, uint32_t slot)
{
	d->nused--;
	if (d->taken) {
		d->taken[slot] = 0; /* depot_resumed() finds it */
	} else if (touched_is_on(d->touched)) {
		d->freed[d->nfreed++] = slot;
		turn_speak(d->touched->turn, TURN_RELEASE, &d->release);
	} else {
		d->left[d->nleft++] = slot;
	}
}

/* No record names them any more. */
static void on_release(struct turn_speaker *sp)
{
	struct depot *d = container_of(sp, struct depot, release);

	while (d->nfreed)
		d->left[d->nleft++] = d->freed[--d->nfreed];
	if (d->err == 0)
		kick(d);
}

/* Ends the job: blocks that were not written go back to the front of the queue, in order. */
static void take_apart(struct depot *d)
{
	struct depot_job *job = &d->job;

	for (unsigned i = 0; i < job->nleft; i++)
		if (job->left[i] >= d->first)
			d->vacant[d->nvacant++] = job->left[i];
	for (unsigned i = job->nblocks; i-- > 0;) {
		struct block *b = job->block[i];

		if (i < job->nwritten) {
			stored(d, b);
		} else {
			slot_free(d, b->slot);
			b->state = BLOCK_WAITING;
			TAILQ_INSERT_HEAD(&d->queue, b, link);
		}
		block_unref(d, b);
	}
}

static void on_done(uv_work_t *work, int status)
{
	struct depot *d = container_of(work, struct depot, work);
	const int before = d->err;

	if (status == 0 && d->job.fd >= 0)
		d->fd = d->job.fd;
	if (status == 0)
		d->room = d->job.room;
	if (d->job.nblocks)
		d->err = status < 0 ? status : d->job.err;
	take_apart(d);
	/* Not before: a slot that is freed may start the next job, which reuses `job`. */
	d->busy = false;
	if (d->err < 0 && before == 0)
		log_error("output cannot be written to disk, and stays in memory: %s",
			  strerror(-d->err));
	else if (d->err == 0 && before < 0)
		log_info("output can be written to disk again");
	if (d->closing)
		return;
	if (d->err < 0)
		uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
	else
		kick(d);
	if (d->relieved)
		d->relieved(d->data);
}

/* ---- blocks ---- */

struct block *block_new(void)
{
	struct block *b = calloc(1, sizeof(*b));

	if (b)
		b->refs = 1;
	return b;
}

struct block *block_ref(struct block *b)
{
	b->refs++;
	return b;
}

void block_unref(struct depot *d, struct block *b)
{
	assert(b->refs > 0);
	if (--b->refs)
		return;
	assert(b->state != BLOCK_WRITING); /* the job has a reference */
	if (b->state == BLOCK_WAITING) {
		TAILQ_REMOVE(&d->queue, b, link);
		d->waiting -= b->len;
	} else if (b->state == BLOCK_STORED) {
		slot_free(d, b->slot);
		if (d->err == 0)
			kick(d);
	}
	touched_take(d->touched, TOUCHED_BLOCK, &b->touch);
	if (b->trail.id)
		touched_add_gone(d->touched, TOUCHED_BLOCK, b->trail.id, 0);
	free(b->data);
	free(b);
}

ssize_t block_append(struct block *b, const void *data, size_t len)
{
	uint32_t cap = b->cap ? b->cap : BLOCK_FIRST;
	char *bytes;

	assert(b->state == BLOCK_OPEN && b->refs == 1);
	len = MIN(len, DEPOT_BLOCK - b->len);
	while (cap < b->len + len)
		cap *= 2;
	if (cap != b->cap) {
		bytes = realloc(b->data, cap);
		if (!bytes)
			return -ENOMEM;
		b->data = bytes;
		b->cap = cap;
	}
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += (uint32_t)len;
	return (ssize_t)len;
}

void depot_put(struct depot *d, struct block *b)
{
	assert(b->state == BLOCK_OPEN);
	b->state = BLOCK_WAITING;
	d->waiting += b->len;
	TAILQ_INSERT_TAIL(&d->queue, b, link);
	if (d->err == 0)
		kick(d);
}

/* Takes the veil off what was read from @offset on. */
static int unveil(const unsigned char *key, const struct block *b, uint32_t offset, void *data,
		  size_t len)
{
	return b->veiled ? veil(key, b->nonce, offset, data, data, len) : 0;
}

int depot_fetch(int fd, const unsigned char key[VEIL_KEY], const struct block *b, uint32_t offset,
		void *to, size_t len)
{
	const int r = fileio_read_at(fd, to, len, place(b->slot) + offset);

	return r < 0 ? r : unveil(key, b, offset, to, len);
}

int depot_read(const struct depot *d, const struct block *b, uint32_t offset, void *out, size_t len)
{
	struct iovec iov = {out, len};
	ssize_t n;

	assert(offset <= b->len && len <= b->len - offset);
	if (b->state != BLOCK_STORED) {
		memcpy(out, b->data + offset, len);
		return 0;
	}
	n = preadv2(d->fd, &iov, 1, place(b->slot) + offset, RWF_NOWAIT);
	if (n < 0 && errno != EAGAIN && errno != EOPNOTSUPP && errno != EINTR && errno != ENOSYS)
		return -errno;
	return n == (ssize_t)len ? unveil(d->key, b, offset, out, len) : -EAGAIN;
}

/* ---- what was there before ---- */

int depot_resume(struct depot *d, int fd, uint32_t nslots)
{
	assert(!d->nslots && !d->busy && TAILQ_EMPTY(&d->queue));
	while (d->cap < nslots)
		if (grow(d) < 0)
			return -ENOMEM;
	d->taken = calloc(nslots ? nslots : 1, 1);
	if (!d->taken)
		return -ENOMEM;
	lent_close(&d->fd);
	d->fd = fd;
	d->nslots = nslots;
	return 0;
}

int depot_stored(struct depot *d, uint32_t slot, uint32_t len, const unsigned char *nonce,
		 struct block **ret_b)
{
	struct block *b;

	if (!d->taken || slot >= d->nslots || d->taken[slot] || len == 0 || len > DEPOT_BLOCK)
		return -EBADMSG;
	b = block_new();
	if (!b)
		return -ENOMEM;
	b->state = BLOCK_STORED;
	b->slot = slot;
	b->len = len;
	b->veiled = nonce;
	if (nonce)
		memcpy(b->nonce, nonce, sizeof(b->nonce));
	d->taken[slot] = 1;
	d->nused++;
	*ret_b = b;
	return 0;
}

void depot_resumed(struct depot *d)
{
	for (uint32_t i = 0; d->taken && i < d->nslots; i++)
		if (!d->taken[i])
			d->left[d->nleft++] = i;
	free(d->taken);
	d->taken = NULL;
	d->first = d->nslots;
	kick(d);
}

/* ---- begin and end ---- */

void depot_init(struct depot *d, uv_loop_t *loop, int dir)
{
	*d = (struct depot){
		.loop = loop, .dir = dir, .fd = unnamed_file(dir), .room = depot_room(dir)};
	if (d->fd < 0) {
		log_warn("no file for long outputs can be made now: %s", strerror(-d->fd));
		d->fd = -1;
	}
	d->keyed = veil_random(d->key, sizeof(d->key)) == 0;
	TAILQ_INIT(&d->queue);
	uv_timer_init(loop, &d->retry);
	d->retry.data = d;
	d->release.speak = on_release;
}

void depot_close(struct depot *d)
{
	if (d->closing)
		return;
	d->closing = true;
	if (d->touched)
		turn_hush(d->touched->turn, &d->release);
	uv_close((uv_handle_t *)&d->retry, NULL);
}

bool depot_fini(struct depot *d)
{
	if (d->busy)
		return false;
	assert(TAILQ_EMPTY(&d->queue) && d->waiting == 0);
	free(d->taken);
	free(d->vacant);
	free(d->left);
	free(d->freed);
	lent_close(&d->fd);
	return true;
}
