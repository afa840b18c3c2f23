/* SPDX-License-Identifier: Apache-2.0 */
/* The agent protocol: frames between the host (vm/) and the agent, and their encoding. */
#ifndef XSBX_AGENT_PROTOCOL_H
#define XSBX_AGENT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * One byte stream (virtio-serial or a socketpair) carries frames in both directions: a header of
 * 12 bytes {u32 length, u16 type, u16 flags, u32 id}, then `length` bytes of payload. All integers
 * are little-endian; `str` is a u32 length and that many bytes, no terminator. Many requests may be in
 * flight; `id` identifies the run (RUN, OUTPUT, EXIT ...) or the request (files, PING, SETUP).
 *
 * Generations. The upper eight bits of `flags` are the generation that HELLO announced. The host
 * starts a new generation whenever the agent may be another one than before (after a restore);
 * frames of another generation are dropped on both sides, so nothing sent to one incarnation is
 * mistaken for an answer of the next.
 *
 * Another host. HELLO is the word of a host that begins: what another one has asked for ends. A host that takes over where
 * one ended, on the same connection and in the same generation, says RESUME instead, which disturbs nothing. Below the frames
 * are records (link.h), so that nothing is lost or said twice between the two.
 *
 * Versions. Each side says which it is, in HELLO, HELLO_OK, RESUME and RESUMED, and refuses one older than it understands. A host
 * sends only what the agent's version knows, for an agent may be older: it lives as long as its sandbox.
 *
 * Credits. Output: RUN grants the agent a number of bytes it may send as OUTPUT for that run,
 * CREDIT adds to it; an agent without credit stops reading the pipe and the program blocks, as on
 * any full pipe. Input: the agent grants STDIN bytes in the same way with STDIN_CREDIT. File
 * requests are limited by the host to PROTO_FILES_INFLIGHT unanswered ones.
 *
 * Both sides treat the other as hostile: lengths are checked before anything is allocated, payloads
 * are read through a cursor that cannot run past the end, and a malformed frame ends the
 * connection. A run ends exactly once, with EXIT, after its last OUTPUT.
 */

#define PROTO_VERSION	     3u
#define PROTO_VERSION_OLDEST 2u /* that is understood */
#define PROTO_VERSION_ORIGIN \
	3u /* from this on it knows AUTHOR, F_ORIGIN, PROTO_F_ORIGINS and LEARN */
#define PROTO_HEADER	     12u
#define PROTO_PAYLOAD_MAX    (3u << 19) /* a job: its words and variables */
#define PROTO_CODE_MAX	     (1u << 20)
#define PROTO_ARGV_MAX	     (5u << 18)	  /* of all words of a job */
#define PROTO_DATA_MAX	     (128u << 10) /* most bytes in one OUTPUT, STDIN, or file transfer */
#define PROTO_FILES_INFLIGHT 256u
#define PROTO_NAME_MAX	     255u
#define PROTO_GIVE_UP_MS     20000u /* to end a run, before the agent gives up and reports that */
#define PROTO_LINK_MAX	     4095u
#define PROTO_PATH_MAX	     4095u
#define PROTO_TRUST_MAX	     ((1u << 20) + 4096) /* the host's, and one more */
#define PROTO_ENTROPY	     32u
#define PROTO_ENV_MAX	     128u
#define PROTO_TRACED_MAX     200u
#define PROTO_UNPACK_WINDOW  (512u << 10) /* bytes of UNPACK that are granted at most */
#define PROTO_RESTING_MAX    100u	  /* bytes of the reason */
#define PROTO_ORIGIN_MAX     250u	  /* bytes of who wrote a file */
#define PROTO_COMM_MAX	     63u	  /* bytes of a process's name */
#define PROTO_CONTENT_MAX    (32u << 10)  /* bytes of a file that are sent along with its handle */

