/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the sessions of the state directory, when the mount begins. See keeper.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "keeper_internal.h"
#include "vm/base/aim.h"
#include "vm/base/log.h"

#define NAMED_MOST 3u /* in one sentence */

/* What the root's `error` says to one user. */
struct unread {
	struct unread *next;
	uid_t uid;
	unsigned n;
	char names[NAMED_MOST * 140]; /* of the first ones */
	struct problem why;	      /* of the first one */
};

/* What was found. */
struct finding {
	struct keeper *k;
	struct buf ids; /* names of all that is saved, VAULT_ID_MAX bytes each */
	unsigned found, damaged;
	unsigned homeless; /* of templates that are not there any more, */
	char first[140];   /* ... the first of them */
	/* Sessions that are shown, and can't be read, of each user who has some. */
	struct unread *unread;
	bool unsure; /* there may be more that is saved than we know of */
};

/* ---- what is in no record ---- */

static int on_back(void *data, const struct keep_output *o, struct spool *sp)
{
	(void)data;
	(void)o;
	sp->kept = true;
	return 0;
}

static int put_code(void *data, const void *bytes, size_t len)
{
	return buf_append(data, bytes, len);
}

static int on_code_back(void *data, const struct session *s, const struct keep_output *o,
			struct run *r, uint64_t len)
{
	const struct finding *f = data;
	const struct store_name of = keeper_name(s);
	const struct store_output name = keeper_code_name(o, r);
	int e = buf_reserve(&r->code, (size_t)len);

	if (e == 0)
		e = store_get_output(&f->k->store, &of, &name, len, put_code, &r->code);
	if (e < 0 && e != -ENOMEM)
		log_warn("%s/%s: the code of %s can't be read: %s", of.template, of.name,
			 run_words(r).text, strerror(-e));
	return e;
}

static int on_find(void *data, const char *name, struct saved **ret_saved, struct problem *why)
{
	struct finding *f = data;
	char id[VAULT_ID_MAX] = "";
	int r;

	if (strlen(name) >= sizeof(id)) {
		problem_set(why, PROBLEM_DAMAGED, "", "its name is none");
		return -EBADMSG;
	}
	snprintf(id, sizeof(id), "%s", name);
	r = buf_append(&f->ids, id,
		       sizeof(id)); /* also if it is damaged: it stays until that is removed */
	if (r < 0)
		return r;
	r = vault_find(f->k->vault, name, ret_saved, why);
	if (r == -EBADMSG && vault_stand_in(f->k->vault, name, ret_saved) < 0)
		return -ENOMEM;
	return r;
}

/* ---- one that is there, and can't be read ---- */

static void note_unread(struct finding *f, const struct session *s, const struct problem *why)
{
	struct unread *u = f->unread;
	size_t len;

	while (u && u->uid != s->uid)
		u = u->next;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return; /* its own `error` says it */
		*u = (struct unread){.next = f->unread, .uid = s->uid, .why = *why};
		f->unread = u;
	}
	len = strlen(u->names);
	if (u->n++ < NAMED_MOST)
		snprintf(u->names + len, sizeof(u->names) - len, "%s%s", len ? ", " : "", s->path);
}

static void tell_unread(struct finding *f)
{
	struct unread *u;
	struct problem p;

	while ((u = f->unread)) {
		if (u->n == 1)
			problem_set(&p, u->why.code, u->why.fix, "%s: %s", u->names, u->why.cause);
		else
			problem_set(&p, u->why.code, "The `error` of each says why.",
				    "%u sessions can't be read from state_dir: %s%s", u->n,
				    u->names, u->n > NAMED_MOST ? " ..." : "");
		complaint_tell(f->k->fs, u->uid, &p);
		f->unread = u->next;
		free(u);
	}
}

static void show_damaged(struct finding *f, const char *template, const char *name,
			 const struct keep_name *whose, const struct problem *why)
{
	struct fs *fs = f->k->fs;
	const int i = conf_template_index(fs->conf, template);
	struct session *s;
	struct problem p;

	problem_set(
		&p, why->code,
		why->code != PROBLEM_DAMAGED
			? why->fix
			: "rmdir removes it, and what there is of it in state_dir. " KEEPING_MEND,
		"the session can't be read from state_dir: %s", why->cause);
	log_warn("%s/%s: %s", template, name, p.cause);
	f->damaged++;
	f->unsure = true;
	if (i < 0 ||
	    session_revive(fs, (unsigned)i, name, whose ? whose->uid : fs->uid, NULL, &s) < 0)
		return;
	s->gid = whose ? whose->gid : fs->gid;
	s->on_disk.damaged = true;
	problem_keep(&s->closed, &p);
	session_set_state(s, SESSION_FAILED);
	session_problem(s, &p);
	note_unread(f, s, &p);
}

/* ---- one of them ---- */

static int read_record(struct finding *f, const char *template, const char *name, struct buf *text,
		       struct record *ret, struct problem *why)
{
	const int e = keeper_read(f->k, template, name, text, ret);

	if (e == -EBADMSG)
		problem_set(why, PROBLEM_DAMAGED, "", "its record is damaged");
	else if (e == -EKEYREJECTED)
		problem_set(why, PROBLEM_DAMAGED, "", "its record was sealed with another key");
	else if (e < 0)
		problem_set(why, PROBLEM_DAMAGED, "", "%s", strerror(-e));
	return e;
}

