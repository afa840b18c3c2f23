/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: sections and keys, parsed with inih. */
#include "daemon_internal.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "vm/base/problem.h"
#include "vm/base/secret_list.h"

/*
 * inih reads lines through a function of ours, which sees each line first. It counts lines, detects
 * invalid bytes, and parses sections, because inih truncates section names to 49 bytes and does not
 * report sections without keys, and a template may consist of just its name.
 */

/* Debian's build has its longest line, 200 bytes unless told, in a variable. Others have a constant. */
/* NOLINTNEXTLINE(readability-redundant-declaration): only Debian's header has it. */
extern int ini_max_line __attribute__((weak));

#define LINE_BYTES 8192

struct reader {
	FILE *file;
	struct conf *conf;
	struct conf_source *src;
	enum conf_section section; /* keys before any section are global */
	struct conf_template *template;
	size_t secret; /* index of the one whose section it is, plus one; or 0 */
	struct allowance *quota;
	size_t bytes;
	char *line;
	size_t line_cap;
	int result; /* the first failure ends it all */
};

static int fail(struct reader *r, const char *words)
{
	r->result = conf_fail(r->src, EINVAL, "%s", words);
	return r->result;
}

/* [secret NAME] */
static void begin_secret(struct reader *r, const char *name)
{
	char why[128];
	size_t i = 0;
	const int e = secret_list_add(&r->conf->vm.secrets, name, strlen(name), &i, why);

	r->secret = i + 1;
	if (r->src->only)
		fail(r, "an image has no secrets");
	else if (e < 0)
		r->result = e == -EINVAL ? fail(r, why) : e;
}

static void set_secret(struct reader *r, const char *key, const char *value)
{
	char why[128];
	const int e = secret_list_set(&r->conf->vm.secrets, r->secret - 1, key, value, false, why);

	if (e < 0)
		r->result = e == -EINVAL ? fail(r, why) : e;
}

/* Is a section's @name `kind NAME`? Return: what is behind the blanks; NULL: it is not. */
static char *name_behind(char *name, const char *kind)
{
	const size_t len = strlen(kind);

	if (strncmp(name, kind, len) != 0 || !isblank((unsigned char)name[len]))
		return NULL;
	return name + len + strspn(name + len, " \t");
}

/* `[quota]`, `[quota all]` or `[quota USER]`: @whose is "", "all" or the user. */
static void read_quota(struct reader *r, const char *whose)
{
	struct quota_user *u;
	struct problem why;
	int e;

	r->section = CONF_QUOTA;
	if (!*whose || strcmp(whose, "all") == 0) {
		r->quota = *whose ? &r->conf->quota.all : &r->conf->quota.each;
		return;
	}
	e = quotas_user(&r->conf->quota, whose, &r->conf->known, &u, &why);
	if (e == 0)
		r->quota = &u->may;
	else
		r->result = conf_refuse(r->src, e, "[quota USER]: ", &why);
}

/* `[name]` and nothing behind it but a comment. */
static void read_section(struct reader *r, char *text)
{
	char *end = strchr(text, ']'), *name = text + 1, *whose;
	const char *section;

	if (!end || (end[1 + strspn(end + 1, " \t")] != '\0' &&
		     !strchr("#;", end[1 + strspn(end + 1, " \t")]))) {
		fail(r, "a section is written [name], alone on its line");
		return;
	}
	name += strspn(name, " \t");
	while (end > name && strchr(" \t", end[-1]))
		end--;
	*end = '\0';
	r->secret = 0;
	section = name;
	if (name_behind(name, "secret")) {
		begin_secret(r, name_behind(name, "secret"));
		return;
	}
	for (enum conf_section i = 0; i < CONF_OPTION && !r->src->only; i++) {
		if (strcmp(name, key_section(i)) == 0) {
			r->section = i;
			return;
		}
	}
	whose = strcmp(name, "quota") == 0 ? end : name_behind(name, "quota");
	if (whose && !r->src->only) {
		read_quota(r, whose);
		return;
	}
	name = name_behind(name, "template");
	if (!name) {
		r->result =
			conf_fail(r->src, EINVAL,
				  "there is no section [%s]; the sections are [xsbxfs], [limits], "
				  "[network], [store], [packages], [secret NAME], [quota], "
				  "[quota USER], [quota all] and [template NAME]",
				  problem_quote(section).text);
		return;
	}
	if (r->src->only && strcmp(name, r->src->only) != 0) {
		r->result = conf_fail(r->src, EINVAL,
				      "an image has no other template than [template %s]",
				      r->src->only);
		return;
	}
	r->section = CONF_TEMPLATE;
	r->template = conf_template_get(r->conf, name, r->src);
	if (!r->template)
		r->result = -EINVAL;
}

