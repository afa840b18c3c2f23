/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what QEMU may say on its control connection. */
/* modules: vm/backend/qmp.c vm/base/fdpass.c vm/base/reader.c vm/base/lent.c vm/base/buf.c vm/base/record.c vm/base/fdbag.c */
/* libs: uv jansson */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "vm/backend/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replies, asked;

static void on_event(void *data, const char *name, json_t *details)
{
	const char *id = json_string_value(json_object_get(details, "id"));

	(void)data;
	assert(name);
	assert(!id || strlen(id) < QMP_LINE_MAX);
}

static void on_lost(void *data, int err)
{
	(void)data;
	(void)err;
}

static void on_closed(void *data)
{
	*(int *)data = 1;
}

static const struct qmp_events events = {on_event, on_lost, on_closed};

static void on_reply(void *data, json_t *ret, const char *error)
{
	(void)data;
	assert(!ret != !error);
	replies++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qmp q = {.greeted = false};
	size_t half = size / 2;
	int closed = 0, pair[2];
	uv_loop_t loop;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 0;
	uv_loop_init(&loop);
	qmp_init(&q, &events, &closed);
	qmp_open(&q, &loop, pair[0]);
	replies = asked = 0;
	for (; asked < 3; asked++)
		qmp_execute(&q, "query-status", NULL, on_reply, NULL);
	if (qmp_feed(&q, (const char *)data, half) == 0)
		qmp_feed(&q, (const char *)data + half, size - half);
	assert(q.line.len <= QMP_LINE_MAX);
	qmp_close(&q);
	assert(replies == asked);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert(closed);
	assert(uv_loop_close(&loop) == 0);
	close(pair[1]);
	return 0;
}
