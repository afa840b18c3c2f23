/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its list, its ports, its helper. */
#ifndef XSBX_VM_SANDBOX_NETWORK_H
#define XSBX_VM_SANDBOX_NETWORK_H

#include <stdbool.h>

struct problem;
struct sandbox;
struct vm;

/* What the sandbox is told. */
struct network_ops {
	void (*fail)(struct sandbox *s, const struct problem *problem); /* it has to end */
	void (*changed)(struct sandbox *s); /* network_is_ready() says so, or may */
	void (*closed)(struct sandbox *s);  /* of what network_close() has ended */
};

/**
 * network_new() - Give a sandbox the network of its spec, if that has one; ports are bound from now on
 * @s: Sandbox, which has none yet
 * @ops: Kept
 *
 * Return: 0, -EINVAL or -E2BIG for what is no list or too many ports, -ENOMEM.
 */
int network_new(struct sandbox *s, const struct network_ops *ops);

/* May the sandbox be said to be READY? */
bool network_is_ready(const struct sandbox *s);

/* The sandbox's machine is up: its card is connected. Idempotent. */
void network_start(struct sandbox *s);

/* The end of @s was decided on: its ports of this machine are free from now on. */
void network_let_go(struct sandbox *s);

/* Part of the end of @s, which it is a part of: `closed` follows. */
void network_close(struct sandbox *s);

/* Lines of `isolation`: of one sandbox's network, if it has one, and of what all have in common. */
void network_tell(const struct sandbox *s,
		  void (*line)(void *data, const char *key, const char *value), void *data);
void network_tell_all(const struct vm *vm,
		      void (*line)(void *data, const char *key, const char *value), void *data);

/* Asks for figures, if there is a network; see sandbox_traffic(). */
void network_ask_traffic(struct sandbox *s);

#endif
