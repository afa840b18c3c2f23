/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process is copied: which pages are its own, and what QEMU is given to read. */
/* modules: vm/task/ram_pages.c vm/task/ram_stream.c vm/task/ram_copy.c */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/arch.h"
#include "vm/base/util.h"
#include "vm/task/ram_copy.h"
#include "vm/task/ram_pages.h"
#include "vm/task/ram_stream.h"

#define PAGES 3000u
#define SIZE  ((size_t)PAGES * RAM_PAGE)

/* A machine: a process with memory that it has partly written. */
static struct {
	pid_t pid;
	int pidfd, base;
	uint64_t address;
	int go, done; /* it writes once more; it has */
	bool again;   /* that has happened */
} machine;

/* The pages that it writes again, among them some for the first time. */
static bool is_later(uint32_t page)
{
	return page % 11 == 3 || page == 2000;
}

/* The pages that it writes, each with a number of its own. */
static bool is_own(uint32_t page)
{
	return page == 0 || (page >= 100 && page < 1300) || page == PAGES - 1 || page % 7 == 5 ||
	       (machine.again && is_later(page));
}

static uint32_t content(uint32_t page)
{
	return page * 2654435761u + 1 + (machine.again && is_later(page));
}

static void write_page(uint8_t *memory, uint32_t page)
{
	const uint32_t n = content(page);

	memcpy(memory + (size_t)page * RAM_PAGE + page % 1000 * 4, &n, sizeof(n));
}

/* In the machine, when it is told to. */
static void write_again(uint8_t *memory)
{
	machine.again = true;
	for (uint32_t i = 0; i < PAGES; i++) {
		if (is_later(i))
			write_page(memory, i);
	}
}

static void begin(bool file)
{
	int go[2], later[2];
	uint8_t *p;
	char byte;

	machine.again = false;
	assert_int_equal(pipe(later), 0);

	machine.base = memfd_create("base", MFD_CLOEXEC);
	assert_int_equal(ftruncate(machine.base, SIZE), 0);
	assert_int_equal(pwrite(machine.base, "base", 4, 2 * RAM_PAGE), 4);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | (file ? 0 : MAP_ANONYMOUS),
		 file ? machine.base : -1, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(madvise(p, SIZE, MADV_NOHUGEPAGE), 0);
	assert_int_equal(pipe(go), 0);
	machine.pid = fork();
	if (machine.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* the copier is no parent of ours */
		for (uint32_t i = 0; i < PAGES; i++) {
			if (is_own(i))
				write_page(p, i);
			else if (i % 3 == 0) /* read, which is nothing of its own */
				byte = (char)((volatile uint8_t *)p)[(size_t)i * RAM_PAGE];
		}
		(void)!write(go[1], "", 1);
		while (read(later[0], &byte, 1) == 1) {
			write_again(p);
			(void)!write(go[1], "", 1);
		}
		for (;;)
			pause();
	}
	assert_int_equal(read(go[0], &byte, 1), 1);
	machine.go = later[1];
	machine.done = go[0];
	close(later[0]);
	close(go[1]);
	munmap(p, SIZE);
	machine.pidfd = pidfd_open(machine.pid, 0);
	machine.address = (uint64_t)(uintptr_t)p;
}

static void end(void)
{
	kill(machine.pid, SIGKILL);
	waitpid(machine.pid, NULL, 0);
	close(machine.pidfd);
	close(machine.base);
	close(machine.go);
	close(machine.done);
}

/* It goes on a little. */
static void go_on(void)
{
	char byte;

	assert_int_equal(write(machine.go, "", 1), 1);
	assert_int_equal(read(machine.done, &byte, 1), 1);
	machine.again = true;
}

static void assert_pages(const struct ram_pages *r)
{
	uint32_t page = 0, own = 0;

	for (size_t i = 0; i < r->nextents; i++) {
		for (; page < r->extent[i].first; page++)
			assert_false(is_own(page));
		for (; page < r->extent[i].first + r->extent[i].count; page++, own++)
			assert_true(is_own(page));
	}
	for (; page < PAGES; page++)
		assert_false(is_own(page));
	assert_int_equal(r->own, own);
}

static void assert_content(const uint8_t *bytes, uint32_t page)
{
	uint32_t n;

	memcpy(&n, bytes + page % 1000 * 4, sizeof(n));
	assert_int_equal(n, content(page));
}

static void scan(bool file)
{
	struct ram_pages r = {0};
	uint8_t *to = calloc(PAGES, RAM_PAGE + 8);
	uint32_t done = 0;

	begin(file);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, machine.address, SIZE), 0);
	assert_int_equal(ram_pages_scan(&r), 0);
	assert_pages(&r);
	assert_int_equal(ram_pages_scan(&r), 0); /* once more is the same */
	assert_pages(&r);
	assert_int_equal(ram_pages_read(&r, to, 0), 0);
	for (uint32_t i = 0; i < PAGES; i++)
		if (is_own(i))
			assert_content(to + (size_t)i * RAM_PAGE, i);
	assert_int_equal(ram_pages_read(&r, to + 8, RAM_PAGE + 8), 0);
	for (uint32_t i = 0; i < PAGES; i++)
		if (is_own(i))
			assert_content(to + 8 + done++ * (size_t)(RAM_PAGE + 8), i);
	ram_pages_close(&r);
	end();
	free(to);
}

