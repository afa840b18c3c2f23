/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a job. See job.h. */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "key.h"
#include "value.h"
#include "vm/base/problem.h"
#include "words.h"

#define AT(member) offsetof(struct job_settings, member)

/* Beside argv and env.NAME. Numbers have a standard for what is said of wrong ones; that of timeout_s is the session's. */
static const struct key keys[] = {
	{"language", CONF_SESSION, KEY_TEXT, AT(language),
	 .comment = "What executes `in`: empty, a shell, or as its first line (#!) says; or the "
		    "template's language."},
	{"cwd", CONF_SESSION, KEY_TEXT, AT(cwd),
	 .comment = "Working directory: absolute, or below files/."},
	{"timeout_s", CONF_SESSION, KEY_NUMBER, AT(timeout_s), "60", 0, JOB_TIMEOUT_MAX,
	 KEY_ENDLESS, offsetof(struct settings_limits, max_timeout_s),
	 .comment = "Longest time it may take, in seconds; 0 is no limit."},
	{"stdin", CONF_SESSION, KEY_SWITCH, AT(input), .words = {"file", "open"},
	 .comment = "open: standard input ends when the first who writes it has closed it, or by "
		    "`eof`."},
	{"tty", CONF_SESSION, KEY_FLAG, AT(tty), .words = {"no", "yes"},
	 .comment = "Run it on a terminal."},
	{"rows", CONF_SESSION, KEY_NUMBER, AT(rows), "24", 1, 1000, KEY_LIVE,
	 .comment = "Size of the terminal."},
	{"cols", CONF_SESSION, KEY_NUMBER, AT(cols), "80", 1, 1000, KEY_LIVE},
	{"nice", CONF_SESSION, KEY_NUMBER, AT(nice), "5", 0, PROTO_NICE_MAX,
	 .comment = "How much it gives way to the interpreter and to other jobs: 0 to 19."},
	{"user", CONF_SESSION, KEY_SWITCH, AT(root), .words = {"user", "root"},
	 .comment = "root, where the template allows it."},
};

static const struct key *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

int job_settings_init(struct job_settings *js, const struct settings *of_session)
{
	*js = (struct job_settings){
		.timeout_s = of_session->timeout_s,
		.rows = 24,
		.cols = 80,
		.nice = JOB_NICE,
		.argv.limit = JOB_ARGV_MAX,
		.env.limit = JOB_ENV_MAX,
	};
	return 0;
}

void job_settings_clear(struct job_settings *js)
{
	free(js->language);
	free(js->cwd);
	buf_clear(&js->argv);
	buf_clear(&js->env);
	js->language = js->cwd = NULL;
}

int job_settings_copy(struct job_settings *dst, const struct job_settings *src)
{
	struct job_settings copy = *src;
	int e;

	copy.language = src->language ? strdup(src->language) : NULL;
	copy.cwd = src->cwd ? strdup(src->cwd) : NULL;
	copy.argv = (struct buf){.limit = JOB_ARGV_MAX};
	copy.env = (struct buf){.limit = JOB_ENV_MAX};
	e = buf_append(&copy.argv, src->argv.data, src->argv.len);
	if (e == 0)
		e = buf_append(&copy.env, src->env.data, src->env.len);
	if (e < 0 || (src->language && !copy.language) || (src->cwd && !copy.cwd)) {
		job_settings_clear(&copy);
		return -ENOMEM;
	}
	*dst = copy;
	return 0;
}

size_t job_settings_bytes(const struct job_settings *js)
{
	return js->argv.len + js->env.len + (js->language ? strlen(js->language) : 0) +
	       (js->cwd ? strlen(js->cwd) : 0);
}

/* ---- variables ---- */

/* Return: offset of the variable @name, or the end. */
static size_t env_find(const struct buf *env, const char *name)
{
	const size_t len = strlen(name);
	size_t at = 0;

	while (at < env->len &&
	       !(strncmp(env->data + at, name, len) == 0 && env->data[at + len] == '='))
		at += strlen(env->data + at) + 1;
	return at;
}

