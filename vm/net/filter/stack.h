/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP/IP stack that the guest talks to: a restricted libslirp. */
#ifndef XSBX_VM_NET_FILTER_STACK_H
#define XSBX_VM_NET_FILTER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pollset;
struct stack;

/**
 * stack_new() - Start a stack; one per network namespace
 * @mtu: Largest packet
 * @send: Called for each frame to the guest, possibly from any function here
 * @data: Its argument
 * @ret_stack: Result; end it with stack_free()
 *
 * Return: 0; -EADDRINUSE if this network namespace has one already; -errno.
 */
int stack_new(unsigned mtu, void (*send)(void *data, const void *frame, size_t len), void *data,
	      struct stack **ret_stack);
void stack_free(struct stack *st);

/* Handles an ARP or TCP frame. */
void stack_input(struct stack *st, const uint8_t *frame, size_t len);

/**
 * stack_open() - Let the guest connect to an address
 * @st: Stack
 * @address: In network order
 * @port: TCP port
 *
 * Call it for the first packet of a connection, before stack_input().
 *
 * Return: 0 or -errno.
 */
int stack_open(struct stack *st, uint32_t address, uint16_t port);

/**
 * stack_accept() - Get the connection that the last frame completed
 *
 * Call it after stack_input(): the result belongs to that frame's destination, if nothing was
 * pending before.
 *
 * Return: A socket, -EAGAIN, or -errno.
 */
int stack_accept(struct stack *st);

/* Makes a port of the guest reachable by stack_connect(), permanently. Return: 0 or -errno. */
int stack_forward(struct stack *st, uint16_t port);

/* Connects to a port of the guest. Return: a socket; -EAGAIN: try again in the next iteration; -errno */
int stack_connect(uint16_t port);

/* Before and after poll(): adds the stack's descriptors and shortens *@timeout_ms; handles events. */
void stack_prepare(struct stack *st, struct pollset *set, int *timeout_ms);
void stack_run(struct stack *st, struct pollset *set, bool failed);

#endif