static void of_a_file(void **state)
{
	(void)state;
	scan(true);
}

static void of_no_file(void **state)
{
	(void)state;
	scan(false);
}

/* As on a kernel that lists no ranges. */
static void word_by_word(void **state)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {ARRAY_SIZE(code), code};
	struct ram_pages r = {0};
	int status;
	pid_t pid;

	(void)state;
	begin(true);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ||
		    ram_pages_open(&r, machine.pid, machine.pidfd, machine.address, SIZE) < 0 ||
		    ram_pages_scan(&r) < 0)
			_exit(2);
		for (uint32_t i = 0, at = 0; i < PAGES; i++) {
			while (at < r.nextents && i >= r.extent[at].first + r.extent[at].count)
				at++;
			if (is_own(i) != (at < r.nextents && i >= r.extent[at].first))
				_exit(1);
		}
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	end();
}

/* Where the kernel notes it. */
static void written_since(void **state)
{
	struct ram_pages r = {0};
	uint32_t written = 0;
	int watch;

	(void)state;
	begin(true);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, machine.address, SIZE), 0);
	watch = ram_pages_watch(&r);
	if (watch == 0) {
		assert_int_equal(ram_pages_scan_written(&r), 0);
		assert_int_equal(r.own, 0);
		go_on();
		assert_int_equal(ram_pages_scan_written(&r), 0);
		for (uint32_t i = 0; i < PAGES; i++)
			written += is_later(i);
		assert_int_equal(r.own, written);
		for (size_t i = 0; i < r.nextents; i++)
			assert_true(is_later(r.extent[i].first));
	}
	assert_int_equal(ram_pages_scan(&r), 0);
	assert_pages(&r);
	ram_pages_close(&r);
	end();
	if (watch == -EOPNOTSUPP)
		print_message("this kernel does not note what is written\n");
	else
		assert_int_equal(watch, 0);
}

/* What is not there, and a process that is gone. */
static void refused(void **state)
{
	struct ram_pages r = {0};
	uint8_t *to = malloc(SIZE);

	(void)state;
	begin(true);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, 1, SIZE), -EINVAL);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, RAM_PAGE, 0), -EINVAL);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, -(uint64_t)RAM_PAGE, SIZE),
			 -EINVAL);
	assert_int_equal(ram_pages_open(&r, machine.pid, machine.pidfd, machine.address, SIZE), 0);
	assert_int_equal(ram_pages_scan(&r), 0);
	r.address += 1ull << 40; /* nothing is mapped there */
	assert_int_equal(ram_pages_read(&r, to, 0), -EFAULT);
	r.address -= 1ull << 40;
	kill(machine.pid, SIGKILL);
	waitid(P_PID, (id_t)machine.pid, NULL, WEXITED | WNOWAIT);
	assert_int_equal(ram_pages_read(&r, to, 0), -ESRCH);
	ram_pages_close(&r);
	end();
	free(to);
}

/* ---- the copier, and its stream ---- */

static uint64_t take(const uint8_t **p, size_t len)
{
	uint64_t v = 0;

	while (len--)
		v = v << 8 | *(*p)++;
	return v;
}

/* As QEMU reads it. */
static void assert_stream(const uint8_t *p, size_t len, bool with_pages)
{
	const uint8_t *end = p + len;
	uint32_t npages = 0;
	uint64_t flags;

	assert_int_equal(take(&p, 8), 0x5145564d00000003);
	assert_int_equal(take(&p, 1), 7);
	assert_int_equal(take(&p, 4), strlen(ARCH_KIND));
	assert_memory_equal(p, ARCH_KIND, strlen(ARCH_KIND));
	p += strlen(ARCH_KIND);
	assert_int_equal(take(&p, 1), 5);
	assert_memory_equal(p, "\36configuration/target-page-bits\0\0\0\1\0\0\0\14", 39);
	p += 39;
	assert_int_equal(take(&p, 1), 1);
	assert_int_equal(take(&p, 4), 0x7000);
	assert_memory_equal(p, "\3ram\0\0\0\0\0\0\0\4", 12);
	p += 12;
	assert_int_equal(take(&p, 8), SIZE | 4);
	assert_memory_equal(p, "\3ram", 4);
	p += 4;
	assert_int_equal(take(&p, 8), SIZE);
	assert_int_equal(take(&p, 8), 0x10);
	assert_int_equal(take(&p, 5), 0x7e00007000);
	assert_int_equal(take(&p, 5), 0x0300007000);
	while ((flags = take(&p, 8)) != 0x10) {
		assert_true(p < end);
		assert_int_equal(flags % RAM_PAGE, npages ? 0x28 : 0x08);
		if (!npages++)
			assert_int_equal(take(&p, 4), 0x0372616d);
		assert_true(is_own((uint32_t)(flags / RAM_PAGE)));
		assert_content(p, (uint32_t)(flags / RAM_PAGE));
		p += RAM_PAGE;
	}
	for (uint32_t i = 0; with_pages && i < PAGES; i++)
		npages -= is_own(i);
	assert_int_equal(npages, 0);
	assert_int_equal(take(&p, 5), 0x7e00007000);
	assert_int_equal(end - p, 12);
	assert_memory_equal(p, "devices\6\0\0\0\0", 12); /* and an empty description */
}

