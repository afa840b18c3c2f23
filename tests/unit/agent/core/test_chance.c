/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory random bytes are written to: a number may be another process's before all of them are there. */
/* modules: agent/core/chance.c agent/core/kin.c agent/core/chacha.c agent/core/proc.c agent/core/loop.c agent/core/log.c agent/core/filter.c vm/base/fdpass.c */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/core/chance.h"
#include "agent/core/filter.h"
#include "agent/core/reach.h"
#include "vm/base/fdpass.h"

#define MANY (64u << 10) /* bytes, of several pieces */

static struct loop loop;
static struct chance chance;
static unsigned nwritten;
static pid_t asking;
static bool dies;

ssize_t reach_read(pid_t pid, uint64_t at, void *bytes, size_t len)
{
	(void)pid;
	(void)at;
	(void)bytes;
	(void)len;
	return 0;
}

/* Whoever has asked ends while he is written to, and his number is free. */
ssize_t reach_write(pid_t pid, uint64_t at, const void *bytes, size_t len)
{
	(void)at;
	(void)bytes;
	assert_int_equal(pid, asking);
	nwritten++;
	loop.stop = true; /* when that is answered */
	if (dies) {
		dies = false;
		assert_int_equal(kill(asking, SIGKILL), 0);
		assert_int_equal(waitpid(asking, NULL, 0), asking);
	}
	return (ssize_t)len;
}

static void hand_over(int fd, int listener)
{
	const uint32_t job = 0;

	if (fdpass_send(fd, &job, sizeof(job), &listener, 1, 0) != sizeof(job))
		_exit(1);
	close(listener);
}

/* Return: how many pieces were written for a child that asks for MANY bytes. */
static unsigned pieces(bool ends)
{
	static char bytes[MANY];
	int listener;

	nwritten = 0;
	dies = ends;
	asking = fork();
	assert_true(asking >= 0);
	if (asking == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		listener = filter_listen();
		if (listener < 0)
			_exit(77);
		hand_over(chance.end.fd, listener);
		_exit(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes) ? 0 : 1);
	}
	loop.stop = false;
	alarm(20);
	loop_run(&loop);
	alarm(0);
	if (!ends)
		assert_int_equal(waitpid(asking, NULL, 0), asking);
	return nwritten;
}

static void stops_when_he_is_gone(void **state)
{
	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	chance_init(&chance, &loop);
	assert_int_equal(chance_begin(&chance, 7, 0), 0);
	assert_int_equal(pieces(false), MANY / 4096);
	assert_int_equal(pieces(true), 1);
	chance_end(&chance);
	loop_fini(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_when_he_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
