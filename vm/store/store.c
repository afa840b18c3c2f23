/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-store: progress and error messages of its commands. */
#include "store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum store_end store_fail(struct store *st, enum store_end end, const char *fmt, ...)
{
	va_list ap;

	if (!st->why[0]) {
		va_start(ap, fmt);
		vsnprintf(st->why, sizeof(st->why), fmt, ap);
		va_end(ap);
	}
	return end;
}

enum store_end store_refused(struct store *st, const struct s3 *s3, int result)
{
	const char *why = *s3_why(s3) ? s3_why(s3) : strerror(-result);

	return store_fail(st,
			  result == -EBADMSG  ? STORE_DAMAGED
			  : result == -ENOMEM ? STORE_FAILED
					      : STORE_AWAY,
			  "%s", why);
}

void store_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}
