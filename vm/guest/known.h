/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a sandbox's files while nothing in it can change them. */
#ifndef XSBX_VM_GUEST_KNOWN_H
#define XSBX_VM_GUEST_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv/tree.h>

#include "file.h"

/*
 * Theory of operation
 * -------------------
 * During a lease (see the agent's lease.h) only the host's requests change files, and all of them pass here.
 * So what answers have said is kept, and requests that it answers are not sent: LOOKUP and GETATTR, and READ
 * of a small file whose content came with a handle, or was written by the host from its first byte on. Such a file
 * need not be opened either, as long as nothing but READ is asked of the handle: see early.h.
 *
 * The agent carries out one request after the other and answers in that order, so answers arrive in the order
 * of what they tell of. Each is learned from in its turn: what it tells is kept, what it has changed is
 * dropped. A request on its way is not waited for: until it is answered, the time before it and the time after
 * it are equally true.
 *
 * Nothing survives the lease but `owed`: the kernel counts the lookups that it was given, and so do the agent
 * and the tables in fs/. A lookup that was answered here is one that the agent does not know of, so as many
 * are taken off what it is later told to forget. A node that it was told to forget is looked up again.
 *
 * - A directory is `complete` if all its names are known: one that was made during the lease.
 * - What a name stood for gets other attributes when it is removed. If that is not known, all attributes are
 *   dropped.
 * - What a guest says unasked makes nothing be kept: attributes are those of a node that a request was about, a
 *   content that of the file that was opened last. So it is the host's requests that take memory. Of that there is
 *   so much for each sandbox, and so much for all of them. What does not fit into the former makes room by dropping
 *   all; what does not fit into the latter is not kept.
 * - Nodes with `owed` can't be dropped. They may take half of the room: then the agent is asked, which counts the
 *   lookups itself.
 * - The guest's word is as good here as in any other answer: a lease that is not true shows its own user old
 *   files of his own sandbox.
 */

#define KNOWN_BYTES	(4u << 20)  /* that are kept of one sandbox, some 15,000 files */
#define KNOWN_BYTES_ALL (64u << 20) /* and of all of them */
#define KNOWN_CONTENTS	4096u	    /* files whose contents are kept */
#define KNOWN_OWED	128u	    /* parts, in which nodes with `owed` are: a power of two */

/* See known_internal.h. */
RB_HEAD(known_nodes, known_node);
TAILQ_HEAD(known_owing, known_node);
RB_HEAD(known_names, known_name);
TAILQ_HEAD(known_contents, known_content);

/* Some of the nodes with `owed`. */
struct known_owed {
	struct known_owing nodes;
	bool changed; /* since known_owed_written() */
};

/*
 * - Embedded by its owner, zeroed and then known_init().
 * - While it is not `leased`, there are only nodes with `owed`.
 */
struct known {
	bool leased;
	struct known_nodes nodes;
	struct known_names names;
	struct known_owed owed[KNOWN_OWED];
	struct known_contents contents; /* oldest first */
	size_t n, nowed, ncontents;	/* names and nodes; nodes with `owed`; contents */
	size_t bytes;			/* all that takes */
	size_t content_bytes;		/* what contents take of it: at most half of the room */
	struct {
		uint64_t handle, node;
	} opened; /* last */
};

/* A request whose answer is to be learned from. */
struct known_question {
	enum vm_file_op op;
	uint64_t node, newparent, handle;
	uint32_t flags, valid;
	const char *name, *newname; /* owned by who asks, until the answer */
	const void *data;	    /* likewise; WRITE, if known_wants() it */
	size_t size;
	uint64_t offset;
};

void known_init(struct known *k);
void known_fini(struct known *k);

/* A lease begins, or is over. */
void known_begin(struct known *k);
void known_end(struct known *k);

/**
 * known_answer() - Answer a request without sending it
 * @k: What is known
 * @req: Request
 * @ret_err: 0 or -errno
 * @ret_reply: If that is 0: the answer; its data is valid until the next call
 *
 * Return: false if it has to be sent.
 */
bool known_answer(struct known *k, const struct vm_file *req, int *ret_err,
		  struct vm_file_reply *ret_reply);

/* Would opening a file for reading succeed, and all reads be answered from what is known? */
bool known_may_open(const struct known *k, uint64_t node);

/* A READ was answered from what is known. Return: it sets the time of the last access, and the agent has to be told. */
bool known_was_read(struct known *k, uint64_t id);

/* Is it of use to keep what this WRITE writes until it is answered? */
bool known_wants(const struct known *k, const struct vm_file *req);

/* How many of the bytes that a READ asks for there may be; UINT64_MAX if the size is not known. */
uint64_t known_rest(const struct known *k, uint64_t node, uint64_t offset);

/**
 * known_learn() - An answer has come
 * @k: What is known
 * @q: Its question
 * @err: 0 or -errno
 * @reply: If that is 0: the answer
 */
void known_learn(struct known *k, const struct known_question *q, int err,
		 const struct vm_file_reply *reply);

/* The attributes of @node are now these. Ignored if the node is not known: no request was about it. */
void known_attr(struct known *k, uint64_t node, const struct vm_attr *attr);
/* All that the file of @handle holds. Ignored if the handle, of a file that was just opened, is not known. */
void known_content(struct known *k, uint64_t handle, const void *bytes, size_t size);

/* @n lookups of node @id are forgotten. Return: how many of them the agent knows of. */
uint64_t known_forget(struct known *k, uint64_t id, uint64_t n);
/* What is owed, for a successor, of the parts from 0 to KNOWN_OWED - 1: it may be much, of which a request changes little. */
void known_each_owed(const struct known *k, unsigned part,
		     void (*fn)(void *data, uint64_t node, uint64_t lookups), void *data);
bool known_owed_changed(const struct known *k, unsigned part);
void known_owed_written(struct known *k, unsigned part);
/* And in one that has nothing else: so much is. Return: 0, -EBADMSG for one node too many or twice, -ENOMEM. And: nothing is,
 * for the agent was told what the host holds. */
int known_owe(struct known *k, uint64_t id, uint64_t lookups);
void known_owe_nothing(struct known *k);
/* A handle is closed. */
void known_release(struct known *k, uint64_t handle);

#endif
