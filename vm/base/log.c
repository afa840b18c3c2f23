/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "vm/base/aim.h"
#include "log_line.h"

#define TEXT_MAX  2048u		      /* bytes of a message */
#define LINE_SIZE (2 * TEXT_MAX - 64) /* of a line, with what is around the message */

atomic_int log_most = LOG_LEVEL_INFO;

/* Set before there are threads. */
static int relay = -1;
static enum log_format format;
static bool journal;
static void (*diverted)(void *data, enum log_level level, const char *text);
static void *diverted_data;

static const char *const level_names[] = LOG_LEVEL_NAMES;
static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
static_assert(ARRAY_SIZE(level_names) == LOG_NLEVELS && ARRAY_SIZE(priorities) == LOG_NLEVELS,
	      "one of each for each level");

/* ---- settings ---- */

void log_open(enum log_level level)
{
	atomic_store_explicit(&log_most, level, memory_order_relaxed);
}

enum log_level log_level(void)
{
	return (enum log_level)atomic_load_explicit(&log_most, memory_order_relaxed);
}

const char *log_level_str(enum log_level level)
{
	return level_names[level];
}

int log_level_parse(const char *text, size_t len, enum log_level *ret_level)
{
	for (int l = 0; l < LOG_NLEVELS; l++) {
		if (strlen(level_names[l]) == len && memcmp(text, level_names[l], len) == 0) {
			*ret_level = (enum log_level)l;
			return 0;
		}
	}
	return -EINVAL;
}

void log_set_format(enum log_format f)
{
	format = f;
}

bool log_is_journal(int fd, const char *stream)
{
	unsigned long long device, inode;
	struct stat st;
	int n = 0;

	return stream && sscanf(stream, "%llu:%llu%n", &device, &inode, &n) == 2 && !stream[n] &&
	       fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_to_journal(bool on)
{
	journal = on;
}

void log_divert(void (*take)(void *data, enum log_level level, const char *text), void *data)
{
	diverted = take;
	diverted_data = data;
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

/* ---- writing ---- */

/* As one write, which is not torn: a digit for the level, the text, an end of line. */
static bool send_line(enum log_level level, const char *text)
{
	char line[LINE_SIZE + 2];
	const int n = snprintf(line, sizeof(line), "%d%s\n", level, text);

	static_assert(sizeof(line) <= 4096, "PIPE_BUF, below which a write is whole");
	return write(relay, line, (size_t)n) == n;
}

static void compose(const struct log_line *line, char *out, size_t size)
{
	if (format == LOG_JSON)
		log_line_json(line, out, size);
	else
		log_line_text(line, out, size);
}

static void send_or_count(const struct log_line *l)
{
	static atomic_uint lost;
	const unsigned n = atomic_exchange(&lost, 0); /* of threads, one says it */
	char words[64], line[LINE_SIZE];

	if (n) {
		const struct log_line missing = {
			.level = LOG_LEVEL_WARN, .time_us = l->time_us, .text = words};

		snprintf(words, sizeof(words), "%u messages were lost", n);
		compose(&missing, line, sizeof(line));
		if (!send_line(LOG_LEVEL_WARN, line)) {
			atomic_fetch_add(&lost, n + 1);
			return;
		}
	}
	compose(l, line, sizeof(line));
	if (!send_line(l->level, line))
		atomic_fetch_add(&lost, 1);
}

/* In one piece, so that lines of threads, and of what else writes there, are not torn. */
static void print(const struct log_line *l)
{
	char text[LINE_SIZE], line[LINE_SIZE + 64];
	const char *word = l->level == LOG_LEVEL_INFO ? "" : level_names[l->level];
	int n;

	compose(l, text, sizeof(text));
	if (journal)
		n = snprintf(line, sizeof(line), "<%d>%s\n", priorities[l->level], text);
	else if (format == LOG_JSON)
		n = snprintf(line, sizeof(line), "%s\n", text);
	else
		n = snprintf(line, sizeof(line), "xsbxfs: %s%s%s\n", word, *word ? ": " : "", text);
	fwrite(line, 1, (size_t)n, stderr);
}

/* @text is made printable. */
static void emit(struct log_line *l, char *text)
{
	struct timespec now = {0};

	log_printable(text, strlen(text), false);
	l->text = text;
	if (format == LOG_JSON)
		clock_gettime(CLOCK_REALTIME, &now);
	l->time_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
	if (l->at && format == LOG_JSON) /* it happened then, and is only heard now */
		l->time_us -= (int64_t)(log_now() - l->at) / 1000;
	if (diverted)
		diverted(diverted_data, l->level, text);
	else if (relay >= 0)
		send_or_count(l);
	else
		print(l);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	struct log_line l = {.level = level};
	char text[TEXT_MAX];
	va_list ap;

	if (!log_has(level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(&l, text);
}

uint64_t log_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void log_step(const struct log_label *label, const char *part, const char *fmt, ...)
{
	struct log_line l = {
		.level = LOG_LEVEL_DEBUG, .label = label, .part = part, .at = log_now()};
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(&l, text);
	aim_at("%s", text);
}

void log_heard(enum log_level level, const struct log_label *label, const char *part, uint64_t at,
	       const char *text)
{
	struct log_line l = {.level = level, .label = label, .part = part, .at = at};
	char copy[TEXT_MAX];

	if (!log_has(level))
		return;
	snprintf(copy, sizeof(copy), "%s", text);
	emit(&l, copy);
}

/* ---- the other end of a relay ---- */

/* @line has a byte for its end. */
static void serve_line(char *line, size_t len)
{
	const unsigned level = (unsigned)(unsigned char)line[0] - '0';

	if (!len || level >= LOG_NLEVELS)
		return;
	line[len] = '\0';
	log_printable(line + 1, len - 1, false);
	syslog(priorities[level], "%s", line + 1);
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

static void to_system(void *data, enum log_level level, const char *text)
{
	(void)data;
	syslog(priorities[level], "%s", text);
}

void log_to_system(pid_t pid)
{
	static char ident[32]; /* which the library goes on using */

	snprintf(ident, sizeof(ident), "xsbxfs[%d]", (int)pid);
	openlog(ident, 0, LOG_DAEMON);
	log_divert(to_system, NULL);
}

void log_serve(int fd)
{
	char buf[2 * TEXT_MAX + 1];
	size_t len = 0;
	ssize_t n;

	for (;;) {
		n = read(fd, buf + len, sizeof(buf) - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len = serve_lines(buf, len + (size_t)n, sizeof(buf) - 1);
	}
}
