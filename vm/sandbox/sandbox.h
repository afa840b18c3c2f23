/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox: its life cycle, its runs, and its events. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_SANDBOX_H
#define XSBX_VM_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vm/base/problem.h"
#include "vm/guest/file.h"
#include "vm/guest/run.h"

struct buf;
struct fdbag;
struct record_reader;
struct vm;
struct sandbox;
struct sandbox_spec;
struct saved;
struct sandbox_asked;
struct sandbox_logged;

enum sandbox_state {
	SANDBOX_WAITING, /* for a place */
	SANDBOX_STARTING, /* for its image or packages, before that; or booting, the interpreter starting */
	SANDBOX_READY, /* accepts a run */
	SANDBOX_RUNNING,
	SANDBOX_CLOSING,
};

struct sandbox_info {
	enum sandbox_state state;
	const char *backend; /* "microvm", "process" */
	const char *start;   /* "cold", "snapshot", "warm", "saved" */
	bool kept;	     /* it began from a saved one, and has its memory */
	const char *lost;    /* ... or why it has not; "" if it did not begin so, or has it */
	const char *accel;
	pid_t pid; /* of the process on the host, or 0 */
	/* Of the admission; to the agent's hello; to the interpreter being ready. */
	uint64_t waited_ms, boot_ms, setup_ms;
	const char *interpreter; /* version text, "" until known */
	uint64_t rss_kib;	 /* of the host process now, 0 if unknown */
	bool stands_still;	 /* a machine with nothing to do, which takes no processor time */
	const char *goes_on;	 /* why not, as its agent said when it was asked last, or "" */
};

/* A connection or lookup of a sandbox that was refused. */
struct sandbox_denied {
	int64_t time_ms;  /* since 1970 */
	uint32_t lost;	  /* number of refusals before this one that were too many to be reported */
	uint16_t port;	  /* 0: none */
	const char *name; /* or address; printable, without blanks */
	const char *reason;
	bool spent; /* for a budget, whatever else was in the way */
};

/* Any of these may be NULL, except `state` and `closed`. */
struct sandbox_events {
	void (*state)(void *data, enum sandbox_state state); /* STARTING..RUNNING, on each change */
	/* While STARTING: what it is waiting for, if that takes long. */
	void (*awaits)(void *data, const struct problem *what);
	void (*console)(void *data, const void *bytes, size_t len);
	void (*output)(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		       size_t len);
	void (*exit)(void *data, uint32_t run, const struct vm_result *result);
	/* A run or a job takes more input; has closed its standard input. */
	void (*room)(void *data, uint32_t id);
	void (*deaf)(void *data, uint32_t id);
	/* Of a job: nothing is left of it. Its `output` and `exit` are those above. */
	void (*gone)(void *data, uint32_t job);
	/* The network has refused something. */
	void (*denied)(void *data, const struct sandbox_denied *what);
	/* A connection or request waits for leave: sandbox_decide(). It waits no more, by itself (enum sandbox_unasked). After
	 * another daemon has taken the sandbox over, what still waits is asked for again, with the same number. */
	void (*asked)(void *data, const struct sandbox_asked *what);
	void (*unasked)(void *data, uint32_t id, unsigned why);
	/* A connection or a request has ended. */
	void (*logged)(void *data, const struct sandbox_logged *what);
	/* The value of a secret could not be had: `problem` says which and why. NULL: all there are have one again. */
	void (*secrets)(void *data, const struct problem *problem);
	/* It has made a connection. @name: or address; printable, without blanks */
	void (*connected)(void *data, const char *name, uint16_t port);
	/* The result of sandbox_ports() has changed. */
	void (*ports)(void *data);
	/* The network has failed, until the sandbox is replaced; the sandbox itself goes on. */
	void (*network_lost)(void *data, const struct problem *problem);
	/* The answer to sandbox_freeze(): 0, or -errno and it goes on. Comes also when it is still as before, or goes on, behind a
	 * save that something has run in. */
	void (*frozen)(void *data, int err);
	/* The answer to sandbox_save(): it goes on, and was saved; or was not, because of @why. The
	 * reference is the callee's. */
	void (*saved)(void *data, struct saved *saved, const struct problem *why);
	/* Only after sandbox_watch(). */
	void (*changed)(void *data, const struct sandbox_change *c);
	/* Of one whose spec has `learn`: what it has tried to use, before the end of a run is told. */
	void (*learned)(void *data, const struct sandbox_learned *l);
	/* Its files may change from now on, although it was sent nothing: answers that were given
	 * before, as leased, count no more. */
	void (*stirs)(void *data);
	/* With a turn (vm_set_turn()): what sandbox_put() writes has changed, or is about to. May
	 * come during a call, and before any other event. */
	void (*touched)(void *data);
	/* The end. @problem is NULL if it was asked for by sandbox_close(). */
	void (*closed)(void *data, const struct problem *problem);
};

