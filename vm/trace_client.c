/* SPDX-License-Identifier: Apache-2.0 */
/* Spans for a collector, through a program that may use the network. See trace_client.h. */
#include "trace_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/base/context.h"
#include "vm/base/log.h"
#include "vm/order/order.h"

#define PIPE_BYTES (1 << 20)
#define AGAIN_MS   10000u

int trace_client_init(struct trace_client *t, struct context *ctx, const struct vm_trace *cfg)
{
	t->ctx = ctx;
	t->pipe = -1;
	if (!cfg->url || !*cfg->url || !cfg->program || !ctx->spawner)
		return 0;
	t->on = t->st.on = true;
	if (cfg->resource && asprintf(&t->resource, "R%s\n", cfg->resource) < 0)
		t->resource = NULL;
	return 0;
}

void trace_client_fini(struct trace_client *t)
{
	free(t->resource);
}

/* ---- what the program says ---- */

static void on_line(struct lines *w, char *text)
{
	struct trace_client *t = w->data;
	unsigned long long n;

	if (sscanf(text, "sent %llu", &n) == 1)
		t->st.sent += n;
	else if (sscanf(text, "dropped %llu", &n) == 1)
		t->st.dropped += n;
	else if (strncmp(text, "away ", 5) == 0)
		log_warn("otlp_url: the collector of traces is away, and tried again: %s",
			 text + 5);
	else if (strcmp(text, "back") == 0)
		log_info("otlp_url: the collector of traces answers again");
	else if (strncmp(text, "refused ", 8) == 0)
		log_warn("otlp_url: the collector refuses spans: %s", text + 8);
	else if (strncmp(text, "warning ", 8) == 0)
		log_warn("xsbxfs-trace: %s", text + 8);
}

static void on_over(struct program *p)
{
	struct trace_client *t = p->data;
	char quote[400];

	if (t->pipe >= 0)
		close(t->pipe);
	t->pipe = -1;
	t->running = false;
	t->again_at = uv_now(t->ctx->loop) + AGAIN_MS;
	if (p->failed)
		log_warn("xsbxfs-trace, which sends traces, was not started: %s: %s", p->step,
			 strerror(-p->failed));
	else if (!t->ctx->closing)
		log_warn("xsbxfs-trace, which sends traces, ended: %s",
			 tail_quote(&t->lines.said, "xsbxfs-trace: ", quote, sizeof(quote)));
	context_release(t->ctx);
}

/* ---- the program ---- */

static int start(struct trace_client *t)
{
	const struct order order = {.program = ORDER_TRACE};
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* as much as one may have */
	t->lines = (struct lines){.line = on_line, .data = t};
	t->program = (struct program){
		.fds = fds, .nfds = 1, .lines = &t->lines, .over = on_over, .data = t};
	r = program_start(&t->program, t->ctx->loop, t->ctx->spawner, &order, sizeof(order));
	close(fds[0]);
	if (r < 0) {
		close(fds[1]);
		return r;
	}
	t->pipe = fds[1];
	t->running = true;
	context_hold(t->ctx);
	return 0;
}

/* One write of a pipe is whole if it is not longer than that. Return: whether it is in. */
static bool put(const struct trace_client *t, const char *line, size_t len)
{
	return len <= PIPE_BUF && write(t->pipe, line, len) == (ssize_t)len;
}

static bool is_there(struct trace_client *t)
{
	if (t->pipe >= 0)
		return true;
	if (t->running || t->ctx->closing || t->ctx->spawner_lost ||
	    uv_now(t->ctx->loop) < t->again_at)
		return false;
	if (start(t) < 0) {
		t->again_at = uv_now(t->ctx->loop) + AGAIN_MS;
		return false;
	}
	return !t->resource || put(t, t->resource, strlen(t->resource));
}

void trace_client_send(struct trace_client *t, const char *json)
{
	_cleanup_free_ char *line = NULL;
	int len;

	if (!t->on)
		return;
	len = asprintf(&line, "S%s\n", json);
	if (len < 0)
		line = NULL;
	if (line && is_there(t) && put(t, line, (size_t)len)) {
		t->told = false;
		return;
	}
	t->st.dropped++;
	if (!t->told && len > PIPE_BUF)
		log_warn("traces: a span of %d bytes is dropped: it is too long", len);
	else if (!t->told)
		log_warn("traces: spans are dropped: xsbxfs-trace does not keep up, or is not "
			 "there");
	t->told = true;
}

void trace_client_close(struct trace_client *t)
{
	if (t->pipe >= 0)
		close(t->pipe);
	t->pipe = -1;
}
