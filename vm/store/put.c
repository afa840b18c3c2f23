/* SPDX-License-Identifier: Apache-2.0 */
/* Offers an object to the store. */
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
 * If the store has the manifest, it has the whole object, and nothing is done. Otherwise, for each chunk,
 * the store is asked whether it has one of that name and size, and if not, is sent it. So an interrupted
 * upload resumes where it stopped, without any record of it. The manifest is sent last, so that nobody
 * finds an incomplete object.
 */

struct push {
	struct store *st;
	struct s3 *s3;
	struct offer offer;
	uint64_t sent, there;
	struct s3_request pieces[STORE_PARALLEL];
	char *data[STORE_PARALLEL];
};

/* ---- the manifest ---- */

static int ask(struct push *p, struct s3_request *req)
{
	snprintf(req->object, sizeof(req->object), STORE_MANIFEST_NAME,
		 store_kind_str(p->offer.m.kind), p->offer.m.key);
	return s3_do(p->s3, req);
}

static int put_manifest(struct push *p)
{
	struct s3_request req = {.verb = S3_PUT, .tries = STORE_TRIES};
	struct buf text = {.limit = MANIFEST_MAX};
	int r = manifest_print(&p->offer.m, p->st->secret, 0, &text);

	req.data = text.data;
	req.len = text.len;
	if (r == 0)
		r = digest_of(text.data, text.len, req.sha256);
	if (r == 0)
		r = ask(p, &req);
	buf_clear(&text);
	return r;
}

/* ---- chunks ---- */

/* What came of asking for a chunk, or of putting it. */
static enum store_end settle(struct push *p, struct s3_request *req)
{
	const bool asked = req->verb == S3_HEAD;

	if (asked && (req->result == -ENOENT || (req->result == 0 && req->bytes != req->len))) {
		req->verb = S3_PUT;
		req->tries = STORE_TRIES;
		s3_submit(p->s3, req);
		return STORE_DONE;
	}
	if (req->result < 0)
		return store_refused(p->st, p->s3, req->result);
	*(asked ? &p->there : &p->sent) += req->len;
	return STORE_DONE;
}

/* The next chunk, if there is one. */
static enum store_end offer(struct push *p, struct s3_request *req, char **data)
{
	const struct manifest_chunk *c;
	int r = 0;

	req->state = S3_IDLE;
	if (!*data)
		*data = malloc(chunk_stored_max(p->offer.m.chunk_bytes));
	r = *data ? offer_next(&p->offer) : -ENOMEM;
	if (r < 0)
		return store_fail(p->st, STORE_FAILED, "it can't be read: %s", strerror(-r));
	if (!r)
		return STORE_DONE;
	c = offer_chunk(&p->offer);
	memcpy(*data, p->offer.packed, c->stored);
	*req = (struct s3_request){
		.verb = p->st->anew ? S3_PUT : S3_HEAD,
		.tries = STORE_TRIES,
		.data = *data,
		.len = c->stored,
	};
	memcpy(req->sha256, c->sha256, DIGEST_HEX);
	snprintf(req->object, sizeof(req->object), STORE_CHUNK_NAME, c->sha256);
	s3_submit(p->s3, req);
	return STORE_DONE;
}

static enum store_end push_chunks(struct push *p)
{
	enum store_end end = STORE_DONE;

	for (bool busy = true; busy; s3_step(p->s3)) {
		busy = false;
		for (size_t i = 0; end == STORE_DONE && i < STORE_PARALLEL; i++) {
			struct s3_request *req = &p->pieces[i];

			if (req->state == S3_DONE)
				end = settle(p, req);
			if (end == STORE_DONE && req->state != S3_BUSY)
				end = offer(p, req, &p->data[i]);
			busy |= req->state == S3_BUSY;
		}
		if (end != STORE_DONE)
			return end;
	}
	return end;
}

/* ---- all of it ---- */

static enum store_end push(struct push *p)
{
	struct s3_request req = {.verb = S3_HEAD, .tries = 1, .timeout_ms = STORE_LOOKUP_MS};
	const struct manifest *m = &p->offer.m;
	enum store_end end;
	int r = ask(p, &req);

	if (r == 0 && !p->st->anew) {
		store_say("%s %.12s: the store has it", store_kind_str(m->kind), m->key);
		return STORE_DONE;
	}
	if (r < 0 && r != -ENOENT)
		return store_refused(p->st, p->s3, r);
	end = push_chunks(p);
	if (end != STORE_DONE)
		return end;
	r = put_manifest(p);
	if (r < 0)
		return store_refused(p->st, p->s3, r);
	store_say("put %s %.12s: %" PRIu64 " KiB, %" PRIu64 " KiB were there",
		  store_kind_str(m->kind), m->key, p->sent >> 10, p->there >> 10);
	return STORE_DONE;
}

enum store_end store_put(struct store *st, enum store_kind kind, const char *key, const char *dir)
{
	static struct push p;
	enum store_end end;
	int r;

	p = (struct push){.st = st};
	r = offer_open(dir, kind, key, st->chunk_bytes, &p.offer);
	if (r < 0)
		return store_fail(st, STORE_FAILED, "%s/%s: %s", dir, key, strerror(-r));
	p.offer.m.tsc_khz = kind == STORE_SNAPSHOT ? st->tsc_khz : 0;
	p.s3 = s3_new(&st->s3);
	end = p.s3 ? push(&p) : store_fail(st, STORE_FAILED, "no memory");
	s3_free(p.s3);
	offer_close(&p.offer);
	for (size_t i = 0; i < STORE_PARALLEL; i++)
		free(p.data[i]);
	return end;
}
