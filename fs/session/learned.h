/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's sandboxes have used while they learnt, as a template: `learned.conf`. */
#ifndef XSBX_FS_SESSION_LEARNED_H
#define XSBX_FS_SESSION_LEARNED_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

struct session;

#define LEARNED_PATHS 2048u
#define LEARNED_BYTES (256u << 10)

/* Each text is the kind (enum proto_learned), and the path, as the sandbox sees it. Zeroed it is empty. */
struct learned {
	char **text; /* sorted */
	size_t n, cap, bytes;
	uint32_t processes;
	uint64_t memory_kib;
	struct timespec mtime;
};

/** learned_add() - A sandbox has used something. What there is no room for is left out. */
void learned_add(struct learned *l, const struct sandbox_learned *what);

/** learned_clear() - Forget all. */
void learned_clear(struct learned *l);

/** learned_is_there() - Is there anything to show? */
bool learned_is_there(const struct session *s);

/**
 * learned_write() - A section of the configuration under which that would have passed
 * @s: Session
 * @out: Where to
 *
 * Return: 0 or -errno.
 */
int learned_write(const struct session *s, struct buf *out);

#endif
