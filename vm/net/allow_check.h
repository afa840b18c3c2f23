/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody wrote as an allow list: is it one, can it work, and does it open more than it may? */
#ifndef XSBX_VM_NET_ALLOW_CHECK_H
#define XSBX_VM_NET_ALLOW_CHECK_H

#include <stddef.h>

#include "vm/base/config.h"

#define VM_WHY_MAX 128

/**
 * vm_allow_check() - Is this an allow list?
 * @text: Its text, as vm/base/allow.h describes it; need not be terminated
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why; -ENOMEM.
 */
int vm_allow_check(const char *text, size_t len, char ret_why[static VM_WHY_MAX]);

/**
 * vm_allow_permitted() - Is this an allow list that can work, and that opens only what another one opens?
 * @text: Its text, as above
 * @len: Its length
 * @most: The other one, terminated: what the administrator permits; or NULL, which is everything
 * @ports: Of this machine, which are opened
 * @ret_why: What is wrong with it; for -EPERM the first entry that goes beyond @most
 *
 * An address that is spelt out may be private; `*` does not cover that.
 *
 * Return: 0; -EADDRNOTAVAIL if something in it can't work at all; -EPERM; or as vm_allow_check().
 */
int vm_allow_permitted(const char *text, size_t len, const char *most,
		       const struct vm_host_ports *ports, char ret_why[static VM_WHY_MAX]);

#endif
