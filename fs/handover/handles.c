/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles, as records. See handover.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol.h"
#include "fs/session/job.h"
#include "fs/session/scratch.h"
#include "fs/tree/nodes.h"
#include "fs/tree/table.h"
#include "internal.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

/*
 * A handle's operations follow from its inode number, and where it is listed from these. So do the
 * numbers of those who have something open: writers of a run's input, readers of logs, scratch
 * files. They were left out of the other records.
 */

/* Never reuse. */
enum text_tag {
	TAG_AT = 1, /* offset */
	TAG_BYTES,
};

/* Never reuse. */
enum handle_tag {
	TAG_INO = 1,
	TAG_FLAGS,
	TAG_PAYER,
	TAG_FIXED, /* it has operations, which are the node's */
	TAG_SESSION,
	TAG_JOB,   /* its id, */
	TAG_RUN,   /* likewise */
	TAG_WAITS, /* enum waits */
	TAG_TEXT,  /* not used any more: it is in records of its own */
	TAG_BITS,  /* 1 << enum bit */
	TAG_FAILED,
	TAG_CURSOR,
	TAG_BASE,
	TAG_EXPECTED,
	TAG_DEADLINE,
	TAG_REMOTE,
	TAG_EPOCH,
	TAG_MTIME,
	TAG_SERIAL,
	TAG_LENGTH, /* of its text */
	TAG_KH,
	TAG_WAS,
	TAG_FILE,
	TAG_WHO,
};

/* Of a file that was saved. Never reuse; the path is the last. */
enum was_tag {
	TAG_SIZE = 1,
	TAG_TIME,
	TAG_PATH,
	TAG_NUMBER, /* before the path, though it came later */
};

#define TEXT_PIECE (64u << 10) /* of a text, which is one record */

/* Where its readers wait. Never reuse. */
enum waits {
	WAITS_NOWHERE,
	WAITS_EVENTS,
	WAITS_SESSION_EVENTS,
	WAITS_FILE_EVENTS,
	WAITS_FRONT,
	WAITS_SESSION,
	WAITS_NUM,
};

/* Never reuse. */
enum bit {
	BIT_DIRTY,
	BIT_KILLED,
	BIT_STREAM,
	BIT_DUPLEX,
	BIT_BOUND,
	BIT_FEEDS,
	BIT_PACKED,
	BIT_NUM,
};

/* ---- writing ---- */

static uint64_t bits_of(const struct handle *h)
{
	return (uint64_t)h->dirty << BIT_DIRTY | (uint64_t)h->killed << BIT_KILLED |
	       (uint64_t)h->stream << BIT_STREAM | (uint64_t)h->duplex << BIT_DUPLEX |
	       (uint64_t)h->bound << BIT_BOUND | (uint64_t)h->feeds << BIT_FEEDS |
	       (uint64_t)h->packed << BIT_PACKED;
}

static struct waitlist *list_of(struct handle *h, enum waits waits)
{
	switch (waits) {
	case WAITS_EVENTS: return &h->fs->events.wait;
	case WAITS_SESSION_EVENTS: return h->s ? &h->s->events_wait : NULL;
	case WAITS_FILE_EVENTS: return h->s ? &h->s->file_events.wait : NULL;
	case WAITS_FRONT: return h->front ? h->front->waitlist : NULL;
	case WAITS_SESSION: return h->s ? &h->s->front.wait : NULL;
	case WAITS_NOWHERE:
	case WAITS_NUM: break;
	}
	return NULL;
}

/* Return: -EBUSY for one that is not known here. */
static int waits_of(struct handle *h, enum waits *ret_waits)
{
	*ret_waits = WAITS_NOWHERE;
	while (*ret_waits < WAITS_NUM && h->waitlist != list_of(h, *ret_waits))
		(*ret_waits)++;
	return *ret_waits == WAITS_NUM ? -EBUSY : 0;
}

static void put_number(struct buf *out, unsigned tag, uint64_t v)
{
	if (v)
		record_u64(out, tag, v);
}

/* Never reuse. */
enum who_tag {
	WHO_UID = 1,
	WHO_GID,
	WHO_PID,
	WHO_PROGRAM,
	WHO_CGROUP,
};

static void put_who(const struct who *w, struct buf *out)
{
	const size_t at = record_open(out, TAG_WHO);

	record_u64(out, WHO_UID, w->ctx.uid);
	record_u64(out, WHO_GID, w->ctx.gid);
	record_u64(out, WHO_PID, (uint32_t)w->ctx.pid);
	record_str(out, WHO_PROGRAM, w->program);
	record_str(out, WHO_CGROUP, w->cgroup);
	record_close(out, at);
}

