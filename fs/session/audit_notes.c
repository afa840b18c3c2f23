/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the audit log, by what they are about. See audit.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "fs.h"
#include "fs/config/key.h"
#include "job.h"
#include "session.h"
#include "vm/base/digest.h"

static void put_unreported(json_t *o, uint64_t n)
{
	if (n)
		json_object_set_new(o, "unreported", json_integer((json_int_t)n));
}

/* Of what changes nothing, and so can be done thousands of times a second, by who wants older lines rotated away. */
static void add_minor(struct fs *fs, const char *action, const struct session *s, json_t *more)
{
	uint64_t unreported = 0;

	if (fs->who.known &&
	    !audit_rate_take(&fs->audit->rate, fs->who.ctx.uid, uv_now(fs->loop), &unreported)) {
		fs->audit->changed = true;
		json_decref(more);
		return;
	}
	put_unreported(more, unreported);
	audit_add(fs, action, s, more);
}

void audit_mount(struct fs *fs, const char *what)
{
	json_t *o;

	if (!fs->audit)
		return;
	o = json_pack("{s:s, s:s}", "what", what, "version", XSBX_VERSION);
	put_unreported(o, audit_rate_rest(&fs->audit->rate));
	audit_add(fs, "mount", NULL, o);
}

void audit_session(const struct session *s, const char *what)
{
	if (s->fs->audit)
		audit_add(s->fs, "session", s, json_pack("{s:s}", "what", what));
}

void audit_checkpoint(const struct session *s, const char *name)
{
	char what[PLAIN_NAME_MAX + sizeof(" asked")];

	if (!s->fs->audit)
		return;
	snprintf(what, sizeof(what), "%s asked", name);
	audit_add(s->fs, "checkpoint", s, json_pack("{s:s}", "what", what));
}

/* ---- whether there is room ---- */

/* Most bytes that a text takes as JSON, and a NUL between two words. */
static size_t most_of(const struct buf *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len; i++) {
		const unsigned char c = (unsigned char)text->data[i];

		n += c < ' ' ? sizeof("\\u0000") - 1 : c == '"' || c == '\\' ? 2 : c < 0x80 ? 1 : 3;
	}
	return n;
}

int audit_may_run(const struct session *s, const struct buf *text, struct problem *ret_why)
{
	const struct audit *a = s->fs->audit;

	return audit_may(s->fs, a && a->code && text ? most_of(text) : 0, ret_why);
}

int audit_may_set(const struct session *s, const struct settings *with, struct problem *ret_why)
{
	struct buf text = {0};
	int e = -ENOMEM;

	if (!s->fs->audit || !s->fs->audit->required)
		return 0;
	/* New values, and the names of variables that go. */
	if (settings_render(with, &text) == 0 && settings_render(&s->settings, &text) == 0)
		e = audit_may(s->fs, most_of(&text), ret_why);
	buf_clear(&text);
	return e;
}

/* ---- runs ---- */

static void put_name(json_t *o, const struct run *r)
{
	if (*r->job)
		json_object_set_new(o, "job", audit_text(r->job, strlen(r->job)));
	else
		json_object_set_new(o, "run", json_integer(r->number));
}

static const struct job *job_of(const struct session *s, const struct run *r)
{
	const struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->front.latest == r)
			return j;
	return NULL;
}

/* A job without code has words. */
static void put_words(json_t *o, const struct job *j)
{
	json_t *words = json_array();
	const char *at = j->settings.argv.data, *end = at + j->settings.argv.len;

	while (at < end) {
		const size_t len = strnlen(at, (size_t)(end - at));

		json_array_append_new(words, audit_text(at, len));
		at += len + 1;
	}
	json_object_set_new(o, "argv", words);
}

void audit_run(const struct session *s, const struct run *r)
{
	const struct audit *a = s->fs->audit;
	const struct job *j = a ? job_of(s, r) : NULL;
	char sum[DIGEST_HEX];
	json_t *o;

	if (!a)
		return;
	o = json_object();
	put_name(o, r);
	json_object_set_new(o, "what", json_string("asked"));
	json_object_set_new(o, "code_bytes", json_integer((json_int_t)r->code.len));
	if (digest_of(r->code.data, r->code.len, sum) == 0)
		json_object_set_new(o, "code_sha256", json_string(sum));
	if (a->code && r->code.len)
		json_object_set_new(o, "code", audit_text(r->code.data, r->code.len));
	if (j && j->settings.argv.len && a->code)
		put_words(o, j);
	audit_add(s->fs, *r->job ? "job" : "run", s, o);
}

void audit_run_ended(const struct session *s, const struct run *r)
{
	const struct problem *p;
	json_t *o;

	if (!s->fs->audit)
		return;
	p = problem_kept(&r->problem);
	o = json_object();
	put_name(o, r);
	json_object_set_new(o, "what", json_string(run_state_str(r->state)));
	if (run_has_status(r)) {
		json_object_set_new(o, "exit_code", json_integer(r->result.status));
		json_object_set_new(o, "wall_ms",
				    json_integer((json_int_t)MIN(r->result.wall_us / 1000,
								 (uint64_t)INT64_MAX)));
	}
	if (p->code)
		json_object_set_new(o, "problem", json_string(problem_code_str(p->code)));
	audit_add(s->fs, *r->job ? "job" : "run", s, o);
}

