/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the kernel's side of the mount. */
#ifndef XSBX_FS_FUSE_DEVFUSE_INTERNAL_H
#define XSBX_FS_FUSE_DEVFUSE_INTERNAL_H

#include <sys/uio.h>

#include "devfuse.h"

/* ---- devfuse.c ---- */

/* Does the kernel wait for an answer? */
bool devfuse_has_answer(uint32_t opcode);

/* Has libfuse handle a request. Return: its number, if it was not answered, or 0. */
uint64_t devfuse_handle(struct devfuse *d, void *mem, size_t size);

/* The same of one that has just come, in the memory where it was received; it is kept if it was not
 * answered. Return: 0; -ENOMEM: nothing more can be received. */
int devfuse_take(struct devfuse *d, char *mem, size_t size);

/* ---- devfuse_turn.c ---- */

/* Something is to be written, or to be said. */
void devfuse_news(struct devfuse *d);

/* Keeps what is to be said. Return: it will be said behind the commit; false: it has to be said
 * now. */
bool devfuse_queue(struct devfuse *d, const struct iovec *iov, int count, size_t len);

/* A request was answered, which had not been at once. */
void devfuse_drop(struct devfuse *d, uint64_t unique);

/* Between two requests: there is room for another one. */
void devfuse_make_room(struct devfuse *d);

/* A request was handled: it may be time to commit it. */
void devfuse_handled(struct devfuse *d);

/* No other one is there: those that were are committed. Return: there may be another one now. */
bool devfuse_no_more(struct devfuse *d);

/* Says what was kept. */
void devfuse_say(struct devfuse *d);

/* The mount ends: all is said, and from now on at once. */
void devfuse_leave(struct devfuse *d);

/* A request is about to be handled, which has just come. Return: its bytes stay where they are,
 * also behind the turn: somebody holds them. */
bool devfuse_hold(struct devfuse *d, const char *mem, size_t size);

/* ---- devfuse_keep.c ---- */

/* Of HANDOVER_REQUEST. Never reuse. */
enum request_tag {
	REQUEST_BYTES = 1,
	REQUEST_PLACE, /* on the sheets */
	REQUEST_LEN,
};

/* The request that is in the fields of a HANDOVER_REQUEST, or that they name. Return: 0; -EBADMSG:
 * there is none. */
int devfuse_find_request(const struct devfuse *d, struct record_reader fields,
			 struct record_field *ret_f, bool *ret_held);

/* Is it a request of at most @max bytes, with a header that is true? */
bool devfuse_is_request(const struct record_field *f, size_t max);

/* Appends fields: how the kernel and libfuse have agreed. Return: 0, -ENOMEM. And: reads them, in
 * an heir. Return: 0, -EBADMSG, -ENOMEM; -EOPNOTSUPP: this program wants other things of the kernel
 * than were agreed upon. */
int devfuse_put_agreement(const struct devfuse *d, struct buf *out);
int devfuse_get_agreement(struct devfuse *d, struct record_reader fields);

#endif
