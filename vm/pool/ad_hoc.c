/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of sandboxes that are not as the configuration says. */
#include "ad_hoc.h"

#include "pool.h"

/*
 * Theory of operation
 * -------------------
 * Sandboxes that are not as their template says (more memory, another number of processors, packages of their own) are
 * of a template of their own, which gets a snapshot at its second use; with packages at its first, for there it saves
 * seconds in each session. Of these only a few keep one. A first use takes it from none that was used in the last
 * minutes: who goes through lists of packages would take everybody's.
 */

/* With snapshots; likewise with packages. */
#define AD_HOC_MAX     4u
/* Sandboxes before there is one; with packages, and room for it, it is made at the first. */
#define AD_HOC_USES    2u
/* Since its last use, for which none gives way to the first use of another. */
#define AD_HOC_KEPT_MS 180000u

/* Return: the ad hoc template with or without packages that was unused for longest, of the *ret_n that have a snapshot; or
 * NULL. */
static struct template *oldest_ad_hoc(const struct pool *p, bool packed, unsigned *ret_n)
{
	struct template *t, *oldest = NULL;

	*ret_n = 0;
	TAILQ_FOREACH(t, &p->templates, link) {
		if (!t->ad_hoc || packed != (*t->spec.packages != '\0') ||
		    (t->state != TEMPLATE_READY && t->state != TEMPLATE_BUILDING))
			continue;
		++*ret_n;
		if (!oldest || t->used_at < oldest->used_at)
			oldest = t;
	}
	return oldest;
}

/* Can there be one more with packages, without taking that of one which may be used again? */
static bool has_room(const struct pool *p, uint64_t now)
{
	unsigned n;
	const struct template *oldest = oldest_ad_hoc(p, true, &n);

	return n < AD_HOC_MAX || now - oldest->used_at >= AD_HOC_KEPT_MS;
}

bool ad_hoc_is_rare(const struct template *t, uint64_t now)
{
	if (!t->ad_hoc || t->uses >= AD_HOC_USES)
		return false;
	return !t->uses || !*t->spec.packages || !has_room(t->pool, now);
}

/* If too many ad hoc templates with or without packages have a snapshot, drops that of the one unused for longest. */
static void drop(struct pool *p, bool packed)
{
	unsigned n;
	struct template *oldest = oldest_ad_hoc(p, packed, &n);

	if (n <= AD_HOC_MAX)
		return;
	template_drop(oldest);
	oldest->uses = 0;
}

void ad_hoc_drop(struct pool *p)
{
	drop(p, false);
	drop(p, true);
}
