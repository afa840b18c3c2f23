/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what stands beside a session's runs: refusals, events, changes, scratch files, what is known of the sandbox. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	NET_LINE = 1,
	NET_NEXT,
	NET_TOTAL,
	NET_MTIME,
	NET_QUIET,
	NET_LEFT,
	NET_REFILLED,
	NET_CONNECTED_QUIET,
	NET_CONNECTED_LEFT,
	NET_CONNECTED_REFILLED,
};

enum { FE_SEQ = 1, FE_STATE, FE_START, FE_LOG, FE_BLIND, FE_BLIND_LOST, FE_TEXT };

enum {
	CHANGES_REVIEWED = 1,
	CHANGES_IS_REVIEWED,
	CHANGES_EPOCH,
	CHANGES_COMMITTING,
	CHANGES_ASKED,
	CHANGES_IS_ASKED,
};

enum { PAUSE_TAG_STATE = 1, PAUSE_TAG_ASKED };

enum {
	SCRATCH_ID = 1,
	SCRATCH_UNLINKED,
	SCRATCH_DIR, /* kind of its directory, */
	SCRATCH_SUB, /* ... and if that is a job's, its number */
	SCRATCH_NAME,
	SCRATCH_MODE,
	SCRATCH_DATA,
	SCRATCH_MTIME,
};

enum {
	INFO_BACKEND = 1,
	INFO_START,
	INFO_KEPT,
	INFO_ACCEL,
	INFO_WAITED,
	INFO_BOOT,
	INFO_SETUP,
	INFO_RSS,
	INFO_INTERPRETER,
};

#define NET_LINE_MAX 4096u
#define FE_LOG_MAX   (FILE_EVENTS_KEPT + FILE_EVENTS_MORE + (1u << 20))

/* ---- refusals ---- */

void keep_put_netlog(struct keep_out *o, unsigned tag)
{
	const struct netlog *log = &o->s->netlog;
	const uint64_t first = log->next > NETLOG_KEPT ? log->next - NETLOG_KEPT : 0;
	size_t at;

	if (!log->total && !(o->io->live && log->connections.rate.filled_ms))
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, NET_NEXT, log->next);
	for (uint64_t i = first; i < log->next; i++)
		record_str(o->out, NET_LINE, log->line[i % NETLOG_KEPT]);
	record_u64(o->out, NET_TOTAL, log->total);
	record_time(o->out, NET_MTIME, &log->mtime);
	if (o->io->live) {
		keep_put_u64(o->out, NET_QUIET, log->events.quiet);
		keep_put_u64(o->out, NET_LEFT, log->events.rate.left);
		record_u64(o->out, NET_REFILLED, log->events.rate.filled_ms);
		keep_put_u64(o->out, NET_CONNECTED_QUIET, log->connections.quiet);
		keep_put_u64(o->out, NET_CONNECTED_LEFT, log->connections.rate.left);
		keep_put_u64(o->out, NET_CONNECTED_REFILLED, log->connections.rate.filled_ms);
	}
	record_close(o->out, at);
}

/* The lines that are kept are the last ones before `next`, which was read before them. */
struct netlogging {
	struct netlog *log;
	uint64_t at;
};

static int get_line(struct netlogging *of, const struct record_field *f)
{
	char **slot;

	if (!of->log->line)
		of->log->line = calloc(NETLOG_KEPT, sizeof(char *));
	if (!of->log->line)
		return -ENOMEM;
	slot = &of->log->line[of->at % NETLOG_KEPT];
	if (of->at >= of->log->next || *slot)
		return -EBADMSG;
	of->at++;
	return keep_get_text(f, slot, NET_LINE_MAX);
}

static int netlog_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct netlogging *of = to;
	struct netlog *log = of->log;
	int e;

	(void)in;
	switch (f->tag) {
	case NET_NEXT:
		e = record_get(f, 0, UINT64_MAX / 2, &log->next);
		of->at = log->next > NETLOG_KEPT ? log->next - NETLOG_KEPT : 0;
		return e;
	case NET_LINE: return get_line(of, f);
	case NET_TOTAL: return record_get(f, 0, UINT64_MAX / 2, &log->total);
	case NET_MTIME: return record_get_time(f, &log->mtime);
	case NET_QUIET: return record_get_u32(f, UINT32_MAX, &log->events.quiet);
	case NET_LEFT: return record_get_u32(f, UINT32_MAX, &log->events.rate.left);
	case NET_REFILLED: return record_get(f, 0, UINT64_MAX, &log->events.rate.filled_ms);
	case NET_CONNECTED_QUIET: return record_get_u32(f, UINT32_MAX, &log->connections.quiet);
	case NET_CONNECTED_LEFT: return record_get_u32(f, UINT32_MAX, &log->connections.rate.left);
	case NET_CONNECTED_REFILLED:
		return record_get(f, 0, UINT64_MAX, &log->connections.rate.filled_ms);
	default: return 0;
	}
}

