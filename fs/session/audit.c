/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: its file, and the lines on their way there. See audit.h. */
#include "audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs.h"
#include "fs/request/caller.h"
#include "fs/request/clock.h"
#include "session.h"
#include "vm/base/log.h"
#include "vm/base/turn.h"

#define ENDING_MS 2000u /* for the daemon before to be gone */
/* Bytes of lines that are kept while it is not known which of them the file has; and that all lines fit into but for code and
 * settings, where they are required. */
#define KEEP_MAX  (64u << 10)
#define ROOM	  (64u << 10)
#define HEAD	  "{\"seq\":%" PRIu64
#define LAST_MAX  64u /* of the last line, all that counts is at its beginning */

/* ---- the file ---- */

/* It goes on behind the last number in it. */
static void find_number(struct audit *a)
{
	uint64_t n = 0;
	char last[LAST_MAX];

	if (rotated_last(&a->file, last, sizeof(last)) > 0 &&
	    sscanf(last, "{\"seq\":%" SCNu64, &n) == 1 && n < UINT64_MAX / 2)
		a->next = MAX(a->next, n + 1);
}

/* Number of the last line in the file, or 0. */
static uint64_t last_number(struct audit *a)
{
	struct audit at = {.file = a->file};

	find_number(&at);
	return at.next ? at.next - 1 : 0;
}

const char *audit_misplaced(const struct conf *conf)
{
	static const char file[] = CONF_SYSTEM_FILE ":";

	if (!conf->audit_where || strncmp(conf->audit_where, file, sizeof(file) - 1) != 0)
		return "";
	return CONF_SYSTEM_FILE
		" is of all mounts of all users: name the file of one mount in "
		"/etc/xsbxfs/NAME.conf, which xsbxfs@NAME.service reads, or in a file for -c";
}

static void say_why(const struct conf *conf, int err, char *ret_why, size_t size)
{
	const char *where = conf->audit_where, *misplaced = audit_misplaced(conf);

	snprintf(ret_why, size, "%s%saudit_file %s: %s%s%s", where ? where : "", where ? ": " : "",
		 conf->audit_file,
		 err == -EBUSY ? "another mount writes it, and each needs one of its own"
			       : strerror(-err),
		 *misplaced ? ". " : "", misplaced);
}

int audit_open(struct fs *fs, const struct conf *conf, enum audit_how how, char *ret_why,
	       size_t size)
{
	struct audit *a;
	int e = -ENOMEM;

	if (!conf->audit_file)
		return 0;
	a = calloc(1, sizeof(*a));
	if (a)
		e = rotated_open(&a->file, conf->audit_file, (uint64_t)conf->audit_rotate_mb << 20,
				 conf->audit_keep,
				 (conf->audit_sync ? ROTATED_SYNC : 0u) |
					 (how == AUDIT_FIRST ? 0u : ROTATED_HEIR));
	if (e < 0 && (!a || how != AUDIT_REVIVES)) {
		say_why(conf, e, ret_why, size);
		if (a)
			rotated_close(&a->file);
		free(a);
		return e;
	}
	a->mount = conf->mountpoint;
	a->required = conf->audit_required;
	a->code = conf->audit_code;
	a->next = 1;
	fs->audit = a;
	return 0;
}

char *audit_directory(const struct audit *a, char *path)
{
	char *slash;
	int fd;

	if (!a || (!a->file.most && a->file.fd >= 0) || strlen(a->file.path) >= PATH_MAX)
		return NULL;
	snprintf(path, PATH_MAX, "%s", a->file.path);
	slash = strrchr(path, '/');
	slash[slash == path] = '\0';
	/* One that nobody can reach is no reason to fail: lines are lost then, which is said. */
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	close(fd);
	return path;
}

void audit_close(struct fs *fs)
{
	if (!fs->audit)
		return;
	audit_flush(fs);
	rotated_close(&fs->audit->file);
	buf_clear(&fs->audit->pending);
	free(fs->audit);
	fs->audit = NULL;
}

/* ---- writing ---- */

