/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the mount (fs/) and sandboxes (vm/): all that fs/ may know of them. */
#ifndef XSBX_VM_H
#define XSBX_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

/*
 * Rules of the seam
 *
 * - One thread, one libuv loop. Nothing here blocks.
 * - A callback never runs inside a call of this header: it always comes from the loop.
 * - A sandbox belongs to vm/ from sandbox_new() until its `closed` callback returns; after that the
 *   pointer is invalid. sandbox_close() asks for that end, and it may come by itself at any time.
 * - Each run that sandbox_run() accepted ends in exactly one `exit` callback, after its last
 *   `output`, and before `closed`. Each file request is answered exactly once, with -ESTALE if the
 *   sandbox goes first.
 * - Bytes and strings in callbacks are only valid during the call.
 */

struct vm;
struct sandbox;
struct spawner;

/* Why something failed, for the `error` node: a short word, what happened, what to do about it. */
struct vm_problem {
	char code[32];
	char cause[1024];
	char fix[512];
};

/* The shared store of what is expensive to make: a bucket. Credentials are in the environment. */
struct vm_store {
	const char *url;     /* https://host/bucket/prefix; NULL or "": there is none */
	const char *region;  /* or NULL */
	const char *program; /* xsbxfs-store */
	bool read, write;
	unsigned timeout_s; /* for one object */
};

/* Where packages come from; what is NULL or "" is looked up in this host's own settings. */
struct vm_packages {
	const char *dir; /* holds the programs `prepare` and `install` */
	const char *python_index, *python_hosts;
	const char *npm_registry, *npm_hosts;
	const char *offline;  /* a directory that has all there is: no network is used then */
	uint64_t layer_bytes; /* most disk space for what was installed; 0: as much as it needs */
};

struct vm_config {
	const char *cache_dir;	 /* holds images/templates/NAME */
	const char *runtime_dir; /* this mount's own directory, 0700, exists; for what must be found
				  * again after a crash */
	const char *qemu;	 /* program, e.g. "qemu-system-x86_64" */
	const char *agent;	 /* the agent's static binary */
	const char *accel;	 /* "auto", "kvm", "tcg" */
	const char *kernel;	 /* "auto", "own", "stock"; NULL: "auto" */
	const char *image_builder; /* program that builds images that are missing, or "none" */
	unsigned max_vms;	 /* admission: sandboxes at once; 0: derived from memory and CPUs */
	unsigned max_vms_user;	 /* of one user; 0: all, or three quarters if `shared` */
	bool shared;		 /* by several users: none of them may have everything */
	unsigned memory_percent; /* of the host's memory that may be promised; 0: 200 */
	unsigned cpu_percent;	 /* of its processors; 0: 200 */
	uint64_t reserve_bytes;	 /* of its memory to be left alone; 0: derived */
	unsigned queue;		 /* how many may wait for a place; 0: no limit */
	unsigned queue_user;	 /* of one user */
	unsigned admission_s;	 /* longest wait for a place, seconds */
	unsigned boot_s;	 /* longest time from start to ready, seconds */
	bool no_machines; /* no template's sessions begin as machines: nobody may need QEMU */
	uint64_t snapshot_bytes; /* most disk space for snapshots; 0: as much as they need */
	/* Certificates that sandboxes with a network find at VM_CA_FILE, read-only: the bytes, and the
	 * file of the host that they are from. They must outlive the vm. NULL: none. */
	const void *ca;
	size_t ca_len; /* at most VM_CA_MAX */
	const char *ca_path;
	struct vm_store store;
	struct vm_packages packages;
};

#define VM_CA_FILE "/run/xsbx/ca.pem"
#define VM_CA_MAX  (1u << 20)

/* Progress and news that belong to no sandbox. */
struct vm_events {
	void (*event)(void *data, const char *kind, const char *words); /* a line for `events` */
};

