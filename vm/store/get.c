/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches an object from the store. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "assemble.h"
#include "store.h"

/*
 * Theory of operation
 * -------------------
 * First the manifest, with a short time limit, because a caller would rather build the object than wait
 * long to hear that there is none. It must describe the object that was asked for, and, if there is a
 * secret, be authenticated by it. Then the missing chunks, several at once, each checked before it is
 * unpacked. What was written is kept after a failure, for the next attempt; see assemble.c.
 */

struct fetch {
	struct store *st;
	struct s3 *s3;
	struct manifest m;
	struct assembly assembly;
	size_t chunk; /* the next to be asked for */
	uint64_t got;
	struct piece {
		struct s3_request req;
		size_t chunk;
	} pieces[STORE_PARALLEL];
};

/* ---- the manifest ---- */

static enum store_end judge_manifest(struct fetch *f, enum store_kind kind, const char *key)
{
	struct store *st = f->st;
	const uint64_t fits = f->m.tsc_khz / 20000; /* 50 ppm, as for what is on the disk */
	uint64_t d;

	if (f->m.kind != kind || strcmp(f->m.key, key) != 0)
		return store_fail(st, STORE_DAMAGED,
				  "the store has something else under that name");
	d = MAX(f->m.tsc_khz, st->tsc_khz) - MIN(f->m.tsc_khz, st->tsc_khz);
	if (f->m.tsc_khz && st->tsc_khz && d > fits)
		return store_fail(st, STORE_ABSENT,
				  "what is there is of a machine with another clock: %" PRIu64
				  " kHz, here %" PRIu64,
				  f->m.tsc_khz, st->tsc_khz);
	if (st->limit && manifest_data(&f->m) > st->limit)
		return store_fail(st, STORE_FAILED,
				  "it takes up to %" PRIu64 " MiB, and %" PRIu64 " are allowed",
				  manifest_data(&f->m) >> 20, st->limit >> 20);
	return STORE_DONE;
}

static enum store_end look_up(struct fetch *f, enum store_kind kind, const char *key)
{
	struct s3_request req = {
		.verb = S3_GET,
		.tries = 1,
		.timeout_ms = STORE_LOOKUP_MS,
		.body.limit = MANIFEST_MAX,
	};
	int r;

	snprintf(req.object, sizeof(req.object), STORE_MANIFEST_NAME, store_kind_str(kind), key);
	r = s3_do(f->s3, &req);
	if (r < 0) {
		buf_clear(&req.body);
		return r == -ENOENT ? store_fail(f->st, STORE_ABSENT, "the store does not have it")
				    : store_refused(f->st, f->s3, r);
	}
	r = manifest_parse(req.body.data, req.body.len, f->st->secret, &f->m);
	buf_clear(&req.body);
	if (r == -EACCES)
		return store_fail(f->st, STORE_DAMAGED,
				  "the manifest is not authenticated by our " STORE_SECRET);
	if (r < 0)
		return store_fail(f->st, STORE_DAMAGED, "the manifest can't be used: %s",
				  strerror(-r));
	return judge_manifest(f, kind, key);
}

/* ---- chunks ---- */

static enum store_end take(struct fetch *f, struct piece *piece)
{
	const struct s3_request *req = &piece->req;
	int r = req->result;

	if (r < 0)
		return r == -ENOENT ? store_fail(f->st, STORE_DAMAGED, "a chunk is missing: %s",
						 req->object)
				    : store_refused(f->st, f->s3, r);
	r = assemble_add(&f->assembly, piece->chunk, req->body.data, req->body.len);
	if (r == -EBADMSG)
		return store_fail(f->st, STORE_DAMAGED, "a chunk is not what it should be: %s",
				  req->object);
	if (r < 0)
		return store_fail(f->st, STORE_FAILED, "it can't be written: %s", strerror(-r));
	f->got += req->body.len;
	return STORE_DONE;
}

/* Asks for the next chunk, if there is one. */
static void ask(struct fetch *f, struct piece *piece)
{
	const struct manifest_chunk *c;

	piece->req.state = S3_IDLE;
	while (f->chunk < f->m.nchunks && f->assembly.have[f->chunk])
		f->chunk++;
	if (f->chunk == f->m.nchunks)
		return;
	c = &f->m.chunks[f->chunk];
	piece->chunk = f->chunk++;
	piece->req.verb = S3_GET;
	piece->req.tries = STORE_TRIES;
	piece->req.body.limit = c->stored;
	snprintf(piece->req.object, sizeof(piece->req.object), STORE_CHUNK_NAME, c->sha256);
	s3_submit(f->s3, &piece->req);
}

static enum store_end fetch_chunks(struct fetch *f)
{
	const uint64_t all = manifest_stored(&f->m) - f->assembly.resumed;
	enum store_end end = STORE_DONE;
	time_t said = 0;

	for (bool busy = true; busy; s3_step(f->s3)) {
		busy = false;
		for (size_t i = 0; end == STORE_DONE && i < STORE_PARALLEL; i++) {
			struct piece *piece = &f->pieces[i];

			if (piece->req.state == S3_DONE)
				end = take(f, piece);
			if (end == STORE_DONE && piece->req.state != S3_BUSY)
				ask(f, piece);
			busy |= piece->req.state == S3_BUSY;
		}
		if (end != STORE_DONE)
			return end;
		if (time(NULL) != said && busy)
			store_say("fetching %s %.12s: %" PRIu64 " of %" PRIu64 " MiB",
				  store_kind_str(f->m.kind), f->m.key, f->got >> 20, all >> 20);
		said = time(NULL);
	}
	return end;
}

/* ---- all of it ---- */

static enum store_end fetch_into(struct fetch *f, const char *dir, uint64_t begun)
{
	enum store_end end;
	int r = assemble_open(dir, &f->m, MIN(f->st->s3.timeout_s * 1000, STORE_SHARE_MS),
			      &f->assembly);

	if (r == -EEXIST)
		return STORE_DONE;
	if (r < 0)
		return store_fail(f->st, STORE_FAILED, "%s: %s", dir, strerror(-r));
	if (f->assembly.resumed)
		store_say("going on where it was left: %" PRIu64 " KiB are there",
			  f->assembly.resumed >> 10);
	end = fetch_chunks(f);
	if (end != STORE_DONE) {
		assemble_close(&f->assembly, end == STORE_FAILED);
		return end;
	}
	r = assemble_finish(&f->assembly);
	if (r < 0)
		return store_fail(f->st, r == -EBADMSG ? STORE_DAMAGED : STORE_FAILED,
				  "the whole is not what it should be: %s", strerror(-r));
	store_say("fetched %s %.12s: %" PRIu64 " KiB in %" PRIu64 " ms", store_kind_str(f->m.kind),
		  f->m.key, f->got >> 10, s3_now_ms() - begun);
	return STORE_DONE;
}

enum store_end store_get(struct store *st, enum store_kind kind, const char *key, const char *dir)
{
	static struct fetch f;
	const uint64_t begun = s3_now_ms();
	enum store_end end;

	assemble_clean(dir);
	if (assemble_exists(dir, key))
		return STORE_DONE;
	f = (struct fetch){.st = st, .s3 = s3_new(&st->s3)};
	if (!f.s3)
		return store_fail(st, STORE_FAILED, "no memory");
	end = look_up(&f, kind, key);
	if (end == STORE_DONE)
		end = fetch_into(&f, dir, begun);
	s3_free(f.s3);
	manifest_clear(&f.m);
	for (size_t i = 0; i < STORE_PARALLEL; i++)
		buf_clear(&f.pieces[i].req.body);
	return end;
}
