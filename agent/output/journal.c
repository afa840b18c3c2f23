/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: reads both outputs of a run in the order in which they were written. */
#include "journal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"
#include "apart.h"
#include "records.h"
#include "stream.h"

/*
 * Theory of operation
 * -------------------
 * What lies in two pipes does not tell which of it came first, and with a second processor, or without priority, we
 * are not woken before the writer goes on. But there is one queue in the kernel that both pipes can write to: a pipe
 * that is read asynchronously (O_ASYNC) sends a signal at each write, and signals of one real-time number are queued,
 * each with the descriptor it is about. The signal is queued before write(2) returns. So whatever was written because
 * something else had been written (later in a program, or by its parent, once the child has ended) comes later in
 * that queue as well.
 *
 * It does not tell how much was written. So the pipes are made to keep writes apart (O_DIRECT): a read gets one write of at
 * most a page, and what is longer is in several, all but the last of them whole pages. What a read has no room for is
 * lost: stream.c sees to that.
 *
 * So: hear what was written, see how much there is (no more of it may be read, for what has come since belongs behind
 * records that have), take the records, for they are older, and then one write for each signal.
 *
 * What is not known:
 *	- which of two writes came first, if neither waited for the other;
 *	- where a write ends whose size is a multiple of a page: what follows in the same pipe is taken for a part of it;
 *	- where writes end that were no lines, among many in a row of one stream; and after more than 1024 of those,
 *	  which of them came before the other stream's first;
 *	- where writes end that come through a descriptor that user code has opened anew (/dev/stdout), or has taken
 *	  O_DIRECT from: the kernel puts those of one pipe together if they come before we have read the first;
 *	- which writes come next once a pipe was full (of 256 as a rule): who waits for room is told of when he begins
 *	  to wait, and once more when he has written;
 *	- what was written after so many others, unread, that there was no room for a signal (1024 in a jail). The kernel
 *	  then sends a plain SIGIO, and what is found without a signal is taken as it lies.
 *
 * Nor is what lies there for two ticks without a signal waited for any longer. As a rule its writer has lost the processor
 * between writing and telling, and will tell: that word then is taken for this write, and not for the next. If none
 * ever comes, the next write's will be, which then lies there without one; what is found so is taken for good.
 *
 * In each of these only the order of the two streams is concerned; that within a stream is the pipe's.
 *
 * A pipe that keeps writes apart needs a page for each. So it has to be a long one, and a program that writes many lines
 * in a row to one stream, or much at once, would fill it and wait for us, and each page would have to be read by itself.
 * Once many were found of one stream and none of the other, they are merged, as in any pipe, and read together. When
 * the other one is written, too, we know of how many writes came before, and take each for a line; and keep them apart
 * again. (O_DIRECT is a flag of the open file, so it is changed at an end of our own for all who have inherited it.)
 *
 * Of even more in a row we need not hear one by one: they are read at each tick, until there are none for some ticks, or
 * the other stream is written; what came to the one before we see that counts as older. A program that is not heard for
 * one tick only waits for a processor, as a rule, and to be told again of each write costs it half as much as the write.
 *
 * Otherwise a pipe is left alone for a tick, as streams are: whatever is written meanwhile will be known. The tick is a
 * shorter one while so much comes that a pipe might be full before.
 *
 * Who waits for signals of any number through a signalfd is woken by each signal of the process, and looks whether it is one
 * of his. So while much is written, the agent's other ones are not waited for, but looked for at each tick.
 *
 * In a machine with one processor we come before whoever writes, see stream.c, and nothing of this is needed.
 */

#define PAGE	   APART_PAGE
#define BUSY_MANY  256u	 /* writes in a tick, of which a pipe might get full */
#define BUSY_US	   250u	 /* the tick then */
#define CALM_TICKS 8u	 /* without a write, after which each is told of again */
#define ALONE_MANY 1024u /* writes in a row to one stream, of which each need not be told */
#define DRAIN_MANY 16u	 /* times JOURNAL_MAX: more than there are when a run ends */

