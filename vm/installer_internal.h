/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the installer share. */
#ifndef XSBX_INSTALLER_INTERNAL_H
#define XSBX_INSTALLER_INTERNAL_H

#include "installer.h"
#include "util.h"

#define INSTALL_MIRROR	  "/run/xsbx/mirror" /* where the offline mirror is seen */
#define INSTALL_MEMORY_MB 512u		     /* of its sandboxes */
#define INSTALL_CPUS	  2u

/* Return: the install of a layer, or NULL. */
struct install *install_find(const struct installer *in, const char *key);

/* Does a sandbox wait for it? */
bool install_waits(const struct sandbox *s, const struct install *job);

/* Those who wait for it go on, or end with @problem. */
void install_release(struct installer *in, const struct install *job,
		     const struct vm_problem *problem);

/* Ends the current install; what there is of it is removed. @fmt makes the cause. */
void installer_give_up(struct installer *in, const char *fix, const char *fmt, ...)
	printf_like(3, 4);

/* Keeps a fact that `prepare` has found. Return: false if the line is none, but words. */
bool installer_fact(struct installer *in, const char *line);

/* Asks the store, if there is one; installer_fetched() is the answer. Return: whether it will come. */
bool installer_fetch(struct installer *in);
void installer_fetched(struct installer *in);

/* Offers the layer that is done to the store. */
void installer_offer(struct installer *in);

/* ---- installer_ask.c ---- */

/* What runs for an ask has said a line, which may be a part of the answer. */
void install_ask_line(struct install_ask *ask, const char *line);

/* Tells all who ask, and forgets them; @why: NULL if it went well. */
void install_ask_answer(struct install *job, const struct vm_problem *why);

/* A job for @need, at the end of the queue. Return: NULL for want of memory. */
struct install *install_new(struct installer *in, const char *key, const struct layer_need *need);

/* Begins with the next install, unless one is going on. */
void install_next(struct installer *in);

/* Starts `prepare`; installer_prepared() is the answer, or installer_give_up(). Return: 0 or -errno. */
int installer_prepare(struct installer *in);
void installer_prepared(struct installer *in);

/* Starts the sandbox of the current step; installer_ran() is the answer. Return: 0 or -errno. */
int installer_run(struct installer *in);
void installer_ran(struct installer *in, bool well);

#endif