struct copier {
	pid_t pid;
	int talk, stream, devices, base;
};

static void start(struct copier *c, bool whole, uint64_t address)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	c->stream = memfd_create("stream", MFD_CLOEXEC);
	c->devices = memfd_create("devices", MFD_CLOEXEC);
	c->base = memfd_create("copied", MFD_CLOEXEC);
	c->pid = fork();
	if (c->pid == 0) {
		const int fds[] = {pair[1], c->stream, c->devices, c->base, machine.pidfd};
		const struct ram_copy what = {
			.pid = machine.pid, .address = address, .bytes = SIZE, .whole = whole};
		int high[ARRAY_SIZE(fds)];

		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			high[i] = fcntl(fds[i], F_DUPFD, 100);
		close(pair[0]);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			dup2(high[i], RAM_COPY_TALK + (int)i);
		close_range(RAM_COPY_PIDFD + 1, ~0u, 0);
		ram_copy_serve(&what);
	}
	close(pair[1]);
	c->talk = pair[0];
}

static int32_t hear(const struct copier *c)
{
	int32_t word = 0;

	return read(c->talk, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

static void say(const struct copier *c, int32_t word)
{
	assert_int_equal(write(c->talk, &word, sizeof(word)), sizeof(word));
}

static void finish(struct copier *c, int status)
{
	int got;

	close(c->talk);
	assert_int_equal(waitpid(c->pid, &got, 0), c->pid);
	assert_int_equal(got, status << 8);
	close(c->stream);
	close(c->devices);
	close(c->base);
}

static void copies(bool whole)
{
	struct copier c;
	struct stat st;
	uint8_t *p;

	begin(!whole);
	start(&c, whole, machine.address);
	assert_int_equal(hear(&c), RAM_COPY_READY);
	go_on();
	say(&c, RAM_COPY_GO);
	assert_int_equal(hear(&c), RAM_COPY_COPIED);
	assert_int_equal(write(c.devices, "QEVM\0\0\0\3devices", 15), 15);
	say(&c, RAM_COPY_SAVED);
	assert_int_equal(hear(&c), 0);
	assert_int_equal(fstat(c.stream, &st), 0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, c.stream, 0);
	assert_stream(p, (size_t)st.st_size, !whole);
	munmap(p, (size_t)st.st_size);
	if (whole) {
		assert_int_equal(fstat(c.base, &st), 0);
		assert_int_equal(st.st_size, SIZE);
		p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, c.base, 0);
		for (uint32_t i = 0; i < PAGES; i++)
			if (is_own(i))
				assert_content(p + (size_t)i * RAM_PAGE, i);
		munmap(p, SIZE);
	}
	finish(&c, 0);
	end();
}

static void copies_changes(void **state)
{
	(void)state;
	copies(false);
}

static void copies_all(void **state)
{
	(void)state;
	copies(true);
}

/* Each failure is said, and ends it; so does the end of who has asked. */
static void fails(void **state)
{
	struct copier c;

	(void)state;
	begin(true);
	start(&c, false, machine.address + 1);
	assert_int_equal(hear(&c), -EINVAL);
	finish(&c, 1);
	start(&c, false, machine.address);
	assert_int_equal(hear(&c), RAM_COPY_READY);
	finish(&c, 1);
	start(&c, false, machine.address);
	assert_int_equal(hear(&c), RAM_COPY_READY);
	say(&c, RAM_COPY_SAVED);
	assert_int_equal(hear(&c), -ECANCELED);
	finish(&c, 1);
	start(&c, false, machine.address);
	assert_int_equal(hear(&c), RAM_COPY_READY);
	say(&c, RAM_COPY_GO);
	assert_int_equal(hear(&c), RAM_COPY_COPIED);
	assert_int_equal(write(c.devices, "something else", 14), 14);
	say(&c, RAM_COPY_SAVED);
	assert_int_equal(hear(&c), -EPROTO);
	finish(&c, 1);
	start(&c, false, machine.address);
	assert_int_equal(hear(&c), RAM_COPY_READY);
	kill(machine.pid, SIGKILL);
	waitid(P_PID, (id_t)machine.pid, NULL, WEXITED | WNOWAIT);
	say(&c, RAM_COPY_GO);
	assert_true(hear(&c) < 0);
	finish(&c, 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_file),	 cmocka_unit_test(of_no_file),
		cmocka_unit_test(word_by_word),	 cmocka_unit_test(refused),
		cmocka_unit_test(written_since), cmocka_unit_test(copies_changes),
		cmocka_unit_test(copies_all),	 cmocka_unit_test(fails),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
