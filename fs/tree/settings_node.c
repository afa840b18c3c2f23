/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that change settings: `config`, `net/allow`, `net/rules`, `net/secrets`. */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/network.h"
#include "fs/config/from.h"
#include "fs/config/network.h"
#include "fs/config/ruleset.h"
#include "fs/session/fork.h"
#include "fs/session/offer.h"
#include "vm/base/problem.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "fs/session/touch.h"

/*
 * Theory of operation
 * -------------------
 * These nodes are texts that are replaced by `>` and appended to by `>>`, and all change the session's
 * settings: `net/allow` is one of them, `allow`, as lines, and so are the other lists. So a write to any is first applied
 * to a copy of the settings, validated as a whole, applied to the sandbox if there is one, and only
 * then kept.
 *
 * Each write is validated and applied together with all earlier writes of the same open, because write(2) is
 * the last chance to report an error to a shell. After one that was refused so are all others of that open, as in `in`:
 * a shell's printf writes line by line, and who wrote several is not to have some of them. A program that writes in
 * blocks may split a line: then the last line is deferred to the next write, or to the flush.
 *
 * Opening `config` and writing nothing changes nothing. `net/allow` is a list, as others there, and `: > net/allow`
 * empties it: when the file is closed, because a shell flushes it before it has written anything.
 */

/* ---- settings ---- */

/* Is there something that was made by these settings, and goes on? */
static bool is_bound(const struct session *s)
{
	return s->sandbox || s->asleep.saved || s->saving.of;
}

/* Memory goes on where there is the card that it knows. @base: of what was saved, or is being. Return: 0; -EBUSY: there was none,
 * and now there are ports. */
static int check_ports(const struct settings *base, const struct settings *with,
		       struct problem *why)
{
	if (!settings_lack_card(base) || settings_lack_card(with))
		return 0;
	problem_set(why, PROBLEM_FROZEN,
		    "If it had some before: echo wake > ctl, then set them. "
		    "Else: echo close > ctl; echo reset > ctl; then change it.",
		    "ports cannot be added to what was saved with neither network nor ports");
	return -EBUSY;
}

/* Has it memory of its own, or will have, without a sandbox? */
static bool has_memory(const struct session *s)
{
	return s->saving.of || (s->asleep.saved && saved_has_memory(s->asleep.saved));
}

/* Applies @with to the sandbox, if there is one. Return: 0, -EBUSY for what can't change while it runs, -errno. */
static int take_effect(struct session *s, const struct settings *with)
{
	struct settings_key frozen;
	struct problem why;
	int e = 0;

	if (!is_bound(s))
		return 0;
	if (!settings_frozen_change(&s->settings, with, &frozen)) {
		if (s->sandbox)
			return network_apply(s, with);
		if (has_memory(s))
			e = check_ports(&s->settings, with, &why);
		if (e < 0)
			session_problem(s, &why);
		return e;
	}
	session_problemf(s, PROBLEM_FROZEN, "echo close > ctl; echo reset > ctl; then change it.",
			 s->sandbox ? "%s cannot change while the sandbox runs"
				    : "%s cannot change while the session is asleep",
			 frozen.name);
	return -EBUSY;
}

/* What was there before is not looked at again: the template may have it. */
static int check_secrets(const struct session *s, const struct settings *with, struct problem *why)
{
	const struct net_policy *old = &s->settings.spec.policy, *new = &with->spec.policy;
	const struct conf *conf = s->fs->conf;

	if (!strcmp(old->secrets, new->secrets) && !strcmp(old->secrets_file, new->secrets_file))
		return 0;
	return ruleset_may_use(with, &conf->vm.secrets, &conf->limits, s->uid, s->fs->uid, why);
}

/* Applies @with, or reports @why if @e is an error. */
static int settle(struct session *s, struct settings *with, int e, const struct problem *why)
{
	struct problem unaudited, no_secret = {0};

	if (e == 0) {
		e = check_secrets(s, with, &no_secret);
		why = e < 0 ? &no_secret : why;
	}
	if (e == 0 && audit_may_set(s, with, &unaudited) < 0) {
		e = -ENOSPC;
		why = &unaudited;
	}
	if (e == 0)
		e = take_effect(s, with);
	else if (why->code)
		session_problem(s, why);
	if (e < 0) {
		settings_clear(with);
		if (e != -ENOMEM && problem_kept(&s->front.error)->code)
			s->front.config_error = true; /* until valid settings are written */
		return e;
	}
	if (s->front.config_error)
		session_problem(s, NULL);
	touch_rest(s);
	audit_config(s, with);
	settings_clear(&s->settings);
	s->settings = *with;
	s->config_mtime = clock_now();
	session_used(s);
	keeping_changed(s);
	return 0;
}

