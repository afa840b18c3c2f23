/* SPDX-License-Identifier: Apache-2.0 */
/* What users have used today, in the state directory: so that a new mount is no new day. See keeper.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "keep.h"
#include "keeper_internal.h"
#include "vm/base/log.h"

#define ROUND_MS 5000u /* so much a power cut may take */

/* ---- writing ---- */

static void schedule(struct keeper *k);

static void on_work(uv_work_t *work)
{
	struct keeper_accounts *ka = container_of(work, struct keeper_accounts, work);

	ka->err = store_put_accounts(&ka->k->store, ka->text.data, ka->text.len);
}

static void on_done(uv_work_t *work, int status)
{
	struct keeper_accounts *ka = container_of(work, struct keeper_accounts, work);
	struct keeper *k = ka->k;
	const int err = status < 0 ? status : ka->err;

	ka->busy = false;
	buf_clear(&ka->text);
	if (k->closed)
		return;
	if (err == 0)
		ka->written = ka->writing;
	else if (!ka->told)
		log_error("what users have used today can't be written to state_dir: %s",
			  strerror(-err));
	ka->told = err < 0;
	ka->failed = err < 0;
	schedule(k);
	if (k->look)
		k->look(k);
}

/* Of this day; what is of another one counts no more. */
static int render(const struct accounts *a, struct buf *out)
{
	const struct account *acc;
	size_t at;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ACCOUNT_PLACES; i++) {
		acc = account_at(a, i);
		if (!acc || acc->day < a->all.day)
			continue;
		at = record_begin(out, KEEP_ACCOUNT, i);
		account_put(acc, out);
		r = record_end(out, at);
	}
	return r;
}

static void write_now(struct keeper *k)
{
	struct keeper_accounts *ka = &k->accounts;

	if (render(&k->fs->accounts, &ka->text) < 0) {
		buf_clear(&ka->text);
		ka->failed = true; /* it is tried again with the next change */
		return;
	}
	ka->busy = true;
	ka->writing = k->fs->accounts.changes;
	if (uv_queue_work(k->fs->loop, &ka->work, on_work, on_done) < 0)
		ka->busy = false;
}

static void on_timer(uv_timer_t *timer)
{
	struct keeper_accounts *ka = timer->data;

	if (!ka->busy && !ka->k->closed && !keeper_accounts_written(ka->k))
		write_now(ka->k);
}

static void schedule(struct keeper *k)
{
	struct keeper_accounts *ka = &k->accounts;

	if (k->closed || k->loading || ka->busy || keeper_accounts_written(k))
		return;
	if (k->flushed && !ka->failed)
		uv_timer_start(&ka->timer, on_timer, 0, 0);
	else if (!uv_is_active((uv_handle_t *)&ka->timer))
		uv_timer_start(&ka->timer, on_timer, ROUND_MS, 0);
}

bool keeper_accounts_written(const struct keeper *k)
{
	return k->accounts.written == k->fs->accounts.changes;
}

bool keeper_accounts_done(const struct keeper *k)
{
	return !k->accounts.busy && (keeper_accounts_written(k) || k->accounts.failed);
}

void keeper_spent(struct fs *fs)
{
	schedule(fs->keeper);
}

void keeper_accounts_flush(struct keeper *k)
{
	k->accounts.failed = false; /* it has another turn */
	schedule(k);
}

/* ---- reading ---- */

static int read_all(struct accounts *a, const struct buf *text)
{
	struct record_reader r = record_reader(text->data, text->len);
	struct record rec;
	int e;

	while ((e = record_next(&r, &rec)) > 0) {
		e = rec.kind == KEEP_ACCOUNT ? account_get(a, rec.key, rec.fields) : 0;
		if (e < 0)
			return e;
	}
	return e;
}

void keeper_accounts_load(struct keeper *k)
{
	struct buf text = {0};
	struct problem p;
	int e = store_get_accounts(&k->store, &text);

	if (e == 0)
		e = read_all(&k->fs->accounts, &text);
	buf_clear(&text);
	if (e < 0 && e != -ENOENT) {
		account_fini(&k->fs->accounts);
		problem_set(&p, PROBLEM_DAMAGED, "",
			    "what users have used today can't be read from state_dir, and is "
			    "counted anew: %s",
			    strerror(-e));
		log_error("%s", p.cause);
		complaint_tell(k->fs, k->fs->uid, &p);
	}
	k->accounts.written = k->fs->accounts.changes;
}

/* ---- begin and end ---- */

void keeper_accounts_init(struct keeper *k)
{
	k->accounts.k = k;
	uv_timer_init(k->fs->loop, &k->accounts.timer);
	k->accounts.timer.data = &k->accounts;
}

void keeper_accounts_close(struct keeper *k)
{
	uv_close((uv_handle_t *)&k->accounts.timer, NULL);
}