/**
 * vm_new() - Make the machinery: accelerator probe, templates, admission
 * @loop: Loop that everything runs on
 * @spawner: Started by spawner_start(), before the loop; stays the caller's
 * @cfg: Copied as far as needed
 * @events: News; kept, must outlive the vm
 * @data: First argument of the callbacks in @events
 * @ret_vm: Result; end it with vm_close()
 *
 * Return: 0 or -errno.
 */
int vm_new(uv_loop_t *loop, struct spawner *spawner, const struct vm_config *cfg,
	   const struct vm_events *events, void *data, struct vm **ret_vm);

/* Closes every sandbox, then calls @done once from the loop; @vm is invalid after that. */
void vm_close(struct vm *vm, void (*done)(void *data), void *data);

struct vm_status {
	const char *accel;     /* "kvm", "tcg", or "probing" */
	const char *accel_why; /* one sentence */
	const char *qemu;      /* version, or why there is none */
	unsigned max_vms, running, waiting;
	uint64_t started, failed;      /* sandboxes since the start */
	uint64_t cold, snapshot, warm; /* of those, how they started */
	unsigned pooled; /* clones that wait to be used, ready or not; not in `running` */
};

/* A kind of sandbox that was asked for since the start. */
struct vm_template_status {
	const char *image, *language;
	unsigned memory_mb, cpus;
	const char *state;   /* of its snapshot: "unknown", "loading", "none", "building", ... */
	const char *problem; /* the last one, or "" */
	uint64_t bytes;	     /* memory of the snapshot */
	uint64_t built_ms;   /* what it took to make it, 0 if it came from the disk */
	unsigned pool, ready, filling;
	uint64_t hits, misses;
	uint64_t refills, refill_ms, refill_sum_ms; /* how many, what the last took, and all */
	bool prepared;
	const char *key;   /* of its snapshot, "" if it is not known yet */
	const char *layer; /* key of its packages' layer, "" if it has none that is open */
	bool packages_failed;
	bool kept;    /* it is on the disk */
	bool unkept;  /* it should be, and can't */
	bool fetched; /* it came from the store */
};

void vm_templates(struct vm *vm, void (*fn)(void *data, const struct vm_template_status *st),
		  void *data);

void vm_status(const struct vm *vm, struct vm_status *ret_status);

/* How things stand with the store; numbers since the start. */
struct vm_store_status {
	const char *url;   /* NULL: there is none */
	const char *state; /* "none", "idle", "busy", "left-alone" because it does not answer */
	bool read, write;
	uint64_t fetched, absent, damaged, put, failed;
	uint64_t again_s;  /* until it is asked again, if it is left alone */
	char problem[500]; /* the last failure, if nothing worked since; or "" */
};

void vm_store_status(const struct vm *vm, struct vm_store_status *ret_status);

/* Who was let in, who waits for what, and what there is. Processors are in hundredths of one. */
struct vm_admission {
	unsigned places, user_places; /* most sandboxes, most of one user (0: the same) */
	unsigned running, starting, waiting, closing;
	unsigned queue, queue_user; /* most that may wait, 0: no limit */
	uint64_t refused;	    /* because too many waited, or for too long */
	const char *lack;	    /* what those who wait lack, in a word; "" if nobody waits */
	uint64_t memory_mb;	    /* that may be promised */
	uint64_t promised_mb, snapshots_mb;
	uint64_t host_mb, available_mb, reserve_mb;
	bool pressure_known;
	unsigned pressure; /* hundredths of a per cent of the last ten seconds */
	unsigned cpus, cpus_most, cpus_used;
	unsigned runs, runs_waiting; /* with processors, and for them */
};

void vm_admission(struct vm *vm, struct vm_admission *ret_admission);
struct sandbox_spec;

/**
 * vm_prepare() - Have a kind of sandbox ready before anybody asks for one
 * @vm: Machinery
 * @spec: What the sandboxes will be; copied as far as needed
 *
 * Its snapshot is loaded or made and its pool filled, in the background, as long as the machinery lives.
 */
