/* SPDX-License-Identifier: Apache-2.0 */
/* Both outputs of a program that is user code: pipes, read in the order in which they are written, as OUTPUT frames. */
#ifndef XSBX_AGENT_OUTPUT_OUTPUT_H
#define XSBX_AGENT_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/loop.h"
#include "agent/interp/driver.h"
#include "agent/protocol.h"

struct conn;
struct drains;
struct guest_env;
struct output;

enum stream_state {
	STREAM_IDLE,	/* no program, or it is draining: not watched */
	STREAM_WATCHED, /* the next write wakes us */
	STREAM_QUIET,	/* it was just read: not watched until the next tick */
	STREAM_PAUSED,	/* not watched, because credit or queue space is exhausted */
	STREAM_NSTATES,
};

/* Standard output or standard error. */
struct stream {
	struct loop_source src; /* read end; -1 once there are no writers */
	struct output *output;
	enum proto_stream which;
	int spare[2]; /* a pipe for the next run, or -1 */
	unsigned spare_slots;
	unsigned
		slots; /* if the kernel tells of its writes and keeps them apart, room for how many; see journal.c */
	int writer;	/* the program's end, to keep its writes apart or not; or -1 */
	bool merged;	/* they are not, for there were many in a row */
	bool muted;	/* nor does the kernel tell of them, for there were even more */
	bool skipped;	/* what it told of last was taken for what was read ahead of that */
	unsigned alone; /* so many, `merged` */
	unsigned
		ahead; /* writes, `merged`: lines, that were read and of which the kernel is still to tell */
	uint8_t *piece; /* what was read last, and not all of it sent: see stream.c */
	size_t piece_cap, piece_len, piece_sent;
	enum stream_state state;
	uint64_t limit_left; /* bytes that may still be sent */
	uint64_t dropped;
	size_t drain_left; /* the program has ended: bytes in the pipe that are its own */
};

/* Sends bytes of a stream, see stream_put(). Return: 0 or -ENOMEM. */
typedef int records_put(struct stream *s, const void *data, size_t len);

/* Sends what was read of both streams and is older than all else, see stream_catch_up(). Return: 0 or -errno. */
typedef int records_catch_up(struct output *o);

/* What the driver writes to both in the order of its writes. */
struct records {
	records_put *put;
	records_catch_up *catch_up;
	struct loop_source src; /* read end; -1 if the run has none */
	struct output *output;
	int spare[2]; /* a pipe for the next run, or -1 */
	enum stream_state state;
	struct driver_record head; /* the last one */
	size_t have;		   /* bytes of it that have come */
	size_t left;		   /* bytes that follow it */
	size_t drain_left;
};

#define JOURNAL_MAX 512u

/* Writes that the kernel has told of, and that were not read yet. */
struct journal {
	struct loop_source src; /* a signalfd; -1 if there is none, and nothing is told */
	struct output *output;
	enum stream_state state;
	int signal;	      /* that it reads */
	struct journal *next; /* of all that listen */
	bool hushed;	      /* other signals are not watched, but looked for at each tick */
	bool busy;	      /* the tick is a shorter one */
	bool deaf;	      /* the kernel could not tell of some */
	bool silent;	      /* at the last tick there was something that it had not told of */
	bool more;	/* it has told of as many as could be heard at once: there may be more */
	unsigned calm;	/* ticks without a write */
	unsigned n, at; /* how many are known, how many of those were read */
	uint8_t writes[JOURNAL_MAX]; /* to which of the two */
};

struct output {
	/* Set once. */
	struct loop *loop;
	struct conn *conn;
	const struct guest_env *env;
	struct loop_source *signals; /* those of the agent, or NULL */
	struct drains *drains; /* of what is written to the pipes when nobody wants it any more */

	uint32_t id; /* of the frames */
	struct stream out[2];
	struct records records;
	struct journal journal;
	struct stream *wrote; /* the stream that was written last, or NULL */
	struct stream *owed;  /* what is in it is older than what is in the other one; or NULL */
	uint32_t sequence;
	uint64_t credit;
	struct loop_timer tick; /* reads the stream that is STREAM_QUIET */
	bool said_short;	/* that pipes are */
};

/**
 * output_init() - Prepare for programs
 * @o: Output with loop, conn, env, signals and drains set, the rest zeroed
 */
void output_init(struct output *o);

/** output_prepare() - Make pipes for the next program in advance, also for records if @ordered. */
void output_prepare(struct output *o, bool ordered);

/**
 * output_open() - Make pipes for a program, or use those that were prepared
 * @o: Output without a program
 * @id: Of its frames
 * @limit: Most bytes to send of each
 * @credit: Bytes that may be sent for now
 * @ret_fds: The program's ends, to be passed on and closed; those that were made also on failure
 *
 * Return: 0 or -errno.
 */
int output_open(struct output *o, uint32_t id, const uint64_t limit[2], uint32_t credit,
		int ret_fds[2]);

/** output_begin() - The same without pipes: its owner reads what there is, and sends it by stream_put() of the first. */
void output_begin(struct output *o, uint32_t id, const uint64_t limit[2], uint32_t credit);

/** output_close() - There will be no program after all: close our ends. */
void output_close(struct output *o);

/** output_ordered() - The program's driver writes records. Return: its descriptor for that, or -errno. */
int output_ordered(struct output *o);

/** output_watch() - The program starts: begin to read. Return: 0 or -errno. */
int output_watch(struct output *o);

/** output_settle() - The program has ended: what is in its pipes now is all. */
void output_settle(struct output *o);

/** output_drain() - After output_settle(): send that. Return: true when all was sent; else after more credit. */
bool output_drain(struct output *o);

/** output_leave() - All was sent, or nobody wants it: the pipes go to the drains. */
void output_leave(struct output *o);

/**
 * output_send_exit() - Send EXIT, which comes behind all output
 * @o: Output of which all was sent, or nobody wants it
 * @full: PROTO_FULL_*: how it is now; the next program, or somebody outside, may make room
 * @result: How the program has ended; `dropped` is filled in
 *
 * Stops the loop if there is no memory: an EXIT that never comes is worse.
 */
void output_send_exit(struct output *o, uint8_t full, struct proto_exit *result);

/** output_resume() - There is more credit, or room in the connection: go on if it was paused. */
void output_resume(struct output *o);

/** output_fini() - Close everything. */
void output_fini(struct output *o);

#endif
