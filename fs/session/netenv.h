/* SPDX-License-Identifier: Apache-2.0 */
/* Host settings for sandboxes with a network: certificates, and the address of its proxy. */
#ifndef XSBX_FS_SESSION_NETENV_H
#define XSBX_FS_SESSION_NETENV_H

#include "vm/base/buf.h"
#include "vm/vm.h"

#define NETENV_MAX 16 /* variables */

struct conf;
struct sandbox_spec;

/*
 * - Read once, when the daemon starts: later it may not access these files any more.
 * - `allow` has what is allowed in addition to a session's own list, or "".
 */
struct netenv {
	struct sandbox_env env[NETENV_MAX]; /* names are constants, values are owned */
	size_t nenv;
	struct buf ca; /* the certificates, empty for none */
	char *ca_path; /* of their file, or NULL */
	char *allow;
};

/**
 * netenv_init() - Read the settings selected by the configuration
 * @ne: Filled in; release it with netenv_fini() whatever the result
 * @conf: Configuration
 * @ret_why: Human-readable reason on failure
 * @why_size: Its size
 *
 * Return: 0; -errno of the file; -EINVAL if it contains no certificates.
 */
int netenv_init(struct netenv *ne, const struct conf *conf, char *ret_why, size_t why_size);
void netenv_fini(struct netenv *ne);

/**
 * netenv_add() - Add its variables to a session's
 * @ne: What there is
 * @spec: Of the session; one with a variable of the same name keeps its own
 * @env: Room for NETENV_MAX more
 * @n: How many there are
 *
 * Return: how many there are now; unchanged without a network.
 */
size_t netenv_add(const struct netenv *ne, const struct sandbox_spec *spec, struct sandbox_env *env,
		  size_t n);

/* A session's list extended by `allow`. Return: text owned by the caller, or NULL. */
char *netenv_allow(const struct netenv *ne, const struct sandbox_spec *spec);

#endif