static bool is_needed(const struct guest_env *env)
{
	return !env->guest || sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

static struct journal *listening; /* all that do */

void journal_init(struct journal *j, struct output *output)
{
	*j = (struct journal){.output = output, .src = {.fd = -1}};
	if (!is_needed(output->env))
		return;
	j->src.fd = apart_listen(&j->signal);
	if (j->src.fd < 0)
		return;
	j->next = listening;
	listening = j;
}

/* While much is written: who waits for any signal is woken by each. */
static void journal_hush(struct journal *j, bool on)
{
	struct loop_source *others = j->output->signals;

	if (!others || j->hushed == on)
		return;
	(void)loop_watch(j->output->loop, others, on ? 0 : EPOLLIN);
	j->hushed = on;
}

static void journal_set(struct journal *j, enum stream_state state)
{
	j->state = state;
	(void)loop_watch(j->output->loop, &j->src, state == STREAM_WATCHED ? EPOLLIN : 0);
	journal_hush(j, false);
}

/* The kernel could not tell of a write, nor does it say whose that was. Who waits to be told looks instead. */
static void journal_all_deaf(void)
{
	for (struct journal *j = listening; j; j = j->next) {
		j->deaf = true;
		if (j->state != STREAM_WATCHED)
			continue;
		journal_set(j, STREAM_QUIET);
		loop_arm(j->output->loop, &j->output->tick, STREAM_TICK_US);
	}
}

/* What one signal says. Anybody of our user may send some; only the kernel's have this code. @n counts those of each
 * stream: what is beyond the slots of its pipe has not been written yet, unless they are shared. */
static void journal_note(struct journal *j, const struct signalfd_siginfo *si, unsigned n[2])
{
	if (si->ssi_signo == SIGIO) {
		journal_all_deaf();
		return;
	}
	for (uint8_t i = 0; i < 2 && si->ssi_code == POLL_IN; i++) {
		const struct stream *s = &j->output->out[i];

		if (si->ssi_fd == s->src.fd && (n[i]++ < s->slots || s->merged))
			j->writes[j->n++] = i;
	}
}

/* Hears of more writes, if all that were known have been read. Return: are there any? */
static bool journal_hear(struct journal *j)
{
	static struct signalfd_siginfo si[JOURNAL_MAX];
	unsigned of[2] = {0, 0};
	ssize_t n;

	if (j->at < j->n)
		return true;
	j->at = j->n = 0;
	n = read(j->src.fd, si, sizeof(si));
	j->more = n == (ssize_t)sizeof(si);
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*si); i++)
		journal_note(j, &si[i], of);
	return j->n > 0;
}

/* Moves one write of at most *@avail bytes. Return: 0 or -errno. */
static int journal_move(struct stream *s, size_t *avail)
{
	while (*avail) {
		ssize_t n = stream_move(s, *avail);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return (int)n; /* 0: user code has read it */
		*avail -= (size_t)n;
		if (s->piece_sent == s->piece_len && s->piece_len % PAGE)
			break;
	}
	return 0;
}

/* Moves a line, or what there is of it; that is one write, as a rule. Return: as above. */
static int journal_move_line(struct stream *s, size_t *avail)
{
	while (*avail) {
		ssize_t n = stream_fill(s, *avail);
		const uint8_t *piece = s->piece + s->piece_sent;
		const uint8_t *end = n > 0 ? memchr(piece, '\n', (size_t)n) : NULL;

		if (n > 0)
			n = stream_move(s,
					MIN(*avail, end ? (size_t)(end + 1 - piece) : (size_t)n));
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		*avail -= (size_t)n;
		if (end && s->piece + s->piece_sent == end + 1)
			break;
	}
	return 0;
}

/* Moves all there is. @lines: add of how many lines, or NULL. Return: as above. */
static int journal_move_all(struct stream *s, size_t *avail, unsigned *lines)
{
	while (*avail) {
		ssize_t n = stream_sweep(s, *avail, lines);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		*avail -= (size_t)n;
	}
	return 0;
}

static bool has_to_wait(int r)
{
	return r == -EAGAIN || r == -ENOMEM;
}

/* Moves what was heard of. Return: 0, or -errno if some of it has to wait. */
static int journal_play(struct journal *j, size_t *avail[2])
{
	for (; j->at < j->n; j->at++) {
		const uint8_t i = j->writes[j->at];
		struct stream *s = &j->output->out[i];
		const size_t before = *avail[i];
		int r = 0;

		s->skipped = s->ahead || (s->skipped && !before);
		if (s->ahead)
			s->ahead--;
		else
			r = (s->merged ? journal_move_line : journal_move)(s, avail[i]);
		if (has_to_wait(r))
			return r;
	}
	return 0;
}

