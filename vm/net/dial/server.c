/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the daemon: has the connections made (dials.c), and makes the listening sockets, that it asks for. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "dials.h"
#include "message.h"
#include "vm/base/packets.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/* Freed when no dial is in memory and the socket is not `open` any more. */
struct dial_server {
	struct dial_config cfg;
	struct packets packets;
	struct dials dials;
	bool open; /* to the end of the handle of the socket */
};

static void free_when_over(struct dial_server *server)
{
	if (!server->open && !server->dials.kept)
		free(server);
}

/* @fd becomes the daemon's. */
static void tell(struct dial_server *server, uint32_t id, int32_t result, uint16_t port, int fd)
{
	const struct dial_done msg = {{DIAL_DONE, id}, result, port, 0};

	/* If it fails the daemon has gone, or will see that this one is lost. */
	(void)packets_send(&server->packets, &msg, sizeof(msg), NULL, 0, fd);
}

static void on_dialled(struct dials *dials, uint32_t id, unsigned reason, int fd)
{
	tell(container_of(dials, struct dial_server, dials), id, (int32_t)reason, 0, fd);
}

static void on_dials_gone(struct dials *dials)
{
	free_when_over(container_of(dials, struct dial_server, dials));
}

/* A socket on the loopback device, for connections of this machine only. Return: -errno. */
static int listen_at(uint16_t port, uint16_t *ret_port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr = {htonl(INADDR_LOOPBACK)},
				  .sin_port = htons(port)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(sin);
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* Old connections of an earlier session must not keep its port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &len) < 0)
		return -errno;
	*ret_port = ntohs(sin.sin_port);
	return steal_fd(&fd);
}

static void serve_port(struct dial_server *server, const struct dial_listen *msg)
{
	uint16_t port = 0;
	const int fd = listen_at(msg->port, &port);

	tell(server, msg->header.id, fd < 0 ? fd : 0, port, fd);
}

static bool is_sane(const struct dial_connect *msg)
{
	return msg->port != 0 && msg->owner != 0 && memchr(msg->name, '\0', sizeof(msg->name));
}

static int on_packet(struct packets *p, const void *bytes, size_t len, int *fd)
{
	struct dial_server *server = container_of(p, struct dial_server, packets);
	const struct dial_header *h = bytes;
	const struct dial_connect *connect = bytes;

	(void)fd;
	switch (len < sizeof(*h) ? 0 : h->type) {
	case DIAL_CONNECT:
		if (len < sizeof(*connect) || (len - sizeof(*connect)) % sizeof(uint32_t) ||
		    !is_sane(connect))
			return -EPROTO;
		if (dials_begin(&server->dials, connect, (const uint32_t *)(connect + 1),
				(len - sizeof(*connect)) / sizeof(uint32_t)) < 0)
			tell(server, h->id, NET_BUSY, 0, -1);
		return 0;
	case DIAL_LISTEN:
		if (len != sizeof(struct dial_listen))
			return -EPROTO;
		serve_port(server, bytes);
		return 0;
	case DIAL_CANCEL:
		if (len != sizeof(*h))
			return -EPROTO;
		dials_cancel(&server->dials, h->id);
		return 0;
	default: return -EPROTO;
	}
}

static void on_ended(struct packets *p, int err)
{
	const struct dial_server *server = container_of(p, struct dial_server, packets);

	server->cfg.ended(server->cfg.data, err);
}

static void on_closed(struct packets *p)
{
	struct dial_server *server = container_of(p, struct dial_server, packets);

	server->open = false;
	free_when_over(server);
}

int dial_server_new(uv_loop_t *loop, int sock, const struct dial_config *cfg,
		    struct dial_server **ret_server)
{
	struct dial_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->cfg = *cfg;
	server->packets.packet = on_packet;
	server->packets.ended = on_ended;
	server->packets.closed = on_closed;
	server->open = true;
	server->dials.loop = loop;
	server->dials.cfg = &server->cfg;
	server->dials.done = on_dialled;
	server->dials.gone = on_dials_gone;
	dials_init(&server->dials);
	r = packets_open(&server->packets, loop, sock);
	if (r < 0) {
		free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

void dial_server_close(struct dial_server *server)
{
	dials_cancel_all(&server->dials);
	packets_close(&server->packets);
}
