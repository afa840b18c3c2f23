/* SPDX-License-Identifier: Apache-2.0 */
/* The key of this host, with which the vault is sealed. */
#ifndef XSBX_VM_CHECKPOINT_HOST_KEY_H
#define XSBX_VM_CHECKPOINT_HOST_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct problem;
struct seal_key;

#define HOST_KEY_FILE "key"

/**
 * host_key_load() - Read the key from the state directory, or make one
 * @state_dir: Directory
 * @may_make: Nothing was sealed there yet
 * @ret_key: Result; seal_key_free() is due
 * @why: On failure, in words
 *
 * The file has to belong to the caller, and to be for nobody else. Blocks. Return: 0 or -errno.
 */
int host_key_load(int state_dir, bool may_make, struct seal_key **ret_key, struct problem *why);

/* A key as text: 64 hexadecimal digits, and a newline if you like. Return: 0, -EINVAL if it is
 * none, or -ENOMEM. */
int host_key_parse(const char *text, size_t len, struct seal_key **ret_key);

#endif
