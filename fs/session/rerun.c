/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of runs: what is known of them. See rerun.h. */
#include "rerun.h"

#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "session.h"
#include "touch.h"

/* ---- whose ---- */

/* The session that has the run, or NULL: it has gone. */
struct session *rerun_source(const struct session *copy)
{
	return session_by_slot(copy->fs, copy->rerun->slot, copy->rerun->generation);
}

/* The run, if somebody still wants its replay; or NULL. */
struct run *rerun_wanted(const struct session *copy)
{
	struct session *s = rerun_source(copy);
	struct run *r = s ? session_run(s, copy->rerun->number) : NULL;

	return r && r->rerun.going ? r : NULL;
}

/* ---- results ---- */

/* @text is the result. */
void rerun_finish(struct session *s, struct run *r, const char *verdict, const char *text,
		  size_t len)
{
	struct buf *out = &r->rerun.text;
	char words[96];

	buf_clear(out);
	out->limit = RERUN_TEXT_MAX;
	(void)buf_printf(out, "%s\n", verdict);
	(void)buf_append(out, text, len);
	r->rerun.going = false;
	touch_run(r);
	touch_session(s);
	snprintf(words, sizeof(words), "run %u: %s", r->number, verdict);
	events_add(&s->fs->events, s, "replay", words);
	wait_wake(&s->front.wait);
}

void rerun_fail(struct session *s, struct run *r, const char *why)
{
	char text[1400];

	snprintf(text, sizeof(text), "cause: %s\n", why);
	rerun_finish(s, r, "failed", text, strlen(text));
}

int rerun_words(const struct run *r, struct buf *out)
{
	if (r->rerun.text.len)
		return buf_append(out, r->rerun.text.data, r->rerun.text.len);
	return buf_printf(
		out,
		"none\nnote: echo 'replay %u' > ctl runs it once more, as a session of its "
		"own; then this waits for it, and says what came of it\n",
		r->number);
}

void rerun_gone(struct session *copy)
{
	struct run *r = rerun_wanted(copy);
	char text[300];

	if (copy->rerun->loading)
		wait_cancel(&copy->rerun->load);
	copy->rerun->loading = false;
	if (!r)
		return;
	snprintf(text, sizeof(text), "the session %s, in which it ran, was removed", copy->path);
	rerun_fail(rerun_source(copy), r, text);
}

void rerun_cancel(struct session *s, const char *why)
{
	struct run *r;

	TAILQ_FOREACH(r, &s->runs, link)
		if (r->rerun.going)
			rerun_fail(s, r, why);
}

/* ---- input ---- */

void rerun_note_input(struct run *r, const void *data, size_t len)
{
	if (r->input_lost || !len)
		return;
	if (r->input.len + len <= RERUN_INPUT_MAX && buf_append(&r->input, data, len) == 0)
		return;
	r->input_lost = true;
	buf_clear(&r->input);
}
