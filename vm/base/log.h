/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log, which includes the trace: written to standard error in the foreground, else to
 * syslog, through the guard. */
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

/* Their names in the configuration. */
#define LOG_LEVEL_NAMES                             \
	{                                           \
		"error", "warning", "info", "debug" \
	}
#define LOG_FORMAT_NAMES       \
	{                      \
		"text", "json" \
	}

/*
 * The subject of a line, so that a run can be followed through all processes that work for it. Made
 * in fs/ and copied by value; whoever keeps a copy has to make sure that `who` lives as long.
 */
struct log_label {
	const char *who; /* the session, "python/demo"; NULL: none */
	uint32_t run;	 /* its run, or 0 */
	uint64_t began;	 /* log_now() when the run was received; 0: unknown */
};

/* Sets the least important level that is written, initially INFO. May be called at any time, by any
 * thread. */
void log_open(enum log_level level);
enum log_level log_level(void);

/* Parses the name of a level. Return: 0 or -EINVAL. */
int log_level_parse(const char *text, size_t len, enum log_level *ret_level);
const char *log_level_str(enum log_level level);

/* Sets the format of lines, initially text. */
void log_set_format(enum log_format format);

/**
 * log_is_journal() - Is standard error connected to systemd's journal?
 * @fd: Standard error
 * @stream: $JOURNAL_STREAM, "DEVICE:INODE", or NULL
 */
bool log_is_journal(int fd, const char *stream);

/* For the journal, which adds time and name itself: lines on standard error have their priority before
 * them, and those that log_relay() sends have with them what they are about, for its fields. */
void log_to_journal(bool on);
bool log_has_journal(void);

/* Sends lines to the journal from now on, with fields, also of log_serve(). @fd: of systemd_connect(). What
 * it does not take goes to standard error. */
void log_to_entries(int fd);

/**
 * log_relay() - Let another process write messages, instead of standard error
 * @fd: A non-blocking pipe, from whose other end log_serve() reads; -1: stop it
 *
 * A process that has confined itself can't connect to the system's log. While the pipe is full,
 * messages are dropped and counted; their number is logged afterwards.
 */
void log_relay(int fd);

/* Writes to the system's log from now on, also by log_serve(), as the process @pid. */
void log_to_system(pid_t pid);

/* How a line on that pipe begins that is not for the log. */
#define LOG_WORD 'N'

/**
 * log_serve() - Write messages from log_relay() to the system's log, or to the journal, until the end of file
 * @fd: A pipe
 * @heard: Called for lines that begin with LOG_WORD, with what is behind it, printable; or NULL
 * @data: Its first argument
 *
 * The bytes are not trusted: lines are made printable again, and truncated if they are too long.
 */
void log_serve(int fd, void (*heard)(void *data, const char *words), void *data);

/**
 * log_divert() - Pass messages to a function, instead of writing them: for a process that sends
 * them to another
 * @take: Called with a printable line; NULL: stop it
 * @data: Its first argument
 */
void log_divert(void (*take)(void *data, enum log_level level, const char *text), void *data);

/**
 * log_printable() - Make text safe for a terminal or a line of a log
 * @text: Changed in place: control characters, including those in UTF-8, become '?'
 * @len: Bytes
 * @lines: Keep line feeds
 */
void log_printable(char *text, size_t len, bool lines);

/* ---- lines ---- */

/* Writes a line, made printable, as it may contain untrusted text. */
void log_write(enum log_level level, const char *fmt, ...) printf_like(2, 3);

/**
 * log_about() - Write a line whose words begin with what it is about
 * @level: Its level
 * @label: The same for programs: in JSON, and in the fields of the journal
 * @code: Of a problem, likewise; or NULL
 */
void log_about(enum log_level level, const struct log_label *label, const char *code,
	       const char *fmt, ...) printf_like(4, 5);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)

/* Only for log_has(): a disabled level costs one load, and its arguments are not evaluated. */
extern atomic_int log_most;
#define log_has(level) ((int)(level) <= atomic_load_explicit(&log_most, memory_order_relaxed))

#define log_debug(...)                                           \
	do {                                                     \
		if (log_has(LOG_LEVEL_DEBUG))                    \
			log_write(LOG_LEVEL_DEBUG, __VA_ARGS__); \
	} while (0)

/**
 * log_trace() - Log a step of a run or session, at the level DEBUG
 * @label: struct log_label, or NULL
 * @part: Component that takes the step, one word
 *
 * The rest as for printf(). It must not contain any part of user code, its input or its variables.
 */
#define log_trace(label, part, ...)                         \
	do {                                                \
		if (log_has(LOG_LEVEL_DEBUG))               \
			log_step(label, part, __VA_ARGS__); \
	} while (0)
void log_step(const struct log_label *label, const char *part, const char *fmt, ...)
	printf_like(3, 4);

/* The same for a step of another process, unless the level is off. @at: its log_now(). @text is
 * made printable. */
void log_heard(enum log_level level, const struct log_label *label, const char *part, uint64_t at,
	       const char *text);

/* ns of CLOCK_MONOTONIC, the same in all processes of the host. */
uint64_t log_now(void);

#endif
