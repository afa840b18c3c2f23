/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and requests that wait for somebody's leave, and what was decided of others: net/pending, net/allowed, net/denied. */
#ifndef XSBX_FS_SESSION_QUESTION_H
#define XSBX_FS_SESSION_QUESTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "network.h"
#include "vm/base/buf.h"

#define QUESTIONS_OPEN_MAX 256u /* that wait at once; others are refused */
#define QUESTIONS_KEPT \
	64u /* of those that were allowed, and of those that were denied, the newest */

/* In which directory it is. */
enum question_state { QUESTION_OPEN, QUESTION_ALLOWED, QUESTION_DENIED, QUESTION_NSTATES };

/* How one was decided whose sandbox is gone. */
#define QUESTION_SANDBOX_GONE "nobody waits for it any more: the sandbox is gone"

struct session;

/*
 * - Its number is its name, and is not used again by the session.
 * - `id` is the sandbox's for it, as long as it is open: a sandbox that goes leaves none open.
 * - Texts are printable, and may be what code in the sandbox wants a reader to believe: they are shown as what was asked for.
 */
struct question {
	TAILQ_ENTRY(question) link;
	uint32_t number, id;
	enum question_state state;
	bool always;				/* a decision becomes a rule */
	bool lapsed;				/* denied because nobody decided it */
	int64_t asked_ms, until_ms, decided_ms; /* since 1970 */
	char *who; /* what went on in the session: "run 7", a line for each */
	char *method, *scheme, *host, *path;
	char *decided; /* how, and by whom; or NULL */
	uint16_t port;
	unsigned rule; /* see struct sandbox_asked */
	struct timespec mtime;
};

/* All zeroes, with an empty list, is none. */
struct questions {
	TAILQ_HEAD(question_list, question) list; /* as they were asked, or decided */
	unsigned n[QUESTION_NSTATES];
	uint32_t last;				 /* number of the newest that there was */
	struct timespec mtime[QUESTION_NSTATES]; /* of the directories */
	struct netlog_rate events;
};

/* All of them go. */
void question_fini(struct session *s);

/* Callbacks `asked` and `unasked` of the sandbox. */
void question_asked(struct session *s, const struct sandbox_asked *what);
void question_unasked(struct session *s, uint32_t id, unsigned why);
/* Its sandbox is gone: what waited is refused. */
void question_sandbox_gone(struct session *s);

struct question *question_find(const struct session *s, uint32_t number);

/* The newest of which nobody has decided that was asked while @who, "run 7", went on; or NULL. Its program may have gone since. */
const struct question *question_undecided(const struct session *s, const char *who);

/* It is allowed or denied by @uid; if it is for good, the rule is there already. */
void question_decide(struct session *s, struct question *q, bool allowed, uid_t uid);

/* A decided one is forgotten, an open one denied by @uid first. */
void question_forget(struct session *s, struct question *q, uid_t uid);

/* @q was read from a record, with result @e: it is the session's now, unless that is an error. Return: 0, @e or -EBADMSG. */
int question_revive(struct session *s, struct question *q, int e);

/* Will a decision become a rule? */
void question_set_always(struct session *s, struct question *q, bool always);

/**
 * question_rule() - The rule that a decision for good becomes
 * @q: Question
 * @allowed: The decision
 * @out: The rule is appended: `allow METHOD HOST:PORT/PATH`, or for a connection `allow * HOST:PORT`
 *
 * Return: 0; -EINVAL if no rule can name its method or path; -ENOMEM.
 */
int question_rule(const struct question *q, bool allowed, struct buf *out);

/* Appends what is asked for: "POST https://api.example.com/v1/x", or "tcp example.com 22". Return: as buf_append(). */
int question_what(const struct question *q, struct buf *out);
/* Appends why it is asked. Return: likewise. */
int question_why(const struct session *s, const struct question *q, struct buf *out);

const char *question_state_str(enum question_state state);

/* Bytes that it takes. */
size_t question_bytes(const struct question *q);

#endif
