/* SPDX-License-Identifier: Apache-2.0 */
/* What shells and tests do with a mount, made of the requests of bed.c. */
#include "bed.h"

#include <errno.h>

uint64_t bed_ino(struct bed *b, const char *path)
{
	uint64_t ino = 0;
	int e = bed_walk(b, path, &ino);

	if (e < 0)
		fail_msg("%s: %s", path, strerror(-e));
	return ino;
}

int bed_stat(struct bed *b, const char *path, struct stat *ret_st)
{
	uint64_t ino;
	int e = bed_walk(b, path, &ino);

	return e < 0 ? e : bed_stat_ino(b, ino, ret_st);
}

int64_t bed_size(struct bed *b, const char *path)
{
	struct stat st = {0};
	int e = bed_stat(b, path, &st);

	if (e < 0)
		fail_msg("%s: %s", path, strerror(-e));
	return st.st_size;
}

bool bed_exists(struct bed *b, const char *path)
{
	uint64_t ino;

	return bed_walk(b, path, &ino) == 0;
}

struct file bed_opened(struct bed *b, const char *path, int flags)
{
	struct file f = {0};
	int e = bed_open(b, path, flags, &f);

	if (e < 0)
		fail_msg("%s: %s", path, strerror(-e));
	return f;
}

int bed_write(struct bed *b, struct file *f, const char *data)
{
	return bed_write_bytes(b, f, data, strlen(data));
}

int bed_close(struct bed *b, const struct file *f)
{
	int e = bed_flush(b, f);

	bed_release(b, f);
	return e;
}

static int put(struct bed *b, const char *path, const char *text, int flags)
{
	struct file f;
	int e = bed_open(b, path, O_WRONLY | O_CREAT | flags, &f), e2;

	if (e < 0)
		return e;
	if (*text)
		e = bed_write(b, &f, text);
	e2 = bed_close(b, &f);
	return e < 0 ? e : e2;
}

int bed_put(struct bed *b, const char *path, const char *text)
{
	return put(b, path, text, O_TRUNC);
}

int bed_add(struct bed *b, const char *path, const char *text)
{
	return put(b, path, text, O_APPEND);
}

const char *bed_cat(struct bed *b, const char *path)
{
	struct file f = bed_opened(b, path, O_RDONLY);
	struct req *all = req_new(0);
	struct buf text = {0};
	struct req *req;

	for (;;) {
		req = bed_read(b, &f, 131072, 0);
		if (req->kind == ANSWER_ERR)
			fail_msg("%s: %s", path, strerror(-req->err));
		if (req->kind != ANSWER_BUF)
			fail_msg("%s: the read waits", path);
		if (!req->size)
			break;
		assert_int_equal(buf_append(&text, req->data, req->size), 0);
		f.offset += req->size;
	}
	bed_close(b, &f);
	reply_buf(all, text.data, text.len);
	buf_clear(&text);
	return all->data;
}

void bed_expect(struct bed *b, const char *path, const char *text)
{
	const char *is = bed_cat(b, path);

	if (strcmp(is, text) != 0)
		fail_msg("%s: \"%s\" instead of \"%s\"", path, is, text);
}

void bed_expect_error(struct bed *b, const char *session, const char *code)
{
	char path[128], line[64];
	const char *is;

	snprintf(path, sizeof(path), "%s/error", session);
	snprintf(line, sizeof(line), "code: %s\ncause: ", code);
	is = bed_cat(b, path);
	if (strncmp(is, line, strlen(line)) != 0)
		fail_msg("%s: \"%s\" instead of \"%s...\"", path, is, line);
}

struct sandbox *bed_ready(struct bed *b)
{
	struct session *s = session_find(b->fs, 0, "demo");

	assert_non_null(s);
	assert_int_equal(session_start(s), 0);
	fake_state(s->sandbox, SANDBOX_STARTING);
	fake_state(s->sandbox, SANDBOX_READY);
	return s->sandbox;
}

struct sandbox *bed_run(struct bed *b, const char *code)
{
	struct session *s = session_find(b->fs, 0, "demo");

	assert_int_equal(bed_put(b, "python/demo/in", code), 0);
	assert_non_null(s->sandbox);
	if (!s->ready)
		fake_state(s->sandbox, SANDBOX_READY);
	assert_string_equal(s->sandbox->code, code);
	return s->sandbox;
}

void assert_bytes(const struct req *req, const char *text)
{
	if (req->kind == ANSWER_ERR)
		fail_msg("\"%s\" was expected, not %s", text, strerror(-req->err));
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_string_equal(req->data, text);
	assert_int_equal(req->size, strlen(text));
}

void assert_error(const struct req *req, int err)
{
	assert_int_equal(req->kind, ANSWER_ERR);
	assert_int_equal(req->err, err);
}

void assert_waits(const struct req *req)
{
	assert_int_equal(req->kind, ANSWER_NONE_YET);
}
