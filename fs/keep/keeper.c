/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps sessions in the state directory: what is written, and when. See keeper.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/touch.h"
#include "keeper_internal.h"
#include "vm/base/log.h"

/* ---- what could not be written ---- */

/* Checkpoints that wait for the disk: those that are named in the record that was written are there; or none are, and that is
 * told. */
static void settle(struct session *s, bool written)
{
	struct checkpoint *cp;
	bool any = false;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link) {
		if (!cp->unwritten || (written && !cp->naming))
			continue;
		if (written)
			checkpoint_written(s, cp);
		else
			checkpoint_not_written(s, cp);
		any = true;
	}
	if (any)
		wait_wake(&s->front.wait);
}

/* Until tell_success(). */
static void tell_mount(struct keeper *k, int err)
{
	struct problem p;

	if (k->told)
		return;
	k->told = true;
	log_error("sessions can't be written to state_dir: %s", strerror(-err));
	problem_set(&p, PROBLEM_NOT_KEPT,
		    "Make room on the disk of state_dir, or mend it; it is tried again.",
		    "sessions can't be written to state_dir: %s", strerror(-err));
	complaint_stand(k->fs, &p);
}

/* @s: or NULL, for a removal. */
static void tell_failure(struct keeper *k, struct session *s, int err)
{
	struct problem p;
	bool first = s && !s->on_disk.err;

	if (s) {
		touch_session(s);
		s->on_disk.err = err;
	}
	if (first) {
		(void)keeping_problem(s, &p);
		session_problem(s, &p);
		settle(s, false);
	}
	tell_mount(k, err);
}

/* Is something saved that the vault has not got? */
static bool is_unsaved(const struct session *s)
{
	const struct checkpoint *cp;

	if (s->asleep.saved && !saved_id(s->asleep.saved))
		return true;
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->saved && !saved_id(cp->saved))
			return true;
	return false;
}

/* Its record is on the disk; that is all of it if the vault has the rest. */
static void is_written(struct session *s)
{
	if (is_unsaved(s))
		return;
	if (s->asleep.saved && s->asleep.before) {
		session_forget_sleep(s); /* instead of that */
		keeping_changed(s);	 /* it can be removed behind another round */
	}
	if (!s->on_disk.err)
		return;
	touch_session(s);
	s->on_disk.err = 0;
	keeping_changed(
		s); /* the record that was written may give that as the reason for what would be lost */
	if (keeping_is_problem(problem_kept(&s->front.error)))
		session_problem(s, NULL);
}

/* A job went well. What other sessions were told of may go on; and so does a want of room, if it is the reserve's alone. */
static void tell_success(struct keeper *k)
{
	if (!k->told || k->store.reserve.err)
		return;
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		const struct session *s = roster_at(&k->fs->roster, i);

		if (s && s->on_disk.err)
			return;
	}
	log_info("sessions can be written to state_dir again");
	complaint_stand(k->fs, NULL);
	k->told = false;
}

/* Something has come to its end. */
static void look(struct keeper *k)
{
	if (k->look)
		k->look(k);
}

/* ---- rounds ---- */

static void on_timer(uv_timer_t *timer);

static void schedule(struct keeper *k)
{
	const uint64_t now = uv_now(k->fs->loop);
	uint64_t due = UINT64_MAX;

	if (k->busy || k->closed) /* behind the job, which has the reserve */
		return;
	if (!TAILQ_EMPTY(&k->dirty) || (k->removals && !k->unremoved))
		due = k->round_ms + (k->flushed || k->urgent ? 0 : KEEPER_ROUND_MS);
	if (!TAILQ_EMPTY(&k->refused) || k->unremoved || (k->store.reserve.lacks && !k->flushed))
		due = MIN(due, k->flushed ? 0 : k->retry_ms);
	if (due == UINT64_MAX)
		return;
	uv_timer_start(&k->timer, on_timer, due > now ? due - now : 0, 0);
}

/* It is to be written. What was refused has time, but at the end. */
static void enlist(struct keeper *k, struct session *s)
{
	s->on_disk.dirty = true;
	s->on_disk.refused = s->on_disk.err && !k->flushed;
	if (s->on_disk.refused)
		TAILQ_INSERT_TAIL(&k->refused, s, on_disk.link);
	else
		TAILQ_INSERT_TAIL(&k->dirty, s, on_disk.link);
}

static void delist(struct keeper *k, struct session *s)
{
	if (s->on_disk.dirty && s->on_disk.refused)
		TAILQ_REMOVE(&k->refused, s, on_disk.link);
	else if (s->on_disk.dirty)
		TAILQ_REMOVE(&k->dirty, s, on_disk.link);
	s->on_disk.dirty = s->on_disk.refused = false;
}

