/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-dial: the only process of a mount that makes connections. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "server.h"
#include "vm/base/rlimit.h"

/*
 * Theory of operation
 * -------------------
 * The daemon reads data from guests, and is not permitted to open connections or to read the resolver's
 * configuration. This process is, and to do little else: it is started for the first sandbox with a
 * network, in a jail with the host's network and only the files that the resolver reads. It gets
 * requests for connections by name or address, or for a listening socket on 127.0.0.1, and answers with
 * an open descriptor. It does not know allow lists: the daemon only requests what they allow. It
 * refuses non-public addresses, because it resolves the names; where a proxy makes the connections for it, that one does.
 *
 * Data of the connections never passes through this process.
 */

#define USAGE                             \
	"usage: xsbxfs-dial FD [PROXY]\n" \
	"Makes connections for xsbxfs, which starts it. See xsbxfs-dial(8).\n"

static uv_loop_t loop;
static struct dial_server *server;
static int result;

static void on_ended(void *data, int err)
{
	(void)data;
	if (err != -EPIPE && err != -ECONNRESET) {
		fprintf(stderr, "xsbxfs-dial: %s\n", strerror(-err));
		result = 1;
	}
	dial_server_close(server);
}

int main(int argc, char **argv)
{
	struct upstream_proxy upstream;
	struct dial_config cfg = {.ended = on_ended};
	char *end = NULL;
	char threads[12];
	long fd;
	int r;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("xsbxfs-dial " XSBX_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(USAGE, stdout);
		return 0;
	}
	fd = argc == 2 || argc == 3 ? strtol(argv[1], &end, 10) : -1;
	if (fd < 0 || fd > 65535 || !end || *end || end == argv[1] ||
	    (argc == 3 && upstream_parse(argv[2], &upstream) < 0)) {
		fputs(USAGE, stderr);
		return 2;
	}
	if (argc == 3)
		cfg.upstream = &upstream;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	rlimit_raise_files(); /* everybody's connections are made here */
	snprintf(threads, sizeof(threads), "%d", DIAL_THREADS);
	setenv("UV_THREADPOOL_SIZE", threads, 1);
	uv_loop_init(&loop);
	r = dial_server_new(&loop, (int)fd, &cfg, &server);
	if (r < 0) {
		fprintf(stderr, "xsbxfs-dial: socket %ld: %s\n", fd, strerror(-r));
		return 1;
	}
	fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	uv_run(&loop, UV_RUN_DEFAULT);
	return result;
}