enum proto_type {
	/* host to agent */
	PROTO_HELLO =
		1,    /* u32 version, u32 generation, u64 realtime_ns, u8[32] entropy, str hostname.
			  * Answered by HELLO_OK. The agent sets clock, entropy and host name first,
			  * and ends a run of an older generation without EXIT; nodes stay valid.
			  * A clock that is ahead by less than a second is corrected by CLOCK.
			  * PROTO_F_TRACE: TRACED reports steps, until a RUN disables it.
			  * PROTO_F_COPY: nodes and handles are forgotten, and nothing is watched; what
			  * user code has is kept, and what jobs that have ended have left goes on */
	PROTO_PING,   /* up to 64 bytes, echoed by PONG */
	PROTO_SETUP,  /* struct proto_setup: sizes the quota'd directories, starts the interpreter.
			  * Answered by READY or FAILED. Sent again, it replaces the interpreter
			  * only if it would be started differently. */
	PROTO_RUN,    /* struct proto_run. Answered by OUTPUT..., EXIT */
	PROTO_STDIN,  /* bytes; PROTO_F_EOF on the last */
	PROTO_SIGNAL, /* u32 enum proto_signal, for run `id` */
	PROTO_CREDIT, /* u32 bytes, for run `id` */
	PROTO_RESET, /* ends all user code, including background processes, and starts a fresh interpreter;
			  * answered by READY or FAILED. Not during a run */
	PROTO_USAGE,	/* answered by USAGE_REPLY */
	PROTO_SHUTDOWN, /* end everything; no answer, the connection is closed */
	PROTO_WARM,	/* exercise the interpreter; answered by READY or FAILED */
	PROTO_CLOCK, /* s64 ns to add to the wall clock, at any time; answered by CLOCK_OK at once */
	PROTO_TRUST, /* certificates, put into a file that user code can only read; no answer. Ignored where there is no
		      * place for it. May come again at any time */
	PROTO_FREEZE, /* u32 1: stop all user code, answered by FROZEN; sent again, it checks that nothing has
		       * run since, else ECANCELED, and code continues. u32 2: nothing is stopped, but the machine is
		       * to be copied soon, and its interpreter gets ready for that; answered by FROZEN, a quarter of
		       * a second later at most. u32 3: as 1 sent again, and code continues whatever the answer. u32 0: continue, no answer; no run starts until then. HELLO, SETUP
		       * and RESET do that as well */
	PROTO_LEASE, /* answered by LEASED, not before what is under way has settled; see there. Forgotten when a
		       * request is made that proto_keeps_lease() does not name */
	PROTO_JOB, /* struct proto_job: a program beside the interpreter, see proto_is_job(). Answered by OUTPUT...,
		      * EXIT as a run, or by FAILED if it could not be started. SIGNAL, CREDIT and STDIN as for a run */
	PROTO_JOB_FORGET, /* ends all that is left of job `id`, also of one that is still running, of which then no
			   * EXIT comes. JOB_GONE follows, or was on its way */
	PROTO_JOB_WINDOW, /* u32 rows << 16 | columns: size of the terminal of job `id` */
	PROTO_WATCH, /* u32 1: CHANGED tells what changes in the working directory from now on; 0: no more */
	PROTO_PACK, /* u64 most bytes of files, u32 most entries: reads all of the working directory. Answered by PACKED
		      * ..., unless RESET comes before the last one. One at a time */
	PROTO_UNPACK, /* replaces what is in the working directory. First without a payload, and with PROTO_F_FIRST; then
		       * the bytes of a pack, as many as are granted, with PROTO_F_EOF on the last. Answered by UNPACKED
		       * ..., unless RESET comes before the last one. One at a time; not while anything else changes files */
	PROTO_REST, /* may the machine stand still? Answered by RESTING, not before what is under way has settled.
		     * Forgotten when another frame comes */
	PROTO_WAKE, /* u64 realtime_ns: the machine stood still, and its clock perhaps with it: one that is behind this
		     * time is set to it. No answer */
	PROTO_POINT,  /* the machine is to be copied as it is: answered by POINTED */
	PROTO_RESUME, /* u32 version, u32 number of the last record (link.h) that was taken: another host goes on where one has
		       * ended. Answered by RESUMED. Not before HELLO, and in its generation */
	PROTO_AUTHOR, /* str: what the run or job `id`, which comes next, is called in answers to F_ORIGIN; no answer */
	PROTO_LEARN, /* before SETUP, of a jail: LEARNED tells which files programs that are started from now on try to use; no answer */