/* How many lines a reader of `config` finds there, above what is added. */
static unsigned lines_shown(const struct session *s)
{
	struct buf shown = {0};
	unsigned n = 0;

	if (settings_render(&s->settings, &shown) == 0) {
		for (size_t i = 0; i < shown.len; i++)
			n += shown.data[i] == '\n';
	}
	buf_clear(&shown);
	return n;
}

/* Makes settings of @base and a text. @ret_packages: is it packages that are wrong? */
static int read_settings(struct session *s, const struct settings *base, const char *text,
			 size_t len, struct settings *with, bool *ret_packages, struct problem *why)
{
	const unsigned above = base == &s->settings ? lines_shown(s) : 0;
	int e = settings_copy(with, base);

	if (e == 0)
		e = settings_parse(with, text, len, above, &s->fs->conf->limits, why);
	*ret_packages = e == 0;
	if (e == 0)
		e = packages_settle((char **)&with->spec.packages, with->spec.language,
				    &s->fs->conf->packages, false, why);
	return e;
}

/* Would @text do if it were added to what is set? */
static bool could_be_added(struct session *s, const char *text, size_t len)
{
	struct settings with = {0};
	struct settings_key frozen;
	struct problem why;
	bool packages;
	const bool could = read_settings(s, &s->settings, text, len, &with, &packages, &why) == 0 &&
			   !(is_bound(s) && settings_frozen_change(&s->settings, &with, &frozen));

	settings_clear(&with);
	return could;
}

/* Whoever writes a line with `>` may mean `>>`, and is not to read of keys he did not write without a word about that.
 * @e, @with, @why: What came of it. Return: the same error, or -EBUSY. */
static int explain_replacing(struct session *s, const char *text, size_t len,
			     const struct settings *with, int e, struct problem *why)
{
	struct settings_key frozen;
	const bool stuck =
		e == 0 && is_bound(s) && settings_frozen_change(&s->settings, with, &frozen);

	if ((e != -EINVAL && !stuck) || !could_be_added(s, text, len))
		return e;
	problem_set(why, stuck ? PROBLEM_FROZEN : why->code,
		    "Use >> to add a line to what is set: echo 'KEY = VALUE' >> config.",
		    "> starts again from the settings of the template: %s%s",
		    stuck ? frozen.name : why->cause,
		    !stuck ? ""
		    : s->sandbox
			    ? " would change with that, and cannot while the sandbox runs"
			    : " would change with that, and cannot while the session is asleep");
	return stuck ? -EBUSY : e;
}

static int apply_text(struct session *s, const struct settings *base, const char *text, size_t len)
{
	struct settings with = {0};
	struct problem why = {0};
	bool packages;
	int e = read_settings(s, base, text, len, &with, &packages, &why);

	if (e == -EINVAL && packages)
		offer_look_up(s, &with, &why);
	if (base != &s->settings)
		e = explain_replacing(s, text, len, &with, e, &why);
	return settle(s, &with, e, &why);
}

/* ---- copies ---- */

/*
 * A text with a line `from = VALUE` makes the session a copy, and begins from the settings of what it is a copy of; the
 * other lines may change what a sandbox's settings may be changed to. (That it is to be made when what is copied is idle
 * may have been written before.) Where it is that copy already, the line says nothing new, so that `config` can be
 * written back as it was read.
 */

static int refuse_copy(const struct session *s, const char *value, struct problem *why)
{
	problem_set(why, PROBLEM_FROZEN, "Make another session: mkdir, and write it there.",
		    s->sandbox ? "it can't become a copy of \"%s\" while its sandbox runs"
			       : "it can't become a copy of \"%s\": it is asleep, with files and "
				 "variables of its own",
		    problem_quote(value).text);
	return -EBUSY;
}

