/* SPDX-License-Identifier: Apache-2.0 */
/* --takeover. See takeover.h, and succession.h for how it is done. */
#include "takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/config/daemon.h"
#include "mountpoint.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"

/* Return: a socket to the spawner of the mount, or -errno. */
static int connect_to(const struct conf *conf, unsigned patience_s)
{
	const struct timeval patience = {.tv_sec = patience_s};
	_cleanup_free_ char *name = mountpoint_directory(conf->vm.runtime_dir, conf->mountpoint);
	_cleanup_close_ int dir = -1, fd = -1;
	struct sockaddr_un a;

	if (!name)
		return -ENOMEM;
	dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (dir < 0 || fd < 0)
		return -errno;
	/* Who is stopped accepts nobody, and after some nobody gets as far as to wait for that. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	a = heir_address(dir);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return steal_fd(&fd);
}

static int ask(int sock, struct heir_answer *ret_answer)
{
	_cleanup_close_ int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct heir_ask request = {.magic = HEIR_MAGIC};
	ssize_t n =
		program < 0 ? -errno : fdpass_send(sock, &request, sizeof(request), &program, 1, 0);
	size_t nfds;

	/* Who does not hear any more may have said why. */
	if (n >= 0 || n == -EPIPE)
		n = fdpass_receive(sock, ret_answer, sizeof(*ret_answer), NULL, 0, &nfds, 0);
	if (n != sizeof(*ret_answer) || ret_answer->magic != HEIR_MAGIC)
		return n < 0 ? (int)n : -EBADMSG;
	ret_answer->words[sizeof(ret_answer->words) - 1] = '\0';
	log_printable(ret_answer->words, strlen(ret_answer->words), false);
	return 0;
}

/* Who listens there, in words. @sock: connected, or an error. */
static const char *spawner_of(int sock, char *buf, size_t size)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	snprintf(buf, size, "the spawner of the mount");
	if (sock >= 0 && getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid > 0)
		snprintf(buf, size, "process %d, which is the spawner of the mount,", (int)who.pid);
	return buf;
}

static void say_silent(const char *mountpoint, int sock, int err, unsigned patience_s)
{
	char who[64];

	spawner_of(sock, who, sizeof(who));
	if (err == -EAGAIN || err == -ETIMEDOUT || err == -EINPROGRESS)
		log_error("%s: %s does not answer within %u s; is it stopped?", mountpoint, who,
			  patience_s);
	else
		log_error("%s: %s does not answer: %s", mountpoint, who, strerror(-err));
}

int takeover(const struct conf *conf, unsigned patience_s)
{
	_cleanup_close_ int sock = connect_to(conf, patience_s);
	struct heir_answer answer;
	int r;

	if (sock == -ENOENT || sock == -ENOTDIR || sock == -ECONNREFUSED) {
		log_error("no xsbxfs of this user is mounted on %s that could be taken over; name "
			  "it as it was mounted, with the same runtime_dir",
			  conf->mountpoint);
		return 1;
	}
	r = sock < 0 ? sock : ask(sock, &answer);
	if (r < 0) {
		say_silent(conf->mountpoint, sock, r, patience_s);
		return 1;
	}
	if (answer.pid <= 0) {
		log_error("%s was not taken over: %s", conf->mountpoint, answer.words);
		return 1;
	}
	printf("%s: process %d serves it now\n", conf->mountpoint, (int)answer.pid);
	return 0;
}
