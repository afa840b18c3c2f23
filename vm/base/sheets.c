/* SPDX-License-Identifier: Apache-2.0 */
/* Sheets of memory that an heir finds as they are. See sheets.h. */
#include "sheets.h"

#include <assert.h>
#include <sys/mman.h>

void sheets_init(struct sheets *sh, void *mem, size_t size, unsigned n)
{
	assert(n <= SHEETS);
	*sh = (struct sheets){.mem = mem, .size = size, .n = n};
}

/* Return: is it on a sheet, and where in all of them? */
static bool is_on(const struct sheets *sh, const void *bytes, uint64_t *ret_place)
{
	const uintptr_t at = (uintptr_t)bytes, begin = (uintptr_t)sh->mem;

	if (!sh->mem || at < begin || at - begin >= sh->size * sh->n)
		return false;
	*ret_place = at - begin;
	return true;
}

uint64_t sheets_place(const struct sheets *sh, const void *bytes)
{
	uint64_t place = 0;
	const bool there = is_on(sh, bytes, &place);

	assert(there);
	return place;
}

unsigned sheets_number(const struct sheets *sh, uint64_t place)
{
	assert(place < sh->size * sh->n);
	return (unsigned)(place / sh->size);
}

unsigned char *sheets_find(const struct sheets *sh, uint64_t place, uint64_t len)
{
	if (!sh->mem || place >= sh->size * sh->n || len > sh->size - place % sh->size)
		return NULL;
	return sh->mem + place;
}

bool sheets_keep(const struct sheets *sh, const void *bytes, size_t len)
{
	uint64_t place;

	return is_on(sh, bytes, &place) && sh->held[sheets_number(sh, place)] &&
	       sheets_find(sh, place, len);
}

void sheets_hold(struct sheets *sh, const void *bytes)
{
	sh->held[sheets_number(sh, sheets_place(sh, bytes))]++;
}

static void give_back(const struct sheets *sh, unsigned number)
{
	(void)madvise(sh->mem + number * sh->size, sh->size, MADV_REMOVE);
}

void sheets_let_go(struct sheets *sh, const void *bytes)
{
	const unsigned number = sheets_number(sh, sheets_place(sh, bytes));

	assert(sh->held[number] > 0);
	if (--sh->held[number] == 0 && sh->retired)
		give_back(sh, number);
}

void sheets_retire(struct sheets *sh)
{
	sh->retired = true;
	(void)munlock(sh->mem, sh->size * sh->n); /* or they would have to stay */
	for (unsigned i = 0; i < sh->n; i++)
		if (!sh->held[i])
			give_back(sh, i);
}

int sheets_free(const struct sheets *sh, unsigned but)
{
	for (unsigned i = 0; i < sh->n; i++)
		if (i != but && !sh->held[i])
			return (int)i;
	return -1;
}
