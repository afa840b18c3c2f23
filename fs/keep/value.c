/* SPDX-License-Identifier: Apache-2.0 */
/* Values of records: problems, texts, settings, what is saved. */
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"
#include "vm/base/problem_record.h"

/* ---- fields ---- */

int keep_fields(struct keep_in *in, struct record_reader fields, keep_field_fn fn, void *to)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = fn(in, to, &f);
		if (r < 0)
			return r;
	}
	return r;
}

int keep_inside(struct keep_in *in, const struct record_field *f, keep_field_fn fn, void *to)
{
	return f->is_bytes ? keep_fields(in, record_inside(f), fn, to) : -EBADMSG;
}

/* ---- problems ---- */

void keep_put_problem(struct buf *out, unsigned tag, const struct problem *p)
{
	problem_put(out, tag, p);
}

int keep_get_problem(const struct record_field *f, struct problem *ret_p)
{
	return problem_get(f, ret_p);
}

void keep_put_kept(struct buf *out, unsigned tag, const struct problem_kept *k)
{
	keep_put_problem(out, tag, problem_kept(k));
}

int keep_get_kept(const struct record_field *f, struct problem_kept *k)
{
	struct problem p;
	const int r = keep_get_problem(f, &p);

	if (r == 0)
		problem_keep(k, &p);
	return r;
}

/* ---- texts and numbers ---- */

void keep_put_u64(struct buf *out, unsigned tag, uint64_t v)
{
	if (v)
		record_u64(out, tag, v);
}

void keep_put_buf(struct buf *out, unsigned tag, const struct buf *b)
{
	if (b->len)
		record_bytes(out, tag, b->data, b->len);
}

int keep_get_buf(const struct record_field *f, struct buf *dest, size_t most)
{
	if (!f->is_bytes || f->len > most)
		return -EBADMSG;
	return record_get_buf(f, dest);
}

int keep_get_text(const struct record_field *f, char **dest, size_t most)
{
	char *text;

	if (!f->is_bytes || f->len > most || memchr(f->data, 0, f->len))
		return -EBADMSG;
	text = f->len ? strndup(f->data, f->len) : NULL;
	if (f->len && !text)
		return -ENOMEM;
	free(*dest);
	*dest = text;
	return 0;
}

bool keep_env_is_sound(const struct buf *env)
{
	struct problem why;
	char name[160];

	if (env->len && env->data[env->len - 1])
		return false;
	for (size_t i = 0; i < env->len; i += strlen(env->data + i) + 1) {
		const size_t n = strcspn(env->data + i, "=");

		if (!env->data[i + n] || n >= sizeof(name))
			return false;
		snprintf(name, sizeof(name), "%.*s", (int)n, env->data + i);
		if (settings_check_env_name(name, &why) < 0)
			return false;
	}
	return true;
}

/* ---- settings ---- */

/* As `config` shows them, without comments. */
int keep_put_settings(struct buf *out, unsigned tag, const struct settings *s)
{
	struct buf text = {0};
	const int r = settings_render(s, &text);
	size_t at;

	if (r < 0) {
		out->failed = out->failed ? out->failed : r;
		buf_clear(&text);
		return r;
	}
	at = record_open(out, tag);
	for (size_t i = 0, n; i < text.len; i += n) {
		const char *end = memchr(text.data + i, '\n', text.len - i);

		n = end ? (size_t)(end - (text.data + i)) + 1 : text.len - i;
		if (text.data[i] != '#' && text.data[i] != '\n')
			buf_append(out, text.data + i, n);
	}
	record_close(out, at);
	buf_clear(&text);
	return out->failed;
}

/* The template's variables are not the session's, whose text has all of its own. Return: 0 or -ENOMEM. */
static int unset_all(const struct conf_template *t, struct buf *text)
{
	int r = 0;

	for (size_t i = 0; i < t->settings.spec.nenv && r == 0; i++)
		r = buf_printf(text, "unset env.%s\n", t->settings.spec.env[i].name);
	return r;
}

int keep_get_settings(struct keep_in *in, const struct record_field *f, struct settings *dest,
		      struct problem *why)
{
	/* What a session has that goes on was allowed, whatever is by now. */
	const struct settings_limits *limits = in->io->live ? NULL : &in->fs->conf->limits;
	struct settings with = {0};
	struct buf text = {0};
	int r;

