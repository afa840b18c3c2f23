/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control connection. */
#include "qmp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "vm/base/fdpass.h"
#include "vm/base/util.h"

struct qmp_command {
	TAILQ_ENTRY(qmp_command) link;
	uint64_t id;
	qmp_reply_fn fn;
	void *data;
};

/* ---- out ---- */

/* A command is a few hundred bytes, and the socket takes a hundred times that; if it does not, QEMU
 * has stopped listening. */
static int send_json(struct qmp *q, json_t *message, int fd)
{
	_cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	text[len++] = '\n'; /* in place of the terminator */
	n = fdpass_send(q->reader.fd, text, len, &fd, fd >= 0, MSG_DONTWAIT);
	return n == (ssize_t)len ? 0 : -EPIPE;
}

static int execute(struct qmp *q, const char *name, json_t *arguments, int fd, qmp_reply_fn fn,
		   void *data)
{
	struct qmp_command *c = calloc(1, sizeof(*c));
	json_t *message = json_pack("{s:s, s:I, s:o*}", "execute", name, "id",
				    (json_int_t)q->last_id + 1, "arguments", arguments);
	int r = c && message ? 0 : -ENOMEM;

	if (r == 0 && (q->lost || !q->reader.open))
		r = -EPIPE;
	if (r == 0 && q->npending >= QMP_PENDING_MAX)
		r = -EBUSY;
	if (r == 0)
		r = send_json(q, message, fd);
	if (message)
		json_decref(message);
	if (r < 0) {
		free(c);
		return r;
	}
	c->id = ++q->last_id;
	c->fn = fn;
	c->data = data;
	TAILQ_INSERT_TAIL(&q->pending, c, link);
	q->npending++;
	return 0;
}

int qmp_execute(struct qmp *q, const char *name, json_t *arguments, qmp_reply_fn fn, void *data)
{
	return execute(q, name, arguments, -1, fn, data);
}

int qmp_give(struct qmp *q, const char *name, int fd, qmp_reply_fn fn, void *data)
{
	json_t *arguments = json_pack("{s:s}", "fdname", name);

	return arguments ? execute(q, "getfd", arguments, fd, fn, data) : -ENOMEM;
}

int qmp_add_fd(struct qmp *q, int set, int fd, qmp_reply_fn fn, void *data)
{
	json_t *arguments = json_pack("{s:i}", "fdset-id", set);

	return arguments ? execute(q, "add-fd", arguments, fd, fn, data) : -ENOMEM;
}

static void command_done(struct qmp *q, struct qmp_command *c, json_t *ret, const char *error)
{
	TAILQ_REMOVE(&q->pending, c, link);
	q->npending--;
	if (c->fn)
		c->fn(c->data, ret, error);
	free(c);
}

static void fail_pending(struct qmp *q, const char *error)
{
	struct qmp_command *c;

	while ((c = TAILQ_FIRST(&q->pending))) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it can't follow a TAILQ. */
		command_done(q, c, NULL, error);
	}
}

/* ---- in ---- */

static int on_reply(struct qmp *q, json_t *message, json_t *ret, json_t *error)
{
	const json_int_t id = json_integer_value(json_object_get(message, "id"));
	const char *words = json_string_value(json_object_get(error, "desc"));
	struct qmp_command *c;

	TAILQ_FOREACH(c, &q->pending, link) {
		if (c->id == (uint64_t)id)
			break;
	}
	if (!c)
		return id > 0 && (uint64_t)id <= q->former ? 0 : -EPROTO;
	command_done(q, c, ret, ret ? NULL : words ? words : "QEMU gave no reason");
	return 0;
}

static int on_message(struct qmp *q, json_t *message)
{
	json_t *ret = json_object_get(message, "return"),
	       *error = json_object_get(message, "error");
	const char *event = json_string_value(json_object_get(message, "event"));

	if (ret || error)
		return on_reply(q, message, ret, error);
	if (event) {
		q->events->event(q->data, event, json_object_get(message, "data"));
		return 0;
	}
	if (!q->greeted && json_object_get(message, "QMP")) {
		q->greeted = true;
		return 0;
	}
	return -EPROTO;
}

