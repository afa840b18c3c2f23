/* SPDX-License-Identifier: Apache-2.0 */
/* CA certificates that a guest gets from its host. */
#ifndef XSBX_AGENT_GUEST_CA_H
#define XSBX_AGENT_GUEST_CA_H

#include <stdbool.h>
#include <stddef.h>

/**
 * ca_write() - Replace the certificates in /run/xsbx/ca.pem
 * @data: In PEM format
 * @len: Length in bytes
 * @guest: This is a machine: the file is made, and laid over the one of Debian's programs, if there is one. Else there is a
 *	directory for it, or nothing is done
 *
 * Only root may write there. In a jail it is in /run/xsbx/ca, to which that name leads, as is what covers the one of Debian's programs
 * (JAIL_COPY). Return: 0 or -errno.
 */
int ca_write(const void *data, size_t len, bool guest);

#endif
