/* SPDX-License-Identifier: Apache-2.0 */
/* The file server: dispatches requests and packs their answers. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "ops.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

#define REPLY_CAP (PROTO_LINK_MAX + 256u)

typedef int (*files_op_fn)(struct files *f, struct proto_in *in, struct proto_out *out);

static const files_op_fn ops[] = {
	[0] = files_lookup,
	[PROTO_F_FORGET - PROTO_F_LOOKUP] = files_forget,
	[PROTO_F_GETATTR - PROTO_F_LOOKUP] = files_getattr,
	[PROTO_F_SETATTR - PROTO_F_LOOKUP] = files_setattr,
	[PROTO_F_READLINK - PROTO_F_LOOKUP] = files_readlink,
	[PROTO_F_MKDIR - PROTO_F_LOOKUP] = files_mkdir,
	[PROTO_F_SYMLINK - PROTO_F_LOOKUP] = files_symlink,
	[PROTO_F_LINK - PROTO_F_LOOKUP] = files_link,
	[PROTO_F_UNLINK - PROTO_F_LOOKUP] = files_unlink,
	[PROTO_F_RMDIR - PROTO_F_LOOKUP] = files_rmdir,
	[PROTO_F_RENAME - PROTO_F_LOOKUP] = files_rename,
	[PROTO_F_OPEN - PROTO_F_LOOKUP] = files_open,
	[PROTO_F_CREATE - PROTO_F_LOOKUP] = files_create,
	[PROTO_F_READ - PROTO_F_LOOKUP] = files_read,
	[PROTO_F_WRITE - PROTO_F_LOOKUP] = files_write,
	[PROTO_F_RELEASE - PROTO_F_LOOKUP] = files_release,
	[PROTO_F_FSYNC - PROTO_F_LOOKUP] = files_fsync,
	[PROTO_F_FALLOCATE - PROTO_F_LOOKUP] = files_fallocate,
	[PROTO_F_SEEK - PROTO_F_LOOKUP] = files_seek,
	[PROTO_F_OPENDIR - PROTO_F_LOOKUP] = files_opendir,
	[PROTO_F_READDIR - PROTO_F_LOOKUP] = files_readdir,
	[PROTO_F_STATFS - PROTO_F_LOOKUP] = files_statfs,
	[PROTO_F_LOCK - PROTO_F_LOOKUP] = files_lock,
	[PROTO_F_TEST_LOCK - PROTO_F_LOOKUP] = files_test_lock,
	[PROTO_F_DROP_LOCKS - PROTO_F_LOOKUP] = files_drop_locks,
	[PROTO_F_CANCEL_LOCK - PROTO_F_LOOKUP] = files_cancel_lock,
	[PROTO_F_TOUCH - PROTO_F_LOOKUP] = files_touch,
	[PROTO_F_HOLD - PROTO_F_LOOKUP] = files_hold,
	[PROTO_F_ORIGIN - PROTO_F_LOOKUP] = files_origin,
};

int files_init(struct files *f, const struct guest_env *env, struct loop *loop, struct conn *conn)
{
	struct rlimit limit;
	struct stat st;
	struct node *root;
	int fd, r;

	f->env = env;
	f->proc_fd = -1;
	f->root_fd = open(env->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->root_fd < 0 || fstat(f->root_fd, &st) < 0)
		return -errno;
	f->dev = st.st_dev;
	watch_init(&f->watch, loop, conn, f->root_fd);
	origin_init(&f->origin, env->store);
	f->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = open(env->work, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f->proc_fd < 0 || fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	r = node_init(&f->table, f->root_fd, f->proc_fd, (size_t)limit.rlim_cur);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = node_get(&f->table, fd, &root); /* the first node has number NODE_ROOT */
	if (r == 0)
		r = locks_init(&f->locks, loop, conn, f->proc_fd);
	if (r == 0)
		f->locks.book.share.holders = MIN(LOCKBOOK_HOLDERS, (unsigned)(f->table.limit / 8));
	return r;
}

void files_renew(struct files *f)
{
	locks_clear(&f->locks);
	watch_set(&f->watch, false);
	node_renew(&f->table);
}

