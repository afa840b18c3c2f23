/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that begin as a copy of another. See fork.h. */
#include "fork.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "fs.h"
#include "fs/config/from.h"
#include "fs/config/network.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"

static int not_found(struct problem *why, const char *what, const char *name)
{
	problem_set(why, PROBLEM_NO_SUCH_SESSION,
		    "Write from = SESSION or from = SESSION@CHECKPOINT, of the same template.",
		    "from: there is no %s \"%s\"", what, problem_quote(name).text);
	return -EINVAL;
}

static int find_checkpoint(struct fork *f, const char *name, struct problem *why)
{
	f->cp = checkpoint_find(f->source, name);
	if (!f->cp)
		return not_found(why, "checkpoint", name);
	if (!checkpoint_is_lost(f->cp))
		return 0;
	problem_set(why, PROBLEM_NO_SUCH_CHECKPOINT, "Its `error` says why.",
		    "from: there is nothing of the checkpoint \"%s\"", name);
	return -EINVAL;
}

int fork_find(struct session *s, const char *value, struct fork *ret_fork, struct problem *why)
{
	struct fork f = {0};
	struct from from;
	int e = from_parse(value, &from, why);

	if (e < 0)
		return e;
	if (*from.template && strcmp(from.template, s->t->name) != 0) {
		problem_set(why, PROBLEM_NO_SUCH_SESSION, "Make the copy below the same template.",
			    "from: %s is not below %s/", problem_quote(value).text, s->t->name);
		return -EINVAL;
	}
	f.source = session_find(s->fs, session_template(s), from.session);
	if (!f.source || f.source == s)
		return not_found(why, f.source ? "other session" : "session", from.session);
	if (s->fs->caller != 0 && (f.source->uid != s->fs->caller || f.source->uid != s->uid)) {
		problem_set(why, PROBLEM_NOT_ALLOWED, "Copy one of your own.",
			    "from: the session \"%s\" is another user's", from.session);
		return -EPERM;
	}
	if (*from.checkpoint)
		e = find_checkpoint(&f, from.checkpoint, why);
	if (e == 0)
		*ret_fork = f;
	return e;
}

int fork_settings(const struct fork *f, const char *value, struct settings *ret_settings)
{
	const struct settings *of = f->cp ? &f->cp->settings : &f->source->settings;
	struct sandbox_port ports[SANDBOX_PORTS_MAX];
	struct settings with = {0};
	int e = settings_copy(&with, of);

	if (e < 0)
		return e;
	for (size_t i = 0; i < of->spec.nports; i++)
		ports[i] = (struct sandbox_port){.guest = of->spec.ports[i].guest};
	free(with.from);
	with.from = strdup(value);
	if (!with.from || netset_put_ports(&with, ports, of->spec.nports) < 0) {
		settings_clear(&with);
		return -ENOMEM;
	}
	*ret_settings = with;
	return 0;
}

/* What there is of it already; NULL: it has to be saved. */
static struct saved *saved_of(const struct fork *f)
{
	if (f->cp)
		return f->cp->saved;
	return f->source->sandbox ? NULL : f->source->asleep.saved;
}

int fork_may(const struct fork *f, bool when_idle, struct problem *why)
{
	const struct session *source = f->source;

	if (saved_of(f) || f->cp)
		return 0; /* also one that is being saved */
	if (source->saving.of && (source->nqueued || source->jobs_going)) {
		problem_set(why, PROBLEM_BUSY, "Wait until the first run of that one has ended.",
			    "from: the session is to begin as a copy itself, and runs or jobs of "
			    "it wait for that");
		return -EBUSY;
	}
	if (source->saving.of)
		return 0; /* it gets what that one gets */
	return saving_may(source, when_idle, why);
}

static void set_origin(struct session *s, const struct fork *f)
{
	struct origin o = {
		.slot = f->source->slot, .generation = f->source->generation, .time = clock_now()};

	snprintf(o.session, sizeof(o.session), "%s", f->source->path);
	snprintf(o.checkpoint, sizeof(o.checkpoint), "%s", f->cp ? f->cp->name : "");
	session_set_origin(s, &o);
}

/* The last run before what is, or will be, saved. */
static uint32_t behind_of(const struct fork *f)
{
	return f->cp ? f->cp->behind : f->source->last_number;
}

void fork_begin(struct session *s, const struct fork *f)
{
	struct saved *saved = saved_of(f);
	struct session *source = f->source;
	uint32_t behind;
	char words[256];

	assert(!s->sandbox && !s->asleep.saved && !s->saving.of);
	set_origin(s, f);
	s->runs_before =
		f->cp && f->cp->saved ? f->cp->ordinal : source->runs_before + behind_of(f);
	snprintf(words, sizeof(words), "copy of %s", s->settings.from);
	events_add(&s->fs->events, s, "fork", words);
	asleep_begin(s, saved ? saved_ref(saved) : NULL);
	session_live_anew(s);
	touch_session(s);
	s->asleep.copy = true;
	if (!saved) {
		behind = behind_of(f);
		if (source->saving.of) { /* it gets what that one gets */
			behind = source->saving.behind;
			source = source->saving.of;
		}
		saving_join(s, source, behind);
		binding_pump(source);
	}
	s->fs->watch->settled(s);
	wait_wake(&s->front.wait);
}
