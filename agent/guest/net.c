/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: its address, its route, its name server. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/core/log.h"
#include "agent/core/util.h"
#include "vm/base/guest_net.h"

/*
 * Theory of operation
 * -------------------
 * Every sandbox has the same network: itself, and one neighbour, which is its gateway and name
 * server (vm/base/guest_net.h). So it is set up once, before a machine is saved, and is valid in all
 * clones. The MTU is the card's, as set by the host.
 */

#define HOSTS "127.0.0.1\tlocalhost\n::1\tlocalhost\n"

static int set_up(int fd, const char *name)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		return -errno;
	ifr.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static void put_address(struct sockaddr *sa, uint32_t address)
{
	const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(address)}};

	memcpy(sa, &in, sizeof(in));
}

static int set_address(int fd)
{
	struct ifreq address = {.ifr_name = NET_CARD}, mask = {.ifr_name = NET_CARD};
	char name[] = NET_CARD;
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = name};
	int r;

	put_address(&address.ifr_addr, NET_GUEST);
	put_address(&mask.ifr_netmask, ~0u << (32 - NET_PREFIX));
	if (ioctl(fd, SIOCSIFADDR, &address) < 0 || ioctl(fd, SIOCSIFNETMASK, &mask) < 0)
		return -errno;
	r = set_up(fd, NET_CARD);
	if (r < 0)
		return r;
	put_address(&route.rt_dst, 0);
	put_address(&route.rt_genmask, 0);
	put_address(&route.rt_gateway, NET_GATEWAY);
	return ioctl(fd, SIOCADDRT, &route) < 0 ? -errno : 0;
}

static bool has_card(int fd)
{
	struct ifreq ifr = {.ifr_name = NET_CARD};

	return fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &ifr) == 0;
}

void net_up(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	r = fd < 0 ? -errno : set_up(fd, "lo");
	if (r < 0)
		log_line("loopback: %s", strerror(-r));
	r = has_card(fd) ? set_address(fd) : 0;
	if (r < 0)
		log_line("network card: %s", strerror(-r));
}

/* The image is read-only, so a file of ours lies over one of its own. Return: 0 or -errno. */
static int cover(const char *root, const char *name, const char *text)
{
	char file[128], target[128];
	int fd, r = 0;

	snprintf(file, sizeof(file), "%s/run/%s", root, name);
	snprintf(target, sizeof(target), "%s/etc/%s", root, name);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		r = -errno;
	close_fd(&fd);
	if (r == 0 && mount(file, target, NULL, MS_BIND, NULL) < 0)
		r = -errno;
	if (r == 0 &&
	    mount(NULL, target, NULL,
		  MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		r = -errno;
	return r;
}

int net_resolver(const char *root)
{
	_cleanup_close_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (!has_card(sock))
		return 0;
	r = cover(root, "resolv.conf", NET_RESOLV_CONF);
	return r < 0 ? r : cover(root, "hosts", HOSTS);
}

int net_name(const char *name, size_t len)
{
	_cleanup_close_ int fd = open("/run/hosts", O_WRONLY | O_CLOEXEC);
	char text[512];
	int n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	n = snprintf(text, sizeof(text), HOSTS "127.0.1.1\t%.*s\n", (int)len, name);
	/* In place, for the mount is of this very file; and never empty, for somebody may read it. */
	if (n >= (int)sizeof(text) || pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) < 0)
		return -EIO;
	return 0;
}