/* Once in a while all of those. */
static void try_again(struct keeper *k)
{
	struct session *s;

	if (!k->flushed && uv_now(k->fs->loop) < k->retry_ms)
		return;
	k->retry_ms = uv_now(k->fs->loop) + KEEPER_RETRY_MS;
	TAILQ_FOREACH(s, &k->refused, on_disk.link)
		s->on_disk.refused = false;
	TAILQ_CONCAT(&k->dirty, &k->refused, on_disk.link);
}

static void changed(struct session *s)
{
	struct keeper *k = s->fs->keeper;

	if (s->on_disk.damaged || s->on_disk.dirty || k->closed || k->loading)
		return;
	enlist(k, s);
	schedule(k);
}

static void store_all(struct keeper *k, struct session *s);

static void was_saved(struct session *s)
{
	struct keeper *k = s->fs->keeper;

	if (s->on_disk.damaged || k->closed || k->loading)
		return;
	store_all(k, s);
	if (!s->on_disk.storing) /* the vault has it already */
		k->urgent = true;
	changed(s);
	schedule(k);
}

static void removed(struct session *s)
{
	struct keeper *k = s->fs->keeper;
	const struct store_name of = keeper_name(s);

	delist(k, s);
	if (k->closed)
		return;
	if (keeper_remove(k, &of, 0) < 0) {
		tell_failure(k, NULL, -ENOMEM); /* it would come back */
		k->left = true;
		return;
	}
	keeper_let_go(k, &of);
	schedule(k);
}

/* ---- what is saved goes first ---- */

/* One on its way: by its place, for it may be gone when it is there. */
struct storing {
	struct keeper *k;
	unsigned slot, generation;
	struct saved *saved; /* reference */
};

/* It is not tried again; what else was saved of the session is. */
static void give_up(struct session *s, const struct saved *saved)
{
	struct checkpoint *cp;

	if (s->asleep.saved == saved)
		s->asleep.gave_up = true;
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->saved == saved)
			cp->gave_up = true;
}

static void on_stored(void *data, int err, const struct problem *why)
{
	struct storing *st = data;
	struct keeper *k = st->k;
	struct session *s = session_by_slot(k->fs, st->slot, st->generation);
	bool lost;

	k->storing--;
	if (err < 0 && err != -ECANCELED && !(s && s->on_disk.err))
		log_error("%s: what was saved was not written: %s", s ? s->path : "a session",
			  why && *why->cause ? why->cause : strerror(-err));
	if (s) {
		s->on_disk.storing--;
		/* What it was to be made of is not there: that is no failure of writing. */
		lost = err < 0 && asleep_lost(s);
		if (err < 0 && err != -ECANCELED && !lost) {
			tell_failure(k, s, err);
			if (k->flushed)
				give_up(s, st->saved);
		}
		if (err == 0) {
			k->urgent = true;
			store_all(k, s); /* what was saved meanwhile */
		}
		if (lost || err != -ECANCELED)
			changed(s); /* it is named, or tried again, or the record says what is lost, and why */
		schedule(k);
	}
	saved_unref(st->saved);
	free(st);
	look(k);
}

static void store(struct keeper *k, struct session *s, struct saved *saved, bool gave_up)
{
	struct storing *st;

	if (!saved || saved_id(saved) || gave_up)
		return;
	st = malloc(sizeof(*st));
	if (!st) {
		tell_failure(k, s, -ENOMEM);
		return;
	}
	*st = (struct storing){k, s->slot, s->generation, saved_ref(saved)};
	s->on_disk.storing++;
	k->storing++;
	vault_store(k->vault, saved, on_stored, st);
}

static void store_all(struct keeper *k, struct session *s)
{
	struct checkpoint *cp;

	if (s->on_disk.storing)
		return; /* it is looked at again behind these */
	store(k, s, s->asleep.saved, s->asleep.gave_up);
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		store(k, s, cp->saved, cp->gave_up);
}

/* ---- jobs ---- */

static void on_done(uv_work_t *work, int status);

static void on_work(uv_work_t *work)
{
	struct keeper *k = container_of(work, struct keeper, work);

	keeper_write(&k->store, k->job);
}

/* What the record says of checkpoints that wait for the disk. */
static void note_named(struct session *s)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		cp->naming = cp->saved && saved_id(cp->saved);
}

