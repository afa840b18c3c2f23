/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its list, its ports, its helper. */
#ifndef XSBX_VM_SANDBOX_NETWORK_H
#define XSBX_VM_SANDBOX_NETWORK_H

#include <stdbool.h>

struct sandbox;
struct sandbox_spec;
struct vm;

/**
 * network_new() - Give a user's sandbox its network; ports are bound from now on
 * @s: Sandbox, which has none yet
 * @spec: What it is to be
 *
 * Nothing is done if @spec has no network. What goes wrong later ends the sandbox.
 *
 * Return: 0, -EINVAL or -E2BIG for what is no list or too many ports, -ENOMEM.
 */
int network_new(struct sandbox *s, const struct sandbox_spec *spec);

/* May the sandbox be said to be READY? Has sandbox_work() called when that becomes true. */
bool network_is_ready(const struct sandbox *s);

/* The sandbox's machine is up: its card is connected. Idempotent. */
void network_start(struct sandbox *s);

/* The end of @s was decided on: its ports of this machine are free from now on. */
void network_let_go(struct sandbox *s);

/* Part of the end of @s, which it is a part of: sandbox_part_closed() follows. */
void network_close(struct sandbox *s);

/* Lines of `isolation`: of one sandbox's network, if it has one, and of what all have in common. */
void network_tell(const struct sandbox *s,
		  void (*line)(void *data, const char *key, const char *value), void *data);
void network_tell_all(const struct vm *vm,
		      void (*line)(void *data, const char *key, const char *value), void *data);

/* Asks for figures, if there is a network; see sandbox_traffic(). */
void network_ask_traffic(struct sandbox *s);

#endif