/**
 * sandbox_new() - Create a sandbox
 * @vm: Machinery
 * @spec: Its configuration; copied
 * @events: Callbacks; kept, must outlive the sandbox
 * @data: First argument of the callbacks
 * @ret_sandbox: Result; goes through its states by itself
 *
 * Return: 0, -ENOMEM, or -E2BIG for too many paths, or too many or too long variables (PROTO_ENV_MAX;
 * names of 256 bytes, values of 4096). All other failures are reported by `closed`.
 */
int sandbox_new(struct vm *vm, const struct sandbox_spec *spec, const struct sandbox_events *events,
		void *data, struct sandbox **ret_sandbox);

/* Return: 0; -EBUSY unless READY; -EAGAIN if all processors are busy: `state` is then called with READY
 * again when this sandbox may run something; -EFBIG for code over 1 MiB, -ENOMEM. */
int sandbox_run(struct sandbox *s, const struct sandbox_run *run);

/**
 * sandbox_job() - Start a program beside the interpreter
 * @s: Sandbox, READY or RUNNING
 * @job: What to start; copied
 *
 * It has `output` and one `exit`, unless it is forgotten before, and is known until it is
 * forgotten: sandbox_job_forget(), and `gone`; or until the end of the sandbox.
 *
 * Return: 0; -EBUSY unless READY or RUNNING; -EAGAIN if all processors are busy, as sandbox_run();
 * -EMFILE if there are PROTO_JOBS_MAX; -E2BIG for more than fits into a message, -ENOMEM.
 */
int sandbox_job(struct sandbox *s, const struct sandbox_job *job);

/* As guest_job_signal(), guest_job_resize(), guest_job_hold() and guest_job_forget(). */
int sandbox_job_signal(struct sandbox *s, uint32_t id, unsigned sig);
/**
 * sandbox_write() - Write standard input of the active run or of a job
 * @s: Sandbox
 * @id: Of the run or job
 * @data: Bytes
 * @len: How many
 * @last: They are followed by the end of file
 * @ret_taken: How many there was room for; `room` is called when there is more
 *
 * Who reads no more takes all of it.
 *
 * Return: true if all was taken, the end of file too.
 */
bool sandbox_write(struct sandbox *s, uint32_t id, const void *data, size_t len, bool last,
		   size_t *ret_taken);
int sandbox_job_resize(struct sandbox *s, uint32_t id, unsigned rows, unsigned cols);
void sandbox_job_hold(struct sandbox *s, uint32_t id, bool hold);
int sandbox_job_forget(struct sandbox *s, uint32_t id);

/* While held, no output beyond what is in flight (1 MiB) is requested: the program blocks when it
 * writes, as on a full pipe. The hold ends with the run, or when the agent is to end it. */
void sandbox_hold(struct sandbox *s, bool hold);

/* Return: 0, -ESRCH if no run @id is active. */
int sandbox_signal(struct sandbox *s, uint32_t id, enum sandbox_signal sig);

/* Freezes all processes in it; `frozen` is called when done, unless it is thawed, reset or closed
 * first. Its files remain accessible; no run may be sent. Return: 0, -EBUSY unless READY and no job
 * runs, -ENOMEM. */
int sandbox_freeze(struct sandbox *s);
void sandbox_thaw(struct sandbox *s);

/**
 * sandbox_save() - Save what it is
 * @s: Sandbox, READY, without jobs
 * @memory: With its memory, where it is a machine; else its files alone
 *
 * It goes on behind that, and `saved` is called, unless it is reset or closed first. No run or job
 * may be sent before.
 *
 * Return: 0, -EBUSY, -ENOMEM; -EDQUOT if there is no room in memory for one more machine that is saved.
 */
int sandbox_save(struct sandbox *s, bool memory);

/* From now on `changed` is called, with PROTO_CHANGE_WATCHING once nothing is missed any more; or
 * no more. Nothing is missed either of what comes from what is sent to the sandbox afterwards.
 * Return: 0, -EBUSY unless it has been READY, -ENOMEM. */
int sandbox_watch(struct sandbox *s, bool on);

/* Restarts the interpreter, and kills all jobs; READY again when that is done. Return: 0, -EBUSY
 * unless READY. */
int sandbox_reset(struct sandbox *s);

/* Idempotent. An active run ends as LOST, one not yet sent as REFUSED. */
void sandbox_close(struct sandbox *s);