static int get_who(struct record_reader fields, struct who *w)
{
	struct record_field f;
	uint32_t pid = 0;
	int r;

	*w = (struct who){.known = true};
	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == WHO_UID)
			r = record_get_u32(&f, UINT32_MAX, &w->ctx.uid);
		else if (f.tag == WHO_GID)
			r = record_get_u32(&f, UINT32_MAX, &w->ctx.gid);
		else if (f.tag == WHO_PID)
			r = record_get_u32(&f, INT32_MAX, &pid);
		else if (f.tag == WHO_PROGRAM)
			r = record_get_str(&f, w->program, sizeof(w->program));
		else if (f.tag == WHO_CGROUP)
			r = record_get_str(&f, w->cgroup, sizeof(w->cgroup));
		if (r < 0)
			return r;
	}
	w->ctx.pid = (pid_t)pid;
	return r;
}

static void put_was(const struct file_was *was, struct buf *out)
{
	const size_t at = record_open(out, TAG_WAS);

	record_u64(out, TAG_SIZE, was->size);
	record_time(out, TAG_TIME, &was->mtime);
	put_number(out, TAG_NUMBER, was->number);
	record_bytes(out, TAG_PATH, was->path, strlen(was->path));
	record_close(out, at);
}

static int put_fields(struct handle *h, struct buf *out)
{
	enum waits waits;
	const int r = waits_of(h, &waits);

	if (r < 0)
		return r;
	record_u64(out, TAG_INO, h->ino);
	record_u64(out, TAG_FLAGS, (uint32_t)h->flags);
	record_u64(out, TAG_PAYER, h->opener->uid);
	record_u64(out, TAG_FIXED, h->ops != NULL);
	if (h->s)
		record_u64(out, TAG_SESSION, session_key(h->s));
	if (h->job)
		record_u64(out, TAG_JOB, touched_id(&h->fs->touched, &h->job->mark));
	if (h->r)
		record_u64(out, TAG_RUN, touched_id(&h->fs->touched, &h->r->mark));
	put_number(out, TAG_WAITS, waits);
	put_number(out, TAG_LENGTH, h->text.len);
	put_number(out, TAG_BITS, bits_of(h));
	put_number(out, TAG_FAILED, (uint64_t)-h->failed);
	put_number(out, TAG_CURSOR, h->cursor);
	put_number(out, TAG_BASE, h->base);
	put_number(out, TAG_EXPECTED, h->expected);
	put_number(out, TAG_DEADLINE, h->deadline);
	put_number(out, TAG_REMOTE, h->remote);
	put_number(out, TAG_EPOCH, h->epoch);
	record_time(out, TAG_MTIME, &h->mtime);
	record_u64(out, TAG_SERIAL, h->serial);
	put_number(out, TAG_KH, h->kh);
	put_number(out, TAG_FILE, h->file);
	if (h->was)
		put_was(h->was, out);
	if (h->who.known)
		put_who(&h->who, out);
	return 0;
}

static int put_piece(const struct handle *h, uint32_t i, struct handover_sink *sink)
{
	const size_t at = (size_t)i * TEXT_PIECE;
	struct buf *out = sink_begin(sink);

	record_u64(out, TAG_AT, at);
	record_bytes(out, TAG_BYTES, h->text.data + at, MIN(h->text.len - at, (size_t)TEXT_PIECE));
	return sink_end(sink, HANDOVER_TEXT, handle_id(h), i);
}

static uint32_t pieces_of(const struct handle *h)
{
	return (uint32_t)((h->text.len + TEXT_PIECE - 1) / TEXT_PIECE);
}

/* With its text from piece @from on. */
static int put_handle(struct handle *h, uint32_t from, struct handover_sink *sink)
{
	int r = put_fields(h, sink_begin(sink));

	if (r == 0)
		r = sink_end(sink, HANDOVER_HANDLE, handle_id(h), 0);
	for (uint32_t i = from; r == 0 && i < pieces_of(h); i++)
		r = put_piece(h, i, sink);
	return r;
}

/* It is in the estate as it is. */
static void settle(struct handle *h)
{
	touched_take(h->all->touched, TOUCHED_HANDLE, &h->record.touch);
	h->record = (struct handle_record){.written = true, .same = h->text.len, .n = pieces_of(h)};
}