	if (!f->is_bytes || f->len > SETTINGS_TEXT_MAX)
		return -EBADMSG;
	r = settings_copy(&with, &in->s->t->settings);
	if (r == 0)
		r = unset_all(in->s->t, &text);
	if (r == 0)
		r = buf_append(&text, f->data, f->len);
	if (r == 0)
		r = settings_parse(&with, text.data, text.len, 0, limits, why);
	buf_clear(&text);
	if (r < 0) {
		settings_clear(&with);
		return r == -EINVAL ? 1 : r;
	}
	settings_clear(dest);
	*dest = with;
	return 0;
}

int keep_not_allowed(struct keep_in *in, const char *whose, const struct problem *why)
{
	if (in->io->live)
		problem_set(&in->not_allowed, why->code, why->fix, "%s settings can't be: %s",
			    whose, why->cause);
	else
		problem_set(&in->not_allowed, why->code,
			    "Mount with a configuration that allows it; until then it stays as it "
			    "is in state_dir. rmdir removes it.",
			    "%s settings are not allowed in this mount: %s", whose, why->cause);
	return -EACCES;
}

/* ---- bytes that grow ---- */

enum { TEXT_ID = 1, TEXT_AT, TEXT_LEN, TEXT_BYTES }; /* never reuse */

void keep_put_text(struct keep_out *o, unsigned tag, struct trail *t, uint64_t at,
		   const char *bytes, size_t len)
{
	const uint64_t id = o->io->text(o->io->data, t, at, bytes, len);
	size_t field;

	if (!len && !at)
		return;
	field = record_open(o->out, tag);
	keep_put_u64(o->out, TEXT_ID, id);
	keep_put_u64(o->out, TEXT_AT, at);
	if (id)
		record_u64(o->out, TEXT_LEN, len);
	else if (len)
		record_bytes(o->out, TEXT_BYTES, bytes, len);
	record_close(o->out, field);
}

struct texting {
	uint64_t id, at, len;
	struct record_field bytes;
};

static int text_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct texting *of = to;

	(void)in;
	switch (f->tag) {
	case TEXT_ID: return record_get(f, 1, UINT64_MAX, &of->id);
	case TEXT_AT: return record_get(f, 0, UINT64_MAX / 2, &of->at);
	case TEXT_LEN: return record_get(f, 1, RECORD_MAX, &of->len);
	case TEXT_BYTES: of->bytes = *f; return 0;
	default: return 0;
	}
}

int keep_get_text_of(struct keep_in *in, const struct record_field *f, struct trail *t,
		     struct buf *dest, size_t most, uint64_t *ret_at)
{
	struct texting of = {0};
	int e = in->io->live ? keep_inside(in, f, text_field, &of) : -EBADMSG;

	if (e == 0 && (of.len > most || (of.id != 0) != (of.len != 0) || (of.id && of.bytes.len) ||
		       (!ret_at && of.at)))
		e = -EBADMSG;
	if (e < 0)
		return e;
	if (ret_at)
		*ret_at = of.at;
	if (of.id) {
		t->id = of.id;
		return in->io->text_back(in->io->data, t, of.at, (size_t)of.len, dest);
	}
	return of.bytes.len ? keep_get_buf(&of.bytes, dest, most) : 0;
}

/* ---- what is saved ---- */

bool keep_put_saved(struct keep_out *o, unsigned tag, const struct saved *saved)
{
	const char *name = saved ? o->io->name(o->io->data, saved) : NULL;

	if (name)
		record_str(o->out, tag, name);
	return name;
}

static int get_name(const struct record_field *f, char name[KEEP_NAME_MAX])
{
	const int r = record_get_str(f, name, KEEP_NAME_MAX);

	return r == 0 && !*name ? -EBADMSG : r;
}

int keep_name(const struct keep_naming *to, const struct record_field *f)
{
	char name[KEEP_NAME_MAX];
	const int r = get_name(f, name);

	return r < 0 ? r : to->fn(to->data, name);
}

int keep_get_saved(struct keep_in *in, const struct record_field *f, struct saved **dest,
		   struct problem *why)
{
	char name[KEEP_NAME_MAX];
	struct saved *saved = NULL;
	int r = get_name(f, name);

	if (r < 0)
		return r;
	r = in->io->find(in->io->data, name, &saved, why);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return r; /* it may be there another time */
	if (saved) {
		saved_unref(*dest);
		*dest = saved;
	}
	return r < 0;
}

void keep_miss(struct keep_missing *m, const struct problem *why)
{
	if (m->n++ == 0)
		m->first = *why;
}
