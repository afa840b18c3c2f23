/* SPDX-License-Identifier: Apache-2.0 */
/* What this daemon leaves if it dies. See survival.h. */
#include "survival.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/session/fs.h"
#include "revival.h"
#include "succession.h"
#include "vm/base/blackbox.h"
#include "vm/base/estate.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/spawn/deaths.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

#ifdef XSBX_SHADOW
#define SHADOW true
#else
#define SHADOW false
#endif

#define CROWDED_MS 200 /* what could not be told is told then */

/* ---- a holder, and the next ---- */

/* Does anybody have the descriptors, that would be there for the next daemon? */
static void tell_holder(struct survival *sv)
{
	const bool unheld = sv->holder != HOLDER_HAS_ALL || lent_is_away();

	if (sv->fs->unheld == unheld || lent_failed() < 0)
		return;
	sv->fs->unheld = unheld;
	if (unheld)
		log_warn("if this daemon dies, the mount ends, until another process holds its "
			 "descriptors");
	else
		log_info("if this daemon dies, another one goes on again");
	events_add(&sv->fs->events, NULL, "survive",
		   unheld ? "the daemon's death would end the mount, for a while"
			  : "the daemon's death does not end the mount any more");
}

/* What is written down counts. If the spawner can't be told, it does not for ever. */
static void tell_survives(struct survival *sv)
{
	const int r = spawner_survives(sv->spawner);

	if (r < 0)
		turn_lose(&sv->turn, r);
}

static void ask_again(uv_timer_t *timer);

/* There is none; another one is asked for in so many ms. */
static void again_after(struct survival *sv, const char *words, int64_t wait)
{
	log_warn("the process that holds descriptors for the next daemon %s; another one follows%s",
		 words, wait ? ", in a while" : "");
	lent_lose();
	if (sv->next >= 0)
		close(steal_fd(&sv->next));
	sv->holder = HOLDER_GONE;
	uv_timer_start(&sv->again, ask_again, (uint64_t)wait, 0);
	turn_due(&sv->turn);
}

static int64_t now_ms(void)
{
	return (int64_t)(uv_hrtime() / 1000000);
}

/* Likewise, because of it: that is counted. */
static void again(struct survival *sv, const char *words)
{
	int64_t wait;

	if (deaths_count(&sv->deaths, now_ms(), &wait) != DEATHS_OVER) {
		again_after(sv, words, wait);
		return;
	}
	log_error("the process that holds descriptors for the next daemon %s once too often; "
		  "nothing survives the daemon any more",
		  words);
	lent_give_up(-EPIPE);
	turn_due(&sv->turn);
}

/* It was asked for, in vain. */
static void again_because(struct survival *sv, int err)
{
	if (err == -ETOOMANYREFS || err == -EAGAIN)
		again_after(sv, "could not be told of: there are too many on their way",
			    CROWDED_MS);
	else
		again(sv, "can't be started");
}

static void ask_again(uv_timer_t *timer)
{
	struct survival *sv = container_of(timer, struct survival, again);
	const int r = spawner_estate_again(sv->spawner, estate_fd(sv->estate));

	assert(sv->holder == HOLDER_GONE);
	if (r == 0)
		sv->holder = HOLDER_ASKED;
	else
		again_because(sv, r);
}

static void on_begun(void *data, int fd, int err)
{
	struct survival *sv = data;

	assert(sv->holder == HOLDER_ASKED);
	if (fd < 0) {
		again_because(sv, err);
		return;
	}
	sv->next = fd;
	sv->holder = HOLDER_COMES;
	turn_due(&sv->turn);
}

/* The spawner says so. Of one that this daemon has given up already it is nothing new. */
static void on_ended(void *data)
{
	struct survival *sv = data;

	if (sv->holder == HOLDER_HAS_ALL || sv->holder == HOLDER_COMES)
		again(sv, "has ended");
}

static const struct spawner_holder_ops holder_ops = {.begun = on_begun, .ended = on_ended};

/* What is about to be committed may speak of what it has not got. Return: 0; or -errno: nobody could
 * be told. */
