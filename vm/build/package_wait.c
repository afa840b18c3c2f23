/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that wait for their packages to be installed. */
#include <string.h>

#include "package_internal.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

#define WAIT_MS 1800000u /* longest wait of a session: others may have their turn before */

bool install_waits(const struct sandbox *s, const struct install *job)
{
	return strcmp(s->layer_key, job->key) == 0 && s->state != SANDBOX_CLOSING;
}

void installer_explain(const struct sandbox *s, struct problem *p)
{
	const struct install *job = install_find(&s->vm->installer, s->layer_key);

	problem_set(p, PROBLEM_PACKAGES_WAIT,
		    "Wait: the run begins when they are there. `console` shows how far it is.",
		    "the packages are being installed: %s",
		    job && job->line[0] ? job->line : "it begins soon");
}

void installer_wait(struct installer *in, struct sandbox *s, const struct install *job)
{
	memcpy(s->layer_key, job->key, sizeof(s->layer_key));
	s->phase = PHASE_PACKAGES;
	s->awaits = true;
	TAILQ_INSERT_TAIL(&in->waiters, s, template_link);
	sandbox_deadline(s, WAIT_MS);
	sandbox_set_state(s, SANDBOX_STARTING);
	context_defer(&in->vm->ctx, &s->work);
}

void installer_leave(struct installer *in, struct sandbox *s)
{
	if (s->phase != PHASE_PACKAGES)
		return;
	TAILQ_REMOVE(&in->waiters, s, template_link);
	s->phase = PHASE_WAIT;
	s->awaits = false;
	sandbox_deadline(s, 0);
	install_unwanted(in, s->layer_key);
}

void installer_overdue(struct sandbox *s)
{
	struct problem p;

	problem_set(&p, PROBLEM_PACKAGES_FAILED, "Reset the session to try again.",
		    "the packages were not installed within %u minutes", WAIT_MS / 60000);
	sandbox_fail(s, &p);
}

void install_release(struct installer *in, const struct install *job, const struct problem *problem)
{
	struct sandbox *s, *following;

	for (s = TAILQ_FIRST(&in->waiters); s; s = following) {
		following = TAILQ_NEXT(s, template_link);
		if (!install_waits(s, job))
			continue;
		installer_leave(in, s);
		if (problem)
			sandbox_fail(s, problem);
		else
			sandbox_begin(s);
	}
}
