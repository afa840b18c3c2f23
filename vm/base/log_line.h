/* SPDX-License-Identifier: Apache-2.0 */
/* How a line of the log looks, as text and as JSON. For log.c. */
#ifndef XSBX_VM_BASE_LOG_LINE_H
#define XSBX_VM_BASE_LOG_LINE_H

#include "log.h"

struct log_line {
	enum log_level level;
	const char *level_word;	       /* only for JSON */
	const struct log_label *label; /* or NULL */
	const char *part;	       /* or NULL */
	uint64_t at;		       /* ns of CLOCK_MONOTONIC */
	int64_t time_us;	       /* since 1970; only for JSON */
	const char *text;	       /* printable */
};

/**
 * log_line_text() - "python/demo#3 +12.4 ms spawner: the text", of which there is as much as is known
 * @l: Line
 * @out: Room; what does not fit is cut
 * @size: Its size
 *
 * Return: bytes without the terminator.
 */
size_t log_line_text(const struct log_line *l, char *out, size_t size);

/* One object of JSON, whole and valid whatever the text holds: what is cut is the message. Needs no memory. @size: 512
 * at least. */
size_t log_line_json(const struct log_line *l, char *out, size_t size);

#endif
