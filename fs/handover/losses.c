/* SPDX-License-Identifier: Apache-2.0 */
/* Records that can't be read: whose they are, and what becomes of these. See handover.h. */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Of a daemon that serves, what can't be read is refused as a whole, and it goes on. Of one that
 * has died there is nobody who would: so a bad record costs whoever it is of, and nobody else.
 *
 *	a session, and what it has	keep_salvage(): the session is FAILED, with what of it can be looked at. Its handles and
 *					nodes go, and its processes, for nobody claims them
 *	a sandbox alone			as if that were not there any more: inherit_go()
 *	a handle, or its text		whoever has it open gets EIO from then on; nobody else gets its number
 *	bytes, blocks, what was saved	nothing yet: who needs them does not find them, and is lost for that. Where there was no room to
 *					look at what was saved there can be no heir, and another one is tried
 *	a free slot			it is used no more
 *	what nothing relies on		is left out
 *	all else of the mount		there can be no heir
 *
 * A session that is lost is told when there is somebody to tell. Until all sessions were read, what
 * else there is of a lost one is read still, for its runs; behind that no more.
 */

/* Told one by one; of more than these their number. */
#define TOLD_MOST 100u

struct loss {
	uint64_t key;	/* first: of the session */
	char path[136]; /* "": not known */
	bool is_left;	/* what can be looked at is there, */
	uint64_t left;	/* ... by this key */
	bool was_removed;
	uint32_t kind; /* of the first bad record; 0: they did not fit together */
};

/* What a record is about, in words. */
static const char *words_of(uint32_t kind)
{
	switch (kind) {
	case KEEP_RUN: return "one of its runs";
	case KEEP_JOB: return "one of its jobs";
	case KEEP_SCRATCH: return "a file in its directory";
	case HANDOVER_FILES:
	case HANDOVER_NODE:
	case HANDOVER_CALLS: return "its files/";
	case HANDOVER_WORKDIR:
	case HANDOVER_COMMIT: return "its changes";
	default: return "it";
	}
}

/* ---- sessions ---- */

static struct loss *find(const struct fs *fs, uint64_t key)
{
	void *const *found = tfind(&key, &fs->inherited.losses, handover_by_id);

	return found ? *found : NULL;
}

/* Return: what is known of it, with the first reason; NULL if out of memory. */
static struct loss *note(struct fs *fs, uint64_t key, uint32_t kind)
{
	struct loss *l = find(fs, key);

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	*l = (struct loss){.key = key, .kind = kind};
	if (!tsearch(l, &fs->inherited.losses, handover_by_id)) {
		free(l);
		return NULL;
	}
	return l;
}

/* All of it was read that will be. */
static void salvage(struct fs *fs, struct session *s, struct loss *l)
{
	struct session *left;
	struct problem why;

	problem_set(&why, PROBLEM_DAMAGED,
		    fs->keeping
			    ? "Read what you need of it. rmdir removes it, and what there is of it "
			      "in state_dir; if you unmount instead, the next mount has it as it "
			      "was written there."
			    : "Read what you need of it, and remove it: rmdir.",
		    "the daemon died, and what it left of the session can't be read: %s is damaged",
		    l->kind && l->kind != KEEP_SESSION ? words_of(l->kind) : "the session itself");
	snprintf(l->path, sizeof(l->path), "%s", s->path);
	l->was_removed = s->dead;
	left = keep_salvage(s, &why);
	l->is_left = left != NULL;
	l->left = left ? session_key(left) : 0;
}

/* Of one that is not there its name may be. */
static void read_name(struct loss *l, const struct record *rec)
{
	struct keep_name name;

	if (rec->kind == KEEP_SESSION && !*l->path && keep_get_name(rec, &name) == 0)
		snprintf(l->path, sizeof(l->path), "%s/%s", name.template, name.name);
}

static int lose_session(struct fs *fs, const struct record *rec, int err)
{
	struct session *s = keep_session(fs, rec->key);
	struct loss *l = note(fs, rec->key, rec->kind);

	if (!l || (s && s->sandbox)) /* that comes last, see load.c */
		return l ? err : -ENOMEM;
	if (!s)
		read_name(l, rec);
	else if (fs->inherited.complete)
		salvage(fs, s, l);
	return 0;
}

