/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of templates: held as long as they are used, and installed ahead. */
#include "pool.h"
#include "vm/build/package_job.h"
#include "vm/image/layer.h"

bool template_layer(struct template *t)
{
	struct layer_need need;

	if (!*t->spec.packages || t->layer)
		return true;
	package_jobs_need(t->pool->packages, t->ops, t->view.image, t->spec.image, t->spec.language,
			  t->spec.packages, &need);
	t->layer = package_jobs_layer(t->pool->packages, &need);
	return t->layer;
}

void template_free_layers(struct pool *p)
{
	struct template *t;

	TAILQ_FOREACH(t, &p->templates, link) {
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
	package_jobs_need(t->pool->packages, t->ops, t->view.image, t->spec.image, t->spec.language,
			  t->spec.packages, &need);
	t->packages_failed = package_jobs_ask(t->pool->packages, &need, NULL, &p) < 0;
	if (t->packages_failed)
		snprintf(t->problem, sizeof(t->problem), "%.500s", p.cause);
}
