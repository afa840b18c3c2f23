/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: descriptors, timers, one thread. */
#ifndef XSBX_AGENT_CORE_LOOP_H
#define XSBX_AGENT_CORE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sources and timers are embedded in the objects they belong to; the loop allocates nothing.
 * Events are fetched one at a time, in the order in which the kernel queued them. So a handler may
 * remove and free any source, including its own, without leaving a stale event, and two pipes
 * are read in the order in which they became readable.
 */

struct loop_source {
	int fd;
	uint32_t events; /* EPOLL*; 0 while the loop does not watch it */
	void (*ready)(struct loop_source *s, uint32_t events);
};

struct loop_timer {
	bool armed;
	uint64_t at; /* now_us() when it fires */
	void (*fire)(struct loop_timer *t);
	struct loop_timer *next;
};

struct loop {
	int epfd;
	struct loop_timer *timers; /* armed ones, earliest first */
	struct loop_source clock;  /* timerfd for them */
	uint64_t clock_at;	   /* its time, or 0 */
	bool due;		   /* some timer may be due */
	bool stop;
	int result; /* what loop_run() returns */

	/* Called before each wait. Returns true if there is more to do: the loop then polls for
	 * events without sleeping. */
	bool (*before_wait)(struct loop *l);
	uint64_t busy_until; /* now_us() until which nobody is given way to */
	bool calm;	     /* set by a handler: before_wait() need not be called */
};

/**
 * loop_init() - Initialize a loop
 * @l: Loop, zeroed
 *
 * Return: 0 or -errno.
 */
int loop_init(struct loop *l);

/** loop_fini() - Release the resources of loop_init(). */
void loop_fini(struct loop *l);

/**
 * loop_watch() - Watch a descriptor, or change the events to watch for
 * @l: Loop
 * @s: Source with fd and ready set
 * @events: EPOLL* mask; 0 stops watching, which also silences EPOLLHUP
 *
 * Return: 0 or -errno.
 */
int loop_watch(struct loop *l, struct loop_source *s, uint32_t events);

/**
 * loop_close() - Stop watching a source and close its descriptor
 * @l: Loop
 * @s: Source; nothing happens if it is closed already
 */
void loop_close(struct loop *l, struct loop_source *s);

/**
 * loop_arm() - Fire a timer once, after a delay
 * @l: Loop
 * @t: Timer with fire set; re-armed if it is armed
 * @delay_us: Microseconds; 0: after the next before_wait()
 */
void loop_arm(struct loop *l, struct loop_timer *t, uint64_t delay_us);

/**
 * loop_give_way() - Let those go on first whom we keep from it, being on their processor
 * @l: Loop
 *
 * Not if somebody took long the last time, for it is the turn of all who compute there.
 *
 * Return: false if it did nothing.
 */
bool loop_give_way(struct loop *l);

/** loop_disarm() - Cancel a timer; harmless if it is not armed. */
void loop_disarm(struct loop *l, struct loop_timer *t);

/** loop_stop() - Make loop_run() return @result. */
void loop_stop(struct loop *l, int result);

/**
 * loop_run() - Handle events until loop_stop()
 * @l: Loop
 *
 * Return: the argument of loop_stop(), or -errno if waiting failed.
 */
int loop_run(struct loop *l);

#endif
