/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's network may be used for: its list and policy, what waits for leave, what is told of it. */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "network_internal.h"
#include "vm/base/buf.h"
#include "vm/base/io.h"
#include "vm/base/memory.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The filter makes an authority of its own as soon as rules or secrets may depend on what is said within TLS, and tells its
 * certificate. The guest gets that behind those of the host, in the file to which SSL_CERT_FILE and its like point; and no program
 * runs between such a policy and that: network_is_ready() says so, and a run that would begin is put off. Programs that have read the
 * file before have to read it again.
 *
 * Servers are judged by the filter then, by the host's certificates, which it gets as a file in memory.
 */

/* ---- certificates ---- */

static bool needs_authority(const struct network *n)
{
	return *n->policy.first || *n->policy.rules || *n->policy.secrets;
}

bool network_is_vouched(const struct network *n)
{
	return n->vouched || n->lost || !n->started || !needs_authority(n);
}

/* Appends a certificate in PEM format (RFC 7468). */
static void put_pem(struct buf *out, const uint8_t *der, size_t len)
{
	unsigned char text[2048];
	const int n = len <= 1024 ? EVP_EncodeBlock(text, der, (int)len) : 0;

	(void)buf_printf(out, "-----BEGIN CERTIFICATE-----\n");
	for (int at = 0; at < n; at += 64)
		(void)buf_printf(out, "%.64s\n", (const char *)text + at);
	(void)buf_printf(out, "-----END CERTIFICATE-----\n");
}

static void on_authority(void *data, const uint8_t *der, size_t len)
{
	struct network *n = data;
	struct buf pem = {0};

	put_pem(&pem, der, len);
	if (!pem.failed && n->s->guest)
		guest_trust(n->s->guest, pem.data, pem.len);
	buf_clear(&pem);
	sandbox_touch(n->s);
	if (n->vouched)
		return;
	n->vouched = true;
	n->ops->changed(n->s);
	n->ops->resumes(n->s);
}

/* The host's certificates in memory, for all filters. Return: a descriptor that stays the vm's, or -errno. */
static int trust_file(struct vm *vm)
{
	int fd, r;

	if (vm->trust_fd >= 0)
		return vm->trust_fd;
	fd = memory_new("certificates");
	r = fd < 0 ? fd : fileio_write(fd, vm->guests.ca, vm->guests.ca_len);
	if (r == 0)
		r = memory_seal(fd);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		return r;
	}
	vm->trust_fd = fd;
	return fd;
}

static int send_trust(struct network *n)
{
	int fd, r;

	if (n->trust_sent || !needs_authority(n) || !n->s->vm->guests.ca_len)
		return 0;
	fd = trust_file(n->s->vm);
	r = fd < 0 ? fd : gateway_trust(n->gateway, fd);
	n->trust_sent = r == 0;
	return r;
}

/* ---- the policy ---- */

static void free_texts(struct net_policy *p)
{
	free((char *)p->first);
	free((char *)p->rules);
	free((char *)p->secrets);
	free((char *)p->secrets_file);
}

void network_free_policy(struct network *n)
{
	free(n->allow);
	free_texts(&n->policy);
}

static const char *copy(const char *text, bool *bad)
{
	char *t = strdup(text ? text : "");

	*bad |= !t;
	return t;
}

int network_copy_policy(struct network *n, const char *allow, const struct net_policy *policy)
{
	struct net_policy p = *policy;
	bool bad = false;
	char *list = (char *)copy(allow, &bad);

	p.first = copy(policy->first, &bad);
	p.rules = copy(policy->rules, &bad);
	p.secrets = copy(policy->secrets, &bad);
	p.secrets_file = copy(policy->secrets_file, &bad);
	if (bad) {
		free(list);
		free_texts(&p);
		return -ENOMEM;
	}
	network_free_policy(n);
	n->allow = list;
	n->policy = p;
	return 0;
}

int network_send_policy(struct network *n)
{
	char why[VM_WHY_MAX];
	int r = send_trust(n);

	if (r == 0)
		r = gateway_policy(n->gateway, n->allow, &n->policy, why);
	if (r == 0)
		network_secrets_send(n, true);
	return r;
}

static int check_policy(const char *allow, const struct net_policy *policy, char *why)
{
	struct egress e;
	const int r = egress_parse(allow, policy, &e, why);

	if (r == 0)
		egress_fini(&e);
	return r;
}

int sandbox_policy(struct sandbox *s, const char *allow, const struct net_policy *policy,
		   char ret_why[static VM_WHY_MAX])
{
	struct network *n = s->network;
	int r;

	if (!n || n->closing) {
		snprintf(ret_why, VM_WHY_MAX, "the sandbox has no network");
		return -EOPNOTSUPP;
	}
	if (n->lost) {
		snprintf(ret_why, VM_WHY_MAX, NETWORK_LOST);
		return -ENETDOWN;
	}
	r = n->gateway ? gateway_policy(n->gateway, allow, policy, ret_why)
		       : check_policy(allow, policy, ret_why);
	if (r == 0)
		r = network_copy_policy(n, allow, policy);
	if (r == 0 && n->gateway)
		r = send_trust(n);
	if (r == 0 && n->gateway)
		network_secrets_send(n, false);
	return r;
}

void sandbox_decide(struct sandbox *s, uint32_t id, bool allowed)
{
	if (s->network && s->network->gateway)
		gateway_decide(s->network->gateway, id, allowed);
}

/* ---- told ---- */

static unsigned number_of(uint32_t rule, uint32_t first)
{
	return (rule & ~SANDBOX_RULE_FIRST) | (rule && first ? SANDBOX_RULE_FIRST : 0u);
}

static void on_asked(void *data, const struct net_asked *m)
{
	const struct network *n = data;
	const struct sandbox_asked asked = {
		.id = m->header.id,
		.time_ms = m->time_ms,
		.until_ms = m->until_ms,
		.method = m->method,
		.scheme = m->scheme,
		.host = m->host,
		.port = m->port,
		.path = m->path,
		.rule = number_of(m->rule, m->first),
	};

	tell_owner(n->s, asked, &asked);
}

static void on_unasked(void *data, uint32_t id, unsigned why)
{
	static const enum sandbox_unasked whys[] = {
		[NET_UNASKED_LATE] = SANDBOX_UNASKED_LATE,
		[NET_UNASKED_GONE] = SANDBOX_UNASKED_GONE,
		[NET_UNASKED_RULES] = SANDBOX_UNASKED_RULES,
	};
	const struct network *n = data;

	tell_owner(n->s, unasked, id, whys[why]);
}

static void on_logged(void *data, const struct net_logged *m)
{
	const struct network *n = data;
	const struct sandbox_logged logged = {
		.time_ms = m->time_ms,
		.took_ms = m->took_ms,
		.lost = m->lost,
		.method = m->method,
		.scheme = m->scheme,
		.version = m->version,
		.host = m->host,
		.port = m->port,
		.path = m->path,
		.status = m->status,
		.bytes_in = m->bytes_in,
		.bytes_out = m->bytes_out,
		.refused = m->refused,
		.rule = number_of(m->rule, m->first),
		.secret = m->secret,
		.reason = m->reason == NET_OK ? "" : net_reason_str(m->reason),
	};

	tell_owner(n->s, logged, &logged);
}

void network_policy_events(struct gateway_events *events)
{
	events->authority = on_authority;
	events->asked = on_asked;
	events->unasked = on_unasked;
	events->logged = on_logged;
	events->secret = network_secret_read;
}
