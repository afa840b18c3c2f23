/* SPDX-License-Identifier: Apache-2.0 */
/* Packages requested without a version: `error` suggests the newest ones. */
#include "offer.h"

#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "fs/config/packages.h"
#include "vm/base/problem.h"
#include "session.h"

#define OFFER_MAX 400u /* bytes of packages in a fix */

/* A question to the registry. When the answer comes, the session may be removed, or have other problems. */
struct offer {
	struct fs *fs;
	unsigned slot, generation;
	struct problem why; /* without the offer */
};

static struct session *asker(const struct offer *o)
{
	struct session *s = session_by_slot(o->fs, o->slot, o->generation);

	return s && s->front.config_error &&
			       strcmp(problem_kept(&s->front.error)->cause, o->why.cause) == 0
		       ? s
		       : NULL;
}

/* Checks a registry's answer like packages that a user writes. Return: its normal form, to be freed; NULL, with
 * *ret_why, if it is invalid. */
static char *settled(const struct session *s, const char *words, const char **ret_why)
{
	struct problem why = {0};
	char *copy = strdup(words);

	*ret_why = "the registry's answer can't be used";
	if (copy && packages_settle(&copy, s->t->settings.spec.language, &s->fs->conf->packages,
				    false, &why) == 0) {
		if (strlen(copy) <= OFFER_MAX)
			return copy;
		*ret_why = "there are too many to be named here";
	}
	free(copy);
	return NULL;
}

static void on_answer(void *data, const char *words, const char *why)
{
	struct offer *o = data;
	struct session *s = asker(o);
	char *offered = s && words ? settled(s, words, &why) : NULL;

	if (offered) {
		o->why.fix[0] = '\0';
		problem_add_fix(&o->why,
				"Write an exact version. The newest that fit: echo 'packages = %s' "
				">> config",
				offered);
	} else if (s) {
		problem_advise(&o->why, "The newest could not be looked up: %.250s", why);
	}
	if (s) {
		session_problem(s, &o->why);
		s->front.config_error = true;
	}
	free(offered);
	free(o);
}

void offer_look_up(struct session *s, const struct settings *with, struct problem *why)
{
	const struct vm_offer_for what = {
		.backend = with->spec.backend,
		.image_view = with->spec.image_view,
		.image = s->t->settings.spec.image,
		.language = s->t->settings.spec.language,
		.owner = s->uid,
	};
	struct problem ignored;
	struct offer *o;
	char *words = strdup(with->spec.packages);

	if (!words || packages_settle(&words, s->t->settings.spec.language, &s->fs->conf->packages,
				      true, &ignored) < 0) {
		free(words);
		return;
	}
	o = malloc(sizeof(*o));
	if (o) {
		*o = (struct offer){s->fs, s->slot, s->generation, *why};
		if (vm_offer(s->fs->vm, &what, words, on_answer, o) == 0)
			problem_advise(
				why,
				"The newest is being looked up: look here again in some seconds.");
		else
			free(o);
	}
	free(words);
}
