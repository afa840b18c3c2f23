/* SPDX-License-Identifier: Apache-2.0 */
/* The way into the background: who has started the program waits until its mount is there, or is
 * told why not. */
#ifndef XSBX_FS_BACKGROUND_H
#define XSBX_FS_BACKGROUND_H

/* Forks. Return, in the child: a pipe on whose other end the parent waits. The parent does not
 * return; it exits with the result of the start. */
int background_enter(void);

/* These do nothing for @parent -1, which is the foreground. */

/* The mount is there: a session of its own. Not before, for autofs, which may have us mount, knows by the process group whom it must
 * not have wait for that. */
void background_mounted(int parent);

/* The start went well: goes on without a terminal. */
void background_ready(int parent);
/* The start has failed, as reported on standard error. */
void background_failed(int parent, const char *why);

#endif
