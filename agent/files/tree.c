/* SPDX-License-Identifier: Apache-2.0 */
/* The file server's requests on names and nodes: each is one system call on a pinned descriptor. */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/guest_env.h"

/*
 * Theory of operation
 * -------------------
 * User code owns the tree and changes it while it is being served, so no request walks a path: a
 * node is an O_PATH descriptor, and an operation takes a node and at most one checked name
 * component. (Where descriptors run short, node.c closes some, and opens the same file again.) O_NOFOLLOW is on every open of a name; links are data. To open the file itself, the
 * node's descriptor is opened again through /proc/self/fd, which cannot lead anywhere else, and
 * only if it is a regular file or a directory: opening a FIFO waits, opening a device does things,
 * so these answer ENXIO, and symbolic links ELOOP, as open(2) says for both. O_NONBLOCK keeps an
 * open from waiting for a lease that user code holds.
 *
 * The calls run with the user's file system uid and gid, so ownership, permissions and quotas are
 * the kernel's work. Set-id bits are dropped both ways: in the guest they would be powerless
 * (nosuid, no_new_privs), on the host they must not show.
 *
 * All calls end promptly: the file system is a tmpfs, and nothing here waits for other processes.
 */

#define OPEN_KEEP (O_ACCMODE | O_APPEND | O_TRUNC)

/* A name component as a C string. */
struct component {
	char text[PROTO_NAME_MAX + 1];
};

/* Reads a name; false if no entry of a directory can have it. */
static bool get_component(struct proto_in *in, struct component *ret_c)
{
	struct proto_str s = get_str(in, PROTO_NAME_MAX);

	memcpy(ret_c->text, s.data, s.len);
	ret_c->text[s.len] = '\0';
	return proto_name_ok(s);
}

/* The node `id`, which must be a directory. */
static int find_dir(struct files *f, uint64_t id, const struct node **ret_node)
{
	struct node *n;
	int r = node_use(&f->table, id, &n);

	if (r < 0)
		return r;
	if (n->is.type != S_IFDIR)
		return -ENOTDIR;
	*ret_node = n;
	return 0;
}

/* The end of a request for a name in the directory @parent. Return: 0; -EINVAL if no entry can have it; -errno. */
static int get_name(struct files *f, struct proto_in *in, uint64_t parent,
		    const struct node **ret_dir, struct component *ret_name)
{
	const bool ok = get_component(in, ret_name);
	int r;

	if (!get_end(in)) {
		(void)files_malformed(in);
		return -EPROTO;
	}
	r = find_dir(f, parent, ret_dir);
	return r < 0 ? r : ok ? 0 : -EINVAL;
}

/* Packs the entry of what @fd, opened by O_PATH, is, and takes it; counts a lookup only if all went well. */
static int put_node(struct files *f, int fd, struct proto_out *out, const struct node **ret_node)
{
	struct proto_entry e;
	struct node *n;
	int r;

	if (fd < 0)
		return -errno;
	r = node_get(&f->table, fd, &n);
	if (r < 0)
		return r;
	/* On top of a directory of the host, files may be of its device. Nothing is mounted there. */
	r = n->is.dev == f->dev || f->env->store ? files_attr(f, n->fd, &e.attr) : -EXDEV;
	if (r < 0) {
		node_forget(&f->table, n->id, 1);
		return r;
	}
	e.node = n->id;
	proto_entry_pack(out, &e);
	*ret_node = n;
	return 0;
}

/* Of a name. */
static int put_entry(struct files *f, const struct node *dir, const char *name,
		     struct proto_out *out)
{
	const struct node *n;

	return put_node(f, openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), out, &n);
}

/* Of what is open: user code may have removed its name, or put something else there. */
static int put_open(struct files *f, int fd, struct proto_out *out, const struct node **ret_node)
{
	return put_node(f, openat(f->proc_fd, files_fd_name(fd).text, O_PATH | O_CLOEXEC), out,
			ret_node);
}