/* Moves all there is, write by write, of each of which the kernel may tell yet. Return: as above. */
static int journal_move_early(struct stream *s, size_t *avail)
{
	size_t before;
	int r;

	do {
		before = *avail;
		r = journal_move(s, avail);
		if (!has_to_wait(r) && *avail < before)
			s->ahead++;
	} while (r == 0 && *avail && *avail < before);
	return r;
}

/* Nobody tells of the rest, or not yet: moves all there is, in whatever order. Return: as above. */
static int journal_play_all(struct journal *j, size_t *avail[2])
{
	for (int i = 0; i < 2; i++) {
		struct stream *s = &j->output->out[i];
		const bool early = j->silent && !s->skipped && !s->merged;
		int r;

		if (!early)
			s->ahead = 0;
		r = early ? journal_move_early(s, avail[i]) : journal_move_all(s, avail[i], NULL);
		if (has_to_wait(r))
			return r;
		s->skipped = false;
	}
	j->deaf = false;
	return 0;
}

/* A stream was written alone: @n writes of @size bytes, which take so much room in a pipe that keeps them apart. */
static void journal_count(struct stream *s, unsigned n, size_t size)
{
	s->alone = MIN(s->alone + MAX(n, (unsigned)(size / PAGE)), ALONE_MANY);
	if (!s->merged && s->alone >= APART_MIN)
		s->merged = apart_keep(s, false);
	else if (s->merged && !s->muted && s->alone >= ALONE_MANY)
		apart_mute(s, true);
}

/* Of a stream that was written alone, and whose writes are merged: all there is, at once. Return: as above. */
static int journal_play_merged(struct journal *j, struct stream *s, unsigned n, size_t *avail)
{
	const size_t before = *avail;
	unsigned lines = 0;
	int r;

	j->at = j->n;
	r = journal_move_all(s, avail, &lines);
	s->ahead = s->ahead + lines > n ? s->ahead + lines - n : 0;
	journal_count(s, n, before - *avail);
	return has_to_wait(r) ? r : 0;
}

/* Of two, or of one whose writes are kept apart: what was heard of. Return: as above. */
static int journal_play_apart(struct journal *j, const unsigned n[2], size_t *avail[2])
{
	struct stream *out = j->output->out;
	int r = journal_play(j, avail);

	for (int i = 0; i < 2 && r == 0; i++) {
		unsigned lines = 0;

		if (!out[i].merged)
			continue;
		r = journal_move_all(&out[i], avail[i], &lines);
		out[i].ahead += lines;
		out[i].merged = n[!i] == 0;
		r = has_to_wait(r) ? r : 0;
	}
	return r;
}

/* Moves what was heard of, and sees how the pipes are to be used from now on. Return: as above. */
static int journal_play_batch(struct journal *j, const unsigned n[2], size_t *avail[2])
{
	const int one = !n[0];
	struct stream *s = &j->output->out[one];
	const size_t before = *avail[one];
	const unsigned at = j->at;
	int r;

	if (n[!one])
		return journal_play_apart(j, n, avail);
	if (s->merged)
		return journal_play_merged(j, s, n[one], avail[one]);
	r = journal_play_apart(j, n, avail);
	journal_count(s, j->at - at, before - *avail[one]);
	return r;
}

/* Moves what was written, as far as we hear of it at one time. Return: how many writes, or -errno if that has to
 * wait (STREAM_PAUSED). */
static int journal_take(struct journal *j)
{
	struct output *o = j->output;
	const bool some = journal_hear(j);
	const bool all = j->deaf && !some;
	const int count = (int)(j->n - j->at);
	bool muted[2] = {false, false};
	unsigned n[2] = {0, 0};
	size_t avail[2], before;
	int e = stream_catch_up(o);

	if (e < 0) {
		journal_set(j, STREAM_PAUSED);
		return e;
	}
	if (!some && !all)
		return 0;
	for (unsigned i = j->at; i < j->n; i++)
		n[j->writes[i]]++;
	for (int i = 0; i < 2; i++) {
		if (o->out[i].merged && n[!i])
			(void)apart_keep(&o->out[i], true);
		muted[i] = o->out[i].muted && n[!i];
		if (n[!i])
			o->out[i].alone = 0;
		if (muted[i])
			apart_mute(&o->out[i], false);
		avail[i] = stream_avail(&o->out[i]);
	}
	before = avail[0] + avail[1];
	e = records_take(&o->records);
	for (int i = 0; i < 2 && e >= 0; i++) {
		if (muted[i] && has_to_wait(journal_move_all(&o->out[i], &avail[i], NULL)))
			e = -EAGAIN;
	}
	if (e >= 0)
		e = all ? journal_play_all(j, (size_t *[]){&avail[0], &avail[1]})
			: journal_play_batch(j, n, (size_t *[]){&avail[0], &avail[1]});
	if (e >= 0)
		return all ? before > avail[0] + avail[1] : count;
	if (j->at == j->n)
		j->deaf = true; /* nobody will tell of the rest */
	journal_set(j, STREAM_PAUSED);
	return e;
}

