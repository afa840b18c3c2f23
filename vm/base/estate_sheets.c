/* SPDX-License-Identifier: Apache-2.0 */
/* The sheets of an estate. See estate.h. */
#include <errno.h>

#include "estate_internal.h"

struct sheets *estate_sheets(struct estate *e)
{
	if (!e->sheets.mem) {
		void *mem = estate_region(e, ESTATE_REGION_SHEETS, (size_t)SHEETS * SHEET_SIZE);

		if (!mem)
			return NULL;
		sheets_init(&e->sheets, mem, SHEET_SIZE, SHEETS);
	}
	return &e->sheets;
}

void estate_retire(struct estate *e)
{
	estate_give_up(e, -ECANCELED);
	for (unsigned i = 0; i < ESTATE_REGIONS; i++)
		if (i != ESTATE_REGION_SHEETS || !e->sheets.mem)
			estate_unmap_region(e, i);
	if (e->sheets.mem)
		sheets_retire(&e->sheets);
}
