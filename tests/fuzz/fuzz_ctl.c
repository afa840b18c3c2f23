/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of `ctl`. */
/* modules: fs/tree/ctl.c vm/base/problem.c */
#include <assert.h>
#include <errno.h>

#include "fs/tree/ctl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const enum ctl_owner owner = size % 2 ? CTL_SESSION : CTL_JOB;
	struct ctl_order orders[CTL_VERBS_MAX];
	struct problem why = {.code = PROBLEM_NONE};
	size_t n = 0;
	int r = ctl_parse((const char *)data, size, owner, orders, &n, &why);

	assert(r == 0 || r == -EINVAL);
	assert(n <= CTL_VERBS_MAX);
	for (size_t i = 0; i < n; i++)
		assert(ctl_verb_str(orders[i].verb)[0] &&
		       (orders[i].verb == CTL_SIGNAL) == (orders[i].sig > 0));
	if (r < 0)
		assert(why.code && *why.cause && *why.fix);
	return 0;
}
