/* SPDX-License-Identifier: Apache-2.0 */
/* What there is of the mount as such, as records. See handover.h. */
#include <errno.h>
#include <string.h>

#include "fs/request/nodelock.h"
#include "internal.h"
#include "vm/base/estate.h"
#include "vm/base/log.h"

/* Never reuse. */
enum mount_tag {
	TAG_TEMPLATE = 1, /* names, in the order of their indexes, which are in inode numbers */
	TAG_TEMPLATE_MTIME,
	TAG_STARTED,
	TAG_STARTED_MS,
	TAG_FRESH,
	TAG_STATS, /* not used any more: they are a record of their own */
	TAG_DEPOT_FILE,
	TAG_DEPOT_SLOTS,
	TAG_LOG_LEVEL,
	TAG_DEPOT_KEY,
	TAG_OF_IMAGE, /* before the name of a template that an image has brought along: its language */
};

#define DEPOT_SLOTS_MAX (1u << 26) /* four TiB of output */

/* Those of struct fs_stats; numbers by enum run_state come in its order. */
/* Never reuse. */
enum stats_tag {
	STATS_CREATED = 1,
	STATS_CLOSED,
	STATS_RUNS,
	STATS_JOBS,
	STATS_OUTPUT,
	STATS_DENIED,
	STATS_REQUESTS,
	STATS_SAVED,
	STATS_SAVES_FAILED,
	STATS_WAKES,
	STATS_TIMING, /* one of struct timings */
	STATS_CPU_US,
	STATS_NET_BYTES,
	STATS_OVER_QUOTA,
};

/* Never reuse. */
enum complaint_tag {
	TAG_COMPLAINT = 1,
	TAG_UID = 1,
	TAG_CODE,
	TAG_CAUSE,
	TAG_FIX,
	TAG_TIME,
	TAG_STANDING,
};

#define FRESH_STEP 1024u /* so many numbers are written down at once */
#define STATS_MS   100u	 /* so old are statistics that nobody has seen */

/* ---- writing ---- */

static int put_timing(void *data, const struct timing *of)
{
	struct buf *out = data;
	const size_t at = record_open(out, STATS_TIMING);

	timings_put(of, out);
	record_close(out, at);
	return 0;
}

static int put_stats(const struct fs *fs, struct handover_sink *sink)
{
	const struct fs_stats *st = &fs->stats;
	struct buf *out = sink_begin(sink);

	record_u64(out, STATS_CREATED, st->sessions_created);
	record_u64(out, STATS_CLOSED, st->sessions_closed);
	for (unsigned i = 0; i < RUN_NSTATES; i++)
		record_u64(out, STATS_RUNS, st->runs[i]);
	for (unsigned i = 0; i < RUN_NSTATES; i++)
		record_u64(out, STATS_JOBS, st->jobs[i]);
	record_u64(out, STATS_OUTPUT, st->output_bytes);
	record_u64(out, STATS_DENIED, st->denied);
	record_u64(out, STATS_REQUESTS, st->requests);
	record_u64(out, STATS_SAVED, st->saved);
	record_u64(out, STATS_SAVES_FAILED, st->saves_failed);
	record_u64(out, STATS_WAKES, st->wakes);
	record_u64(out, STATS_CPU_US, st->cpu_us);
	record_u64(out, STATS_NET_BYTES, st->net_bytes);
	record_u64(out, STATS_OVER_QUOTA, st->over_quota);
	(void)timings_each(&st->timings, put_timing, out);
	return sink_end(sink, HANDOVER_STATS, 0, 0);
}

/* Has one been given out that an heir would not know of? The numbers go round, if ever. */
static bool fresh_passed(const struct fs *fs)
{
	return (int32_t)(fs->fresh - fs->record.fresh) > 0;
}

