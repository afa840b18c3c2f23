/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of templates: held as long as they are used, and installed ahead. */
#include "vm/vm_internal.h"

bool template_layer(struct template *t)
{
	struct layer_need need;

	if (!*t->packages || t->layer)
		return true;
	installer_need(&t->vm->installer, t->ops, t->view.image, t->image, t->language, t->packages,
		       &need);
	t->layer = installer_layer(&t->vm->installer, &need);
	return t->layer;
}

void template_free_layers(struct vm *vm)
{
	struct template *t;

	TAILQ_FOREACH(t, &vm->templates, link) {
		if (!t->refs && !t->prepared)
			t->layer = layer_put(t->layer);
	}
}

void template_install(struct template *t)
{
	struct layer_need need;
	struct problem p;

	if (template_layer(t))
		return;
	installer_need(&t->vm->installer, t->ops, t->view.image, t->image, t->language, t->packages,
		       &need);
	t->packages_failed = installer_ask(&t->vm->installer, &need, NULL, &p) < 0;
	if (t->packages_failed)
		snprintf(t->problem, sizeof(t->problem), "%.500s", p.cause);
}
