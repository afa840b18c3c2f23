/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of [xsbxfs] and [limits], which are also mount options. */
#include "daemon_internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "vm/base/problem.h"

enum key_type {
	KEY_FLAG,
	KEY_NUMBER,
	KEY_SIZE,    /* bytes, with K, M, G or T behind */
	KEY_PATH,    /* absolute once it is stored */
	KEY_PROGRAM, /* a path, or a name to look for in PATH */
	KEY_ACCEL,
	KEY_BACKEND,
	KEY_NAMES, /* yes, no, or names with blanks between them */
	KEY_KERNEL,
	KEY_ALLOW, /* an allow list, or "any" */
	KEY_PORTS, /* numbers with blanks between them */
	KEY_CA,	   /* host, none, or a path */
	KEY_PROXY, /* pass or none */
	KEY_URL,
	KEY_REGION,
	KEY_LIST, /* a path, or "any" */
	KEY_LOG_LEVEL,
	KEY_LOG_FORMAT,
};

struct key {
	const char *name;
	enum conf_section section; /* CONF_NSECTIONS: only as an option */
	enum key_type type;
	size_t offset;
	unsigned min, max; /* numbers; sizes in MiB */
};

#define AT(field)   offsetof(struct conf, field)
#define SECONDS_MAX (86400 * 7)
#define MIB	    (1u << 20)