static void env_unset(struct buf *env, const char *name)
{
	const size_t at = env_find(env, name);
	size_t n;

	if (at == env->len)
		return;
	n = strlen(env->data + at) + 1;
	memmove(env->data + at, env->data + at + n, env->len - at - n);
	env->len -= n;
}

static int env_set(struct buf *env, const char *name, const char *value, struct problem *why)
{
	int e = settings_check_env_name(name, why);

	if (e < 0)
		return e;
	env_unset(env, name);
	e = buf_append(env, name, strlen(name));
	if (e == 0)
		e = buf_append(env, "=", 1);
	if (e == 0)
		e = buf_append(env, value, strlen(value) + 1);
	return e != -EFBIG ? e
			   : problem_set(why, PROBLEM_TOO_LONG,
					 "Put large data into a file below files/.",
					 "env.%s: all variables together may have %u bytes", name,
					 JOB_ENV_MAX);
}

/* A value in quotes is one word. Return: 0 or -errno. */
static int env_set_quoted(struct buf *env, const char *name, const struct buf *words,
			  struct problem *why)
{
	if (words->len && strlen(words->data) + 1 == words->len)
		return env_set(env, name, words->data, why);
	return problem_set(why, PROBLEM_INVALID, "Put all of it between one pair of quotes.",
			   "env.%s: more follows behind the quotes", problem_quote(name).text);
}

/* ---- values ---- */

static int set_argv(struct buf *argv, const struct buf *words, struct problem *why)
{
	int e = entry_check_argv(words, why);

	if (e < 0)
		return e;
	argv->len = 0;
	return buf_append(argv, words->data, words->len);
}

static int check_language(const char *language, const char *const *languages, struct problem *why)
{
	if (strcmp(language, "shell") == 0)
		return 0;
	for (size_t i = 0; languages[i]; i++)
		if (strcmp(language, languages[i]) == 0)
			return 0;
	problem_set(why, PROBLEM_INVALID, "Write language = shell", "language: there is no %s here",
		    problem_quote(language).text);
	for (size_t i = 0; languages[i]; i++)
		problem_add_fix(why, " or %s", languages[i]);
	problem_add_fix(why, "; or leave it empty and begin `in` with #! and a program.");
	return -EINVAL;
}

static int refuse_key(const char *key, struct problem *why)
{
	problem_set(why, PROBLEM_UNKNOWN_KEY, "The keys are argv, ", "there is no setting \"%s\"",
		    problem_quote(key).text);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		problem_add_fix(why, "%s, ", keys[i].name);
	problem_add_fix(why, "and env.NAME.");
	return -EINVAL;
}

struct parser {
	struct job_settings *js;
	const char *at, *end;
	const struct settings_limits *limits;
	const char *const *languages;
	struct problem *why;
};

static int set_key(const struct parser *p, const char *name, const char *value)
{
	const struct key_context ctx = {.limits = p->limits};
	struct job_settings *js = p->js;
	const struct key *k = find(name);
	char **text;
	int e = 0;

	if (!k)
		return refuse_key(name, p->why);
	if (k->type != KEY_TEXT)
		return value_set(k, (char *)js + k->offset, value, &ctx, p->why);
	if (*value)
		e = k->offset == AT(cwd) ? entry_check_cwd(value, p->why)
					 : check_language(value, p->languages, p->why);
	if (e < 0)
		return e;
	text = (char **)(void *)((char *)js + k->offset);
	if (*value && strcmp(value, "shell") != 0)
		return value_keep(text, value);
	free(*text);
	*text = NULL;
	return 0;
}

