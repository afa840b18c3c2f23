/* SPDX-License-Identifier: Apache-2.0 */
/* Last words of the spawner's children. See final.h. */
#include "final.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A daemon acknowledges each when it hears it. One that does not is not the daemon that it was: the
 * oldest go. */
#define FINALS_MAX 4096u

static void remove_at(struct finals *f, size_t i)
{
	f->n--;
	memmove(&f->item[i], &f->item[i + 1], (f->n - i) * sizeof(*f->item));
}

int final_add(struct finals *f, const struct spawn_note *note)
{
	const size_t cap = f->cap ? f->cap * 2 : 16;
	struct final *item;

	if (f->n == FINALS_MAX)
		remove_at(f, 0);
	if (f->n == f->cap) {
		item = reallocarray(f->item, cap, sizeof(*item));
		if (!item)
			return -ENOMEM;
		f->item = item;
		f->cap = cap;
	}
	f->item[f->n++] = (struct final){.note = *note};
	return 0;
}

struct final *final_unsaid(struct finals *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (!f->item[i].said)
			return &f->item[i];
	}
	return NULL;
}

void final_unsay(struct finals *f)
{
	for (size_t i = 0; i < f->n; i++)
		f->item[i].said = false;
}

bool final_has(const struct finals *f, uint32_t id)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->item[i].note.id == id)
			return true;
	}
	return false;
}

void final_forget(struct finals *f, uint32_t id)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->item[i].note.id == id) {
			remove_at(f, i);
			return;
		}
	}
}