int files_lookup(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t parent = get_u64(in);
	const struct node *dir;
	struct component name;
	int r = get_name(f, in, parent, &dir, &name);

	if (r < 0)
		return r == -EINVAL ? -ENOENT : r;
	return put_entry(f, dir, name.text, out);
}

int files_forget(struct files *f, struct proto_in *in, struct proto_out *out)
{
	(void)out;
	while (in->p != in->end && !in->bad) {
		uint64_t id = get_u64(in);
		uint64_t lookups = get_u64(in);

		if (!in->bad)
			node_forget(&f->table, id, lookups);
	}
	return in->bad ? files_malformed(in) : 0;
}

int files_hold(struct files *f, struct proto_in *in, struct proto_out *out)
{
	const uint32_t which = get_u32(in);

	(void)out;
	if (which & ~(PROTO_HOLD_FIRST | PROTO_HOLD_LAST))
		return files_malformed(in);
	if (which & PROTO_HOLD_FIRST)
		node_hold_begin(&f->table);
	while (in->p != in->end && !in->bad) {
		const uint64_t id = get_u64(in);
		const uint64_t lookups = get_u64(in);

		if (!in->bad)
			node_hold(&f->table, id, lookups);
	}
	if (!in->bad && (which & PROTO_HOLD_LAST))
		node_hold_end(&f->table);
	return in->bad ? files_malformed(in) : 0;
}

int files_readlink(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	char target[PROTO_LINK_MAX];
	struct node *n;
	ssize_t len;
	int r;

	if (!get_end(in))
		return files_malformed(in);
	r = node_use(&f->table, node, &n);
	if (r < 0)
		return r;
	if (n->is.type != S_IFLNK)
		return -EINVAL;
	len = readlinkat(n->fd, "", target, sizeof(target));
	if (len < 0)
		return -errno;
	put_str(out, (struct proto_str){target, (uint32_t)len});
	return 0;
}

int files_mkdir(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t parent = get_u64(in);
	uint32_t mode = get_u32(in);
	const struct node *dir;
	struct component name;
	int r = get_name(f, in, parent, &dir, &name);

	if (r < 0)
		return r;
	if (mkdirat(dir->fd, name.text, mode & FILES_MODE_MASK) < 0)
		return -errno;
	return put_entry(f, dir, name.text, out);
}

int files_symlink(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t parent = get_u64(in);
	const struct node *dir;
	struct component name;
	bool ok = get_component(in, &name);
	struct proto_str target = get_str(in, PROTO_LINK_MAX);
	char text[PROTO_LINK_MAX + 1];
	int r;

	if (!get_end(in))
		return files_malformed(in);
	r = find_dir(f, parent, &dir);
	if (r < 0)
		return r;
	if (!ok || memchr(target.data, '\0', target.len))
		return -EINVAL;
	memcpy(text, target.data, target.len);
	text[target.len] = '\0';
	if (symlinkat(text, dir->fd, name.text) < 0)
		return -errno;
	return put_entry(f, dir, name.text, out);
}

