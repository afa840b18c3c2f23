/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log: standard error while in the foreground, else syslog, by way of the guard. */
#ifndef XSBX_VM_BASE_LOG_H
#define XSBX_VM_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_NLEVELS };

/* The least important level that is still written; before it, INFO. */
void log_open(enum log_level level);

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
 * log_printable() - Make text fit for a terminal or a line of a log
 * @text: Changed in place: control characters, those of UTF-8 too, become '?'
 * @len: Bytes
 * @lines: Leave ends of lines as they are
 */
void log_printable(char *text, size_t len, bool lines);

/* One line, made printable: names and words of others may be in it. */
void log_write(enum log_level level, const char *fmt, ...) printf_like(2, 3);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
