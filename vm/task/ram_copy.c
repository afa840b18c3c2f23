/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the memory of a machine that goes on behind it. See ram_copy.h. */
#include "ram_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ram_pages.h"
#include "ram_stream.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The machine stands still between GO and COPIED, so everything that can be done before and after
 * that is: what is written to is there already, with its pages, and the stream has a place for each
 * page of the machine's, to which it is copied by the kernel at once; what goes between the pages
 * is written when the machine runs again.
 *
 * Where all of its memory is copied, that is done beforehand as well. If the kernel notes what is
 * written to since, only that is copied anew; else everything is, which takes a quarter of a
 * millisecond for each MiB.
 *
 * A task, and not a thread of the daemon, because the daemon may not look into other processes, and
 * must not wait. It has the spawner's rights, and does nothing with them but to read the memory of
 * one of the spawner's own machines.
 */

#define SPARE_PAGES 1024u /* that may come to be its own between the preparation and the copy */
#define DEVICES_MAX (16u << 20)

struct copy {
	struct ram_pages pages, early; /* with `whole`: those that were copied while it ran */
	bool watched;		       /* what was written to since is known */
	uint64_t bytes;
	bool whole;
	uint8_t *to; /* the stream, or with `whole` the base */
	size_t size; /* of that mapping */
};

static int say(int32_t word)
{
	return write(RAM_COPY_TALK, &word, sizeof(word)) == sizeof(word) ? 0 : -errno;
}

/* Return: 0, or -ECANCELED if something else comes, or the end. */
static int hear(int32_t word)
{
	int32_t got;
	ssize_t n;

	do
		n = read(RAM_COPY_TALK, &got, sizeof(got));
	while (n < 0 && errno == EINTR);
	return n == sizeof(got) && got == word ? 0 : -ECANCELED;
}

static int map(struct copy *c, int fd, size_t size)
{
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	c->size = size;
	c->to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	return c->to == MAP_FAILED ? -errno : 0;
}

/* What fails here costs time later and nothing else. */
static void populate(const struct copy *c, size_t size)
{
#ifdef MADV_POPULATE_WRITE
	(void)madvise(c->to, MIN((size + RAM_PAGE - 1) & ~(size_t)(RAM_PAGE - 1), c->size),
		      MADV_POPULATE_WRITE);
#else
	for (size_t at = 0; at < MIN(size, c->size); at += RAM_PAGE)
		((volatile uint8_t *)c->to)[at] = 0;
#endif
}

static int read_pages(const struct copy *c)
{
	return c->whole ? ram_pages_read(&c->pages, c->to, 0)
			: ram_pages_read(&c->pages, c->to + ram_stream_first(), RAM_STREAM_STRIDE);
}

/* Copies all of its memory while it runs. Return: 0 or -errno. */
static int copy_early(struct copy *c, const struct ram_copy *what)
{
	int r = ram_pages_open(&c->early, what->pid, RAM_COPY_PIDFD, what->address, what->bytes);

	if (r == 0)
		r = map(c, RAM_COPY_BASE, what->bytes);
	if (r < 0)
		return r;
	c->watched = ram_pages_watch(&c->early) == 0;
	r = ram_pages_scan(&c->early);
	return r < 0 ? r : ram_pages_read(&c->early, c->to, 0);
}

static int prepare(struct copy *c, const struct ram_copy *what)
{
	int r = ram_pages_open(&c->pages, what->pid, RAM_COPY_PIDFD, what->address, what->bytes);

	c->bytes = what->bytes;
	c->whole = what->whole;
	if (r == 0 && c->whole)
		return copy_early(c, what);
	if (r == 0)
		r = ram_pages_scan(&c->pages);
	if (r == 0)
		r = map(c, RAM_COPY_STREAM, ram_stream_size(c->pages.count));
	if (r == 0)
		populate(c, ram_stream_size(MIN(c->pages.own + SPARE_PAGES, c->pages.count)));
	return r;
}

static int copy_now(struct copy *c)
{
	int r = c->watched ? ram_pages_scan_written(&c->pages) : ram_pages_scan(&c->pages);

	return r < 0 ? r : read_pages(c);
}

/* Memory that was never written is not there in a machine that boots, but huge pages are there as a
 * whole. */
static void give_back_zeroes(const struct copy *c, const struct ram_pages *pages)
{
	static const uint8_t zeroes[RAM_PAGE];

	for (size_t i = 0; i < pages->nextents; i++) {
		const struct ram_extent e = pages->extent[i];

		for (uint32_t n = 0; n < e.count; n++) {
			const size_t at = (size_t)(e.first + n) * RAM_PAGE;

			if (memcmp(c->to + at, zeroes, RAM_PAGE) == 0)
				(void)fallocate(RAM_COPY_BASE,
						FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						(off_t)at, RAM_PAGE);
		}
	}
}

/* Appends the devices, from behind what every stream begins with, and what comes last. Return: 0 or -errno. */
static int append_devices(size_t at)
{
	static uint8_t buf[1 << 16];
	struct stat st;
	ssize_t n;

	if (fstat(RAM_COPY_DEVICES, &st) < 0)
		return -errno;
	if (st.st_size <= RAM_STREAM_MAGIC || st.st_size > DEVICES_MAX)
		return -EPROTO;
	if (pread(RAM_COPY_DEVICES, buf, RAM_STREAM_MAGIC, 0) != RAM_STREAM_MAGIC ||
	    ram_stream_known(buf) < 0)
		return -EPROTO;
	for (off_t from = RAM_STREAM_MAGIC; from < st.st_size; from += n, at += (size_t)n) {
		n = pread(RAM_COPY_DEVICES, buf, sizeof(buf), from);
		if (n <= 0 || pwrite(RAM_COPY_STREAM, buf, (size_t)n, (off_t)at) != n)
			return -EIO;
	}
	if (pwrite(RAM_COPY_STREAM, RAM_STREAM_LAST, sizeof(RAM_STREAM_LAST), (off_t)at) !=
	    sizeof(RAM_STREAM_LAST))
		return -EIO;
	at += sizeof(RAM_STREAM_LAST);
	return ftruncate(RAM_COPY_STREAM, (off_t)at) < 0 ? -errno : 0;
}

/* The machine runs again. Return: 0 or -errno. */
static int finish(struct copy *c)
{
	uint8_t empty[512];
	const size_t size = ram_stream_size(c->whole ? 0 : c->pages.own);
	int r;

	if (!c->whole) {
		ram_stream_write(c->to, c->bytes, c->pages.extent, c->pages.nextents);
	} else {
		if (c->watched) /* else the others are all */
			give_back_zeroes(c, &c->early);
		give_back_zeroes(c, &c->pages);
		ram_stream_write(empty, c->bytes, NULL, 0);
		if (pwrite(RAM_COPY_STREAM, empty, size, 0) != (ssize_t)size)
			return -EIO;
	}
	r = hear(RAM_COPY_SAVED);
	return r < 0 ? r : append_devices(size);
}

void ram_copy_serve(const struct ram_copy *what)
{
	struct copy c = {0};
	int r = prepare(&c, what);

	if (r == 0)
		r = say(RAM_COPY_READY);
	if (r == 0)
		r = hear(RAM_COPY_GO);
	if (r == 0)
		r = copy_now(&c);
	if (r == 0)
		r = say(RAM_COPY_COPIED);
	if (r == 0)
		r = finish(&c);
	if (r < 0)
		(void)say(r);
	_exit(r < 0);
}
