/* SPDX-License-Identifier: Apache-2.0 */
/* What the host is told, during a lease, beside the answers to its requests. */
#include "files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "ops.h"

/*
 * Theory of operation
 * -------------------
 * While the host holds a lease (agent/lease.h), it keeps what it is told of files, and would have to ask
 * again for what its own requests have changed: the attributes of the directory in which it makes a file,
 * those of the file that it writes. They are sent behind the answer, which goes out with them. So is the
 * content of a small file that is opened for reading. Nobody has read that yet: the time of the last access stays
 * (O_NOATIME), and the host says when somebody does (TOUCH). Of a file whose owner we are not, nor may act for, no
 * content is sent.
 *
 * That is best effort: what is not sent, for lack of memory or because the node is unknown by now, the host
 * asks for.
 */

/* Which numbers a request begins with, and which of them may have got other attributes. */
enum noted { NOTHING, NODE, SECOND, BOTH, HANDLE };

static enum noted noted_by(uint16_t type)
{
	switch (type) {
	case PROTO_F_MKDIR:
	case PROTO_F_SYMLINK:
	case PROTO_F_UNLINK:
	case PROTO_F_RMDIR:
	case PROTO_F_CREATE:
	case PROTO_F_OPEN:
	case PROTO_F_TOUCH: return NODE;
	case PROTO_F_LINK: return SECOND;
	case PROTO_F_RENAME: return BOTH;
	case PROTO_F_WRITE:
	case PROTO_F_FALLOCATE: return HANDLE;
	default: return NOTHING;
	}
}

static void note_node(const struct files *f, struct conn *conn, uint64_t id)
{
	const struct node *n = node_find(&f->table, id);
	struct proto_attr a;
	struct frame *frame;

	if (!n || n->fd < 0 || files_attr(f, n->fd, &a) < 0)
		return;
	frame = frame_new(PROTO_NOTED, 0, 128);
	if (!frame)
		return;
	put_u64(&frame->out, id);
	proto_attr_pack(&frame->out, &a);
	conn_send(conn, frame);
}

/* Reads the beginning of a file, leaving no trace of that in it. Return: how much, or -1. */
static ssize_t peek(int fd, void *buf, size_t size)
{
	const int flags = fcntl(fd, F_GETFL);
	ssize_t n;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NOATIME) < 0)
		return -1;
	n = pread(fd, buf, size, 0);
	return fcntl(fd, F_SETFL, flags) < 0 ? -1 : n;
}

/* Sends what a file holds, if that is little, and all of it could be read. */
static void note_content(const struct files *f, struct conn *conn, uint64_t handle)
{
	const struct handle *h = handle_find(&f->table, handle);
	struct frame *frame;
	struct stat st;
	ssize_t n;

	if (!h || fstat(h->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    st.st_size > (off_t)PROTO_CONTENT_MAX)
		return;
	frame = frame_new(PROTO_CONTENT, 0, 8 + (size_t)st.st_size + 1);
	if (!frame)
		return;
	put_u64(&frame->out, handle);
	n = peek(h->fd, frame->out.data + frame->out.len, (size_t)st.st_size + 1);
	if (n != st.st_size) {
		free(frame);
		return;
	}
	frame->out.len += (size_t)n;
	conn_send(conn, frame);
}

static bool only_reads(uint32_t flags)
{
	return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC);
}

void files_note(const struct files *f, struct conn *conn, const struct proto_header *h,
		const uint8_t *payload, uint64_t handle)
{
	struct proto_in in = {payload, payload + h->length, false};
	const uint64_t first = get_u64(&in);
	const struct handle *open;

	switch (noted_by(h->type)) {
	case NODE: note_node(f, conn, first); break;
	case SECOND: note_node(f, conn, get_u64(&in)); break;
	case BOTH:
		note_node(f, conn, first);
		note_node(f, conn, get_u64(&in));
		break;
	case HANDLE:
		open = handle_find(&f->table, first);
		if (open)
			note_node(f, conn, open->node);
		break;
	case NOTHING: break;
	}
	/* It may be read as soon as it is there: then the attributes are older. */
	if (h->type == PROTO_F_OPEN && only_reads(get_u32(&in)))
		note_content(f, conn, handle);
}
