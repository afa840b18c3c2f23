/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as a whole: what every part of fs/ can reach. */
#ifndef XSBX_FS_MOUNT_H
#define XSBX_FS_MOUNT_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <uv.h>

#include "fs/session/complaint.h"
#include "fs/config/daemon.h"
#include "fs/session/depot.h"
#include "fs/session/events.h"
#include "fs/session/fetch.h"
#include "fs/request/handle.h"
#include "fs/request/nodelock.h"
#include "fs/session/netenv.h"
#include "fs/session/owner.h"

#define FS_SESSIONS_MAX 8192u
#define FS_IO_MAX	(1u << 20) /* most bytes of one READ or WRITE */

struct session;
struct vm;

/* Counters since the mount, for `metrics`. */
struct fs_stats {
	uint64_t sessions_created, sessions_closed;
	uint64_t runs[16]; /* by enum run_state, on reaching it */
	uint64_t output_bytes;
	uint64_t denied; /* by networks */
	uint64_t requests;
};

/*
 * - One per process, lives from before the mount until after the last handle is closed.
 * - A slot holds a session or NULL; slot_gen[i] grows each time slot i is given away again, so
 *   that an inode number of an earlier session is known to be stale.
 */
struct fs {
	uv_loop_t *loop;
	struct conf *conf;
	struct vm *vm;
	int spool_dir; /* descriptor of the directory that the depot is in */
	uid_t uid;     /* who mounted */
	gid_t gid;
	enum owner_shown shown; /* whose files/ are; set by the caller */
	struct timespec started;
	uint64_t started_ms; /* uv_now() then */

	LIST_HEAD(sessions, session) sessions; /* with removed ones of which something is open */
	struct session *slot[FS_SESSIONS_MAX];
	uint16_t slot_gen[FS_SESSIONS_MAX];
	unsigned nslots; /* slots ever used */
	struct timespec template_mtime[CONF_TEMPLATES_MAX];

	struct handles handles;
	struct lockbook locks; /* of the nodes that are not the agent's */
	struct events events;
	struct complaints complaints;
	uid_t caller;	    /* of the request that is being served */
	struct depot depot; /* of output */
	struct fetch fetch;
	struct fs_stats stats;
	struct netenv netenv; /* set by the caller, or all zeroes */
	uv_timer_t alarm;     /* the next deadline of any session */
	uv_timer_t renew;     /* where the kernel limits how long a request may take */
	uint64_t alarm_ms, renew_ms;
	bool stopping;
	char io[FS_IO_MAX]; /* scratch for replies, never kept across a return to the loop */
};

/* Have fs_on_alarm() look at all sessions at @when (uv_now() milliseconds) at the latest. */
void fs_alarm(struct fs *fs, uint64_t when);

/* Wall-clock time now. */
struct timespec fs_now(void);

/**
 * fs_init() - Set up an empty mount
 * @fs: Zeroed memory; fs->vm is set by the caller
 * @loop: Loop that everything runs on
 * @conf: Configuration; stays the caller's, must outlive @fs
 *
 * Return: 0 or -errno (the spool directory could not be opened).
 */
int fs_init(struct fs *fs, uv_loop_t *loop, struct conf *conf);

/* Ends every session and answers every waiting request; the sandboxes end by vm_close(). */
void fs_stop(struct fs *fs);

/* Frees what is left, after the loop's last turn. Return: false if a disk has still not answered, so that
 * @fs has to stay where it is. */
bool fs_fini(struct fs *fs);

#endif