int handover_complete(struct fs *fs, struct problem *why)
{
	struct session *s, *next;
	struct loss *l;
	int e;

	if (!fs->inherited.died || fs->inherited.complete)
		return keep_complete(fs, why);
	fs->inherited.complete = true;
	for (s = LIST_FIRST(&fs->sessions); s; s = next) {
		next = LIST_NEXT(s, kept);
		e = keep_check(s);
		l = e < 0 ? note(fs, session_key(s), 0) : find(fs, session_key(s));
		if (e < 0 && !l)
			return -ENOMEM;
		if (l)
			salvage(fs, s, l);
	}
	return 0;
}

int handover_complete_files(struct fs *fs)
{
	struct session *s, *next;
	struct loss *l;
	int r;

	if (fs->inherited.filed)
		return 0;
	fs->inherited.filed = true;
	for (s = LIST_FIRST(&fs->sessions); s; s = next) {
		next = LIST_NEXT(s, kept);
		r = handover_join_files(s);
		if (r == 0)
			continue;
		if (!fs->inherited.died || s->sandbox)
			return r;
		l = note(fs, session_key(s), HANDOVER_NODE);
		if (!l)
			return -ENOMEM;
		salvage(fs, s, l);
	}
	return 0;
}

/* ---- records ---- */

/* Is its key a session's? */
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

bool handover_passes_over(const struct fs *fs, const struct record *rec)
{
	return is_of_session(rec->kind) && find(fs, rec->key) &&
	       !keep_session((struct fs *)fs, rec->key);
}

int handover_lost(struct fs *fs, const struct record *rec, int err)
{
	log_warn("a record of the daemon before can't be read: kind %u, key %llx: %s", rec->kind,
		 (unsigned long long)rec->key, strerror(-err));
	if (rec->kind == HANDOVER_SANDBOX && keep_session(fs, rec->key))
		return 0;
	if (is_of_session(rec->kind))
		return lose_session(fs, rec, err);
	switch (rec->kind) {
	case HANDOVER_HANDLE: return handover_lose_handle(fs, rec->key);
	case HANDOVER_TEXT: /* it is not as long as it should be */
	case KEEP_TEXT:
	case KEEP_BLOCK:
	case KEEP_REMOVAL:
	case HANDOVER_SLOT:
	case HANDOVER_STATS:
	case HANDOVER_AUDIT:
	case HANDOVER_ACCOUNT:
	case HANDOVER_COMPLAINTS: return 0;
	/* It may be whole, and there be no other one of it. */
	case HANDOVER_SAVED: return saved_take_passes(err) ? err : 0;
	default: return err;
	}
}

/* ---- telling ---- */

static void tell(struct fs *fs, const struct loss *l)
{
	struct session *left = l->is_left ? keep_session(fs, l->left) : NULL;
	char words[256];

	snprintf(words, sizeof(words),
		 "%s%s%s: the daemon died, and what it left of %s can't be read",
		 left	    ? ""
		 : *l->path ? l->path
			    : "one whose name is not known",
		 left ? "" : " is gone", left ? "failed" : "", words_of(l->kind));
	log_error("%s%s%s", left ? l->path : "", left ? " has " : "", words);
	events_add(&fs->events, left, "session", words);
}

struct telling {
	struct fs *fs;
	unsigned n;
};

static void on_loss(const void *node, VISIT visit, void *data)
{
	const struct loss *l = *(struct loss *const *)node;
	struct telling *t = data;

	if ((visit == postorder || visit == leaf) && !l->was_removed && t->n++ < TOLD_MOST)
		tell(t->fs, l);
}

void handover_tell_losses(struct fs *fs)
{
	struct telling t = {.fs = fs};
	char words[64];

	twalk_r(fs->inherited.losses, on_loss, &t);
	if (t.n > TOLD_MOST) {
		snprintf(words, sizeof(words), "%u more are lost", t.n - TOLD_MOST);
		log_error("%s", words);
		events_add(&fs->events, NULL, "session", words);
	}
	if (fs->inherited.lost_handles)
		log_error("%u open files are lost with the daemon before: EIO is the answer from "
			  "now on",
			  fs->inherited.lost_handles);
	handover_forget_losses(fs);
}

void handover_forget_losses(struct fs *fs)
{
	tdestroy(fs->inherited.losses, free);
	fs->inherited.losses = NULL;
	fs->inherited.lost_handles = 0;
}
