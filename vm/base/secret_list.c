/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that may go with requests: where their values come from, and who may use them. */
#include "secret_list.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allow.h"
#include "buf.h"
#include "secret_use.h"
#include "vm/base/util.h"
#include "vm/base/words.h"

static void secret_fini(struct vm_secret *s)
{
	free(s->name);
	free(s->argument);
	free(s->hosts);
	free(s->users);
	*s = (struct vm_secret){0};
}

void secret_list_fini(struct vm_secrets *list)
{
	for (size_t i = 0; i < list->n; i++)
		secret_fini(&list->secret[i]);
	free(list->secret);
	*list = (struct vm_secrets){0};
}

const struct vm_secret *secret_list_find(const struct vm_secrets *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->secret[i].name, name))
			return &list->secret[i];
	return NULL;
}

int secret_list_add(struct vm_secrets *list, const char *name, size_t len, size_t *ret_i,
		    char ret_why[static 128])
{
	struct vm_secret *grown;
	char *copy;

	if (!secret_name_is_valid(name, len)) {
		snprintf(ret_why, 128,
			 "the name of a secret is letters, digits, ., _ and -, at most %d",
			 SECRET_NAME_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < list->n; i++) {
		if (strlen(list->secret[i].name) == len &&
		    !memcmp(list->secret[i].name, name, len)) {
			*ret_i = i;
			return 0;
		}
	}
	if (list->n == SECRET_LIST_MAX) {
		snprintf(ret_why, 128, "there are more than %d secrets", SECRET_LIST_MAX);
		return -EINVAL;
	}
	copy = strndup(name, len);
	grown = copy ? reallocarray(list->secret, list->n + 1, sizeof(*grown)) : NULL;
	if (!grown) {
		free(copy);
		return -ENOMEM;
	}
	list->secret = grown;
	grown[list->n] = (struct vm_secret){.name = copy};
	*ret_i = list->n++;
	return 0;
}

/* ---- keys ---- */

static int refuse(const char *key, const char *words, char ret_why[static 128])
{
	snprintf(ret_why, 128, "%s: %s", key, words);
	return -EINVAL;
}

static int replace(char **field, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static bool is_variable(const char *name)
{
	return *name && !(*name >= '0' && *name <= '9') && strlen(name) <= 128 &&
	       name[strspn(name,
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] ==
		       '\0';
}

static int set_from(struct vm_secret *s, const char *value, bool own, char ret_why[static 128])
{
	static const char how[] = "write file PATH, env NAME, or command PATH WORDS...";
	static const char *const words[] = {[VM_SECRET_FILE] = "file",
					    [VM_SECRET_ENV] = "env",
					    [VM_SECRET_COMMAND] = "command"};
	const size_t n = strcspn(value, " \t");
	const char *argument = value + n + strspn(value + n, " \t");
	enum vm_secret_from from = VM_SECRET_NOWHERE;

	for (size_t i = VM_SECRET_FILE; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == n && !strncmp(words[i], value, n))
			from = (enum vm_secret_from)i;
	if (from == VM_SECRET_NOWHERE || strlen(argument) > SECRET_ARGUMENT_MAX)
		return refuse("from", how, ret_why);
	if (from == VM_SECRET_ENV && own)
		return refuse("from", "a file of one's own names files and commands", ret_why);
	if (from == VM_SECRET_ENV && !is_variable(argument))
		return refuse("from", "env: this is no name of a variable", ret_why);
	if (from != VM_SECRET_ENV && *argument != '/')
		return refuse("from", "the path of the file or command begins with /", ret_why);
	if (from == VM_SECRET_FILE && strlen(argument) >= PATH_MAX)
		return refuse("from", "the path is too long", ret_why);
	s->from = from;
	return replace(&s->argument, argument);
}

/* A name means ports 80 and 443 elsewhere; a secret goes over plain HTTP only where a port says so. Return: 0 or -ENOMEM. */
static int set_hosts_with_ports(struct vm_secret *s, const char *value)
{
	struct allow_entry e;
	struct buf out = {0};
	char name[ALLOW_NAME_MAX + 1];
	int r;

	for (size_t at = 0, n; (n = allow_word(value, strlen(value), &at)); at += n) {
		(void)allow_entry_parse(value + at, n, &e, name);
		(void)buf_printf(&out, "%s%.*s%s", out.len ? " " : "", (int)n, value + at,
				 e.port ? "" : ":443");
	}
	r = buf_str(&out) ? replace(&s->hosts, buf_str(&out)) : -ENOMEM;
	buf_clear(&out);
	return r;
}

static int set_hosts(struct vm_secret *s, const char *value, char ret_why[static 128])
{
	struct allow list;
	char why[128];
	bool all = false;
	const int r = allow_parse(value, strlen(value), &list, why);

	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		snprintf(ret_why, 128, "hosts: %.110s", why);
		return -EINVAL;
	}
	for (size_t i = 0; i < list.nentries; i++)
		all = all || list.entries[i].kind == ALLOW_ALL;
	if (all || !list.nentries)
		s = NULL;
	allow_fini(&list);
	return s ? set_hosts_with_ports(s, value)
		 : refuse("hosts", "name the hosts that it may be sent to; * is none", ret_why);
}

/* A name, or a number. Return: 0 or -EINVAL. */
static int find_user(const struct word *word, uid_t *ret_uid)
{
	char name[64], *end;
	const struct passwd *pw;
	unsigned long v;

	if (word->len >= sizeof(name))
		return -EINVAL;
	memcpy(name, word->text, word->len);
	name[word->len] = '\0';
	if (name[strspn(name, "0123456789")] == '\0') {
		errno = 0;
		v = strtoul(name, &end, 10);
		*ret_uid = (uid_t)v;
		return errno || v >= UINT32_MAX ? -EINVAL : 0;
	}
	pw = getpwnam(name);
	if (!pw)
		return -EINVAL;
	*ret_uid = pw->pw_uid;
	return 0;
}

static int set_users(struct vm_secret *s, const char *value, char ret_why[static 128])
{
	struct words words = {.text = value, .len = strlen(value)};
	uid_t *users = calloc(SECRET_USERS_MAX, sizeof(*users));
	struct word word;
	size_t n = 0;
	int r = users ? 0 : -ENOMEM;

	while (r == 0 && words_next(&words, &word)) {
		if (n == SECRET_USERS_MAX)
			r = refuse("users", "there are too many", ret_why);
		else if (find_user(&word, &users[n++]) < 0) {
			snprintf(ret_why, 128, "users: there is no user %.*s",
				 (int)MIN(word.len, 40), word.text);
			r = -EINVAL;
		}
	}
	if (r == 0 && n == 0)
		r = refuse("users", "a name or a uid is missing", ret_why);
	if (r < 0) {
		free(users);
		return r;
	}
	free(s->users);
	s->users = users;
	s->nusers = n;
	return 0;
}

static int set_refresh(struct vm_secret *s, const char *value, char ret_why[static 128])
{
	const size_t n = strspn(value, "0123456789");
	const unsigned long v = n && n < 7 ? strtoul(value, NULL, 10) : 0;

	if (value[n] || v < 1 || v > SECRET_REFRESH_MAX_S)
		return refuse("refresh_s", "seconds from 1 to 86400", ret_why);
	s->refresh_s = (unsigned)v;
	return 0;
}

int secret_list_set(struct vm_secrets *list, size_t i, const char *key, const char *value, bool own,
		    char ret_why[static 128])
{
	struct vm_secret *s = &list->secret[i];

	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' && *c != '\t')
			return refuse(key, "there is a control character in it", ret_why);
	if (!strcmp(key, "from"))
		return set_from(s, value, own, ret_why);
	if (!strcmp(key, "hosts"))
		return set_hosts(s, value, ret_why);
	if (!strcmp(key, "users") && !own)
		return set_users(s, value, ret_why);
	if (!strcmp(key, "refresh_s"))
		return set_refresh(s, value, ret_why);
	snprintf(ret_why, 128, "%.40s: a secret has from, hosts%s and refresh_s", key,
		 own ? "" : ", users");
	return -EINVAL;
}

int secret_list_check(const struct vm_secrets *list, char ret_why[static 128])
{
	for (size_t i = 0; i < list->n; i++) {
		const struct vm_secret *s = &list->secret[i];

		if (s->from != VM_SECRET_NOWHERE && s->hosts)
			continue;
		snprintf(ret_why, 128, "[secret %s]: %s is missing", s->name,
			 s->hosts ? "from" : "hosts");
		return -EINVAL;
	}
	return 0;
}

bool secret_is_for(const struct vm_secret *secret, uid_t uid, uid_t mounter)
{
	for (size_t i = 0; i < secret->nusers; i++)
		if (secret->users[i] == uid)
			return true;
	return !secret->nusers && uid == mounter;
}

/* ---- a file ---- */

static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len > 0 && strchr(" \t\r", text[len - 1]))
		len--;
	text[len] = '\0';
	return text;
}

