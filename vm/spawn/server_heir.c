/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part when another daemon follows. See heir.h. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "guard.h"
#include "holder.h"
#include "server_internal.h"
#include "vm/base/log.h"
#include "vm/jail/cgroup.h"
#include "vm/jail/source.h"

#define IDS_BETWEEN 0x10000u /* more than a daemon asks for while its heir begins */

void server_leave(const struct server *s)
{
	const struct revival *v = &s->revival;
	const int fds[] = {
		s->told,
		s->lock,
		s->cwd,
		v->program,
		v->conf,
		v->legacy.estate,
		v->legacy.holder_control,
		v->heirs.estate,
		v->heirs.holder_control,
		v->copy,
	};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	heir_leave(&s->heir);
	held_leave(&s->held);
	unsent_leave(&s->unsaid);
	for (size_t i = 0; i < s->kids.n; i++) {
		if (s->kids.item[i].birth)
			close(s->kids.item[i].birth->status);
	}
}

void server_yield(struct server *s, uint32_t number)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_RESUME};

	if (s->heir.state == HEIR_STARTING && number == s->heir.number)
		heir_loads(&s->heir, server_now());
	else
		(void)server_note(s, &note, NULL, 0);
}

static void leave_for_heir(const void *data)
{
	server_leave(data);
}

/* What all heirs are given. */
static struct heir_gift gift_for(const struct server *s)
{
	return (struct heir_gift){
		.rules = s->rules,
		.cwd = s->cwd,
		.held = &s->held,
		.welcome = {HEIR_MAGIC, SPAWN_VERSION, s->last_id + IDS_BETWEEN,
			    jail_instance_id()},
		.program = -1,
		.estate = -1,
		.holder = -1,
		.conf = -1,
		.leave = leave_for_heir,
		.data = s,
	};
}

void server_revive_now(struct server *s)
{
	_cleanup_close_ int holder = holder_admit(s->revival.legacy.holder_control);
	struct heir_gift gift = gift_for(s);
	int r = holder;

	s->revival.due = false;
	snprintf(s->revival.option, sizeof(s->revival.option), "%s:%d",
		 s->revival.last ? HEIR_OPTION_LAST : HEIR_OPTION_REVIVE,
		 WIFSIGNALED(s->daemon_status) ? WTERMSIG(s->daemon_status) : 0);
	gift.option = s->revival.option;
	gift.program = s->revival.program;
	gift.estate = s->revival.legacy.estate;
	gift.holder = holder;
	gift.conf = s->revival.conf;
	if (r >= 0)
		r = heir_revive(&s->heir, &gift, server_now());
	if (r < 0)
		server_revive_again(s, strerror(-r));
}

/* Perhaps somebody wants the mount to be taken over. */
static void begin_heir(struct server *s)
{
	const struct heir_gift gift = gift_for(s);
	_cleanup_close_ int fd = heir_start(&s->heir, &gift, server_now());
	const struct spawn_note note = {.op = SPAWN_NOTE_HEIR, .id = s->heir.number};

	if (fd >= 0 && server_note(s, &note, &fd, 1) < 0)
		heir_end(&s->heir, "the daemon does not answer");
}

/* It is not to be: the daemon goes on. */
static void disinherit(struct server *s, const char *words)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_RESUME};
	const bool stands = s->heir.state == HEIR_LOADING && !s->heir.revives;
	const bool refused = s->heir.refused;
	char why[HEIR_WORDS_MAX];

	snprintf(why, sizeof(why), "%s", words); /* they may be its own */
	if (s->heir.ended && s->heir.revives)
		server_tell_end(&s->heir, why, sizeof(why));
	heir_end(&s->heir, why);
	(void)server_heirs_estate(s, -1, false);
	for (size_t i = 0; i < s->kids.n; i++)
		s->kids.item[i].claimed = false;
	if (stands)
		(void)server_note(s, &note, NULL, 0);
	else if (!s->daemon && refused)
		server_revive_refused(s, why);
	else if (!s->daemon)
		server_revive_again(s, why);
}

