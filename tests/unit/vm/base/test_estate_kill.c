/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are killed while they write to an estate: at random moments, and behind each single instruction. What the next one
 * finds is what one of the commits left, wholly: money is moved between accounts, and there is always as much of it. */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* modules: vm/base/memory.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/estate.h"
#include "vm/base/estate_internal.h"
#include "vm/base/io.h"
#include "vm/base/util.h"

enum { ACCOUNT = 3, JOURNAL, COUNT };

#define ACCOUNTS 24u
#define EACH	 1000
#define KILLS	 2000
#define LINES	 8u /* of the journal */

struct account {
	int64_t money;
	uint64_t last;	 /* transfer */
	char rest[1000]; /* some of it, so that the lengths differ */
};

/* What an heir finds. */
struct found {
	int64_t money;
	unsigned accounts, lines;
	uint64_t count, last;
	uint64_t first_line, last_line;
};

static struct account account[ACCOUNTS];
static uint64_t count;

static void must(int r)
{
	if (r < 0)
		abort();
}

static void put_account(struct estate *e, unsigned i)
{
	const size_t rest = (account[i].last * 37 + i) % sizeof(account[i].rest);

	memset(account[i].rest, (int)account[i].last, rest);
	must(estate_put(e, ACCOUNT, i, 0, &account[i], offsetof(struct account, rest) + rest));
}

/* Two accounts, a line more of the journal and one less, an account that is closed and opened, and the count. */
static void transfer(struct estate *e, unsigned seed)
{
	const unsigned from = seed % ACCOUNTS,
		       to = (from + 1 + seed / 7 % (ACCOUNTS - 1)) % ACCOUNTS;
	const int64_t sum = seed % 100;

	count++;
	account[from].money -= sum;
	account[to].money += sum;
	account[from].last = account[to].last = count;
	if (seed % 5 == 0)
		must(estate_drop(e, ACCOUNT, from, 0));
	put_account(e, from);
	put_account(e, to);
	must(estate_put(e, JOURNAL, 0, count, &sum, sizeof(sum)));
	if (count % 64 == 0)
		estate_drop_all(e, JOURNAL, 0);
	else if (count > LINES)
		must(estate_drop(e, JOURNAL, 0, count - LINES));
	must(estate_put(e, COUNT, 0, 0, &count, sizeof(count)));
	must(estate_commit(e));
}

static int find(void *data, const struct record *rec, uint64_t sub)
{
	const size_t len = (size_t)(rec->fields.end - rec->fields.at);
	struct found *f = data;
	struct account a = {0};

	switch (rec->kind) {
	case ACCOUNT:
		if (rec->key >= ACCOUNTS || len > sizeof(a))
			return -EBADMSG;
		memcpy(&a, rec->fields.at, len);
		account[rec->key] = a;
		f->money += a.money;
		f->accounts++;
		f->last = MAX(f->last, a.last);
		break;
	case JOURNAL:
		f->first_line = f->lines ? MIN(f->first_line, sub) : sub;
		f->last_line = MAX(f->last_line, sub);
		f->lines++;
		break;
	case COUNT: memcpy(&f->count, rec->fields.at, MIN(len, sizeof(f->count))); break;
	default: return -EBADMSG;
	}
	return 0;
}

/* Is it as one of the transfers left it? Return: how many there were. */
static uint64_t look(const struct estate *e)
{
	struct found f = {0};
	uint64_t lines;

	for (uint32_t kind = ACCOUNT; kind <= COUNT; kind++)
		assert_int_equal(estate_each(e, kind, find, &f), 0);
	assert_int_equal(f.accounts, ACCOUNTS);
	assert_int_equal(f.money, ACCOUNTS * EACH);
	assert_int_equal(f.last, f.count);
	/* It begins anew behind each multiple of 64, and has LINES at most. */
	lines = MIN(f.count % 64, LINES);
	assert_int_equal(f.lines, lines);
	if (lines) {
		assert_int_equal(f.last_line, f.count);
		assert_int_equal(f.first_line, f.count - lines + 1);
	}
	return f.count;
}

static struct estate *bank(void)
{
	struct estate *e;

