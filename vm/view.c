/* SPDX-License-Identifier: Apache-2.0 */
/* What a process sandbox sees of the host: what a session's template says, and kept as long as it is needed. */
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm.h"

void view_free(struct view *v)
{
	for (size_t i = 0; i < v->npaths; i++) {
		free((char *)v->path[i].source);
		free((char *)v->path[i].target);
	}
	free(v->path);
	*v = (struct view){0};
}

int view_copy(struct view *dst, const struct sandbox_spec *spec)
{
	struct view v = {.owner = spec->owner, .group = spec->group};

	*dst = (struct view){0};
	if (spec->npaths > VM_PATHS_MAX)
		return -E2BIG;
	v.path = calloc(spec->npaths + 1, sizeof(*v.path));
	if (!v.path)
		return -ENOMEM;
	for (; v.npaths < spec->npaths; v.npaths++) {
		const struct vm_path *from = &spec->paths[v.npaths];
		struct vm_path *to = &v.path[v.npaths];

		to->write = from->write;
		to->source = strdup(from->source);
		to->target = strdup(from->target);
		if (to->source && to->target)
			continue;
		v.npaths++;
		view_free(&v);
		return -ENOMEM;
	}
	*dst = v;
	return 0;
}

bool view_wanted(const struct sandbox_spec *spec)
{
	return spec->npaths > 0;
}

bool view_serves(const struct view *v, const struct sandbox_spec *spec)
{
	bool owned = false;

	if (v->npaths != spec->npaths)
		return false;
	for (size_t i = 0; i < v->npaths; i++) {
		const struct vm_path *a = &v->path[i], *b = &spec->paths[i];

		if (strcmp(a->source, b->source) != 0 || strcmp(a->target, b->target) != 0 ||
		    a->write != b->write)
			return false;
		owned = owned || a->write;
	}
	/* What may be written is written with its owner's rights, which are given at the start. */
	return !owned || (v->owner == spec->owner && v->group == spec->group);
}