/**
 * sandbox_file() - Send a file request
 * @s: Sandbox, READY or RUNNING
 * @req: Request; reads and writes of up to 1 MiB are split and pipelined
 * @fn: Called once, from the loop or before this returns (what is known of files is answered at
 *	once, see vm/guest/known.h); NULL for FORGET, RELEASE and CANCEL_LOCK, which have no answer
 * @data: Its first argument
 *
 * Return: 0, -ESTALE if the sandbox is not up, -ENAMETOOLONG, -EINVAL for a read or write that is too
 * large, -ENOMEM; @fn is only called if 0.
 */
int sandbox_file(struct sandbox *s, const struct vm_file *req, vm_file_fn fn, void *data);

/* Can it be asked? What it is asked is answered with an error as soon as it can't, before `closed` says so. */
bool sandbox_is_up(const struct sandbox *s);

/* The caller of a request has gone that was answered by @reply: gives back the handle and the
 * lookup that came with it. */
void sandbox_file_undo(struct sandbox *s, enum vm_file_op op, const struct vm_file_reply *reply);

void sandbox_info(const struct sandbox *s, struct sandbox_info *ret_info);

/* What a sandbox, or its next run, is waiting for. */
struct sandbox_wait {
	const char *what;  /* "place" or "processor" */
	char why[256];	   /* what is lacking, as text */
	unsigned turn, of; /* position in the queue, from 1, and its length */
	uint64_t ms;	   /* time waited so far */
};

/* Return: whether it is waiting. */
bool sandbox_waits(const struct sandbox *s, struct sandbox_wait *ret_wait);

/* The guest's last known usage (queried at the end of each run, and every few seconds while one
 * is active or files were accessed); never blocks. Return: 0 or -ENODATA. */
int sandbox_usage(const struct sandbox *s, struct sandbox_usage *ret_usage);

/* Calls @line for each layer of the sandbox's jail, as observed after its start; not at all without
 * a jail. */
void sandbox_isolation(const struct sandbox *s,
		       void (*line)(void *data, const char *key, const char *value), void *data);

/* ---- from one daemon to the next ---- */

/**
 * sandbox_put() - Put a sandbox into a record, for another process to go on with
 * @s: Sandbox that has been READY, and its owner was told so
 * @out: Gets its fields
 * @fds: Gets what it is held by
 *
 * That changes nothing here. But what happens here afterwards, the other process does not know.
 *
 * What is under way goes on there: a run, a reset, pausing it, its end with a problem, and requests
 * for files that have a `claim` (see sandbox_file_asked()). Not so a save, of which nothing comes,
 * and ports that are on their way: whoever wanted them asks again.
 *
 * Return: 0; -EOPNOTSUPP.
 */
int sandbox_put(const struct sandbox *s, struct buf *out, struct fdbag *fds);

/**
 * sandbox_field_is_late() - May a field of a record say less than sandbox_put() would by now?
 * @tags: Those on the way to it, its own last
 * @n: How many
 *
 * That is so where the next process finds out for itself, and nobody is touched for it.
 */
bool sandbox_field_is_late(const unsigned *tags, size_t n);

/**
 * sandbox_adopt() - Go on with a sandbox that another process has put
 * @vm: Machinery
 * @fields: Of its record, not trusted
 * @fds: What it is held by
 * @events: As for sandbox_new()
 * @data: Their first argument
 * @ret_sandbox: Result: in the state that it was in, of which `state` does not tell, unless it had
 *	not told there
 *
 * It has its place, above all limits; so these come before all others. Nothing is read from it or
 * sent to it, and the loop must not run, before vm_go().
 *
 * Return: 0; -EBADMSG, -EOPNOTSUPP, -E2BIG or -ENOMEM. All other failures are reported by `closed`.
 */
int sandbox_adopt(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
		  const struct sandbox_events *events, void *data, struct sandbox **ret_sandbox);

/* Of the nodes of an adopted sandbox's files the caller holds so many lookups; what others its
 * agent knows of it drops. To be called before vm_go(). Nothing is told while requests are on their
 * way. Return: 0 or -ENOMEM. */
int sandbox_hold_nodes(struct sandbox *s, const struct vm_held_node *nodes, size_t n);

/**
 * sandbox_file_asked() - Has the process before this one made this request?
 * @s: Adopted
 * @req: Request with the `claim` that it had there
 * @ret_token: If it is a LOCK: the token that it has
 *
 * Then sandbox_file() asks nothing, and @fn gets the answer to what was asked.
 */
bool sandbox_file_asked(const struct sandbox *s, const struct vm_file *req, uint64_t *ret_token);

/* It is the daemon now: goes on with all sandboxes that were adopted. */
void vm_go(struct vm *vm);

/* All requests for files that the process before this one was asked for have been made again, or
 * never will be: what the others yield is undone. To be called behind vm_go(), before the loop
 * runs. */
void vm_replayed(struct vm *vm);

#endif