void vm_prepare(struct vm *vm, const struct sandbox_spec *spec);

/**
 * vm_image() - What is known of a template's image
 * @vm: Machinery
 * @name: Image name, e.g. "python"
 * @ret_why: If NULL is returned, why (static or valid until the next call)
 *
 * Return: The image's manifest as JSON text, valid until the next call, or NULL if there is no usable image.
 */
const char *vm_image(struct vm *vm, const char *name, const char **ret_why);

/* The code of the problem while a sandbox waits for its image. */
#define VM_IMAGE_MISSING   "image-missing"

/* Likewise for its packages; and if they can't be had. */
#define VM_PACKAGES_WAIT   "packages-installing"
#define VM_PACKAGES_FAILED "packages-failed"

/* How things stand with an image that may be missing. */
struct vm_image_status {
	const char *state;   /* "ready", "missing", "waiting", "building", "failed" */
	const char *step;    /* the last line of its builder, or "" */
	const char *problem; /* "" unless it is missing or has failed */
	uint64_t elapsed_ms; /* since the build began; 0 unless it has */
};

/* Strings are valid until the next call. */
void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status);

enum vm_level { VM_OK, VM_WARN, VM_FAIL, VM_NLEVELS };

/* One finding of the doctor. @fix is "" where nothing is to mend. */
typedef void (*vm_check_fn)(void *data, const char *name, enum vm_level level, const char *found,
			    const char *fix);

/* Looks at this host: QEMU, accelerator, images, memory, limits. @vm may be NULL (xsbxfs --check);
 * then the accelerator is probed here and now, which takes up to two seconds. */
void vm_doctor(struct vm *vm, const struct vm_config *cfg, vm_check_fn fn, void *data);

/* `key: value` lines of what is really enforced for each backend. */
void vm_isolation(struct vm *vm, void (*line)(void *data, const char *key, const char *value),
		  void *data);

/* The same of one sandbox: each layer of its jail, as it was seen when it had been started. No line if
 * it has none. */
void sandbox_isolation(const struct sandbox *s,
		       void (*line)(void *data, const char *key, const char *value), void *data);

/* ---- sandboxes ---- */

enum sandbox_state {
	SANDBOX_WAITING,  /* for admission */
	SANDBOX_STARTING, /* boots; the interpreter starts */
	SANDBOX_READY,	  /* takes a run */
	SANDBOX_RUNNING,
	SANDBOX_CLOSING,
	SANDBOX_NSTATES,
};

const char *sandbox_state_str(enum sandbox_state state);

enum vm_backend { VM_MICROVM, VM_PROCESS, VM_NBACKENDS };

/* A port of the sandbox that can be reached at 127.0.0.1 of the host. */
struct sandbox_port {
	uint16_t guest, host; /* host 0, where something is asked for: any that is free */
};

#define SANDBOX_PORTS_MAX 10

struct sandbox_env {
	const char *name, *value;
};

/* A file or directory of the host that a process sandbox sees, with all that is mounted below it. */
struct vm_path {
	const char *
		source; /* absolute; a link in it is not followed, the sandbox does not start then */
	const char *target; /* where it is seen; absolute */
	bool write; /* with the rights of the sandbox's owner; else as everybody may read it */
};

#define VM_PATHS_MAX 16u

/* What user code may have at most, beside memory and processors; the same whatever it runs in. In
 * each, 0 is a default. */
struct sandbox_limits {
	unsigned processes;    /* at once, threads among them */
	unsigned open_files;   /* of a process */
	unsigned file_size_mb; /* the largest file; 0: there is no such limit */
	unsigned files_mb;     /* the working directory; 0: two fifths of the memory */
	unsigned files_inodes; /* files in it; 0: as the memory allows */
};

/* Sandboxes of a kind that should wait, ready to be used. */
struct vm_pool {
	unsigned target; /* so many */
	unsigned low;	 /* made when there are fewer than this; at most `target` */
	unsigned age_s;	 /* replaced when they are older; 0: never */
};

