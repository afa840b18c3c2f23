/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: receives and sends frames. */
#include "nic.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "frame.h"

#define PREFIX	    4
#define READ_MAX    (256 * 1024) /* of a stream, at once */
#define READ_FRAMES 64
#define OUT_FULL    (256 * 1024)
#define OUT_MAX	    (1024 * 1024)
#define OUT_BATCH   (64 * 1024)
#define KEEP_MAX    (64 * 1024) /* of an empty buffer */

static uint8_t scratch[READ_MAX];

static size_t get_length(const uint8_t *p)
{
	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

int nic_init(struct nic *nic, int fd, enum nic_kind kind)
{
	const int flags = fcntl(fd, F_GETFL);

	*nic = (struct nic){.fd = fd, .kind = kind, .out = {.limit = OUT_MAX}};
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

void nic_fini(struct nic *nic)
{
	buf_clear(&nic->in);
	buf_clear(&nic->out);
	close(nic->fd);
}

/* Hands on the whole frames at @p. Return: how many bytes they were, or -EPROTO. */
static ssize_t split_stream(uint8_t *p, size_t len,
			    void (*on_frame)(void *data, uint8_t *frame, size_t len), void *data)
{
	size_t at = 0;

	while (len - at >= PREFIX) {
		const size_t n = get_length(p + at);

		if (n > FRAME_MAX)
			return -EPROTO;
		if (len - at - PREFIX < n)
			break;
		on_frame(data, p + at + PREFIX, n);
		at += PREFIX + n;
	}
	return (ssize_t)at;
}

static int read_stream(struct nic *nic, void (*on_frame)(void *data, uint8_t *frame, size_t len),
		       void *data)
{
	const size_t kept = nic->in.len;
	ssize_t n, used;

	if (kept)
		memcpy(scratch, nic->in.data, kept);
	n = read(nic->fd, scratch + kept, sizeof(scratch) - kept);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	used = split_stream(scratch, kept + (size_t)n, on_frame, data);
	if (used < 0)
		return (int)used;
	if (used == (ssize_t)kept + n) {
		buf_clear(&nic->in);
		return 0;
	}
	nic->in.len = 0;
	return buf_append(&nic->in, scratch + used, kept + (size_t)(n - used));
}

static int read_packets(struct nic *nic, void (*on_frame)(void *data, uint8_t *frame, size_t len),
			void *data)
{
	for (unsigned i = 0; i < READ_FRAMES; i++) {
		const ssize_t n = read(nic->fd, scratch, FRAME_MAX);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0) /* an empty datagram, or the other end has gone: poll() knows */
			return 0;
		on_frame(data, scratch, (size_t)n);
	}
	return 0;
}

int nic_read(struct nic *nic, void (*on_frame)(void *data, uint8_t *frame, size_t len), void *data)
{
	return nic->kind == NIC_STREAM ? read_stream(nic, on_frame, data)
				       : read_packets(nic, on_frame, data);
}

void nic_send(struct nic *nic, const void *frame, size_t len)
{
	const uint8_t prefix[PREFIX] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16),
					(uint8_t)(len >> 8), (uint8_t)len};
	const size_t before = nic->out.len;

	if (nic->kind == NIC_PACKET && nic->out.len == 0) {
		if (write(nic->fd, frame, len) >= 0)
			return;
		if (errno != EAGAIN && errno != ENOBUFS) {
			nic->dropped++;
			return;
		}
	}
	/* A stream takes many frames with one call, at the end of the turn. */
	if (buf_append(&nic->out, prefix, PREFIX) < 0 || buf_append(&nic->out, frame, len) < 0) {
		nic->out.len = before;
		nic->dropped++;
		return;
	}
	if (nic->kind == NIC_STREAM && nic->out.len - nic->out_at >= OUT_BATCH)
		nic_flush(nic);
}

static int flush_stream(struct nic *nic)
{
	while (nic->out_at < nic->out.len) {
		const ssize_t n = send(nic->fd, nic->out.data + nic->out_at,
				       nic->out.len - nic->out_at, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		nic->out_at += (size_t)n;
	}
	return 0;
}

static int flush_packets(struct nic *nic)
{
	while (nic->out_at < nic->out.len) {
		const uint8_t *p = (uint8_t *)nic->out.data + nic->out_at;
		const size_t len = get_length(p);

		if (write(nic->fd, p + PREFIX, len) < 0) {
			if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
				return 0;
			nic->dropped++;
		}
		nic->out_at += PREFIX + len;
	}
	return 0;
}

/* Moves what waits to the front, where it is little or the room behind it is needed. */
static void compact(struct nic *nic)
{
	const size_t left = nic->out.len - nic->out_at;

	if (left == 0 && nic->out.cap > KEEP_MAX) {
		buf_clear(&nic->out);
	} else if (nic->out_at > 0 && (left == 0 || nic->out_at >= OUT_FULL)) {
		memmove(nic->out.data, nic->out.data + nic->out_at, left);
		nic->out.len = left;
	} else {
		return;
	}
	nic->out_at = 0;
}

int nic_flush(struct nic *nic)
{
	int r;

	if (nic->out_at == nic->out.len)
		return 0;
	r = nic->kind == NIC_STREAM ? flush_stream(nic) : flush_packets(nic);
	compact(nic);
	return r;
}

bool nic_is_full(const struct nic *nic)
{
	return nic->out.len - nic->out_at >= OUT_FULL;
}
