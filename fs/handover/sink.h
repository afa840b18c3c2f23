/* SPDX-License-Identifier: Apache-2.0 */
/* Where the records of the mount go: one behind another, for an heir that waits for them, or each to its place in an estate. */
#ifndef XSBX_FS_HANDOVER_SINK_H
#define XSBX_FS_HANDOVER_SINK_H

#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/fdbag.h"

struct estate;

/* So that what writes a record does not know which of the two it is. */
struct handover_sink {
	struct buf *stream;    /* NULL: it is the estate */
	struct estate *estate; /* NULL: it is the stream */
	struct fdbag *fds;     /* descriptors that the records speak of */
	struct buf fields;     /* of the one that is being written */
};

/* To be ended by sink_fini(). */
void sink_to_stream(struct handover_sink *sink, struct buf *out, struct fdbag *fds);
void sink_to_estate(struct handover_sink *sink, struct estate *e, struct fdbag *fds);
void sink_fini(struct handover_sink *sink);

/* Return: where the fields of a record go, which ends with the next sink_end(). */
struct buf *sink_begin(struct handover_sink *sink);

/* It is there now. @sub: see vm/base/estate.h; a stream has none. Return: 0, -ENOMEM, -EFBIG, -errno. */
int sink_end(struct handover_sink *sink, uint32_t kind, uint64_t key, uint64_t sub);

#endif