/* Of `fresh` some more are written than were given out, so that not each one costs a record. */
int handover_put_mount(struct fs *fs, struct handover_sink *sink)
{
	struct buf *out = sink_begin(sink);

	if (fresh_passed(fs))
		fs->record.fresh = fs->fresh + FRESH_STEP;

	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		const struct conf_template *t = &fs->conf->template[i];

		if (t->of_image && t->settings.spec.language)
			record_str(out, TAG_OF_IMAGE, t->settings.spec.language);
		record_str(out, TAG_TEMPLATE, t->name);
		record_time(out, TAG_TEMPLATE_MTIME, &fs->template_mtime[i]);
	}
	record_time(out, TAG_STARTED, &fs->started);
	record_u64(out, TAG_STARTED_MS, fs->started_ms);
	record_u64(out, TAG_FRESH, fs->record.fresh);
	record_u64(out, TAG_DEPOT_FILE, fdbag_put(sink->fds, fs->depot.fd));
	record_u64(out, TAG_DEPOT_SLOTS, fs->depot.nslots);
	if (fs->depot.keyed)
		record_bytes(out, TAG_DEPOT_KEY, fs->depot.key, sizeof(fs->depot.key));
	record_u64(out, TAG_LOG_LEVEL, log_level());
	return sink_end(sink, HANDOVER_MOUNT, 0, 0);
}

static void put_complaint(struct buf *out, const struct complaint *c, bool standing)
{
	const size_t at = record_open(out, TAG_COMPLAINT);

	record_u64(out, TAG_UID, c->uid);
	record_str(out, TAG_CODE, problem_code_str(c->problem.code));
	record_str(out, TAG_CAUSE, c->problem.cause);
	record_str(out, TAG_FIX, c->problem.fix);
	record_time(out, TAG_TIME, &c->time);
	if (standing)
		record_u64(out, TAG_STANDING, 1);
	record_close(out, at);
}

static int put_complaints(const struct complaints *c, struct handover_sink *sink)
{
	struct buf *out = sink_begin(sink);

	for (unsigned i = 0; i < c->used; i++)
		put_complaint(out, &c->of[(c->next + i) % c->used], false);
	if (c->standing.problem.code)
		put_complaint(out, &c->standing, true);
	return sink_end(sink, HANDOVER_COMPLAINTS, 0, 0);
}

static int put_locks(const struct fs *fs, struct handover_sink *sink)
{
	nodelock_put(&fs->locks, sink_begin(sink));
	return sink_end(sink, HANDOVER_LOCKS, 0, 0);
}

/* A line of the log has the place of the one that it drives out. */
static int put_event(const struct events *ev, uint64_t n, struct handover_sink *sink)
{
	events_put_one(ev, n, sink_begin(sink));
	return sink_end(sink, HANDOVER_EVENT, n % EVENTS_KEPT, 0);
}

/* Those from @from on. */
static int put_events(const struct events *ev, uint64_t from, struct handover_sink *sink)
{
	int r;

	events_put(ev, sink_begin(sink));
	r = sink_end(sink, HANDOVER_EVENTS, 0, 0);
	for (uint64_t n = MAX(from, events_first(ev)); r == 0 && n < ev->next; n++)
		r = put_event(ev, n, sink);
	return r;
}

static int put_audit(const struct fs *fs, struct handover_sink *sink)
{
	if (!fs->audit)
		return 0;
	audit_put(fs->audit, sink_begin(sink));
	return sink_end(sink, HANDOVER_AUDIT, 0, 0);
}

/* Also those that count no more, as long as they have their places. */
static int put_accounts(const struct accounts *a, bool changes_only, struct handover_sink *sink)
{
	const struct account *acc;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ACCOUNT_PLACES; i++) {
		acc = account_at(a, i);
		if (!acc || (changes_only ? !acc->touched : !acc->day))
			continue;
		account_put(acc, sink_begin(sink));
		r = sink_end(sink, HANDOVER_ACCOUNT, i, 0);
	}
	return r;
}

static int put_slot(const struct roster *ro, unsigned slot, struct handover_sink *sink)
{
	if (roster_put_free(ro, slot, sink_begin(sink)))
		return sink_end(sink, HANDOVER_SLOT, slot, 0);
	return sink_drop(sink, HANDOVER_SLOT, slot, 0);
}

static int put_slots(const struct roster *ro, struct handover_sink *sink)
{
	int r = 0;

	for (unsigned i = roster_free(ro); r == 0 && i < ROSTER_MAX; i = roster_next_free(ro, i))
		r = put_slot(ro, i, sink);
	return r;
}

