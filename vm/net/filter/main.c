/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-net: the network of one sandbox. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "forward.h"
#include "authority.h"
#include "cleanse.h"
#include "heap.h"
#include "net.h"
#include "proxy.h"
#include "stack.h"
#include "tls.h"
#include "vm/base/fdpass.h"
#include "vm/base/guest_net.h"
#include "vm/base/rlimit.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A sandbox with a network has one such process. It holds the other end of the guest's network card
 * and a socket to the daemon; it has a network namespace of its own, which is empty, and opens no
 * file once it runs. So it cannot reach anything by itself either. Everything it may touch outside
 * is handed to it as a connected socket, one for each connection of the guest, by the daemon, which
 * checks the name or address against the same list once more, resolves it, refuses addresses that
 * are not public, and connects (see vm/net/gateway.c).
 *
 *	guest --- frames --- xsbxfs-net --- names ----> daemon --- resolver
 *	                         |  ^                     |
 *	                         |  +--- sockets ---------+
 *	                         +------ bytes ---------------------> the internet
 *
 * What is decided where:
 *
 * - here, by name: which lookups are answered, with synthetic addresses (guest.c, dns.c, alias.c);
 *   which addresses can be connected to, that is only those (guest.c); and whether a connection
 *   says the name that it was opened for (guard.c, hello.c, http.c);
 * - in the daemon, by name and address: whether a connection is made at all.
 *
 * So an attacker who takes over this process, through libslirp say, can still reach only the names and
 * ports on the list, as the guest could. All that is gained is that connections are no longer inspected.
 *
 * What this cannot prevent: an allowed server may forward requests to others, by what it is told inside
 * TLS. Put only names of servers you trust on the list.
 *
 * There is one thread and one poll(). Nothing blocks: bytes the guest does not accept are kept up to a
 * limit, beyond which nothing more is read for it. Every refusal is reported to the daemon.
 *
 * System calls while serving: poll, read, write, send, recv, sendmsg, recvmsg, accept, accept4, socket and
 * connect (AF_UNIX), bind and listen (AF_UNIX; and bind of an unused AF_INET socket, with which
 * libslirp picks port numbers), shutdown, close, getsockname, getpeername, getsockopt, setsockopt,
 * fcntl, ioctl (FIONREAD, FIONBIO), clock_gettime, brk, mmap, munmap, mremap, madvise, getrandom,
 * futex, rt_sigreturn, exit_group.
 */

#define USAGE                                                                         \
	"usage: xsbxfs-net --control FD (--stream FD | --packet FD | --receive FD)\n" \
	"                  [--mtu BYTES] [--confined]\n"                              \
	"The network of a sandbox; xsbxfs starts it. See xsbxfs-net(8).\n"

