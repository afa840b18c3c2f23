/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to run sandboxes in. */
#include "backend.h"

const struct backend_ops *backends_ops(const struct backends *all, enum vm_backend backend)
{
	return backend == VM_PROCESS ? &backend_process : all->machine;
}
