/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a bucket answers, as HTTP: status lines, headers, bodies that are too long or too short. */
/* modules: vm/store/s3.c vm/base/buf.c vm/base/digest.c */
/* libs: curl crypto uv */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vm/store/s3.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says what is asked for; the rest is the answer to each try. */

/* Of the input that is tried now; the server may still be at a connection of the one before. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char answer[16384];
static size_t answer_len;
static int listener;
static char url[64];

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		char request[8192], reply[sizeof(answer)];
		size_t len;

		if (fd < 0)
			continue;
		/* All of its head has come by then; what it uploads is thrown away. */
		(void)!recv(fd, request, sizeof(request), 0);
		pthread_mutex_lock(&lock);
		len = answer_len;
		memcpy(reply, answer, len);
		pthread_mutex_unlock(&lock);
		(void)!send(fd, reply, len, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		while (recv(fd, request, sizeof(request), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	pthread_t thread;

	(void)argc;
	(void)argv;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(listener >= 0 && bind(listener, (struct sockaddr *)&sin, len) == 0);
	assert(listen(listener, 16) == 0 &&
	       getsockname(listener, (struct sockaddr *)&sin, &len) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/bucket/prefix", ntohs(sin.sin_port));
	assert(pthread_create(&thread, NULL, serve, NULL) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct s3_config cfg = {.url = url,
				      .region = "r",
				      .id = "id",
				      .secret = "secret",
				      .timeout_s = 5,
				      .stall_s = 5};
	struct s3_request req = {.object = "object",
				 .tries = 1,
				 .timeout_ms = 2000,
				 .body = {.limit = 1000},
				 .data = "upload",
				 .len = 6};
	struct s3 *s3;

	if (size == 0 || size > sizeof(answer))
		return 0;
	req.verb = data[0] % S3_NVERBS;
	memset(req.sha256, 'a', sizeof(req.sha256) - 1);
	pthread_mutex_lock(&lock);
	memcpy(answer, data + 1, size - 1);
	answer_len = size - 1;
	pthread_mutex_unlock(&lock);
	s3 = s3_new(&cfg);
	assert(s3);
	assert(s3_do(s3, &req) <= 0 && req.state == S3_DONE);
	assert(req.body.len <= req.body.limit);
	assert(strlen(s3_why(s3)) < S3_WHY_MAX);
	buf_clear(&req.body);
	s3_free(s3);
	return 0;
}
