/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's state, for its parts: server.c has the loop; server_birth.c, _heir.c, _legacy.c,
 * _requests.c, _revive.c and _words.c are named below, with what each has. */
#ifndef XSBX_VM_SPAWN_SERVER_INTERNAL_H
#define XSBX_VM_SPAWN_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "deaths.h"
#include "final.h"
#include "heir.h"
#include "held.h"
#include "hung.h"
#include "kids.h"
#include "server.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "wire.h"

/* What a daemon leaves. */
struct legacy {
	int estate;	    /* in memory; or -1: nothing */
	pid_t holder;	    /* of its descriptors; or 0 */
	uint32_t number;    /* the holder's */
	int holder_control; /* or -1 */
};

/* What is needed when the daemon dies. See server_revive.c. */
struct revival {
	bool able;	      /* there is an estate, and all else */
	int program;	      /* that the daemon runs, by O_PATH; or -1 */
	int conf;	      /* that it goes by, as it was read: sealed; or -1 */
	struct legacy legacy; /* what counts */
	struct legacy coming; /* to which not all is written yet */
	struct legacy heirs;  /* likewise, of a daemon that is to take the mount over */
	/* There was, but the descriptors that it speaks of are nobody's but the daemon's. */
	bool unheld;
	bool holder_due; /* what is coming has none; there is to be one, at: */
	int64_t holder_at;
	uint32_t holders; /* that were started */
	struct deaths holder_deaths;
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

#define SERVER_CROWDED_MS 200u /* for so long descriptors have to wait for others on their way */

/* News for the daemon. Return: 0 or -errno. */
static inline int server_note(struct server *s, const struct spawn_note *note, const int *fds,
			      size_t nfds)
{
	return only_errno(fdpass_send_patiently(s->sock, note, sizeof(*note), fds, nfds, 0,
						SERVER_CROWDED_MS));
}

static inline int64_t server_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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

/* The last words of children, as far as they were not said yet, and can be now. */
void server_say_finals(struct server *s);

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

/* It is going to leave this, which is the callee's; -1: it did not arrive. Not @any: nothing, as of
 * now. */
void server_estate(struct server *s, int fd, bool any);

/* ... and if it dies from now on, it does, and the holder of this number has its descriptors. */
void server_survives(struct server *s, uint32_t number);

/* What an heir is going to leave, as soon as it is the daemon; likewise. Return: 0; -EMFILE: its
 * copy of what there was did not arrive, and it believes that it did. */
int server_heirs_estate(struct server *s, int fd, bool any);

/* Another one is the daemon, and has what is left. @taken_over: it has its own. */
void server_legacy_passes(struct server *s, bool taken_over);

/* This process has ended, by its number. */
void server_holder_reaped(struct server *s, pid_t pid);

/* The daemon says that the holder of this number does not hear; @crowded: that it could not be
 * told, for which that can do nothing. */
void server_holder_deaf(struct server *s, uint32_t number, bool crowded);

/* There is no daemon any more: if there will be none for want of a holder, the guard says so. */
void server_legacy_tell(struct server *s);

/* There is none, and there is to be one; at `holder_at`. */
bool server_holder_is_due(const struct server *s);
void server_holder_again(struct server *s);

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

/* Another one is the daemon. @taken_over: it has left nothing yet. */
void server_revived(struct server *s, bool taken_over);

/* The spawner's own children. */
static inline struct kin server_kin(const struct server *s)
{
	return (struct kin){.daemon = s->daemon,
			    .heir = s->heir.state == HEIR_NONE ? 0 : s->heir.pid,
			    .holder = {s->revival.legacy.holder, s->revival.coming.holder,
				       s->revival.heirs.holder}};
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
