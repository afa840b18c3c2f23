/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log: standard error while in the foreground, else syslog. */
#ifndef XSBX_LOG_H
#define XSBX_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_NLEVELS };

/**
 * log_open() - Choose where messages go; before it they go to standard error
 * @syslog: To syslog(3) instead of standard error
 * @level: Least important level that is still written
 */
void log_open(bool syslog, enum log_level level);

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
