/* SPDX-License-Identifier: Apache-2.0 */
/* Spans for a collector of OpenTelemetry, through a program that may use the network. */
#ifndef XSBX_VM_TRACE_CLIENT_H
#define XSBX_VM_TRACE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/config.h"
#include "vm/base/lines.h"
#include "vm/spawn/program.h"
#include "vm/status.h"

struct context;

/*
 * Embedded in struct vm, zeroed. The program (xsbxfs-trace) is started for the first span, and again, after a while, if it ends.
 * Nothing waits for it: what its pipe has no room for is dropped, and counted.
 */
struct trace_client {
	struct context *ctx;
	bool on;
	char *resource; /* the line that comes before all others */
	int pipe;	/* while `running`; or -1 */
	bool running;
	bool told;	   /* that spans are dropped, since the last one that was not */
	uint64_t again_at; /* uv_now() */
	struct program program;
	struct lines lines;
	struct vm_trace_status st;
};

/* Return: 0 or -ENOMEM. */
int trace_client_init(struct trace_client *t, struct context *ctx, const struct vm_trace *cfg);
void trace_client_fini(struct trace_client *t);

/* @json: a span as JSON, on one line. */
void trace_client_send(struct trace_client *t, const char *json);

/* The end: the program sends what it has, and ends soon. */
void trace_client_close(struct trace_client *t);

#endif
