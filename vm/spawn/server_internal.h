/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's state, for its parts: server.c has the loop; server_birth.c, _heir.c, _legacy.c,
 * _requests.c, _revive.c and _words.c are named below, with what each has. */
#ifndef XSBX_VM_SPAWN_SERVER_INTERNAL_H
#define XSBX_VM_SPAWN_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "deaths.h"
#include "final.h"
#include "heir.h"
#include "held.h"
#include "hung.h"
#include "kids.h"
#include "server.h"
#include "vm/base/log.h"
#include "vm/base/ms.h"
#include "vm/base/unsent.h"
#include "vm/base/util.h"
#include "wire.h"

enum legacy_state {
	LEGACY_NONE,   /* nothing */
	LEGACY_COMING, /* an estate, to which not all is written yet, and a holder */
	LEGACY_COUNTS, /* all that another daemon needs */
	/* That was so, but the descriptors that it speaks of are nobody's but the daemon's: there is
	 * no holder, or another one that has not all yet. */
	LEGACY_UNHELD,
};

/* What a daemon leaves. */
struct legacy {
	enum legacy_state state;
	int estate;	    /* in memory; or -1 */
	pid_t holder;	    /* of its descriptors; or 0 */
	int holder_control; /* or -1 */
};

/* What is needed when the daemon dies. See server_revive.c. */
struct revival {
	int program;	      /* that the daemon runs, by O_PATH; or -1 */
	int conf;	      /* that it goes by, as it was read: sealed; or -1 */
	struct legacy legacy; /* the daemon's */
	struct legacy heirs;  /* of a daemon that is to take the mount over: NONE, COMING, UNHELD */
	int copy;	      /* of a dead one's estate, by an heir that goes on from it; or -1 */
	struct deaths deaths;
	bool due, last; /* there is to be another daemon, at: */
	int64_t at;
	char option[32];   /* what the next one is started with */
	unsigned refusals; /* one after the other, of heirs that can't go on; a death is none */
};

struct server {
	int sock, sigfd, told, lock;
	int cwd;	   /* where the mount was made from, by O_PATH */
	pid_t daemon;	   /* or 0, once it is reaped */
	int daemon_status; /* as from wait(2), then */
	struct held held;
	struct finals finals;
	struct unsent unsaid; /* notes for the daemon */
	struct kids kids;
	bool stop; /* the daemon said goodbye: what is guarded is in order */
	int patience_ms, end_ms;
	struct hung hung; /* by server_now() */
	size_t most_births;
	uint32_t about;	  /* id of what is being done, for the log */
	uint32_t last_id; /* the greatest that was asked for */
	struct heir heir;
	struct revival revival;
	bool abandoned; /* the guard is gone */
	const struct spawner_rules *rules;
	struct guarded *guarded;
};

static inline int64_t server_now(void)
{
	return ms_now(CLOCK_MONOTONIC);
}

/* ---- server_requests.c: what the daemon asks for ---- */

/* A request, or none. Return: false once the daemon's end is closed, or it has said goodbye. */
bool server_receive(struct server *s);

/* The daemon is gone: all that it has sent, as far as that concerns nobody else. */
void server_hear_rest(struct server *s);

/* ---- server_words.c: what it is told ---- */

/* A line of the log. @data: struct server. */
void server_say(void *data, enum log_level level, const char *text);

/* The lines that could not be said. */
void server_say_words(struct server *s);

#define SERVER_CROWDED_MS 200u /* for so long descriptors have to wait for others on their way */

/* News for it, now or when it has room, in order. Return: 0; -ENOBUFS: it does not read; or
 * -errno. */
int server_note(struct server *s, const struct spawn_note *note, const int *fds, size_t nfds);

/* All that was not said yet, as far as it can be now: notes, and the last words of children. */
void server_say_rest(struct server *s);

/* Is there anything? */
bool server_has_unsaid(struct server *s);

