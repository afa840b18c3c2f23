/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's log: buffered in memory until it is sent to the host in LOG frames. */
#ifndef XSBX_AGENT_CORE_LOG_H
#define XSBX_AGENT_CORE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * log_line() - Add one line, with the agent's prefix and a newline
 * @fmt: As for printf(); no newline at the end
 */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * log_trace() - Log a step of a run, or of the start, if the host has requested it
 * @fmt: As for printf(). Without any part of user code, its input, its output or its variables
 */
#define log_trace(...)                         \
	do {                                   \
		if (log_traces)                \
			log_step(__VA_ARGS__); \
	} while (0)
extern bool log_traces; /* only for the macro */
void log_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * log_trace_to() - Set the receiver of the trace, which includes the lines of the log
 * @take: Called with a line without line feed, and the us since log_tracing(); NULL: none
 * @data: Its first argument
 */
void log_trace_to(void (*take)(void *data, uint64_t us, const char *text), void *data);

/** log_tracing() - Start or stop a trace; its time counts from now. */
void log_tracing(bool on);

/**
 * log_bytes() - Add unchanged bytes (kernel messages, output of starting interpreters)
 * @data: Bytes
 * @len: Number of bytes. They are dropped and counted if there is no room.
 */
void log_bytes(const void *data, size_t len);

/** log_pending() - Get the number of bytes available to log_take(). */
size_t log_pending(void);

/**
 * log_take() - Remove the oldest bytes
 * @buf: Buffer for them
 * @len: Size of @buf
 *
 * Return: number of bytes.
 */
size_t log_take(void *buf, size_t len);

/**
 * log_kernel() - Copy one message of the kernel's log
 * @fd: /dev/kmsg, non-blocking
 *
 * Return: 1 if there was one, 0 if there was none, or -errno.
 */
int log_kernel(int fd);

/** log_console() - Set the descriptor for log_fatal(); default: standard error. */
void log_console(int fd);

/**
 * log_fatal() - Print to the console why the agent cannot continue
 * @step: The step that failed
 * @error: errno value, positive or negative
 */
void log_fatal(const char *step, int error);

#endif
