/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log. */
#include "log.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <syslog.h>

static bool to_syslog;
static enum log_level max_level = LOG_LEVEL_INFO;

static const struct {
	int priority;
	const char *word;
} levels[] = {
	[LOG_LEVEL_ERROR] = {LOG_ERR, "error"},
	[LOG_LEVEL_WARN] = {LOG_WARNING, "warning"},
	[LOG_LEVEL_INFO] = {LOG_INFO, "info"},
	[LOG_LEVEL_DEBUG] = {LOG_DEBUG, "debug"},
};
static_assert(ARRAY_SIZE(levels) == LOG_NLEVELS, "a row for each level");

void log_open(bool use_syslog, enum log_level level)
{
	to_syslog = use_syslog;
	max_level = level;
	if (use_syslog)
		openlog("xsbxfs", LOG_PID, LOG_DAEMON);
}

void log_printable(char *text, size_t len, bool lines)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)text[i];

		if ((c < ' ' && c != '\t' && !(lines && c == '\n')) || c == 0x7f) {
			text[i] = '?';
		} else if (c == 0xc2 && i + 1 < len &&
			   ((unsigned char)text[i + 1] & 0xe0) == 0x80) {
			/* U+0080 to U+009f: to a terminal, U+009b is as good as ESC [ */
			text[i] = '?';
			text[i + 1] = '?';
		}
	}
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	if (level > max_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_printable(text, strlen(text), false);
	if (to_syslog)
		syslog(levels[level].priority, "%s", text);
	else
		fprintf(stderr, "xsbxfs: %s%s%s\n",
			level == LOG_LEVEL_INFO ? "" : levels[level].word,
			level == LOG_LEVEL_INFO ? "" : ": ", text);
}
