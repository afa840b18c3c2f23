/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of connections and ports: somebody who has a port of this machine. */
#ifndef XSBX_LISTENER_H
#define XSBX_LISTENER_H

#include <stdint.h>

/* Return: a socket that listens at *@port of 127.0.0.1, or, if that is 0, at one that was free, which is
 * then *@port; -1 if the port is taken. */
int listener_open(uint16_t *port);

#endif