static const struct key keys[] = {
	{"cache_dir", CONF_GLOBAL, KEY_PATH, AT(cache_dir)},
	{"runtime_dir", CONF_GLOBAL, KEY_PATH, AT(runtime_dir)},
	{"spool_dir", CONF_GLOBAL, KEY_PATH, AT(spool_dir)},
	{"qemu", CONF_GLOBAL, KEY_PROGRAM, AT(qemu)},
	{"agent", CONF_GLOBAL, KEY_PATH, AT(agent)},
	{"accel", CONF_GLOBAL, KEY_ACCEL, AT(accel)},
	{"image_builder", CONF_GLOBAL, KEY_PROGRAM, AT(image_builder)},
	{"backend", CONF_GLOBAL, KEY_BACKEND, AT(backend)},
	{"prepare", CONF_GLOBAL, KEY_NAMES, AT(prepare)},
	{"kernel", CONF_GLOBAL, KEY_KERNEL, AT(kernel)},
	{"allow_other", CONF_GLOBAL, KEY_FLAG, AT(allow_other)},
	{"max_vms", CONF_GLOBAL, KEY_NUMBER, AT(max_vms), 0, 100000},
	{"max_vms_user", CONF_GLOBAL, KEY_NUMBER, AT(max_vms_user), 0, 100000},
	{"memory_overcommit", CONF_GLOBAL, KEY_NUMBER, AT(memory_percent), 10, 10000},
	{"memory_reserve", CONF_GLOBAL, KEY_SIZE, AT(reserve_bytes), 0, 1u << 24},
	{"cpu_overcommit", CONF_GLOBAL, KEY_NUMBER, AT(cpu_percent), 10, 10000},
	{"admission_queue", CONF_GLOBAL, KEY_NUMBER, AT(queue), 1, 100000},
	{"admission_queue_user", CONF_GLOBAL, KEY_NUMBER, AT(queue_user), 0, 100000},
	{"max_sessions", CONF_GLOBAL, KEY_NUMBER, AT(max_sessions), 0, 1000000},
	{"admission_timeout_s", CONF_GLOBAL, KEY_NUMBER, AT(admission_s), 1, SECONDS_MAX},
	{"boot_timeout_s", CONF_GLOBAL, KEY_NUMBER, AT(boot_s), 1, 3600},
	{"force_mitigations", CONF_GLOBAL, KEY_FLAG, AT(force_mitigations)},
	{"snapshot_limit", CONF_GLOBAL, KEY_SIZE, AT(snapshot_bytes), 0, 1u << 24},
	{"output_limit", CONF_GLOBAL, KEY_SIZE, AT(output_bytes), 0, 1u << 20},
	{"history_limit", CONF_GLOBAL, KEY_SIZE, AT(history_bytes), 0, 1u << 24},
	{"history_runs", CONF_GLOBAL, KEY_NUMBER, AT(history_runs), 1, 100000},
	{"max_memory_mb", CONF_LIMITS, KEY_NUMBER, AT(limits.max_memory_mb), 128, 1u << 20},
	{"max_cpus", CONF_LIMITS, KEY_NUMBER, AT(limits.max_cpus), 0, 64},
	{"max_timeout_s", CONF_LIMITS, KEY_NUMBER, AT(limits.max_timeout_s), 0, SECONDS_MAX},
	{"max_grace_s", CONF_LIMITS, KEY_NUMBER, AT(limits.max_grace_s), 0, 60},
	{"max_idle_timeout_s", CONF_LIMITS, KEY_NUMBER, AT(limits.max_idle_timeout_s), 0,
	 SECONDS_MAX},
	{"max_processes", CONF_LIMITS, KEY_NUMBER, AT(limits.max_processes), 64, 16384},
	{"max_open_files", CONF_LIMITS, KEY_NUMBER, AT(limits.max_open_files), 64, 65536},
	{"max_file_size_mb", CONF_LIMITS, KEY_NUMBER, AT(limits.max_file_size_mb), 0, MIB},
	{"allow_process", CONF_LIMITS, KEY_FLAG, AT(limits.allow_process)},
	{"allow_network", CONF_LIMITS, KEY_FLAG, AT(allow_network)},
	{"max_allow", CONF_LIMITS, KEY_ALLOW, AT(limits.max_allow)},
	{"host_ports", CONF_LIMITS, KEY_PORTS, AT(limits.host_ports)},
	{"ca_certificates", CONF_NETWORK, KEY_CA, AT(ca_certificates)},
	{"proxy", CONF_NETWORK, KEY_PROXY, AT(pass_proxy)},
	{"program", CONF_STORE, KEY_PATH, AT(store_program)},
	{"url", CONF_STORE, KEY_URL, AT(store_url)},
	{"region", CONF_STORE, KEY_REGION, AT(store_region)},
	{"read", CONF_STORE, KEY_FLAG, AT(store_read)},
	{"write", CONF_STORE, KEY_FLAG, AT(store_write)},
	{"timeout_s", CONF_STORE, KEY_NUMBER, AT(store_timeout_s), 1, 86400},
	{"installer", CONF_PACKAGES, KEY_PATH, AT(installer)},
	{"python_index", CONF_PACKAGES, KEY_NAMES, AT(python_index)},
	{"python_hosts", CONF_PACKAGES, KEY_NAMES, AT(python_hosts)},
	{"npm_registry", CONF_PACKAGES, KEY_NAMES, AT(npm_registry)},
	{"npm_hosts", CONF_PACKAGES, KEY_NAMES, AT(npm_hosts)},
	{"offline", CONF_PACKAGES, KEY_PATH, AT(offline)},
	{"python_list", CONF_PACKAGES, KEY_LIST, AT(python_list)},
	{"npm_list", CONF_PACKAGES, KEY_LIST, AT(npm_list)},
	{"layer_limit", CONF_PACKAGES, KEY_SIZE, AT(layer_bytes), 0, 1u << 24},
	{"log_level", CONF_GLOBAL, KEY_LOG_LEVEL, AT(log_level)},
	{"log_format", CONF_GLOBAL, KEY_LOG_FORMAT, AT(log_format)},
	{"notify", CONF_NSECTIONS, KEY_PATH, AT(notify)},
};

/* Options that mount(8) and fstab(5) pass to any file system, and that change nothing here: the mount is
 * always writable, and always nosuid, nodev and noexec. */
static const char *const generic[] = {
	"rw",	   "defaults", "auto",	"noauto", "user",    "users",	 "nouser",
	"nosuid",  "suid",     "nodev", "dev",	  "noatime", "relatime", "nodiratime",
	"_netdev", "nofail",   "async", "exec",	  "noexec",
};

