/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a session: checked one by one and all together, written as text. */
#include "settings.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/base/util.h"
#include "env.h"
#include "network.h"
#include "paths.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 *
 * One table row describes a key: where its value lives, what it may be, which limit of the
 * administrator bounds it, whether it may change under a running sandbox, and the comment that
 * `config` shows. Everything else walks the table; only `env.NAME`, which is many keys, stands apart.
 *
 * Some keys mean something only together with others, or with the template: network.c and packages.c
 * look at those.
 */

#define SECONDS_MAX (86400u * 7)
#define NO_LIMIT    SIZE_MAX

#define LIVE	    1u /* may change while a sandbox runs */
#define ENDLESS	    2u /* 0 means "without end", which no limit allows */
#define ONOFF	    4u /* a flag that is on or off rather than yes or no */
#define FIXED	    8u /* by the configuration file, which does not come by settings_set() */

enum key_type { KEY_BACKEND, KEY_NUMBER, KEY_FLAG, KEY_WORDS, KEY_ALLOW, KEY_PORTS };

struct key {
	const char *name;
	enum key_type type;
	unsigned flags;
	size_t offset;
	unsigned standard, min, max; /* numbers: the default and the range */
	size_t limit;		     /* numbers: offset in struct settings_limits, or NO_LIMIT */
	const char *comment;
};

#define AT(field)    offsetof(struct settings, field)
#define LIMIT(field) offsetof(struct settings_limits, field)

/* In the order in which they are shown. */
static const struct key keys[] = {
	{"backend", KEY_BACKEND, 0, AT(backend), 0, 0, 0, NO_LIMIT,
	 "Where code runs: microvm, or process (where the administrator allows it)."},
	{"memory_mb", KEY_NUMBER, 0, AT(memory_mb), 192, 128, 1u << 20, LIMIT(max_memory_mb),
	 "Memory of the sandbox in MiB, 128 or more."},
	{"cpus", KEY_NUMBER, 0, AT(cpus), 1, 1, 64, LIMIT(max_cpus),
	 "Virtual processors, 1 to 64."},
	{"timeout_s", KEY_NUMBER, LIVE | ENDLESS, AT(timeout_s), 30, 0, SECONDS_MAX,
	 LIMIT(max_timeout_s), "Longest time a run may take, in seconds; 0 is no limit."},
	{"grace_s", KEY_NUMBER, LIVE, AT(grace_s), 2, 0, 60, LIMIT(max_grace_s),
	 "Seconds between SIGTERM and SIGKILL at that time, 0 to 60."},
	{"idle_timeout_s", KEY_NUMBER, LIVE | ENDLESS, AT(idle_timeout_s), 300, 0, SECONDS_MAX,
	 LIMIT(max_idle_timeout_s),
	 "Close the sandbox after so many seconds without a run; 0 is never."},
	{"fresh", KEY_FLAG, LIVE, AT(fresh), 0, 0, 0, NO_LIMIT,
	 "yes: every run gets a new sandbox, which is destroyed after it."},
	{"processes", KEY_NUMBER, 0, AT(limits.processes), 512, 64, 16384, LIMIT(max_processes),
	 "Processes and threads at once, 64 to 16384."},
	{"open_files", KEY_NUMBER, 0, AT(limits.open_files), 4096, 64, 65536, LIMIT(max_open_files),
	 "Open files of a process, 64 to 65536."},
	{"file_size_mb", KEY_NUMBER, ENDLESS, AT(limits.file_size_mb), 0, 0, 1u << 20,
	 LIMIT(max_file_size_mb), "Largest file that code can write, in MiB; 0 is no limit."},
	{"files_mb", KEY_NUMBER, 0, AT(limits.files_mb), 0, 0, 1u << 20, NO_LIMIT,
	 "Room in files/ in MiB, at most three quarters of memory_mb; 0 is two fifths of it."},
	{"files_inodes", KEY_NUMBER, 0, AT(limits.files_inodes), 0, 0, 1u << 24, NO_LIMIT,
	 "Files in files/; 0 is 341 for each MiB of memory_mb."},
	{"packages", KEY_WORDS, 0, AT(packages), 0, 0, 0, NO_LIMIT,
	 "Packages to install, each with its version: NAME==VERSION, or NAME@VERSION of npm."},
	{"network", KEY_FLAG, ONOFF, AT(network), 0, 0, 0, NO_LIMIT,
	 "on: what `allow` names can be reached, and nothing else."},
	{"allow", KEY_ALLOW, LIVE, AT(allow), 0, 0, 0, NO_LIMIT,
	 "Names that can be reached: example.com api.example.com:8443 *.example.org"},
	{"ports", KEY_PORTS, LIVE, AT(ports), 0, 0, 0, NO_LIMIT,
	 "Ports of the sandbox to be had at 127.0.0.1: 8080, or 3000:80 to choose that one too."},
	{"ro", KEY_WORDS, FIXED, AT(ro), 0, 0, 0, NO_LIMIT,
	 "What is seen of the host, as everybody may read it: PATH[:TARGET]. Set in xsbxfs.conf."},
	{"rw", KEY_WORDS, FIXED, AT(rw), 0, 0, 0, NO_LIMIT,
	 "What of the host may be changed, with its owner's rights. Set in xsbxfs.conf."},
	{"work", KEY_WORDS, FIXED, AT(work), 0, 0, 0, NO_LIMIT,
	 "What files/ begins as; changes are taken over by `commit`. Set in xsbxfs.conf."},
	{"view", KEY_WORDS, FIXED, AT(view), 0, 0, 0, NO_LIMIT,
	 "Whose programs processes see: the host's, or with image those of the image."},
};

