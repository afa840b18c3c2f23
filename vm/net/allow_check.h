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
 * vm_allow_works() - Can everything in a list work at all?
 * @text: Its text, which is a list
 * @len: Length in bytes
 * @most: What the administrator permits; an address that is spelt out there is taken; or NULL
 * @ports: Of this machine
 * @ret_why: What can't work, and why, if it fails
 *
 * Return: 0, -EADDRNOTAVAIL, or as vm_allow_check().
 */
int vm_allow_works(const char *text, size_t len, const char *most,
		   const struct vm_host_ports *ports, char ret_why[static VM_WHY_MAX]);

/**
 * vm_allow_within() - Does a list open only what another one opens?
 * @text: List
 * @len: Its length
 * @most: The other one, terminated
 * @ret_why: The first entry that goes beyond it, if -EPERM is returned; else as above
 *
 * An address that is spelt out may be private; `*` does not cover that.
 *
 * Return: 0, -EPERM, or as vm_allow_check().
 */
int vm_allow_within(const char *text, size_t len, const char *most,
		    char ret_why[static VM_WHY_MAX]);

#endif
