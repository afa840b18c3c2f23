/* SPDX-License-Identifier: Apache-2.0 */
/* Requests without a kernel. See reply_fake.h. */
#include "reply_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct req *all;
static struct pollwait *all_polls;

struct req *req_new(pid_t pid)
{
	struct req *req = calloc(1, sizeof(*req));

	assert_non_null(req);
	req->ctx = (struct req_ctx){.uid = 1000, .gid = 1000, .pid = pid};
	req->next = all;
	all = req;
	return req;
}

void req_interrupt(struct req *req)
{
	req->interrupted = true;
	if (req->kind == ANSWER_NONE_YET && req->on_interrupt)
		req->on_interrupt(req, req->on_interrupt_data);
}

unsigned req_waiting(void)
{
	unsigned n = 0;

	for (const struct req *r = all; r; r = r->next)
		n += r->kind == ANSWER_NONE_YET;
	return n;
}

struct pollwait *pollwait_new(void)
{
	struct pollwait *pw = calloc(1, sizeof(*pw));

	assert_non_null(pw);
	pw->next = all_polls;
	all_polls = pw;
	return pw;
}

void req_check_all(void)
{
	unsigned unanswered = req_waiting(), kept = 0;

	while (all) {
		struct req *next = all->next;

		free(all->data);
		free(all);
		all = next;
	}
	while (all_polls) {
		struct pollwait *next = all_polls->next;

		kept += !all_polls->freed;
		free(all_polls);
		all_polls = next;
	}
	assert_int_equal(unanswered, 0);
	assert_int_equal(kept, 0);
}

/* ---- what fs/ sees ---- */

static void must_be_open(const struct req *req)
{
	assert_non_null(req);
	if (req->kind != ANSWER_NONE_YET)
		fail_msg("a request was used after its answer");
}

static struct req *answer(struct req *req, enum answer_kind kind)
{
	must_be_open(req);
	req->kind = kind;
	return req;
}

void req_ctx(struct req *req, struct req_ctx *ret_ctx)
{
	must_be_open(req);
	*ret_ctx = req->ctx;
}

void req_on_interrupt(struct req *req, void (*fn)(struct req *req, void *data), void *data)
{
	must_be_open(req);
	req->on_interrupt = fn;
	req->on_interrupt_data = data;
	if (fn && req->interrupted)
		fn(req, data);
}

void reply_err(struct req *req, int err)
{
	assert_true(err <= 0 && err > -200);
	answer(req, ANSWER_ERR)->err = err;
}

void reply_attr(struct req *req, const struct stat *st, enum reply_keep keep)
{
	answer(req, ANSWER_ATTR)->st = *st;
	req->keep = keep;
}

static void put_entry(struct req *req, const struct reply_entry *e)
{
	assert_int_not_equal(e->ino, 0);
	req->ino = e->ino;
	req->st = e->st;
	req->keep = e->keep;
	if (!req->st.st_ino)
		req->st.st_ino = e->ino;
}

static void put_open(struct req *req, const struct reply_open *o)
{
	req->fh = o->fh;
	req->noflush = o->noflush;
	req->direct_io = o->direct_io;
}

void reply_entry(struct req *req, const struct reply_entry *e)
{
	put_entry(answer(req, ANSWER_ENTRY), e);
}

void reply_create(struct req *req, const struct reply_entry *e, const struct reply_open *o)
{
	put_entry(answer(req, ANSWER_CREATE), e);
	put_open(req, o);
}

void reply_open(struct req *req, const struct reply_open *o)
{
	put_open(answer(req, ANSWER_OPEN), o);
}

void reply_buf(struct req *req, const void *data, size_t size)
{
	answer(req, ANSWER_BUF);
	req->data = malloc(size + 1);
	assert_non_null(req->data);
	if (size)
		memcpy(req->data, data, size);
	req->data[size] = '\0';
	req->size = size;
}

void reply_write(struct req *req, size_t size)
{
	answer(req, ANSWER_WRITE)->size = size;
}

void reply_readlink(struct req *req, const char *target)
{
	answer(req, ANSWER_READLINK);
	req->data = strdup(target);
}

void reply_statfs(struct req *req, const struct statvfs *st)
{
	answer(req, ANSWER_STATFS)->statvfs = *st;
}

void reply_lseek(struct req *req, uint64_t offset)
{
	answer(req, ANSWER_LSEEK)->number = offset;
}

void reply_poll(struct req *req, unsigned revents)
{
	answer(req, ANSWER_POLL)->number = revents;
}

void reply_lock(struct req *req, int type, uint64_t start, uint64_t end, uint32_t pid)
{
	struct req *r = answer(req, ANSWER_LOCK);

	(void)start;
	(void)end;
	r->number = (uint64_t)type;
	r->size = pid;
}

void reply_none(struct req *req)
{
	answer(req, ANSWER_NOTHING);
}

struct packed {
	uint64_t next, ino;
	uint32_t type, len;
};

bool reply_dirent(struct req *req, char *buf, size_t cap, size_t *ret_len, const char *name,
		  uint64_t ino, uint32_t type, uint64_t next)
{
	const struct packed p = {next, ino, type, (uint32_t)strlen(name) + 1};

	must_be_open(req);
	if (sizeof(p) + p.len > cap - *ret_len)
		return false;
	memcpy(buf + *ret_len, &p, sizeof(p));
	memcpy(buf + *ret_len + sizeof(p), name, p.len);
	*ret_len += sizeof(p) + p.len;
	return true;
}

const char *req_dirent(const struct req *req, size_t *pos, uint64_t *ret_next)
{
	const char *name = req->data + *pos + sizeof(struct packed);
	struct packed p;

	assert_int_equal(req->kind, ANSWER_BUF);
	if (*pos == req->size)
		return NULL;
	memcpy(&p, req->data + *pos, sizeof(p));
	*pos += sizeof(p) + p.len;
	*ret_next = p.next;
	return name;
}

void pollwait_notify(struct pollwait *pw)
{
	assert_false(pw->notified || pw->freed);
	pw->notified = true;
}

void pollwait_free(struct pollwait *pw)
{
	assert_false(pw->freed);
	pw->freed = true;
}
