/* SPDX-License-Identifier: Apache-2.0 */
/* What of a guest's files another daemon has to know: handles, lookups that the agent does not know
 * of, calls on their way. */
#ifndef XSBX_VM_GUEST_FILES_RECORD_H
#define XSBX_VM_GUEST_FILES_RECORD_H

#include <stdbool.h>

#include "vm/base/record.h"

struct guest_files;

/* Is no request on its way, nor a lock waited for? */
bool guest_files_settled(const struct guest_files *gf);

void guest_files_put(const struct guest_files *gf, struct buf *out);

/* Into one that was initialized. Return: 0, -EBADMSG or -ENOMEM. */
int guest_files_take(struct guest_files *gf, struct record_reader r);

#endif