const char *const conf_section_str[CONF_NSECTIONS] = {
	[CONF_GLOBAL] = "xsbxfs", [CONF_LIMITS] = "limits",	[CONF_NETWORK] = "network",
	[CONF_STORE] = "store",	  [CONF_PACKAGES] = "packages", [CONF_TEMPLATE] = "template",
};

static void *at(struct conf *c, const struct key *k)
{
	return (char *)c + k->offset;
}

/* ---- values ---- */

static int set_flag(struct conf *c, const struct key *k, const char *value,
		    const struct conf_source *src)
{
	static const char *const yes[] = {"yes", "on", "true", "1"};
	static const char *const no[] = {"no", "off", "false", "0"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (strcmp(value, no[i]) == 0) {
			*(bool *)at(c, k) = false;
			return 0;
		}
		if (strcmp(value, yes[i]) != 0)
			continue;
		*(bool *)at(c, k) = true;
		return 0;
	}
	return conf_fail(src, EINVAL, "%s: \"%s\" is neither yes nor no", k->name,
			 problem_quote(value).text);
}

/* Digits, and behind them what is left in @ret_rest. Return: false if there are none or too many. */
static bool read_number(const char *text, uint64_t *ret_number, const char **ret_rest)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; isdigit((unsigned char)text[i]); i++) {
		if (i == 18)
			return false;
		n = n * 10 + (unsigned)(text[i] - '0');
	}
	*ret_number = n;
	*ret_rest = text + i;
	return i > 0;
}

static int set_number(struct conf *c, const struct key *k, const char *value,
		      const struct conf_source *src)
{
	const char *rest;
	uint64_t n;

	if (read_number(value, &n, &rest) && *rest == '\0' && n <= k->max &&
	    (n >= k->min || (n == 0 && k->section == CONF_LIMITS))) {
		*(unsigned *)at(c, k) = (unsigned)n;
		return 0;
	}
	return conf_fail(src, EINVAL, "%s: \"%s\" is not a whole number from %u to %u", k->name,
			 problem_quote(value).text, k->min, k->max);
}

static int set_size(struct conf *c, const struct key *k, const char *value,
		    const struct conf_source *src)
{
	static const char suffixes[] = "KMGT";
	uint64_t n, most = (uint64_t)k->max * MIB;
	const char *rest, *suffix;
	unsigned shift = 0;

	if (!read_number(value, &n, &rest))
		goto bad;
	suffix = *rest ? strchr(suffixes, toupper((unsigned char)*rest)) : NULL;
	if (suffix) {
		shift = 10u * (unsigned)(suffix - suffixes + 1);
		rest++;
		if (strcmp(rest, "iB") == 0)
			rest += 2;
	}
	if (*rest != '\0' || n > most >> shift)
		goto bad;
	*(uint64_t *)at(c, k) = n << shift;
	return 0;
bad:
	return conf_fail(
		src, EINVAL,
		"%s: \"%s\" is not a size up to %uM; write bytes, or a number with K, M, G or T "
		"behind it, e.g. 64M",
		k->name, problem_quote(value).text, k->max);
}

static int set_backend(struct conf *c, const struct key *k, const char *value,
		       const struct conf_source *src)
{
	if (settings_backend_parse(value, at(c, k)) < 0)
		return conf_fail(src, EINVAL, "%s: \"%s\" is not microvm or process", k->name,
				 problem_quote(value).text);
	return 0;
}

/* One of three words. */
static int set_word(struct conf *c, const struct key *k, const char *value,
		    const struct conf_source *src, const char *const words[3])
{
	char **field = at(c, k);

	for (size_t i = 0; i < 3; i++) {
		char *copy;

		if (strcmp(value, words[i]) != 0)
			continue;
		copy = strdup(value);
		if (!copy)
			return -ENOMEM;
		free(*field);
		*field = copy;
		return 0;
	}
	return conf_fail(src, EINVAL, "%s: \"%s\" is not %s, %s or %s", k->name,
			 problem_quote(value).text, words[0], words[1], words[2]);
}