/* Most of it is compared with what was written, for it changes in places that know nothing of
 * this. */
static bool mount_changed(const struct fs *fs)
{
	const struct fs_record *rec = &fs->record;

	return rec->mount || fresh_passed(fs) || rec->depot_fd != fs->depot.fd ||
	       rec->depot_slots != fs->depot.nslots || rec->depot_keyed != fs->depot.keyed ||
	       rec->log_level != log_level();
}

static void settle_mount(struct fs *fs)
{
	struct fs_record *rec = &fs->record;

	rec->mount = false;
	rec->depot_fd = fs->depot.fd;
	rec->depot_slots = fs->depot.nslots;
	rec->depot_keyed = fs->depot.keyed;
	rec->log_level = log_level();
}

int handover_put_rest(const struct fs *fs, struct handover_sink *sink)
{
	int r = put_stats(fs, sink);

	if (r == 0)
		r = put_locks(fs, sink);
	if (r == 0)
		r = put_complaints(&fs->complaints, sink);
	if (r == 0)
		r = put_events(&fs->events, 0, sink);
	if (r == 0)
		r = put_audit(fs, sink);
	if (r == 0)
		r = put_accounts(&fs->accounts, false, sink);
	return r == 0 ? put_slots(&fs->roster, sink) : r;
}

/* ---- what has changed ---- */

static int commit_mount(struct fs *fs, struct handover_sink *sink)
{
	int r;

	if (!mount_changed(fs))
		return 0;
	r = handover_put_mount(fs, sink);
	settle_mount(fs);
	return r;
}

/* With each request they are others. So this is not done each time, but before somebody can say
 * that he saw more of them. */
static int commit_stats(struct fs *fs, struct handover_sink *sink)
{
	const uint64_t now = uv_now(fs->loop);

	if (!fs->record.stats && now - fs->record.stats_at < STATS_MS)
		return 0;
	fs->record.stats = false;
	fs->record.stats_at = now;
	return put_stats(fs, sink);
}

static int commit_locks(struct fs *fs, struct handover_sink *sink)
{
	if (!fs->handles.relocked)
		return 0;
	fs->handles.relocked = false;
	return put_locks(fs, sink);
}

static int commit_complaints(struct fs *fs, struct handover_sink *sink)
{
	if (!fs->record.complaints)
		return 0;
	fs->record.complaints = false;
	return put_complaints(&fs->complaints, sink);
}

static int commit_events(struct events *ev, struct handover_sink *sink)
{
	const uint64_t from = ev->put;

	if (ev->put == ev->next && ev->put_written == ev->written)
		return 0;
	ev->put = ev->next;
	ev->put_written = ev->written;
	return put_events(ev, from, sink);
}

static int commit_audit(const struct fs *fs, struct handover_sink *sink)
{
	if (!fs->audit || !fs->audit->changed)
		return 0;
	fs->audit->changed = false;
	return put_audit(fs, sink);
}

static int commit_accounts(struct accounts *a, struct handover_sink *sink)
{
	int r;

	if (!a->touched)
		return 0;
	r = put_accounts(a, true, sink);
	account_noted(a);
	return r;
}

static int commit_slots(struct roster *ro, struct handover_sink *sink)
{
	int r = 0;

	for (unsigned i = roster_touched(ro); r == 0 && i < ROSTER_MAX;
	     i = roster_next_touched(ro, i))
		r = put_slot(ro, i, sink);
	roster_noted(ro);
	return r;
}

int handover_commit_whole(struct fs *fs, struct handover_sink *sink)
{
	int r = commit_mount(fs, sink);

	if (r == 0)
		r = commit_stats(fs, sink);
	if (r == 0)
		r = commit_locks(fs, sink);
	if (r == 0)
		r = commit_complaints(fs, sink);
	if (r == 0)
		r = commit_events(&fs->events, sink);
	if (r == 0)
		r = commit_audit(fs, sink);
	if (r == 0)
		r = commit_accounts(&fs->accounts, sink);
	return r == 0 ? commit_slots(&fs->roster, sink) : r;
}

