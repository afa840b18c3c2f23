/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that have what was saved of a sandbox instead of one. See asleep.h. */
#include "asleep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "fs.h"
#include "session.h"

void asleep_begin(struct session *s, struct saved *saved)
{
	struct asleep *a = &s->asleep;

	saved_unref(a->saved);
	problem_keep(&a->unfit, NULL);
	*a = (struct asleep){
		.saved = saved,
		.since = clock_now(),
		.since_ms = uv_now(s->fs->loop),
		.woken = a->woken,
		.kept = a->kept,
		.slept_ms = a->slept_ms,
		.took_ms = a->took_ms,
		.wake = a->wake,
	};
	s->epoch++;
	session_set_state(s, SESSION_ASLEEP);
}

void asleep_end(struct session *s)
{
	saved_unref(s->asleep.saved);
	problem_keep(&s->asleep.unfit, NULL);
	s->asleep = (struct asleep){.woken = s->asleep.woken,
				    .kept = s->asleep.kept,
				    .slept_ms = s->asleep.slept_ms,
				    .took_ms = s->asleep.took_ms};
}

/* Return: the files of @s without its memory; NULL if out of memory. */
static struct saved *files_of(const struct saved *saved)
{
	return saved_new(saved->pack ? pack_ref(saved->pack) : NULL, NULL);
}

struct saved *asleep_wake(struct session *s, int *ret_err)
{
	struct asleep *a = &s->asleep;
	struct saved *from;

	*ret_err = 0;
	if (!a->saved)
		return NULL;
	a->asked_ms = uv_now(s->fs->loop);
	a->wake = false;
	from = a->files_only ? files_of(a->saved) : saved_ref(a->saved);
	if (!from)
		*ret_err = -ENOMEM;
	return from;
}

/* "3 h", "240 ms". */
struct duration {
	char text[32];
};

static struct duration duration(uint64_t ms)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
	struct duration d;
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && ms < units[i].ms * (i + 2 < ARRAY_SIZE(units) ? 2 : 10))
		i++;
	snprintf(d.text, sizeof(d.text), "%" PRIu64 " %s", ms / units[i].ms, units[i].unit);
	return d;
}

/* Its files are there, and its interpreter is not what it was. Where that is how it always is, it is no news. */
static void tell_loss(struct session *s)
{
	const struct asleep *a = &s->asleep;
	const char *why = a->files_only ? problem_kept(&a->unfit)->cause : s->info.lost;

	if (!a->files_only && s->settings.spec.backend == VM_PROCESS)
		return;
	session_problemf(s, PROBLEM_STATE_LOST, "Run again what made its variables.",
			 "its files are as they were saved, but the interpreter is a fresh one%s%s",
			 why && *why ? ": " : "", why ? why : "");
}

void asleep_woken(struct session *s)
{
	struct asleep *a = &s->asleep;
	char words[128];

	a->woken = true;
	a->kept = s->info.kept && !a->files_only;
	a->took_ms = uv_now(s->fs->loop) - a->asked_ms;
	a->slept_ms = a->asked_ms - a->since_ms;
	snprintf(words, sizeof(words), "asleep %s, awake in %s%s", duration(a->slept_ms).text,
		 duration(a->took_ms).text, a->kept ? "" : ", with a fresh interpreter");
	events_add(&s->fs->events, s, "wake", words);
	s->fs->stats.wakes++;
	if (!a->kept)
		tell_loss(s);
	/* What the host has seen of its files was read from what was saved. */
	s->epoch++;
	if (!s->settings.fresh)
		asleep_end(s);
}

bool asleep_again(struct session *s, const struct problem *why)
{
	struct asleep *a = &s->asleep;

	if (why->code != PROBLEM_NOT_RESTORED || !a->saved || !a->saved->point || a->files_only)
		return false;
	a->files_only = true;
	problem_keep(&a->unfit, why);
	return true;
}

int asleep_reset(struct session *s)
{
	struct saved *files = files_of(s->asleep.saved);

	if (!files)
		return -ENOMEM;
	saved_unref(s->asleep.saved);
	s->asleep.saved = files;
	return 0;
}