static const char known_keys[] = "The keys are backend, memory_mb, cpus, timeout_s, grace_s, "
				 "idle_timeout_s, fresh, processes, open_files, file_size_mb, "
				 "files_mb, files_inodes, packages, network, allow, ports and "
				 "env.NAME.";

static const char *const backend_str[] = {
	[SETTINGS_MICROVM] = "microvm",
	[SETTINGS_PROCESS] = "process",
};
static_assert(ARRAY_SIZE(backend_str) == SETTINGS_NBACKENDS, "a name for each backend");

/* Where the value of a key lives. Constness is the caller's affair, as with strchr(). */
static unsigned *number_at(const struct settings *s, const struct key *k)
{
	return (unsigned *)((char *)s + k->offset);
}

static bool *flag_at(const struct settings *s, const struct key *k)
{
	return (bool *)((char *)s + k->offset);
}

static char **words_at(const struct settings *s, const struct key *k)
{
	return (char **)((char *)s + k->offset);
}

/* Is the value a text? */
static bool is_text(const struct key *k)
{
	return k->type == KEY_WORDS || k->type == KEY_ALLOW || k->type == KEY_PORTS;
}

static unsigned limit_of(const struct settings_limits *limits, const struct key *k)
{
	if (k->limit == NO_LIMIT)
		return 0;
	return *(const unsigned *)((const char *)limits + k->limit);
}

int settings_init(struct settings *s)
{
	*s = (struct settings){.backend = SETTINGS_MICROVM};
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].type == KEY_NUMBER)
			*number_at(s, &keys[i]) = keys[i].standard;
		if (!is_text(&keys[i]))
			continue;
		*words_at(s, &keys[i]) = strdup("");
		if (!*words_at(s, &keys[i])) {
			settings_clear(s);
			return -ENOMEM;
		}
	}
	return 0;
}

size_t settings_bytes(const struct settings *s)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (is_text(&keys[i]) && *words_at(s, &keys[i]))
			n += strlen(*words_at(s, &keys[i]));
	}
	for (size_t i = 0; i < s->nenv; i++)
		n += strlen(s->env[i].name) + strlen(s->env[i].value);
	return n;
}

void settings_clear(struct settings *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (is_text(&keys[i]))
			free(*words_at(s, &keys[i]));
	}
	env_clear(s);
	*s = (struct settings){0};
}

int settings_copy(struct settings *dst, const struct settings *src)
{
	struct settings copy = *src;
	bool ok;

	copy.env = NULL;
	copy.nenv = 0;
	ok = env_copy(&copy, src) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char **words = words_at(&copy, &keys[i]);

		if (!is_text(&keys[i]))
			continue;
		*words = strdup(*words);
		ok = ok && *words;
	}
	if (!ok) {
		settings_clear(&copy);
		return -ENOMEM;
	}
	*dst = copy;
	return 0;
}

/* ---- one setting ---- */

