/* SPDX-License-Identifier: Apache-2.0 */
/* Where the records of the mount go: each to its place in an estate. */
#ifndef XSBX_FS_HANDOVER_SINK_H
#define XSBX_FS_HANDOVER_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/fdbag.h"

struct estate;

struct handover_sink {
	struct estate *estate;
	struct fdbag *fds; /* descriptors that the records speak of */
	struct buf fields; /* of the one that is being written */
	struct buf aside;  /* of one that is written while that is */
	bool compares;	   /* nothing is written, nor noted as written: estate_compare_begin() */
	bool all;  /* also of what was written before, and what is not goes: estate_sweep_begin() */
	bool anew; /* there is nothing in it yet: what is noted as written is in another one */
};

/* To be ended by sink_fini(). */
void sink_to_estate(struct handover_sink *sink, struct estate *e, struct fdbag *fds);
void sink_fini(struct handover_sink *sink);

/* Return: where the fields of a record go, which ends with the next sink_end(). */
struct buf *sink_begin(struct handover_sink *sink);
/* Likewise of one that is written before the one that is begun already. */
struct buf *sink_begin_aside(struct handover_sink *sink);
int sink_end_aside(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub);
/* There is none of this name, or of this key. */
int sink_drop(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub);
void sink_drop_all(struct handover_sink *sink, uint32_t kind, uint64_t key);

/* It is there now. @sub: see vm/base/estate.h. Return: 0, -ENOMEM, -EFBIG, -errno. */
int sink_end(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub);

#endif
