/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a jail's control groups. */
#include "cgroup_stat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/lent.h"
#include "vm/base/util.h"

static bool read_again(int fd, char *out, size_t size)
{
	const ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, 0);

	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number behind a word that begins a line, or that follows a blank. */
static bool number_behind(const char *text, const char *word, uint64_t *ret)
{
	const char *p = strstr(text, word);
	char *end;

	while (p && p != text && p[-1] != '\n' && p[-1] != ' ')
		p = strstr(p + 1, word);
	if (!p)
		return false;
	p += strlen(word);
	*ret = strtoull(p, &end, 10);
	return end != p;
}

void cgroup_stat_close(struct cgroup_stat *g)
{
	for (int i = 0; i < CGROUP_STAT_NFILES; i++)
		lent_close(&g->fd[i]);
	*g = CGROUP_STAT_NONE;
}

/* The line is the same in both versions. */
uint64_t cgroup_stat_oom_kills(const struct cgroup_stat *g)
{
	char text[512];
	uint64_t n;

	return read_again(g->fd[CGROUP_STAT_OOM], text, sizeof(text)) &&
			       number_behind(text, "oom_kill ", &n)
		       ? n
		       : 0;
}

uint64_t cgroup_stat_note_oom(struct cgroup_stat *g)
{
	g->oom_noted = cgroup_stat_oom_kills(g);
	return g->oom_noted;
}

bool cgroup_stat_used_us(const struct cgroup_stat *g, uint64_t *ret_us)
{
	char text[512];

	if (!read_again(g->fd[CGROUP_STAT_CPU], text, sizeof(text)))
		return false;
	/* Version 1 has nanoseconds, and nothing else. */
	if (!number_behind(text, "usage_usec ", ret_us))
		*ret_us = strtoull(text, NULL, 10) / 1000;
	return true;
}

bool cgroup_stat_demand_ms(const struct cgroup_stat *g, uint64_t *ret_ms)
{
	uint64_t used, waited = 0;
	char text[512];

	if (!cgroup_stat_used_us(g, &used))
		return false;
	/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12" */
	if (read_again(g->fd[CGROUP_STAT_WAIT], text, sizeof(text)))
		(void)number_behind(text, "total=", &waited);
	*ret_ms = (used + waited) / 1000;
	return true;
}
