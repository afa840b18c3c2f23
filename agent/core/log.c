/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's log: a ring of bytes that drops what is new when the host does not take what is old,
 * because the beginning of a log explains more than its end. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

#define LOG_SIZE (128u << 10)
#define PREFIX	 "xsbx-agent: "

static struct {
	uint8_t data[LOG_SIZE];
	size_t first, used;
	size_t dropped;
} ring;

bool log_traces;

static struct {
	void (*take)(void *data, uint64_t us, const char *text);
	void *data;
	uint64_t from; /* now_us() */
} trace;

static void log_put(const void *data, size_t len)
{
	size_t at = (ring.first + ring.used) % LOG_SIZE;
	size_t head = LOG_SIZE - at < len ? LOG_SIZE - at : len;

	memcpy(ring.data + at, data, head);
	memcpy(ring.data, (const uint8_t *)data + head, len - head);
	ring.used += len;
}

void log_bytes(const void *data, size_t len)
{
	char note[64];

	if (ring.dropped && LOG_SIZE - ring.used > sizeof(note) + len) {
		int n = snprintf(note, sizeof(note), "xsbx-agent: %zu bytes of log are missing\n",
				 ring.dropped);

		ring.dropped = 0;
		log_put(note, (size_t)n);
	}
	if (ring.dropped || len > LOG_SIZE - ring.used)
		ring.dropped += len;
	else
		log_put(data, len);
}

void log_trace_to(void (*take)(void *data, uint64_t us, const char *text), void *data)
{
	trace.take = take;
	trace.data = data;
	log_traces = log_traces && take;
}

void log_tracing(bool on)
{
	log_traces = on && trace.take;
	trace.from = now_us();
}

void log_step(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	trace.take(trace.data, now_us() - trace.from, text);
}

void log_line(const char *fmt, ...)
{
	char line[512] = PREFIX;
	size_t len = strlen(line);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	len += (size_t)n;
	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len] = '\0';
	log_trace("%s", line + strlen(PREFIX));
	line[len++] = '\n';
	log_bytes(line, len);
}

size_t log_pending(void)
{
	return ring.used;
}

size_t log_take(void *buf, size_t len)
{
	size_t head;

	if (len > ring.used)
		len = ring.used;
	head = LOG_SIZE - ring.first < len ? LOG_SIZE - ring.first : len;
	memcpy(buf, ring.data + ring.first, head);
	memcpy((uint8_t *)buf + head, ring.data, len - head);
	ring.first = (ring.first + len) % LOG_SIZE;
	ring.used -= len;
	return len;
}

int log_kernel(int fd)
{
	char rec[8192], line[8192];
	unsigned long long usec;
	char *text, *end;
	ssize_t n = read(fd, rec, sizeof(rec) - 1);
	int len;

	if (n < 0 && errno == EPIPE) /* messages were overwritten before we came: go on */
		return 1;
	if (n <= 0)
		return n < 0 && errno != EAGAIN ? -errno : 0;
	rec[n] = '\0';

	/* "priority,sequence,microseconds,flags;text\n KEY=value\n" */
	text = strchr(rec, ';');
	if (!text)
		return 1;
	*text++ = '\0';
	end = strchr(text, '\n');
	if (end)
		*end = '\0';
	end = strchr(rec, ',');
	end = end ? strchr(end + 1, ',') : NULL;
	usec = end ? strtoull(end + 1, NULL, 10) : 0;
	len = snprintf(line, sizeof(line), "[%5llu.%06llu] %.7000s\n", usec / 1000000,
		       usec % 1000000, text);
	if (len > 0)
		log_bytes(line, (size_t)len);
	return 1;
}

static int console_fd = STDERR_FILENO;

void log_console(int fd)
{
	console_fd = fd;
}

void log_fatal(const char *step, int error)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "xsbx-agent: %s: %s\n", step, strerror(abs(error)));

	if (n >= (int)sizeof(line))
		n = sizeof(line) - 1;
	if (n > 0 && write(console_fd, line, (size_t)n) < 0)
		return; /* nowhere left to say it */
}
