/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control connection (QMP): sends commands, receives replies and events, one JSON object per
 * line. */
#ifndef XSBX_VM_BACKEND_QMP_H
#define XSBX_VM_BACKEND_QMP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "vm/base/buf.h"
#include "vm/base/fdbag.h"
#include "vm/base/reader.h"
#include "vm/base/record.h"

#define QMP_LINE_MAX	(64u << 10) /* longest line from QEMU, which a guest may have taken over */
#define QMP_PENDING_MAX 32u

struct qmp_command;

/* One of @ret and @error is NULL; both are owned by the connection. */
typedef void (*qmp_reply_fn)(void *data, json_t *ret, const char *error);

struct qmp_events {
	void (*event)(void *data, const char *name, json_t *details); /* @details may be NULL */
	/* The connection has ended, once; 0 for end of file. All commands were answered before. */
	void (*lost)(void *data, int err);
	void (*closed)(void *data);
};

/*
 * - Embedded by its owner, zeroed before qmp_open(), kept until `closed`.
 * - `pending` has the commands without a reply; each is answered exactly once.
 */
struct qmp {
	struct reader reader;
	const struct qmp_events *events;
	void *data;
	struct buf line;
	uint64_t last_id;
	uint64_t former; /* ids up to here another process has given, or may have */
	unsigned npending;
	TAILQ_HEAD(qmp_commands, qmp_command) pending;
	bool greeted, lost;
	bool resumed; /* its first line may lack its beginning, which another process has read */
};

/* Initializes it for qmp_feed(), without a socket. */
void qmp_init(struct qmp *q, const struct qmp_events *events, void *data);

/* Takes ownership of @fd, our end of the socket, even on failure, and negotiates. May be called
 * before QEMU has started. Return: 0 or -errno. */
int qmp_open(struct qmp *q, uv_loop_t *loop, int fd);

/* In a record, for another process. That has no use for replies to what was asked here, and passes
 * over them. */
void qmp_put(const struct qmp *q, struct buf *out, struct fdbag *fds);

/* Opens such a one, after qmp_init(); one that is lost is not opened. Return: 0, -EBADMSG or -errno. */
int qmp_take(struct qmp *q, uv_loop_t *loop, struct record_reader r, struct fdbag *fds);

/* Pending commands are answered first. `closed` is called from the loop. */
void qmp_close(struct qmp *q);

/**
 * qmp_execute() - Send a command
 * @q: Connection
 * @name: Command
 * @arguments: Its arguments, taken over; or NULL
 * @fn: Called once, from the loop; or NULL
 * @data: Its first argument
 *
 * Return: 0, -EPIPE, -EBUSY if too many are pending, -ENOMEM.
 */
int qmp_execute(struct qmp *q, const char *name, json_t *arguments, qmp_reply_fn fn, void *data);

/* Passes QEMU a copy of a descriptor, which commands can refer to as "fd:NAME". As qmp_execute(). */
int qmp_give(struct qmp *q, const char *name, int fd, qmp_reply_fn fn, void *data);

/* Passes QEMU a copy of a descriptor, which commands can refer to as "/dev/fdset/SET". As
 * qmp_execute(). */
int qmp_add_fd(struct qmp *q, int set, int fd, qmp_reply_fn fn, void *data);

/* Processes bytes as if they had been read. Return: 0, or -errno: the connection must end with that
 * error. */
int qmp_feed(struct qmp *q, const char *bytes, size_t len);

#endif