int keep_get_netlog(struct keep_in *in, const struct record_field *f)
{
	struct netlogging of = {&in->s->netlog, 0};
	const int e = keep_inside(in, f, netlog_field, &of);

	if (e < 0 || of.at != of.log->next)
		return e < 0 ? e : -EBADMSG;
	for (uint64_t i = 0; i < MIN(of.log->next, (uint64_t)NETLOG_KEPT); i++)
		if (!of.log->line[(of.log->next - 1 - i) % NETLOG_KEPT])
			return -EBADMSG;
	return 0;
}

/* ---- files.events ---- */

void keep_put_file_events(struct keep_out *o, unsigned tag)
{
	struct file_events *fe = &((struct session *)o->s)->file_events;
	size_t at;

	if (!fe->seq && !fe->start && !fe->log.len && !fe->blind.len && !fe->state)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, FE_SEQ, fe->seq);
	if (o->io->live) {
		record_u64(o->out, FE_STATE, fe->state);
		record_u64(o->out, FE_START, fe->start);
		keep_put_text(o, FE_TEXT, &fe->trail, fe->start, fe->log.data, fe->log.len);
		keep_put_buf(o->out, FE_BLIND, &fe->blind);
		keep_put_u64(o->out, FE_BLIND_LOST, fe->blind_lost);
	}
	record_close(o->out, at);
}

static int file_events_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct file_events *fe = to;
	uint32_t state = 0;
	int e;

	switch (f->tag) {
	case FE_SEQ: return record_get(f, 0, UINT64_MAX / 2, &fe->seq);
	case FE_STATE:
		e = record_get_u32(f, FILE_EVENTS_FAILED, &state);
		fe->state = (enum file_events_state)state;
		return e;
	case FE_START: return record_get(f, 0, UINT64_MAX / 2, &fe->start);
	case FE_TEXT: return keep_get_text_of(in, f, &fe->trail, &fe->log, FE_LOG_MAX, &fe->start);
	case FE_LOG: return keep_get_buf(f, &fe->log, FE_LOG_MAX);
	case FE_BLIND: return keep_get_buf(f, &fe->blind, FE_LOG_MAX);
	case FE_BLIND_LOST: return record_get_bool(f, &fe->blind_lost);
	default: return 0;
	}
}

int keep_get_file_events(struct keep_in *in, const struct record_field *f)
{
	const int e = keep_inside(in, f, file_events_field, &in->s->file_events);

	return e == 0 && !in->io->live && in->s->file_events.state ? -EBADMSG : e;
}

/* ---- what was learnt ---- */

enum { LEARNED_PROCESSES = 1, LEARNED_MEMORY, LEARNED_TEXT, LEARNED_MTIME };

void keep_put_learned(struct keep_out *o, unsigned tag)
{
	const struct learned *l = &o->s->learned;
	size_t at;

	if (!l->n && !l->processes && !l->memory_kib)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, LEARNED_PROCESSES, l->processes);
	record_u64(o->out, LEARNED_MEMORY, l->memory_kib);
	for (size_t i = 0; i < l->n; i++)
		record_str(o->out, LEARNED_TEXT, l->text[i]);
	record_time(o->out, LEARNED_MTIME, &l->mtime);
	record_close(o->out, at);
}

static int learned_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct sandbox_learned what = {0};
	struct learned *l = to;
	char text[PROTO_PATH_MAX + 2];
	int e;

	(void)in;
	switch (f->tag) {
	case LEARNED_PROCESSES: return record_get_u32(f, UINT32_MAX, &l->processes);
	case LEARNED_MEMORY: return record_get(f, 0, UINT64_MAX, &l->memory_kib);
	case LEARNED_TEXT:
		e = record_get_str(f, text, sizeof(text));
		if (e < 0 || text[0] < PROTO_LEARNED_READ || text[0] > PROTO_LEARNED_SEEN ||
		    text[1] != '/')
			return e < 0 ? e : -EBADMSG;
		what.kind = (enum proto_learned)text[0];
		what.path = proto_cstr(text + 1);
		learned_add(l, &what);
		return 0;
	case LEARNED_MTIME: return record_get_time(f, &l->mtime);
	default: return 0;
	}
}

int keep_get_learned(struct keep_in *in, const struct record_field *f)
{
	return keep_inside(in, f, learned_field, &in->s->learned);
}

/* ---- a copy of a directory of the host: what was reviewed of its changes ---- */

