/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes with a network are given of the host's: certificates, and the way to its proxy. */
#ifndef XSBX_FS_SESSION_NETENV_H
#define XSBX_FS_SESSION_NETENV_H

#include "vm/base/buf.h"
#include "vm/vm.h"

#define NETENV_MAX 16 /* variables */

struct conf;
struct sandbox_spec;

/*
 * - Made once, when the daemon starts: after that it may not read such files any more.
 * - `allow` holds what has to be allowed beyond a session's own list, "" for nothing.
 */
struct netenv {
	struct sandbox_env env[NETENV_MAX]; /* names are constants, values are owned */
	size_t nenv;
	struct buf ca; /* the certificates, empty for none */
	char *ca_path; /* of their file, or NULL */
	char *allow;
};

/**
 * netenv_init() - Read what the configuration says is to be passed in
 * @ne: Filled in; end it with netenv_fini() whatever the result
 * @conf: Configuration
 * @ret_why: What is wrong, in words, if it fails
 * @why_size: Its size
 *
 * Return: 0; -errno of the file; -EINVAL for one that holds no certificates.
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
 * Return: how many there are now; as many as before without a network.
 */
size_t netenv_add(const struct netenv *ne, const struct sandbox_spec *spec, struct sandbox_env *env,
		  size_t n);

/* A session's list with what is to be allowed beyond it. Return: text of the caller's, or NULL. */
char *netenv_allow(const struct netenv *ne, const struct sandbox_spec *spec);

#endif