/* Takes what is dirty, as far as one job may have. */
static void fill(struct keeper *k)
{
	const struct session *last = TAILQ_LAST(&k->dirty, keeper_dirty);
	struct keeper_item **end = &k->job;
	size_t bytes = 0, n = 0;
	struct session *s = NULL;

	k->job = k->removals;
	if (k->job)
		end = k->removals_end;
	k->removals = NULL;
	k->removals_end = &k->removals;
	k->unremoved = false;
	/* One that gets dirty meanwhile, for there is no memory to store what was saved, has its turn another time. */
	while (s != last && (s = TAILQ_FIRST(&k->dirty)) && bytes < KEEPER_JOB_BYTES &&
	       n < KEEPER_JOB_ITEMS) {
		int err;
		struct keeper_item *item = keeper_item_new(k, s, &err);

		delist(k, s);
		if (!item) {
			tell_failure(k, s, err);
			if (k->flushed) { /* that was its last turn: what is there is an older one */
				k->left = true;
				s->on_disk.sum = 0;
			} else {
				changed(s); /* a checkpoint that was told of may have done that */
			}
			n++;
			continue;
		}
		item->replaces = keeper_holds(k, &item->of);
		note_named(s);
		store_all(k, s);
		bytes += item->bytes;
		n++;
		*end = item;
		end = &item->next;
	}
	*end = NULL;
}

/* Does no record on the disk name what is not named any more? */
static bool is_all(const struct keeper *k)
{
	return TAILQ_EMPTY(&k->dirty) && TAILQ_EMPTY(&k->refused);
}

void keeper_forget(struct keeper *k, uint64_t mark)
{
	if (is_all(k) && !k->left)
		vault_forget(k->vault, mark);
}

static void begin(struct keeper *k)
{
	const bool refill =
		k->store.reserve.lacks && !k->flushed && uv_now(k->fs->loop) >= k->retry_ms;
	int r;

	k->round_ms = uv_now(k->fs->loop);
	k->urgent = false;
	k->mark = vault_mark(k->vault);
	k->busy = true; /* also while it is filled: nobody begins another one behind this */
	try_again(k);
	fill(k);
	k->all = TAILQ_EMPTY(&k->dirty);
	if (!k->job && !refill) {
		k->busy = false;
		keeper_forget(k, k->mark);
		schedule(k); /* where there was no memory */
		look(k);
		return;
	}
	r = uv_queue_work(k->fs->loop, &k->work, on_work, on_done);
	assert(r == 0);
	(void)r;
}

static void on_timer(uv_timer_t *timer)
{
	begin(timer->data);
}

/* Has a new session its name? Then that one's record replaces the other. */
static bool is_replaced(const struct keeper *k, const struct keeper_item *item)
{
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		const struct session *s = roster_at(&k->fs->roster, i);

		if (s && !s->dead && strcmp(s->name, item->of.name) == 0 &&
		    strcmp(s->t->name, item->of.template) == 0)
			return true;
	}
	return false;
}

/* One that could not be removed is not to come back: it is tried again, before whatever may be written by its name. */
static void remove_again(struct keeper *k, struct keeper_item *item)
{
	item->err = 0;
	k->unremoved = true;
	k->retry_ms = uv_now(k->fs->loop) + KEEPER_RETRY_MS;
	item->next = k->removals;
	if (!k->removals)
		k->removals_end = &item->next;
	k->removals = item;
}

/* Frees it. Return: whether it was written. */
static bool take_apart(struct keeper *k, struct keeper_item *item)
{
	struct session *s =
		item->remove ? NULL : session_by_slot(k->fs, item->slot, item->generation);
	const bool bare = item->err == 0 && item->beside_err < 0,
		   good = item->err == 0 && item->beside_err == 0;

	if (!good)
		tell_failure(k, s, item->err ? item->err : item->beside_err);
	if (s && good) {
		keeper_item_kept(item, s);
		settle(s, true);
		is_written(s);
		if (item->replaces) {
			keeper_let_go(k, &item->of);
			changed(s); /* what that one named can be removed behind another round */
		}
	} else if (s) {
		/* If it was not written: the one of before, or this one: nobody knows. */
		s->on_disk.sum = bare ? item->sum : 0;
		if (k->flushed)
			k->left = true;
		else
			changed(s);
	}
	if (good || !item->remove || is_replaced(k, item)) {
		keeper_item_free(k, item);
	} else if (!k->flushed) {
		remove_again(k, item);
	} else { /* that was its last turn: it stays there */
		log_error("%s/%s: was removed, and comes back: its record can't be removed from "
			  "state_dir: %s",
			  item->of.template, item->of.name, strerror(-item->err));
		k->left = k->comes_back = true;
		keeper_item_free(k, item);
	}
	return good;
}

