/* SPDX-License-Identifier: Apache-2.0 */
/* The file server: carries out the host's operations on the working directory. */
#ifndef XSBX_AGENT_FILES_FILES_H
#define XSBX_AGENT_FILES_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "locks.h"
#include "node.h"
#include "number.h"
#include "origin.h"
#include "watch.h"
#include "agent/protocol.h"

struct conn;
struct frame;
struct loop;
struct guest_env;

struct files {
	struct node_table table;
	struct locks locks;
	struct watch watch;
	const struct guest_env *env;
	int root_fd; /* the working directory; node 1's descriptor is a duplicate */
	int proc_fd; /* /proc/self/fd, to reopen a node's file */
	dev_t dev;
	struct numbers numbers;
	struct origin origin;
	bool leased; /* the host was told that nothing but its requests can change files */
};

/**
 * files_init() - Start serving a directory
 * @f: Server, zeroed
 * @env: Has the directory, and the user whose permissions apply
 * @loop: For waits
 * @conn: Connection to report the end of waits on
 *
 * Return: 0 or -errno.
 */
int files_init(struct files *f, const struct guest_env *env, struct loop *loop, struct conn *conn);

/** files_renew() - Forget all that a host knows of: its nodes, handles and locks, and its watch. */
void files_renew(struct files *f);

/** files_fini() - Close everything. */
void files_fini(struct files *f);

/**
 * files_request() - Carry out one request
 * @f: Server
 * @h: Its header; the type is one of PROTO_F_LOOKUP to PROTO_F_ORIGIN
 * @payload: Its payload
 * @ret_reply: The answer to be sent, or NULL for a request that has none
 *
 * Return: 0 (a request that failed is answered with an errno), -EPROTO if it was malformed,
 * -ENOMEM if there was no memory for an answer.
 */
int files_request(struct files *f, const struct proto_header *h, const uint8_t *payload,
		  struct frame **ret_reply);

/**
 * files_note() - During a lease: tell the host what a request made of files beside its answer
 * @f: Server
 * @conn: Connection on which the answer was queued
 * @h: Header of the request
 * @payload: Its payload
 * @handle: For OPEN, the handle in the answer
 */
void files_note(const struct files *f, struct conn *conn, const struct proto_header *h,
		const uint8_t *payload, uint64_t handle);

/**
 * files_space() - Get the usage of the working directory's quota
 * @f: Server
 * @usage: Its members about files are filled in
 */
void files_space(const struct files *f, struct proto_usage *usage);

/* The device that its files are of where they are mapped; 0: it may be one of several. */
dev_t files_mapped_dev(const struct files *f);

/* Which of its limits have been reached? Return: PROTO_FULL_* */
uint8_t files_full(const struct files *f);

#endif
