/* SPDX-License-Identifier: Apache-2.0 */
/* The network part of a session's settings: network, allow, ports. */
#ifndef XSBX_FS_CONFIG_NETWORK_H
#define XSBX_FS_CONFIG_NETWORK_H

#include "settings.h"

/*
 * - `allow` is stored in canonical form: lower-case words separated by single blanks, without duplicates.
 * - `allow` is empty unless `network` is on.
 */

/**
 * netset_allow() - Set the allow list
 * @s: Settings
 * @text: Names; comments and newlines are accepted
 * @len: Its length
 * @limits: Limits; NULL: netset_check() will check them
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int netset_allow(struct settings *s, const char *text, size_t len,
		 const struct settings_limits *limits, struct problem *why);

/* Sets the ports, `8080 3000:80`. Return: as netset_allow(). */
int netset_ports(struct settings *s, const char *value, struct problem *why);

/* Are network and allow list consistent and permitted? Return: 0, -EINVAL. */
int netset_check(const struct settings *s, const struct settings_limits *limits,
		 struct problem *why);

/* Are all words of @list, an allow list, permitted to stand in setting @key? @limits: or NULL. Return: 0, -EINVAL, -ENOMEM. */
int netset_check_hosts(const char *key, const char *list, const struct settings_limits *limits,
		       struct problem *why);

/* Replaces the ports. Return: 0 or -ENOMEM. */
int netset_put_ports(struct settings *s, const struct sandbox_port *ports, size_t n);

/* Appends the ports in a form that netset_ports() accepts. Return: as buf_append(). */
int netset_print_ports(const struct sandbox_spec *spec, struct buf *out);

/* Appends the stored allow list, one name per line. Return: as buf_append(). */
int netset_render_allow(const struct settings *s, struct buf *out);

#endif