static void on_done(uv_work_t *work, int status)
{
	struct keeper *k = container_of(work, struct keeper, work);
	struct keeper_item *item;
	bool good = true;

	if (k->closed) { /* nobody waits for it any more */
		while ((item = k->job)) {
			k->job = item->next;
			keeper_item_free(k, item);
		}
		k->busy = false;
		return;
	}

	while ((item = k->job)) {
		k->job = item->next;
		if (status < 0)
			item->err = status;
		good = take_apart(k, item) && good;
	}
	k->busy = false;
	if (k->store.reserve.err)
		tell_mount(k, k->store.reserve.err);
	if (good)
		tell_success(k);
	if (good && k->all)
		keeper_forget(k, k->mark);
	if (!TAILQ_EMPTY(&k->dirty) && good && !k->all)
		begin(k); /* the round goes on */
	else
		schedule(k);
	look(k);
}

void keeper_flush(struct keeper *k)
{
	k->flushed = true;
	try_again(k);
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		struct session *s = roster_at(&k->fs->roster, i);

		if (s)
			changed(s);
	}
	schedule(k);
	keeper_accounts_flush(k);
}

bool keeper_is_idle(const struct keeper *k)
{
	return !k->busy && !k->storing && is_all(k) && !k->removals && keeper_accounts_done(k);
}

/* ---- begin and end ---- */

static const struct keeping keeping = {.changed = changed,
				       .saved = was_saved,
				       .removed = removed,
				       .bring = keeper_bring,
				       .spent = keeper_spent,
				       .next_removal = keeper_next_removal,
				       .put_removal = keeper_put_removal,
				       .get_removal = keeper_get_removal};

int keeper_open(struct fs *fs, struct store *st, struct keeper **ret_k, struct problem *why)
{
	struct keeper *k;
	int r = vm_keep(fs->vm, st->dir, why);

	if (r < 0)
		return r;
	k = calloc(1, sizeof(*k));
	if (!k || store_use(st, vm_vault(fs->vm)) < 0) {
		free(k);
		return problem_set(why, PROBLEM_FAILED, "", "out of memory");
	}
	k->store = *st;
	*st = (struct store){.dir = -1, .sessions = -1, .lock = -1};
	k->fs = fs;
	k->vault = vm_vault(fs->vm);
	k->removals_end = &k->removals;
	TAILQ_INIT(&k->dirty);
	TAILQ_INIT(&k->refused);
	TAILQ_INIT(&k->removing);
	TAILQ_INIT(&k->held);
	uv_timer_init(fs->loop, &k->timer);
	k->timer.data = k;
	uv_timer_init(fs->loop, &k->end_timer);
	k->end_timer.data = k;
	keeper_accounts_init(k);
	fs->keeper = k;
	fs->keeping = &keeping;
	*ret_k = k;
	return 0;
}

bool keeper_may_yield(const struct keeper *k)
{
	return !k->busy && !k->storing && !k->removals && !k->bringing && !k->accounts.busy &&
	       k->step == END_NONE;
}

int keeper_lock(const struct keeper *k)
{
	return k->store.lock;
}

void keeper_wait(struct keeper *k)
{
	k->loading = true;
}

int keeper_inherit(struct keeper *k, int lock)
{
	return store_inherit(&k->store, lock);
}

void keeper_go(struct keeper *k)
{
	keeper_hold_again(k);
	k->loading = false;
	k->told = complaint_stands(k->fs); /* by the daemon before */
	if (k->told) { /* maybe because the reserve is not there; that is looked at */
		k->store.reserve.lacks = true;
		k->store.reserve.err = -ENOSPC;
	}
	for (unsigned i = 0; i < k->fs->roster.n; i++) {
		struct session *s = roster_at(&k->fs->roster, i);

		if (s)
			changed(s);
	}
	schedule(k); /* there may be something to be removed */
	keeper_spent(k->fs);
}

void keeper_stop(struct keeper *k)
{
	if (k->closed)
		return;
	k->closed = true;
	(void)store_use(&k->store, NULL);
	uv_close((uv_handle_t *)&k->timer, NULL);
	uv_close((uv_handle_t *)&k->end_timer, NULL);
	keeper_accounts_close(k);
}

bool keeper_close(struct keeper *k)
{
	struct keeper_item *item;

	if (!k)
		return true;
	k->fs->keeping = NULL;
	k->fs->keeper = NULL;
	keeper_held_clear(k);
	if (k->busy || k->bringing || k->accounts.busy)
		return false;
	while ((item = k->removals)) {
		k->removals = item->next;
		keeper_item_free(k, item);
	}
	store_close(&k->store);
	free(k);
	return true;
}
