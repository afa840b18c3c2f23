/* SPDX-License-Identifier: Apache-2.0 */
/* CA certificates that a guest gets from its host. */
#ifndef XSBX_AGENT_GUEST_CA_H
#define XSBX_AGENT_GUEST_CA_H

#include <stddef.h>

/* Writes them to /run/xsbx/ca.pem, where only root may write. Return: 0 or -errno. */
int ca_write(const void *data, size_t len);

#endif
