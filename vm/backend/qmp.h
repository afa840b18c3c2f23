/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control connection: commands out, replies and events in, one JSON object a line. */
#ifndef XSBX_VM_BACKEND_QMP_H
#define XSBX_VM_BACKEND_QMP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "vm/base/buf.h"
#include "vm/base/reader.h"

#define QMP_LINE_MAX	(64u << 10) /* of what QEMU may say at once: a guest may have taken it over */
#define QMP_PENDING_MAX 32u

struct qmp_command;

/* One of @ret and @error is NULL; both belong to the connection. */
typedef void (*qmp_reply_fn)(void *data, json_t *ret, const char *error);

struct qmp_events {
	void (*event)(void *data, const char *name, json_t *details); /* @details may be NULL */
	/* The connection is over, once; 0 for QEMU's end of file. Commands were answered before. */
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
	uint32_t last_id;
	unsigned npending;
	TAILQ_HEAD(qmp_commands, qmp_command) pending;
	bool greeted, lost;
};

/* Sets up what is needed to take bytes, but reads none. */
void qmp_init(struct qmp *q, const struct qmp_events *events, void *data);

/* Takes @fd, our end of the socket, also on failure, and negotiates. May be called before QEMU is
 * there. Return: 0 or -errno. */
int qmp_open(struct qmp *q, uv_loop_t *loop, int fd);

/* Whatever is pending is answered first. `closed` follows from the loop. */
void qmp_close(struct qmp *q);

/**
 * qmp_execute() - Send a command
 * @q: Connection
 * @name: Command
 * @arguments: Its arguments, stolen; or NULL
 * @fn: Called once, from the loop; or NULL
 * @data: Its first argument
 *
 * Return: 0, -EPIPE, -EBUSY for too many at once, -ENOMEM.
 */
int qmp_execute(struct qmp *q, const char *name, json_t *arguments, qmp_reply_fn fn, void *data);

/* Gives QEMU a copy of a descriptor, which commands may then call "fd:NAME". As qmp_execute(). */
int qmp_give(struct qmp *q, const char *name, int fd, qmp_reply_fn fn, void *data);

/* Takes bytes as if they had been read. Return: 0, or -errno for which the connection must end. */
int qmp_feed(struct qmp *q, const char *bytes, size_t len);

#endif