/* ---- text ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The rest of the line, without blanks at its ends, as a string. */
static int take_rest(struct parser *p, struct buf *out)
{
	const char *stop = memchr(p->at, '\n', (size_t)(p->end - p->at)), *last;

	stop = stop ? stop : p->end;
	while (p->at < stop && is_blank(*p->at))
		p->at++;
	for (last = stop; last > p->at && is_blank(last[-1]);)
		last--;
	out->len = 0;
	if (buf_append(out, p->at, (size_t)(last - p->at)) < 0 || buf_append(out, "", 1) < 0)
		return -ENOMEM;
	p->at = stop;
	return 0;
}

static int take_words(struct parser *p, struct buf *out)
{
	size_t n;
	int e;

	out->len = 0;
	e = words_parse(p->at, (size_t)(p->end - p->at), out, &n, p->why);
	p->at += n;
	return e;
}

static int take_value(struct parser *p, const char *name, struct buf *value)
{
	const bool env = strncmp(name, "env.", 4) == 0;
	int e;

	while (p->at < p->end && is_blank(*p->at))
		p->at++;
	if (strcmp(name, "argv") == 0) {
		e = take_words(p, value);
		return e < 0 ? e : set_argv(&p->js->argv, value, p->why);
	}
	if (env && p->at < p->end && strchr("'\"", *p->at)) {
		e = take_words(p, value);
		return e < 0 ? e : env_set_quoted(&p->js->env, name + 4, value, p->why);
	}
	e = take_rest(p, value);
	if (e < 0)
		return e;
	return env ? env_set(&p->js->env, name + 4, value->data, p->why)
		   : set_key(p, name, value->data);
}

static int unset(struct parser *p, char *name)
{
	name += strspn(name, " \t");
	if (strncmp(name, "env.", 4) != 0)
		return problem_set(p->why, PROBLEM_INVALID,
				   "Write unset env.NAME, or give the key another value.",
				   "unset: \"%s\" is not a variable", problem_quote(name).text);
	env_unset(&p->js->env, name + 4);
	return settings_check_env_name(name + 4, p->why);
}

/* Takes a line, or as many as a quoted value goes on. @name and @value: scratch */
static int take_line(struct parser *p, struct buf *name, struct buf *value)
{
	const char *stop, *equals;
	int e;

	while (p->at < p->end && is_blank(*p->at))
		p->at++;
	stop = memchr(p->at, '\n', (size_t)(p->end - p->at));
	stop = stop ? stop : p->end;
	equals = memchr(p->at, '=', (size_t)(stop - p->at));
	if (p->at == stop || *p->at == '#') {
		p->at = stop;
		return 0;
	}
	if (!equals) {
		e = take_rest(p, name);
		if (e == 0 && strncmp(name->data, "unset", 5) == 0 && is_blank(name->data[5]))
			return unset(p, name->data + 5);
		return e < 0 ? e
			     : problem_set(p->why, PROBLEM_INVALID,
					   "Write one \"key = value\" a line, or a comment with # "
					   "in front.",
					   "\"%s\" has no \"=\"", problem_quote(name->data).text);
	}
	name->len = 0;
	for (stop = equals; stop > p->at && is_blank(stop[-1]);)
		stop--;
	if (buf_append(name, p->at, (size_t)(stop - p->at)) < 0 || buf_append(name, "", 1) < 0)
		return -ENOMEM;
	p->at = equals + 1;
	return take_value(p, name->data, value);
}

/* What is right one by one has to fit together. */
static int check_all(const struct job_settings *js, struct problem *why)
{
	if (js->argv.len && js->language)
		return problem_set(why, PROBLEM_INVALID, "Write only one of them.",
				   "argv names a program, so there is nothing for language");
	return 0;
}

static int parse(struct parser *p, unsigned above)
{
	const char *const begin = p->at;
	struct buf name = {0}, value = {0};
	int e = 0;

	while (e == 0 && p->at < p->end) {
		unsigned line = above + 1;

		for (const char *c = begin; c < p->at; c++)
			line += *c == '\n';
		e = take_line(p, &name, &value);
		if (e == -EINVAL)
			problem_name_line(p->why, line);
		if (p->at < p->end && *p->at == '\n')
			p->at++;
	}
	buf_clear(&name);
	buf_clear(&value);
	return e < 0 ? e : check_all(p->js, p->why);
}

