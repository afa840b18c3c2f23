/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a run's code: short as it is, long by how long it is. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

/*
 * A run's code does not change, and a session's record is written anew for whatever does. So at rest long code has a file of its own,
 * and a record without it. Live it is in a record that is written once (keep_put_asked()).
 *
 * Code that can't be brought back is lost for this mount, not for ever: the record goes on naming its file, and the next mount tries
 * again.
 */

enum { CODE_LEN = 1, CODE_LOST }; /* never reuse */

static_assert(KEEP_CODE == RUN_NOUTPUTS, "it is one more than there are outputs");

struct keep_output keep_output_of(const struct run *r, unsigned which)
{
	return (struct keep_output){*r->job != '\0', *r->job ? r->id & JOB_NUMBER_MAX : r->number,
				    which};
}

size_t keep_code_here(const struct run *r)
{
	return r->code.len <= KEEP_CODE_SHORT ? r->code.len : 0;
}

static bool is_away(const struct keep_out *o, struct run *r)
{
	const struct keep_output id = keep_output_of(r, KEEP_CODE);

	return !o->io->live && r->code.len + r->code_lost > KEEP_CODE_SHORT &&
	       o->io->code_away(o->io->data, &id, r);
}

bool keep_put_code(struct keep_out *o, unsigned tag, struct run *r)
{
	const bool away = is_away(o, r);
	size_t at;

	if (!away && !r->code_lost)
		return false;
	at = record_open(o->out, tag);
	record_u64(o->out, away ? CODE_LEN : CODE_LOST, r->code.len + r->code_lost);
	record_close(o->out, at);
	return true;
}

/* ---- reading ---- */

/* Its bytes. */
struct coding {
	uint64_t away, lost;
};

static int code_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct coding *of = to;

	(void)in;
	switch (f->tag) {
	case CODE_LEN: return record_get(f, KEEP_CODE_SHORT + 1, SESSION_CODE_MAX, &of->away);
	case CODE_LOST: return record_get(f, 1, SESSION_CODE_MAX, &of->lost);
	default: return 0;
	}
}

int keep_get_code(struct keep_in *in, const struct record_field *f, struct run *r,
		  uint64_t *ret_away)
{
	struct coding of = {0};
	const int e = keep_inside(in, f, code_field, &of);

	if (e < 0)
		return e;
	if (r->code.len || r->code_lost || *ret_away || (of.away && (of.lost || in->io->live)))
		return -EBADMSG;
	*ret_away = of.away;
	r->code_lost = of.lost;
	r->code_kept = of.lost; /* what there is of it is not to be written over */
	return 0;
}

static void tell(struct keep_in *in, const struct run *r, int err)
{
	struct problem why;

	problem_set(&why, PROBLEM_DAMAGED,
		    "Run it again from a copy. It is tried again at the next mount.",
		    "the code of %s can't be read from state_dir: %s", run_words(r).text,
		    err == -EBADMSG  ? "it is damaged"
		    : err == -ENOENT ? "it could not be written, or was removed"
				     : strerror(-err));
	keep_miss(&in->missing, &why);
}

int keep_code_back(struct keep_in *in, struct run *r, uint64_t away)
{
	const struct keep_output id = keep_output_of(r, KEEP_CODE);
	int e;

	if (!away)
		return 0;
	e = in->io->code_back(in->io->data, in->s, &id, r, away);
	if (e == -ENOMEM)
		return e;
	if (e < 0) {
		tell(in, r, e);
		buf_clear(&r->code);
		r->code_lost = away;
	}
	r->code_kept = true;
	return 0;
}