	/* host to agent, files: answered by FILE_REPLY {u32 errno, ...} unless noted. `node` and
	 * `handle` are u64 chosen by the agent; node 1 is the working directory. */
	PROTO_F_LOOKUP = 32, /* u64 parent, str name -> entry */
	PROTO_F_FORGET,	     /* n x { u64 node, u64 lookups }; no answer */
	PROTO_F_GETATTR,     /* u64 node, u64 handle (0: none) -> attr */
	PROTO_F_SETATTR,     /* struct proto_setattr -> attr */
	PROTO_F_READLINK,    /* u64 node -> str */
	PROTO_F_MKDIR,	     /* u64 parent, u32 mode, str name -> entry */
	PROTO_F_SYMLINK,     /* u64 parent, str name, str target -> entry */
	PROTO_F_LINK,	     /* u64 node, u64 newparent, str newname -> entry */
	PROTO_F_UNLINK,	     /* u64 parent, str name */
	PROTO_F_RMDIR,	     /* u64 parent, str name */
	PROTO_F_RENAME,	     /* u64 parent, u64 newparent, u32 RENAME_*, str name, str newname */
	PROTO_F_OPEN,	     /* u64 node, u32 O_* -> u64 handle; ENXIO: not a regular file */
	PROTO_F_CREATE,	     /* u64 parent, u32 O_*, u32 mode, str name -> entry, u64 handle */
	PROTO_F_READ,	     /* u64 handle, u64 offset, u32 size -> bytes to the end of the frame */
	PROTO_F_WRITE,	     /* u64 handle, u64 offset, bytes to the end -> u32 written */
	PROTO_F_RELEASE,     /* u64 handle; no answer */
	PROTO_F_FSYNC,	     /* u64 handle */
	PROTO_F_FALLOCATE,   /* u64 handle, u32 mode, u64 offset, u64 length */
	PROTO_F_SEEK, /* u64 handle, u64 offset, u32 whence (SEEK_DATA, SEEK_HOLE) -> u64 offset */
	PROTO_F_OPENDIR, /* u64 node -> u64 handle */
	PROTO_F_READDIR, /* u64 handle, u64 offset, u32 size -> n x dirent, as many as fit into
			  * `size` bytes as struct fuse_dirent; without "." and "..", none at the end */
	PROTO_F_STATFS,	 /* -> u64 block size, blocks, free, files, free files */
	PROTO_F_LOCK,	 /* struct proto_lock -> u32 1 if it waits: LOCKED follows; else 0 */
	PROTO_F_TEST_LOCK, /* struct proto_lock -> u32 type, u64 start, u64 end, u32 pid: a conflicting
			    * lock, PROTO_UNLOCK if there is none; pid 0: a process of the sandbox */
	PROTO_F_DROP_LOCKS, /* u64 handle, u64 owner: drops all ranges of this file that the owner holds */
	PROTO_F_CANCEL_LOCK, /* u64 token, u32 undo; has no answer itself, but a waiting LOCK ends: LOCKED
			      * with EINTR, unless it was granted. With undo 1 a granted one is revoked,
			      * and its owner's previous locks are restored. */
	PROTO_F_TOUCH, /* u64 node; no answer. Somebody has read what was kept of the file during a lease: its time
			* of last access is set as if it had been read here. NOTED follows */
	PROTO_F_HOLD, /* u32 PROTO_HOLD_*, n x { u64 node, u64 lookups }; no answer. Of these nodes the host has so many
		       * lookups, and of all others but the root none */
	PROTO_F_ORIGIN, /* u64 node -> str: which runs and jobs can have changed it last, as AUTHOR named them; "": nobody
			 * that is known of */