void keep_put_changes(struct keep_out *o, unsigned tag)
{
	const struct changes *c = &o->s->changes;
	bool is_asked;
	const struct buf *asked = commit_asked(o->s, &is_asked);
	size_t at;

	if (!o->io->live)
		return; /* they are gone with the sandbox */
	at = record_open(o->out, tag);
	keep_put_buf(o->out, CHANGES_REVIEWED, &c->reviewed);
	keep_put_u64(o->out, CHANGES_IS_REVIEWED, c->is_reviewed);
	keep_put_u64(o->out, CHANGES_EPOCH, c->epoch);
	keep_put_u64(o->out, CHANGES_COMMITTING, c->committing);
	keep_put_buf(o->out, CHANGES_ASKED, asked);
	keep_put_u64(o->out, CHANGES_IS_ASKED, is_asked);
	record_close(o->out, at);
}

static int changes_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct changes *c = to;

	(void)in;
	switch (f->tag) {
	case CHANGES_REVIEWED: return keep_get_buf(f, &c->reviewed, RECORD_MAX);
	case CHANGES_IS_REVIEWED: return record_get_bool(f, &c->is_reviewed);
	case CHANGES_EPOCH: return record_get_u32(f, UINT32_MAX, &c->epoch);
	case CHANGES_COMMITTING: return record_get_bool(f, &c->committing);
	case CHANGES_ASKED: return keep_get_buf(f, &c->asked, RECORD_MAX);
	case CHANGES_IS_ASKED: return record_get_bool(f, &c->is_asked);
	default: return 0;
	}
}

int keep_get_changes(struct keep_in *in, const struct record_field *f)
{
	return in->io->live ? keep_inside(in, f, changes_field, &in->s->changes) : -EBADMSG;
}

/* ---- pause ---- */

void keep_put_pause(struct keep_out *o, unsigned tag)
{
	const struct pause *p = &o->s->pause;
	size_t at;

	if (!o->io->live || p->state == PAUSE_NONE)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, PAUSE_TAG_STATE, p->state);
	keep_put_u64(o->out, PAUSE_TAG_ASKED, p->asked);
	record_close(o->out, at);
}

static int pause_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct pause *p = to;
	uint32_t state = 0;
	int e;

	(void)in;
	switch (f->tag) {
	case PAUSE_TAG_STATE:
		e = record_get_u32(f, PAUSE_STILL, &state);
		p->state = (enum pause_state)state;
		return e;
	case PAUSE_TAG_ASKED: return record_get_bool(f, &p->asked);
	default: return 0;
	}
}

int keep_get_pause(struct keep_in *in, const struct record_field *f)
{
	return in->io->live ? keep_inside(in, f, pause_field, &in->s->pause) : -EBADMSG;
}

/* ---- scratch files ---- */

int keep_put_live_scratch(struct buf *out, const struct scratch_file *file)
{
	record_u64(out, SCRATCH_ID, file->id);
	keep_put_u64(out, SCRATCH_UNLINKED, file->unlinked);
	record_u64(out, SCRATCH_DIR, ino_kind(file->dir));
	keep_put_u64(out, SCRATCH_SUB, (uint32_t)file->dir);
	record_str(out, SCRATCH_NAME, file->name);
	record_u64(out, SCRATCH_MODE, file->mode);
	keep_put_buf(out, SCRATCH_DATA, &file->data);
	record_time(out, SCRATCH_MTIME, &file->mtime);
	return out->failed;
}

void keep_put_scratch(struct keep_out *o, unsigned tag, const struct scratch_file *file)
{
	const size_t at = record_open(o->out, tag);

	(void)keep_put_live_scratch(o->out, file);
	record_close(o->out, at);
}

struct scratching {
	struct scratch_file *file;
	uint32_t kind, sub;
};

static int scratch_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct scratching *of = to;
	struct scratch_file *file = of->file;
	uint32_t mode;
	int e;

	(void)in;
	switch (f->tag) {
	case SCRATCH_ID: return record_get_u32(f, UINT32_MAX, &file->id);
	case SCRATCH_UNLINKED: return record_get_bool(f, &file->unlinked);
	case SCRATCH_DIR: return record_get_u32(f, NODE_NKINDS - 1, &of->kind);
	case SCRATCH_SUB: return record_get_u32(f, UINT32_MAX, &of->sub);
	case SCRATCH_NAME: return record_get_str(f, file->name, sizeof(file->name));
	case SCRATCH_MODE:
		e = record_get_u32(f, 0777, &mode);
		if (e == 0)
			file->mode = mode;
		return e;
	case SCRATCH_DATA: return keep_get_buf(f, &file->data, SCRATCH_SIZE_MAX);
	case SCRATCH_MTIME: return record_get_time(f, &file->mtime);
	default: return 0;
	}
}

