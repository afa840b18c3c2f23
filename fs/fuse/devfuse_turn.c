/* SPDX-License-Identifier: Apache-2.0 */
/* The connection in turns: requests and answers that outlive the daemon. See devfuse.h. */
#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>

#include "fs/handover/handover.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"
#include "devfuse_internal.h"

/*
 * When to commit
 * --------------
 * Requests that are there together are committed together. But a client asks one thing, and the
 * next when it has the answer: then it is in vain to look for a second request before the first is
 * answered, and so is the way through the loop. So if there was but one, the next ones are
 * committed one by one, and answered, before another is looked for; and now and then it is seen
 * whether there are more at once.
 */
#define ALONE	    32u

/* Bytes of a request that is rather left where it is than copied. Most of them are written below
 * files/: they lie in the inbox until the agent has all of them, and has answered. */
#define LONG	    (16u << 10)

/* More than a turn says before it is committed (see turn.h), and the largest answer. */
#define OUTBOX_SIZE (2u << 20)

/* Of HANDOVER_ANSWER. Never reuse. */
enum answer_tag {
	TAG_TURN = 1,
	TAG_LEN,
	TAG_HANDLED,
	TAG_ANSWER,
};

void devfuse_news(struct devfuse *d)
{
	if (!turn_is_on(d->turn))
		return;
	turn_due(d->turn);
	turn_speak(d->turn, TURN_ANSWERS, &d->speaker);
}

bool devfuse_queue(struct devfuse *d, const struct iovec *iov, int count, size_t len)
{
	int r;

	if (!d->survives || !turn_is_on(d->turn))
		return false;
	r = outbox_add(&d->outbox, iov, count);
	/* It is said before what it follows from is written: no daemon that comes after this one
	 * may be without that. */
	if (r < 0) {
		if (!d->turn->lost)
			devfuse_restore(d, d->turn->estate);
		turn_lose(d->turn, r);
		return false;
	}
	turn_queued(d->turn, len);
	devfuse_news(d);
	return true;
}

void devfuse_drop(struct devfuse *d, uint64_t unique)
{
	if (unanswered_drop(&d->unanswered, unique) && turn_is_on(d->turn))
		(void)estate_drop(d->turn->estate, HANDOVER_REQUEST, unique, 0);
}

/* There are no turns any more: everything is as without. */
static void forsake(struct devfuse *d)
{
	d->survives = false;
	unanswered_keep(&d->unanswered);
}

/* That it was said need not be known: who does not know it says it again. */
void devfuse_say(struct devfuse *d)
{
	struct outbox_more *m;

	if (!d->survives)
		return;
	TAILQ_FOREACH(m, &d->outbox.more, link)
		if (m->recorded && turn_is_on(d->turn))
			(void)estate_drop(d->turn->estate, HANDOVER_ANSWER, m->number, 0);
	outbox_say(&d->outbox, fuse_session_fd(d->se));
}

static void speak(struct turn_speaker *speaker)
{
	struct devfuse *d = container_of(speaker, struct devfuse, speaker);

	d->together = 0;
	devfuse_say(d);
	if (!turn_is_on(d->turn) || d->turn->lost)
		forsake(d);
	else
		inbox_reset(&d->inbox);
}

void devfuse_make_room(struct devfuse *d)
{
	if (!d->survives)
		return;
	turn_pause(d->turn);
	if (d->survives && !inbox_has_room(&d->inbox))
		turn_now(d->turn);
	if (d->survives && !turn_is_on(d->turn))
		forsake(d);
}

void devfuse_handled(struct devfuse *d)
{
	if (!d->survives)
		return;
	turn_pause(d->turn);
	if (!d->alone)
		return;
	d->alone--;
	turn_now(d->turn);
}

bool devfuse_no_more(struct devfuse *d)
{
	if (!d->survives || !d->together)
		return false;
	if (d->together == 1)
		d->alone = ALONE;
	turn_now(d->turn);
	return true;
}

void devfuse_leave(struct devfuse *d)
{
	if (!d->survives)
		return;
	devfuse_say(d);
	turn_hush(d->turn, &d->speaker);
	forsake(d);
}

bool devfuse_hold(struct devfuse *d, const char *mem, size_t size)
{
	return size >= LONG && inbox_hold(&d->inbox, mem);
}

/* ---- records ---- */

static int put_fields(struct buf *fields, struct estate *e, uint64_t unique)
{
	const int err = fields->failed ? -ENOMEM
				       : estate_put(e, HANDOVER_REQUEST, unique, 0, fields->data,
						    fields->len);

	buf_clear(fields);
	return err;
}

/* Its bytes, wherever they are. */
static int put_bytes(const struct unanswered_request *r, struct estate *e)
{
	struct buf fields = {0};

	record_bytes(&fields, REQUEST_BYTES, r->data, r->len);
	return put_fields(&fields, e, r->unique);
}