void files_fini(struct files *f)
{
	locks_fini(&f->locks);
	if (f->watch.loop)
		watch_set(&f->watch, false);
	node_clear(&f->table);
	origin_fini(&f->origin);
	close_fd(&f->root_fd);
	close_fd(&f->proc_fd);
}

void files_space(const struct files *f, struct proto_usage *usage)
{
	struct statfs st = {0};

	(void)fstatfs(f->root_fd, &st);
	usage->files_total = st.f_blocks * (uint64_t)st.f_bsize;
	usage->files_used = (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
	usage->inodes_total = st.f_files;
	usage->inodes_used = st.f_files - st.f_ffree;
}

dev_t files_mapped_dev(const struct files *f)
{
	return f->env->store ? 0 : f->dev;
}

uint8_t files_full(const struct files *f)
{
	struct proto_usage u = {0};
	unsigned full = 0;

	files_space(f, &u);
	if (u.files_total && u.files_used >= u.files_total)
		full |= PROTO_FULL_FILES;
	if (u.inodes_total && u.inodes_used >= u.inodes_total)
		full |= PROTO_FULL_INODES;
	return (uint8_t)full;
}

void files_enter(const struct files *f)
{
	if (!f->env->drop)
		return;
	setfsgid(f->env->gid);
	setfsuid(f->env->uid);
}

void files_leave(const struct files *f)
{
	if (!f->env->drop)
		return;
	setfsuid(0);
	setfsgid(0);
}

/* Most bytes the answer can have. READ and READDIR say how much they want at the same place. */
static size_t reply_cap(const struct proto_header *h, const uint8_t *payload)
{
	struct proto_in in = {payload, payload + h->length, false};
	uint32_t size;

	if (h->type != PROTO_F_READ && h->type != PROTO_F_READDIR)
		return REPLY_CAP;
	(void)get_u64(&in);
	(void)get_u64(&in);
	size = get_u32(&in);
	return 4 + (size_t)(size <= PROTO_DATA_MAX ? size : 0);
}

/* Does it change something that the kernel notes the time of? */
static bool changes(const struct proto_header *h, const uint8_t *payload)
{
	struct proto_in in = {payload, payload + h->length, false};

	switch (h->type) {
	case PROTO_F_SETATTR:
	case PROTO_F_MKDIR:
	case PROTO_F_SYMLINK:
	case PROTO_F_LINK:
	case PROTO_F_UNLINK:
	case PROTO_F_RMDIR:
	case PROTO_F_RENAME:
	case PROTO_F_CREATE:
	case PROTO_F_WRITE:
	case PROTO_F_FALLOCATE: return true;
	case PROTO_F_OPEN: (void)get_u64(&in); return get_u32(&in) & O_TRUNC;
	default: return false;
	}
}

int files_request(struct files *f, const struct proto_header *h, const uint8_t *payload,
		  struct frame **ret_reply)
{
	bool silent = h->type == PROTO_F_FORGET || h->type == PROTO_F_RELEASE ||
		      h->type == PROTO_F_CANCEL_LOCK || h->type == PROTO_F_TOUCH ||
		      h->type == PROTO_F_HOLD;
	/* A lock, or that something was read, concerns what is open already, whatever the mode has become meanwhile. */
	bool as_user = h->type < PROTO_F_LOCK;
	bool changing = changes(h, payload);
	struct proto_in in = {payload, payload + h->length, false};
	struct frame *reply = frame_new(PROTO_FILE_REPLY, h->id, reply_cap(h, payload));
	struct proto_out errnum;
	int r;

	if (!reply)
		return -ENOMEM;
	errnum = (struct proto_out){reply->out.data, 0, 4, false};
	put_u32(&reply->out, 0);
	if (changing)
		origin_request(&f->origin);
	if (as_user)
		files_enter(f);
	r = ops[h->type - PROTO_F_LOOKUP](f, &in, &reply->out);
	if (as_user)
		files_leave(f);
	if (changing)
		origin_requested(&f->origin);
	if (in.bad || silent) {
		free(reply);
		*ret_reply = NULL;
		return in.bad ? -EPROTO : 0;
	}
	if (r < 0) {
		put_u32(&errnum, (uint32_t)-r);
		reply->out.len = 4;
	}
	*ret_reply = frame_trim(reply);
	return 0;
}
