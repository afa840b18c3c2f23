/* SPDX-License-Identifier: Apache-2.0 */
/* What a session and a job have alike. See front.h. */
#include "front.h"

#include <stdarg.h>

#include "audit.h"
#include "fs/request/clock.h"
#include "job.h"
#include "touch.h"

void front_init(struct front *f, struct session *s, struct job *job)
{
	*f = (struct front){.s = s, .job = job, .created = clock_now()};
	f->in_mtime = f->stdin_mtime = f->error_mtime = f->created;
	TAILQ_INIT(&f->inputs);
	TAILQ_INIT(&f->feeders);
	waitlist_init(&f->wait);
	f->waitlist = &f->wait;
}

/* It, or what it is of, is written down anew. */
static void mark(struct front *f)
{
	if (f->job)
		touch_job(f->job);
	else
		touch_head(f->s);
}

void front_clear(struct front *f)
{
	mark(f);
	if (f->latest)
		run_unref(f->latest);
	f->latest = NULL;
	buf_clear(&f->next_stdin);
	trail_changed(&f->stdin_trail);
	buf_clear(&f->last_code);
}

void front_fini(struct front *f)
{
	problem_keep(&f->error, NULL);
}

bool front_is_gone(const struct front *f)
{
	return f->s->dead || (f->job && f->job->removed);
}

bool front_input_pending(const struct front *f)
{
	struct handle *h;

	TAILQ_FOREACH(h, &f->inputs, input_link)
		if (h->dirty && h->text.len && !h->killed && !h->failed)
			return true;
	return false;
}

void front_problem(struct front *f, const struct problem *problem)
{
	problem_keep(&f->error, problem);
	audit_problem(f, problem);
	mark(f);
	f->config_error = false;
	f->error_mtime = clock_now();
}

void front_problemf(struct front *f, enum problem_code code, const char *fix, const char *cause,
		    ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	front_problem(f, &p);
}

int front_check_code(struct front *f, const struct run *r)
{
	if (!r || !r->code_lost)
		return 0;
	front_problemf(f, PROBLEM_DAMAGED,
		       "Run it again from a copy. It is tried again at the next mount.",
		       "the code of %s could not be read from state_dir", run_words(r).text);
	return -EIO;
}

int front_check_last_code(struct front *f)
{
	return front_check_code(f, f->code_lost ? f->latest : NULL);
}

void front_show(struct front *f, struct run *r, struct buf *code, const struct timespec *mtime)
{
	buf_clear(&f->last_code);
	f->last_code = *code;
	*code = (struct buf){0};
	f->code_lost = r->code_lost;
	f->in_mtime = *mtime;
	f->in_absent = false;
	if (f->latest)
		run_unref(f->latest);
	f->latest = run_ref(r);
	mark(f);
}

void front_bind(struct handle *h, struct run *r)
{
	struct run *old = h->r;

	handle_touch(h);
	h->r = r ? run_ref(r) : NULL;
	if (old)
		run_unref(old);
}

/* ---- standard input ---- */

/* The session's newest run that is not a named one, and has not ended. */
static struct run *newest(const struct session *s)
{
	struct run *r;

	TAILQ_FOREACH_REVERSE(r, &s->queue, run_list, queue)
		if (!r->named)
			return r;
	return s->active && !s->active->named ? s->active : NULL;
}

struct run *front_fed(const struct front *f)
{
	struct run *r = f->job ? f->latest : newest(f->s);

	return r && feed_is_open(&r->feed) ? r : NULL;
}

void front_join(struct front *f, struct run *r)
{
	struct handle *h;

	TAILQ_FOREACH(h, &f->feeders, input_link) {
		if (h->feeds && (h->r == r || feed_is_open(&h->r->feed)))
			continue; /* an earlier run is still reading from it, or its input was ended by `eof` */
		front_bind(h, r);
		h->feeds = true; /* front_bind() has touched it */
		feed_join(&r->feed);
		touch_run(r);
	}
}

void front_feed(struct front *f, struct run *r)
{
	feed_begin(&r->feed, &f->next_stdin);
	f->stdin_taken++;
	trail_changed(&f->stdin_trail);
	mark(f);
	touch_run(r);
	front_join(f, r);
}
