/* SPDX-License-Identifier: Apache-2.0 */
/* Into the background, while the parent waits for word of how the start went. */
#ifndef XSBX_FS_BACKGROUND_H
#define XSBX_FS_BACKGROUND_H

/* Forks. Return, in the child: the descriptor at whose other end the parent waits; the parent itself does
 * not return, and ends as the start has ended. */
int background(void);

/* The start went well: goes on without a terminal. All of these do nothing for @parent -1, which is the foreground. */
void background_ready(int parent);

/* It did not, as was said on standard error. */
void background_failed(int parent, const char *why);

#endif