static int on_line(struct qmp *q, const char *line, size_t len)
{
	const bool whole = !q->resumed;
	json_error_t error;
	json_t *message;
	int r;

	if (len == 0 || (len == 1 && line[0] == '\r'))
		return 0;
	q->resumed = false;
	message = json_loadb(line, len, 0, &error);
	if (!message)
		return whole ? -EPROTO : 0;
	r = json_is_object(message) ? on_message(q, message) : -EPROTO;
	json_decref(message);
	return r == -EPROTO && !whole ? 0 : r;
}

int qmp_feed(struct qmp *q, const char *bytes, size_t len)
{
	while (len) {
		const char *end = memchr(bytes, '\n', len);
		const size_t part = end ? (size_t)(end - bytes) : len;
		int r = buf_append(&q->line, bytes, part);

		if (r == 0 && end) {
			r = on_line(q, q->line.data, q->line.len);
			q->line.len = 0;
		}
		if (r < 0)
			return r;
		bytes += part + (end ? 1 : 0);
		len -= part + (end ? 1 : 0);
	}
	return 0;
}

static void on_lost(struct qmp *q, int err)
{
	if (q->lost)
		return;
	q->lost = true;
	fail_pending(q, "QEMU is gone");
	q->events->lost(q->data, err);
}

static void on_bytes(struct reader *reader, const void *bytes, size_t len)
{
	struct qmp *q = reader->data;
	int r = q->lost ? 0 : qmp_feed(q, bytes, len);

	if (r < 0)
		on_lost(q, r);
}

static void on_end(struct reader *reader)
{
	on_lost(reader->data, 0);
}

static void on_closed(struct reader *reader)
{
	struct qmp *q = reader->data;

	buf_clear(&q->line);
	q->events->closed(q->data);
}

/* ---- life ---- */

void qmp_init(struct qmp *q, const struct qmp_events *events, void *data)
{
	q->events = events;
	q->data = data;
	q->line.limit = QMP_LINE_MAX;
	q->reader.data = q;
	q->reader.bytes = on_bytes;
	q->reader.end = on_end;
	q->reader.closed = on_closed;
	TAILQ_INIT(&q->pending);
}

int qmp_open(struct qmp *q, uv_loop_t *loop, int fd)
{
	int r = reader_open(&q->reader, loop, fd);

	/* The command waits in the socket until QEMU reads it: no round trip. */
	if (r == 0)
		r = qmp_execute(q, "qmp_capabilities", NULL, NULL, NULL);
	return r;
}

void qmp_close(struct qmp *q)
{
	q->lost = true;
	fail_pending(q, "QEMU is being ended");
	reader_close(&q->reader);
}

/* ---- from one daemon to the next ---- */

/* Never reuse one. */
enum { TAG_FD = 1, TAG_LAST_ID, TAG_GREETED, TAG_LOST = 5 };

void qmp_put(const struct qmp *q, struct buf *out, struct fdbag *fds)
{
	const bool lost = q->lost || !q->reader.open;

	record_u64(out, TAG_FD, fdbag_put(fds, lost ? -1 : q->reader.fd));
	record_u64(out, TAG_LOST, lost);
	record_u64(out, TAG_LAST_ID, q->last_id);
	record_u64(out, TAG_GREETED, q->greeted);
}

/* Who was before may have asked for something since that was written down, and so may one that has followed, and died before it wrote
 * anything: ids begin with what time it is, in us, and nobody asks so fast. */
static void begin_ids(struct qmp *q)
{
	const uint64_t now = uv_hrtime() / 1000;

	q->former = q->last_id = MAX(q->last_id, now);
}

int qmp_take(struct qmp *q, uv_loop_t *loop, struct record_reader r, struct fdbag *fds)
{
	struct record_field f;
	uint32_t number = 0;
	int n, fd;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_FD: n = record_get_u32(&f, FDBAG_MAX, &number); break;
		case TAG_LAST_ID: n = record_get(&f, 0, INT64_MAX / 2, &q->last_id); break;
		case TAG_GREETED: n = record_get_bool(&f, &q->greeted); break;
		case TAG_LOST: n = record_get_bool(&f, &q->lost); break;
		default: break;
		}
		if (n < 0)
			break;
	}
	begin_ids(q);
	q->resumed = true;
	if (n == 0 && q->lost)
		return 0;
	fd = n < 0 ? -1 : fdbag_take(fds, number);
	return fd < 0 ? -EBADMSG : reader_open(&q->reader, loop, fd);
}