int job_settings_parse(struct job_settings *js, const char *text, size_t len, unsigned above,
		       const struct settings_limits *limits, const char *const *languages,
		       struct problem *ret_why)
{
	struct job_settings changed;
	struct parser p = {&changed, text, text + len, limits, languages, ret_why};
	int e;

	if (len > JOB_TEXT_MAX)
		return problem_set(ret_why, PROBLEM_TOO_LONG, "Write at most 3 MiB of settings.",
				   "the settings have %zu bytes", len);
	if (len > 0 && memchr(text, '\0', len))
		return problem_set(ret_why, PROBLEM_INVALID, "Write plain text.",
				   "the settings hold a NUL byte");
	e = job_settings_copy(&changed, js);
	if (e < 0)
		return e;
	e = len ? parse(&p, above) : 0;
	job_settings_clear(e < 0 ? &changed : js);
	if (e == 0)
		*js = changed;
	return e;
}

static int render_env(const struct buf *env, struct buf *out)
{
	int e = buf_printf(out, "# Variables, beside the session's: env.NAME = value, and `unset "
				"env.NAME` to remove one.\n");

	for (size_t at = 0; e == 0 && at < env->len; at += strlen(env->data + at) + 1) {
		const char *equals = strchr(env->data + at, '=');

		e = buf_printf(out, "env.%.*s = ", (int)(equals - (env->data + at)),
			       env->data + at);
		if (e == 0)
			e = words_quote(equals + 1, out);
		if (e == 0)
			e = buf_append(out, "\n", 1);
	}
	return e;
}

static int render_key(const struct job_settings *js, const struct key *k, struct buf *out)
{
	const char *at = (const char *)js + k->offset, *text;
	int e = k->comment ? buf_printf(out, "# %s\n", k->comment) : 0;

	if (e == 0)
		e = buf_printf(out, "%s =", k->name);
	if (e < 0)
		return e;
	if (k->type == KEY_TEXT)
		text = *(char *const *)(const void *)at;
	else if (k->type == KEY_SWITCH)
		text = k->words[*(const bool *)at];
	else
		text = NULL;
	if (text && *text)
		e = buf_printf(out, " %s", text);
	else if (k->type != KEY_TEXT) {
		e = buf_append(out, " ", 1);
		if (e == 0)
			e = value_print(k, at, out);
	}
	return e < 0 ? e : buf_append(out, "\n", 1);
}

int job_settings_render(const struct job_settings *js, struct buf *out)
{
	int e = buf_printf(out,
			   "# The program and its arguments, quoted as in a shell; without, "
			   "`in` is executed.\nargv =%s",
			   js->argv.len ? " " : "");

	if (e == 0)
		e = words_print(js->argv.data, js->argv.len, out);
	if (e == 0)
		e = buf_append(out, "\n", 1);
	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(keys); i++)
		e = render_key(js, &keys[i], out);
	return e < 0 ? e : render_env(&js->env, out);
}

/* ---- what differs ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_buf(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

bool job_settings_frozen_change(const struct job_settings *a, const struct job_settings *b,
				const char **ret_key)
{
	const char *key = !same_buf(&a->argv, &b->argv)		 ? "argv"
			  : !same_text(a->language, b->language) ? "language"
			  : !same_text(a->cwd, b->cwd)		 ? "cwd"
			  : !same_buf(&a->env, &b->env)		 ? "env"
			  : a->timeout_s != b->timeout_s	 ? "timeout_s"
			  : a->input != b->input		 ? "stdin"
			  : a->tty != b->tty			 ? "tty"
			  : a->nice != b->nice			 ? "nice"
			  : a->root != b->root			 ? "user"
								 : NULL;

	if (key)
		*ret_key = key;
	return key;
}
