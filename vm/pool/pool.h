/* SPDX-License-Identifier: Apache-2.0 */
/* Idle clones that wait for somebody to need them, and everything else done in the background. */
#ifndef XSBX_VM_POOL_POOL_H
#define XSBX_VM_POOL_POOL_H

#include <stdbool.h>

#include "vm/vm.h"

struct template;

/* A clone of @t for a sandbox that is wanted, not in the pool any more; NULL if there is none. */
struct sandbox *pool_take(struct template *t);

/* Closes all clones of @t. */
void pool_empty(struct template *t);

/* Somebody waits for a place: closes one of those nobody has asked for. Return: whether there was
 * one, or one is still on its way out. */
bool pool_yield(struct vm *vm);

/* Something is to be done in the background now or soon. */
void pool_wake(struct vm *vm);

/* Idle clones and machines being copied; they have places in the admission. */
unsigned pool_places(const struct vm *vm);

#endif
