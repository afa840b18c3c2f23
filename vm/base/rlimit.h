/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this process, which whoever started it has set. */
#ifndef XSBX_VM_BASE_RLIMIT_H
#define XSBX_VM_BASE_RLIMIT_H

/* Permits as many open descriptors as the hard limit does. */
void rlimit_raise_files(void);

/* How many it may have. */
unsigned rlimit_files(void);

#endif
