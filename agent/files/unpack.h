/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces what is in the working directory by the content of a pack, which the host sends as
 * UNPACK frames. */
#ifndef XSBX_AGENT_FILES_UNPACK_H
#define XSBX_AGENT_FILES_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clear.h"
#include "walk.h"
#include "agent/pack_record.h"

struct conn;
struct files;

/* A file of which more names may come: where its first one is. */
struct unpack_file {
	uint32_t entry;
	char *path; /* its directories, from the working directory on, and its name, a NUL behind each; then another NUL */
};

enum unpack_state {
	UNPACK_NONE,
	UNPACK_CLEAR, /* what was there is being removed */
	UNPACK_FILL,
};

struct unpacker {
	struct files *files;
	struct conn *conn;
	enum unpack_state state;
	uint32_t id; /* of UNPACK */
	/* Bytes received and not used yet. */
	uint8_t *buf;
	size_t first, end;
	size_t granted; /* that may still come */
	size_t used;	/* since the last grant */
	bool last;	/* all have come */
	bool starved;	/* there is no whole record in `buf` */
	struct clear clear;
	struct walk walk; /* whose directories' `st` is what they are to be */
	bool root_done;
	uint32_t entries;
	enum pack_kind kind;	    /* of the last one */
	struct unpack_file *shared; /* in the order of `entry` */
	size_t nshared, shared_cap;
	/* The file that is being written. */
	int fd;			       /* or -1 */
	char name[PROTO_NAME_MAX + 1]; /* of it, or of the last entry */
	struct stat st;		       /* as it is to be */
};

/** unpacker_init() - Prepare. @u: zeroed */
void unpacker_init(struct unpacker *u, struct files *files, struct conn *conn);

/** unpacker_start() - UNPACK @id has come, the first one. One that was under way is given up. */
void unpacker_start(struct unpacker *u, uint32_t id);

/**
 * unpacker_data() - UNPACK has come with data
 * @u: Unpacker
 * @id: Of the frame; one that is not under way is ignored
 * @data: Bytes
 * @last: There are no more
 *
 * Return: 0, or -EPROTO if that was more than had been granted.
 */
int unpacker_data(struct unpacker *u, uint32_t id, struct proto_str data, bool last);

/** unpacker_advance() - Go on for a moment. */
void unpacker_advance(struct unpacker *u);

/** unpacker_can() - Could it go on at once? */
bool unpacker_can(const struct unpacker *u);

/** unpacker_stop() - Give up, without an answer; what is there by then stays. */
void unpacker_stop(struct unpacker *u);

#endif
