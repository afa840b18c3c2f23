/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words. */
#include "problem.h"

#include <stdarg.h>
#include <string.h>

#include "vm/vm.h"

void trouble_set(struct vm_problem *p, const char *code, const char *fix, const char *fmt, ...)
{
	va_list ap;

	*p = (struct vm_problem){.code = ""};
	snprintf(p->code, sizeof(p->code), "%s", code);
	snprintf(p->fix, sizeof(p->fix), "%s", fix);
	va_start(ap, fmt);
	vsnprintf(p->cause, sizeof(p->cause), fmt, ap);
	va_end(ap);
}

void trouble_add(struct vm_problem *p, const char *fmt, ...)
{
	const size_t len = strlen(p->cause);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->cause + len, sizeof(p->cause) - len, fmt, ap);
	va_end(ap);
}
