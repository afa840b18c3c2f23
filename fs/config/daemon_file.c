/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: sections and keys. */
#include "daemon_internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "value.h"
#include "vm/base/problem.h"

/*
 * A line is a section, `key = value` or `key: value`, or a comment behind # or ;. Behind a value, a blank and a
 * semicolon begin one as well. A template may consist of the name of its section.
 */

#define LINE_BYTES 8192

struct reader {
	struct conf *conf;
	struct conf_source *src;
	enum conf_section section; /* keys before any section are global */
	struct conf_template *template;
};

/* `[name]` and nothing behind it but a comment. */
static int read_section(struct reader *r, char *text)
{
	static const char prefix[] = "template";
	char *end = strchr(text, ']'), *behind = end ? value_trim(end + 1) : NULL, *name;

	if (!end || (*behind && !strchr("#;", *behind)))
		return conf_fail(r->src, EINVAL, "a section is written [name], alone on its line");
	*end = '\0';
	name = value_trim(text + 1);
	for (r->section = 0; r->section < CONF_OPTION; r->section++) {
		if (strcmp(name, key_section(r->section)) == 0)
			return 0;
	}
	if (strncmp(name, prefix, strlen(prefix)) != 0 ||
	    !isblank((unsigned char)name[strlen(prefix)]))
		return conf_fail(r->src, EINVAL,
				 "there is no section [%s]; the sections are [xsbxfs], [limits], "
				 "[network], [store], [packages] and [template NAME]",
				 problem_quote(name).text);
	r->section = CONF_TEMPLATE;
	r->template = conf_template_get(r->conf, value_trim(name + strlen(prefix)), r->src);
	return r->template ? 0 : -EINVAL;
}

static int read_key(struct reader *r, char *text)
{
	char *value;

	for (char *p = text + 1; (p = strchr(p, ';')); p++) {
		if (isblank((unsigned char)p[-1])) {
			*p = '\0';
			break;
		}
	}
	value = strpbrk(text, "=:");
	if (!value)
		return conf_fail(r->src, EINVAL,
				 "expected \"key = value\", \"[section]\" or a comment");
	*value++ = '\0';
	text = value_trim(text);
	value = value_trim(value);
	return r->section == CONF_TEMPLATE ? conf_template_set(r->template, text, value, r->src)
					   : conf_set(r->conf, r->section, text, value, r->src);
}

static int read_line(struct reader *r, char *text)
{
	static const char bom[] = "\xef\xbb\xbf";

	if (r->src->line == 1 && strncmp(text, bom, 3) == 0)
		text += 3;
	text = value_trim(text);
	if (*text == '\0' || strchr("#;", *text))
		return 0;
	if (*text == '[')
		return read_section(r, text);
	if (strlen(text) + sizeof("\n") > LINE_BYTES)
		return conf_fail(r->src, EINVAL, "the line is too long");
	return read_key(r, text);
}

int conf_read(struct conf *c, FILE *file, struct conf_source *src)
{
	struct reader reader = {.conf = c, .src = src};
	_cleanup_free_ char *line = NULL;
	size_t room = 0, bytes = 0;
	ssize_t len;
	int r = 0;

	src->line = 0;
	errno = 0;
	while (r == 0 && (len = getline(&line, &room, file)) >= 0) {
		src->line++;
		bytes += (size_t)len;
		if (bytes > CONF_FILE_BYTES || strlen(line) != (size_t)len)
			r = conf_fail(src, EINVAL, "this is not a text file of at most 1 MiB");
		else
			r = read_line(&reader, line);
	}
	if (r == 0 && ferror(file))
		r = conf_fail(src, errno ? errno : EIO, "cannot be read: %s",
			      strerror(errno ? errno : EIO));
	return r;
}
