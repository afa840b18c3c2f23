/* SPDX-License-Identifier: Apache-2.0 */
/* Runs xsbxfs-net with a gateway and a dialer, as the daemon does, and obeys lines on standard input. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm/net/dial/server.h"
#include "vm/net/dialer.h"
#include "vm/net/gateway.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * usage: net_fixture PROGRAM (--stream FD | --packet FD) [OPTION...] [-- NAME=ADDRESS...]
 *
 * What is in front of the -- goes to PROGRAM. The names behind it resolve to these addresses, and no
 * others do; several for one name are all its addresses. Lines that are read:
 *
 *	allow WORD...		answered with `allowed` or `error ...`
 *	first RULE...		the administrator's rules; likewise, as what follows
 *	rules RULE...
 *	secrets USE...
 *	ask SECONDS		0: nothing is asked for
 *	learn 0|1
 *	budget BYTES REQUESTS CONNECTIONS RATE
 *	trust FILE		certificates, by which servers are judged
 *	secret NAME FILE	its value
 *	decide ID yes|no
 *	forward GUEST HOST	answered with `forward GUEST HOST` or `error ...`
 *	unforward GUEST		answered with `unforward GUEST` or `error ...`
 *	crowd			from now on no listener gets through to PROGRAM: answered with `crowd`
 *	quiet			they do again; answered with `quiet`
 *	stats			answered with `stats IN OUT CONNECTIONS DENIED OPEN REQUESTS`, which is told unasked as well
 *
 * Told unasked: `pid PID`, `ready`, `resolved NAME` where a name server would be asked, `denied TIME NAME PORT LOST REASON`, `ended ERRNO`, `authority HEX`,
 * `secret NAME RESULT EXPIRES`, `asked ID METHOD|- SCHEME HOST PORT PATH|- RULE FIRST`, `unasked ID WHY`, and `logged`, followed by what is in a struct net_logged.
 */

static uv_loop_t loop;
static struct dialer dialer;
static struct dial_server *server;
static struct gateway *gateway;
static char **names;
static bool crowded;

