/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner tells the daemon, or the next one: notes, lines of the log, and the last words of
 * its children. It waits for no daemon that does not read: what there is no room for is said later. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guarded.h"
#include "server_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"

#define UNSAID_MOST 256u /* beyond that the daemon is not the one that it was */

/* The guard has them as well, and says what no daemon was told. The first are those that tell
 * most. */
static void keep_word(struct server *s, const struct spawn_note *note)
{
	struct guarded *g = s->guarded;
	const unsigned n = atomic_load(&g->nwords);

	if (n >= (note->step > LOG_LEVEL_WARN ? GUARDED_WORDS / 2 : GUARDED_WORDS))
		return;
	g->word[n] = *note;
	atomic_store(&g->nwords, n + 1);
}

void server_say_words(struct server *s)
{
	const unsigned n = atomic_exchange(&s->guarded->nwords, 0);

	for (unsigned i = 0; i < n; i++)
		(void)server_note(s, &s->guarded->word[i], NULL, 0);
}

/* The daemon writes it, or the next one. It is nothing to wait for: one that has no room is
 * lost. */
void server_say(void *data, enum log_level level, const char *text)
{
	struct server *s = data;
	struct spawn_note note = {
		.op = SPAWN_NOTE_LOG, .id = s->about, .step = level, .at = log_now()};
	ssize_t r;

	snprintf(note.what, sizeof(note.what), "%s", text);
	r = s->daemon ? fdpass_send(s->sock, &note, sizeof(note), NULL, 0, MSG_DONTWAIT) : -EPIPE;
	if (r < 0 && r != -EAGAIN)
		keep_word(s, &note);
}

int server_note(struct server *s, const struct spawn_note *note, const int *fds, size_t nfds)
{
	int r = s->daemon ? -EAGAIN : -EPIPE;

	if (r == -EAGAIN && !s->unsaid.n)
		r = only_errno(fdpass_send_patiently(s->sock, note, sizeof(*note), fds, nfds,
						     MSG_DONTWAIT, SERVER_CROWDED_MS));
	if (r != -EAGAIN)
		return r;
	return s->unsaid.n < UNSAID_MOST ? unsent_keep(&s->unsaid, note, sizeof(*note), fds, nfds)
					 : -ENOBUFS;
}

/* If the daemon is gone, its end of file says so soon enough. That a child has begun is told before
 * its end. */
void server_say_rest(struct server *s)
{
	struct final *f;

	if (unsent_send(&s->unsaid, s->sock) < 0)
		return;
	while ((f = final_unsaid(&s->finals))) {
		if (fdpass_send(s->sock, &f->note, sizeof(f->note), NULL, 0, MSG_DONTWAIT) < 0)
			break;
		f->said = true;
	}
}

/* If this were lost, the daemon would wait for it for ever; but the end of the spawner it notices,
 * and knows what is to be done then. */
void server_last_note(struct server *s, const struct spawn_note *note)
{
	if (final_add(&s->finals, note) < 0)
		_exit(1);
	server_say_rest(s);
}

bool server_has_unsaid(struct server *s)
{
	return s->unsaid.n || final_unsaid(&s->finals);
}
