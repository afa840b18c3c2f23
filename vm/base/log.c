/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define TEXT_MAX 2048u /* bytes of a message */

static int relay = -1;
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

void log_open(enum log_level level)
{
	max_level = level;
}

void log_relay(int fd)
{
	relay = fd;
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

/* As one write, which is not torn: a digit for the level, the text, an end of line. */
static bool send_line(enum log_level level, const char *text)
{
	char line[TEXT_MAX + 2];
	const int n = snprintf(line, sizeof(line), "%d%s\n", level, text);

	static_assert(sizeof(line) <= 4096, "PIPE_BUF, below which a write is whole");
	return write(relay, line, (size_t)n) == n;
}

static void send_or_count(enum log_level level, const char *text)
{
	static atomic_uint lost;
	const unsigned n = atomic_exchange(&lost, 0); /* of threads, one says it */
	char words[64];

	if (n) {
		snprintf(words, sizeof(words), "%u messages were lost", n);
		if (!send_line(LOG_LEVEL_WARN, words)) {
			atomic_fetch_add(&lost, n + 1);
			return;
		}
	}
	if (!send_line(level, text))
		atomic_fetch_add(&lost, 1);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	if (level > max_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_printable(text, strlen(text), false);
	if (relay >= 0)
		send_or_count(level, text);
	else
		fprintf(stderr, "xsbxfs: %s%s%s\n",
			level == LOG_LEVEL_INFO ? "" : levels[level].word,
			level == LOG_LEVEL_INFO ? "" : ": ", text);
}

/* @line has a byte for its end. */
static void serve_line(char *line, size_t len)
{
	const unsigned level = (unsigned)(unsigned char)line[0] - '0';

	if (!len || level >= LOG_NLEVELS)
		return;
	line[len] = '\0';
	log_printable(line + 1, len - 1, false);
	syslog(levels[level].priority, "%s", line + 1);
}

/* Takes the whole lines from the beginning of the @len bytes of @buf. Return: how many bytes are left, moved there. */
static size_t serve_lines(char *buf, size_t len, size_t size)
{
	char *begin = buf, *end;

	while ((end = memchr(begin, '\n', len - (size_t)(begin - buf)))) {
		serve_line(begin, (size_t)(end - begin));
		begin = end + 1;
	}
	len -= (size_t)(begin - buf);
	if (len == size) { /* it has no end */
		serve_line(buf, len);
		return 0;
	}
	memmove(buf, begin, len);
	return len;
}

void log_serve(int fd, pid_t pid)
{
	static char ident[32]; /* which the library goes on using */
	char buf[2 * TEXT_MAX + 1];
	size_t len = 0;
	ssize_t n;

	snprintf(ident, sizeof(ident), "xsbxfs[%d]", (int)pid);
	openlog(ident, 0, LOG_DAEMON);
	for (;;) {
		n = read(fd, buf + len, sizeof(buf) - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len = serve_lines(buf, len + (size_t)n, sizeof(buf) - 1);
	}
	closelog();
}