/* Finds the directory it is in. Return: 0 or -EBADMSG. */
static int place_scratch(struct keep_in *in, struct scratching *of)
{
	struct session *s = in->s;
	struct scratch_file *file = of->file, *other;
	struct job *j = of->kind == NODE_JOB ? job_by_number(s, of->sub) : NULL;

	if (!file->id || scratch_by_id(s, file->id) || s->scratch.n >= SCRATCH_FILES_MAX ||
	    !scratch_takes((enum node_kind)of->kind) || (of->kind != NODE_JOB && of->sub))
		return -EBADMSG;
	if (!*file->name || strchr(file->name, '/') || strcmp(file->name, ".") == 0 ||
	    strcmp(file->name, "..") == 0)
		return -EBADMSG;
	if (file->unlinked ? !in->io->live : of->kind == NODE_JOB && !j)
		return -EBADMSG;
	file->dir = ino_of_session(s, (enum node_kind)of->kind, of->sub);
	file->front = j && !file->unlinked ? &j->front : &s->front;
	TAILQ_FOREACH(other, &s->scratch.files, link)
		if (!other->unlinked && !file->unlinked && other->dir == file->dir &&
		    strcmp(other->name, file->name) == 0)
			return -EBADMSG;
	return 0;
}

static int get_scratch(struct keep_in *in, struct record_reader fields)
{
	struct scratch *sc = &in->s->scratch;
	struct scratching of = {.file = calloc(1, sizeof(*of.file))};
	int e = of.file ? 0 : -ENOMEM;

	if (e == 0) {
		of.file->data.limit = SCRATCH_SIZE_MAX;
		e = keep_fields(in, fields, scratch_field, &of);
	}
	if (e == 0)
		e = place_scratch(in, &of);
	if (e < 0) {
		if (of.file)
			buf_clear(&of.file->data);
		free(of.file);
		return e;
	}
	TAILQ_INSERT_TAIL(&sc->files, of.file, link);
	sc->n++;
	sc->last_id = MAX(sc->last_id, of.file->id);
	return 0;
}

int keep_get_scratch(struct keep_in *in, const struct record_field *f)
{
	return f->is_bytes && !in->io->live ? get_scratch(in, record_inside(f)) : -EBADMSG;
}

int keep_get_live_scratch(struct keep_in *in, const struct record *record)
{
	return get_scratch(in, record->fields);
}

/* ---- what is known of its last sandbox ---- */

void keep_put_info(struct keep_out *o, unsigned tag)
{
	const struct sandbox_info *i = &o->s->info;
	size_t at;

	if (!i->backend)
		return;
	at = record_open(o->out, tag);
	record_str(o->out, INFO_BACKEND, i->backend);
	record_str(o->out, INFO_START, i->start);
	keep_put_u64(o->out, INFO_KEPT, i->kept);
	record_str(o->out, INFO_ACCEL, i->accel);
	keep_put_u64(o->out, INFO_WAITED, i->waited_ms);
	keep_put_u64(o->out, INFO_BOOT, i->boot_ms);
	keep_put_u64(o->out, INFO_SETUP, i->setup_ms);
	keep_put_u64(o->out, INFO_RSS, i->rss_kib);
	record_str(o->out, INFO_INTERPRETER, o->s->interpreter);
	record_close(o->out, at);
}

/* Words that are constants of the program, also in `info`. */
static int get_word(const struct record_field *f, const char **ret)
{
	static const char *const words[] = {"",	    "microvm", "process", "cold", "snapshot",
					    "warm", "saved",   "kvm",	  "tcg"};
	char text[32];
	int e = record_get_str(f, text, sizeof(text));

	if (e < 0)
		return e;
	*ret = "";
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(text, words[i]) == 0)
			*ret = words[i];
	return 0;
}

static int info_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct sandbox_info *i = to;
	struct session *s = in->s;

	switch (f->tag) {
	case INFO_BACKEND: return get_word(f, &i->backend);
	case INFO_START: return get_word(f, &i->start);
	case INFO_KEPT: return record_get_bool(f, &i->kept);
	case INFO_ACCEL: return get_word(f, &i->accel);
	case INFO_WAITED: return record_get(f, 0, UINT64_MAX, &i->waited_ms);
	case INFO_BOOT: return record_get(f, 0, UINT64_MAX, &i->boot_ms);
	case INFO_SETUP: return record_get(f, 0, UINT64_MAX, &i->setup_ms);
	case INFO_RSS: return record_get(f, 0, UINT64_MAX, &i->rss_kib);
	case INFO_INTERPRETER: return record_get_str(f, s->interpreter, sizeof(s->interpreter));
	default: return 0;
	}
}

int keep_get_info(struct keep_in *in, const struct record_field *f)
{
	struct session *s = in->s;
	struct sandbox_info i = {
		.backend = "", .start = "", .lost = "", .accel = "", .goes_on = ""};
	const int e = keep_inside(in, f, info_field, &i);

	if (e == 0) {
		i.state = SANDBOX_CLOSING;
		i.interpreter = s->interpreter;
		s->info = i;
	}
	return e;
}