	/* agent to host */
	PROTO_HELLO_OK = 64, /* u32 version, u32 generation, u64 uptime_us, str kernel release */
	PROTO_PONG,
	PROTO_READY,	    /* str interpreter version, u64 interpreter start in us */
	PROTO_FAILED,	    /* u32 errno, str message: what could not be set up */
	PROTO_OUTPUT,	    /* flags: enum proto_stream; u32 sequence from 0, bytes to the end */
	PROTO_EXIT,	    /* flags: PROTO_FULL_*; struct proto_exit */
	PROTO_STDIN_CREDIT, /* u32 bytes, for run `id` */
	PROTO_USAGE_REPLY,  /* struct proto_usage */
	PROTO_LOG,	    /* bytes for the `console` node */
	PROTO_FILE_REPLY,   /* u32 errno (0: success), then as noted at the request */
	PROTO_CLOCK_OK,	    /* u64 realtime_ns, at the time CLOCK was handled */
	PROTO_LOCKED,	    /* u64 token, u32 errno: result of a LOCK that waited */
	PROTO_FROZEN, /* u32 errno: result of FREEZE. EBUSY: not all code could be stopped, or there is
			     * a run; code continues. Behind that, if FREEZE had PROTO_F_WHO and it is known: u32
			     * enum proto_unstopped, u32 pid (0: none in particular), str name */
	PROTO_TRACED, /* u64 us since RUN `id` (0: HELLO) was received, str text: a step, for the daemon's log; only if
			     * requested, and not all of them */
	PROTO_LEASED, /* u32 1: nothing in the sandbox can change files any more but the host's own requests, until
		       * UNLEASED, or until the host sends anything that makes code run. 0: something could. In the
		       * order of FILE_REPLYs, as are the next three */
	PROTO_UNLEASED, /* the lease is over */
	PROTO_NOTED, /* during a lease, behind a FILE_REPLY or TOUCH: u64 node, attr: what its attributes are now */
	PROTO_CONTENT, /* during a lease, behind a FILE_REPLY to OPEN: u64 handle, bytes to the end: all that the
			 * file holds */
	PROTO_JOB_GONE, /* behind EXIT or FAILED, or after JOB_FORGET: nothing is left of job `id`; but for what
			 * was below a holder that user code has killed, which belongs to nobody. One for each */
	PROTO_STDIN_CLOSED, /* nobody reads the input of run or job `id` any more; before its end, at most once */
	PROTO_CHANGED, /* n x change. In the order of FILE_REPLYs and EXITs: what has happened before one of these was sent
			* was told before it, unless the connection is full */
	PROTO_PACKED, /* whole records, see pack_record.h. The last has PROTO_F_EOF, and instead of them: u32 errno, u32 number
		       * of files that changed meanwhile, u32 of what was left out (but for its kind), str path that failed */
	PROTO_UNPACKED, /* u32 bytes granted; or, with PROTO_F_EOF, the end: u32 errno, str path that failed */
	PROTO_RESTING, /* u32 1: nothing in the machine does anything before the next frame, str ""; 0: something does,
			* or will, str what */
	PROTO_POINTED, /* u32 errno. 0: all that was due was sent before this frame, and nothing is sent until something is
			* received, so nothing is on its way. EBUSY: there is a run or a job, or something is due */
	PROTO_RESUMED, /* struct proto_resumed. In the order of OUTPUTs, EXITs and FILE_REPLYs: it tells how it is behind all
			* that came before it */
	PROTO_LEARNED, /* u32 most processes of user code so far, u64 most KiB of memory, n x { u8 enum proto_learned, str path }:
			* what is new. Before EXIT of a run or a job comes what it has used */
};

/* What was tried with a file. */
enum proto_learned {
	PROTO_LEARNED_READ = 1, /* in this directory, or, at the top, this */
	PROTO_LEARNED_WROTE,	/* it was to be changed, or something made in it */
	PROTO_LEARNED_MISSED,	/* it is not there */
	PROTO_LEARNED_SEEN,	/* it is a directory, and was not opened */
};

/* Of FREEZE. */
enum proto_freeze { PROTO_THAW, PROTO_FREEZE_ALL, PROTO_FREEZE_PREPARE, PROTO_THAW_CHECKED };

/* Why not all code could be stopped. */
enum proto_unstopped {
	PROTO_UNSTOPPED_UNKNOWN,
	PROTO_UNSTOPPED_WAITS,	/* it is in the kernel, where no signal reaches it */
	PROTO_UNSTOPPED_HIDDEN, /* nobody can see whether it runs */
	PROTO_UNSTOPPED_WOKEN,	/* it is stopped, and goes on each time */
	PROTO_UNSTOPPED_NEW,	/* whenever all were stopped, there was another one */
	PROTO_UNSTOPPED_N,
};

#define PROTO_F_EOF   0x01u /* on STDIN, UNPACK, PACKED, UNPACKED: it is the last */
#define PROTO_F_FIRST 0x02u /* on UNPACK */
#define PROTO_F_TRACE 0x01u /* on HELLO */
#define PROTO_F_NUMBERS \
	0x01u /* on PACK: with the inode numbers that the host is told, as NUMBER records; older agents have none */
