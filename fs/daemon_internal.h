/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's files share. Each calls those before it: daemon_end, daemon_setup, daemon_heir, daemon. */
#ifndef XSBX_FS_DAEMON_INTERNAL_H
#define XSBX_FS_DAEMON_INTERNAL_H

#include "daemon.h"

/* ---- the end ---- */

/* It can't start: says why, and leaves nothing behind. */
__attribute__((noreturn)) void daemon_die(struct daemon *d, const char *why);

/* The end begins. Once is enough. */
void daemon_stop(struct daemon *d, const char *why);

/* An end that nobody asked for: the exit status says so. */
void daemon_fail(struct daemon *d, const char *why);

/* Of these it ends. */
void daemon_on_spawner_died(void *data);
void daemon_on_signal(uv_signal_t *handle, int signum);
void daemon_on_prefetched(void *data, bool failed);
void daemon_on_unmounted(void *data, int err, const char *why);

/* ---- the start: each dies if it can't ---- */

void daemon_prepare_fuse(struct daemon *d);

/* What is kept is opened: not before there is the spawner, which must not have the lock; nor behind the mount, for this may be refused, or
 * wait. */
void daemon_open_store(struct daemon *d);

/* What sandboxes may have of the host. */
void daemon_find_rules(struct daemon *d);

/* What those go by who may have to go on. Return: that, or -1: nobody will. */
int daemon_seal(struct daemon *d);

void daemon_prepare_survival(struct daemon *d);

/* If it dies, another one is to go on. */
void daemon_survive(struct daemon *d);

/* The loop, and what runs on it; from here on it is confined. */
void daemon_start_loop(struct daemon *d);

/* All of it in an heir, up to where it serves. */
void daemon_inherit(struct daemon *d);

#endif
