/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU. */
#include <errno.h>
#include "backend.h"
static int start(struct vm *vm, const struct backend_spec *spec,
		       const struct backend_events *events, void *data,
		       struct backend **ret_backend, int *ret_stream, struct vm_problem *ret_problem)
{ (void)vm;(void)spec;(void)events;(void)data;(void)ret_backend;(void)ret_stream;(void)ret_problem; return -ENOSYS; }
const struct backend_ops backend_qemu = {.name="microvm", .needs_image=true, .start=start};
