/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's log: kept in memory until the host takes it as LOG frames. */
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
 * log_trace() - Say what happens, if the host wants to know: a step on the way of a run, or up
 * @fmt: As for printf(). Nothing of user code, its input, its output or its variables
 */
#define log_trace(...)                         \
	do {                                   \
		if (log_traces)                \
			log_step(__VA_ARGS__); \
	} while (0)
extern bool log_traces; /* for the macro alone */
void log_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * log_trace_to() - Who takes the trace, to which belong the lines of the log
 * @take: Gets one line without its end, and the us since log_tracing(); NULL: nobody does
 * @data: Its first argument
 */
void log_trace_to(void (*take)(void *data, uint64_t us, const char *text), void *data);

/** log_tracing() - Begin a trace, or leave it; its time counts from now. */
void log_tracing(bool on);

/**
 * log_bytes() - Add bytes as they are (kernel messages, what interpreters print when they start)
 * @data: Bytes
 * @len: How many. What finds no room is dropped and counted.
 */
void log_bytes(const void *data, size_t len);

/** log_pending() - How many bytes log_take() has to give. */
size_t log_pending(void);

/**
 * log_take() - Take the oldest bytes out
 * @buf: Where to put them
 * @len: Most bytes to take
 *
 * Return: how many were taken.
 */
size_t log_take(void *buf, size_t len);

/**
 * log_kernel() - Move one message of the kernel's log into ours
 * @fd: /dev/kmsg, non-blocking
 *
 * Return: 1 if there was one, 0 if there is none now, or -errno.
 */
int log_kernel(int fd);

/** log_console() - Where log_fatal() writes; without it, to standard error. */
void log_console(int fd);

/**
 * log_fatal() - Say on the console why the agent cannot go on
 * @step: What was being done
 * @error: errno value, positive or negative
 */
void log_fatal(const char *step, int error);

#endif
