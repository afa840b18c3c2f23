/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the resources of the host. */
#include "host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/cgroups.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * /proc/meminfo describes the whole machine, even in a container. What the daemon and its children
 * may really use depends on their control groups, of which any ancestor can have a limit; so all of
 * them are read, from the daemon's group up to the top of the mount. The two versions of control
 * groups only differ in file names, and some hosts mount both.
 *
 * The available memory of a group is its limit minus its usage, where inactive file pages don't count
 * as used: the kernel reclaims them when necessary, and MemAvailable includes them in the same way for
 * the machine.
 *
 * All of this is parsed from text. Anything that is unreadable or invalid counts as missing: an
 * unknown limit is no limit, and the values of the machine always remain.
 */

#define TEXT_MAX    16384u /* more than any of the files has */
#define THREADS_MAX 64	   /* of one process that are looked at */
#define FAMILY_MAX  32u	   /* processes of one sandbox */

/* ---- texts ---- */

/* The number behind @name and @mark at the beginning of a line. Return: 0 or -ENODATA. */
static int parse_value(const char *text, const char *name, char mark, uint64_t *ret_value)
{
	const size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == mark) {
			const char *p = line + len + 1 + strspn(line + len + 1, " \t");

			if (!isdigit((unsigned char)*p))
				return -ENODATA;
			*ret_value = strtoull(p, NULL, 10);
			return 0;
		}
	}
	return -ENODATA;
}

int host_parse_meminfo(const char *text, const char *name, uint64_t *ret_kib)
{
	return parse_value(text, name, ':', ret_kib);
}

int host_parse_pressure(const char *text, unsigned *ret_centi)
{
	static const char key[] = "full avg10=";
	const char *p = strncmp(text, key, strlen(key)) == 0 ? text : strstr(text, "\nfull avg10=");
	unsigned whole = 0, digits, centi = 0;

	if (!p)
		return -ENODATA;
	p += strlen(key) + (*p == '\n');
	for (digits = 0; isdigit((unsigned char)*p) && digits < 4; p++, digits++)
		whole = whole * 10 + (unsigned)(*p - '0');
	if (!digits || isdigit((unsigned char)*p))
		return -ENODATA;
	if (*p == '.') {
		for (unsigned weight = 10; isdigit((unsigned char)*++p); weight /= 10)
			centi += weight * (unsigned)(*p - '0');
	}
	if (*p != ' ' && *p != '\n' && *p != '\0')
		return -ENODATA;
	*ret_centi = whole * 100 + centi;
	return 0;
}

int host_parse_limit(const char *text, uint64_t *ret_limit)
{
	unsigned long long n;
	char *end;

	if (strncmp(text, "max", 3) == 0 && (text[3] == '\n' || !text[3])) {
		*ret_limit = UINT64_MAX;
		return 0;
	}
	if (!isdigit((unsigned char)*text))
		return -ENODATA;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*end != '\n' && *end != '\0')
		return -ENODATA;
	/* The first generation writes "none" as the largest number of pages there could be. */
	*ret_limit = errno || n > (1ull << 60) ? UINT64_MAX : n;
	return 0;
}

/* ---- files ---- */

