/* SPDX-License-Identifier: Apache-2.0 */
/* One daemon after another behind a live mount: how the one that serves and its heir agree. */
#ifndef XSBX_FS_SUCCESSION_H
#define XSBX_FS_SUCCESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "vm/base/digest.h"

struct bequest;
struct devfuse;
struct estate;
struct fdbag;
struct fs;
struct keeper;
struct problem;
struct record;
struct spawner;
struct survival;

/*
 * Theory of operation
 * -------------------
 * `xsbxfs --takeover` asks the spawner for an heir (vm/spawn/heir.h): another daemon, mostly of a newer version. It starts as
 * any daemon does: reads the configuration, makes what it needs, gives up its rights. Then it says that it is ready to load,
 * over a socket between the two; until then nothing has changed for anybody.
 *
 * The daemon then waits for its own writes to state_dir, ten seconds at most, and serves meanwhile. Then it reads no more of the
 * kernel's requests, and waits until the spawner has heard what it was asked for; a second at most. What agents have been asked
 * for is written down with all else: in its estate, or without `survive` in one that is made for that. It tells the spawner that
 * it stands still, sends the estate to its heir, with the descriptors that it speaks of, and waits for the spawner. It is not asked
 * again, unless it comes to nothing; then it goes on in the same line, with the same estate.
 *
 * The heir copies the estate, as if the daemon had died, and reads it (bequest.h); but what it can't read it refuses. With
 * `survive` the copy is what it leaves itself from then on, with a holder of its own. It says to the spawner that it can serve;
 * with the answer it is the daemon. It handles the requests that were not answered, and reads new ones, which the kernel has kept
 * meanwhile. Readers who wait, wait on.
 */
struct succession {
	uv_loop_t *loop;
	struct fs *fs;
	struct devfuse *fuse;
	struct spawner *spawner;
	struct keeper *keeper; /* or NULL */
	struct survival *survival;

	uint64_t began, size; /* of succession_receive(): log_now(); bytes */
	bool ending; /* the end has begun, and goes on in whoever follows; with this exit status: */
	uint8_t status;
	bool revives; /* the daemon before has died, and this goes by its configuration */
	char permitted[DIGEST_HEX]; /* what the spawner was forked with: policy_sum() */

	int heir; /* socket to it, or -1 */
	uv_poll_t poll;
	uv_timer_t again;
	bool attached;	/* the timer is in the loop */
	bool paused;	/* the kernel's requests are not read */
	bool closing;	/* the poll handle is not free yet */
	uint64_t until; /* uv_now() until which it waits for a quiet moment */
};

/* In a daemon that serves: there may be an heir from now on. */
void succession_await(struct succession *s);

/* Puts the record HANDOVER_PROCESS: what the process has, and not the mount. Return: 0 or -errno. */
int succession_put_process(const struct succession *s, struct estate *e, struct fdbag *fds);

/* In an heir, for each record of whatever kind. Return: 0, -errno, perhaps with a reason. */
int succession_get(struct succession *s, const struct record *rec, struct fdbag *fds,
		   struct problem *why);

/* The mount ends. */
void succession_close(struct succession *s);

/**
 * succession_receive() - In an heir: get all there is from the daemon before
 * @s: With all that is needed of a daemon that is about to serve
 * @b: Is to be read then, with no holder
 * @ret_why: Why it can't
 * @why_size: Its size
 *
 * It waits, and so it is called outside of the loop, by a process that has given up its rights.
 *
 * Return: 0; or -errno: there is another daemon still, and this process is to end, without touching anything.
 */
int succession_receive(struct succession *s, struct bequest *b, char *ret_why, size_t why_size);

/* It has all that: it is the daemon when this returns. Return: likewise. */
int succession_ready(struct succession *s, char *ret_why, size_t why_size);

#endif
