/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching an object from the store. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "chunk.h"
#include "manifest.h"
#include "assemble.h"
#include "store.h"

/*
 * Theory of operation
 * -------------------
 * First the manifest, with little patience: whoever waits for an answer would rather do without. It
 * must be of the object that was asked for, and, if there is a secret, authenticated by it. Then the
 * chunks that are not there yet, several at once, each checked before it is unpacked. What was written
 * stays, if it comes to a stop, for the next time; see assemble.c.
 */

#define LOOKUP_MS   5000u
#define CHUNK_TRIES 3u
#define SHARE_MS    60000u /* for another process that fetches the same */

struct fetch {
	struct store *st;
	struct manifest m;
	struct assembly assembly;
	size_t chunk;	    /* the next to be asked for */
	enum store_end end; /* STORE_DONE as long as all is well */
	bool answered;
	int result;
	uint64_t got;
	struct timespec begun;
	struct s3_request lookup;
	struct piece {
		struct s3_request req;
		size_t chunk;
		bool busy;
	} pieces[STORE_PARALLEL];
};

/* ---- the manifest ---- */

static void on_manifest(struct s3_request *req, int result)
{
	struct fetch *f = req->owner;

	f->answered = true;
	f->result = result;
}

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

static enum store_end look_up(struct fetch *f, struct s3 *s3, enum store_kind kind, const char *key)
{
	struct s3_request *req = &f->lookup;
	int r;

	req->verb = S3_GET;
	req->tries = 1;
	req->timeout_ms = LOOKUP_MS;
	req->body.limit = MANIFEST_MAX;
	req->done = on_manifest;
	req->owner = f;
	snprintf(req->object, sizeof(req->object), STORE_MANIFEST_NAME, store_kind_str(kind), key);
	s3_submit(s3, req);
	while (!f->answered)
		s3_step(s3);
	if (f->result == -ENOENT)
		return store_fail(f->st, STORE_ABSENT, "the store does not have it");
	if (f->result < 0)
		return store_refused(f->st, s3, f->result);
	r = manifest_parse(req->body.data, req->body.len, f->st->secret, &f->m);
	if (r == -EACCES)
		return store_fail(f->st, STORE_DAMAGED,
				  "the manifest is not authenticated by our " STORE_SECRET);
	if (r < 0)
		return store_fail(f->st, STORE_DAMAGED, "the manifest can't be used: %s",
				  strerror(-r));
	return judge_manifest(f, kind, key);
}

/* ---- chunks ---- */

static void on_chunk(struct s3_request *req, int result)
{
	struct piece *piece = container_of(req, struct piece, req);
	struct fetch *f = req->owner;
	int r;

	piece->busy = false;
	if (f->end != STORE_DONE)
		return;
	if (result < 0) {
		f->end = result == -ENOENT ? store_fail(f->st, STORE_DAMAGED,
							"a chunk is missing: %s", req->object)
					   : store_refused(f->st, req->s3, result);
		return;
	}
	r = assemble_add(&f->assembly, piece->chunk, req->body.data, req->body.len);
	if (r == -EBADMSG)
		f->end = store_fail(f->st, STORE_DAMAGED, "a chunk is not what it should be: %s",
				    req->object);
	else if (r < 0)
		f->end = store_fail(f->st, STORE_FAILED, "it can't be written: %s", strerror(-r));
	f->got += req->body.len;
}

/* Return: whether there was one to ask for. */
static bool ask_next(struct fetch *f, struct s3 *s3, struct piece *piece)
{
	const struct manifest_chunk *c;

	while (f->chunk < f->m.nchunks && f->assembly.have[f->chunk])
		f->chunk++;
	if (f->chunk == f->m.nchunks)
		return false;
	c = &f->m.chunks[f->chunk];
	piece->req.verb = S3_GET;
	piece->req.tries = CHUNK_TRIES;
	piece->req.body.limit = c->stored;
	piece->req.done = on_chunk;
	piece->req.owner = f;
	snprintf(piece->req.object, sizeof(piece->req.object), STORE_CHUNK_NAME, c->sha256);
	piece->chunk = f->chunk++;
	piece->busy = true;
	s3_submit(s3, &piece->req);
	return true;
}

static void fetch_chunks(struct fetch *f, struct s3 *s3)
{
	const uint64_t all = manifest_stored(&f->m) - f->assembly.resumed;
	bool more = true;
	unsigned busy = 1;
	time_t said = 0;

	while (f->end == STORE_DONE && (more || busy)) {
		for (size_t i = 0; more && i < STORE_PARALLEL; i++) {
			if (!f->pieces[i].busy)
				more = ask_next(f, s3, &f->pieces[i]);
		}
		busy = s3_step(s3);
		if (time(NULL) != said && busy)
			store_say("fetching %s %.12s: %" PRIu64 " of %" PRIu64 " MiB",
				  store_kind_str(f->m.kind), f->m.key, f->got >> 20, all >> 20);
		said = time(NULL);
	}
}

/* ---- all of it ---- */

static enum store_end fetch_into(struct fetch *f, struct s3 *s3, const char *dir)
{
	struct timespec now;
	int r = assemble_open(dir, &f->m, MIN(f->st->s3.timeout_s * 1000, SHARE_MS), &f->assembly);

	if (r == -EEXIST)
		return STORE_DONE;
	if (r < 0)
		return store_fail(f->st, STORE_FAILED, "%s: %s", dir, strerror(-r));
	if (f->assembly.resumed)
		store_say("going on where it was left: %" PRIu64 " KiB are there",
			  f->assembly.resumed >> 10);
	fetch_chunks(f, s3);
	if (f->end != STORE_DONE) {
		assemble_close(&f->assembly, f->end == STORE_FAILED);
		return f->end;
	}
	r = assemble_finish(&f->assembly);
	if (r < 0)
		return store_fail(f->st, r == -EBADMSG ? STORE_DAMAGED : STORE_FAILED,
				  "the whole is not what it should be: %s", strerror(-r));
	clock_gettime(CLOCK_MONOTONIC, &now);
	store_say("fetched %s %.12s: %" PRIu64 " KiB in %lld ms", store_kind_str(f->m.kind),
		  f->m.key, f->got >> 10,
		  (long long)(now.tv_sec - f->begun.tv_sec) * 1000 +
			  (now.tv_nsec - f->begun.tv_nsec) / 1000000);
	return STORE_DONE;
}

enum store_end store_get(struct store *st, enum store_kind kind, const char *key, const char *dir)
{
	struct fetch *f;
	enum store_end end;
	struct s3 *s3;

	assemble_clean(dir);
	if (assemble_exists(dir, key))
		return STORE_DONE;
	f = calloc(1, sizeof(*f));
	s3 = s3_new(&st->s3);
	if (!f || !s3) {
		free(f);
		s3_free(s3);
		return store_fail(st, STORE_FAILED, "no memory");
	}
	f->st = st;
	clock_gettime(CLOCK_MONOTONIC, &f->begun);
	end = look_up(f, s3, kind, key);
	if (end == STORE_DONE)
		end = fetch_into(f, s3, dir);
	s3_free(s3);
	manifest_clear(&f->m);
	buf_clear(&f->lookup.body);
	for (size_t i = 0; i < STORE_PARALLEL; i++)
		buf_clear(&f->pieces[i].req.body);
	free(f);
	return end;
}