/* Reads the settings of a copy. Return: 0 or -errno, with @why. */
static int read_copy(struct session *s, const struct fork *f, const char *value, const char *text,
		     size_t len, struct settings *with, struct problem *why)
{
	struct settings base = {0};
	struct settings_key frozen;
	bool packages;
	int e = fork_settings(f, value, &base);

	if (e == 0)
		e = read_settings(s, &base, text, len, with, &packages, why);
	if (e == 0 && settings_frozen_change(&base, with, &frozen)) {
		problem_set(why, PROBLEM_FROZEN, "Leave it out.",
			    "%s is that of what is copied, and cannot differ", frozen.name);
		e = -EINVAL;
	}
	if (e == 0)
		e = check_ports(&base, with, why);
	settings_clear(&base);
	return e;
}

static int apply_copy(struct session *s, const struct settings *base, const char *value,
		      const char *text, size_t len)
{
	struct settings with = {0};
	struct problem why = {0};
	struct fork f;
	int e = is_bound(s) ? refuse_copy(s, value, &why) : fork_find(s, value, &f, &why);

	if (e == 0)
		e = read_copy(s, &f, value, text, len, &with, &why);
	if (e == 0)
		e = fork_may(&f, with.when == SAVE_IDLE || base->when == SAVE_IDLE, &why);
	e = settle(s, &with, e, &why);
	if (e == 0)
		fork_begin(s, &f);
	return e;
}

static int apply(struct session *s, const struct settings *base, const char *text, size_t len)
{
	char value[FROM_MAX] = "";
	const bool named = from_find(text, len, value);
	const int e = session_check_damaged(s);

	if (e < 0)
		return e;
	if (named && strcmp(value, s->settings.from) == 0)
		return apply_text(s, *value ? &s->settings : base, text, len);
	return *value ? apply_copy(s, base, value, text, len) : apply_text(s, base, text, len);
}

int config_replace(struct session *s, const char *text, size_t len)
{
	return apply(s, &s->t->settings, text, len);
}

/* ---- lists ---- */

static int set_list(const struct session *s, struct settings *with, enum node_kind which,
		    const char *text, size_t len, struct problem *why)
{
	const struct settings_limits *limits = &s->fs->conf->limits;

	switch ((int)which) {
	case NODE_NET_RULES: return ruleset_rules(with, text, len, limits, why);
	case NODE_NET_SECRETS: return ruleset_secrets(with, text, len, why);
	default: return netset_allow(with, text, len, limits, why);
	}
}

static const char *list_of(const struct settings *s, enum node_kind which)
{
	switch ((int)which) {
	case NODE_NET_RULES: return ruleset_text(s, RULESET_RULES);
	case NODE_NET_SECRETS: return ruleset_text(s, RULESET_SECRETS);
	default: return s->spec.allow;
	}
}

/* Makes a list of @with's of @text. */
static int take_list(const struct session *s, struct settings *with, enum node_kind which,
		     const char *text, size_t len, struct problem *why)
{
	int e;

	if (len && memchr(text, '\0', len))
		return problem_set(why, PROBLEM_INVALID, "Write plain text.",
				   "the list holds a NUL byte");
	e = set_list(s, with, which, text, len, why);
	if (e < 0 || with->spec.network || !*list_of(with, which))
		return e;
	problem_set(why, PROBLEM_NETWORK_OFF,
		    "echo 'network = on' >> config, before the first run or after `close`.",
		    "this sandbox has no network, so there is nothing to allow");
	return -ENETDOWN;
}

int config_list(struct session *s, enum node_kind which, const char *text, size_t len)
{
	struct settings with = {0};
	struct problem why = {0};
	int e = session_check_damaged(s);

	if (e < 0)
		return e;
	e = settings_copy(&with, &s->settings);
	if (e == 0)
		e = take_list(s, &with, which, text, len, &why);
	return settle(s, &with, e, &why);
}

int config_list_begin(struct session *s, enum node_kind which, const char *text)
{
	struct buf all = {0};
	int e = buf_printf(&all, "%s\n%s", text, list_of(&s->settings, which));

	if (e == 0)
		e = config_list(s, which, all.data, all.len);
	buf_clear(&all);
	return e;
}

