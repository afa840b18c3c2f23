/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed in this turn, and so is written down anew before anybody hears of it. */
#ifndef XSBX_FS_REQUEST_TOUCHED_H
#define XSBX_FS_REQUEST_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct turn;

/* What has records of its own. */
enum touched_kind {
	TOUCHED_SESSION,
	TOUCHED_REST,	 /* of a session: what changes seldom */
	TOUCHED_SANDBOX, /* ... its sandbox */
	TOUCHED_RUN,
	TOUCHED_JOB,
	TOUCHED_BLOCK,
	TOUCHED_SAVED, /* is only ever gone */
	TOUCHED_SCRATCH,
	TOUCHED_TEXT,	 /* likewise: see trail.h */
	TOUCHED_REMOVAL, /* from what is kept: fs/keep/ */
	TOUCHED_HANDLE,
	TOUCHED_FILES, /* what the kernel knows below files/ of a session */
	TOUCHED_NKINDS,
};

/* Embedded in an object, zeroed. */
struct touch {
	TAILQ_ENTRY(touch) link;
	bool on; /* it is in the list of its kind */
};

TAILQ_HEAD(touch_list, touch);

/* The name of something that is there no more: its records go. */
struct touched_gone {
	enum touched_kind kind;
	uint64_t key, id;
};

/*
 * Theory of operation
 * -------------------
 * What changes is to be written down before anybody hears of it (vm/base/turn.h). There are two
 * ways to say so, and one who asks:
 *
 * - Of an object in fs/ that has a record: it has a `struct touch`, and who changes it calls the
 *   function of its kind as often as it likes: touch_session() and its likes (fs/session/touch.h),
 *   handle_touch(), files_touch(). All of them come here.
 * - Of what is below vm/vm.h: each layer tells the one above by its callback `touched` (of
 *   channels, guests, gateways), and the last of these is a session's sandbox, whose session is
 *   touched. Nothing is remembered there.
 * - At the end of the turn fs/handover/ asks for the first of a kind until there is none, and
 *   writes each once.
 *
 * What is not here: which nodes and slots of a table have changed (fs/files/filenode.h, roster.h)
 * is noted by the table, and the table's owner is touched. What is to be on the disk
 * (fs/session/keeping.h) is another question, asked once a second.
 *
 * Without an estate nothing is noted. An object that is freed leaves its list, and its name among
 * those that are gone; these are dropped before anything is written, so that a name can be used
 * again.
 *
 * What has a record of its own and no number that would name it for ever has an `id`: one for each
 * in this mount, never used for another. It is given when a record is written first.
 */
struct touched {
	struct turn *turn; /* NULL: there is no estate */
	struct touch_list list[TOUCHED_NKINDS];
	struct touched_gone *gone;
	size_t ngone, cap;
	int failed; /* -ENOMEM: one that is gone could not be noted */
	uint64_t last_id;
};

/* @turn: or NULL. */
void touched_init(struct touched *t, struct turn *turn);
void touched_fini(struct touched *t);

/* Is anything noted at all? @t: or NULL, as below. */
bool touched_is_on(const struct touched *t);

/* The turn in which it is; NULL: there are none. */
struct turn *touched_turn(const struct touched *t);

/* @t: or NULL, of what belongs to no mount. */
void touched_add(struct touched *t, enum touched_kind kind, struct touch *what);
/* It was written, or is about to be freed: it is in no list now. */
void touched_take(struct touched *t, enum touched_kind kind, struct touch *what);
/* Return: the first of this kind, or NULL. */
struct touch *touched_first(const struct touched *t, enum touched_kind kind);
/* There are no records of this any more. */
void touched_add_gone(struct touched *t, enum touched_kind kind, uint64_t key, uint64_t id);

/* Gives it an id, if it has none. Return: it. */
uint64_t touched_id(struct touched *t, uint64_t *id);
/* It was read: no other gets it. */
void touched_has_id(struct touched *t, uint64_t id);

#endif