/* @n writes were found. */
static void journal_rest(struct journal *j, int n)
{
	const struct stream *out = j->output->out;
	const bool merged = out[0].merged || out[1].merged;
	unsigned rate;

	if (n < 0)
		return;
	if (n > 0)
		j->calm = 0;
	/* Who is deaf would not be woken. */
	if (n >= (int)JOURNAL_MAX && !j->deaf) {
		journal_set(j, STREAM_WATCHED);
		return;
	}
	rate = (unsigned)n * (j->busy ? STREAM_TICK_US / BUSY_US : 1);
	j->busy = rate >= BUSY_MANY && !merged;
	journal_set(j, STREAM_QUIET);
	journal_hush(j, (merged || rate >= APART_MIN) && !out[0].muted && !out[1].muted);
	loop_arm(j->output->loop, &j->output->tick, j->busy ? BUSY_US : STREAM_TICK_US);
}

static void on_journal_ready(struct loop_source *src, uint32_t events)
{
	struct journal *j = container_of(src, struct journal, src);

	(void)events;
	journal_rest(j, journal_take(j));
}

void journal_watch(struct journal *j)
{
	struct signalfd_siginfo old[16];

	j->src.ready = on_journal_ready;
	while (read(j->src.fd, old, sizeof(old)) > 0)
		;
	j->at = j->n = 0;
	j->deaf = j->silent = j->busy = false;
	journal_rest(j, 0); /* what a short program writes goes out with its result */
}

/* Nothing has come since the last tick: soon each write is to be told of again. Return: was that so already? */
static bool journal_calm(struct journal *j)
{
	bool so = true;

	j->calm++;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &j->output->out[i];

		if (s->muted) {
			if (j->calm >= CALM_TICKS)
				apart_mute(s, false);
			so = false;
		} else if (!s->merged) {
			s->alone = 0;
		}
	}
	return so;
}

void journal_tick(struct journal *j)
{
	const struct stream *out = j->output->out;
	int n;

	if (j->state == STREAM_QUIET && j->hushed)
		j->output->signals->ready(j->output->signals, EPOLLIN); /* it may end the run */
	if (j->state != STREAM_QUIET)
		return;
	if (out[0].muted || out[1].muted)
		j->deaf = true;
	n = journal_take(j);
	if (n == 0 && stream_avail(&out[0]) + stream_avail(&out[1]) > 0) {
		/* Somebody has written and not got to telling so, or was taken for another: then nobody will. */
		j->deaf = j->silent;
		j->silent = true;
		journal_rest(j, n);
		return;
	}
	j->silent = false;
	if (n == 0 && journal_calm(j))
		journal_set(j, STREAM_WATCHED);
	else
		journal_rest(j, n); /* something may have come just before it was calm */
}

void journal_resume(struct journal *j)
{
	if (j->state == STREAM_PAUSED && !conn_full(j->output->conn))
		journal_rest(j, journal_take(j));
}

void journal_settle(struct journal *j)
{
	journal_set(j, STREAM_IDLE);
}

bool journal_drain(struct journal *j)
{
	struct stream *out = j->output->out;

	if (!apart_is_on(j->output))
		return true;
	/* All that the program has written was told of before it ended. What goes on behind it may tell us for ever, even
	 * if there is no room for what it writes. */
	for (unsigned n = 0; n < DRAIN_MANY && (out[0].drain_left || out[1].drain_left); n++) {
		const bool anew = j->at == j->n;

		if (!journal_hear(j))
			break;
		if (journal_play(j, (size_t *[]){&out[0].drain_left, &out[1].drain_left}) < 0)
			return false;
		if (anew && !j->more)
			break;
	}
	return true; /* what is left is of no known order */
}

void journal_fini(struct journal *j)
{
	struct journal **at = &listening;

	if (j->src.fd < 0)
		return;
	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	(void)loop_watch(j->output->loop, &j->src, 0);
	apart_deafen(&j->src.fd, j->signal);
}