int files_link(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	uint64_t parent = get_u64(in);
	const struct node *dir, *made;
	struct origin_held held;
	struct component name;
	struct stat st;
	struct node *n;
	int r = get_name(f, in, parent, &dir, &name);

	if (r == 0)
		r = node_use(&f->table, node, &n);
	if (r == 0 && fstat(n->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	held = origin_hold(&f->origin, &st);
	if (linkat(f->proc_fd, files_fd_name(n->fd).text, dir->fd, name.text, AT_SYMLINK_FOLLOW) <
	    0)
		return -errno;
	if (fstat(n->fd, &st) == 0)
		origin_keep(&f->origin, held, &st);
	return put_open(f, n->fd, out, &made);
}

static int remove_name(struct files *f, struct proto_in *in, int flags)
{
	uint64_t parent = get_u64(in);
	const struct node *dir;
	struct component name;
	int r = get_name(f, in, parent, &dir, &name);

	if (r < 0)
		return r;
	return unlinkat(dir->fd, name.text, flags) < 0 ? -errno : 0;
}

int files_unlink(struct files *f, struct proto_in *in, struct proto_out *out)
{
	(void)out;
	return remove_name(f, in, 0);
}

int files_rmdir(struct files *f, struct proto_in *in, struct proto_out *out)
{
	(void)out;
	return remove_name(f, in, AT_REMOVEDIR);
}

int files_rename(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t parent = get_u64(in);
	uint64_t newparent = get_u64(in);
	uint32_t flags = get_u32(in);
	const struct node *from, *to;
	struct component name, newname;
	struct origin_held held = {0};
	struct stat st;
	bool ok = get_component(in, &name);
	int r;

	(void)out;
	ok = get_component(in, &newname) && ok;
	if (!get_end(in))
		return files_malformed(in);
	r = find_dir(f, parent, &from);
	if (r == 0)
		r = find_dir(f, newparent, &to);
	if (r < 0)
		return r;
	if (!ok || (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE)))
		return -EINVAL;
	if (fstatat(from->fd, name.text, &st, AT_SYMLINK_NOFOLLOW) == 0)
		held = origin_hold(&f->origin, &st);
	if (renameat2(from->fd, name.text, to->fd, newname.text, flags) < 0)
		return -errno;
	if (fstatat(to->fd, newname.text, &st, AT_SYMLINK_NOFOLLOW) == 0)
		origin_keep(&f->origin, held, &st);
	return 0;
}

static int put_handle(struct files *f, int fd, uint64_t node, int is_dir, struct proto_out *out)
{
	uint64_t id;
	int r = handle_new(&f->table, fd, node, is_dir, &id);

	if (r == 0)
		put_u64(out, id);
	return r;
}

int files_open(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	uint32_t flags = get_u32(in);
	struct node *n;
	int fd, r;

	if (!get_end(in))
		return files_malformed(in);
	r = node_use(&f->table, node, &n);
	if (r == 0 && n->is.type == S_IFDIR)
		r = -EISDIR;
	if (r == 0)
		r = handle_room(&f->table);
	if (r < 0)
		return r;
	fd = files_reopen(f, n, (int)flags & OPEN_KEEP);
	return fd < 0 ? fd : put_handle(f, fd, n->id, 0, out);
}

/* Creates a file, or opens the regular file that is there already. */
static int create_file(struct files *f, const struct node *dir, const char *name, uint32_t flags,
		       uint32_t mode)
{
	int keep = (int)flags & OPEN_KEEP;

	for (int tries = 0; tries < 16; tries++) {
		int fd =
			openat(dir->fd, name, keep | O_CREAT | O_EXCL | O_NOFOLLOW | FILES_OPEN_ADD,
			       mode & FILES_MODE_MASK);
		struct node *n;
		int r;

		if (fd >= 0)
			return fd;
		if (errno != EEXIST || (flags & O_EXCL))
			return -errno;
		fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue; /* user code removed it in between */
		if (fd < 0)
			return -errno;
		r = node_get(&f->table, fd, &n);
		if (r < 0)
			return r;
		r = n->is.type == S_IFDIR ? -EISDIR : files_reopen(f, n, keep);
		node_forget(&f->table, n->id, 1);
		return r;
	}
	return -EEXIST;
}

int files_create(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t parent = get_u64(in);
	uint32_t flags = get_u32(in);
	uint32_t mode = get_u32(in);
	const struct node *dir, *n = NULL;
	struct component name;
	int fd, r = get_name(f, in, parent, &dir, &name);

	if (r == 0)
		r = handle_room(&f->table);
	if (r < 0)
		return r;
	fd = create_file(f, dir, name.text, flags, mode);
	if (fd < 0)
		return fd;
	r = put_open(f, fd, out, &n);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = put_handle(f, fd, n ? n->id : 0, 0, out);
	if (r < 0 && n)
		node_forget(&f->table, n->id, 1);
	return r;
}

int files_opendir(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	const struct node *dir;
	int fd, r;

	if (!get_end(in))
		return files_malformed(in);
	r = find_dir(f, node, &dir);
	if (r == 0)
		r = handle_room(&f->table);
	if (r < 0)
		return r;
	fd = files_reopen(f, dir, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? fd : put_handle(f, fd, dir->id, 1, out);
}