/* One's: that it has ended, or never began. */
void server_last_note(struct server *s, const struct spawn_note *note);

/* ---- server_birth.c: a child on its way ---- */

/* It is asked for, by this request behind the head. @job: its descriptors; what it does not take is
 * the caller's still. */
void server_judge(struct server *s, uint32_t id, const char *request, size_t len,
		  struct spawn_job *job);

/* Its program runs, or could not be run, or is not waited for any more, because of @given_up. */
void server_settle(struct server *s, struct kid *k, int given_up);

/* Those that have come to their end, or have taken too long; with @given_up all. */
void server_settle_all(struct server *s, int given_up);

/* ---- server_legacy.c: what it leaves ---- */

void server_legacy_init(struct server *s);

/* Is there all that another daemon needs? */
bool server_legacy_counts(const struct server *s);

/* There will be no other one. */
void server_legacy_end(struct server *s);

/* It is going to leave this, which is the callee's; -1: it did not arrive. Not @any: nothing, as of
 * now. */
void server_estate(struct server *s, int fd, bool any);

/* ... and if it dies from now on, it does, and the holder has its descriptors. */
void server_survives(struct server *s);

/* The holder does not hear. */
void server_unheld(struct server *s);

/* What an heir is going to leave, as soon as it is the daemon; likewise. Return: 0; -EMFILE: its
 * copy of what there was did not arrive, and it believes that it did. */
int server_heirs_estate(struct server *s, int fd, bool any);

/* Another one is the daemon, and has what is left. @taken_over: it has its own. */
void server_legacy_passes(struct server *s, bool taken_over);

/* This process has ended, by its number. */
void server_holder_reaped(struct server *s, pid_t pid);

/* There is no daemon any more: if there will be none for want of a holder, the guard says so. */
void server_legacy_tell(struct server *s);

/* ---- server_revive.c: a daemon that has died ---- */

void server_revival_init(struct server *s);

/* If the daemon has died, is there all that another one needs? */
bool server_can_revive(const struct server *s);

/* It has, and is gone. Return: whether there is to be another one. */
bool server_died(struct server *s);

/* The mount has been detached meanwhile, or is to be ended: the next one is not to be waited
 * for. */
bool server_is_urgent(const struct server *s);

/* What was to be the next one is not, because of: */
void server_revive_again(struct server *s, const char *words);

/* ... what it said itself, and will say again. */
void server_revive_refused(struct server *s, const char *words);

/* The next one has closed its end: how it ended, in words. */
void server_tell_end(const struct heir *h, char *words, size_t size);

/* Another one is the daemon. @taken_over: the one before it has not died. */
void server_revived(struct server *s, bool taken_over);

/* Is there a daemon, and a mount? */
static inline bool server_is_served(const struct server *s)
{
	return s->daemon && held_find(&s->held, HELD_CONNECTION) >= 0;
}

/* The spawner's own children. */
static inline struct kin server_kin(const struct server *s)
{
	return (struct kin){.daemon = s->daemon,
			    .heir = s->heir.state == HEIR_NONE ? 0 : s->heir.pid,
			    .holder = {s->revival.legacy.holder, s->revival.heirs.holder}};
}

/* ---- server_heir.c: another daemon ---- */

/* In a child, which may hang for long before its exec: closes what it has of its parent, whose
 * guard waits for the end of file, and of its elder siblings. Who has the reading end of one's
 * status pipe counts as its parent. */
void server_leave(const struct server *s);

/* The daemon stands still, having given all to the heir with this number: which may have been given
 * up meanwhile, and there may be another, who was given nothing. */
void server_yield(struct server *s, uint32_t number);

/* One that goes on where the last has died is due now. */
void server_revive_now(struct server *s);

/* @asked: there is something to be heard of heir_fd(). Return: whether the daemon stands still. */
bool server_tend_heir(struct server *s, bool asked);

#endif
