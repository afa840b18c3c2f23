/* SPDX-License-Identifier: Apache-2.0 */
/* The values of `seed` and `clock`. See exact.h. */
#include "exact.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define YEAR_FIRST 1980 /* later than the epoch by more than any machine has been up */
#define YEAR_LAST  2199
#define FORM	   "NNNN-NN-NNTNN:NN:NN"

int exact_seed(const char *text, uint64_t *ret_seed)
{
	char *end;
	uint64_t v;

	if (!text || !*text)
		return 0;
	if (strspn(text, "0123456789") != strlen(text))
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end)
		return -EINVAL;
	*ret_seed = v;
	return 1;
}

/* Is it written as it has to be? */
static bool has_form(const char *text)
{
	for (const char *f = FORM; *f; f++, text++) {
		if (*f == 'N' ? *text < '0' || *text > '9' : *text != *f)
			return false;
	}
	return true;
}

/* The two digits at @at, or four. */
static int number(const char *text, unsigned at, unsigned digits)
{
	int v = 0;

	for (unsigned i = 0; i < digits; i++)
		v = v * 10 + (text[at + i] - '0');
	return v;
}

int exact_clock(const char *text, uint64_t *ret_ns, bool *ret_fixed)
{
	struct tm tm = {0}, same;
	const char *rest;
	time_t t;

	if (!text || !*text)
		return 0;
	if (!has_form(text))
		return -EINVAL;
	rest = text + strlen(FORM);
	rest += *rest == 'Z';
	rest += strspn(rest, " \t");
	if (*rest && strcmp(rest, "fixed") != 0 && strcmp(rest, "running") != 0)
		return -EINVAL;
	tm.tm_year = number(text, 0, 4) - 1900;
	tm.tm_mon = number(text, 5, 2) - 1;
	tm.tm_mday = number(text, 8, 2);
	tm.tm_hour = number(text, 11, 2);
	tm.tm_min = number(text, 14, 2);
	tm.tm_sec = number(text, 17, 2);
	same = tm;
	t = timegm(&same); /* makes a day of February 30, too */
	if (same.tm_mon != tm.tm_mon || same.tm_mday != tm.tm_mday || same.tm_hour != tm.tm_hour ||
	    same.tm_min != tm.tm_min || same.tm_sec != tm.tm_sec ||
	    tm.tm_year + 1900 < YEAR_FIRST || tm.tm_year + 1900 > YEAR_LAST)
		return -EINVAL;
	*ret_ns = (uint64_t)t * 1000000000u;
	*ret_fixed = strcmp(rest, "fixed") == 0;
	return 1;
}
