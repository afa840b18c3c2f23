/* SPDX-License-Identifier: Apache-2.0 */
/* Host settings for sandboxes with a network: certificates, and the address of its proxy. */
#include "netenv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/log.h"
#include "fs/config/daemon.h"

/* Where distributions keep all certificates in one file. */
static const char *const host_files[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* Whatever language and library a program uses, it looks at one of these. */
static const char *const ca_variables[] = {
	"SSL_CERT_FILE",  "REQUESTS_CA_BUNDLE",	 "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
};

/* ---- certificates ---- */

static int read_ca(struct netenv *ne, const char *path)
{
	int r;

	ne->ca.limit = VM_CA_MAX;
	r = buf_load(&ne->ca, path);
	if (r < 0)
		return r;
	if (!ne->ca.len || !memmem(ne->ca.data, ne->ca.len, "-----BEGIN", 10))
		return -EINVAL;
	ne->ca_path = realpath(path, NULL);
	return ne->ca_path ? 0 : -errno;
}

/* The first that can be used; a host without any has none to pass on. */
static void read_host_ca(struct netenv *ne)
{
	for (size_t i = 0; i < ARRAY_SIZE(host_files) && !ne->ca_path; i++)
		if (read_ca(ne, host_files[i]) < 0)
			buf_clear(&ne->ca);
}

static void add_variable(struct netenv *ne, const char *name, const char *value)
{
	char *copy = ne->nenv < NETENV_MAX ? strdup(value) : NULL;

	if (copy)
		ne->env[ne->nenv++] = (struct sandbox_env){name, copy};
}

static int init_ca(struct netenv *ne, const char *wish, char *why, size_t why_size)
{
	int e = 0;

	if (strcmp(wish, "none") == 0)
		return 0;
	if (strcmp(wish, "host") == 0)
		read_host_ca(ne);
	else
		e = read_ca(ne, wish);
	if (e < 0) {
		snprintf(why, why_size, "ca_certificates: %s: %s", wish,
			 e == -EINVAL  ? "holds no certificates in PEM format"
			 : e == -EFBIG ? "is larger than 1 MiB"
				       : strerror(-e));
		return e;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ca_variables) && ne->ca_path; i++)
		add_variable(ne, ca_variables[i], VM_CA_FILE);
	return 0;
}

/* ---- proxy ---- */

/* "http://user:word@proxy.example.org:3128/" -> "proxy.example.org:3128". Return: false without a port. */
static bool find_host(const char *url, char *ret_host, size_t size)
{
	const char *host = strstr(url, "://"), *at, *end, *colon;
	char why[VM_WHY_MAX];

	host = host ? host + 3 : url;
	end = host + strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)(end - host));
	if (at)
		host = at + 1;
	colon = memchr(host, ':', (size_t)(end - host));
	if (!colon || (size_t)(end - host) >= size)
		return false;
	snprintf(ret_host, size, "%.*s", (int)(end - host), host);
	return !strpbrk(ret_host, " ,#\t\r\n*") &&
	       vm_allow_check(ret_host, strlen(ret_host), why) == 0;
}

static void allow(struct netenv *ne, const char *host)
{
	char *longer;

	if (asprintf(&longer, "%s%s%s", ne->allow, *ne->allow ? " " : "", host) < 0)
		return;
	free(ne->allow);
	ne->allow = longer;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

static void pass_proxy(struct netenv *ne, const char *name)
{
	const char *value = getenv(name);
	char host[300];

	if (!value || !*value)
		return;
	if (strlen(value) > SETTINGS_ENV_VALUE || !is_printable(value) ||
	    (strcasecmp(name, "no_proxy") != 0 && !find_host(value, host, sizeof(host)))) {
		log_warn("%s is not passed on: it does not name a host and a port", name);
		return;
	}
	add_variable(ne, name, value);
	if (strcasecmp(name, "no_proxy") != 0 && !strstr(ne->allow, host))
		allow(ne, host);
}

/* ---- all of it ---- */

int netenv_init(struct netenv *ne, const struct conf *conf, char *ret_why, size_t why_size)
{
	static const char *const proxies[] = {"http_proxy", "https_proxy", "no_proxy",
					      "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};

	*ne = (struct netenv){.allow = strdup("")};
	if (!ne->allow) {
		snprintf(ret_why, why_size, "out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(proxies) && conf->pass_proxy; i++)
		pass_proxy(ne, proxies[i]);
	return init_ca(ne, conf->ca_certificates, ret_why, why_size);
}

void netenv_fini(struct netenv *ne)
{
	for (size_t i = 0; i < ne->nenv; i++)
		free((char *)ne->env[i].value);
	buf_clear(&ne->ca);
	free(ne->ca_path);
	free(ne->allow);
	*ne = (struct netenv){0};
}

static bool has_own(const struct sandbox_spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->nenv; i++)
		if (strcmp(spec->env[i].name, name) == 0)
			return true;
	return false;
}

size_t netenv_add(const struct netenv *ne, const struct sandbox_spec *spec, struct sandbox_env *env,
		  size_t n)
{
	if (!spec->network)
		return n;
	for (size_t i = 0; i < ne->nenv; i++)
		if (!has_own(spec, ne->env[i].name))
			env[n++] = ne->env[i];
	return n;
}

char *netenv_allow(const struct netenv *ne, const struct sandbox_spec *spec)
{
	const bool more = spec->network && ne->allow && *ne->allow;
	char *list;

	if (asprintf(&list, "%s%s%s", spec->allow, more ? " " : "", more ? ne->allow : "") < 0)
		return NULL;
	return list;
}