void handover_settle_whole(struct fs *fs)
{
	settle_mount(fs);
	fs->handles.relocked = fs->record.complaints = fs->record.stats = false;
	fs->record.stats_at = uv_now(fs->loop);
	fs->events.put = fs->events.next;
	fs->events.put_written = fs->events.written;
	roster_noted(&fs->roster);
	account_noted(&fs->accounts);
}

/* ---- reading ---- */

/* What there is of the mount before anything else. */
struct mount_in {
	size_t templates;
	char language[65]; /* of the next one, if it was an image's; or "" */
	uint32_t depot_file, depot_slots;
};

/* Gives the template of this name the index that it had. Of one that an image had brought along, which was removed since then, there may
 * be sessions: it is there for these. */
static int place_template(struct conf *conf, const struct mount_in *in,
			  const struct record_field *f, struct problem *why)
{
	const size_t index = in->templates;
	struct conf_template tmp, *t;
	char name[65];
	int r = record_get_str(f, name, sizeof(name));

	if (r < 0 || index >= CONF_TEMPLATES_MAX)
		return -EBADMSG;
	t = conf_template_find(conf, name);
	if (!t && *in->language) {
		r = conf_template_gone(conf, name, in->language);
		if (r == -ENOMEM)
			return r;
		t = conf_template_find(conf, name);
	}
	if (!t || t < &conf->template[index]) {
		problem_set(
			why, PROBLEM_NO_SUCH_TEMPLATE, "",
			"the configuration has no template \"%s\" any more, which the mount has",
			name);
		return -ENOENT;
	}
	tmp = conf->template[index];
	conf->template[index] = *t;
	*t = tmp;
	return 0;
}

static int get_stats(struct fs_stats *st, struct record_reader fields)
{
	unsigned runs = 0, jobs = 0;
	struct record_field f;
	uint64_t *to;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		to = NULL;
		r = 0;
		switch ((enum stats_tag)f.tag) {
		case STATS_CREATED: to = &st->sessions_created; break;
		case STATS_CLOSED: to = &st->sessions_closed; break;
		case STATS_RUNS: to = runs < RUN_NSTATES ? &st->runs[runs++] : NULL; break;
		case STATS_JOBS: to = jobs < RUN_NSTATES ? &st->jobs[jobs++] : NULL; break;
		case STATS_OUTPUT: to = &st->output_bytes; break;
		case STATS_DENIED: to = &st->denied; break;
		case STATS_REQUESTS: to = &st->requests; break;
		case STATS_SAVED: to = &st->saved; break;
		case STATS_SAVES_FAILED: to = &st->saves_failed; break;
		case STATS_WAKES: to = &st->wakes; break;
		case STATS_CPU_US: to = &st->cpu_us; break;
		case STATS_NET_BYTES: to = &st->net_bytes; break;
		case STATS_OVER_QUOTA: to = &st->over_quota; break;
		case STATS_TIMING: r = timings_get(&st->timings, record_inside(&f)); break;
		default: break;
		}
		if (to)
			r = record_get(&f, 0, UINT64_MAX, to);
		if (r < 0)
			return r;
	}
	return r;
}

static int get_log_level(const struct record_field *f)
{
	uint64_t v = 0;
	int r = record_get(f, 0, LOG_NLEVELS - 1, &v);

	if (r == 0)
		log_open((enum log_level)v);
	return r;
}

/* What is in the file is veiled with it. */
static int get_depot_key(struct depot *d, const struct record_field *f)
{
	if (!f->is_bytes || f->len != sizeof(d->key))
		return -EBADMSG;
	memcpy(d->key, f->data, sizeof(d->key));
	d->keyed = true;
	return 0;
}

static int get_mount_field(struct fs *fs, struct mount_in *in, const struct record_field *f,
			   struct problem *why)
{
	int r;

