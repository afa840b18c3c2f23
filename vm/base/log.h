/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log, and the trace that is part of it: standard error while in the foreground, else syslog, by way of
 * the guard. */
#ifndef XSBX_VM_BASE_LOG_H
#define XSBX_VM_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_NLEVELS };
enum log_format { LOG_TEXT, LOG_JSON };

/* As they are called in the configuration. */
#define LOG_LEVEL_NAMES                             \
	{                                           \
		"error", "warning", "info", "debug" \
	}
#define LOG_FORMAT_NAMES       \
	{                      \
		"text", "json" \
	}

/*
 * Whom a line is about, so that one run can be followed through everything that works for it. Made in fs/, carried
 * along by value; who keeps one sees to it that `who` lives as long.
 */
struct log_label {
	const char *who; /* the session, "python/demo"; NULL: nobody's */
	uint32_t run;	 /* its run, or 0 */
	uint64_t began;	 /* log_now() when that was received, or 0: not known */
};

/* The least important level that is still written; before it, INFO. May be called at any time, by any thread. */
void log_open(enum log_level level);
enum log_level log_level(void);

/* By its name. Return: 0 or -EINVAL. */
int log_level_parse(const char *text, size_t len, enum log_level *ret_level);
const char *log_level_str(enum log_level level);

/* How lines look; before it, text. */
void log_set_format(enum log_format format);

/**
 * log_is_journal() - Is this the journal of systemd?
 * @fd: Standard error
 * @stream: $JOURNAL_STREAM, "DEVICE:INODE", or NULL
 */
bool log_is_journal(int fd, const char *stream);

/* Lines on standard error begin with their priority, for the journal, which knows time and name by itself. */
void log_to_journal(bool on);

/**
 * log_relay() - Have messages written by another process, instead of to standard error
 * @fd: Of a pipe, not blocking, at whose other end log_serve() reads; -1: no longer
 *
 * Who has confined itself can't connect to the system's log. While that doesn't take more, messages are counted, and
 * the number is said once it does.
 */
void log_relay(int fd);

/**
 * log_serve() - Write to the system's log what comes from log_relay(), up to the end of file
 * @fd: Of a pipe
 * @pid: Of whose messages they are
 *
 * The bytes are not trusted: a line is made printable again, and cut where it is too long.
 */
void log_serve(int fd, pid_t pid);

/**
 * log_divert() - Have messages taken by a function, instead of written: in a process that hands them to another
 * @take: Called with one line, printable; NULL: no longer
 * @data: Its first argument
 */
void log_divert(void (*take)(void *data, enum log_level level, const char *text), void *data);

/**
 * log_printable() - Make text fit for a terminal or a line of a log
 * @text: Changed in place: control characters, those of UTF-8 too, become '?'
 * @len: Bytes
 * @lines: Leave ends of lines as they are
 */
void log_printable(char *text, size_t len, bool lines);

/* ---- lines ---- */

/* One line, made printable: names and words of others may be in it. */
void log_write(enum log_level level, const char *fmt, ...) printf_like(2, 3);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)

/* For log_has() alone: what is off costs one load, and its arguments are not evaluated. */
extern atomic_int log_most;
#define log_has(level) ((int)(level) <= atomic_load_explicit(&log_most, memory_order_relaxed))

#define log_debug(...)                                           \
	do {                                                     \
		if (log_has(LOG_LEVEL_DEBUG))                    \
			log_write(LOG_LEVEL_DEBUG, __VA_ARGS__); \
	} while (0)

/**
 * log_trace() - A step on somebody's way, at the level DEBUG
 * @label: struct log_label, or NULL
 * @part: Who takes the step, one word
 *
 * The rest as for printf(). Nothing of what user code, its input or its variables hold may be in it.
 */
#define log_trace(label, part, ...)                         \
	do {                                                \
		if (log_has(LOG_LEVEL_DEBUG))               \
			log_step(label, part, __VA_ARGS__); \
	} while (0)
void log_step(const struct log_label *label, const char *part, const char *fmt, ...)
	printf_like(3, 4);

/* The same of what another process has said; unless the level is off. @at: log_now() there. @text is made printable. */
void log_heard(enum log_level level, const struct log_label *label, const char *part, uint64_t at,
	       const char *text);

/* ns of CLOCK_MONOTONIC, the same in all processes of the host. */
uint64_t log_now(void);

#endif