/* In the place of the C library's: too many descriptors of the user's are on their way. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (crowded && message->msg_controllen &&
	    message->msg_iov->iov_len == sizeof(struct net_header)) {
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static void on_ready(void *data)
{
	(void)data;
	(void)gateway_go(gateway);
	puts("ready");
}

static void on_denied(void *data, const struct net_denied *d)
{
	(void)data;
	printf("denied %" PRId64 " %s %u %u %s\n", d->time_ms, d->name, d->port, d->lost,
	       net_reason_str(d->reason));
}

static const char *word(const char *text)
{
	return *text ? text : "-";
}

static void on_authority(void *data, const uint8_t *der, size_t len)
{
	(void)data;
	printf("authority ");
	for (size_t i = 0; i < len; i++)
		printf("%02x", der[i]);
	puts("");
}

static void on_asked(void *data, const struct net_asked *m)
{
	(void)data;
	printf("asked %u %s %s %s %u %s %u %u\n", m->header.id, word(m->method), m->scheme, m->host,
	       m->port, word(m->path), m->rule, m->first);
}

static void on_unasked(void *data, uint32_t id, unsigned why)
{
	(void)data;
	printf("unasked %u %u\n", id, why);
}

static void on_logged(void *data, const struct net_logged *m)
{
	(void)data;
	printf("logged method=%s scheme=%s version=%s host=%s port=%u path=%s status=%u in=%" PRIu64
	       " out=%" PRIu64 " refused=%u rule=%u first=%u secret=%s lost=%u reason=%s\n",
	       word(m->method), m->scheme, word(m->version), m->host, m->port, word(m->path),
	       m->status, m->bytes_in, m->bytes_out, m->refused, m->rule, m->first, word(m->secret),
	       m->lost, net_reason_str(m->reason));
}

static void on_secret(void *data, const struct net_secret_read *m)
{
	(void)data;
	printf("secret %s %u %u\n", m->name, m->result, m->expires_s);
}

static void on_stats(void *data, const struct net_stats *s)
{
	(void)data;
	printf("stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n",
	       s->bytes_in, s->bytes_out, s->connections, s->denied, s->open, s->header.id);
}

static void on_dialer_closed(struct dialer *d)
{
	(void)d;
}

static void end_gateway(void)
{
	if (gateway)
		gateway_close(gateway, NULL, NULL);
	gateway = NULL;
	dialer_close(&dialer);
}

static void on_ended(void *data, int err)
{
	(void)data;
	printf("ended %d\n", -err);
	end_gateway();
}

static int on_resolve(void *data, const char *name,
		      union dial_address ret_addresses[static DIAL_ADDRESSES_MAX])
{
	const size_t len = strlen(name);
	int n = 0;

	(void)data;
	printf("resolved %s\n", name);
	for (char **p = names; *p && n < DIAL_ADDRESSES_MAX; p++) {
		union dial_address *a = &ret_addresses[n];

		if (strncmp(*p, name, len) != 0 || (*p)[len] != '=')
			continue;
		memset(a, 0, sizeof(*a));
		if (inet_pton(AF_INET, *p + len + 1, &a->in.sin_addr) == 1)
			a->sa.sa_family = AF_INET;
		else if (inet_pton(AF_INET6, *p + len + 1, &a->in6.sin6_addr) == 1)
			a->sa.sa_family = AF_INET6;
		else
			continue;
		n++;
	}
	return n;
}

static void on_server_ended(void *data, int err)
{
	(void)data;
	(void)err;
	dial_server_close(server);
}

/* The dialer's other end is here, too. */
static int start_server(struct dialer *d)
{
	static const struct dial_config cfg = {.resolve = on_resolve, .ended = on_server_ended};
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	return dial_server_new(d->loop, sv[1], &cfg, &server) < 0 ? -ENOMEM : sv[0];
}

/* A port that is being bound. */
struct forward {
	struct dialer_request request;
	uint16_t guest;
};

static void on_port(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	struct forward *f = container_of(rq, struct forward, request);

	if (result == 0)
		result = gateway ? gateway_forward(gateway, f->guest, *fd) : -EPIPE;
	if (result == 0)
		printf("forward %u %u\n", f->guest, port);
	else
		printf("error %d %s\n", -result, strerror(-result));
	free(f);
}

static int forward(unsigned guest, unsigned host)
{
	struct forward *f = calloc(1, sizeof(*f));

	f->guest = (uint16_t)guest;
	f->request.done = on_port;
	return dialer_listen(&dialer, &f->request, (uint16_t)host);
}

static char list[32768], first_rules[32768], rules[32768], secrets[16384];
static struct net_policy policy = {.first = first_rules, .rules = rules, .secrets = secrets};

/* A file, for gateway_trust() and gateway_secret(). */
static int pass_file(const char *name, const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	if (name)
		return gateway_secret(gateway, name, fd);
	r = gateway_trust(gateway, fd);
	close(fd);
	return r;
}

/* Return: is it a line about the policy? */
static bool set_policy(const char *line, int *ret, char *why)
{
	static const struct {
		const char *word;
		char *text;
		size_t size;
	} texts[] = {{"allow", list, sizeof(list)},
		     {"first", first_rules, sizeof(first_rules)},
		     {"rules", rules, sizeof(rules)},
		     {"secrets", secrets, sizeof(secrets)}};
	unsigned on, id;
	char name[64], path[200];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const size_t n = strlen(texts[i].word);

		if (strncmp(line, texts[i].word, n) != 0 || (line[n] && line[n] != ' '))
			continue;
		snprintf(texts[i].text, texts[i].size, "%s", line + n);
		*ret = gateway_policy(gateway, list, &policy, why);
		return true;
	}
	*ret = 0;
	if (sscanf(line, "ask %u", &policy.ask_s) == 1)
		policy.ask = policy.ask_s > 0;
	else if (sscanf(line, "learn %u", &on) == 1)
		policy.learn = on;
	else if (sscanf(line, "budget %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
			&policy.most.bytes, &policy.most.requests, &policy.most.connections,
			&policy.rate) == 4)
		;
	else if (sscanf(line, "trust %199s", path) == 1)
		return (*ret = pass_file(NULL, path)), true;
	else if (sscanf(line, "secret %63s %199s", name, path) == 2)
		return (*ret = pass_file(name, path)), true;
	else if (sscanf(line, "decide %u %63s", &id, name) == 2)
		return gateway_decide(gateway, id, *name == 'y'), true;
	else
		return false;
	*ret = gateway_policy(gateway, list, &policy, why);
	return true;
}

