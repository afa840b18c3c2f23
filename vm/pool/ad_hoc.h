/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of sandboxes that are not as the configuration says: which of them have a snapshot. */
#ifndef XSBX_VM_POOL_AD_HOC_H
#define XSBX_VM_POOL_AD_HOC_H

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct template;

/** ad_hoc_is_rare() - Is a template used too rarely to be worth a snapshot at @now, in ms of the loop's clock? */
bool ad_hoc_is_rare(const struct template *t, uint64_t now);

/** ad_hoc_drop() - Drop the snapshot of the one unused for longest if too many have one. */
void ad_hoc_drop(struct pool *p);

#endif