static int report_deaf(struct survival *sv)
{
	int r;

	if (sv->holder != HOLDER_HAS_ALL || !lent_is_away() || lent_failed() < 0)
		return 0;
	r = spawner_unheld(sv->spawner);
	if (r < 0)
		return r;
	if (lent_is_crowded())
		again_after(sv, "could not be told: there are too many on their way", CROWDED_MS);
	else
		again(sv, "has ended, or does not hear");
	return 0;
}

/* What is committed names nothing that was closed before. One that does not hear is reported by the
 * next turn. */
static void lend_all(struct survival *sv)
{
	lent_again(steal_fd(&sv->next));
	sv->holder = HOLDER_HAS_ALL;
	turn_due(&sv->turn);
	if (lent_is_away())
		return;
	deaths_serves(&sv->deaths, now_ms());
	tell_survives(sv);
}

/* ---- at the end of each turn ---- */

/* What the process has, and goes by, never changes, but for that it ends, and what is found out
 * about the host. */
static int describe(struct survival *sv, struct estate *e)
{
	const int r = succession_put_process(sv->succession, e, &sv->fds);

	sv->described = r == 0;
	sv->knows_host = vm_host_is_known(sv->fs->vm);
	return r;
}

/* The connection is behind all others: it tells what of the kernel's requests has been handled. */
static int on_write(void *data, struct estate *e)
{
	struct survival *sv = data;
	int r = sv->described && sv->knows_host == vm_host_is_known(sv->fs->vm) ? 0
										: describe(sv, e);

	tell_holder(sv);
	if (r == 0)
		r = handover_commit(sv->fs, e, &sv->fds);
	if (r == 0)
		r = devfuse_commit(sv->fuse, e);
	if (r == 0 && sv->fds.failed)
		r = -ENOMEM;
	if (r == 0)
		r = report_deaf(sv);
	/* Whatever went wrong, it began with that. */
	r = lent_failed() < 0 ? lent_failed() : r;
	if (r < 0 && estate_is_whole(e))
		devfuse_restore(sv->fuse, e);
	return r;
}

/* Something was changed, and nobody has said so: the daemon would not be the same after its
 * death. */
static void look(struct survival *sv)
{
	char what[256] = "";
	int r = handover_differs(sv->fs, sv->estate, &sv->fds, what, sizeof(what));

	if (r == 0)
		return;
	log_error("what is committed is not what there is: %s", r < 0 ? strerror(-r) : what);
	abort();
}

static void on_committed(void *data)
{
	struct survival *sv = data;

	lent_committed();
	audit_flush(sv->fs);
	if (sv->holder == HOLDER_COMES)
		lend_all(sv);
	if (SHADOW && !sv->turn.lost)
		look(sv);
}

static void forget(struct survival *sv)
{
	if (!sv->spawner)
		return;
	spawner_on_holder(sv->spawner, NULL, NULL);
	(void)spawner_no_estate(sv->spawner);
	uv_timer_stop(&sv->again);
	if (sv->next >= 0)
		close(steal_fd(&sv->next));
	lent_end();
}

static void tell_mortal(struct survival *sv)
{
	events_add(&sv->fs->events, NULL, "survive", "the daemon's death would end the mount");
}

static void on_lost(void *data, int err)
{
	const bool alone = lent_failed() == -EPIPE;
	struct survival *sv = data;

	log_error("if this daemon dies, the mount ends from now on: %s%s",
		  alone ? "the process that holds its descriptors has ended"
			: "what it has can't be written down: ",
		  alone ? "" : strerror(-err));
	tell_mortal(sv);
	forget(sv);
}

static const struct turn_ops turn_ops = {
	.write = on_write,
	.committed = on_committed,
	.lost = on_lost,
};

/* ---- beginning and end ---- */

/* Return: 0 or -errno, with nothing changed. */
static int make(struct survival *sv, struct estate **ret_estate)
{
	struct estate *e;
	int holder, r = estate_new(&e);

	if (r < 0)
		return r;
	r = spawner_estate(sv->spawner, estate_fd(e), &holder);
	if (r < 0) {
		estate_free(e);
		return r;
	}
	r = lent_begin(holder);
	if (r < 0) {
		(void)spawner_no_estate(sv->spawner);
		estate_free(e);
		return r;
	}
	*ret_estate = e;
	return 0;
}