#define PROTO_F_ORIGINS 0x02u /* on PACK: with who wrote what, as ORIGIN records */
#define PROTO_F_WHO	0x01u /* on FREEZE: FROZEN says who could not be stopped; older agents do not */
#define PROTO_F_COPY \
	0x02u /* on HELLO: this machine is a copy, with a host that knows nothing of it yet */

/* On F_HOLD: these are the first, the last. All in one frame: both. */
#define PROTO_HOLD_FIRST 0x01u
#define PROTO_HOLD_LAST	 0x02u
#define PROTO_HOLD_MAX	 65536u /* in one frame */

/* The low eight bits of `flags` of OUTPUT. */
enum proto_stream { PROTO_STDOUT = 1, PROTO_STDERR = 2 };

/* Of a job, PROTO_SIGNAL_NUMBER + N is any signal of Linux, for the program alone. */
enum proto_signal { PROTO_INTERRUPT = 1, PROTO_KILL = 2, PROTO_SIGNAL_NUMBER = 256 };

/* On EXIT: the working directory is out of space or inodes. */
#define PROTO_FULL_FILES  0x01u
#define PROTO_FULL_INODES 0x02u

/* How a run has ended, as seen by the agent. */
enum proto_how {
	PROTO_HOW_DONE,	     /* by itself */
	PROTO_HOW_TIMEOUT,   /* the agent ended it at its deadline */
	PROTO_HOW_KILLED,    /* the host has sent PROTO_KILL */
	PROTO_HOW_OOM,	     /* killed by the OOM killer */
	PROTO_HOW_REFUSED,   /* not started (no interpreter was available) */
	PROTO_HOW_GONE,	     /* not started: the interpreter had ended, and its state is lost */
	PROTO_HOW_NOT_TAKEN, /* not started: `status` is the errno from the interpreter's driver */
	PROTO_HOW_LOST,	     /* a job: user code has ended what watched it, so nobody knows */
	PROTO_NHOW,
};

/* With PROTO_HOW_GONE: how the interpreter has ended. */
enum proto_gone {
	PROTO_GONE_EXITED, /* `status` is its exit status */
	PROTO_GONE_SIGNAL, /* `status` is the signal */
	PROTO_GONE_OOM,	   /* killed because of lack of memory, by the kernel or the agent */
	PROTO_GONE_SILENT, /* it did not respond, and was ended by the agent */
	PROTO_NGONE,
};

struct proto_header {
	uint32_t length;
	uint16_t type;
	uint8_t flags;
	uint8_t generation;
	uint32_t id;
};

/* A string in a received payload, or to be packed: not terminated. */
struct proto_str {
	const char *data;
	uint32_t len;
};

struct proto_env {
	struct proto_str name, value;
};

struct proto_setup {
	struct proto_str language; /* python, javascript, raw */
	uint64_t files_bytes;	   /* quota of the working directory; 0: what memory allows */
	uint64_t tmp_bytes;	   /* the same for /tmp */
	uint32_t files_inodes, tmp_inodes;
	uint32_t nproc;	 /* RLIMIT_NPROC of user code; in all three, 0 is a default */
	uint32_t nofile; /* RLIMIT_NOFILE */
	uint64_t fsize;	 /* RLIMIT_FSIZE; default: none */
	uint32_t nenv;
	struct proto_env env[PROTO_ENV_MAX];
	/* Only on the wire if it is not 0: what is to be the same in another sandbox. */
	uint32_t exact;	 /* PROTO_EXACT_* */
	uint32_t before; /* runs before the first one, in what it is a copy of */
	uint64_t seed;
	uint64_t clock_ns; /* the wall clock's first reading */
};

#define PROTO_EXACT_SEED  0x01u /* user code's random numbers follow from `seed` */
#define PROTO_EXACT_CLOCK 0x02u /* the clock is not the host's; in a guest */
#define PROTO_EXACT_FIXED 0x04u /* ... and each run begins at the same time */
#define PROTO_EXACT_ALL	  0x07u

#define PROTO_RUN_ID_WARMUP \
	4294967294u /* the id of the run that does a `warmup`, as drivers know it */