	assert_int_equal(estate_new(&e), 0);
	count = 0;
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		account[i] = (struct account){.money = EACH};
		put_account(e, i);
	}
	must(estate_put(e, COUNT, 0, 0, &count, sizeof(count)));
	must(estate_commit(e));
	return e;
}

/* ---- at random moments ---- */

static void serve(struct estate *e, unsigned seed)
{
	count = look(e);
	for (;;) {
		seed = seed * 1103515245 + 12345;
		transfer(e, seed >> 8);
	}
}

static void killed_at_random(void **state)
{
	const unsigned seed = (unsigned)time(NULL);
	struct estate *e = bank();
	uint64_t last = 0, grown = 0;

	(void)state;
	printf("seed %u\n", seed);
	srandom(seed);
	for (unsigned i = 0; i < KILLS; i++) {
		const unsigned wait = (unsigned)random() % 1500;
		const int fd = dup(estate_fd(e));
		const pid_t pid = fork();
		uint64_t n;

		if (pid == 0)
			serve(e, (unsigned)random());
		estate_free(e);
		usleep(wait);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(estate_open(fd, &e), 0);
		n = look(e);
		assert_true(n >= last);
		grown += n > last;
		last = n;
	}
	printf("%llu transfers, by %llu processes\n", (unsigned long long)last,
	       (unsigned long long)grown);
	assert_true(grown > KILLS / 20);
	estate_free(e);
}

/* ---- behind each instruction ---- */

/* An estate like that of a process which stands still. */
static struct estate *copy_of(const struct estate *e)
{
	const struct estate_head head = *e->head;
	struct estate *copy;
	int fd;

	assert_int_equal(estate_new(&copy), 0);
	fd = dup(estate_fd(copy));
	*copy->head = head;
	for (unsigned i = 0; i < ESTATE_AREAS; i++) {
		const bool active = i == (head.committed & ESTATE_AREA_BIT ? 1 : 0);
		const uint64_t end = head.committed & ~ESTATE_AREA_BIT;

		if (active)
			assert_int_equal(estate_grow(copy, i, end), 0);
		if (active)
			memcpy(copy->area[i].map, e->area[i].map, end);
	}
	estate_free(copy);
	assert_int_equal(estate_open(fd, &copy), 0);
	return copy;
}

static uint64_t look_at_copy(const struct estate *e)
{
	struct estate *copy = copy_of(e);
	const uint64_t n = look(copy);

	estate_free(copy);
	return n;
}

/* Return: is it there still? */
static bool step(pid_t pid)
{
	int status = 0;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSTOPPED(status);
}

/* Much is there that does not count, so that what counts is moved soon. */
static void fill(struct estate *e)
{
	unsigned seed = 1;

	while (e->area[e->active].tail < (1u << 20) + (100u << 10) && e->move == 0) {
		seed = seed * 1103515245 + 12345;
		transfer(e, seed >> 8);
		if (e->area[e->active].tail > (1u << 20) - 5000)
			break;
	}
}

static void killed_behind_each_instruction(void **state)
{
	struct estate *e = bank();
	uint64_t last, steps = 0, looks = 0, begun, word;
	unsigned changes = 0;
	pid_t pid;

	(void)state;
	fill(e);
	begun = last = count;
	pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		raise(SIGSTOP);
		for (unsigned i = 0; i < 8; i++)
			transfer(e, 977 * i + 5);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, (int *)&changes, 0), pid);
	if (WIFEXITED((int)changes) && WEXITSTATUS((int)changes) == 77) {
		estate_free(e);
		skip();
	}
	changes = 0;
	word = e->head->committed;
	while (step(pid)) {
		const bool changed = e->head->committed != word;

		/* Between two stores of that word nothing that counts is written; that is looked at here and there. */
		if (changed || steps++ % 50 == 0) {
			const uint64_t n = look_at_copy(e);

			looks++;
			assert_true(n == last || (changed && n == last + 1));
			last = n;
		}
		if (changed && (e->head->committed ^ word) & ESTATE_AREA_BIT)
			changes++;
		word = e->head->committed;
	}
	printf("%llu instructions, looked at %llu times\n", (unsigned long long)steps,
	       (unsigned long long)looks);
	assert_int_equal(last, begun + 8);
	assert_int_equal(changes, 1);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_random),
		cmocka_unit_test(killed_behind_each_instruction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
