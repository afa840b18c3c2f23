/* SPDX-License-Identifier: Apache-2.0 */
/* The file server's requests on locks. See locks.h. */
#include <errno.h>

#include "ops.h"

/* The descriptor of an open file, or -EBADF. */
static int file_fd(const struct files *f, uint64_t handle)
{
	const struct handle *h = handle_find(&f->table, handle);

	return h && !h->dir ? h->fd : -EBADF;
}

int files_lock(struct files *f, struct proto_in *in, struct proto_out *out)
{
	struct proto_lock l;
	bool waits = false;
	int fd, r;

	if (proto_lock_unpack(in, &l) < 0)
		return files_malformed(in);
	fd = file_fd(f, l.handle);
	r = fd < 0 ? fd : locks_lock(&f->locks, fd, &l, &waits);
	put_u32(out, waits);
	return r;
}

int files_test_lock(struct files *f, struct proto_in *in, struct proto_out *out)
{
	struct proto_lock l;
	int fd, r;

	if (proto_lock_unpack(in, &l) < 0 || l.type == PROTO_UNLOCK)
		return files_malformed(in);
	fd = file_fd(f, l.handle);
	r = fd < 0 ? fd : locks_test(&f->locks, fd, &l);
	put_u32(out, l.type);
	put_u64(out, l.start);
	put_u64(out, l.end);
	put_u32(out, l.pid);
	return r;
}

int files_drop_locks(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint64_t owner = get_u64(in);
	int fd;

	(void)out;
	if (!get_end(in))
		return files_malformed(in);
	fd = file_fd(f, handle);
	if (fd < 0)
		return fd;
	locks_drop(&f->locks, fd, owner);
	return 0;
}

int files_cancel_lock(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t token = get_u64(in);
	uint32_t undo = get_u32(in);

	(void)out;
	if (!get_end(in) || undo > 1)
		return files_malformed(in);
	locks_cancel(&f->locks, token, undo);
	return 0;
}