struct sandbox_spec {
	const char *name;     /* for messages and as the guest's host name, e.g. "python-demo" */
	const char *image;    /* image name */
	const char *language; /* python, javascript, raw */
	enum vm_backend backend;
	unsigned memory_mb, cpus;
	struct sandbox_limits limits;
	uid_t owner;
	gid_t group;		     /* the owner's */
	const struct vm_path *paths; /* copied; only for VM_PROCESS */
	size_t npaths;		     /* at most VM_PATHS_MAX */
	bool image_view; /* programs are the image's and not the host's; only for VM_PROCESS */
	const char *
		work; /* directory of the host that files/ begins as, or NULL; only for VM_PROCESS */
	const struct sandbox_env *env; /* copied */
	size_t nenv;
	/* The variables and limits of the template itself, with which snapshots are made; copied. */
	const struct sandbox_env *template_env;
	size_t ntemplate_env;
	struct sandbox_limits template_limits;
	/*
	 * Its network. With `network` it has an interface, which leads nowhere but to the names and
	 * addresses in `allow`, a list as in net/allow.h, "" or NULL for none, and to which `ports`
	 * lead. A port that can't be had ends the sandbox, with the problem "port-taken".
	 */
	bool network;
	bool trusted_names; /* the list is the administrator's: what it names may be anywhere */
	const char *allow;
	const struct sandbox_port *ports;
	size_t nports;	      /* at most SANDBOX_PORTS_MAX */
	const char *packages; /* names with versions, sorted; NULL or "": none */
	/* Code that is run, when the interpreter is there, in each sandbox that boots, and so is in the
	 * snapshot; NULL or "": none. If it fails, the sandbox does. */
	const char *warmup;
	bool alone; /* of no template: neither snapshots nor a pool */
	struct vm_pool pool;
	bool odd; /* not as its template says: a snapshot is made only if it is asked for again */
};

enum vm_stream { VM_STDOUT, VM_STDERR, VM_NSTREAMS };

/* How a run ended. Words as in the `state` node: see vm_outcome_str(). */
enum vm_outcome {
	VM_DONE,
	VM_TIMEOUT,
	VM_KILLED,
	VM_OOM,
	VM_LOST,    /* the sandbox died after the code was sent: it may have run */
	VM_REFUSED, /* it never ran */
	VM_NOUTCOMES,
};

const char *vm_outcome_str(enum vm_outcome outcome);

struct vm_result {
	enum vm_outcome outcome;
	unsigned status; /* 0..255; meaningless for LOST and REFUSED */
	bool fresh;	 /* the interpreter's state is gone */
	uint64_t wall_us, user_us, system_us, maxrss_kib;
	uint64_t dropped[VM_NSTREAMS]; /* bytes past the limit */
	struct vm_problem problem; /* for LOST and REFUSED, and where there is something to say */
};

struct sandbox_info {
	enum sandbox_state state;
	const char *backend; /* "microvm", "process" */
	const char *start;   /* "cold", "snapshot", "warm" */
	const char *accel;
	pid_t pid; /* of the process on the host, or 0 */
	uint64_t waited_ms, boot_ms,
		setup_ms;	 /* admission; to the agent's hello; to interpreter ready */
	const char *interpreter; /* version text, "" until known */
	uint64_t rss_kib;	 /* of the host process now, 0 if unknown */
};

/* A connection or lookup of a sandbox that was refused. */
struct sandbox_denied {
	int64_t time_ms; /* since 1970 */
	uint32_t lost; /* so many before this one were not reported, because there were too many */
	uint16_t port; /* 0: none */
	const char *name; /* or address; printable, without blanks */
	const char *reason;
};

