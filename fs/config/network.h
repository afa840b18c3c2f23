/* SPDX-License-Identifier: Apache-2.0 */
/* The network part of a session's settings: network, allow, ports. */
#ifndef XSBX_FS_CONFIG_NETWORK_H
#define XSBX_FS_CONFIG_NETWORK_H

#include "settings.h"

/*
 * - `allow` is kept in one form only: words with single blanks between them, lower case, none of them twice.
 * - `allow` is empty unless `network` is on.
 */

/**
 * netset_allow() - Set the allow list
 * @s: Settings
 * @text: Names; comments and newlines are fine
 * @len: Its length
 * @limits: What is allowed, or NULL: netset_check() follows
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int netset_allow(struct settings *s, const char *text, size_t len,
		 const struct settings_limits *limits, struct problem *why);

/* Sets the ports, `8080 3000:80`. Return: as netset_allow(). */
int netset_ports(struct settings *s, const char *value, struct problem *why);

/* Do network and allow list go together, and are they allowed? Return: 0, -EINVAL. */
int netset_check(const struct settings *s, const struct settings_limits *limits,
		 struct problem *why);

/* Makes @ports the ports. Return: 0 or -ENOMEM. */
int netset_put_ports(struct settings *s, const struct sandbox_port *ports, size_t n);

/* Appends the ports as netset_ports() takes them. Return: 0 or what buf_append() said. */
int netset_print_ports(const struct sandbox_spec *spec, struct buf *out);

/* Appends an allow list as settings keep it, one name a line. Return: 0 or what buf_append() said. */
int netset_render_allow(const struct settings *s, struct buf *out);

#endif