/* Does anybody know this child still, or is there anything to be heard of it? */
static bool is_known(const void *data, uint32_t id)
{
	const struct server *s = data;

	return kids_of(&s->kids, id) || final_has(&s->finals, id);
}

/* The heir is the daemon from here on. The other one, if there is one, stands still, and is not
 * needed for anything any more. */
static void succeed(struct server *s)
{
	struct spawn_note note = {.op = SPAWN_NOTE_SUCCEED};
	const bool taken_over = !s->heir.revives;
	const pid_t former = s->daemon;

	if (former) /* else it has died meanwhile */
		kill(former, SIGKILL);
	if (s->sock >= 0)
		close(s->sock);
	unsent_clear(&s->unsaid);
	s->sock = s->heir.sock;
	s->daemon = s->heir.pid;
	s->last_id += IDS_BETWEEN;
	heir_succeeds(&s->heir, former);
	jail_instance_begin(s->daemon);
	jail_source_patience(s->patience_ms, s->sock);
	note.status = guard_follow(s->guarded, s->daemon);
	(void)server_note(s, &note, NULL, 0);
	server_revived(s, taken_over);
	log_info("process %d has taken the mount over", (int)s->daemon);
	kids_inherit(&s->kids);
	held_sift(&s->held, HELD_ENDS, is_known, s);
	final_unsay(&s->finals);
}

/* One that it knows, and nobody else does any more: it is told that it has ended. Return: 0 or
 * -ENOMEM. */
static int claim_lost(struct server *s, uint32_t id)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_EXITED, .id = id, .status = SIGKILL};

	return final_has(&s->finals, id) ? 0 : final_add(&s->finals, &note);
}

/* Return: what becomes of that. */
static enum heir_word take_estate(struct server *s, int fd, bool any)
{
	if (server_heirs_estate(s, fd, any) == 0)
		return HEIR_LEAVES;
	snprintf(s->heir.words, sizeof(s->heir.words),
		 "there was no descriptor left for what the new process leaves");
	return HEIR_OVER;
}

static void hear_heir(struct server *s)
{
	enum heir_word word = HEIR_CLAIMS;
	struct kid *k;
	uint32_t id = 0;
	int fd = -1;

	while (word == HEIR_CLAIMS || word == HEIR_LEAVES) {
		word = heir_hear(&s->heir, server_now(), &id, &fd);
		if (word == HEIR_LEAVES)
			word = take_estate(s, steal_fd(&fd), id != 0);
		k = word == HEIR_CLAIMS ? kids_of(&s->kids, id) : NULL;
		if (k && !k->birth)
			k->claimed = true;
		else if (word == HEIR_CLAIMS && !k && claim_lost(s, id) < 0)
			word = HEIR_OVER;
	}
	if (word == HEIR_READY && !s->heir.pid) { /* it said so, and died, and was reaped */
		s->heir.ended = true;
		snprintf(s->heir.words, sizeof(s->heir.words), "the new process ended");
		word = HEIR_OVER;
	}
	if (word == HEIR_READY)
		succeed(s);
	else if (word == HEIR_OVER)
		disinherit(s, s->heir.words);
}

bool server_tend_heir(struct server *s, bool asked)
{
	const bool late = server_now() >= heir_until(&s->heir, server_is_served(s));

	if (s->heir.state == HEIR_NONE && (asked || late))
		begin_heir(s);
	else if (s->heir.state != HEIR_NONE && asked)
		hear_heir(s);
	if (s->heir.state != HEIR_NONE && server_now() >= s->heir.until)
		disinherit(s,
			   s->heir.state == HEIR_LOADING
				   ? "the new process did not get on, or not become ready in time"
				   : "the two processes did not agree on a moment in time");
	return s->heir.state == HEIR_LOADING;
}
