/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel is going to be told. See outbox.h. */
#include "outbox.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/log.h"

/* The beginning of the memory. */
struct outbox_head {
	_Atomic uint64_t turn;
	uint64_t unused[7];
};

static_assert(sizeof(struct outbox_head) == 64, "the first answer is aligned");

static size_t room_of(size_t len)
{
	return (len + 7) / 8 * 8;
}

static char *answers(const struct outbox *o)
{
	return (char *)(o->head + 1);
}

static size_t capacity(const struct outbox *o)
{
	return o->size - sizeof(struct outbox_head);
}

static void set_turn(struct outbox *o, uint64_t turn)
{
	o->turn = turn;
	o->len = 0;
	atomic_store(&o->head->turn, turn);
	atomic_signal_fence(memory_order_seq_cst); /* before anything that is of this turn */
}

void outbox_open(struct outbox *o, void *mem, size_t size)
{
	*o = (struct outbox){.head = mem, .size = size};
	TAILQ_INIT(&o->more);
	set_turn(o, 1);
}

/* Return: bytes of the answer at @data, of which there are @len at most; 0 if it is none. */
static size_t length_of(const char *data, size_t len)
{
	struct fuse_out_header h;

	if (len < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	return h.len >= sizeof(h) && h.len <= len ? h.len : 0;
}

int outbox_load(struct outbox *o, void *mem, size_t size, uint64_t turn, size_t len)
{
	size_t at = 0, one = 1;
	uint64_t is;

	*o = (struct outbox){.head = mem, .size = size};
	TAILQ_INIT(&o->more);
	is = atomic_load_explicit(&o->head->turn, memory_order_acquire);
	if (is != turn) { /* all was said */
		set_turn(o, (is > turn ? is : turn) + 1);
		return 0;
	}
	if (len > capacity(o))
		return -EBADMSG;
	while (at < len && one) {
		one = length_of(answers(o) + at, len - at);
		at += room_of(one);
	}
	if (at != len)
		return -EBADMSG;
	o->turn = turn;
	o->len = o->queued = len;
	return 0;
}

static struct outbox_more *more_new(struct outbox *o, uint64_t number, size_t len)
{
	struct outbox_more *m = malloc(sizeof(*m) + len);

	if (!m)
		return NULL;
	*m = (struct outbox_more){.number = number, .len = len};
	TAILQ_INSERT_TAIL(&o->more, m, link);
	o->queued += len;
	return m;
}

int outbox_load_more(struct outbox *o, uint64_t number, const void *data, size_t len)
{
	struct outbox_more *m;

	if (length_of(data, len) != len || number <= o->number)
		return -EBADMSG;
	m = more_new(o, number, len);
	if (!m)
		return -ENOMEM;
	memcpy(m->data, data, len);
	m->recorded = true;
	o->number = number;
	return 0;
}

static void gather(char *to, const struct iovec *iov, int count)
{
	for (int i = 0; i < count; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
}

int outbox_add(struct outbox *o, const struct iovec *iov, int count)
{
	struct outbox_more *m;
	size_t len = 0;

	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	assert(((const struct fuse_out_header *)iov[0].iov_base)->len == len);
	if (TAILQ_EMPTY(&o->more) && room_of(len) <= capacity(o) - o->len) {
		gather(answers(o) + o->len, iov, count);
		o->len += room_of(len);
		o->queued += room_of(len);
		return 0;
	}
	m = more_new(o, o->number + 1, len);
	if (!m)
		return -ENOMEM;
	o->number++;
	gather(m->data, iov, count);
	return 0;
}

static void say(int fd, const char *answer, size_t len)
{
	/* ENOENT: nobody waits for it any more, or nobody ever did. ENODEV: the mount is gone. */
	if (write(fd, answer, len) < 0 && errno != ENOENT && errno != ENODEV)
		log_warn("the kernel did not take an answer of %zu bytes: %s", len,
			 strerror(errno));
}

void outbox_say(struct outbox *o, int fd)
{
	struct outbox_more *m;
	size_t len;

	for (size_t at = 0; at < o->len; at += room_of(len)) {
		len = length_of(answers(o) + at, o->len - at);
		assert(len);
		say(fd, answers(o) + at, len);
	}
	TAILQ_FOREACH(m, &o->more, link)
		say(fd, m->data, m->len);
	outbox_fini(o);
	if (o->len)
		set_turn(o, o->turn + 1);
	o->queued = 0;
}

void outbox_fini(struct outbox *o)
{
	struct outbox_more *m;

	if (!o->head)
		return;
	while ((m = TAILQ_FIRST(&o->more))) {
		TAILQ_REMOVE(&o->more, m, link);
		free(m);
	}
}