/* Digits only: no sign, no unit, no blank. Return: false unless it is a number below 10^9. */
static bool read_number(const char *text, unsigned *ret_number)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 9; i++)
		n = n * 10 + (unsigned)(text[i] - '0');
	if (i == 0 || text[i] != '\0')
		return false;
	*ret_number = n;
	return true;
}

/* Is @n more than @limit allows? */
static bool over_limit(const struct key *k, unsigned n, unsigned limit)
{
	return limit && (n > limit || ((k->flags & ENDLESS) && n == 0));
}

static int refuse_limit(struct problem *why, const struct key *k, unsigned n, unsigned limit)
{
	char fix[256];

	snprintf(fix, sizeof(fix),
		 "Write %s = %u or less%s; the limit is set under [limits] in xsbxfs.conf.",
		 k->name, limit, (k->flags & ENDLESS) ? " (0 would be without end)" : "");
	return problem_set(why, PROBLEM_LIMIT, fix,
			   "%s: %u is more than the administrator allows, which is %u", k->name, n,
			   limit);
}

static int set_number(struct settings *s, const struct key *k, const char *value,
		      const struct settings_limits *limits, struct problem *why)
{
	char fix[256];
	unsigned n, limit = limit_of(limits, k);

	snprintf(fix, sizeof(fix),
		 "Write a whole number from %u to %u without a unit, e.g. %s = %u.", k->min, k->max,
		 k->name, k->standard);
	if (!read_number(value, &n))
		return problem_set(why, PROBLEM_INVALID, fix, "%s: \"%s\" is not a whole number",
				   k->name, problem_quote(value).text);
	if (n < k->min || n > k->max)
		return problem_set(why, PROBLEM_INVALID, fix, "%s: %u is too %s", k->name, n,
				   n < k->min ? "small" : "large");
	if (over_limit(k, n, limit))
		return refuse_limit(why, k, n, limit);
	*number_at(s, k) = n;
	return 0;
}

static int set_flag(struct settings *s, const struct key *k, const char *value, struct problem *why)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{"yes", true},	{"no", false},	{"on", true},
		{"off", false}, {"true", true}, {"false", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(value, words[i].word) != 0)
			continue;
		*flag_at(s, k) = words[i].value;
		return 0;
	}
	if (k->flags & ONOFF)
		return problem_set(
			why, PROBLEM_INVALID, "Write on or off (or yes, no, true, false).",
			"%s: \"%s\" is neither on nor off", k->name, problem_quote(value).text);
	return problem_set(why, PROBLEM_INVALID, "Write yes or no (or on, off, true, false).",
			   "%s: \"%s\" is neither yes nor no", k->name, problem_quote(value).text);
}

static int refuse_process(struct problem *why)
{
	return problem_set(why, PROBLEM_NOT_ALLOWED,
			   "Write backend = microvm, or ask the administrator for "
			   "allow_process = yes.",
			   "backend: processes of this host are not allowed here");
}

static int set_backend(struct settings *s, const struct key *k, const char *value,
		       const struct settings_limits *limits, struct problem *why)
{
	enum settings_backend b;

	if (settings_backend_parse(value, &b) < 0)
		return problem_set(why, PROBLEM_INVALID, "Write backend = microvm or process.",
				   "%s: there is no backend \"%s\"", k->name,
				   problem_quote(value).text);
	if (b == SETTINGS_PROCESS && !limits->allow_process)
		return refuse_process(why);
	s->backend = b;
	return 0;
}

const char *settings_backend_str(enum settings_backend backend)
{
	return backend_str[backend];
}

int settings_backend_parse(const char *value, enum settings_backend *ret_backend)
{
	for (size_t i = 0; i < ARRAY_SIZE(backend_str); i++) {
		if (strcmp(value, backend_str[i]) == 0) {
			*ret_backend = (enum settings_backend)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* What they mean, packages_settle() looks at. */
static int set_words(struct settings *s, const struct key *k, const char *value,
		     struct problem *why)
{
	char **words = words_at(s, k), *copy;

	/* What was read can be written back. */
	if ((k->flags & FIXED) && strcmp(value, *words) == 0)
		return 0;
	if (k->flags & FIXED)
		return problem_set(why, PROBLEM_NOT_ALLOWED,
				   "Ask the administrator for a template that has it.",
				   "%s: only the configuration file can change it", k->name);
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*words);
	*words = copy;
	return 0;
}

/* ---- all settings ---- */

int settings_set(struct settings *s, const char *key, const char *value,
		 const struct settings_limits *limits, struct problem *ret_why)
{
	if (strncmp(key, "env.", 4) == 0)
		return env_set(s, key + 4, value, ret_why);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(key, keys[i].name) != 0)
			continue;
		switch (keys[i].type) {
		case KEY_BACKEND: return set_backend(s, &keys[i], value, limits, ret_why);
		case KEY_NUMBER: return set_number(s, &keys[i], value, limits, ret_why);
		case KEY_FLAG: return set_flag(s, &keys[i], value, ret_why);
		case KEY_WORDS: return set_words(s, &keys[i], value, ret_why);
		case KEY_ALLOW: return netset_allow(s, value, strlen(value), limits, ret_why);
		case KEY_PORTS: return netset_ports(s, value, ret_why);
		}
	}
	return problem_set(ret_why, PROBLEM_UNKNOWN_KEY, known_keys, "there is no setting \"%s\"",
			   problem_quote(key).text);
}