struct sandbox_events {
	void (*state)(void *data, enum sandbox_state state); /* WAITING..RUNNING, on each change */
	/* While STARTING: what it waits for, if that takes long. May be NULL. */
	void (*awaits)(void *data, const struct vm_problem *what);
	void (*console)(void *data, const void *bytes, size_t len);
	void (*output)(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		       size_t len);
	void (*exit)(void *data, uint32_t run, const struct vm_result *result);
	/* The network refused something. May be NULL. */
	void (*denied)(void *data, const struct sandbox_denied *what);
	/* What sandbox_ports() says has changed. May be NULL. */
	void (*ports)(void *data);
	/* There is no network any more, until the sandbox is replaced; the rest of it lives on. May be
	 * NULL. */
	void (*network_lost)(void *data, const struct vm_problem *problem);
	/* The end. @problem is NULL if it was asked for by sandbox_close(). */
	void (*closed)(void *data, const struct vm_problem *problem);
};

/**
 * sandbox_new() - Ask for a sandbox
 * @vm: Machinery
 * @spec: What is wanted; copied
 * @events: Callbacks; kept, must outlive the sandbox
 * @data: First argument of the callbacks
 * @ret_sandbox: Result; goes through its states by itself
 *
 * Return: 0, -ENOMEM, or -E2BIG for too many paths, or too many or too long variables (PROTO_ENV_MAX;
 * names of 256 bytes, values of 4096). Everything else that can go wrong arrives as `closed`.
 */
int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox);

struct sandbox_run {
	uint32_t id; /* number of the run, from 1 */
	const void *code;
	size_t code_len;	/* copied during the call */
	const void *stdin_data; /* must stay valid until `exit`; NULL: at end of file */
	size_t stdin_len;
	unsigned timeout_ms;	     /* 0: none */
	uint64_t limit[VM_NSTREAMS]; /* bytes of output; the rest is dropped and counted */
};

/* Return: 0; -EBUSY unless READY; -EAGAIN if all processors are busy: then `state` says READY once
 * more when this sandbox may run something; -EFBIG for code over 1 MiB, -ENOMEM. */
int sandbox_run(struct sandbox *s, const struct sandbox_run *run);

enum sandbox_signal { SANDBOX_INTERRUPT, SANDBOX_KILL };

/* Return: 0, -ESRCH if no run @id is active. */
int sandbox_signal(struct sandbox *s, uint32_t id, enum sandbox_signal sig);

/* A fresh interpreter; READY again when it is there. Return: 0, -EBUSY unless READY. */
int sandbox_reset(struct sandbox *s);

/* Idempotent. A run that is active ends as LOST, one not yet sent as REFUSED. */
void sandbox_close(struct sandbox *s);

void sandbox_info(const struct sandbox *s, struct sandbox_info *ret_info);

/* What a sandbox, or the run it was to have, waits for. */
struct sandbox_wait {
	const char *what;  /* "place" or "processor" */
	char why[256];	   /* what is lacking, in words */
	unsigned turn, of; /* 1: the next one, of so many that wait */
	uint64_t ms;	   /* for so long */
};

/* Return: whether it waits. */
bool sandbox_waits(const struct sandbox *s, struct sandbox_wait *ret_wait);

struct sandbox_usage {
	uint64_t mem_total_kib, mem_available_kib, cpu_us, files_used, files_total;
	uint64_t inodes_used, inodes_total;
	unsigned processes;
};

/* The guest's last known usage (asked for at the end of each run, and every few seconds while one
 * is active or files were touched), never waits. Return: 0 or -ENODATA. */
int sandbox_usage(const struct sandbox *s, struct sandbox_usage *ret_usage);

/* ---- network ---- */

#define VM_WHY_MAX 128

/**
 * vm_allow_check() - Is this an allow list?
 * @text: Its text, as net/allow.h describes it; need not be terminated
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why; -ENOMEM.
 */
int vm_allow_check(const char *text, size_t len, char ret_why[static VM_WHY_MAX]);