static void have(struct survival *sv, struct estate *e, enum survival_stage stage)
{
	assert(sv->stage == SURVIVAL_NONE);
	sv->fds.number = lent_put;
	sv->next = -1;
	sv->estate = e;
	sv->stage = stage;
	blackbox_use(revival_box(e));
}

static void warn(int err)
{
	log_warn("if this daemon dies, the mount ends: there is no place for what it has: %s",
		 strerror(-err));
}

void survival_new(struct survival *sv)
{
	struct estate *e;
	const int r = make(sv, &e);

	if (r == 0)
		have(sv, e, SURVIVAL_MADE);
	else
		warn(r);
}

void survival_resume(struct survival *sv, struct estate *e)
{
	have(sv, e, SURVIVAL_FOUND);
}

bool survival_take_over(struct survival *sv, struct estate *e)
{
	struct blackbox *box = revival_box(e);
	int holder, r = spawner_estate(sv->spawner, estate_fd(e), &holder);

	if (r < 0) {
		warn(r);
		return false;
	}
	/* All that its records name; what this has no use for goes with the first commit. */
	lent_again(holder);
	if (box)
		*box = (struct blackbox){0}; /* nobody has died */
	survival_resume(sv, e);
	survival_start(sv);
	return true;
}

/* From now on what changes is written down. */
static void note_changes(struct survival *sv)
{
	sv->fs->touched.turn = &sv->turn;
	vm_set_turn(sv->fs->vm, &sv->turn);
}

static void start_turns(struct survival *sv)
{
	lent_verify(SHADOW);
	turn_start(&sv->turn, sv->loop, sv->estate, &turn_ops, sv);
	uv_timer_init(sv->loop, &sv->again);
	uv_unref((uv_handle_t *)&sv->again);
	spawner_on_holder(sv->spawner, &holder_ops, sv);
}

static void start_new(struct survival *sv)
{
	int r;

	start_turns(sv);
	note_changes(sv);
	r = devfuse_survive(sv->fuse, &sv->turn);
	if (r < 0)
		turn_lose(&sv->turn, r);
}

void survival_start(struct survival *sv)
{
	switch (sv->stage) {
	case SURVIVAL_NONE:
		if (sv->fs && sv->fs->conf->survive)
			tell_mortal(sv);
		break;
	case SURVIVAL_MADE:
		start_new(sv);
		sv->stage = SURVIVAL_FILLING;
		break;
	case SURVIVAL_FOUND:
		start_turns(sv);
		sv->stage = SURVIVAL_LOADING;
		break;
	case SURVIVAL_FILLING:
	case SURVIVAL_LOADING:
	case SURVIVAL_BEGUN: assert(false);
	}
}

void survival_begin(struct survival *sv)
{
	switch (sv->stage) {
	case SURVIVAL_NONE: return;
	case SURVIVAL_FILLING:
		if (turn_write(&sv->turn))
			tell_survives(sv);
		break;
	case SURVIVAL_LOADING: note_changes(sv); break;
	case SURVIVAL_MADE:
	case SURVIVAL_FOUND:
	case SURVIVAL_BEGUN: assert(false);
	}
	sv->stage = SURVIVAL_BEGUN;
}

void survival_forgo(struct survival *sv, struct estate *e)
{
	if (sv->fs->conf->survive)
		tell_mortal(sv);
	estate_retire(e);
	sv->estate = e;
	lent_end();
}

void survival_describe(struct survival *sv)
{
	sv->described = false;
	turn_due(&sv->turn);
}

void survival_close(struct survival *sv)
{
	const bool on = turn_is_on(&sv->turn);

	turn_close(&sv->turn); /* one that was lost has handles still */
	if (on)
		forget(sv);
	if (sv->stage >= SURVIVAL_FILLING)
		uv_close((uv_handle_t *)&sv->again, NULL);
	sv->stage = SURVIVAL_NONE;
}

void survival_free(struct survival *sv)
{
	blackbox_use(NULL);
	estate_free(sv->estate);
	sv->estate = NULL;
	fdbag_clear(&sv->fds);
}
