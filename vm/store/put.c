/* SPDX-License-Identifier: Apache-2.0 */
/* Offering an object to the store. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "chunk.h"
#include "offer.h"
#include "store.h"

/*
 * Theory of operation
 * -------------------
 * If the store has the manifest, it has all of it, and that is the end of it. Otherwise chunk by
 * chunk: the store is asked whether it has one of that name and size, and if not, gets it. So an
 * upload that was cut off goes on where it was, without a note of it anywhere. The manifest goes last:
 * nobody finds an object that is not complete.
 */

#define LOOKUP_MS 5000u
#define TRIES	  3u

struct piece {
	struct s3_request req;
	char *data;
	bool busy;
};

struct push {
	struct store *st;
	struct offer offer;
	struct s3 *s3;
	enum store_end end;
	uint64_t sent, there;
	bool answered;
	int result;
	struct s3_request manifest;
	struct piece pieces[STORE_PARALLEL];
};

/* ---- the manifest ---- */

static void on_answer(struct s3_request *req, int result)
{
	struct push *p = req->owner;

	p->answered = true;
	p->result = result;
}

static int ask(struct push *p, struct s3_request *req)
{
	p->answered = false;
	req->done = on_answer;
	req->owner = p;
	snprintf(req->object, sizeof(req->object), STORE_MANIFEST_NAME,
		 store_kind_str(p->offer.m.kind), p->offer.m.key);
	s3_submit(p->s3, req);
	while (!p->answered)
		s3_step(p->s3);
	return p->result;
}

static int put_manifest(struct push *p)
{
	struct buf text = {.limit = MANIFEST_MAX};
	int r = manifest_print(&p->offer.m, p->st->secret, 0, &text);

	p->manifest = (struct s3_request){
		.verb = S3_PUT, .tries = TRIES, .data = text.data, .len = text.len};
	if (r == 0)
		r = digest_of(text.data, text.len, p->manifest.sha256);
	if (r == 0)
		r = ask(p, &p->manifest);
	buf_clear(&text);
	return r;
}

/* ---- chunks ---- */

static void on_put(struct s3_request *req, int result)
{
	struct piece *piece = container_of(req, struct piece, req);
	struct push *p = req->owner;

	piece->busy = false;
	if (p->end == STORE_DONE && result < 0)
		p->end = store_refused(p->st, req->s3, result);
	else
		p->sent += req->len;
}

static void on_head(struct s3_request *req, int result)
{
	struct piece *piece = container_of(req, struct piece, req);
	struct push *p = req->owner;

	if (p->end != STORE_DONE || (result < 0 && result != -ENOENT)) {
		piece->busy = false;
		if (p->end == STORE_DONE)
			p->end = store_refused(p->st, req->s3, result);
	} else if (result == 0 && req->bytes == req->len) {
		piece->busy = false;
		p->there += req->len;
	} else {
		req->verb = S3_PUT;
		req->tries = TRIES;
		req->done = on_put;
		s3_submit(p->s3, req);
	}
}

/* Return: 1, 0 if there are no more, or -errno. */
static int offer_piece(struct push *p, struct piece *piece)
{
	const struct manifest_chunk *c;
	int r;

	if (!piece->data)
		piece->data = malloc(chunk_stored_max(p->offer.m.chunk_bytes));
	if (!piece->data)
		return -ENOMEM;
	r = offer_next(&p->offer);
	if (r <= 0)
		return r;
	c = offer_chunk(&p->offer);
	memcpy(piece->data, p->offer.packed, c->stored);
	piece->req = (struct s3_request){
		.verb = p->st->anew ? S3_PUT : S3_HEAD,
		.tries = TRIES,
		.data = piece->data,
		.len = c->stored,
		.done = p->st->anew ? on_put : on_head,
		.owner = p,
	};
	memcpy(piece->req.sha256, c->sha256, DIGEST_HEX);
	snprintf(piece->req.object, sizeof(piece->req.object), STORE_CHUNK_NAME, c->sha256);
	piece->busy = true;
	s3_submit(p->s3, &piece->req);
	return 1;
}

static void push_chunks(struct push *p)
{
	unsigned busy = 1;
	int more = 1;

	while (p->end == STORE_DONE && (more > 0 || busy)) {
		for (size_t i = 0; more > 0 && i < STORE_PARALLEL; i++) {
			if (!p->pieces[i].busy)
				more = offer_piece(p, &p->pieces[i]);
		}
		if (more < 0)
			p->end = store_fail(p->st, STORE_FAILED, "it can't be read: %s",
					    strerror(-more));
		busy = s3_step(p->s3);
	}
}

/* ---- all of it ---- */

static enum store_end push(struct push *p)
{
	int r;

	p->manifest = (struct s3_request){.verb = S3_HEAD, .tries = 1, .timeout_ms = LOOKUP_MS};
	r = ask(p, &p->manifest);
	if (r == 0 && !p->st->anew) {
		store_say("%s %.12s: the store has it", store_kind_str(p->offer.m.kind),
			  p->offer.m.key);
		return STORE_DONE;
	}
	if (r < 0 && r != -ENOENT)
		return store_refused(p->st, p->s3, r);
	push_chunks(p);
	if (p->end != STORE_DONE)
		return p->end;
	r = put_manifest(p);
	if (r < 0)
		return store_refused(p->st, p->s3, r);
	store_say("put %s %.12s: %" PRIu64 " KiB, %" PRIu64 " KiB were there",
		  store_kind_str(p->offer.m.kind), p->offer.m.key, p->sent >> 10, p->there >> 10);
	return STORE_DONE;
}

enum store_end store_put(struct store *st, enum store_kind kind, const char *key, const char *dir)
{
	struct push *p = calloc(1, sizeof(*p));
	enum store_end end;
	int r;

	if (!p)
		return store_fail(st, STORE_FAILED, "no memory");
	p->st = st;
	r = offer_open(dir, kind, key, st->chunk_bytes, &p->offer);
	if (r < 0) {
		free(p);
		return store_fail(st, STORE_FAILED, "%s/%s: %s", dir, key, strerror(-r));
	}
	p->offer.m.tsc_khz = kind == STORE_SNAPSHOT ? st->tsc_khz : 0;
	p->s3 = s3_new(&st->s3);
	end = p->s3 ? push(p) : store_fail(st, STORE_FAILED, "no memory");
	s3_free(p->s3);
	offer_close(&p->offer);
	for (size_t i = 0; i < STORE_PARALLEL; i++)
		free(p->pieces[i].data);
	free(p);
	return end;
}
