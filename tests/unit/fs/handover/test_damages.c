/* SPDX-License-Identifier: Apache-2.0 */
/* Each record that a daemon leaves, damaged in turn and in every way, after whatever clients have done. See test_losses.c. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/walk.c tests/unit/fixture/heir_fixture.c */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "tests/unit/fixture/heir_fixture.h"
#include "vm/base/util.h"

/* ---- what is lost ---- */

static bool is_of_session(uint32_t kind)
{
	switch (kind) {
	case KEEP_SESSION:
	case KEEP_RUN:
	case KEEP_JOB:
	case KEEP_SCRATCH:
	case HANDOVER_FILES:
	case HANDOVER_NODE:
	case HANDOVER_WORKDIR:
	case HANDOVER_CALLS:
	case HANDOVER_COMMIT:
	case HANDOVER_SANDBOX: return true;
	default: return false;
	}
}

/* Of the whole mount, and it can't do without. */
static bool may_end_it(uint32_t kind)
{
	return kind == HANDOVER_MOUNT || kind == HANDOVER_LOCKS || kind == HANDOVER_EVENTS ||
	       kind == HANDOVER_EVENT || kind == HANDOVER_GENERATION;
}

/* Of those of the dead daemon, how many the heir has not; all of them of this key, if it is of a session. */
static unsigned count_lost(struct heir *h, const struct one *o)
{
	struct session *s;
	unsigned n = 0;

	LIST_FOREACH(s, &h->fx->fs->sessions, kept) {
		/* What is damaged may say that it is nobody's, and go at once. */
		if (keep_session(h->two.fs, session_key(s)) || s->dead)
			continue;
		n++;
		if (is_of_session(o->kind) && session_key(s) != o->key)
			fail_msg("kind %u of session %llx costs %llx", o->kind,
				 (unsigned long long)o->key, (unsigned long long)session_key(s));
	}
	return n;
}

/* What of all others is written down is what it was. */
static void expect_others(struct heir *h, const struct all *before, const struct one *o)
{
	struct all now;

	inventory_read(h->e, &now);
	for (size_t i = 0; i < before->n; i++) {
		const struct one *a = &before->one[i];
		size_t k = 0;

		if (!is_of_session(a->kind) || a->key == o->key || a->kind == HANDOVER_SANDBOX)
			continue;
		while (k < now.n && (now.one[k].kind != a->kind || now.one[k].key != a->key ||
				     now.one[k].sub != a->sub))
			k++;
		if (k == now.n)
			fail_msg("kind %u, key %llx: with it is gone kind %u, key %llx, sub %llx",
				 o->kind, (unsigned long long)o->key, a->kind,
				 (unsigned long long)a->key, (unsigned long long)a->sub);
		/* Copies name whose they are by a place. */
		if (a->kind != KEEP_SESSION &&
		    (now.one[k].fields.len != a->fields.len ||
		     memcmp(now.one[k].fields.data, a->fields.data, a->fields.len) != 0))
			fail_msg("kind %u, key %llx: with it is changed kind %u, key %llx", o->kind,
				 (unsigned long long)o->key, a->kind, (unsigned long long)a->key);
	}
	inventory_clear(&now);
}

/* Everybody who had something open asks for it; no node of it makes it fall. */
static void look_around(struct heir *h, struct walk *w)
{
	struct session *s;
	struct req *req;

	for (unsigned i = 0; i < WALK_FILES; i++) {
		if (!w->file[i].f.fh || w->file[i].below ||
		    (w->file[i].f.flags & O_ACCMODE) == O_WRONLY)
			continue;
		req = fx_read(h->fx, &w->file[i].f, 100, O_NONBLOCK);
		if (req->kind == ANSWER_NONE_YET)
			req_interrupt(req);
	}
	LIST_FOREACH(s, &h->two.fs->sessions, kept) {
		char path[200];

		if (s->dead)
			continue;
		snprintf(path, sizeof(path), "%s/status.json", s->path);
		(void)fx_cat(h->fx, path);
		snprintf(path, sizeof(path), "%s/error", s->path);
		(void)fx_cat(h->fx, path);
		if (!s->on_disk.damaged)
			continue;
		snprintf(path, sizeof(path), "%s/state", s->path);
		fx_expect(h->fx, path, "failed\n");
		fx_expect_error(h->fx, s->path, "damaged");
		snprintf(path, sizeof(path), "%s/in", s->path);
		assert_int_equal(fx_put(h->fx, path, "print(1)"), -ESTALE);
	}
}