/* Those lie where they are a field already, but for its head; see inbox.h. */
static int put_lent(const struct unanswered_request *r, struct estate *e)
{
	unsigned char *field = (unsigned char *)r->data - RECORD_BYTES_HEAD;

	record_bytes_head(field, REQUEST_BYTES, r->len);
	return estate_put(e, HANDOVER_REQUEST, r->unique, 0, field, RECORD_BYTES_HEAD + r->len);
}

static int put_request(const struct unanswered *u, const struct unanswered_request *r,
		       struct estate *e)
{
	struct buf fields = {0};

	switch (r->where) {
	case UNANSWERED_LENT: return put_lent(r, e);
	case UNANSWERED_ON_SHEET:
		record_u64(&fields, REQUEST_PLACE, sheets_place(u->sheets, r->data));
		record_u64(&fields, REQUEST_LEN, r->len);
		return put_fields(&fields, e, r->unique);
	case UNANSWERED_OWN:
	case UNANSWERED_TO_REPLAY: return put_bytes(r, e);
	case UNANSWERED_NOWHERE: break;
	}
	return -ENOMEM; /* they are lost */
}

static int put_requests(struct devfuse *d, struct estate *e)
{
	struct unanswered_request *r;
	int err;

	while ((r = unanswered_new(&d->unanswered))) {
		err = put_request(&d->unanswered, r, e);
		if (err < 0)
			return err;
		unanswered_recorded(&d->unanswered, r);
	}
	/* Somebody would wait for ever. */
	return unanswered_is_whole(&d->unanswered) ? 0 : -ENOMEM;
}

/* Those that did not fit. */
static int put_more(struct devfuse *d, struct estate *e, struct buf *fields)
{
	struct outbox_more *m;
	int err;

	TAILQ_FOREACH(m, &d->outbox.more, link) {
		if (m->recorded)
			continue;
		fields->len = 0;
		record_bytes(fields, TAG_ANSWER, m->data, m->len);
		err = fields->failed ? -ENOMEM
				     : estate_put(e, HANDOVER_ANSWER, m->number, 0, fields->data,
						  fields->len);
		if (err < 0)
			return err;
		m->recorded = true;
	}
	return 0;
}

static int put_answers(struct devfuse *d, struct estate *e)
{
	struct buf *fields = &d->fields;
	int err;

	fields->len = 0;
	record_u64(fields, TAG_TURN, d->outbox.turn);
	record_u64(fields, TAG_LEN, d->outbox.len);
	record_u64(fields, TAG_HANDLED, d->inbox.last);
	err = fields->failed ? -ENOMEM
			     : estate_put(e, HANDOVER_ANSWER, 0, 0, fields->data, fields->len);
	if (err == 0 && !TAILQ_EMPTY(&d->outbox.more)) {
		err = put_more(d, e, fields);
		buf_clear(fields); /* they were long */
	}
	return err;
}

static int put_agreement(const struct devfuse *d, struct estate *e)
{
	struct buf fields = {0};
	int err = devfuse_put_agreement(d, &fields);

	if (err == 0)
		err = estate_put(e, HANDOVER_CONNECTION, 0, 0, fields.data, fields.len);
	buf_clear(&fields);
	return err;
}

int devfuse_commit(struct devfuse *d, struct estate *e)
{
	int err = 0;

	if (!d->survives)
		return 0;
	if (!d->agreed && d->init_reply.len) {
		err = put_agreement(d, e);
		d->agreed = err == 0;
	}
	if (err == 0)
		err = put_requests(d, e);
	inbox_settle(&d->inbox);
	return err == 0 ? put_answers(d, e) : err;
}

int devfuse_may_yield(const struct devfuse *d)
{
	if (!unanswered_is_whole(&d->unanswered) || !d->init.len || !d->init_reply.len)
		return -EOPNOTSUPP;
	return d->survives && d->outbox.queued ? -EAGAIN : 0;
}

int devfuse_put(const struct devfuse *d, struct estate *e)
{
	const struct unanswered_request *r;
	int err = put_agreement(d, e);

	assert(!d->survives);
	TAILQ_FOREACH(r, &d->unanswered.list, link)
		if (err == 0)
			err = put_bytes(r, e);
	return err;
}

static int restore(void *data, const struct record *rec, uint64_t sub)
{
	struct devfuse *d = data;
	struct record_field f;
	bool held;

	(void)sub;
	if (devfuse_find_request(d, rec->fields, &f, &held) == 0 && !held)
		unanswered_restore(&d->unanswered, rec->key, f.data, f.len);
	return 0;
}

void devfuse_restore(struct devfuse *d, const struct estate *e)
{
	if (d->survives)
		(void)estate_each(e, HANDOVER_REQUEST, restore, d);
}

/* ---- the beginning ---- */

static void begin(struct devfuse *d, struct turn *t)
{
	d->turn = t;
	d->speaker.speak = speak;
	d->survives = true;
	devfuse_news(d);
}

