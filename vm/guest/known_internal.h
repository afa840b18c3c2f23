/* SPDX-License-Identifier: Apache-2.0 */
/* Private to known.c and known_table.c: what is kept, in the room that there is for it. See known.h. */
#ifndef XSBX_VM_GUEST_KNOWN_INTERNAL_H
#define XSBX_VM_GUEST_KNOWN_INTERNAL_H

#include "known.h"

struct known_node {
	RB_ENTRY(known_node) link;
	uint64_t id;
	uint64_t owed; /* lookups that the agent does not know of */
	TAILQ_ENTRY(known_node) owed_link;
	bool has_attr, complete;
	bool forgotten; /* the agent was told to forget lookups: it may not know this number any more */
	bool told_read; /* the agent was told that it was read, and its times are still those from before */
	bool own;      /* made by the host during the lease: it belongs to the sandbox's user */
	bool readable; /* was opened for reading, and nobody has changed its mode since */
	struct known_content *content; /* or NULL */
	struct vm_attr attr;
};

struct known_name {
	RB_ENTRY(known_name) link;
	uint64_t dir, node; /* node 0: there is no such name */
	const char *text;
};

/* All that a file holds. */
struct known_content {
	TAILQ_ENTRY(known_content) link;
	struct known_node *node;
	size_t size;
	uint8_t bytes[];
};

/* Drops all but what is owed. */
void known_drop_all(struct known *k);

/* ---- nodes ---- */

struct known_node *known_node_find(const struct known *k, uint64_t id);
/* Likewise, and makes it. Return: NULL if it can't be kept. */
struct known_node *known_node_get(struct known *k, uint64_t id);
/* The kernel is given a lookup of it that the agent does not know of. Return: false if there are too many such nodes. */
bool known_node_owe(struct known *k, struct known_node *node);

/* Its attributes are these; are not known any more; or not, because it was read, if that changes them. */
void known_attr_set(struct known *k, uint64_t id, const struct vm_attr *attr);
void known_attr_drop(struct known *k, uint64_t id);
void known_attr_was_read(struct known *k, uint64_t id);
/* What has a name, if anything does, gets other attributes. */
void known_attr_drop_at(struct known *k, uint64_t dir, const char *text);

/* ---- names ---- */

enum known_name_state { KNOWN_NAME_UNKNOWN, KNOWN_NAME_ABSENT, KNOWN_NAME_THERE };

enum known_name_state known_name_look(const struct known *k, uint64_t dir, const char *text,
				      uint64_t *ret_node);
/* Keeps what a name stands for; 0: nothing. */
void known_name_set(struct known *k, uint64_t dir, const char *text, uint64_t node);
/* It is not known any more what a name stands for. */
void known_name_drop(struct known *k, uint64_t dir, const char *text);

/* ---- contents ---- */

/* Return: NULL if it is not known. */
struct known_content *known_content_of(const struct known *k, uint64_t id);
/* It holds this, behind what it held if that is @before. */
void known_content_set(struct known *k, struct known_node *node, struct known_content *before,
		       const void *bytes, size_t size);
/* @c: or NULL */
void known_content_free(struct known *k, struct known_content *c);

#endif
