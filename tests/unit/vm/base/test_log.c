/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that go through a pipe to the system's log, which is the test's own syslog(3) here. */
/* modules: vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/log.h"
#include "vm/base/util.h"

static char said[1 << 20];

static void add(int priority, const char *fmt, va_list ap)
{
	const size_t len = strlen(said);

	assert_string_equal(fmt, "%s");
	snprintf(said + len, sizeof(said) - len, "%d:%s\n", priority, va_arg(ap, const char *));
}

/* In place of the library's, with and without its checks. NOLINTBEGIN */
void syslog(int priority, const char *fmt, ...);
void __syslog_chk(int priority, int flag, const char *fmt, ...);

void syslog(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(priority, fmt, ap);
	va_end(ap);
}

void __syslog_chk(int priority, int flag, const char *fmt, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, fmt);
	add(priority, fmt, ap);
	va_end(ap);
}
/* NOLINTEND */

static int ends[2];

static int set_up(void **state)
{
	(void)state;
	said[0] = '\0';
	log_open(LOG_LEVEL_INFO);
	return pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0;
}

/* Everything that is to be written was. */
static const char *served(void)
{
	log_relay(-1);
	close(ends[1]);
	log_serve(ends[0], NULL, NULL);
	close(ends[0]);
	return said;
}

static void messages(void **state)
{
	(void)state;
	log_relay(ends[1]);
	log_error("one %d", 1);
	log_debug("not this");
	log_warn("two\nlines\x1b[1m");
	log_info("%s", "three");
	assert_string_equal(served(), "3:one 1\n4:two?lines?[1m\n6:three\n");
}

/* What a pipe holds, and more: nobody is stopped, and what is lost is counted. */
static void too_many(void **state)
{
	char buf[65536], words[32];
	unsigned i, lost = 0;

	(void)state;
	log_relay(ends[1]);
	for (i = 0; i < 10000; i++)
		log_info("%u xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", i);
	assert_true(read(ends[0], buf, sizeof(buf)) > 0);
	log_info("room");
	served();
	assert_non_null(strstr(said, "6:room\n"));
	assert_int_equal(sscanf(strstr(said, "4:"), "4:%u messages were lost\n", &lost), 1);
	snprintf(words, sizeof(words), "6:%u ", 10000 - lost);
	assert_null(strstr(said, words)); /* the first that was lost */
	assert_true(lost > 100 && lost < 10000);
}

#define THREADS 4
#define EACH	20000u

static void *say_many(void *data)
{
	for (unsigned i = 0; i < EACH; i++)
		log_info("x");
	return data;
}

/* Up to the end; adds up what arrived, and what is said to be lost. */
static void *add_up(void *data)
{
	_cleanup_file_ FILE *f = fdopen(ends[0], "r");
	unsigned long *sum = data, n;
	char line[64];

	while (fgets(line, sizeof(line), f))
		*sum += sscanf(line + 1, "%lu messages were lost", &n) == 1 ? n : 1;
	return data;
}