static void obey(char *line)
{
	char why[VM_WHY_MAX] = "";
	unsigned guest, host;
	int r;

	if (set_policy(line, &r, why)) {
		if (r == 0)
			puts("allowed");
	} else if (sscanf(line, "forward %u %u", &guest, &host) == 2) {
		r = forward(guest, host);
	} else if (sscanf(line, "unforward %u", &guest) == 1) {
		r = gateway_unforward(gateway, (uint16_t)guest);
		if (r == 0)
			printf("unforward %u\n", guest);
	} else if (!strcmp(line, "crowd") || !strcmp(line, "quiet")) {
		crowded = *line == 'c';
		r = puts(line);
	} else if (!strcmp(line, "stats")) {
		r = gateway_ask_stats(gateway);
	} else {
		r = -EINVAL;
	}
	if (r < 0)
		printf("error %d %s\n", -r, why);
}

static void on_input(uv_poll_t *poll, int status, int events)
{
	static char text[65536];
	static size_t have;
	char *end;
	ssize_t n;

	(void)status;
	(void)events;
	n = read(0, text + have, sizeof(text) - 1 - have);
	if (n <= 0) {
		uv_close((uv_handle_t *)poll, NULL);
		end_gateway();
		return;
	}
	have += (size_t)n;
	while ((end = memchr(text, '\n', have))) {
		*end = '\0';
		if (gateway)
			obey(text);
		have -= (size_t)(end + 1 - text);
		memmove(text, end + 1, have);
	}
}

int main(int argc, char **argv)
{
	static const struct gateway_events events = {.ready = on_ready,
						     .denied = on_denied,
						     .stats = on_stats,
						     .ended = on_ended,
						     .authority = on_authority,
						     .asked = on_asked,
						     .unasked = on_unasked,
						     .logged = on_logged,
						     .secret = on_secret};
	const struct gateway_config cfg = {.events = &events, .dialer = &dialer, .owner = 1};
	char number[12], *args[32] = {argv[1], (char *)"--control", number};
	int sv[2], n = 3, i, status;
	uv_poll_t input;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 2; i < argc && strcmp(argv[i], "--") != 0 && n < 31; i++)
		args[n++] = argv[i];
	names = argv + MIN(i + 1, argc);
	if (argc < 3 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return 2;
	fcntl(sv[1], F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", sv[1]);
	if (posix_spawn(&pid, argv[1], NULL, NULL, args, environ) != 0)
		return 2;
	close(sv[1]);
	for (i = 3; i + 1 < n; i++) /* the helper's now, and its end of file is to be seen */
		if (!strcmp(args[i], "--stream") || !strcmp(args[i], "--packet"))
			close(atoi(args[i + 1]));
	printf("pid %d\n", pid);
	uv_loop_init(&loop);
	dialer_init(&dialer, &loop);
	dialer.start = start_server;
	dialer.closed = on_dialer_closed;
	uv_poll_init(&loop, &input, 0);
	if (gateway_new(&loop, sv[0], &cfg, &gateway) < 0)
		return 2;
	uv_poll_start(&input, UV_READABLE, on_input);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	if (waitpid(pid, &status, 0) != pid)
		return 2;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
