/* SPDX-License-Identifier: Apache-2.0 */
/* The making of a template's snapshot. */
#ifndef XSBX_VM_POOL_RECORD_H
#define XSBX_VM_POOL_RECORD_H

#include "template.h"

/* Boots a guest to be saved, for a template in state NONE without a builder. Called in the
 * background. Return: did it? */
bool record_start(struct template *t);

#endif
