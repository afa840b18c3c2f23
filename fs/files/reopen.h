/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: files that are open for reading when the session wakes. */
#ifndef XSBX_FS_FILES_REOPEN_H
#define XSBX_FS_FILES_REOPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/vm.h"

struct handle;
struct lock_ask;
struct node;
struct req;
struct session;
struct vm_file;

/* Asks for a lock, as files_lock(). */
typedef void (*reopen_lock_fn)(const struct node *n, struct handle *h, struct req *req,
			       const struct lock_ask *ask, enum vm_file_op op, bool wait);

/* The sandbox is READY that began from what was saved: opens there what is open. Return: whether that takes time; then
 * binding_ready() is called when it is done. */
bool reopen_begin(struct session *s);
/* The session is ready: what is open there is the sandbox's, and all else that was open is ESTALE. Who waits for a lock asks
 * by @lock. */
void reopen_end(struct session *s, reopen_lock_fn lock);
/* The sandbox is gone. */
void reopen_drop(struct session *s);

/* Return: the next uv_now() at which to call it again, or UINT64_MAX. */
uint64_t reopen_tick(struct session *s, uint64_t now);

/* Does such a request wait meanwhile, though it could be answered from what was saved? */
bool reopen_holds(const struct session *s, const struct vm_file *rq);

#endif
