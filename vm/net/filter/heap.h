/* SPDX-License-Identifier: Apache-2.0 */
/* What memory stays with this process. */
#ifndef XSBX_VM_NET_FILTER_HEAP_H
#define XSBX_VM_NET_FILTER_HEAP_H

/* To be called before anything is allocated. */
void heap_init(void);

/* So many connections are there now. When the last of a crowd has gone, what they have taken goes back to the kernel. */
void heap_tidy(unsigned connections);

#endif