/* Of many threads' messages each arrives or is counted, once. */
static void lost_by_many(void **state)
{
	pthread_t thread[THREADS], reader;
	unsigned long sum = 0;
	int held = 1;

	(void)state;
	log_relay(ends[1]);
	assert_int_equal(pthread_create(&reader, NULL, add_up, &sum), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, say_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	while (held) {
		usleep(1000);
		assert_int_equal(ioctl(ends[1], FIONREAD, &held), 0);
	}
	log_info("there is room for how many were lost");
	log_relay(-1);
	close(ends[1]);
	pthread_join(reader, NULL);
	assert_int_equal(sum, THREADS * EACH + 1);
}

/* Whoever has taken over the daemon can write anything. */
static void hostile(void **state)
{
	char big[10000];

	(void)state;
	memset(big, 'x', sizeof(big));
	assert_int_equal(write(ends[1], "\n9bad level\nno level\n\x1b", 22), 22);
	assert_int_equal(write(ends[1], "\n2%s%n\x1b]0;a\x07\n0\n0a\0b\n", 20), 20);
	assert_int_equal(write(ends[1], "1", 1), 1);
	assert_int_equal(write(ends[1], big, sizeof(big)), (int)sizeof(big));
	assert_int_equal(write(ends[1], "\n2end\n2torn", 11), 11);
	served();
	assert_memory_equal(said, "6:%s%n?]0;a?\n3:\n3:a?b\n4:xxx", 27);
	assert_non_null(strstr(said, "6:end\n"));
	assert_null(strstr(said, "torn"));
	assert_null(strstr(said, "bad"));
	assert_true(strlen(said) < 10200);
}

static void hear(void *data, const char *words)
{
	const size_t len = strlen(said);

	(void)data;
	snprintf(said + len, sizeof(said) - len, "heard:%s\n", words);
}

/* The journal's entries, and standard error, that are made of what is relayed with fields. */
static const char *entered(int journal_end)
{
	static char all[65536];
	size_t n = 0;
	ssize_t r;

	log_relay(-1);
	close(ends[1]);
	log_serve(ends[0], hear, NULL);
	close(ends[0]);
	while ((r = recv(journal_end, all + n, sizeof(all) - n - 2, MSG_DONTWAIT)) > 0) {
		n += (size_t)r;
		all[n++] = '.';
	}
	all[n] = '\0';
	return all;
}

static void with_fields(void **state)
{
	const struct log_label run = {"python/demo", 7, 0}, template = {"python", 0, 0};
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	log_open(LOG_LEVEL_DEBUG);
	log_to_journal(true);
	log_relay(ends[1]);
	log_to_entries(-1); /* those are the guard's */
	log_info("plain");
	log_about(LOG_LEVEL_WARN, &run, "agent-lost", "python/demo: two\nPRIORITY=0");
	log_step(&template, "vm", "step");
	log_to_entries(pair[1]);
	assert_string_equal(
		entered(pair[0]),
		"MESSAGE=plain\nPRIORITY=6\nSYSLOG_IDENTIFIER=xsbxfs\n."
		"MESSAGE=python/demo: two?PRIORITY=0\nPRIORITY=4\nSYSLOG_IDENTIFIER=xsbxfs\n"
		"SESSION=python/demo\nRUN=7\nCODE=agent-lost\n."
		"MESSAGE=python vm: step\nPRIORITY=7\nSYSLOG_IDENTIFIER=xsbxfs\n"
		"TEMPLATE=python\nPART=vm\n.");
	assert_string_equal(said, "");
	log_to_journal(false);
	log_to_entries(-1);
	close(pair[0]);
	close(pair[1]);
}

/* Whoever has taken over the daemon can write anything, and be heard by who listens to words. */
static void hostile_fields(void **state)
{
	static const char lines[] = "NRready\nNS\x1b[1mx\nN\n"
				    "b\x1f"
				    "1\x1f\x1fx\x1fno session\n"
				    "ba/\x1b\x1f"
				    "1x\x1fp\x1f"
				    "A=B\x1fwrong number and code\n"
				    "btoo\x1f"
				    "few\n"
				    "za/b\x1f"
				    "1\x1fp\x1f\x1fno level\n"
				    "aa/b\x1f"
				    "1\x1fp\x1fx-1\x1fmore\x1fthan\x1fthere are\n";
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	log_to_journal(true);
	log_to_entries(pair[1]);
	assert_int_equal(write(ends[1], lines, sizeof(lines) - 1), (int)sizeof(lines) - 1);
	assert_string_equal(
		entered(pair[0]),
		"MESSAGE=no session\nPRIORITY=4\nSYSLOG_IDENTIFIER=xsbxfs\nRUN=1\nCODE=x\n."
		"MESSAGE=wrong number and code\nPRIORITY=4\nSYSLOG_IDENTIFIER=xsbxfs\n"
		"SESSION=a/?\nPART=p\n."
		"MESSAGE=more?than?there are\nPRIORITY=3\nSYSLOG_IDENTIFIER=xsbxfs\n"
		"SESSION=a/b\nRUN=1\nPART=p\nCODE=x-1\n.");
	assert_string_equal(said, "heard:Rready\nheard:S?[1mx\nheard:\n");
	log_to_journal(false);
	log_to_entries(-1);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(messages, set_up),
		cmocka_unit_test_setup(too_many, set_up),
		cmocka_unit_test_setup(lost_by_many, set_up),
		cmocka_unit_test_setup(hostile, set_up),
		cmocka_unit_test_setup(with_fields, set_up),
		cmocka_unit_test_setup(hostile_fields, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
