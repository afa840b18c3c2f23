/* SPDX-License-Identifier: Apache-2.0 */
/* Installing packages that sandboxes ask for, into layers. */
#ifndef XSBX_VM_BUILD_PACKAGE_JOB_H
#define XSBX_VM_BUILD_PACKAGE_JOB_H

#include <stdbool.h>
#include <sys/queue.h>

#include "vm/image/layer.h"
#include "vm/pool/template.h"
#include "vm/spawn/program.h"
#include "vm/base/words.h"

struct vm;

#define INSTALL_TURNS 64u /* users that are known to have had one */

/* What is being done for a layer. The order is that of the work. */
enum install_step {
	INSTALL_QUEUED,
	INSTALL_FETCH,	 /* the store is asked for it */
	INSTALL_BEGIN,	 /* its directory is made and locked */
	INSTALL_PREPARE, /* the host is asked for registries, and for the image's programs */
	INSTALL_RUN,	 /* the installer works, in a sandbox */
	INSTALL_PACK,	 /* a file system is made of what it left */
	INSTALL_PUBLISH, /* the layer gets its name */
	INSTALL_ABANDON, /* what there is of it is removed */
	INSTALL_FAILED,
	INSTALL_NSTEPS,
};

/* Somebody wants to know what there is. */
struct install_ask {
	struct install_ask *next; /* wants to know the same */
	uid_t owner;
	vm_offer_fn fn;
	void *data;
	char words[4096]; /* of the first: what was found so far, */
	bool cut;	  /* ... which is not all of it */
};

/* A layer that was missing when somebody asked. Forgotten when it is there. */
struct install {
	TAILQ_ENTRY(install) link;
	enum install_step step;
	char key[DIGEST_HEX];
	struct layer_need need;	 /* its strings are owned */
	char line[160];		 /* the last one that was said */
	struct install_ask *ask; /* only what would be installed is asked for; owned */
	bool prepared;		 /* a template wants it that is to be ready before it is used */
	uint64_t started_at, ended_at;
	struct problem problem; /* how it failed */
};

/* Looks at the directory in which something is installed; see package_watch.c. */
struct install_watch {
	uv_timer_t timer; /* `there` if it was made; runs until the next look */
	uv_work_t work;
	bool there, on, looking;
	/* Of the look that goes on, or was the last: */
	char key[DIGEST_HEX];
	const char *dir;
	uint64_t limit;
	int result;
	uint64_t bytes;
};

/*
 * - At most one install is `current`; `prepare`, `words`, `builder` and `work` are its own.
 * - `lock` is open while there is a directory of it.
 * - `waiters` has the sandboxes in PHASE_PACKAGES.
 */
struct installer {
	struct vm *vm;
	struct vm_packages cfg; /* its strings are owned */
	char *script;		/* what runs in the sandbox; NULL: it can't be read */
	char *source; /* registries and mirror, as far as they are part of a layer's key */
	TAILQ_HEAD(installs, install) installs;
	struct install *current;
	struct sandbox_list waiters;
	uid_t served[INSTALL_TURNS]; /* whose turns there were: each once, the last one first */
	unsigned nserved;

	int lock;
	bool fetched; /* it came from the store */
	bool damaged; /* what the store has of it is of no use */
	uv_work_t work;
	int result; /* of the work */
	bool full;  /* ... is that of layer_room() */
	uint64_t bytes;

	struct program prepare;
	struct words words; /* of `prepare`, and of what runs in sandboxes */
	struct sandbox *builder;
	struct install_watch watch; /* `on` only while there is a `builder` */
	bool sent, done;	    /* its run was handed over; it has ended well */
	struct problem why;	    /* if not */

	struct vm_install view; /* what `builder` sees */
	char index[512];  /* what `prepare` found: the registry, "" for the installer's default; */
	char hosts[1024]; /* what has to be reached, an allow list */
};

/* Return: 0 or -ENOMEM. */
int installer_init(struct installer *in, struct vm *vm, const struct vm_packages *cfg);
void installer_fini(struct installer *in);

/**
 * installer_need() - What a sandbox's packages mean on this host
 * @in: Installer
 * @ops: Where the sandbox runs
 * @image_view: As a process that sees its image's programs
 * @image: Its image
 * @language: Its language
 * @packages: Canonical text, not empty
 * @ret_need: Result; its strings are the arguments'
 */
void installer_need(const struct installer *in, const struct backend_ops *ops, bool image_view,
		    const char *image, const char *language, const char *packages,
		    struct layer_need *ret_need);

/**
 * installer_layer() - The layer of a sandbox's packages, if it is there
 * @in: Installer
 * @need: From installer_need()
 *
 * Return: to be given back by layer_put(), or NULL.
 */
struct layer *installer_layer(struct installer *in, const struct layer_need *need);

/**
 * installer_ask() - Have a layer made that is missing
 * @in: Installer
 * @need: From installer_need()
 * @s: Waits for it: sandbox_begin() or sandbox_fail() follows. Or NULL: it is for a template that is to be
 *     ready before it is used; then what has failed not long ago is not tried again
 * @ret_problem: Why it can't be made
 *
 * Return: 0 if it is being made or waits for its turn, or -errno.
 */
int installer_ask(struct installer *in, const struct layer_need *need, struct sandbox *s,
		  struct problem *ret_problem);

/* It does not wait any more, if it did. */
void installer_leave(struct installer *in, struct sandbox *s);
void installer_overdue(struct sandbox *s);

/* What a sandbox waits for, in words. */
void installer_explain(const struct sandbox *s, struct problem *p);

/* At the end: kills what runs. Sandboxes end by themselves. */
void installer_cut(struct installer *in);

#endif