/**
 * vm_allow_within() - Does a list open only what another one opens?
 * @text: List
 * @len: Its length
 * @most: The other one, terminated
 * @ret_why: The first entry that goes beyond it, if -EPERM is returned; else as above
 *
 * An address that is spelt out may be private; `*` does not cover that.
 *
 * Return: 0, -EPERM, or as vm_allow_check().
 */
int vm_allow_within(const char *text, size_t len, const char *most,
		    char ret_why[static VM_WHY_MAX]);

/**
 * sandbox_allow() - Replace the allow list, at once, also for open connections
 * @s: Sandbox, in any state
 * @text: List; empty for nothing
 * @len: Its length
 * @ret_why: Why not, for people
 *
 * Return: 0; -EINVAL or -E2BIG for what is no list, and nothing has changed; -EOPNOTSUPP for a sandbox
 * without a network; -errno.
 */
int sandbox_allow(struct sandbox *s, const char *text, size_t len, char ret_why[static VM_WHY_MAX]);

/* What is forwarded now, with the ports that the host really gave. Ports of the spec are there as soon
 * as they are bound, which is before the sandbox is READY. */
void sandbox_ports(const struct sandbox *s, void (*fn)(void *data, const struct sandbox_port *port),
		   void *data);

/* The answer to sandbox_forward(): @err is 0 and @port what there is now; or it is -errno and @why is
 * the reason, for people. */
typedef void (*sandbox_forward_fn)(void *data, int err, const struct sandbox_port *port,
				   const char *why);

/**
 * sandbox_forward() - Make a port of the sandbox reachable at 127.0.0.1
 * @s: Sandbox, in any state but CLOSING
 * @guest: Its port
 * @host: Port of the host, or 0 for any that is free
 * @fn: Called once, from the loop: 0; -EADDRINUSE: somebody has that port; -EACCES: it takes
 *	privileges; -ESTALE: the sandbox went first; -errno
 * @data: Its first argument
 * @ret_why: Why not, for people
 *
 * Return: 0; -EEXIST: the sandbox's port is forwarded already; -ENOSPC: there are SANDBOX_PORTS_MAX;
 * -EINVAL: port 0; -EOPNOTSUPP: it has no network; -ESTALE: it is closing; @fn is only called if 0.
 */
int sandbox_forward(struct sandbox *s, uint16_t guest, uint16_t host, sandbox_forward_fn fn,
		    void *data, char ret_why[static VM_WHY_MAX]);

/* Ends that at once; connections stay. If sandbox_forward() has not answered yet, it does so now, with
 * -ESTALE. Return: 0 or -ENOENT. */
int sandbox_unforward(struct sandbox *s, uint16_t guest);

struct sandbox_traffic {
	uint64_t bytes_in, bytes_out; /* as the sandbox sees it */
	uint64_t connections;
	unsigned open; /* of those, now */
};

/* The last known figures of its network (asked for along with sandbox_usage()), never waits. Return: 0 or
 * -ENODATA. */
int sandbox_traffic(const struct sandbox *s, struct sandbox_traffic *ret_traffic);

/* ---- files ---- */

enum vm_file_op {
	VM_LOOKUP,
	VM_FORGET,
	VM_GETATTR,
	VM_SETATTR,
	VM_READLINK,
	VM_MKDIR,
	VM_SYMLINK,
	VM_LINK,
	VM_UNLINK,
	VM_RMDIR,
	VM_RENAME,
	VM_OPEN,
	VM_CREATE,
	VM_READ,
	VM_WRITE,
	VM_RELEASE,
	VM_FSYNC,
	VM_FALLOCATE,
	VM_SEEK,
	VM_OPENDIR,
	VM_READDIR,
	VM_STATFS,
	VM_NFILEOPS,
};

#define VM_FILES_ROOT	 1u /* node of the working directory */

#define VM_SET_MODE	 0x01u
#define VM_SET_SIZE	 0x02u
#define VM_SET_ATIME	 0x04u
#define VM_SET_MTIME	 0x08u
#define VM_SET_ATIME_NOW 0x10u
#define VM_SET_MTIME_NOW 0x20u

