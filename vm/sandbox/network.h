/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: its allow list, its ports, its filter process. */
#ifndef XSBX_VM_SANDBOX_NETWORK_H
#define XSBX_VM_SANDBOX_NETWORK_H

#include <stdbool.h>

struct buf;
struct fdbag;
struct problem;
struct record_reader;
struct sandbox;
struct vm;

/* Callbacks of the sandbox. */
struct network_ops {
	void (*fail)(struct sandbox *s, const struct problem *problem); /* it has to end */
	void (*changed)(struct sandbox *s); /* network_is_ready() may have changed */
	void (*resumes)(struct sandbox *s); /* a run that was put off for it can begin */
	void (*closed)(struct sandbox *s);  /* network_close() has completed */
};

/**
 * network_new() - Create the network of a sandbox, if its spec has one, and start binding its ports
 * @s: Sandbox, without a network yet
 * @ops: Kept
 *
 * Return: 0, -EINVAL or -E2BIG for an invalid list or too many ports, -ENOMEM.
 */
int network_new(struct sandbox *s, const struct network_ops *ops);

/* May the sandbox become READY? */
bool network_is_ready(const struct sandbox *s);

/* The sandbox's guest is up: connects its card. Idempotent. */
void network_start(struct sandbox *s);

/* @s is ending: releases its ports on the host. */
void network_let_go(struct sandbox *s);

/* Closes the network as part of closing @s; `closed` follows. */
void network_close(struct sandbox *s);

/* Lines for `isolation`: about one sandbox's network, if it has one, and about what all have in
 * common. */
void network_tell(const struct sandbox *s,
		  void (*line)(void *data, const char *key, const char *value), void *data);
void network_tell_all(const struct vm *vm,
		      void (*line)(void *data, const char *key, const char *value), void *data);

/* Queries the traffic counters, if there is a network; see sandbox_traffic(). */
void network_ask_traffic(struct sandbox *s);

/* ---- from one daemon to the next: network_record.c ---- */

/* Appends its fields, if it has one. Ports that are being bound are not among them. */
void network_put(const struct sandbox *s, struct buf *out, struct fdbag *fds);

/* As network_new(), of such fields; NULL: it had none. What makes no sense ends the sandbox, later.
 * Return: 0 or -ENOMEM. */
int network_take(struct sandbox *s, const struct network_ops *ops,
		 const struct record_reader *fields, struct fdbag *fds);

/* It begins to listen to its filter, and to make connections that were asked for. */
void network_go(struct sandbox *s);

#endif