/* What is in files/ is in memory, and programs need some of that, too. */
static int check_room(const struct settings *s, struct problem *why)
{
	if (s->limits.files_mb <= s->memory_mb / 4 * 3)
		return 0;
	return problem_set(why, PROBLEM_INVALID, "Write less files_mb, or more memory_mb.",
			   "files_mb: %u is more than three quarters of memory_mb, which is %u",
			   s->limits.files_mb, s->memory_mb);
}

int settings_agree(const struct settings *s, const struct settings_limits *limits,
		   struct problem *ret_why)
{
	int r = check_room(s, ret_why);

	if (r == 0)
		r = netset_check(s, limits, ret_why);
	return r < 0 ? r : paths_fit(s, ret_why);
}

int settings_fit(struct settings *s, const struct settings_limits *limits, struct problem *ret_why)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		unsigned limit = limit_of(limits, &keys[i]);
		unsigned *number;

		if (keys[i].type != KEY_NUMBER)
			continue;
		number = number_at(s, &keys[i]);
		if (!over_limit(&keys[i], *number, limit))
			continue;
		if (*number != keys[i].standard)
			return refuse_limit(ret_why, &keys[i], *number, limit);
		*number = limit;
	}
	if (s->backend == SETTINGS_PROCESS && !limits->allow_process)
		return refuse_process(ret_why);
	return settings_agree(s, limits, ret_why);
}

/* ---- as text ---- */

static int render_value(const struct settings *s, const struct key *k, struct buf *out)
{
	static const char *const flag[] = {"no", "yes"}, *const onoff[] = {"off", "on"};

	switch (k->type) {
	case KEY_BACKEND: return buf_printf(out, " %s", backend_str[s->backend]);
	case KEY_NUMBER: return buf_printf(out, " %u", *number_at(s, k));
	case KEY_FLAG:
		return buf_printf(out, " %s", (k->flags & ONOFF ? onoff : flag)[*flag_at(s, k)]);
	case KEY_WORDS:
	case KEY_ALLOW:
	case KEY_PORTS: return **words_at(s, k) ? buf_printf(out, " %s", *words_at(s, k)) : 0;
	}
	return -EINVAL;
}

int settings_render(const struct settings *s, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && r >= 0; i++) {
		r = buf_printf(out, "# %s\n%s =", keys[i].comment, keys[i].name);
		if (r >= 0)
			r = render_value(s, &keys[i], out);
		if (r >= 0)
			r = buf_append(out, "\n", 1);
	}
	if (r >= 0)
		r = buf_printf(out, "# Variables of the interpreter: env.NAME = value, and "
				    "`unset env.NAME` to remove one.\n");
	return r < 0 ? r : env_render(s, out);
}

const char *settings_frozen_change(const struct settings *a, const struct settings *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct key *k = &keys[i];
		bool same = true;

		if (k->flags & LIVE)
			continue;
		switch (k->type) {
		case KEY_BACKEND: same = a->backend == b->backend; break;
		case KEY_NUMBER: same = *number_at(a, k) == *number_at(b, k); break;
		case KEY_FLAG: same = *flag_at(a, k) == *flag_at(b, k); break;
		case KEY_WORDS:
		case KEY_ALLOW:
		case KEY_PORTS: same = strcmp(*words_at(a, k), *words_at(b, k)) == 0; break;
		}
		if (!same)
			return k->name;
	}
	return env_same(a, b) ? NULL : "env";
}