int handover_put_handles(struct fs *fs, struct handover_sink *sink)
{
	int r = handover_put_generations(fs, sink);
	struct handle *h;

	/* Oldest first: so they come into their lists in the order in which they were opened. */
	TAILQ_FOREACH_REVERSE(h, &fs->handles.open, open_list, link) {
		if (r == 0)
			r = put_handle(h, 0, sink);
	}
	return r;
}

int handover_drop_handle(struct fs *fs, struct handover_sink *sink, uint64_t id)
{
	const int r = estate_drop(sink->estate, HANDOVER_HANDLE, id, 0);

	estate_drop_all(sink->estate, HANDOVER_TEXT, id);
	return r < 0 ? r : handover_free_generation(fs, sink, (uint32_t)id);
}

static int commit_handle(struct handle *h, struct handover_sink *sink)
{
	const uint32_t n = pieces_of(h);
	int r = put_handle(h, (uint32_t)(h->record.same / TEXT_PIECE), sink);

	for (uint32_t i = n; r == 0 && i < h->record.n; i++)
		r = estate_drop(sink->estate, HANDOVER_TEXT, handle_id(h), i);
	settle(h);
	return r;
}

int handover_commit_handles(struct fs *fs, struct handover_sink *sink)
{
	struct touch *what;
	int r = 0;

	while (r == 0 && (what = touched_first(&fs->touched, TOUCHED_HANDLE)))
		r = commit_handle(container_of(what, struct handle, record.touch), sink);
	return r;
}

void handover_settle_handles(struct fs *fs)
{
	struct handle *h;

	TAILQ_FOREACH(h, &fs->handles.open, link)
		settle(h);
}

/* ---- reading ---- */

/* What a record says. */
struct heritage {
	struct handle like;
	uint32_t payer;
	uint64_t job, run;
	bool fixed;
	uint64_t length;
	enum waits waits;
};

static int get_bits(struct handle *h, uint64_t bits)
{
	h->dirty = bits >> BIT_DIRTY & 1;
	h->killed = bits >> BIT_KILLED & 1;
	h->stream = bits >> BIT_STREAM & 1;
	h->duplex = bits >> BIT_DUPLEX & 1;
	h->bound = bits >> BIT_BOUND & 1;
	h->feeds = bits >> BIT_FEEDS & 1;
	h->packed = bits >> BIT_PACKED & 1;
	return bits >> BIT_NUM ? -EBADMSG : 0;
}

static int get_session(struct fs *fs, const struct record_field *f, struct session **ret_s)
{
	uint64_t key;
	int r = record_get(f, 0, UINT64_MAX, &key);

	if (r == 0)
		*ret_s = keep_session(fs, key);
	return r == 0 && !*ret_s ? -EBADMSG : r;
}

/* A path of names that can be looked up. */
static bool is_path(const char *path, size_t len)
{
	const char *const end = path + len;

	for (const char *at = path;; at++) {
		const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
		const size_t n = (size_t)((slash ? slash : end) - at);

		if (!proto_name_ok((struct proto_str){at, (uint32_t)n}))
			return false;
		if (!slash)
			return true;
		at = slash;
	}
}

static int get_was(struct record_reader fields, struct file_was **ret_was)
{
	struct file_was was = {0}, *made = NULL;
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_SIZE)
			r = record_get(&f, 0, UINT64_MAX, &was.size);
		else if (f.tag == TAG_TIME)
			r = record_get_time(&f, &was.mtime);
		else if (f.tag == TAG_NUMBER)
			r = record_get(&f, 0, UINT64_MAX, &was.number);
		else if (f.tag == TAG_PATH && (made || !f.is_bytes || !is_path(f.data, f.len)))
			r = -EBADMSG;
		else if (f.tag == TAG_PATH && !(made = calloc(1, sizeof(was) + f.len + 1)))
			r = -ENOMEM;
		else if (f.tag == TAG_PATH)
			memcpy(made->path, f.data, f.len);
		if (r < 0)
			break;
	}
	if (r < 0 || !made || *ret_was) {
		free(made);
		return r < 0 ? r : -EBADMSG;
	}
	made->number = was.number;
	made->length = (uint32_t)strlen(made->path) + 1;
	made->size = was.size;
	made->mtime = was.mtime;
	*ret_was = made;
	return 0;
}

