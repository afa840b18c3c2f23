/* SPDX-License-Identifier: Apache-2.0 */
/* --takeover: this program is to serve a mount that is there. */
#ifndef XSBX_FS_TAKEOVER_H
#define XSBX_FS_TAKEOVER_H

#define TAKEOVER_PATIENCE_S 60u /* the spawner gives up earlier */

struct conf;

/* Asks for it, and says what became of it. The mount itself is not touched: it may not answer. @patience_s: for one step of the spawner's,
 * which has limits of its own. Return: exit status. */
int takeover(const struct conf *conf, unsigned patience_s);

#endif
