/* SPDX-License-Identifier: Apache-2.0 */
/* Points. See point.h. */
#include "point.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/discard.h"
#include "vm/base/lent.h"
#include "vm/image/layer.h"

struct point *point_new(void)
{
	struct point *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->refs = 1;
	p->base = p->stream = p->disk = -1;
	return p;
}

struct point *point_ref(struct point *p)
{
	p->refs++;
	return p;
}

struct point *point_unref(struct point *p)
{
	if (!p)
		return NULL;
	assert(p->refs > 0);
	if (--p->refs == 0) {
		discard(p->base, NULL, (size_t)p->fit.memory_mb << 20);
		discard(p->stream, NULL, p->bytes);
		lent_close(&p->disk);
		layer_put(p->layer);
		free(p->machine);
		free(p);
	}
	return NULL;
}

int point_settle(struct point *p, int disk, struct layer *layer)
{
	assert(p->disk < 0 && !p->layer);
	p->disk = fcntl(disk, F_DUPFD_CLOEXEC, 3);
	if (p->disk < 0)
		return -errno;
	p->layer = layer ? layer_ref(layer) : NULL;
	p->fit.layer = layer;
	return 0;
}

bool point_undescribed(const struct point *p)
{
	return !p->machine || strcmp(p->machine, POINT_UNDESCRIBED) == 0;
}

void point_differs(const struct point *p, const char *machine, char ret_word[32])
{
	const char *a = p->machine ? p->machine : POINT_UNDESCRIBED, *b = machine, *line = a;
	size_t n = 0;

	for (; *a && *a == *b; a++, b++)
		line = *a == '\n' ? a + 1 : line;
	if (*a != *b)
		while (n < 31 && isalnum((unsigned char)line[n])) {
			ret_word[n] = line[n];
			n++;
		}
	if (*a != *b && !n)
		n = (size_t)snprintf(ret_word, 32, "machine");
	ret_word[n] = '\0';
}