static int printf_like(3, 4) slurp(const struct host *h, char text[TEXT_MAX], const char *fmt, ...)
{
	char path[PATH_MAX], tail[PATH_MAX];
	_cleanup_close_ int fd = -1;
	size_t len = 0;
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	vsnprintf(tail, sizeof(tail), fmt, ap);
	va_end(ap);
	if ((size_t)snprintf(path, sizeof(path), "%s%s", h->root, tail) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (len < TEXT_MAX - 1 && (n = read(fd, text + len, TEXT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return len && strlen(text) == len ? 0 : -ENODATA;
}

static int read_limit(const struct host *h, const struct host_group *g, const char *name,
		      uint64_t *ret_limit)
{
	char text[TEXT_MAX];
	int r = slurp(h, text, "%s/%s", g->dir, name);

	return r < 0 ? r : host_parse_limit(text, ret_limit);
}

/* ---- where the groups are ---- */

static int add_group(struct host *h, bool v2, const char *dir)
{
	struct host_group *g = &h->group[h->ngroups];

	if (h->ngroups == HOST_GROUPS_MAX)
		return 0;
	g->v2 = v2;
	g->dir = strdup(dir);
	if (!g->dir)
		return -ENOMEM;
	h->ngroups++;
	return 0;
}

/* The group at @path below @mount, and all above it up to there. */
static int add_groups(struct host *h, bool v2, const char *mount, const char *path)
{
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%s%s", mount, path);
	size_t least = strlen(mount);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return 0;
	for (;;) {
		char *slash;
		int r = add_group(h, v2, dir);

		if (r < 0)
			return r;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < least)
			return 0;
		*slash = '\0';
	}
}

struct search {
	struct host *host;
	bool v2;
};

static int take_mount(void *data, const char *point, const char *own)
{
	const struct search *s = data;

	return add_groups(s->host, s->v2, point, own);
}

int host_open(struct host *h, const char *root)
{
	static const char *const controllers[] = {"", "memory", "cpu"};
	int r = 0;

	*h = (struct host){.root = strdup(root)};
	if (!h->root)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(controllers); i++) {
		struct search s = {h, !*controllers[i]};

		r = cgroups_find(root, controllers[i], take_mount, &s);
	}
	return r;
}

void host_close(struct host *h)
{
	for (unsigned i = 0; i < h->ngroups; i++)
		free(h->group[i].dir);
	free(h->root);
	*h = (struct host){0};
}

/* ---- readings ---- */

/* What a group allows, and what of it is left; UINT64_MAX if it has no limit. */
static void read_group(const struct host *h, const struct host_group *g, uint64_t *ret_limit,
		       uint64_t *ret_left)
{
	uint64_t limit = UINT64_MAX, high = UINT64_MAX, used, cold;
	char text[TEXT_MAX];

	*ret_limit = *ret_left = UINT64_MAX;
	if (read_limit(h, g, g->v2 ? "memory.max" : "memory.limit_in_bytes", &limit) < 0)
		limit = UINT64_MAX;
	/* Above this everybody in the group is slowed down. */
	if (g->v2 && read_limit(h, g, "memory.high", &high) == 0)
		limit = MIN(limit, high);
	if (limit == UINT64_MAX)
		return;
	*ret_limit = limit;
	if (read_limit(h, g, g->v2 ? "memory.current" : "memory.usage_in_bytes", &used) < 0)
		return;
	if (slurp(h, text, "%s/memory.stat", g->dir) < 0 ||
	    parse_value(text, g->v2 ? "inactive_file" : "total_inactive_file", ' ', &cold) < 0)
		cold = 0;
	used -= MIN(cold, used);
	*ret_left = limit - MIN(used, limit);
}

static void take_pressure(unsigned *pressure, const char *text)
{
	unsigned p;

	if (host_parse_pressure(text, &p) == 0 &&
	    (*pressure == HOST_PRESSURE_UNKNOWN || p > *pressure))
		*pressure = p;
}

void host_read(const struct host *h, struct host_reading *ret_reading)
{
	uint64_t total = 0, available = 0;
	char text[TEXT_MAX];

	*ret_reading = (struct host_reading){.pressure = HOST_PRESSURE_UNKNOWN};
	if (slurp(h, text, "/proc/meminfo") < 0 ||
	    host_parse_meminfo(text, "MemTotal", &total) < 0 ||
	    host_parse_meminfo(text, "MemAvailable", &available) < 0) {
		/* Without it there is no telling: a small machine, with all of it to be had. */
		total = available = 2048 * 1024;
	}
	if (slurp(h, text, "/proc/pressure/memory") == 0)
		take_pressure(&ret_reading->pressure, text);
	for (unsigned i = 0; i < h->ngroups; i++) {
		uint64_t limit, left;

		read_group(h, &h->group[i], &limit, &left);
		ret_reading->limited_groups += limit != UINT64_MAX;
		total = MIN(total, limit >> 10);
		available = MIN(available, left >> 10);
		if (h->group[i].v2 && slurp(h, text, "%s/memory.pressure", h->group[i].dir) == 0)
			take_pressure(&ret_reading->pressure, text);
	}
	ret_reading->total_mb = total >> 10;
	ret_reading->available_mb = MIN(available, total) >> 10;
}

/* A quota of processor time, in hundredths of a processor; UINT_MAX if there is none. */
static unsigned read_quota(const struct host *h, const struct host_group *g)
{
	uint64_t quota, period;
	char text[TEXT_MAX];
	char *rest;

	if (g->v2) {
		if (slurp(h, text, "%s/cpu.max", g->dir) < 0)
			return UINT_MAX;
		rest = strchr(text, ' ');
		if (!rest)
			return UINT_MAX;
		*rest++ = '\0';
		if (host_parse_limit(text, &quota) < 0 || host_parse_limit(rest, &period) < 0)
			return UINT_MAX;
	} else if (read_limit(h, g, "cpu.cfs_quota_us", &quota) < 0 || /* -1: none */
		   read_limit(h, g, "cpu.cfs_period_us", &period) < 0) {
		return UINT_MAX;
	}
	if (quota >= UINT64_MAX / 100 || !period || quota * 100 / period >= UINT_MAX)
		return UINT_MAX;
	return (unsigned)(quota * 100 / period);
}

unsigned host_cpus(const struct host *h)
{
	unsigned centi = 100, quota;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		centi = (unsigned)MAX(CPU_COUNT(&set), 1) * 100;
	else if (sysconf(_SC_NPROCESSORS_ONLN) > 0) /* more than a cpu_set_t has */
		centi = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) * 100;
	for (unsigned i = 0; i < h->ngroups; i++) {
		quota = read_quota(h, &h->group[i]);
		centi = MIN(centi, quota);
	}
	return MAX(centi, 1u);
}

/* Processes that are to be looked at. */
struct family {
	int pid[FAMILY_MAX];
	unsigned n;
};

static void add_children(const struct host *h, int pid, const char *tid, struct family *f)
{
	char text[TEXT_MAX], *p = text, *end;

	if (slurp(h, text, "/proc/%d/task/%s/children", pid, tid) < 0)
		return;
	while (f->n < FAMILY_MAX) {
		const long child = strtol(p, &end, 10);

		if (end == p)
			return;
		f->pid[f->n++] = (int)child;
		p = end;
	}
}

/* What threads of it wanted of the processors, in nanoseconds. */
struct demand {
	uint64_t used, waited;
};

/* @f: or NULL. Return: how many threads it has, or -errno. */
static int demand_of(const struct host *h, int pid, struct family *f, struct demand *d)
{
	char path[PATH_MAX], text[TEXT_MAX];
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *e;
	int threads = 0;

	snprintf(path, sizeof(path), "%s/proc/%d/task", h->root, pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (threads < THREADS_MAX && (e = readdir(dir))) {
		unsigned long long used, waited;

		/* A thread may be gone by now. */
		if (e->d_name[0] == '.' ||
		    slurp(h, text, "/proc/%d/task/%s/schedstat", pid, e->d_name) < 0 ||
		    sscanf(text, "%llu %llu", &used, &waited) != 2)
			continue;
		d->used += used;
		d->waited += waited;
		threads++;
		if (f)
			add_children(h, pid, e->d_name, f);
	}
	return threads;
}

int host_demand_ms(const struct host *h, int pid, uint64_t *ret_ms)
{
	struct family f = {{pid}, 1};
	struct demand d = {0};
	int r = demand_of(h, pid, &f, &d);

	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	for (unsigned i = 1; i < f.n; i++)
		(void)demand_of(h, f.pid[i], &f, &d);
	*ret_ms = (d.used + d.waited) / 1000000;
	return 0;
}

/* Adds what /proc says of one process to @us. Return: 0 or -errno. */
static int used_by(const struct host *h, int pid, uint64_t *us)
{
	const uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	unsigned long long own, sys, theirs, theirs_sys;
	char text[TEXT_MAX];
	const char *p;
	int r = slurp(h, text, "/proc/%d/stat", pid);

	if (r < 0)
		return r;
	/* "PID (NAME) STATE ...": it has chosen its name, in which anything may be. */
	p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
			 &own, &sys, &theirs, &theirs_sys) != 4)
		return -ENODATA;
	*us += (own + sys + theirs + theirs_sys) * tick;
	return 0;
}

int host_used_us(const struct host *h, int pid, bool family, uint64_t *ret_us)
{
	struct family f = {{pid}, 1};
	struct demand d = {0};
	uint64_t us = 0;
	int r = used_by(h, pid, &us);

	if (r < 0)
		return r;
	for (unsigned i = 0; family && i < f.n; i++) {
		(void)demand_of(h, f.pid[i], &f, &d);
		if (i)
			(void)used_by(h, f.pid[i], &us);
	}
	*ret_us = us;
	return 0;
}

int host_waited_ms(const struct host *h, int pid, uint64_t *ret_ms)
{
	struct demand d = {0};
	const int r = demand_of(h, pid, NULL, &d);

	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	*ret_ms = d.waited / 1000000;
	return 0;
}
