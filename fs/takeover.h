/* SPDX-License-Identifier: Apache-2.0 */
/* --takeover: this program is to serve a mount that is there. */
#ifndef XSBX_FS_TAKEOVER_H
#define XSBX_FS_TAKEOVER_H

struct conf;

/* Asks for it, and says what became of it. The mount itself is not touched: it may not answer. Return: exit status. */
int takeover(const struct conf *conf);

#endif
