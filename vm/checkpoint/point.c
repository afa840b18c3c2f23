/* SPDX-License-Identifier: Apache-2.0 */
/* Points. See point.h. */
#include "point.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

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
		if (p->base >= 0)
			close(p->base);
		if (p->stream >= 0)
			close(p->stream);
		if (p->disk >= 0)
			close(p->disk);
		layer_put(p->layer);
		free(p);
	}
	return NULL;
}
