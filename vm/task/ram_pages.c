/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of another process that are its own. See ram_pages.h. */
#include "ram_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The page table of a process says of each page whether it is there, in the file's cache, or
 * swapped out; what is there and no file's, or was and is swapped out, is the process' own. Newer
 * kernels list ranges of such pages (PAGEMAP_SCAN, 6.7), older ones give a word for each.
 *
 * Some kernels also note which pages are written (soft-dirty, since somebody has written to
 * /proc/PID/clear_refs). Those that do not have the same bit, which is never set: so the kernel is
 * tried before it is believed.
 *
 * The number of a process that was reaped is given to others. So after everything that was read by
 * number, the pidfd has to say that it has not ended.
 */

#ifndef PAGEMAP_SCAN
#define PAGEMAP_SCAN	_IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_FILE	(1 << 2)
#define PAGE_IS_PRESENT (1 << 3)
#define PAGE_IS_SWAPPED (1 << 4)
#define PAGE_IS_PFNZERO (1 << 5)

struct page_region {
	uint64_t start, end, categories;
};

struct pm_scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#endif

#ifndef PAGE_IS_SOFT_DIRTY
#define PAGE_IS_SOFT_DIRTY (1 << 7)
#endif

#define REGIONS	   512u
#define WORDS	   4096u
#define PM_WRITTEN (1ull << 55)
#define PM_FILE	   (1ull << 61)
#define PM_SWAP	   (1ull << 62)
#define PM_PRESENT (1ull << 63)
#define PIECES	   1024u /* of one call */

int ram_pages_open(struct ram_pages *r, pid_t pid, int pidfd, uint64_t address, uint64_t bytes)
{
	char path[64];

	r->pid = pid;
	r->pidfd = pidfd;
	r->pagemap = -1;
	if (!bytes || address % RAM_PAGE || bytes % RAM_PAGE || bytes / RAM_PAGE > UINT32_MAX ||
	    address + bytes < address)
		return -EINVAL;
	r->address = address;
	r->count = (uint32_t)(bytes / RAM_PAGE);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	r->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	return r->pagemap < 0 ? -errno : 0;
}

void ram_pages_close(struct ram_pages *r)
{
	if (r->pagemap >= 0)
		close(r->pagemap);
	free(r->extent);
	*r = (struct ram_pages){.pagemap = -1};
}

/* Return: 0 or -ENOMEM. */
static int add(struct ram_pages *r, uint32_t first, uint32_t count)
{
	struct ram_extent *last = r->nextents ? &r->extent[r->nextents - 1] : NULL;

	r->own += count;
	if (last && last->first + last->count == first) {
		last->count += count;
		return 0;
	}
	if (r->nextents == r->cap) {
		const size_t cap = r->cap ? r->cap * 2 : 1024;
		struct ram_extent *e = reallocarray(r->extent, cap, sizeof(*e));

		if (!e)
			return -ENOMEM;
		r->extent = e;
		r->cap = cap;
	}
	r->extent[r->nextents++] = (struct ram_extent){first, count};
	return 0;
}

/* Return: 0, -ENOTTY if this kernel can't, or -errno. */
static int scan_regions(struct ram_pages *r, bool written)
{
	static struct page_region region[REGIONS];
	const uint64_t end = r->address + (uint64_t)r->count * RAM_PAGE;
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = r->address,
		.end = end,
		.vec = (uintptr_t)region,
		.vec_len = REGIONS,
		.category_inverted = PAGE_IS_FILE | PAGE_IS_PFNZERO,
		.category_mask = PAGE_IS_FILE | PAGE_IS_PFNZERO,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.return_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
	};

	if (written)
		arg.category_mask |= PAGE_IS_SOFT_DIRTY;
	while (arg.start < end) {
		const int n = ioctl(r->pagemap, PAGEMAP_SCAN, &arg);
		int err = n < 0 ? -errno : 0;

		for (int i = 0; err == 0 && i < n; i++)
			err = add(r, (uint32_t)((region[i].start - r->address) / RAM_PAGE),
				  (uint32_t)((region[i].end - region[i].start) / RAM_PAGE));
		if (err < 0)
			return err;
		arg.start = arg.walk_end;
	}
	return 0;
}