static int add_to_list(struct session *s, enum node_kind which, const char *text, size_t len)
{
	struct buf all = {0};
	int e = buf_printf(&all, "%s\n", list_of(&s->settings, which));

	if (e == 0)
		e = buf_append(&all, text, len);
	if (e == 0)
		e = config_list(s, which, all.data, all.len);
	buf_clear(&all);
	return e;
}

/* ---- the nodes ---- */

static bool is_list(const struct handle *h)
{
	const enum node_kind kind = ino_kind(h->ino);

	return kind == NODE_NET_ALLOW || kind == NODE_NET_RULES || kind == NODE_NET_SECRETS;
}

static bool appends(const struct handle *h)
{
	return h->flags & O_APPEND;
}

/* Applies what was written to this open. */
static int commit(struct handle *h)
{
	struct session *s = h->s;
	const size_t len = h->text.len;
	const char *text = len ? h->text.data : "";
	int e;

	if (h->job)
		e = job_config_apply(h->job, appends(h), text, len);
	else if (is_list(h))
		e = appends(h) ? add_to_list(s, ino_kind(h->ino), text, len)
			       : config_list(s, ino_kind(h->ino), text, len);
	else
		e = appends(h) ? apply(s, &s->settings, text, len) : config_replace(s, text, len);
	if (!appends(h))
		return e;
	/* Whole lines are added only once: somebody may have removed them before more is written. */
	if (e == 0 && len && text[len - 1] == '\n') {
		h->text.len = 0;
		handle_rewrite(h, 0);
	}
	return e;
}

int config_render(const struct node *n, struct buf *out)
{
	return settings_render(&n->s->settings, out);
}

void config_limit(struct handle *h)
{
	h->text.limit = h->job ? JOB_TEXT_MAX : SETTINGS_TEXT_MAX;
}

static int config_open(struct handle *h)
{
	if (handle_writes(h))
		config_limit(h);
	return 0; /* what is read is rendered */
}

/* What was written before may have been lines that are wanted, so a program's rest is not cut off in silence. */
static int refuse_long(const struct handle *h)
{
	front_problemf(h->front, PROBLEM_TOO_LONG, "Write less.",
		       "more than %zu bytes were written in one go", h->text.limit);
	h->front->config_error = true; /* mended when they are set well */
	return -EFBIG;
}

static int config_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	size_t len;
	int e;

	if (front_is_gone(h->front))
		return -ESTALE;
	if (!appends(h) && offset < h->text.len) { /* it starts over */
		handle_rewrite(h, (size_t)offset);
		buf_truncate(&h->text, (size_t)offset);
		h->failed = 0;
	}
	if (h->failed)
		return h->failed; /* `error` says why */
	len = h->text.len;
	e = quota_take(h->s, len, len + size);
	if (e == 0)
		e = buf_append(&h->text, data, size);
	if (e == -EFBIG)
		e = refuse_long(h);
	/* A program that writes whole blocks has more to write, and half of a text would reset the settings of the
	 * other half. So after a whole block, the text takes effect with the next write, or when the file is
	 * closed. */
	h->dirty = e == 0 && size % 4096 == 0;
	if (h->dirty)
		return 0;
	if (e == 0)
		e = commit(h);
	if (e < 0) {
		h->text.len = len;
		h->failed = e;
	}
	return e;
}

static int config_truncate(struct handle *h, uint64_t size)
{
	if (size > h->text.len)
		return -EINVAL;
	if (size == 0) {
		h->flags |= O_TRUNC;
		h->failed = 0; /* it starts over */
	}
	handle_rewrite(h, (size_t)size);
	return buf_truncate(&h->text, (size_t)size);
}

static int config_flush(struct handle *h, bool killed)
{
	h->killed = killed;
	if (!handle_writes(h) || !h->dirty || killed || front_is_gone(h->front))
		return 0;
	h->dirty = false;
	h->failed = commit(h);
	return h->failed;
}

static void config_release(struct handle *h)
{
	bool emptied = handle_writes(h) && (h->flags & O_TRUNC) && !appends(h) && h->text.len == 0;

	if (is_list(h) && emptied && !h->failed && !h->killed && !h->s->dead)
		(void)config_list(h->s, ino_kind(h->ino), "",
				  0); /* an empty list is always valid */
}

const struct handle_ops config_ops = {
	.open = config_open,
	.read = text_read,
	.write = config_write,
	.truncate = config_truncate,
	.flush = config_flush,
	.release = config_release,
};
