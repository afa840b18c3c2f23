/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody who has a port of this machine. */
#include "listener.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

int listener_open(uint16_t *port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr = {htonl(INADDR_LOOPBACK)},
				  .sin_port = htons(*port)};
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sin);

	if (bind(listener, (struct sockaddr *)&sin, len) < 0) {
		close(listener);
		return -1;
	}
	assert_int_equal(listen(listener, 5), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
	*port = ntohs(sin.sin_port);
	return listener;
}