int devfuse_survive(struct devfuse *d, struct turn *t)
{
	const size_t max = d->unanswered.size;
	void *in = estate_region(t->estate, ESTATE_REGION_INBOX, INBOX_HEAD),
	     *out = estate_region(t->estate, ESTATE_REGION_OUTBOX, OUTBOX_SIZE);
	struct sheets *sheets = estate_sheets(t->estate);

	if (!in || !out || !sheets)
		return -ENOMEM;
	d->unanswered.sheets = sheets;
	inbox_open(&d->inbox, in, sheets, max);
	outbox_open(&d->outbox, out, OUTBOX_SIZE);
	begin(d, t);
	return 0;
}

void devfuse_reserve(struct estate *e)
{
	(void)estate_region(e, ESTATE_REGION_INBOX, INBOX_HEAD);
	(void)estate_region(e, ESTATE_REGION_OUTBOX, OUTBOX_SIZE);
	(void)estate_sheets(e);
}

/* What is read of the records of kind HANDOVER_ANSWER. */
struct answered {
	uint64_t turn, len, handled;
};

static int load_connection(void *data, const struct record *rec, uint64_t sub)
{
	struct devfuse *d = data;
	const int err = devfuse_get_agreement(d, rec->fields);

	(void)sub;
	d->agreed = err == 0;
	return err;
}

/* Of whom the requests are read, and whether he has turns. */
struct loading {
	struct devfuse *d;
	bool turns;
};

static int load_request(void *data, const struct record *rec, uint64_t sub)
{
	const struct loading *l = data;
	struct devfuse *d = l->d;
	struct fuse_in_header in;
	struct record_field f;
	bool held;
	int r = devfuse_find_request(d, rec->fields, &f, &held);

	(void)sub;
	if (r < 0)
		return r;
	memcpy(&in, f.data, sizeof(in));
	if (in.unique != rec->key)
		return -EBADMSG;
	return held && l->turns
		       ? unanswered_load_held(&d->unanswered, in.unique, f.data, f.len)
		       : unanswered_load(&d->unanswered, in.unique, f.data, f.len, l->turns);
}

static int load_state(void *data, const struct record *rec, uint64_t sub)
{
	struct record_reader fields = rec->fields;
	struct answered *a = data;
	struct record_field f;
	int r = 0;

	(void)sub;
	while (rec->key == 0 && r >= 0 && (r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_TURN)
			r = record_get(&f, 0, INT64_MAX, &a->turn);
		else if (f.tag == TAG_LEN)
			r = record_get(&f, 0, OUTBOX_SIZE, &a->len);
		else if (f.tag == TAG_HANDLED)
			r = record_get(&f, 0, INT64_MAX, &a->handled);
	}
	return MIN(r, 0);
}

static int load_more(void *data, const struct record *rec, uint64_t sub)
{
	struct record_reader fields = rec->fields;
	struct devfuse *d = data;
	struct record_field f;
	int r = 0;

	(void)sub;
	while (rec->key != 0 && r >= 0 && (r = record_field(&fields, &f)) > 0)
		if (f.tag == TAG_ANSWER)
			r = outbox_load_more(&d->outbox, rec->key, f.data, f.len);
	return MIN(r, 0);
}

/* How they have agreed, and what was not answered. */
static int load_asked(struct devfuse *d, const struct estate *e, bool turns)
{
	struct loading l = {d, turns};
	int err = estate_each(e, HANDOVER_CONNECTION, load_connection, d);

	return err == 0 ? estate_each(e, HANDOVER_REQUEST, load_request, &l) : err;
}

/* In turns: also what lies beside the records. */
static int load_turns(struct devfuse *d, struct estate *e)
{
	const size_t max = d->unanswered.size;
	void *in = estate_region(e, ESTATE_REGION_INBOX, INBOX_HEAD),
	     *out = estate_region(e, ESTATE_REGION_OUTBOX, OUTBOX_SIZE);
	struct sheets *sheets = estate_sheets(e);
	struct answered a = {0};
	int err = in && out && sheets ? 0 : -ENOMEM;

	d->unanswered.sheets = sheets;
	if (err == 0)
		err = load_asked(d, e, true);
	if (err == 0)
		err = estate_each(e, HANDOVER_ANSWER, load_state, &a);
	if (err == 0)
		err = inbox_load(&d->inbox, in, sheets, max, a.handled);
	if (err == 0)
		err = outbox_load(&d->outbox, out, OUTBOX_SIZE, a.turn, a.len);
	return err == 0 ? estate_each(e, HANDOVER_ANSWER, load_more, d) : err;
}

/* Without: it is copied, and all answers were said. On sheets there is something only if the daemon
 * before had turns. */
static int load_once(struct devfuse *d, struct estate *e)
{
	int err;

	if (estate_has(e, HANDOVER_ANSWER, 0, 0))
		d->unanswered.sheets = estate_sheets(e);
	err = load_asked(d, e, false);
	d->unanswered.sheets = NULL;
	return err;
}

int devfuse_load(struct devfuse *d, struct estate *e, struct turn *t)
{
	int err;

	if (!turn_is_on(t))
		return load_once(d, e);
	err = load_turns(d, e);
	if (err == 0)
		begin(d, t);
	return err;
}