#define PROTO_RUN_STDIN	 0x01u /* flags: STDIN frames follow; else stdin is at end of file */
#define PROTO_RUN_TRIAL	 0x02u /* it leaves no state worth keeping */
#define PROTO_RUN_TRACE	 0x04u /* TRACED reports steps from now on; else it is disabled */
/* The code is names of packages, one a line: they are imported, in an interpreter that has run nothing and counts as
 * unused afterwards, so that WARM may make copies of it. Which one it is at is said on stderr, see driver.h.
 * PROTO_HOW_NOT_TAKEN with ENOSYS: its driver can't. */
#define PROTO_RUN_IMPORT 0x08u
#define PROTO_JOB_TTY	 0x40u /* a terminal: what it shows is stdout, what it is sent is typed */
#define PROTO_JOB_ROOT	 0x80u /* as root; FAILED with EPERM in a guest that is not for this */
#define PROTO_IMPORT_AT	 1     /* a byte before the name, which a line feed ends */

struct proto_run {
	uint32_t flags;
	uint32_t timeout_ms; /* 0: none */
	uint32_t grace_ms;   /* between SIGTERM at that time and SIGKILL */
	uint64_t limit
		[2];	 /* of bytes to send from stdout and stderr; the rest is read and dropped */
	uint32_t credit; /* bytes of OUTPUT granted initially */
	struct proto_str code;
	/* For this run alone; of a driver that can't: PROTO_HOW_NOT_TAKEN with ENOSYS. */
	struct proto_str cwd; /* absolute, or below the working directory; or empty */
	struct proto_str env; /* NAME=VALUE, a NUL behind each */
};

/* Ids of jobs; those of runs come before, and behind those of what no user has written. */
#define PROTO_JOB_ID   0x80000000u
#define PROTO_JOB_LAST 0xefffffffu
#define PROTO_JOBS_MAX 64u /* of one sandbox that have not been forgotten */

/* Lists of words have a NUL behind each. The program is `argv`, looked up in PATH; or, without, `code`, which is given to
 * the interpreter of `language` as a file; without that to a shell, unless it begins with "#!" or is a binary. */
struct proto_job {
	uint32_t flags; /* PROTO_RUN_STDIN, PROTO_RUN_TRACE, PROTO_JOB_TTY, PROTO_JOB_ROOT */
	uint32_t timeout_ms, grace_ms;
	uint64_t limit[2];
	uint32_t credit;
	uint32_t window;	   /* of the terminal: rows << 16 | columns */
	uint32_t nice;		   /* 0 to PROTO_NICE_MAX: it gives way to others, see nice(1) */
	struct proto_str language; /* or empty */
	struct proto_str cwd;	   /* absolute, or below the working directory; or empty */
	struct proto_str env;	   /* NAME=VALUE, beside what SETUP has set */
	struct proto_str argv;
	struct proto_str code;
};

#define PROTO_NICE_MAX	      19u

/* What is under way. */
#define PROTO_RESUMED_READY   0x01u /* READY or FAILED is due, to SETUP, RESET or WARM */
#define PROTO_RESUMED_FROZEN  0x02u /* FROZEN is due */
#define PROTO_RESUMED_STILL   0x04u /* user code stands still, by FREEZE */
#define PROTO_RESUMED_WATCHED 0x08u /* changes are told */
#define PROTO_RESUMED_PACKING 0x10u /* PACKED or UNPACKED is due */
#define PROTO_RESUMED_INTERP  0x20u /* there is an interpreter that is ready, or busy */

/* Of a run or a job. */
#define PROTO_RESUMED_ENDED   0x01u /* EXIT or FAILED was sent */
#define PROTO_RESUMED_STDIN   0x02u /* its input is open */

struct proto_resumed {
	uint32_t version, generation;
	uint32_t number; /* of the last record that was taken */
	uint32_t flags;	 /* PROTO_RESUMED_READY ... */
	uint32_t
		nexecs; /* the run, unless its EXIT was sent, and all jobs of which JOB_GONE was not */
	struct proto_resumed_exec {
		uint32_t id;
		uint32_t flags;	   /* PROTO_RESUMED_ENDED ... */
		uint32_t sequence; /* of the next OUTPUT */
		uint32_t granted;  /* bytes of STDIN that may come */
		uint64_t credit;   /* bytes of OUTPUT that may be sent */
	} exec[PROTO_JOBS_MAX + 1];
};

#define PROTO_UNKNOWN	     UINT64_MAX

