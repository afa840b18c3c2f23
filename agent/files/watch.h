/* SPDX-License-Identifier: Apache-2.0 */
/* The working directory, watched: what changes in it is told to the host. */
#ifndef XSBX_AGENT_FILES_WATCH_H
#define XSBX_AGENT_FILES_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "watchdir.h"
#include "agent/core/loop.h"
#include "agent/protocol.h"

struct conn;
struct frame;

/*
 * Theory of operation
 * -------------------
 * inotify(7) watches directories, not trees: each directory has a watch, and one that comes later
 * gets one when its creation is read. What was made in it before that is found by looking; so it
 * may be told twice, but not missed. Looking at a tree takes long: some directories at a time,
 * between which everything else goes on. The first ones are looked at before anything else is done
 * that the host asks for; if those are not all, OVERFLOW comes before WATCHING, for code may have
 * begun meanwhile.
 *
 * Both halves of a rename follow each other in the kernel's queue, so at most one is without the
 * other: `half`. If the next event is not its other half, or none comes, the name has left the
 * tree.
 *
 * After something was read the kernel has some milliseconds to make one event of equal ones, as
 * each write is one; unless an answer or the end of a run is to be sent, before which all is told.
 *
 * Nothing is read while the connection is full. Then the kernel's queue may overflow. What was made
 * of it is lost, also directories; so all is begun anew, and OVERFLOW is told when that is done:
 * who looks then, and not before, has seen all. If it overflows while directories are still looked
 * at, those come first, or it might never come to an end; OVERFLOW and WATCHING are told then, for
 * who waits, and OVERFLOW once more when all was begun anew.
 *
 * What cannot be told, for its path is too long, is OVERFLOW alone: to begin anew would find the same.
 */
struct watch {
	struct loop *loop;
	struct conn *conn;
	int root;		   /* the working directory */
	struct loop_source notify; /* inotify; -1: nobody watches */
	struct loop_timer look;	   /* goes on with the directories that are to be looked at */
	struct loop_timer alone;   /* the other half does not come */
	struct loop_timer rest;	   /* until then nothing is read */
	struct watchdirs dirs;
	bool beginning; /* WATCHING is told when all was looked at */
	bool missed;	/* OVERFLOW is; or both, and that first */
	bool anew;	/* some directories are not known, or not where they are */
	bool paused;	/* the connection was full */
	bool many;	/* more directories than can be watched; that was told */
	struct {
		bool is_there, dir;
		uint32_t cookie;
		int wd; /* of its directory */
		char name[PROTO_NAME_MAX + 1];
	} half;
	struct frame *batch; /* of CHANGED, not sent yet; or NULL */
	size_t last;	     /* offset there of the newest entry */
};

/**
 * watch_init() - Initialize one that does not watch
 * @w: Watch, zeroed
 * @loop: Where it waits
 * @conn: Whom it tells
 * @root: Descriptor of the working directory; stays the caller's
 */
void watch_init(struct watch *w, struct loop *loop, struct conn *conn, int root);

/** watch_set() - Watch, from now on, or no more; or begin anew. What fails is told to the host. */
void watch_set(struct watch *w, bool on);

/** watch_is_on() - Does it watch? */
bool watch_is_on(const struct watch *w);

/** watch_drain() - Tell what has happened so far, before something else is told. */
void watch_drain(struct watch *w);

/** watch_resume() - The connection has room again. */
void watch_resume(struct watch *w);

#endif
