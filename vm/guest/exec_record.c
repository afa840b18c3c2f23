/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and jobs in a record. See exec_record.h. */
#include "exec_record.h"

#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "vm/base/record_table.h"

#define TICKETS_MAX (UINT64_MAX / 2)
#define BEATS_MAX   (1u << 24)

/* Never reuse one. */
enum {
	TAG_ID = 1,
	TAG_TICKET,
	TAG_KILLING,
	TAG_PLACE,
	TAG_TIMEOUT_MS,
	TAG_SEQUENCE,
	TAG_LIMIT_OUT,
	TAG_LIMIT_ERR,
	TAG_GOT_OUT,
	TAG_GOT_ERR,
	TAG_CREDIT,
	TAG_CONSUMED,
	TAG_HELD,
	TAG_LATE,
	TAG_STDIN_OPEN,
	TAG_STDIN_WAITS,
	TAG_STDIN_CREDIT,
	TAG_OOM_KILLS,
	TAG_REACHED,
	TAG_SETTLED,
	TAG_OUTCOME,
	/* Of jobs. */
	TAG_ENDED = 40,
	TAG_FORGOTTEN,
	TAG_UNTOLD,
	TAG_SHOT,
	TAG_BEATS_LEFT,
};

#define EXEC(member, tag, max) RECORD_MEMBER(struct exec, member, tag, max)
#define JOB(member, tag)       RECORD_MEMBER(struct guest_job, member, tag, 1)

static const struct record_member members[] = {
	EXEC(id, TAG_ID, PROTO_JOB_LAST),
	EXEC(ticket, TAG_TICKET, TICKETS_MAX),
	EXEC(killing, TAG_KILLING, 1),
	EXEC(place, TAG_PLACE, 1),
	EXEC(timeout_ms, TAG_TIMEOUT_MS, UINT32_MAX),
	EXEC(sequence, TAG_SEQUENCE, UINT32_MAX),
	EXEC(limit[VM_STDOUT], TAG_LIMIT_OUT, UINT64_MAX),
	EXEC(limit[VM_STDERR], TAG_LIMIT_ERR, UINT64_MAX),
	EXEC(got[VM_STDOUT], TAG_GOT_OUT, UINT64_MAX),
	EXEC(got[VM_STDERR], TAG_GOT_ERR, UINT64_MAX),
	EXEC(credit, TAG_CREDIT, EXEC_WINDOW),
	EXEC(consumed, TAG_CONSUMED, EXEC_WINDOW),
	EXEC(held, TAG_HELD, 1),
	EXEC(late, TAG_LATE, 1),
	EXEC(stdin_open, TAG_STDIN_OPEN, 1),
	EXEC(stdin_waits, TAG_STDIN_WAITS, 1),
	EXEC(stdin_credit, TAG_STDIN_CREDIT, EXEC_WINDOW),
	EXEC(oom_kills, TAG_OOM_KILLS, UINT64_MAX),
	EXEC(reached, TAG_REACHED, VM_REACHED_FILES | VM_REACHED_INODES | VM_REACHED_PROCESSES),
	EXEC(settled, TAG_SETTLED, 1),
	EXEC(outcome, TAG_OUTCOME, VM_NOUTCOMES - 1),
};

static const struct record_member job_members[] = {
	JOB(ended, TAG_ENDED),
	JOB(forgotten, TAG_FORGOTTEN),
	JOB(untold, TAG_UNTOLD),
	JOB(shot, TAG_SHOT),
};

void exec_put(const struct guest *g, struct buf *out, unsigned tag)
{
	size_t at;

	if (!g->exec.id)
		return;
	at = record_open(out, tag);
	record_put_members(out, &g->exec, members, ARRAY_SIZE(members));
	record_close(out, at);
}

void jobs_put(const struct guest *g, struct buf *out, unsigned tag)
{
	const struct guest_job *j;

	TAILQ_FOREACH(j, &g->jobs, link) {
		const size_t at = record_open(out, tag);

		record_put_members(out, &j->exec, members, ARRAY_SIZE(members));
		record_put_members(out, j, job_members, ARRAY_SIZE(job_members));
		/* Beats are counted by each daemon for itself. */
		if (j->overdue)
			record_u64(out, TAG_BEATS_LEFT,
				   j->overdue > g->all->beats ? j->overdue - g->all->beats : 1);
		record_close(out, at);
	}
}

static bool is_sound(const struct exec *x)
{
	for (int i = 0; i < VM_NSTREAMS; i++)
		if (x->got[i] > x->limit[i])
			return false;
	return x->id && x->ticket && x->credit + x->consumed <= EXEC_WINDOW;
}

int exec_take(struct guest *g, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct record_field f;
	struct exec x = {0};
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = record_take_member(&f, &x, members, ARRAY_SIZE(members));
		if (n < 0)
			return n;
	}
	if (n < 0 || !of->is_bytes || g->exec.id || !is_sound(&x) || sandbox_is_job(x.id))
		return -EBADMSG;
	g->exec = x;
	g->label.run = x.id;
	g->trace.run = x.id;
	g->trace.asked = log_now();
	return 0;
}

static int take_job_field(struct guest *g, struct guest_job *j, const struct record_field *f)
{
	uint64_t beats;
	int n;

	if (f->tag == TAG_BEATS_LEFT) {
		n = record_get(f, 1, BEATS_MAX, &beats);
		j->overdue = n == 0 ? g->all->beats + beats : 0;
		return n;
	}
	n = record_take_member(f, j, job_members, ARRAY_SIZE(job_members));
	return n ? n : record_take_member(f, &j->exec, members, ARRAY_SIZE(members));
}

int job_take(struct guest *g, const struct record_field *of)
{
	struct guest_job *j = g->njobs < PROTO_JOBS_MAX ? calloc(1, sizeof(*j)) : NULL;
	struct record_reader r = record_inside(of);
	struct record_field f;
	int n;

	if (!j)
		return g->njobs < PROTO_JOBS_MAX ? -ENOMEM : -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		n = take_job_field(g, j, &f);
		if (n < 0)
			break;
	}
	if (n < 0 || !of->is_bytes || !is_sound(&j->exec) || !proto_is_job(j->exec.id) ||
	    guest_job_find(g, j->exec.id)) {
		free(j);
		return -EBADMSG;
	}
	TAILQ_INSERT_TAIL(&g->jobs, j, link);
	g->njobs++;
	return 0;
}
