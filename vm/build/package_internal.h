/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the installer share. */
#ifndef XSBX_VM_BUILD_PACKAGE_INTERNAL_H
#define XSBX_VM_BUILD_PACKAGE_INTERNAL_H

#include "package_job.h"
#include "vm/base/util.h"

#define INSTALL_MIRROR	  "/run/xsbx/mirror" /* where the offline mirror is seen */
#define INSTALL_MEMORY_MB 512u		     /* of its sandboxes */
#define INSTALL_CPUS	  2u

/* Does a sandbox wait for it? */
bool install_waits(const struct sandbox *s, const struct install *job);

/* Those who wait for it go on, or end with @problem. */
void install_release(struct installer *in, const struct install *job,
		     const struct problem *problem);

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

/* A copy, NULL for "". *@bad: set if there is no memory. */
char *install_copy(const char *text, bool *bad);

/* ---- package_queue.c ---- */

/* Return: the install of a layer, or NULL. */
struct install *install_find(const struct installer *in, const char *key);

/* A job for @need, at the end of the queue. Return: NULL for want of memory. */
struct install *install_new(struct installer *in, const char *key, const struct layer_need *need);
void install_forget(struct installer *in, struct install *job);

/* Somebody has ceased to wait for @key: forgets it if it has not begun, and nobody wants it. */
void install_unwanted(struct installer *in, const char *key);

/* Whose turn it is, and what is installed for him. Return: NULL if nothing is queued. */
struct install *install_choose(struct installer *in);

/* ---- package_wait.c ---- */

void installer_wait(struct installer *in, struct sandbox *s, const struct install *job);

/* ---- package_ask.c ---- */

/* What runs for an ask has said a line, which may be a part of the answer. */
void install_ask_line(struct install_ask *ask, const char *line);

/* Tells all who ask, and forgets them; @why: NULL if it went well. */
void install_ask_answer(struct install *job, const struct problem *why);

/* Begins with the next install, unless one is going on. */
void install_next(struct installer *in);

/* Starts `prepare`; installer_prepared() is the answer, or installer_give_up(). Return: 0 or -errno. */
int installer_prepare(struct installer *in);
void installer_prepared(struct installer *in);

/* Starts the sandbox of the current step; installer_ran() is the answer. Return: 0 or -errno. */
int installer_run(struct installer *in);
void installer_ran(struct installer *in, bool well);

/* ---- package_watch.c: while a sandbox works, closes it if it takes too much room ---- */

void installer_watch_start(struct installer *in);
void installer_watch_stop(struct installer *in);
/* Says why it ends: what layer_room() has found. */
void installer_explain_room(struct installer *in, int result, uint64_t bytes);
void installer_watch_close(struct installer *in); /* at the end of the machinery */

#endif