static int get_field(struct fs *fs, struct heritage *g, const struct record_field *f)
{
	struct handle *h = &g->like;
	uint64_t v = 0;
	int r;

	switch ((enum handle_tag)f->tag) {
	case TAG_INO: return record_get(f, 0, UINT64_MAX, &h->ino);
	case TAG_FLAGS:
		r = record_get(f, 0, UINT32_MAX, &v);
		h->flags = (int)(uint32_t)v;
		return r;
	case TAG_PAYER: return record_get_u32(f, UINT32_MAX, &g->payer);
	case TAG_FIXED: return record_get_bool(f, &g->fixed);
	case TAG_SESSION: return get_session(fs, f, &h->s);
	case TAG_JOB: return record_get(f, 1, UINT64_MAX / 2, &g->job);
	case TAG_RUN: return record_get(f, 1, UINT64_MAX / 2, &g->run);
	case TAG_WAITS:
		r = record_get(f, 0, WAITS_NUM - 1, &v);
		g->waits = (enum waits)v;
		return r;
	case TAG_BITS: r = record_get(f, 0, UINT64_MAX, &v); return r < 0 ? r : get_bits(h, v);
	case TAG_FAILED:
		r = record_get(f, 0, 4095, &v);
		h->failed = -(int)v;
		return r;
	case TAG_CURSOR: return record_get(f, 0, UINT64_MAX, &h->cursor);
	case TAG_BASE: return record_get(f, 0, UINT64_MAX, &h->base);
	case TAG_EXPECTED: return record_get(f, 0, UINT64_MAX, &h->expected);
	case TAG_DEADLINE: return record_get(f, 0, UINT64_MAX, &h->deadline);
	case TAG_REMOTE: return record_get(f, 0, UINT64_MAX, &h->remote);
	case TAG_EPOCH: return record_get_u32(f, UINT32_MAX, &h->epoch);
	case TAG_MTIME: return record_get_time(f, &h->mtime);
	case TAG_SERIAL: return record_get(f, 0, UINT64_MAX / 2, &h->serial);
	case TAG_LENGTH: return record_get(f, 0, RECORD_MAX, &g->length);
	case TAG_KH: return record_get(f, 0, UINT64_MAX, &h->kh);
	case TAG_FILE: return record_get(f, 0, UINT64_MAX, &h->file);
	case TAG_WAS: return get_was(record_inside(f), &h->was);
	case TAG_WHO: return get_who(record_inside(f), &h->who);
	case TAG_TEXT:
	default: return 0;
	}
}

/* Also one that was removed. */
static struct job *find_job(const struct session *s, uint64_t mark)
{
	struct job *j;

	LIST_FOREACH(j, &s->kept_jobs, kept) {
		if (j->mark == mark)
			return j;
	}
	return NULL;
}

static const struct handle_ops *ops_of(const struct handle *h)
{
	return node_defs[ino_kind(h->ino)].ops;
}

/* Finds what it has references to, without taking them. Return: 0 or -EBADMSG. */
static int find_owned(struct heritage *g)
{
	const enum node_kind kind = ino_kind(g->like.ino);
	struct handle *h = &g->like;

	if (kind <= NODE_NONE || kind >= NODE_NKINDS || ino_is_of_session(kind) != (h->s != NULL))
		return -EBADMSG;
	if (g->fixed != (ops_of(h) != NULL))
		return -EBADMSG;
	if (!h->s)
		return g->job || g->run ? -EBADMSG : 0;
	if (ino_slot(h->ino) != h->s->slot)
		return -EBADMSG;
	h->front = &h->s->front;
	if (g->job) {
		h->job = find_job(h->s, g->job);
		if (!h->job)
			return -EBADMSG;
		h->front = &h->job->front;
	}
	if ((kind >= NODE_JOB && kind <= NODE_JOB_CTL) != (h->job != NULL))
		return -EBADMSG;
	if (g->run) {
		h->r = keep_run_of(h->s->fs, h->s, g->run);
		if (!h->r)
			return -EBADMSG;
	}
	return node_is_run(kind) && !h->r ? -EBADMSG : 0;
}

/* Are its numbers such that those who use them may rely on them? */
static bool is_sound(const struct handle *h)
{
	const struct file_events *fe = h->s ? &h->s->file_events : NULL;

	if (h->feeds && (!h->r || (h->ops != &stdin_ops && h->ops != &tty_ops)))
		return false;
	if (h->ops == &scratch_ops)
		return scratch_by_id(h->s, (uint32_t)h->ino) != NULL;
	if (h->ops == &file_events_ops)
		return fe && h->cursor >= fe->start * h->bound &&
		       h->cursor <= fe->start + fe->log.len && h->text.len <= FILE_EVENTS_OWN &&
		       h->base <= UINT64_MAX / 2;
	if (h->ops == &events_ops)
		return h->cursor <= h->fs->events.next && h->base <= UINT64_MAX / 2;
	if (h->ops == &changes_ops)
		return h->cursor <= 4095;
	if (h->ops == &connlog_ops)
		return h->s && connlog_check(h) == 0;
	if (h->ops == &config_ops && handle_writes(h))
		return h->text.len <= h->text.limit;
	return true;
}

