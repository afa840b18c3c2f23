/* SPDX-License-Identifier: Apache-2.0 */
/* The mount: all sessions, and what they share. */
#ifndef XSBX_FS_SESSION_FS_H
#define XSBX_FS_SESSION_FS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>
#include <uv.h>

#include "account.h"
#include "agent/files/lockbook.h"
#include "audit.h"
#include "complaint.h"
#include "depot.h"
#include "events.h"
#include "fetch.h"
#include "fs/config/daemon.h"
#include "fs/request/alarm.h"
#include "fs/request/clock.h"
#include "fs/request/handle.h"
#include "fs/request/touched.h"
#include "keeping.h"
#include "netenv.h"
#include "owner.h"
#include "run.h"
#include "roster.h"
#include "timings.h"

#define FS_IO_MAX (1u << 20) /* most bytes of one READ or WRITE */

struct files;
struct session;
struct vm;

/* Counters since the mount, for `metrics`. */
struct fs_stats {
	uint64_t sessions_created, sessions_closed;
	uint64_t runs[RUN_NSTATES]; /* by enum run_state, on reaching it */
	uint64_t jobs[RUN_NSTATES]; /* likewise, of jobs */
	uint64_t output_bytes;
	uint64_t denied; /* by networks */
	uint64_t requests;
	uint64_t saved, saves_failed, wakes; /* sandboxes */
	uint64_t cpu_us, net_bytes;	     /* by sandboxes of all users */
	uint64_t over_quota;		     /* refusals because of quotas */
	struct timings timings;
};

/* Callbacks for files/, which is layered above sessions. Set once. */
struct session_watch {
	/* A session is created. Return: 0, or -errno to fail the creation. */
	int (*made)(struct session *s);
	/* Its sandbox is READY, which began from what was saved. Return: whether something has to be done in it before anybody
	 * else comes; binding_ready() is called then, unless the sandbox goes before. May be called again meanwhile. */
	bool (*wakes)(struct session *s);
	/* Its sandbox is up. */
	void (*ready)(struct session *s);
	/* Its sandbox is gone: ends what waits for it, with @err; 0: another one is asked for. */
	void (*gone)(struct session *s, int err);
	/* It is about to be sent something that makes code run, or has begun by itself. */
	void (*stirs)(struct session *s);
	/* It was being saved, and is no more; or it is asleep, and there is something to read. */
	void (*settled)(struct session *s);
	/* Do requests wait until it has been saved? */
	bool (*waits)(const struct session *s);
	/* The last reference is gone. */
	void (*freed)(struct session *s);
};

/* What was written down last of the mount itself, and what of it has changed since; see fs/handover/. */
struct fs_record {
	bool begun;		       /* all there is has been written down */
	bool mount, complaints, stats; /* changed; `stats`: and somebody has seen them */
	uint32_t fresh;		       /* so far none was given out that is not below it */
	uint32_t depot_slots, log_level;
	bool depot_keyed;
	int depot_fd;
	uint64_t stats_at; /* uv_now() */
	struct buf fields; /* memory in which the records of a turn are put together */
};

/* One per process; lives from before the mount until after the last handle is closed. */
struct fs {
	uv_loop_t *loop;
	struct conf *conf;
	struct vm *vm;
	uid_t uid; /* who mounted */
	gid_t gid;
	enum owner_shown shown; /* owner shown for files/; set by the caller */
	struct timespec started;
	uint64_t started_ms; /* uv_now() at the start */

	LIST_HEAD(sessions, session) sessions; /* including removed ones that have open handles */
	unsigned comparing;		       /* runs with their replays, by threads */
	struct roster roster;		       /* those that were not removed */
	struct timespec template_mtime[CONF_TEMPLATES_MAX];

	struct touched touched;
	bool unheld; /* what it has is written down, but nobody else has its descriptors: see vm/base/lent.h */
	struct handles handles;
	struct lockbook locks; /* on nodes not served by the agent, see nodelock.h */
	struct events events;
	struct complaints complaints;
	struct accounts accounts;
	struct roster_sum all_disk; /* as of one user, of all; for quota_count.c */
	/* Somebody has gone on too far, or has no bytes left; the day for which networks were looked at: see quota_enforce(). */
	bool enforce, net_out;
	int64_t net_day;
	uid_t caller;	     /* of the current request */
	struct who who;	     /* likewise; not known while there is none */
	struct audit *audit; /* NULL: nothing is */
	uint64_t request;    /* the kernel's number of it */
	uint64_t kh;	     /* likewise, if it polls: by which the kernel knows who does; else 0 */
	uint32_t fresh;	     /* for node_fresh() */
	struct depot depot;  /* of output */
	struct fetch fetch;
	struct fs_stats stats;
	struct netenv netenv; /* set by the caller, or all zeroes */
	const struct session_watch *watch;
	struct kernel *kernel; /* NULL: not mounted */
	/* How the daemon is confined, `key: value`, for `isolation`. Set by the caller, or NULL. */
	void (*tell_confinement)(void (*line)(void *data, const char *key, const char *value),
				 void *data);
	struct fs_record record;
	struct alarm alarm; /* the next deadline of any session or waiting request */
	uv_timer_t renew;   /* used if the kernel limits how long a request may take */
	uint64_t renew_ms;
	struct inherited {
		struct saved **saved; /* references, by their numbers in what is read */
		size_t n;
		bool begun, complete;
		bool died;    /* ... by nobody who would go on if what is read is refused */
		void *runs;   /* by id, for tsearch(3); see fs/keep/run.c */
		void *texts;  /* likewise: fs/handover/texts.c */
		void *spools; /* fs/handover/outputs.c */
		bool filed;   /* files/ of all sessions are put together */
		void *losses; /* what can't be read: fs/handover/losses.c */
		unsigned lost_handles;
	} inherited;		       /* while the mount is being taken over */
	const struct keeping *keeping; /* NULL: nothing is kept */
	struct keeper *keeper;
	bool ending; /* sessions are put to sleep: nothing begins any more */
	bool stopping;
	char io[FS_IO_MAX]; /* scratch buffer for replies, not preserved across a return to the loop */
};

#endif
