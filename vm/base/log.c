/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's log. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
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
#include "systemd.h"

#define TEXT_MAX     2048u		 /* bytes of a message */
#define LINE_SIZE    (2 * TEXT_MAX - 64) /* of a line, with what is around the message */

/* Of lines with fields: the level ERROR, and what is behind each field, which no printable text has. */
#define FIELDS_LEVEL 'a'
#define FIELD_END    "\x1f"
#define SUBJECT_MAX  160
#define WORD_MAX     40

atomic_int log_most = LOG_LEVEL_INFO;

/* Set before there are threads. */
static int relay = -1;
static int entries = -1; /* to the journal */
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

bool log_has_journal(void)
{
	return journal;
}

void log_to_entries(int fd)
{
	entries = fd;
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

/* As one write, which is not torn: a digit for the level, the text, an end of line. For the journal a letter, and what it
 * is about before the text. */
static bool send_line(const struct log_line *l, const char *text)
{
	const struct log_label none = {0}, *label = l->label ? l->label : &none;
	char line[PIPE_BUF];
	int n;

	if (journal)
		n = snprintf(line, sizeof(line) - 1,
			     "%c%.*s" FIELD_END "%" PRIu32 FIELD_END "%.*s" FIELD_END
			     "%.*s" FIELD_END "%s",
			     FIELDS_LEVEL + l->level, SUBJECT_MAX, label->who ? label->who : "",
			     label->run, WORD_MAX, l->part ? l->part : "", WORD_MAX,
			     l->code ? l->code : "", text);
	else
		n = snprintf(line, sizeof(line) - 1, "%d%s", l->level, text);
	n = MIN(n, (int)sizeof(line) - 2);
	line[n++] = '\n';
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
		if (!send_line(&missing, line)) {
			atomic_fetch_add(&lost, n + 1);
			return;
		}
	}
	compose(l, line, sizeof(line));
	if (!send_line(l, line))
		atomic_fetch_add(&lost, 1);
}

/* What of it the journal is told in fields. All of it was made printable. Return: whether it has taken it. */
static bool enter(enum log_level level, const char *who, const char *run, const char *part,
		  const char *code, const char *text)
{
	const bool session = who && strchr(who, '/');
	const char priority[] = {(char)('0' + priorities[level]), '\0'};
	const struct systemd_field field[] = {
		{"MESSAGE", text},
		{"PRIORITY", priority},
		{"SYSLOG_IDENTIFIER", "xsbxfs"},
		{"SESSION", session ? who : NULL},
		{"TEMPLATE", session ? NULL : who},
		{"RUN", run},
		{"PART", part},
		{"CODE", code},
	};

	return entries >= 0 && systemd_entry(entries, field, ARRAY_SIZE(field)) == 0;
}

/* In one piece, so that lines of threads, and of what else writes there, are not torn. */
static void print(const struct log_line *l)
{
	char text[LINE_SIZE], line[LINE_SIZE + 64];
	const char *word = l->level == LOG_LEVEL_INFO ? "" : level_names[l->level];
	int n;

	compose(l, text, sizeof(text));
	if (enter(l->level, NULL, NULL, l->part, l->code, text))
		return;
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

static void printf_like(2, 0) emit_words(struct log_line l, const char *fmt, va_list ap)
{
	char text[TEXT_MAX];

	vsnprintf(text, sizeof(text), fmt, ap);
	emit(&l, text);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	struct log_line l = {.level = level};
	va_list ap;

	if (!log_has(level))
		return;
	va_start(ap, fmt);
	emit_words(l, fmt, ap);
	va_end(ap);
}

void log_about(enum log_level level, const struct log_label *label, const char *code,
	       const char *fmt, ...)
{
	struct log_line l = {.level = level, .label = label, .code = code, .named = true};
	va_list ap;

	if (!log_has(level))
		return;
	va_start(ap, fmt);
	emit_words(l, fmt, ap);
	va_end(ap);
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

struct hearer {
	void (*heard)(void *data, const char *words);
	void *data;
};

/* Whatever it is that the daemon has sent: only numbers, names and codes as there are become fields. */
static bool is_number(const char *s)
{
	return *s >= '1' && *s <= '9' && s[strspn(s, "0123456789")] == '\0';
}

static bool is_code(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

/* @line: behind the level. */
static void serve_fields(enum log_level level, char *line)
{
	char *rest = line, *field[4], *text;

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		field[i] = strsep(&rest, FIELD_END);
		if (!rest)
			return;
		log_printable(field[i], strlen(field[i]), false);
	}
	text = rest;
	log_printable(text, strlen(text), false);
	if (!enter(level, field[0], is_number(field[1]) ? field[1] : NULL, field[2],
		   is_code(field[3]) ? field[3] : NULL, text))
		fprintf(stderr, "<%d>%s\n", priorities[level], text);
}

/* @line has a byte for its end. */
static void serve_line(char *line, size_t len, const struct hearer *h)
{
	const unsigned char first = (unsigned char)line[0];
	const unsigned level = first - '0', with_fields = first - FIELDS_LEVEL;

	if (!len)
		return;
	line[len] = '\0';
	if (with_fields < LOG_NLEVELS && journal) {
		serve_fields((enum log_level)with_fields, line + 1);
		return;
	}
	log_printable(line + 1, len - 1, false);
	if (first == LOG_WORD && h->heard)
		h->heard(h->data, line + 1);
	else if (level < LOG_NLEVELS)
		syslog(priorities[level], "%s", line + 1);
}

/* Takes the whole lines from the beginning of the @len bytes of @buf. Return: how many bytes are left, moved there. */
static size_t serve_lines(char *buf, size_t len, size_t size, const struct hearer *h)
{
	char *begin = buf, *end;

	while ((end = memchr(begin, '\n', len - (size_t)(begin - buf)))) {
		serve_line(begin, (size_t)(end - begin), h);
		begin = end + 1;
	}
	len -= (size_t)(begin - buf);
	if (len == size) { /* it has no end */
		serve_line(buf, len, h);
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

void log_serve(int fd, void (*heard)(void *data, const char *words), void *data)
{
	const struct hearer h = {heard, data};
	char buf[2 * TEXT_MAX + 1];
	size_t len = 0;
	ssize_t n;

	for (;;) {
		n = read(fd, buf + len, sizeof(buf) - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len = serve_lines(buf, len + (size_t)n, sizeof(buf) - 1, &h);
	}
}