/* Which of them exist is known when all is read. */
static int set_names(struct conf *c, const struct key *k, const char *value)
{
	char **field = at(c, k), *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int set_allow(struct conf *c, const struct key *k, const char *value,
		     const struct conf_source *src)
{
	char why[VM_WHY_MAX] = "";
	int r;

	if (strcmp(value, "any") == 0) {
		free(*(char **)at(c, k));
		*(char **)at(c, k) = NULL;
		return 0;
	}
	r = vm_allow_check(value, strlen(value), why);

	if (r == -EINVAL || r == -E2BIG)
		return conf_fail(src, EINVAL, "%s: %s", k->name, why);
	return r < 0 ? r : set_names(c, k, value);
}

static int set_ports(struct conf *c, const struct key *k, const char *value,
		     const struct conf_source *src)
{
	struct vm_host_ports *ports = at(c, k), read = {0};

	for (const char *p = value; *p;) {
		const size_t len = strcspn(p, " \t,");
		unsigned n = 0;

		for (size_t i = 0; i < len && n <= UINT16_MAX; i++)
			n = isdigit((unsigned char)p[i]) ? n * 10 + (unsigned)(p[i] - '0')
							 : UINT_MAX;
		if (len && (n == 0 || n > UINT16_MAX))
			return conf_fail(src, EINVAL,
					 "%s: \"%s\" is no port: a number from 1 to 65535", k->name,
					 problem_quote_bytes(p, len).text);
		if (len && read.n == VM_HOST_PORTS_MAX)
			return conf_fail(src, EINVAL, "%s: more than %d ports", k->name,
					 VM_HOST_PORTS_MAX);
		if (len)
			read.port[read.n++] = (uint16_t)n;
		p += len + (p[len] != '\0');
	}
	*ports = read;
	return 0;
}

/* What else may be wrong with it the program that uses it knows, and says. */
static int set_url(struct conf *c, const struct key *k, const char *value,
		   const struct conf_source *src)
{
	const bool web = strncmp(value, "https://", 8) == 0 || strncmp(value, "http://", 7) == 0;

	if (*value && (!web || strpbrk(value, "@?# \"'")))
		return conf_fail(src, EINVAL,
				 "%s: \"%s\" is not https://HOST/BUCKET/PREFIX; credentials belong "
				 "into the environment",
				 k->name, problem_quote(value).text);
	return set_names(c, k, value);
}

static int set_region(struct conf *c, const struct key *k, const char *value,
		      const struct conf_source *src)
{
	if (strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(value))
		return conf_fail(src, EINVAL, "%s: \"%s\" is no region, such as us-east-1", k->name,
				 problem_quote(value).text);
	return set_names(c, k, value);
}

static int set_path(struct conf *c, const struct key *k, const char *value,
		    const struct conf_source *src)
{
	char **field = at(c, k), *path = NULL;
	bool program = k->type == KEY_PROGRAM && !strchr(value, '/');

	if (*value == '\0')
		return conf_fail(src, EINVAL, "%s: a path is missing", k->name);
	for (const char *p = value; *p; p++) {
		if (iscntrl((unsigned char)*p))
			return conf_fail(src, EINVAL, "%s: the path holds a control character",
					 k->name);
	}
	if (*value == '/' || strncmp(value, "~/", 2) == 0 || program) {
		path = conf_expand_home(value);
	} else if (src->file) {
		return conf_fail(src, EINVAL, "%s: \"%s\" does not begin with / or ~/", k->name,
				 problem_quote(value).text);
	} else { /* on the command line it means the current directory */
		_cleanup_free_ char *cwd = getcwd(NULL, 0);

		if (!cwd)
			return conf_fail(src, errno, "%s: the current directory has no path",
					 k->name);
		if (asprintf(&path, "%s/%s", cwd, value) < 0)
			path = NULL;
	}
	if (!path)
		return -ENOMEM;
	free(*field);
	*field = path;
	return 0;
}

static int set_proxy(struct conf *c, const struct key *k, const char *value,
		     const struct conf_source *src)
{
	const bool pass = strcmp(value, "pass") == 0;

	if (!pass && strcmp(value, "none") != 0)
		return conf_fail(src, EINVAL, "%s: \"%s\" is neither pass nor none", k->name,
				 problem_quote(value).text);
	*(bool *)at(c, k) = pass;
	return 0;
}

static int set_log(struct conf *c, const struct key *k, const char *value,
		   const struct conf_source *src)
{
	const bool level = k->type == KEY_LOG_LEVEL;

	if ((level ? log_level_parse(value, strlen(value), at(c, k))
		   : log_format_parse(value, at(c, k))) == 0)
		return 0;
	return conf_fail(src, EINVAL, "%s: \"%s\" is not %s", k->name, problem_quote(value).text,
			 level ? "error, warning, info or debug" : "text or json");
}

/* ---- keys ---- */

static int set_key(struct conf *c, const struct key *k, const char *value,
		   const struct conf_source *src)
{
	static const char *const accels[] = {"auto", "kvm", "tcg"};
	static const char *const kernels[] = {"auto", "own", "stock"};

	if (!value && k->type == KEY_FLAG)
		value = "yes";
	if (!value)
		return conf_fail(src, EINVAL, "%s: a value is missing; write %s=VALUE", k->name,
				 k->name);
	switch (k->type) {
	case KEY_FLAG: return set_flag(c, k, value, src);
	case KEY_NUMBER: return set_number(c, k, value, src);
	case KEY_SIZE: return set_size(c, k, value, src);
	case KEY_PATH:
	case KEY_PROGRAM: return set_path(c, k, value, src);
	case KEY_ACCEL: return set_word(c, k, value, src, accels);
	case KEY_KERNEL: return set_word(c, k, value, src, kernels);
	case KEY_BACKEND: return set_backend(c, k, value, src);
	case KEY_NAMES: return set_names(c, k, value);
	case KEY_ALLOW: return set_allow(c, k, value, src);
	case KEY_PORTS: return set_ports(c, k, value, src);
	case KEY_CA:
		return strcmp(value, "host") == 0 || strcmp(value, "none") == 0
			       ? set_names(c, k, value)
			       : set_path(c, k, value, src);
	case KEY_PROXY: return set_proxy(c, k, value, src);
	case KEY_LOG_LEVEL:
	case KEY_LOG_FORMAT: return set_log(c, k, value, src);
	case KEY_URL: return set_url(c, k, value, src);
	case KEY_REGION: return set_region(c, k, value, src);
	case KEY_LIST:
		return strcmp(value, "any") == 0 ? set_names(c, k, value)
						 : set_path(c, k, value, src);
	}
	return -EINVAL;
}

int conf_set(struct conf *c, enum conf_section section, const char *key, const char *value,
	     const struct conf_source *src)
{
	bool option = !src->file;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct key *k = &keys[i];

		if (strcmp(k->name, key) != 0)
			continue;
		if (option ? k->section != CONF_STORE : k->section == section)
			return set_key(c, k, value, src);
		if (option)
			break;
		if (k->section == CONF_NSECTIONS)
			return conf_fail(src, EINVAL, "%s: only as an option, -o %s=...", key, key);
		return conf_fail(src, EINVAL, "%s: belongs into the section [%s]", key,
				 conf_section_str[k->section]);
	}
	if (!option)
		return conf_fail(src, EINVAL,
				 "there is no key \"%s\" in [%s]; man 5 xsbxfs.conf lists them all",
				 problem_quote(key).text, conf_section_str[section]);
	for (size_t i = 0; i < ARRAY_SIZE(generic); i++) {
		if (strcmp(generic[i], key) == 0 && !value)
			return 0;
	}
	if (strncmp(key, "x-", 2) == 0)
		return 0; /* a note of some other program in fstab */
	if (strcmp(key, "ro") == 0)
		return conf_fail(src, EINVAL, "-o ro: sandboxes cannot be used read-only");
	return conf_fail(src, EINVAL, "there is no option \"%s\"; man 1 xsbxfs lists them all",
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
		r = conf_set(c, CONF_NSECTIONS, item, value, src);
	}
	free(item);
	return r;
}