/* Is it what its place says, and somebody's who may have sessions here? */
static int check_name(const struct fs *fs, const char *template, const char *name,
		      const struct keep_name *is, struct problem *why)
{
	if (strcmp(is->template, template) != 0 || strcmp(is->name, name) != 0) {
		problem_set(why, PROBLEM_DAMAGED, "", "its record is another session's");
		return -EBADMSG;
	}
	if (is->uid == fs->uid || fs->conf->allow_other)
		return 0;
	problem_set(
		why, PROBLEM_DAMAGED, "",
		"it belongs to another user, and without allow_other only who mounts has sessions");
	return -EPERM;
}

static void found(struct finding *f, struct session *s, const struct buf *text)
{
	f->found++;
	s->on_disk.sum = keeper_sum(text);
	s->on_disk.bytes = text->len;
}

static void load_one(void *data, const char *template, const char *name)
{
	struct finding *f = data;
	struct keeper *k = f->k;
	const struct keep_io io = {
		.data = f, .back = on_back, .code_back = on_code_back, .find = on_find};
	struct problem why = {0};
	struct keep_name is = {0};
	struct buf text = {0};
	struct record record;
	struct session *s = NULL;
	struct keeper_held *held;
	int e = read_record(f, template, name, &text, &record, &why);

	/* Before anything is found of it, and let go of. */
	held = keeper_hold(k, template, name, e == 0 ? &record : NULL);
	if (conf_template_index(k->fs->conf, template) < 0) {
		if (!f->homeless++)
			snprintf(f->first, sizeof(f->first), "%s/%s", template, name);
		f->unsure = true;
		buf_clear(&text);
		return;
	}
	if (e == 0) {
		e = keep_get_name(&record, &is);
		if (e < 0)
			problem_set(&why, PROBLEM_DAMAGED, "", "its record is damaged");
	}
	if (e == 0)
		e = check_name(k->fs, template, name, &is, &why);
	if (e == 0)
		e = keep_get(k->fs, &record, &io, &why, &s);
	if (e < 0)
		show_damaged(f, template, name, *is.name && e != -EPERM ? &is : NULL, &why);
	else if (s)
		found(f, s, &text);
	if (e == 0)
		keeper_hold_no_more(k, held);
	buf_clear(&text);
	aim_at("kept: is read, %s/%s", template, name);
}

/* ---- all of them ---- */

struct sweeping {
	struct fs *fs;
	unsigned template;
};

static bool is_wanted(void *data, const char *name, const char *id)
{
	const struct sweeping *sw = data;
	const struct session *s = session_find(sw->fs, sw->template, name);

	return s && (s->on_disk.damaged || strcmp(store_id(&s->created).text, id) == 0);
}

/* What nobody has a name for any more: it was being written, or removed, when the last daemon ended. What can't be read may have
 * outputs and names as well: then all stays. */
static void sweep(struct finding *f)
{
	struct fs *fs = f->k->fs;
	const char **ids;
	const size_t n = f->ids.len / VAULT_ID_MAX;

	if (f->unsure)
		return;
	for (unsigned i = 0; i < fs->conf->ntemplates; i++) {
		struct sweeping sw = {fs, i};

		store_sweep(&f->k->store, fs->conf->template[i].name, is_wanted, &sw);
	}
	ids = calloc(n + 1, sizeof(char *));
	if (!ids)
		return;
	for (size_t i = 0; i < n; i++)
		ids[i] = f->ids.data + i * VAULT_ID_MAX;
	vault_keep(f->k->vault, ids, n);
	free(ids);
}

static void tell(struct finding *f)
{
	struct fs *fs = f->k->fs;
	struct problem p;

	tell_unread(f);
	if (f->found || f->damaged)
		log_info("%u session%s found in state_dir", f->found, f->found == 1 ? "" : "s");
	if (!f->homeless)
		return;
	problem_set(&p, PROBLEM_NO_SUCH_TEMPLATE,
		    "Mount with a configuration that has the template; or remove what is below "
		    "`sessions` in state_dir.",
		    "%u session%s in state_dir %s not shown, for there is no such template: %s%s",
		    f->homeless, f->homeless == 1 ? "" : "s", f->homeless == 1 ? "is" : "are",
		    f->first, f->homeless == 1 ? "" : " is the first");
	log_warn("%s", p.cause);
	complaint_tell(fs, fs->uid, &p);
}

void keeper_load(struct keeper *k)
{
	struct finding f = {.k = k};
	struct problem p;
	int r;

	k->loading = true;
	r = store_list(&k->store, load_one, &f);
	keep_join(k->fs);
	keeper_accounts_load(k);
	if (r < 0) {
		f.unsure = true;
		(void)keeper_hold(k, "", "", NULL);
		problem_set(&p, PROBLEM_FAILED, "Mend its disk, and mount again.",
			    "the sessions in state_dir can't be listed, or not all of them: %s",
			    strerror(-r));
		log_error("%s", p.cause);
		complaint_tell(k->fs, k->fs->uid, &p);
	}
	keeper_hold_found(k);
	sweep(&f);
	tell(&f);
	buf_clear(&f.ids);
	reserve_fill(&k->store.reserve, k->store.dir);
	k->loading = false;
}
