/* SPDX-License-Identifier: Apache-2.0 */
/* The jail's network: loopback, and a card whose other end is held by another process. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "vm/base/fdpass.h"
#include "internal.h"
#include "vm/base/guest_net.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The card is a TAP device of the jail's own network namespace. The holder of its descriptor receives
 * outgoing Ethernet frames, and sends incoming ones: this is xsbxfs-net, to which the descriptor is
 * sent before the program runs, which never has access to it. The program does not have the
 * capability to change the card.
 *
 * The device file is opened by the child, with the old identity; at that moment the kernel records its
 * network namespace, and checks for the capability in that namespace, where we have it. So no privileges
 * on the host are needed. But the path is looked up by the spawner: files opened by the child would be
 * in its own copy of the host's mounts, and such an open file keeps all connected mounts alive, such as
 * file systems that were unmounted on the host long ago.
 */

#define DEVICE	 "/dev/net/tun"
#define CARD	 "eth0"
#define CARD_MAC "\x52\x54\x00\x12\x34\x56"

int jail_loopback_up(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int found = -ENOENT; /* the device, only as a place */

void jail_card_find(const struct jail_spec *spec)
{
	_cleanup_close_ int fd = -1;

	if (!(spec->flags & JAIL_CARD))
		return;
	fd = open(DEVICE, O_PATH | O_CLOEXEC);
	/* Out of the way of the child's descriptors. */
	if (fd >= 0)
		found = fcntl(fd, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);
	if (fd < 0 || found < 0)
		found = -errno;
}

int jail_card_open(void)
{
	_cleanup_close_ int place = found;
	char path[32];
	int fd;

	if (place < 0)
		return place;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void jail_card_lose(void)
{
	if (found >= 0)
		close(found);
	found = -ENOENT;
}

static void set_address(struct sockaddr *sa, uint32_t address)
{
	const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(address)}};

	memcpy(sa, &in, sizeof(in));
}

/* The same that a machine's agent does, see agent/guest/net.c. */
static int configure(int fd)
{
	struct ifreq mac = {.ifr_name = CARD}, mtu = {.ifr_name = CARD},
		     address = {.ifr_name = CARD}, mask = {.ifr_name = CARD},
		     up = {.ifr_name = CARD};
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = (char *)CARD};

	mac.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(mac.ifr_hwaddr.sa_data, CARD_MAC, 6);
	mtu.ifr_mtu = NET_MTU_DEFAULT;
	set_address(&address.ifr_addr, NET_GUEST);
	set_address(&mask.ifr_netmask, ~0u << (32 - NET_PREFIX));
	up.ifr_flags = IFF_UP | IFF_RUNNING;
	set_address(&route.rt_dst, 0);
	set_address(&route.rt_genmask, 0);
	set_address(&route.rt_gateway, NET_GATEWAY);
	if (ioctl(fd, SIOCSIFHWADDR, &mac) < 0 || ioctl(fd, SIOCSIFMTU, &mtu) < 0 ||
	    ioctl(fd, SIOCSIFADDR, &address) < 0 || ioctl(fd, SIOCSIFNETMASK, &mask) < 0 ||
	    ioctl(fd, SIOCSIFFLAGS, &up) < 0 || ioctl(fd, SIOCADDRT, &route) < 0)
		return -errno;
	return 0;
}

int jail_card_set_up(int card, int socket_fd)
{
	_cleanup_close_ int tap = card, to = socket_fd, fd = -1;
	struct ifreq ifr = {.ifr_name = CARD, .ifr_flags = IFF_TAP | IFF_NO_PI};
	int r;

	if (ioctl(tap, TUNSETIFF, &ifr) < 0)
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = configure(fd);
	if (r == 0)
		r = (int)fdpass_send(to, "", 1, &tap, 1, 0);
	return r < 0 ? r : 0;
}