static int scan_words(struct ram_pages *r, bool written)
{
	static uint64_t word[WORDS];

	for (uint32_t at = 0; at < r->count;) {
		const size_t n = MIN(r->count - at, WORDS);
		const ssize_t got = pread(r->pagemap, word, n * sizeof(*word),
					  (off_t)((r->address / RAM_PAGE + at) * sizeof(*word)));

		if (got < (ssize_t)sizeof(*word))
			return got < 0 ? -errno : -EFAULT;
		for (size_t i = 0; i < (size_t)got / sizeof(*word); i++, at++) {
			const bool own = (word[i] & PM_SWAP) ||
					 (word[i] & (PM_PRESENT | PM_FILE)) == PM_PRESENT;
			const bool wanted = own && (!written || (word[i] & PM_WRITTEN));

			if (wanted && add(r, at, 1) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static void restart(struct ram_pages *r)
{
	r->nextents = 0;
	r->own = 0;
}

static int scan(struct ram_pages *r, bool written)
{
	int err;

	restart(r);
	err = scan_regions(r, written);
	if (err != -ENOTTY && err != -EINVAL)
		return err;
	restart(r);
	return scan_words(r, written);
}

int ram_pages_scan(struct ram_pages *r)
{
	return scan(r, false);
}

int ram_pages_scan_written(struct ram_pages *r)
{
	return scan(r, true);
}

static int forget_writes(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "4", 1) != 1 ? -errno : 0;
}

/* What does the kernel say of this page of ours? */
static bool is_noted(int pagemap, const volatile uint8_t *page)
{
	uint64_t word = 0;

	return pread(pagemap, &word, sizeof(word),
		     (off_t)((uintptr_t)page / RAM_PAGE * sizeof(word))) == sizeof(word) &&
	       (word & PM_WRITTEN);
}

/* Tries the kernel on a page of ours. */
static bool kernel_notes(void)
{
	_cleanup_close_ int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	void *map =
		mmap(NULL, RAM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile uint8_t *page = map;
	bool notes;

	if (pagemap < 0 || map == MAP_FAILED)
		return false;
	*page = 1;
	notes = is_noted(pagemap, page) && forget_writes(getpid()) == 0 && !is_noted(pagemap, page);
	*page = 2;
	notes = notes && is_noted(pagemap, page);
	munmap(map, RAM_PAGE);
	return notes;
}

int ram_pages_watch(struct ram_pages *r)
{
	return kernel_notes() ? forget_writes(r->pid) : -EOPNOTSUPP;
}

static bool is_gone(const struct ram_pages *r)
{
	struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* What is read next, and where it goes: both sides have as many bytes. */
struct batch {
	struct iovec local[PIECES], remote[PIECES];
	unsigned long nlocal, nremote;
	size_t bytes;
};

static int read_batch(const struct ram_pages *r, struct batch *b)
{
	const ssize_t n =
		b->bytes ? process_vm_readv(r->pid, b->local, b->nlocal, b->remote, b->nremote, 0)
			 : 0;
	const int err = n < 0 ? -errno : (size_t)n < b->bytes ? -EFAULT : 0;

	b->nlocal = b->nremote = b->bytes = 0;
	return err;
}

/* Adds pages that lie in a row there, and here if @stride is none. */
static void put(struct batch *b, uint8_t *to, size_t stride, uint64_t from, uint32_t count)
{
	const size_t len = (size_t)count * RAM_PAGE;

	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address of another process. */
	b->remote[b->nremote++] = (struct iovec){(void *)(uintptr_t)from, len};
	if (!stride)
		b->local[b->nlocal++] = (struct iovec){to, len};
	for (uint32_t i = 0; stride && i < count; i++)
		b->local[b->nlocal++] = (struct iovec){to + i * stride, RAM_PAGE};
	b->bytes += len;
}

int ram_pages_read(const struct ram_pages *r, uint8_t *first, size_t stride)
{
	static struct batch b;
	size_t done = 0;
	int err = 0;

	for (size_t i = 0; err == 0 && i < r->nextents; i++) {
		const struct ram_extent e = r->extent[i];

		for (uint32_t at = 0, n; err == 0 && at < e.count; at += n, done += n) {
			const uint32_t page = e.first + at;
			uint8_t *to = first + (stride ? done * stride : (size_t)page * RAM_PAGE);

			n = MIN(e.count - at, PIECES);
			if (b.nremote == PIECES || b.nlocal + (stride ? n : 1) > PIECES)
				err = read_batch(r, &b);
			put(&b, to, stride, r->address + (uint64_t)page * RAM_PAGE, n);
		}
	}
	if (err == 0)
		err = read_batch(r, &b);
	b.nlocal = b.nremote = b.bytes = 0;
	return is_gone(r) ? -ESRCH : err;
}