#define PROTO_STATUS_TIMEOUT 124u
#define PROTO_STATUS_SIGNAL  128u /* and the signal's number */

struct proto_exit {
	uint32_t how;	  /* enum proto_how */
	uint32_t status;  /* 0..255 */
	uint32_t fresh;	  /* 1: the interpreter's state is gone */
	uint32_t gone;	  /* enum proto_gone; 0 unless `how` is PROTO_HOW_GONE */
	uint64_t wall_us; /* from the code's arrival at the interpreter to its end */
	uint64_t user_us;
	uint64_t system_us;
	uint64_t maxrss_kib;
	uint64_t dropped[2]; /* bytes of stdout and stderr past the limit */
	/* Bytes that a job's program has read and written by system calls, as have those it has waited for. */
	uint64_t read_bytes, written_bytes; /* PROTO_UNKNOWN: its kernel does not count them */
};

struct proto_usage {
	uint64_t mem_total_kib, mem_available_kib;
	uint64_t cpu_us;		  /* used by the guest since boot */
	uint64_t files_used, files_total; /* bytes of the working directory's quota */
	uint64_t inodes_used, inodes_total;
	uint32_t processes; /* of user code */
};

struct proto_attr {
	uint64_t ino;
	uint32_t mode; /* S_IFMT | permissions */
	uint32_t nlink;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	int64_t atime, mtime, ctime;
	uint32_t atime_ns, mtime_ns, ctime_ns;
};

#define PROTO_SET_MODE	    0x01u
#define PROTO_SET_SIZE	    0x02u
#define PROTO_SET_ATIME	    0x04u
#define PROTO_SET_MTIME	    0x08u
#define PROTO_SET_ATIME_NOW 0x10u
#define PROTO_SET_MTIME_NOW 0x20u

struct proto_setattr {
	uint64_t node, handle; /* handle 0: none */
	uint32_t valid;	       /* PROTO_SET_* */
	uint32_t mode;
	uint64_t size;
	int64_t atime, mtime;
	uint32_t atime_ns, mtime_ns;
};

enum proto_lock_type { PROTO_UNLOCK, PROTO_LOCK_SHARED, PROTO_LOCK_EXCLUSIVE };

#define PROTO_LOCK_WAIT	 0x01u /* flags: wait until it is available */
#define PROTO_LOCK_WHOLE 0x02u /* a flock(2) lock; the range is ignored */

/* Locks belong to an owner, a number chosen by the host: for ranges a process or an open file, for
 * whole files an open file. They end with DROP_LOCKS, or with the handle they were requested through. */
struct proto_lock {
	uint64_t handle, owner;
	uint64_t token;	     /* for CANCEL_LOCK; 0: never */
	uint64_t start, end; /* `end` is the last byte; INT64_MAX: to the end */
	uint32_t flags;	     /* PROTO_LOCK_* */
	uint32_t type;	     /* enum proto_lock_type */
	uint32_t pid;	     /* on the host */
};

/* entry = u64 node, attr */
struct proto_entry {
	uint64_t node;
	struct proto_attr attr;
};

/* change = u8 enum proto_change, u8 1 for a directory, str path below the working directory, str what is said there */
enum proto_change {
	PROTO_CHANGE_CREATED,	 /* also if it was moved here from outside */
	PROTO_CHANGE_MODIFIED,	 /* its content */
	PROTO_CHANGE_WRITTEN,	 /* closed by one who could write it */
	PROTO_CHANGE_ATTRIBUTES, /* mode, owner, times, links */
	PROTO_CHANGE_DELETED,	 /* or moved outside */
	PROTO_CHANGE_RENAMED,	 /* str: its former path */
	PROTO_CHANGE_OVERFLOW,	 /* something below this path was not told. str: why, or empty */
	PROTO_CHANGE_WATCHING, /* from here on, everything is told; from the time of WATCH on, if there was no
				  * OVERFLOW without a path and a reason before it */
	PROTO_CHANGE_FAILED, /* nothing is told any more. path: why */
	PROTO_NCHANGES,
};

/* dirent = u64 ino, u64 offset of the next, u32 S_IFMT bits, str name */
struct proto_dirent {
	uint64_t ino, next;
	uint32_t type;
	struct proto_str name;
};

