/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that tell of forks, emptied in a machine that was copied. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "turn.h"

/*
 * Theory of operation
 * -------------------
 * A seed means that the machine was copied. Libraries that draw random numbers learn of a copied process by
 * pages that are empty in a child (MADV_WIPEONFORK), and of a copied machine by nothing at all. So if any
 * code has run before, these pages are emptied here, and what it has drawn from is drawn from no more.
 *
 * /proc/self/smaps tells which they are, but makes the kernel look at every page of the process. So they may be
 * noted beforehand. The process goes on meanwhile and may have mapped something else there, which must not be
 * emptied; so it is asked of /proc/self/maps, which costs a fraction, whether each is still a mapping of its own with
 * the same bounds. The kernel joins no such pages with others. If not, they are looked for again.
 *
 * Where code has run, new ones may have come as well. So what is noted for a machine that is about to be copied counts only
 * if there is no other thread, and the seed is the very next thing that this one is woken by: then nothing has happened.
 */

#define PAGES_MAX 64 /* ranges that are noted; those that are emptied at once are not counted */
static struct {
	void *begin;
	size_t len;
} known[PAGES_MAX];
static int nknown = -1; /* below 0: not known */
static bool exact;	/* nobody can have changed anything since */

/* Are the pages that are known still mapped as they were? Pages with this flag are never joined with others, so
 * their ranges tell. */
static bool are_there(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, inode;
	char *line = NULL, shared;
	size_t size = 0;
	int n = 0;

	if (!maps)
		return false;
	while (n < nknown && getline(&line, &size, maps) > 0) {
		if (sscanf(line, "%lx-%lx %*3c%c %*s %*s %lu", &from, &to, &shared, &inode) == 4 &&
		    from == (uintptr_t)known[n].begin && to - from == known[n].len &&
		    shared == 'p' && inode == 0)
			n++;
	}
	free(line);
	fclose(maps);
	return n == nknown;
}

/* Empty the pages that are known. Return: how many, or -errno */
static int wipe_known(void)
{
	for (int i = 0; i < nknown; i++) {
		if (madvise(known[i].begin, known[i].len, MADV_DONTNEED) < 0)
			return -errno;
	}
	return nknown;
}

/* What /proc/self/smaps says of one range after the other. */
struct ranges {
	FILE *smaps;
	char *line;
	size_t size;
	unsigned long begin, end; /* of the last one */
};

/* Find the next range with the kernel's flag "wf". Return: 1, 0 after the last, or -ENOENT if the kernel does not tell */
static int next_range(struct ranges *r)
{
	unsigned long from, to;
	bool told = r->end > 0;

	while (getline(&r->line, &r->size, r->smaps) > 0) {
		if (strncmp(r->line, "VmFlags:", 8) == 0) {
			told = true;
			if (strstr(r->line, " wf"))
				return 1;
		} else if (sscanf(r->line, "%lx-%lx ", &from, &to) == 2) {
			r->begin = from;
			r->end = to;
		}
	}
	return told ? 0 : -ENOENT;
}

/* Find out which pages they are, and empty them if @wipe. Return: how many, or -errno; -E2BIG: more than can be known
 * beforehand. */
static int find_pages(bool wipe)
{
	struct ranges ranges = {.smaps = fopen("/proc/self/smaps", "re")};
	int r, n = 0, failed = 0;

	if (!ranges.smaps)
		return -errno;
	while ((r = next_range(&ranges)) > 0) {
		void *begin = (void *)ranges.begin;
		const size_t len = ranges.end - ranges.begin;

		if (wipe && madvise(begin, len, MADV_DONTNEED) < 0)
			failed = -errno; /* the others are emptied nevertheless */
		if (n < PAGES_MAX) {
			known[n].begin = begin;
			known[n].len = len;
		}
		n++;
	}
	free(ranges.line);
	fclose(ranges.smaps);
	if (r < 0 || failed)
		return r < 0 ? r : failed;
	return n <= PAGES_MAX ? n : -E2BIG;
}

int turn_renew(bool wipe)
{
	if (wipe && nknown >= 0 && (exact || are_there()))
		return wipe_known();
	nknown = find_pages(wipe);
	exact = false;
	return nknown;
}

void turn_renew_prepare(void)
{
	nknown = find_pages(false);
	exact = nknown >= 0;
}

void turn_renew_forget(void)
{
	nknown = -1;
	exact = false;
}
