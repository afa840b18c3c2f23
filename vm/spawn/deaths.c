/* SPDX-License-Identifier: Apache-2.0 */
/* How often the daemon has died. See deaths.h. */
#include "deaths.h"

#define ROW_MS 60000 /* one that has served for so long begins a new row */

/* In ms, before the last one, the one before that, and so on. */
static const int64_t waits[] = {5000, 1000, 200};
#define NWAITS (sizeof(waits) / sizeof(waits[0]))

void deaths_serves(struct deaths *d, int64_t now)
{
	d->since = now;
}

enum deaths_verdict deaths_count(struct deaths *d, int64_t now, int64_t *ret_wait)
{
	const unsigned most = d->most ? d->most : DEATHS_MOST;
	unsigned left;

	if (d->since && now - d->since >= ROW_MS)
		d->n = 0;
	d->since = 0;
	d->n++;
	*ret_wait = 0;
	if (d->n > most)
		return DEATHS_OVER;
	if (d->n == most)
		return DEATHS_LAST;
	left = most - d->n - 1;
	if (left < NWAITS && d->n > 1)
		*ret_wait = waits[left];
	return DEATHS_AGAIN;
}