struct vm_attr {
	uint64_t ino;
	uint32_t mode, nlink; /* set-id bits are never set */
	uint64_t size, blocks;
	struct timespec atime, mtime, ctime;
};

/* A request; which fields count depends on @op, see enum proto_type in the agent's protocol.h.
 * Strings and @data need only live until sandbox_file() returns. */
struct vm_file {
	enum vm_file_op op;
	uint64_t node; /* the node, or the parent directory */
	uint64_t handle;
	uint64_t newparent;
	const char *name;
	const char *newname; /* also the target of SYMLINK */
	uint32_t flags;	     /* O_*, RENAME_*, FALLOC_*, SEEK_* */
	uint32_t mode;
	uint32_t valid;		 /* VM_SET_* */
	uint64_t offset, length; /* SETATTR: the new size is `length` */
	uint64_t lookups;	 /* FORGET */
	struct timespec atime, mtime;
	const void *data; /* WRITE */
	size_t size;	  /* READ: most bytes wanted, WRITE: bytes of @data, READDIR: most bytes */
};

struct vm_dirent {
	uint64_t ino, next;
	uint32_t type;	  /* S_IFMT bits */
	const char *name; /* terminated, checked: no slash, not empty, not . or .. */
};

struct vm_statfs {
	uint64_t bsize, blocks, bfree, files, ffree;
};

struct vm_file_reply {
	uint64_t node, handle, offset;
	struct vm_attr attr;
	const void *data; /* READ; READLINK: the target, not terminated */
	size_t size;	  /* bytes of @data; WRITE: bytes written */
	const struct vm_dirent *entries;
	size_t nentries;
	struct vm_statfs statfs;
};

/* @err is 0 or -errno; @reply is NULL unless it is 0. */
typedef void (*vm_file_fn)(void *data, int err, const struct vm_file_reply *reply);

/**
 * sandbox_file() - Send a file request
 * @s: Sandbox, READY or RUNNING
 * @req: Request; reads and writes may be up to 1 MiB, they are split and pipelined below
 * @fn: Called once, from the loop; NULL for FORGET and RELEASE, which have no answer
 * @data: Its first argument
 *
 * Return: 0, -ESTALE if the sandbox is not up, -ENAMETOOLONG, -EINVAL for a read or write that is too
 * large, -ENOMEM; @fn is only called if 0.
 */
int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data);

/* ---- changes of a directory of the host ---- */

struct vm_work;

/**
 * vm_work_of() - Hold on to what a sandbox changes in the directory that it began with
 * @s: Sandbox, READY
 *
 * It stays when the sandbox is gone, with the memory it takes.
 *
 * Return: To be freed with vm_work_free(), before vm_close() is done; NULL if there is none, or no memory.
 */
struct vm_work *vm_work_of(const struct sandbox *s);
void vm_work_free(struct vm_work *w);

enum vm_work_op {
	VM_WORK_LIST, /* a line for each: "A PATH", "M PATH" or "D PATH", or "? PATH" for what can't be
			 * looked into; names escaped */
	VM_WORK_COMMIT, /* make them, with the owner's rights; lines "PATH: why not" */
};

struct vm_changes {
	const char *text; /* not terminated */
	size_t len;
	uint64_t changes, failures;
	const char *why; /* if all of it failed */
};

/* @err: 0 or -errno; -EFBIG for a list that is too long. */
typedef void (*vm_work_fn)(void *data, int err, const struct vm_changes *c);

/**
 * vm_work_do() - List or make the changes
 * @w: Changes; may be freed while this is on its way
 * @op: Which
 * @fn: Called once, from the loop
 * @data: Its first argument
 *
 * Return: 0 or -errno; @fn is only called if 0.
 */
int vm_work_do(struct vm_work *w, enum vm_work_op op, vm_work_fn fn, void *data);

#endif