/* Checks a line, and says what inih shall see of it. Return: NULL if it is wrong. */
static char *check_line(struct reader *r, size_t len, size_t room)
{
	static const char bom[] = "\xef\xbb\xbf";
	char *text = r->line;

	r->bytes += len;
	if (r->bytes > CONF_FILE_BYTES || strlen(text) != len) {
		fail(r, "this is not a text file of at most 1 MiB");
		return NULL;
	}
	while (len > 0 && strchr("\r\n", text[len - 1]))
		text[--len] = '\0';
	if (r->src->line == 1 && strncmp(text, bom, 3) == 0)
		text += 3;
	text += strspn(text, " \t"); /* to inih, blanks in front would continue the line above */
	if (*text == '\0' || strchr("#;", *text))
		return (char *)"";
	if (*text == '[') {
		read_section(r, text);
		return r->result < 0 ? NULL : (char *)"";
	}
	if (strlen(text) + sizeof("\n") > room)
		fail(r, "the line is too long");
	else if (!strpbrk(text, "=:"))
		fail(r, "expected \"key = value\", \"[section]\" or a comment");
	return r->result < 0 ? NULL : text;
}

/* Hands inih its next line. */
static char *read_line(char *str, int num, void *data)
{
	struct reader *r = data;
	ssize_t len;
	char *text;

	if (r->result < 0)
		return NULL;
	errno = 0;
	len = getline(&r->line, &r->line_cap, r->file);
	if (len < 0) {
		if (ferror(r->file))
			r->result = conf_fail(r->src, errno ? errno : EIO, "cannot be read: %s",
					      strerror(errno ? errno : EIO));
		return NULL;
	}
	r->src->line++;
	text = check_line(r, (size_t)len, (size_t)num);
	if (!text)
		return NULL;
	snprintf(str, (size_t)num, "%s\n", text);
	return str;
}

/* inih's callback for a key. Return: 0 if it is wrong, as inih wants it. */
static int on_ini_key(void *data, const char *section, const char *key, const char *value)
{
	struct reader *r = data;

	(void)section;
	if (r->secret)
		set_secret(r, key, value);
	else if (r->section == CONF_TEMPLATE)
		r->result = conf_template_set(r->template, key, value, r->src);
	else if (r->section == CONF_QUOTA)
		r->result = conf_quota_set(r->quota, key, value, r->src);
	else if (r->src->only)
		r->result = conf_fail(r->src, EINVAL, "an image sets nothing but its own template");
	else
		r->result = conf_set(r->conf, r->section, key, value, r->src);
	return r->result >= 0;
}

int conf_read(struct conf *c, FILE *file, struct conf_source *src)
{
	struct reader r = {.file = file, .conf = c, .src = src};
	int line;

	src->line = 0;
	if (&ini_max_line)
		ini_max_line = LINE_BYTES;
	line = ini_parse_stream(read_line, &r, on_ini_key, &r);
	free(r.line);
	if (r.result == 0 && line != 0) {
		src->line = line > 0 ? (unsigned)line : 0;
		r.result = conf_fail(src, EINVAL, "cannot be understood");
	}
	return r.result;
}
