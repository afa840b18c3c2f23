/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON nodes are made of. See json.h. */
#include "json.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/session/events.h"
#include "vm/base/buf.h"
#include "vm/base/problem.h"

int status_put(struct buf *out, json_t *o)
{
	char *text = o && json_object_set_new(o, "schema_version", json_integer(STATUS_SCHEMA)) == 0
			     ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
						     JSON_REAL_PRECISION(REAL_DIGITS))
			     : NULL;
	int e;

	json_decref(o);
	if (!text)
		return -ENOMEM;
	e = buf_printf(out, "%s\n", text);
	free(text);
	return e;
}

json_t *status_seconds(const struct timespec *t)
{
	return t->tv_sec ? json_real((double)t->tv_sec + (double)(t->tv_nsec / 1000) / 1e6)
			 : json_null();
}

json_t *status_string(const char *text)
{
	json_t *j = json_string(text ? text : "");

	return j ? j : json_string("(not UTF-8)");
}

json_t *status_problem(const struct problem *p)
{
	if (!p->code)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "code", status_string(problem_code_str(p->code)),
			 "cause", status_string(p->cause), "fix", status_string(p->fix));
}
