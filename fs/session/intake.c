/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out of a sandbox, taken in. See intake.h. */
#include "intake.h"

#include <string.h>

#include "fs.h"
#include "job.h"
#include "quota.h"

void intake_console(struct session *s, const void *bytes, size_t len)
{
	struct buf *b = &s->console;

	if (len > SESSION_CONSOLE_MAX) {
		bytes = (const char *)bytes + (len - SESSION_CONSOLE_MAX);
		len = SESSION_CONSOLE_MAX;
	}
	if (b->len + len > 2 * SESSION_CONSOLE_MAX) {
		size_t cut = b->len - MIN(b->len, (size_t)SESSION_CONSOLE_MAX / 2);

		memmove(b->data, b->data + cut, b->len - cut);
		b->len -= cut;
		s->console_cut += cut;
	}
	if (buf_append(b, bytes, len) < 0)
		s->console_lost = true;
	s->console_mtime = clock_now();
}

struct run *intake_run(struct session *s, uint32_t id, struct front **ret_f)
{
	struct job *j = sandbox_is_job(id) ? job_by_id(s, id) : NULL;

	if (j) {
		*ret_f = &j->front;
		return j->inside && job_going(j) ? j->front.latest : NULL;
	}
	*ret_f = &s->front;
	return s->active && s->active->id == id ? s->active : NULL;
}

/* What prints faster than the disk writes has to wait; not so if writing fails, for that may be for good. */
static void check_pace(struct session *s, const struct run *r)
{
	const bool hold = s->fs->depot.err == 0 && run_is_behind(r);

	if (!s->sandbox)
		return;
	if (sandbox_is_job(r->id))
		sandbox_job_hold(s->sandbox, r->id, hold);
	else
		sandbox_hold(s->sandbox, hold);
}

static void check_paces(struct session *s)
{
	const struct job *j;

	if (s->active)
		check_pace(s, s->active);
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->inside && job_going(j))
			check_pace(s, j->front.latest);
}

void intake_relieved(void *data)
{
	struct fs *fs = data;

	for (unsigned i = 0; i < fs->roster.n; i++)
		if (roster_at(&fs->roster, i))
			check_paces(roster_at(&fs->roster, i));
}

/* Return: whether something of this run is lost from now on. */
static bool keep_output(struct session *s, struct run *r, enum vm_stream stream, const void *bytes,
			size_t len)
{
	const bool had_lost = run_lost(r);

	struct problem why;

	if (run_wants_disk(r, stream, len) &&
	    (quota_disk_full(s->fs, s->uid) || quota_disk(s->fs, s->uid, len, &why) < 0))
		run_stop_keeping(r, stream, -EDQUOT);
	run_output(r, stream, bytes, len);
	return run_lost(r) && !had_lost;
}

void intake_output(struct session *s, uint32_t id, enum vm_stream stream, const void *bytes,
		   size_t len)
{
	struct problem loss;
	struct front *f;
	struct run *r = intake_run(s, id, &f);

	if (!r)
		return;
	if (keep_output(s, r, stream, bytes, len)) {
		run_lost_problem(r, &loss);
		front_problem(f, &loss);
		events_add(&s->fs->events, s, "output", loss.cause);
	}
	check_pace(s, r);
	s->fs->stats.output_bytes += len;
	wait_wake(&f->wait);
}