/* Everything that can be made of the fields. */
#define NDAMAGES 6u

static void damage(struct walk *w, unsigned how, const struct buf *fields, struct buf *ret)
{
	const size_t len = fields->len;

	*ret = (struct buf){0};
	(void)buf_append(ret, fields->data, how == 0 ? len / 2 : how == 1 && len ? len - 1 : len);
	if (how == 2 && len)
		ret->data[0] = (char)0xff;
	if (how == 3)
		(void)buf_append(ret, "\x81", 1);
	if (how >= 4 && len)
		ret->data[walk_any(w, (unsigned)len)] ^= (char)(1 << walk_any(w, 8));
}

/* Which records of the kind are tried: some from the beginning, some of the others. */
static bool is_tried(struct walk *w, const struct all *all, size_t i)
{
	size_t n = 0;

	for (size_t k = 0; k < i; k++)
		n += all->one[k].kind == all->one[i].kind;
	return n < 4 || !walk_any(w, (unsigned)n);
}

static unsigned try_one(struct walk *w, const struct all *all, const struct one *o,
			const struct buf *with)
{
	struct heir h;
	unsigned lost;

	heir_come(&h, w->fx, estate_of(all, o, with));
	if (h.result < 0) {
		if (!may_end_it(o->kind))
			fail_msg("kind %u, key %llx, sub %llx ends the mount: %d %s", o->kind,
				 (unsigned long long)o->key, (unsigned long long)o->sub, h.result,
				 h.why.cause);
		heir_go(&h);
		return 0;
	}
	lost = count_lost(&h, o);
	if (lost > 1)
		fail_msg("kind %u, key %llx costs %u sessions", o->kind, (unsigned long long)o->key,
			 lost);
	heir_commit(&h);
	if (is_of_session(o->kind))
		expect_others(&h, all, o);
	heir_expect_clean(&h);
	heir_serve(&h);
	look_around(&h, w);
	heir_go(&h);
	return lost;
}

/* Each kind of record in turn, after whatever a client has done. */
static void damage_each(struct fixture *fx, uint64_t seed, unsigned steps, unsigned *tried,
			unsigned *lost)
{
	struct all all;
	struct walk w;
	struct buf bad;

	walk_begin(&w, fx, seed);
	fx->conf.history_runs = 6;
	for (unsigned i = 0; i < steps; i++)
		walk_step(&w);
	walk_hush(&w);
	inventory_write(fx->fs, &all);
	for (size_t i = 0; i < all.n; i++) {
		if (!is_tried(&w, &all, i))
			continue;
		for (unsigned how = 0; how <= NDAMAGES; how++) {
			if (how < NDAMAGES)
				damage(&w, how, &all.one[i].fields, &bad);
			lost[all.one[i].kind] +=
				try_one(&w, &all, &all.one[i], how < NDAMAGES ? &bad : NULL);
			tried[all.one[i].kind]++;
			if (how < NDAMAGES)
				buf_clear(&bad);
		}
	}
	inventory_clear(&all);
	walk_close(&w);
}

static void test_each(void **state)
{
	unsigned tried[KINDS] = {0}, lost[KINDS] = {0};

	for (unsigned i = 0; i < 4; i++) {
		if (i > 0)
			assert_int_equal(fx_setup(state), 0);
		damage_each(*state, 7000 + i, 500 + 150 * i, tried, lost);
		if (i < 3)
			fx_teardown(state);
	}
	for (uint32_t kind = 1; kind < KINDS; kind++)
		if (tried[kind])
			print_message("kind %u: %u times, %u sessions lost\n", kind, tried[kind],
				      lost[kind]);
	assert_true(lost[KEEP_SESSION] && lost[KEEP_RUN] && lost[KEEP_JOB] && lost[HANDOVER_NODE]);
	assert_true(tried[HANDOVER_HANDLE] && !lost[HANDOVER_HANDLE] && !lost[HANDOVER_TEXT]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {fx_test(test_each)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