/* Writing cursor: fills a buffer of the caller; `bad` once something did not fit. */
struct proto_out {
	uint8_t *data;
	size_t len, cap;
	bool bad;
};

/* Reading cursor over a payload; `bad` once something was read past the end. Values read when
 * bad are 0 or empty, so a parser may read all its fields and check once. */
struct proto_in {
	const uint8_t *p, *end;
	bool bad;
};

/**
 * proto_header_pack() - Write a header in wire form
 * @h: Header; @h->length must be right
 * @wire: PROTO_HEADER bytes to fill
 */
void proto_header_pack(const struct proto_header *h, uint8_t wire[PROTO_HEADER]);

/**
 * proto_header_unpack() - Read and check a header
 * @wire: PROTO_HEADER bytes
 * @ret_h: Result
 *
 * Return: 0, or -EPROTO if the length is over PROTO_PAYLOAD_MAX.
 */
int proto_header_unpack(const uint8_t wire[PROTO_HEADER], struct proto_header *ret_h);

const char *proto_type_name(unsigned type);

/** proto_is_job() - Is this the id of a job, and not that of a run? */
bool proto_is_job(uint32_t id);

/** proto_keeps_lease() - Does a frame from the host leave a lease as it is? What does not, makes code run. */
bool proto_keeps_lease(unsigned type);

void put_u8(struct proto_out *o, uint8_t v);
void put_u32(struct proto_out *o, uint32_t v);
void put_u64(struct proto_out *o, uint64_t v);
void put_bytes(struct proto_out *o, const void *data, size_t len);
void put_str(struct proto_out *o, struct proto_str s);

uint8_t get_u8(struct proto_in *in);
uint32_t get_u32(struct proto_in *in);
uint64_t get_u64(struct proto_in *in);
/* Points into the payload. Longer than @max makes the cursor bad. */
struct proto_str get_str(struct proto_in *in, uint32_t max);
/* The rest of the payload. */
struct proto_str get_rest(struct proto_in *in);
void get_bytes(struct proto_in *in, void *dst, size_t len);
/* True if nothing was bad and the whole payload was read. */
bool get_end(const struct proto_in *in);

struct proto_str proto_cstr(const char *s);

/* Pack and unpack the structs above; unpack returns 0 or -EPROTO, checks limits, and lets
 * strings point into the payload. */
void proto_setup_pack(struct proto_out *o, const struct proto_setup *s);
int proto_setup_unpack(struct proto_in *in, struct proto_setup *ret_s);
void proto_run_pack(struct proto_out *o, const struct proto_run *r);
int proto_run_unpack(struct proto_in *in, struct proto_run *ret_r);
void proto_job_pack(struct proto_out *o, const struct proto_job *j);
int proto_job_unpack(struct proto_in *in, struct proto_job *ret_j);
void proto_exit_pack(struct proto_out *o, const struct proto_exit *e);
int proto_exit_unpack(struct proto_in *in, struct proto_exit *ret_e);
void proto_usage_pack(struct proto_out *o, const struct proto_usage *u);
int proto_usage_unpack(struct proto_in *in, struct proto_usage *ret_u);
void proto_resumed_pack(struct proto_out *o, const struct proto_resumed *r);
int proto_resumed_unpack(struct proto_in *in, struct proto_resumed *ret_r);
void proto_attr_pack(struct proto_out *o, const struct proto_attr *a);
void proto_attr_get(struct proto_in *in, struct proto_attr *ret_a);
void proto_entry_pack(struct proto_out *o, const struct proto_entry *e);
void proto_lock_pack(struct proto_out *o, const struct proto_lock *l);
int proto_lock_unpack(struct proto_in *in, struct proto_lock *ret_l);
void proto_setattr_pack(struct proto_out *o, const struct proto_setattr *s);
int proto_setattr_unpack(struct proto_in *in, struct proto_setattr *ret_s);
/* Returns false, and packs nothing, if the entry would pass o->cap. */
bool proto_dirent_pack(struct proto_out *o, const struct proto_dirent *d);
void proto_dirent_get(struct proto_in *in, struct proto_dirent *ret_d);

/**
 * proto_name_ok() - Is this a valid name of a directory entry?
 * @s: A path component from the other side
 *
 * Return: false if it is empty, ".", "..", too long, or has a slash or a NUL.
 */
bool proto_name_ok(struct proto_str s);

#endif
