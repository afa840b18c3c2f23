/* SPDX-License-Identifier: Apache-2.0 */
/* What is named by records on the disk that this mount does not write. See keeper.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "keeper_internal.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The vault removes what nobody has a reference to, once all records are written: none of them names it then. But there are
 * records that this mount does not write, and that are to be there as they are for another one: of sessions that it does not
 * allow, or that can't be made of their records; of templates that it has not; and, behind the death of a daemon, of sessions
 * that are lost, or of which something is. What such a record names has references here, beside those of the sessions that
 * could be made. It is let go of when a session of that name is removed, and the record with it; or when a new one has the name,
 * and its record is there instead.
 *
 * What a record names that can't be read, nobody knows. It may be anything, also what others name, for copies share what was
 * saved. While there is such a record all that was found with it has references as well.
 *
 * None of this is handed over: who takes over reads those records once more.
 */

struct keeper_held {
	TAILQ_ENTRY(keeper_held) link;
	char template[65], name[65]; /* whose record it is; "": nobody's that could be removed */
	bool unread;		     /* it may name anything */
	struct saved **saved;	     /* references */
	size_t n;
};

/* Takes over the reference. Return: 0 or -ENOMEM. */
static int add(struct keeper_held *h, struct saved *saved)
{
	struct saved **more = reallocarray(h->saved, h->n + 1, sizeof(struct saved *));

	if (!more) {
		saved_unref(saved);
		return -ENOMEM;
	}
	h->saved = more;
	more[h->n++] = saved;
	return 0;
}

/* It is on no list. */
static void free_held(struct keeper_held *h)
{
	for (size_t i = 0; i < h->n; i++)
		saved_unref(h->saved[i]);
	free(h->saved);
	free(h);
}

struct naming {
	struct keeper *k;
	struct keeper_held *h;
};

/* What is not there, or not for this key, the vault does not know, and so does not remove either: nothing that it does not know
 * then. */
static int on_name(void *data, const char *name)
{
	const struct naming *n = data;
	struct problem why;
	struct saved *saved;
	int r = vault_find(n->k->vault, name, &saved, &why);

	if (r == -EBADMSG)
		r = vault_stand_in(n->k->vault, name, &saved);
	if (r == -EKEYREJECTED || r == -EPROTONOSUPPORT)
		n->k->not_ours = true;
	if (r == -ENOENT || r == -EKEYREJECTED || r == -EPROTONOSUPPORT)
		return 0;
	return r < 0 ? r : add(n->h, saved);
}

/* ---- those of a record ---- */

struct keeper_held *keeper_hold(struct keeper *k, const char *template, const char *name,
				const struct record *record)
{
	struct keeper_held *h = calloc(1, sizeof(*h));
	struct naming naming = {k, h};

	if (!h) {
		k->left = true;
		return NULL;
	}
	snprintf(h->template, sizeof(h->template), "%s", template);
	snprintf(h->name, sizeof(h->name), "%s", name);
	h->unread = !record || keep_get_names(record, on_name, &naming) < 0;
	TAILQ_INSERT_TAIL(&k->held, h, link);
	return h;
}

void keeper_hold_no_more(struct keeper *k, struct keeper_held *h)
{
	if (!h)
		return;
	TAILQ_REMOVE(&k->held, h, link);
	free_held(h);
}

/* ---- and if one can't be read, all ---- */

static bool any_unread(const struct keeper *k)
{
	const struct keeper_held *h;

	TAILQ_FOREACH(h, &k->held, link)
		if (h->unread)
			return true;
	return false;
}

/* What is in memory alone is named by no record. */
static int add_one(struct keeper_held *h, struct saved *saved)
{
	return saved && (saved_id(saved) || saved_files_of(saved)) ? add(h, saved_ref(saved)) : 0;
}

static int add_of(struct keeper_held *h, const struct session *s)
{
	const struct checkpoint *cp;
	int r = add_one(h, s->asleep.saved);

	if (r == 0)
		r = add_one(h, s->asleep.before);
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (r == 0)
			r = add_one(h, cp->saved);
	return r;
}

static int add_all(struct keeper *k, struct keeper_held *all)
{
	const struct keeper_held *h;
	const struct session *s;
	int r = 0;

	LIST_FOREACH(s, &k->fs->sessions, kept)
		if (r == 0)
			r = add_of(all, s);
	TAILQ_FOREACH(h, &k->held, link)
		for (size_t i = 0; r == 0 && i < h->n; i++)
			r = add(all, saved_ref(h->saved[i]));
	return r;
}

void keeper_hold_found(struct keeper *k)
{
	if (!any_unread(k) || k->left)
		return;
	k->held_found = calloc(1, sizeof(*k->held_found));
	if (!k->held_found || add_all(k, k->held_found) < 0)
		k->left = true;
}

static void let_go_of_found(struct keeper *k)
{
	if (k->held_found)
		free_held(k->held_found);
	k->held_found = NULL;
}

/* ---- letting go ---- */

static bool is_of(const struct keeper_held *h, const struct store_name *of)
{
	return strcmp(h->template, of->template) == 0 && strcmp(h->name, of->name) == 0;
}

bool keeper_holds(const struct keeper *k, const struct store_name *of)
{
	const struct keeper_held *h;

	TAILQ_FOREACH(h, &k->held, link)
		if (is_of(h, of))
			return true;
	return false;
}

void keeper_let_go(struct keeper *k, const struct store_name *of)
{
	struct keeper_held *h, *next;

	for (h = TAILQ_FIRST(&k->held); h; h = next) {
		next = TAILQ_NEXT(h, link);
		if (is_of(h, of))
			keeper_hold_no_more(k, h);
	}
	if (!any_unread(k))
		let_go_of_found(k);
}

void keeper_held_clear(struct keeper *k)
{
	struct keeper_held *h;

	while ((h = TAILQ_FIRST(&k->held)))
		keeper_hold_no_more(k, h);
	let_go_of_found(k);
}

/* ---- in who goes on ---- */

static bool is_being_removed(const struct keeper *k, const char *template, const char *name)
{
	const struct keeper_item *item;

	TAILQ_FOREACH(item, &k->removing, removal)
		if (strcmp(item->of.template, template) == 0 && strcmp(item->of.name, name) == 0)
			return true;
	return false;
}

/* One that the session of its name does not write, if there is any. */
static void look_at_record(void *data, const char *template, const char *name)
{
	struct keeper *k = data;
	const int i = conf_template_index(k->fs->conf, template);
	const struct session *s = i < 0 ? NULL : session_find(k->fs, (unsigned)i, name);
	struct record record;
	struct buf text = {0};
	int r;

	if (s ? !s->on_disk.damaged : is_being_removed(k, template, name))
		return;
	r = keeper_read(k, template, name, &text, &record);
	(void)keeper_hold(k, template, name, r == 0 ? &record : NULL);
	buf_clear(&text);
}

void keeper_hold_again(struct keeper *k)
{
	if (store_list(&k->store, look_at_record, k) < 0)
		(void)keeper_hold(k, "", "", NULL);
	keeper_hold_found(k);
	/* What was about to be removed, or saved, when the daemon before ended. All that is named has references, once that is
	 * known of all records; those of the sessions are written anew before anything is forgotten. */
	if (!any_unread(k) && !k->left && !k->not_ours)
		vault_find_orphans(k->vault);
}