#define NOBODY SIZE_MAX

/* Return: 0, -EINVAL, -ENOMEM. */
static int read_line(struct vm_secrets *list, char *line, size_t *at, char ret_why[static 128])
{
	static const char section[] = "[secret";
	const size_t n = sizeof(section) - 1;
	char *value, *name;
	size_t len;

	line = trim(line);
	len = strlen(line);
	if (!len || *line == '#' || *line == ';')
		return 0;
	if (*line == '[') {
		if (len < n + 2 || strncmp(line, section, n) != 0 || line[len - 1] != ']' ||
		    !strchr(" \t", line[n])) {
			snprintf(ret_why, 128, "the sections here are [secret NAME]");
			return -EINVAL;
		}
		line[len - 1] = '\0';
		name = trim(line + n);
		return secret_list_add(list, name, strlen(name), at, ret_why);
	}
	value = strchr(line, '=');
	if (!value || *at == NOBODY) {
		snprintf(ret_why, 128, "expected [secret NAME], and below it \"key = value\"");
		return -EINVAL;
	}
	*value = '\0';
	return secret_list_set(list, *at, trim(line), trim(value + 1), true, ret_why);
}

int secret_list_parse(const char *text, size_t len, struct vm_secrets *ret_list,
		      char ret_why[static 128])
{
	_cleanup_free_ char *copy = NULL;
	struct vm_secrets list = {0};
	char why[128] = "", *rest, *line;
	size_t at = NOBODY;
	int r = 0;

	if (len > SECRET_FILE_MAX || memchr(text, '\0', len)) {
		snprintf(ret_why, 128, "this is not a text file of at most 64 KiB");
		return -EINVAL;
	}
	copy = rest = strndup(text, len);
	if (!copy)
		return -ENOMEM;
	for (unsigned n = 1; r == 0 && (line = strsep(&rest, "\n")); n++) {
		r = read_line(&list, line, &at, why);
		if (r == -EINVAL)
			snprintf(ret_why, 128, "line %u: %.110s", n, why);
	}
	if (r == 0)
		r = secret_list_check(&list, ret_why);
	if (r < 0) {
		secret_list_fini(&list);
		return r;
	}
	*ret_list = list;
	return 0;
}
