/* SPDX-License-Identifier: Apache-2.0 */
/* A holder of locks: its locks in the kernel, through an open file of its own, and their copy in the book. */
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/core/util.h"

static const short kernel_type[] = {
	[PROTO_UNLOCK] = F_UNLCK, [PROTO_LOCK_SHARED] = F_RDLCK, [PROTO_LOCK_EXCLUSIVE] = F_WRLCK};

struct flock holder_range(enum proto_lock_type type, uint64_t start, uint64_t end)
{
	return (struct flock){.l_type = kernel_type[type],
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)start,
			      .l_len = end == HOLDER_TO_THE_END ? 0 : (off_t)(end - start + 1)};
}

int holder_set_range(int fd, enum proto_lock_type type, uint64_t start, uint64_t end)
{
	struct flock fl = holder_range(type, start, end);

	if (fcntl(fd, F_OFD_SETLK, &fl) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

int holder_set_whole(int fd, enum proto_lock_type type)
{
	static const int how[] = {[PROTO_UNLOCK] = LOCK_UN,
				  [PROTO_LOCK_SHARED] = LOCK_SH,
				  [PROTO_LOCK_EXCLUSIVE] = LOCK_EX};

	return flock(fd, how[type] | LOCK_NB) < 0 ? -errno : 0;
}

int holder_try(struct lockbook *book, struct lock_holder *h, const struct lock_ask *ask,
	       struct lock_spare *spare)
{
	int r = ask->whole ? holder_set_whole(h->fd, ask->type)
			   : holder_set_range(h->fd, ask->type, ask->start, ask->end);

	if (r == 0)
		lockbook_apply(book, h, ask, spare);
	else if (ask->whole && h->whole != PROTO_UNLOCK && h->whole != ask->type)
		h->whole = PROTO_UNLOCK; /* a conversion begins by giving up what there was */
	return r == -EWOULDBLOCK ? -EAGAIN : r;
}

void holder_settle(const struct lock_holder *h, const struct lock_ask *ask)
{
	struct lock_range piece;

	if (ask->whole) {
		(void)holder_set_whole(h->fd, h->whole);
		return;
	}
	for (uint64_t at = ask->start; at <= ask->end; at = piece.end + 1) {
		piece = lockbook_piece(h->ranges, at, ask->end);
		(void)holder_set_range(h->fd, piece.type, piece.start, piece.end);
	}
}

void holder_tidy(struct lockbook *book, struct lock_holder *h)
{
	if (!lockbook_empty(h))
		return;
	close_fd(&h->fd);
	lockbook_free(book, h);
}