struct options {
	int control, nic;
	enum nic_kind kind;
	unsigned mtu;
	bool confined, receive;
};

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("xsbxfs-net: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static unsigned parse_number(const char *text, unsigned max)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || n > max)
		die("%s is no number up to %u", text, max);
	return (unsigned)n;
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"control", required_argument, NULL, 'c'},
		{"stream", required_argument, NULL, 's'},
		{"packet", required_argument, NULL, 'p'},
		{"mtu", required_argument, NULL, 'm'},
		{"receive", required_argument, NULL, 'r'},
		{"confined", no_argument, NULL, 'C'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	struct options o = {.control = -1, .nic = -1, .mtu = NET_MTU_DEFAULT};
	int c;

	while ((c = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
		switch (c) {
		case 'c': o.control = (int)parse_number(optarg, 65535); break;
		case 's':
		case 'p':
		case 'r':
			o.nic = (int)parse_number(optarg, 65535);
			o.kind = c == 's' ? NIC_STREAM : NIC_PACKET;
			o.receive = c == 'r';
			break;
		case 'm': o.mtu = parse_number(optarg, NET_MTU_MAX); break;
		case 'C': o.confined = true; break;
		case 'h': fputs(USAGE, stdout); exit(0);
		case 'V': puts("xsbxfs-net " XSBX_VERSION); exit(0);
		default: fputs(USAGE, stderr); exit(2);
		}
	}
	if (optind != argc || o.control < 0 || o.nic < 0 || o.mtu < 576) {
		fputs(USAGE, stderr);
		exit(2);
	}
	return o;
}

/* Leaves every network behind, unless that was done for us. */
static void confine(const struct options *o)
{
	const struct rlimit core = {1, 1}; /* with 0 the host's program for cores could have one */

	if (!o->confined && unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		die("no network namespace of its own: %s (see --confined)", strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("no_new_privs: %s", strerror(errno));
	setrlimit(RLIMIT_CORE, &core);
	rlimit_raise_files();
	signal(SIGPIPE, SIG_IGN);
}

static void on_stack_send(void *data, const void *frame, size_t len)
{
	nic_send(&((struct net *)data)->nic, frame, len);
}

/* The card of a sandbox that is a process is made in its network namespace, by somebody else. Return: a
 * descriptor. */
static int receive_card(int from)
{
	size_t n = 0;
	char byte;
	int card;
	/* It stays there until the daemon closes its end, for another helper if that must be. */
	const ssize_t r = fdpass_receive(from, &byte, 1, &card, 1, &n, MSG_PEEK);

	if (r < 0)
		die("waiting for the network card: %s", strerror((int)-r));
	if (r > 0 && n == 0)
		die("the network card did not come with the message");
	if (n == 0)
		exit(0); /* the sandbox has gone before it was there */
	close(from);
	return card;
}

static void start(struct net *net, const struct options *o)
{
	const struct net_header ready = {.type = NET_READY};
	const int card = o->receive ? receive_card(o->nic) : o->nic;
	int r;

	net->control = o->control;
	net->trust = -1;
	flow_init(&net->flows);
	ask_init(&net->asks);
	secrets_init(&net->secrets);
	for (size_t i = 0; i < ARRAY_SIZE(net->forwards); i++)
		net->forwards[i].listener = net->forwards[i].waiting = -1;
	r = nic_init(&net->nic, card, o->kind);
	if (r < 0)
		die("network card: %s", strerror(-r));
	r = stack_new(o->mtu, on_stack_send, net, &net->stack);
	if (r < 0)
		die("network stack: %s%s", strerror(-r),
		    r == -EADDRINUSE ? " (this network namespace has one)" : "");
	r = net_tell(net, &ready, sizeof(ready));
	if (r < 0)
		die("control socket: %s", strerror(-r));
}

static void stop(struct net *net)
{
	nic_fini(&net->nic);
	stack_free(net->stack);
	alias_fini(&net->aliases);
	egress_fini(&net->egress);
	secrets_fini(&net->secrets);
	tls_kit_free(net->kit);
	authority_free(net->authority);
	free(net->set.fds);
}

static bool listens_to_server(const struct proxy *p)
{
	return proxy_wants(p, SIDE_HOST) && budget_pause_ms(p->net) == 0;
}

/* One turn of the loop. Return: 0, or a reason to end. */
static int turn(struct net *net)
{
	int timeout_ms = -1, control, card, r = 0, n;
	const bool full = nic_is_full(&net->nic);
	struct timespec ts;

	net->set.n = 0;
	control = pollset_add(&net->set, net->control, POLLIN);
	card = pollset_add(&net->set, net->nic.fd,
			   (short)((full || !net->goes ? 0 : POLLIN) |
				   (net->nic.out_at < net->nic.out.len ? POLLOUT : 0)));
	forward_prepare(net, &timeout_ms);
	flow_prepare(net, &timeout_ms);
	ask_prepare(net, &timeout_ms);
	secrets_prepare(net, &timeout_ms);
	cleanse_prepare(net, listens_to_server, &timeout_ms);
	control_prepare(net, &timeout_ms);
	/* While the guest is slow its stack stands still: it would only make more for it. */
	if (!full)
		stack_prepare(net->stack, &net->set, &timeout_ms);
	n = poll(net->set.fds, net->set.n, timeout_ms);
	if (n < 0 && errno != EINTR)
		return -errno;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	net->now = ts.tv_sec;
	if (pollset_events(&net->set, control))
		r = control_listen(net);
	if (r == 0 && (pollset_events(&net->set, card) & POLLIN))
		r = nic_read(&net->nic, guest_input, net);
	else if (r == 0 && (pollset_events(&net->set, card) & (POLLHUP | POLLERR)))
		r = -EPIPE;
	if (r == 0)
		r = net->failure;
	if (r < 0)
		return r;
	if (!full)
		stack_run(net->stack, &net->set, n < 0);
	forward_run(net);
	ask_run(net);
	flow_run(net);
	secrets_run(net);
	heap_tidy(net->flows.count);
	cleanse_run(net); /* behind flow_run(): what has come from servers is known */
	control_run(net);
	return nic_flush(&net->nic);
}

int main(int argc, char **argv)
{
	static struct net net;
	const struct options o = parse_options(argc, argv);
	int r;

	confine(&o);
	heap_init();
	start(&net, &o);
	do
		r = turn(&net);
	while (r == 0);
	stop(&net);
	if (r != -EPIPE && r != -ECONNRESET)
		die("%s", strerror(-r));
	return 0;
}
