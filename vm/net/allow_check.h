/* SPDX-License-Identifier: Apache-2.0 */
/* Checks an allow list: is it valid, can it work, and does it stay within the permitted list? */
#ifndef XSBX_VM_NET_ALLOW_CHECK_H
#define XSBX_VM_NET_ALLOW_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/config.h"

#define VM_WHY_MAX 128

/**
 * vm_allow_check() - Is this a valid allow list?
 * @text: Its text, as vm/base/allow.h describes it; need not be terminated
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why; -ENOMEM.
 */
int vm_allow_check(const char *text, size_t len, char ret_why[static VM_WHY_MAX]);

/* Is @port one of those of this machine that are opened? */
bool vm_host_port_is_open(const struct vm_host_ports *ports, uint16_t port);

/**
 * vm_allow_permitted() - Is this an allow list that can work, and that stays within another one?
 * @text: Its text, as above
 * @len: Its length
 * @most: The list that the administrator permits, terminated; NULL permits everything
 * @ports: Ports of this machine that are permitted
 * @ret_why: What is wrong with it; for -EPERM the first entry that goes beyond @most
 *
 * A literal address may be private; `*` does not include private addresses.
 *
 * Return: 0; -EADDRNOTAVAIL if something in it can't work at all; -EPERM; or as vm_allow_check().
 */
int vm_allow_permitted(const char *text, size_t len, const char *most,
		       const struct vm_host_ports *ports, char ret_why[static VM_WHY_MAX]);

#endif
