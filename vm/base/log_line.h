/* SPDX-License-Identifier: Apache-2.0 */
/* Formats lines of the log, as text and as JSON. For log.c. */
#ifndef XSBX_VM_BASE_LOG_LINE_H
#define XSBX_VM_BASE_LOG_LINE_H

#include "log.h"

struct log_line {
	enum log_level level;
	const struct log_label *label; /* or NULL */
	const char *part;	       /* or NULL */
	uint64_t at;		       /* ns of CLOCK_MONOTONIC */
	int64_t time_us;	       /* since 1970; only for JSON */
	const char *text;	       /* printable */
	const char *code;	       /* of a problem, or NULL */
	bool named;		       /* the text itself says what is in the label */
};

/**
 * log_line_text() - Format as "python/demo#3 +12.4 ms spawner: the text", without the unknown parts
 * @l: Line
 * @out: Result, truncated if necessary
 * @size: Size of @out
 *
 * Return: bytes without the terminator.
 */
size_t log_line_text(const struct log_line *l, char *out, size_t size);

/* Formats as a JSON object, complete and valid with any text: only the message is truncated. Does
 * not allocate. @size: at least 512. */
size_t log_line_json(const struct log_line *l, char *out, size_t size);

#endif
