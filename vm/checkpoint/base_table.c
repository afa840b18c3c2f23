/* SPDX-License-Identifier: Apache-2.0 */
/* Bases of points that are in memory. See base_table.h. */
#include "base_table.h"

#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/digest.h"
#include "vm/base/discard.h"

#define UNUSED_MOST 2u

struct ram_base {
	TAILQ_ENTRY(ram_base) link;
	int fd;
	ino_t ino; /* all files in memory are of one file system */
	unsigned users;
	uint64_t bytes;
	char sum[DIGEST_HEX];
};

void base_table_init(struct base_table *t)
{
	TAILQ_INIT(&t->list);
	t->bytes = 0;
}

static void drop(struct base_table *t, struct ram_base *b)
{
	TAILQ_REMOVE(&t->list, b, link);
	t->bytes -= b->bytes;
	discard(b->fd, NULL, b->bytes);
	free(b);
}

void base_table_fini(struct base_table *t)
{
	struct ram_base *b;

	while ((b = TAILQ_FIRST(&t->list)))
		drop(t, b);
}

static struct ram_base *by_file(const struct base_table *t, int fd)
{
	struct ram_base *b;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return NULL;
	TAILQ_FOREACH(b, &t->list, link)
		if (b->ino == st.st_ino)
			return b;
	return NULL;
}

void base_table_add(struct base_table *t, int fd, const char *sum, bool theirs)
{
	struct ram_base *b = by_file(t, fd);
	struct stat st;

	if (b)
		return;
	b = calloc(1, sizeof(*b));
	if (!b)
		return; /* it is read once more */
	b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (b->fd < 0 || fstat(b->fd, &st) < 0) {
		if (b->fd >= 0)
			close(b->fd);
		free(b);
		return;
	}
	b->ino = st.st_ino;
	b->bytes = theirs ? 0 : (uint64_t)st.st_blocks * 512;
	snprintf(b->sum, sizeof(b->sum), "%s", sum);
	t->bytes += b->bytes;
	TAILQ_INSERT_TAIL(&t->list, b, link);
}

int base_table_find(const struct base_table *t, const char *sum)
{
	const struct ram_base *b;

	TAILQ_FOREACH(b, &t->list, link)
		if (strcmp(b->sum, sum) == 0)
			return b->fd;
	return -1;
}

const char *base_table_sum(const struct base_table *t, int fd)
{
	const struct ram_base *b = by_file(t, fd);

	return b ? b->sum : NULL;
}

void base_table_use(struct base_table *t, int fd)
{
	struct ram_base *b = by_file(t, fd);

	if (!b)
		return;
	b->users++;
	TAILQ_REMOVE(&t->list, b, link);
	TAILQ_INSERT_TAIL(&t->list, b, link);
}

void base_table_leave(struct base_table *t, int fd)
{
	struct ram_base *b = by_file(t, fd);

	if (b && b->users)
		b->users--;
}

void base_table_trim(struct base_table *t)
{
	struct ram_base *b, *before;
	unsigned unused = 0;

	for (b = TAILQ_LAST(&t->list, ram_base_list); b; b = before) {
		before = TAILQ_PREV(b, ram_base_list, link);
		if (!b->users && ++unused > UNUSED_MOST)
			drop(t, b);
	}
}
