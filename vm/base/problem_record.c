/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as a field of a record. See problem_record.h. */
#include "problem_record.h"

#include <errno.h>

/* Never reuse one. */
enum { TAG_CODE = 1, TAG_CAUSE, TAG_FIX, TAG_LOGGED };

void problem_put(struct buf *out, unsigned tag, const struct problem *p)
{
	size_t at;

	if (!p->code && !*p->cause)
		return;
	at = record_open(out, tag);
	record_str(out, TAG_CODE, problem_code_str(p->code));
	record_str(out, TAG_CAUSE, p->cause);
	if (*p->fix)
		record_str(out, TAG_FIX, p->fix);
	if (p->logged)
		record_u64(out, TAG_LOGGED, 1);
	record_close(out, at);
}

static int take_field(struct problem *p, const struct record_field *f)
{
	char code[64];
	int r;

	switch (f->tag) {
	case TAG_CODE:
		r = record_get_str(f, code, sizeof(code));
		if (r == 0)
			p->code = problem_code_find(code);
		return r;
	case TAG_CAUSE: return record_get_str(f, p->cause, sizeof(p->cause));
	case TAG_FIX: return record_get_str(f, p->fix, sizeof(p->fix));
	case TAG_LOGGED: return record_get_bool(f, &p->logged);
	default: return 0;
	}
}

int problem_get(const struct record_field *of, struct problem *ret_p)
{
	struct record_reader r = record_inside(of);
	struct problem p = {0};
	struct record_field f;
	int n;

	if (!of->is_bytes)
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(&p, &f);
		if (n < 0)
			return n;
	}
	if (n == 0)
		*ret_p = p;
	return n;
}
