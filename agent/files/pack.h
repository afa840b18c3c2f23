/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all of the working directory for the host, as PACKED frames. */
#ifndef XSBX_AGENT_FILES_PACK_H
#define XSBX_AGENT_FILES_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "inodes.h"
#include "walk.h"
#include "agent/pack_record.h"

struct conn;
struct files;
struct frame;

struct packer {
	struct files *files;
	struct conn *conn;
	bool active;
	uint32_t id;	/* of PACK */
	uint64_t bytes; /* that may still come */
	uint32_t entries_max, entries;
	unsigned with;	   /* PROTO_F_NUMBERS, PROTO_F_ORIGINS: what is asked for beside */
	uint32_t changed;  /* files and directories that were changed while they were read */
	uint32_t left_out; /* sockets, FIFOs, devices, what is mounted, extended attributes */
	struct walk walk;
	struct walk_list list;
	struct frame *frame; /* being filled, or NULL */
	struct inodes seen;  /* files that have more than one name, and their entries */
	/* The file that is being read. */
	int fd; /* or -1 */
	bool sparse;
	char name[PROTO_NAME_MAX + 1];
	struct stat st;
	uint64_t at;
};

/** packer_init() - Prepare. @p: zeroed */
void packer_init(struct packer *p, struct files *files, struct conn *conn);

/**
 * packer_start() - PACK was received
 * @p: Packer
 * @id: Of the frame
 * @bytes: Most bytes of files
 * @entries: Most entries
 * @with: PROTO_F_NUMBERS, PROTO_F_ORIGINS: with records of these
 *
 * One that was under way is given up.
 */
void packer_start(struct packer *p, uint32_t id, uint64_t bytes, uint32_t entries, unsigned with);

/** packer_advance() - Go on for a moment. */
void packer_advance(struct packer *p);

/** packer_can() - Could it go on at once? Not while it waits for room in the connection. */
bool packer_can(const struct packer *p);

/** packer_stop() - Give up, without an answer. */
void packer_stop(struct packer *p);

#endif