/* ---- settings ---- */

/* The value of a key, as text; "" if out of memory. @b: for it */
static const char *value_of(const struct key *k, const struct settings *s, struct buf *b)
{
	const char *text;

	b->len = 0;
	(void)key_print(k, s, b);
	text = buf_str(b);
	return text ? text : "";
}

/* Names of the variables of @a that @b does not have, or with another value. Values may be secrets. */
static void put_env(json_t *o, const char *key, const struct sandbox_spec *a,
		    const struct sandbox_spec *b)
{
	json_t *names = json_array();

	for (size_t i = 0; i < a->nenv; i++) {
		bool same = false;

		for (size_t j = 0; j < b->nenv; j++)
			same = same || (strcmp(a->env[i].name, b->env[j].name) == 0 &&
					strcmp(a->env[i].value, b->env[j].value) == 0);
		if (!same)
			json_array_append_new(names,
					      audit_text(a->env[i].name, strlen(a->env[i].name)));
	}
	if (json_array_size(names))
		json_object_set_new(o, key, names);
	else
		json_decref(names);
}

void audit_config(const struct session *s, const struct settings *with)
{
	struct buf was = {0}, is = {0};
	json_t *o, *set;

	if (!s->fs->audit)
		return;
	o = json_object();
	set = json_object();
	for_each_key(k, CONF_SESSION)
	{
		const char *text = value_of(k, with, &is);

		if (strcmp(value_of(k, &s->settings, &was), text) != 0)
			json_object_set_new(set, k->name, audit_text(text, strlen(text)));
	}
	json_object_set_new(o, "set", set);
	put_env(o, "env_set", &with->spec, &s->settings.spec);
	put_env(o, "env_was", &s->settings.spec, &with->spec);
	buf_clear(&was);
	buf_clear(&is);
	audit_add(s->fs, "config", s, o);
}

/* ---- the rest ---- */

void audit_ctl(struct fs *fs, const struct front *f, const char *words, size_t len)
{
	json_t *o;

	if (!fs->audit)
		return;
	while (len && (words[len - 1] == '\n' || words[len - 1] == ' '))
		len--;
	o = json_pack("{s:o}", "words", audit_text(words, len));
	if (f && f->job)
		json_object_set_new(o, f->job->of_session ? "run" : "job",
				    audit_text(f->job->name, strlen(f->job->name)));
	audit_add(fs, "ctl", f ? f->s : NULL, o);
}

static json_t *problem_object(const struct problem *p)
{
	return json_pack("{s:s, s:o}", "problem", problem_code_str(p->code), "cause",
			 audit_text(p->cause, strlen(p->cause)));
}

void audit_problem(const struct front *f, const struct problem *p)
{
	if (p->code && f->s && f->s->fs && f->s->fs->audit && p->code != PROBLEM_IMAGE_MISSING &&
	    p->code != PROBLEM_PACKAGES_INSTALLING)
		add_minor(f->s->fs, "problem", f->s, problem_object(p));
}

void audit_complaint(struct fs *fs, const struct problem *p)
{
	if (p->code && fs->audit)
		add_minor(fs, "problem", NULL, problem_object(p));
}

void audit_denied(const struct session *s, const struct sandbox_denied *what, unsigned unreported)
{
	json_t *o;

	if (!s->fs->audit)
		return;
	o = json_pack("{s:o, s:o}", "name", audit_text(what->name, strlen(what->name)), "reason",
		      audit_text(what->reason, strlen(what->reason)));
	if (what->port)
		json_object_set_new(o, "port", json_integer(what->port));
	put_unreported(o, unreported);
	audit_add(s->fs, "denied", s, o);
}

void audit_connected(const struct session *s, const char *name, uint16_t port, unsigned unreported)
{
	json_t *o;

	if (!s->fs->audit)
		return;
	o = json_pack("{s:o, s:i}", "name", audit_text(name, strlen(name)), "port", (int)port);
	put_unreported(o, unreported);
	audit_add(s->fs, "connected", s, o);
}

void audit_unreported(struct fs *fs, uint64_t n)
{
	if (!fs->audit || !n)
		return;
	fs->audit->rate.forgotten += n;
	fs->audit->changed = true;
}

void audit_job_removed(const struct job *j)
{
	char words[128];

	if (!j->front.latest)
		return;
	snprintf(words, sizeof(words), "%s %s removed", job_noun(j), j->name);
	audit_event(j->s->fs, j->s, "history", words);
}

void audit_event(struct fs *fs, const struct session *s, const char *kind, const char *words)
{
	/* Of its states only those in which something is over; and what has lines of its own not again. */
	static const char *const told[] = {"closed", "failed", "asleep"};
	bool tells = strcmp(kind, "session") != 0;
	json_t *o;

	if (!fs->audit)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		tells = tells || strcmp(words, told[i]) == 0;
	if (!tells)
		return;
	o = json_pack("{s:o}", "what", audit_text(words, strlen(words)));
	if (strcmp(kind, "history") == 0)
		add_minor(fs, kind, s, o);
	else
		audit_add(fs, kind, s, o);
}