/* To the lists of those who have something open, and counted among them. */
static void enter(struct handle *h)
{
	struct file_events *fe = h->s ? &h->s->file_events : NULL;

	if (h->ops == &input_ops && handle_writes(h)) {
		TAILQ_INSERT_TAIL(&h->front->inputs, h, input_link);
	} else if (h->ops == &stdin_ops || (h->ops == &tty_ops && handle_writes(h))) {
		TAILQ_INSERT_TAIL(&h->front->feeders, h, input_link);
		h->feeds = h->feeds && h->r;
		if (h->feeds)
			h->r->feed.nwriters++;
	} else if (h->ops == &file_events_ops && fe) {
		TAILQ_INSERT_TAIL(&fe->readers, h, input_link);
		fe->own += h->text.len;
		if (h->bound)
			fe->nbound++;
		else if (h->failed != -ENOMEM)
			fe->nnew++;
	} else if (h->ops == &events_ops) {
		h->fs->events.readers++;
	} else if (h->ops == &scratch_ops) {
		scratch_by_id(h->s, (uint32_t)h->ino)->opens++;
	}
}

static int make(struct fs *fs, uint64_t id, struct heritage *g)
{
	struct handle *h;
	int r = find_owned(g);

	g->like.fs = fs;
	g->like.disown = node_disown;
	g->like.waitlist = list_of(&g->like, g->waits);
	if (r == 0 && (g->waits != WAITS_NOWHERE) != (g->like.waitlist != NULL))
		r = -EBADMSG;
	if (r == 0 && g->fixed && ops_of(&g->like) == &config_ops && handle_writes(&g->like))
		config_limit(&g->like);
	if (r == 0)
		r = handle_revive(&fs->handles, &g->like, g->payer, (uint32_t)id,
				  (uint32_t)(id >> 32), &h);
	if (r < 0)
		return r;
	g->like.was = NULL;
	h->record.fixed = g->fixed;
	h->record.same = (size_t)g->length;
	if (h->s)
		session_ref(h->s);
	if (h->job)
		job_ref(h->job);
	if (h->r)
		run_ref(h->r);
	return 0;
}

int handover_get_handle(struct fs *fs, uint64_t id, struct record_reader fields)
{
	struct heritage g = {0};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(fs, &g, &f);
		if (r < 0)
			break;
	}
	if (r >= 0)
		r = make(fs, id, &g);
	free(g.like.was);
	return r;
}

int handover_get_text(struct fs *fs, uint64_t id, struct record_reader fields)
{
	struct handle *h = handle_get(&fs->handles, id);
	struct record_field f;
	uint64_t at = 0;
	int r = h ? 0 : -EBADMSG;

	while (r >= 0 && (r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_AT)
			r = record_get(&f, h->text.len, h->text.len, &at);
		else if (f.tag == TAG_BYTES && f.is_bytes && f.len <= h->record.same - h->text.len)
			r = buf_append(&h->text, f.data, f.len);
		else if (f.tag == TAG_BYTES)
			r = -EBADMSG;
	}
	return r == -EFBIG ? -EBADMSG : r;
}

int handover_lose_handle(struct fs *fs, uint64_t id)
{
	const int r = handles_set_generation(&fs->handles, (uint32_t)id, (uint32_t)(id >> 32) + 1);

	fs->inherited.lost_handles++;
	return r == -ENOMEM ? r : 0; /* of a number that there is not nobody gets another one */
}

/* The pieces of its text are all there, and so is what it is open on. */
static bool is_whole(const struct handle *h)
{
	return h->text.len == h->record.same && is_sound(h);
}

int handover_join_handles(struct fs *fs)
{
	const int r = handles_sort(&fs->handles);
	struct handle *h, *before;
	unsigned lost = 0;

	if (r < 0)
		return r;
	/* Oldest first. */
	for (h = TAILQ_LAST(&fs->handles.open, open_list); h; h = before) {
		before = TAILQ_PREV(h, open_list, link);
		h->ops = h->record.fixed ? ops_of(h) : NULL;
		if (is_whole(h)) {
			h->record = (struct handle_record){0};
			enter(h);
		} else {
			handle_free(h);
			lost++;
		}
	}
	fs->inherited.lost_handles += lost;
	return lost && !fs->inherited.died ? -EBADMSG : 0;
}
