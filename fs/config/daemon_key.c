/* SPDX-License-Identifier: Apache-2.0 */
/* Sets a key of a configuration file, or an option, and reports errors. */
#include "daemon_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/problem.h"

/* Options that mount(8) and fstab(5) pass to any file system, and that change nothing here: the mount is
 * always writable, and always nosuid, nodev and noexec. */
static const char *const generic[] = {
	"rw",	       "defaults", "auto",	 "noauto",   "user",	   "users",    "nouser",
	"owner",       "noowner",  "group",	 "nogroup",  "nosuid",	   "suid",     "nodev",
	"dev",	       "noexec",   "exec",	 "atime",    "noatime",	   "relatime", "norelatime",
	"strictatime", "diratime", "nodiratime", "lazytime", "nolazytime", "async",    "sync",
	"dirsync",     "silent",   "loud",	 "_netdev",  "nofail",
};

int conf_fail(const struct conf_source *src, int err, const char *fmt, ...)
{
	char words[1600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	if (src->file && src->line)
		snprintf(src->why, src->why_size, "%s:%u: %s", src->file, src->line, words);
	else if (src->file)
		snprintf(src->why, src->why_size, "%s: %s", src->file, words);
	else
		snprintf(src->why, src->why_size, "%s", words);
	return -err;
}

int conf_refuse(const struct conf_source *src, int r, const char *whose, const struct problem *why)
{
	return r == -EINVAL ? conf_fail(src, EINVAL, "%s%s%s%s", whose, why->cause,
					*why->fix ? ". " : "", why->fix)
			    : r;
}

/* Who can't open it is to be told which file to mend. Return: 0 or -ENOMEM. */
static int note_audit(struct conf *c, const struct conf_source *src)
{
	free(c->audit_where);
	c->audit_where = NULL;
	return src->file && asprintf(&c->audit_where, "%s:%u", src->file, src->line) < 0 ? -ENOMEM
											 : 0;
}

static int set_key(struct conf *c, const struct key *k, const char *value,
		   const struct conf_source *src)
{
	const struct key_context ctx = {.option = !src->file};
	struct problem why;
	int r;

	if (!value && k->type == KEY_FLAG)
		value = "yes";
	if (!value)
		return conf_fail(src, EINVAL, "%s: a value is missing; write %s=VALUE", k->name,
				 k->name);
	r = conf_refuse(src, key_set(k, c, value, &ctx, &why), "", &why);
	return r == 0 && strcmp(k->name, "audit_file") == 0 ? note_audit(c, src) : r;
}

static int set_option(struct conf *c, const char *name, const char *value,
		      const struct conf_source *src)
{
	for (enum conf_section i = 0; i <= CONF_OPTION; i++) {
		const struct key *k = key_find(i, name);

		if (k && i != CONF_STORE) /* which is the administrator's */
			return set_key(c, k, value, src);
	}
	for (size_t i = 0; i < ARRAY_SIZE(generic); i++) {
		if (strcmp(generic[i], name) == 0 && !value)
			return 0;
	}
	/* Notes of other programs in fstab. */
	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0 ||
	    strcmp(name, "comment") == 0)
		return 0;
	if (strcmp(name, "ro") == 0)
		return conf_fail(src, EINVAL, "-o ro: sandboxes cannot be used read-only");
	return conf_fail(src, EINVAL, "there is no option \"%s\"; man 1 xsbxfs lists them all",
			 problem_quote(name).text);
}

int conf_set(struct conf *c, enum conf_section section, const char *key, const char *value,
	     const struct conf_source *src)
{
	const struct key *k = src->file ? key_find(section, key) : NULL;

	if (!src->file)
		return set_option(c, key, value, src);
	if (k)
		return set_key(c, k, value, src);
	for (enum conf_section i = 0; i < CONF_OPTION; i++) {
		if (key_find(i, key))
			return conf_fail(src, EINVAL, "%s: belongs into the section [%s]", key,
					 key_section(i));
	}
	if (key_find(CONF_QUOTA, key))
		return conf_fail(src, EINVAL, "%s: belongs into a section [quota]", key);
	if (key_find(CONF_OPTION, key))
		return conf_fail(src, EINVAL, "%s: only as an option, -o %s=...", key, key);
	return conf_fail(src, EINVAL,
			 "there is no key \"%s\" in [%s]; man 5 xsbxfs.conf lists them all",
			 problem_quote(key).text, key_section(section));
}

int conf_quota_set(struct allowance *a, const char *key, const char *value,
		   const struct conf_source *src)
{
	struct problem why;
	const int r = allowance_set(a, key, value, &why);

	if (r != -ENOENT)
		return conf_refuse(src, r, "", &why);
	return conf_fail(src, EINVAL,
			 "there is no key \"%s\" in [quota]; man 5 xsbxfs.conf lists them all",
			 problem_quote(key).text);
}

/* Copies what is before the next bare comma. Return: what follows the comma, or the end of @text. */
static const char *next_option(const char *text, char *ret_item)
{
	for (; *text && *text != ','; text++) {
		if (*text == '\\' && (text[1] == ',' || text[1] == '\\'))
			text++;
		*ret_item++ = *text;
	}
	*ret_item = '\0';
	return *text ? text + 1 : text;
}

int conf_leave_out(struct conf *c, const char *why)
{
	return buf_printf(&c->notes, "an image's template was left out: %s\n", why);
}

int conf_set_options(struct conf *c, const char *text, const struct conf_source *src)
{
	char *item = malloc(strlen(text) + 1);
	int r = 0;

	if (!item)
		return -ENOMEM;
	while (r >= 0 && *text) {
		char *value;

		text = next_option(text, item);
		if (*item == '\0')
			continue;
		value = strchr(item, '=');
		if (value)
			*value++ = '\0';
		if (c->action == CONF_TAKEOVER && strcmp(item, "runtime_dir") != 0) {
			r = conf_fail(src, EINVAL,
				      "-o %s: with --takeover options are those of the mount; only "
				      "runtime_dir can be given, to find it",
				      problem_quote(item).text);
			continue;
		}
		r = set_option(c, item, value, src);
	}
	free(item);
	return r;
}