/* RFC 3339, in UTC. */
static void put_time(char *out, size_t size)
{
	const struct timespec now = clock_now();
	struct tm tm;
	size_t n;

	gmtime_r(&now.tv_sec, &tm);
	n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static void tell_failing(struct audit *a, int err)
{
	if (!a->failing)
		log_error("audit_file: %s; what happens has no line there%s",
			  err == -EBUSY ? "another process writes it" : strerror(-err),
			  a->required ? ", and nothing is begun" : "");
	a->failing = true;
}

static void failed(struct audit *a, int err)
{
	a->lost++;
	a->untold++;
	a->changed = true;
	tell_failing(a, err);
}

/* It grows beyond what is allowed, and nothing is lost. */
static void tell_stuck(struct audit *a)
{
	if (a->file.stuck && !a->stuck)
		log_warn("audit_file can't be rotated, and grows: %s", strerror(-a->file.stuck));
	a->stuck = a->file.stuck;
}

/* The first line behind those that were lost says how many. Its number is that of the last of them. */
static int tell_lost(struct audit *a, uint64_t seq)
{
	char line[512], when[40];
	int len, e;

	if (!a->untold)
		return 0;
	put_time(when, sizeof(when));
	len = snprintf(line, sizeof(line),
		       HEAD ",\"time\":\"%s\",\"action\":\"audit\",\"what\":\"lines were lost\","
			    "\"lines\":%" PRIu64 "}\n",
		       seq - 1, when, a->untold);
	e = rotated_append(&a->file, line, (size_t)len);
	if (e == 0) {
		a->untold = 0;
		a->changed = true;
	}
	return e;
}

static void write_line(struct audit *a, uint64_t seq, const char *line, size_t len)
{
	int e = tell_lost(a, seq);

	if (e == 0)
		e = rotated_append(&a->file, line, len);
	if (e < 0) {
		failed(a, e);
		return;
	}
	a->lines++;
	tell_stuck(a);
	if (a->failing)
		log_info("audit_file can be written again");
	a->failing = false;
}

/* Of what was left, the lines that are there already go. */
static void drop_written(struct audit *a, uint64_t last)
{
	char *end;
	size_t len;

	while (a->pending.len && a->first <= last) {
		end = memchr(a->pending.data, '\n', a->pending.len);
		len = end ? (size_t)(end + 1 - a->pending.data) : a->pending.len;
		memmove(a->pending.data, a->pending.data + len, a->pending.len - len);
		a->pending.len -= len;
		a->first++;
	}
}

/* Is it known what the file has? From when this is the daemon and has got hold of it. */
static bool see(struct audit *a, unsigned patience_ms)
{
	int e;

	if (!a->blind)
		return true;
	e = rotated_own(&a->file, patience_ms);
	if (e < 0) {
		tell_failing(a, e);
		return false;
	}
	a->blind = false;
	drop_written(a, last_number(a));
	find_number(a);
	return true;
}

void audit_flush(struct fs *fs)
{
	struct audit *a = fs->audit;
	const char *line, *end;

	if (!a || !a->going || !a->pending.len || (!see(a, 0) && a->pending.len < KEEP_MAX))
		return;
	line = a->pending.data;
	while (line < a->pending.data + a->pending.len) {
		end = memchr(line, '\n', (size_t)(a->pending.data + a->pending.len - line));
		if (!end)
			break;
		write_line(a, a->first++, line, (size_t)(end + 1 - line));
		line = end + 1;
	}
	a->pending.len = 0;
	a->changed = true; /* with the next turn: until then an heir sees that they are there */
}

int audit_may(struct fs *fs, size_t more, struct problem *ret_why)
{
	struct audit *a = fs->audit;
	int e;

	if (!a || !a->required)
		return 0;
	e = rotated_reserve(&a->file, ROOM + a->pending.len + more);
	if (e == 0) /* they were lost before those that wait */
		e = tell_lost(a, a->pending.len ? a->first : a->next);
	if (e == 0) {
		a->failing = false;
		return 0;
	}
	problem_set(ret_why, PROBLEM_NOT_AUDITED, "The administrator makes room for audit_file.",
		    "the audit log can't be written, and nothing is done without: %s",
		    strerror(-e));
	return -ENOSPC;
}

/* ---- lines ---- */

/* Return: bytes of the character that begins here, if it is UTF-8; else 0. JSON knows no surrogates, and jansson checks the rest. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
	const size_t n = *s < 0x80 ? 1 : *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
	json_t *j;

	if (n == 1)
		return 1;
	j = n <= left ? json_stringn((const char *)s, n) : NULL;
	json_decref(j);
	return j ? n : 0;
}

json_t *audit_text(const char *text, size_t len)
{
	json_t *j = json_stringn(text, len);
	struct buf out = {0};
	size_t n;

	for (size_t i = 0; !j && i < len; i += n) {
		n = utf8_len((const unsigned char *)text + i, len - i);
		if (n)
			(void)buf_append(&out, text + i, n);
		else
			(void)buf_append(&out, "\xef\xbf\xbd", 3); /* U+FFFD */
		n = n ? n : 1;
	}
	if (!j && !out.failed)
		j = json_stringn(out.data ? out.data : "", out.len);
	buf_clear(&out);
	return j;
}

/* A process says itself what its program is called, and may have line feeds in that. */
static void read_program(struct who *w)
{
	size_t n = caller_read(w->ctx.pid, "comm", w->program, sizeof(w->program));

	while (n > 0 && w->program[n - 1] == '\n')
		w->program[--n] = '\0';
}

