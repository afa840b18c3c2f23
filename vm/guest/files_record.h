/* SPDX-License-Identifier: Apache-2.0 */
/* What of a guest's files another daemon has to know: handles, lookups that the agent does not know
 * of, calls on their way. */
#ifndef XSBX_VM_GUEST_FILES_RECORD_H
#define XSBX_VM_GUEST_FILES_RECORD_H

#include <stdbool.h>

#include "vm/base/record.h"

struct estate;
struct guest_files;

/* Is no request on its way, nor a lock waited for? */
bool guest_files_settled(const struct guest_files *gf);

/* @e: where records of their own go, with this key, see channel_estate(); or NULL */
void guest_files_put(struct guest_files *gf, struct buf *out, struct estate *e, uint64_t key);

/* These are not needed any more. */
void guest_files_unwrite(struct guest_files *gf);

/* Into one that was initialized. @left: where those are, or NULL. Return: 0, -EBADMSG or -ENOMEM. */
int guest_files_take(struct guest_files *gf, struct record_reader r, const struct estate *left);

#endif