	switch ((enum mount_tag)f->tag) {
	case TAG_OF_IMAGE: return record_get_str(f, in->language, sizeof(in->language));
	case TAG_TEMPLATE:
		r = place_template(fs->conf, in, f, why);
		in->templates += r == 0;
		*in->language = '\0';
		return r;
	case TAG_TEMPLATE_MTIME:
		return in->templates ? record_get_time(f, &fs->template_mtime[in->templates - 1])
				     : -EBADMSG;
	case TAG_STARTED: return record_get_time(f, &fs->started);
	case TAG_STARTED_MS: return record_get(f, 0, uv_now(fs->loop), &fs->started_ms);
	case TAG_FRESH:
		r = record_get_u32(f, UINT32_MAX, &fs->fresh);
		fs->record.fresh = fs->fresh;
		return r;
	case TAG_DEPOT_FILE: return record_get_u32(f, UINT32_MAX, &in->depot_file);
	case TAG_DEPOT_SLOTS: return record_get_u32(f, DEPOT_SLOTS_MAX, &in->depot_slots);
	case TAG_LOG_LEVEL: return get_log_level(f);
	case TAG_DEPOT_KEY: return get_depot_key(&fs->depot, f);
	case TAG_STATS:
	default: return 0;
	}
}

static int get_mount(struct fs *fs, struct record_reader fields, struct fdbag *fds,
		     struct problem *why)
{
	struct mount_in in = {0};
	struct record_field f;
	int r, fd;

	if (fs->inherited.begun)
		return -EBADMSG;
	fs->inherited.begun = true;
	while ((r = record_field(&fields, &f)) > 0) {
		r = get_mount_field(fs, &in, &f, why);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	fd = fdbag_take(fds, in.depot_file);
	if (fd < 0)
		return in.depot_slots ? -EBADMSG : 0;
	return depot_resume(&fs->depot, fd, in.depot_slots);
}

static int get_complaint(struct complaint *c, bool *ret_standing, struct record_reader fields)
{
	struct record_field f;
	char code[64] = "";
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum complaint_tag)f.tag) {
		case TAG_UID: r = record_get_u32(&f, UINT32_MAX, &c->uid); break;
		case TAG_CODE: r = record_get_str(&f, code, sizeof(code)); break;
		case TAG_CAUSE:
			r = record_get_str(&f, c->problem.cause, sizeof(c->problem.cause));
			break;
		case TAG_FIX: r = record_get_str(&f, c->problem.fix, sizeof(c->problem.fix)); break;
		case TAG_TIME: r = record_get_time(&f, &c->time); break;
		case TAG_STANDING: r = record_get_bool(&f, ret_standing); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	c->problem.code = *code ? problem_code_find(code) : PROBLEM_NONE;
	return r;
}

static int get_complaints(struct complaints *c, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		struct complaint one = {0};
		bool standing = false;

		if (f.tag != TAG_COMPLAINT)
			continue;
		r = get_complaint(&one, &standing, record_inside(&f));
		if (r == 0 && !standing && c->used >= COMPLAINTS_MAX)
			r = -EBADMSG;
		if (r < 0)
			return r;
		if (standing)
			c->standing = one;
		else
			c->of[c->used++] = one;
	}
	return r;
}

int handover_get_whole(struct fs *fs, const struct record *rec, struct fdbag *fds,
		       struct problem *why)
{
	switch (rec->kind) {
	case HANDOVER_MOUNT: return get_mount(fs, rec->fields, fds, why);
	case HANDOVER_STATS: return get_stats(&fs->stats, rec->fields);
	case HANDOVER_LOCKS: return nodelock_get(&fs->locks, rec->fields);
	case HANDOVER_COMPLAINTS: return get_complaints(&fs->complaints, rec->fields);
	case HANDOVER_EVENTS: return events_get(&fs->events, rec->fields);
	case HANDOVER_EVENT: return events_get_one(&fs->events, rec->fields);
	case HANDOVER_AUDIT: return fs->audit ? audit_get(fs->audit, rec->fields) : 0;
	case HANDOVER_ACCOUNT: return account_get(&fs->accounts, rec->key, rec->fields);
	case HANDOVER_SLOT: return roster_get_free(&fs->roster, rec->key, rec->fields);
	default: return 0;
	}
}

int handover_join_whole(struct fs *fs)
{
	unsigned lost;
	int r = roster_join(&fs->roster, &lost);

	if (r == 0 && lost && !fs->inherited.died)
		r = -EBADMSG;
	return r < 0 ? r : events_join(&fs->events);
}