/* Where a process is: its control group of version 2, which names the user's login, the service or the container. */
static void read_cgroup(struct who *w)
{
	char text[1024], *at;

	if (!caller_read(w->ctx.pid, "cgroup", text, sizeof(text)))
		return;
	at = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!at)
		return;
	at += *at == '\n' ? 4 : 3;
	snprintf(w->cgroup, sizeof(w->cgroup), "%.*s", (int)strcspn(at, "\n"), at);
}

struct who audit_asker(struct fs *fs)
{
	struct who *w = &fs->who;

	if (fs->audit && w->known && !*w->program) {
		read_program(w);
		read_cgroup(w);
	}
	return *w;
}

static void put_text(json_t *o, const char *key, const char *text, size_t len)
{
	if (len)
		json_object_set_new(o, key, audit_text(text, len));
}

static void put_who(struct fs *fs, json_t *o)
{
	const struct who w = audit_asker(fs);

	if (!w.known) {
		json_object_set_new(o, "by", json_string("xsbxfs"));
		return;
	}
	json_object_set_new(o, "uid", json_integer(w.ctx.uid));
	json_object_set_new(o, "gid", json_integer(w.ctx.gid));
	if (w.ctx.pid > 0)
		json_object_set_new(o, "pid", json_integer(w.ctx.pid));
	put_text(o, "program", w.program, strlen(w.program));
	put_text(o, "cgroup", w.cgroup, strlen(w.cgroup));
}

/* Return: the line, or NULL if out of memory. */
static char *make_line(struct fs *fs, const char *action, const struct session *s, json_t *more)
{
	json_t *o = json_object();
	char when[40], *text;

	put_time(when, sizeof(when));
	json_object_set_new(o, "seq", json_integer((json_int_t)fs->audit->next));
	json_object_set_new(o, "time", json_string(when));
	json_object_set_new(o, "mount", audit_text(fs->audit->mount, strlen(fs->audit->mount)));
	json_object_set_new(o, "action", json_string(action));
	if (s) {
		put_text(o, "session", s->path, strlen(s->path));
		json_object_set_new(o, "owner", json_integer(s->uid));
	}
	put_who(fs, o);
	if (more)
		json_object_update(o, more);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* Is it written at once? */
static bool is_now(struct fs *fs)
{
	return !turn_is_on(fs->touched.turn);
}

static void add_line(struct fs *fs, const char *line)
{
	struct audit *a = fs->audit;
	const uint64_t seq = a->next++;
	const size_t before = a->pending.len;

	if (!before)
		a->first = seq;
	if (!line || buf_append(&a->pending, line, strlen(line)) < 0 ||
	    buf_append(&a->pending, "\n", 1) < 0) {
		(void)buf_truncate(&a->pending, before);
		audit_flush(fs);
		failed(a, -ENOMEM);
		return;
	}
	a->changed = true;
	if (is_now(fs))
		audit_flush(fs);
	else
		turn_due(fs->touched.turn);
}

void audit_add(struct fs *fs, const char *action, const struct session *s, json_t *more)
{
	char *line;

	if (fs->audit) {
		line = make_line(fs, action, s, more);
		add_line(fs, line);
		free(line);
	}
	json_decref(more);
}

/* ---- one from the other ---- */

/* Never reuse. */
enum audit_tag {
	TAG_NEXT = 1,
	TAG_FIRST,
	TAG_PENDING,
	TAG_LOST,
	TAG_LINES,
	TAG_UNTOLD,
	TAG_UNREPORTED,
};

void audit_put(const struct audit *a, struct buf *out)
{
	record_u64(out, TAG_NEXT, a->next);
	record_u64(out, TAG_FIRST, a->first);
	record_u64(out, TAG_LOST, a->lost);
	record_u64(out, TAG_LINES, a->lines);
	record_u64(out, TAG_UNTOLD, a->untold);
	record_u64(out, TAG_UNREPORTED, audit_rate_unreported(&a->rate));
	if (a->pending.len)
		record_bytes(out, TAG_PENDING, a->pending.data, a->pending.len);
}

int audit_get(struct audit *a, struct record_reader fields)
{
	const uint64_t most = UINT64_MAX / 2;
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum audit_tag)f.tag) {
		case TAG_NEXT: r = record_get(&f, 1, most, &a->next); break;
		case TAG_FIRST: r = record_get(&f, 0, most, &a->first); break;
		case TAG_LOST: r = record_get(&f, 0, most, &a->lost); break;
		case TAG_LINES: r = record_get(&f, 0, most, &a->lines); break;
		case TAG_UNTOLD: r = record_get(&f, 0, most, &a->untold); break;
		case TAG_UNREPORTED: r = record_get(&f, 0, most, &a->rate.forgotten); break;
		case TAG_PENDING: r = record_get_buf(&f, &a->pending); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r;
}

void audit_go(struct fs *fs)
{
	struct audit *a = fs->audit;

	if (!a || a->going)
		return;
	a->going = a->blind = true;
	(void)see(a, ENDING_MS);
	audit_flush(fs);
}
