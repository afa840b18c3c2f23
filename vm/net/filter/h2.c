/* SPDX-License-Identifier: Apache-2.0 */
#include "h2.h"
#include <errno.h>
int h2_new(struct proxy *p, struct h2 **ret_h2) { (void)p; *ret_h2 = NULL; return -ENOTSUP; }
void h2_free(struct h2 *h) { (void)h; }
size_t h2_take(struct h2 *h, enum side s, const void *bytes, size_t len) { (void)h; (void)s; (void)bytes; return len; }
void h2_ended(struct h2 *h, enum side s, bool cut) { (void)h; (void)s; (void)cut; }
void h2_unreachable(struct h2 *h) { (void)h; }
void h2_recheck(struct h2 *h) { (void)h; }
