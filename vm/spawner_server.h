/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's own side of spawner.h: what its process does after the fork. */
#ifndef XSBX_SPAWNER_SERVER_H
#define XSBX_SPAWNER_SERVER_H

/**
 * spawner_serve() - Be the spawner
 * @sock: SEQPACKET socket to the daemon; every other descriptor is closed
 *
 * All signals are blocked when it is called. Serves until the other end is closed, cleans up, and exits.
 */
__attribute__((noreturn)) void spawner_serve(int sock);

#endif
