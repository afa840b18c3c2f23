/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed memory as a guest's swap, and a guard against thrashing. */
#include "swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * What programs hold in memory can mostly be compressed to a third or less, so a guest gets by with
 * less memory than its programs ask for, and the host pays only for what is used. Swap is a block
 * device of compressed memory (zram).
 *
 * That has a price. Swapping out data that can't be compressed gains nothing, and the kernel, which
 * sees pages go out one after the other, takes this for progress and may go on for minutes before it
 * ends something. So we watch: when tasks have to wait for memory much of the time (PSI) and the
 * compressed memory has grown large, or swap is nearly full, or the compressed memory has grown at
 * all while hardly anything is saved, the run is over, and says that it was out of memory.
 * That point is below the limits: a killed process needs memory to end, too. If no run is active,
 * or if memory is short again right after one was ended, what earlier runs left behind is to blame,
 * and all user code goes.
 *
 * Pressure alone is no reason: a program that walks through more data than fits has much of it, and
 * gets to its end. Nor can it tell how short memory is. It is measured by the clock, so a processor
 * that is emulated, or is shared with others, has some whenever anything is swapped at all. What
 * decides are amounts, which are the same on every host. They have to leave room: the same program
 * takes some megabytes more or less, by what was started beside it before memory became short.
 *
 * We are PID 1 and decide this, so we must not wait for memory ourselves: what we have touched is
 * locked, and the decision takes two reads into memory that is there.
 *
 * Pages of programs are not swapped but thrown out, and read again from the image. A guest that does
 * nothing else is ended by the kernel: see harden_memory().
 */

#define ZRAM	 "/sys/block/zram0/"
#define DEVICE	 "/dev/zram0"
#define SIZE	 125u /* per cent of memory: what may be swapped out */
#define LIMIT	 50u  /* per cent of memory: what that may take when it is compressed */
#define MUCH	 85u  /* per cent of the limit, from which on pressure is the end of a run */
#define FULL	 95u  /* per cent of what may be swapped out, from which on the same holds */
#define SOME	 20u  /* per cent of the limit, from which on something must be saved by it */
#define PRIORITY 100
#define PAGE	 4096u

/* At the end of the first page. */
static const char signature[] = {'S', 'W', 'A', 'P', 'S', 'P', 'A', 'C', 'E', '2'};

/* Tasks waited for 150 ms within half a second. */
static const char trigger[] = "some 150000 500000";

static int put_number(const char *path, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return proc_write(path, text);
}

/* What mkswap(8) writes. */
static int write_header(uint64_t size)
{
	struct {
		char boot[1024];
		uint32_t version, last_page, nr_badpages;
	} head = {.version = 1, .last_page = (uint32_t)(size / PAGE - 1)};
	static char page[PAGE];
	_cleanup_close_ int fd = open(DEVICE, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	memcpy(page, &head, sizeof(head));
	memcpy(page + PAGE - sizeof(signature), signature, sizeof(signature));
	return pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE ? 0 : -EIO;
}

static uint64_t memory_bytes(void)
{
	struct sysinfo si;

	return sysinfo(&si) < 0 ? 0 : (uint64_t)si.totalram * si.mem_unit;
}

static int set_up(uint64_t memory, struct swap *ret_swap)
{
	const uint64_t size = memory * SIZE / 100 / PAGE * PAGE;
	int r;

	ret_swap->size = size;
	ret_swap->limit = memory * LIMIT / 100 / PAGE * PAGE;
	/* The fastest, as far as the kernel has it; its default will do as well. */
	(void)proc_write(ZRAM "comp_algorithm", "lz4");
	r = put_number(ZRAM "disksize", size);
	if (r == 0)
		r = put_number(ZRAM "mem_limit", ret_swap->limit);
	if (r == 0)
		r = write_header(size);
	if (r == 0 && swapon(DEVICE, SWAP_FLAG_PREFER | PRIORITY) < 0)
		r = -errno;
	return r;
}

/* To have pages near a page brought in with it is of use for disks only. */
static void tune(void)
{
	(void)proc_write("/proc/sys/vm/page-cluster", "0");
	(void)proc_write("/proc/sys/vm/swappiness", "100");
	/* What harden_memory() asks for is too much with swap: a program that fills memory quickly has
	 * nothing but pages of the last moments. Without any, a guest that has no memory left for its
	 * programs' text does nothing but read that. */
	(void)proc_write("/sys/kernel/mm/lru_gen/min_ttl_ms", "40");
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
		log_line("mlockall: %s", strerror(errno));
}

/* Without PSI, or with it turned off, there is no guard but the kernel's own. */
static int open_pressure(void)
{
	int fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && write(fd, trigger, sizeof(trigger)) < 0)
		close_fd(&fd);
	return fd;
}

void swap_on(struct swap *ret_swap)
{
	int r;

	*ret_swap = SWAP_NONE;
	if (access(ZRAM, F_OK) < 0)
		return; /* a kernel without it */
	r = set_up(memory_bytes(), ret_swap);
	if (r < 0) {
		log_line("no swap: %s", strerror(-r));
		return;
	}
	tune();
	ret_swap->stat_fd = open(ZRAM "mm_stat", O_RDONLY | O_CLOEXEC);
	ret_swap->pressure_fd = open_pressure();
}

/* ---- the guard ---- */

/* Is so much swapped out that pressure means the end? */
static bool is_spent(const struct swap *s)
{
	char text[256], *p = text;
	uint64_t size, used;
	ssize_t n = pread(s->stat_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	/* Size of the data, and compressed. With gaps is next, but gaps will be closed. */
	size = strtoull(p, &p, 10);
	used = strtoull(p, &p, 10);
	if (used >= s->limit / 100 * MUCH || size >= s->size / 100 * FULL)
		return true;
	return used >= s->limit / 100 * SOME && size < used + used / 2;
}

static void on_pressure(struct loop_source *s, uint32_t events)
{
	struct swap_guard *g = container_of(s, struct swap_guard, pressure);

	if (events & EPOLLERR)
		loop_close(g->loop, s);
	else if (is_spent(&g->swap))
		g->spent(g);
}

void swap_guard_init(struct swap_guard *g)
{
	g->pressure = (struct loop_source){.fd = g->swap.pressure_fd, .ready = on_pressure};
	if (g->swap.stat_fd < 0 || g->pressure.fd < 0)
		return;
	if (loop_watch(g->loop, &g->pressure, EPOLLPRI) < 0)
		log_line("nobody watches over the memory: %s", strerror(errno));
}

void swap_guard_fini(struct swap_guard *g)
{
	loop_close(g->loop, &g->pressure);
	close_fd(&g->swap.stat_fd);
}
