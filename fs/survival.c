/* SPDX-License-Identifier: Apache-2.0 */
/* What this daemon leaves if it dies. See survival.h. */
#include "survival.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/session/fs.h"
#include "revival.h"
#include "succession.h"
#include "vm/base/blackbox.h"
#include "vm/base/estate.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

#ifdef XSBX_SHADOW
#define SHADOW true
#else
#define SHADOW false
#endif

/* ---- at the end of each turn ---- */

static int put_fields(struct estate *e, uint32_t kind, struct buf *fields)
{
	int r = fields->failed;

	if (r == 0)
		r = estate_put(e, kind, 0, 0, fields->data, fields->len);
	buf_clear(fields);
	return r;
}

static int put_process(const struct survival *sv, struct estate *e, struct fdbag *fds)
{
	struct buf fields = {0};

	succession_put_process(sv->succession, &fields, fds);
	return put_fields(e, HANDOVER_PROCESS, &fields);
}

/* What the process has, and goes by, never changes, but for that it ends, and what is found out
 * about the host. */
static int describe(struct survival *sv, struct estate *e)
{
	const int r = put_process(sv, e, &sv->fds);

	sv->described = r == 0;
	sv->knows_host = vm_host_is_known(sv->fs->vm);
	return r;
}

/* Does anybody have the descriptors, that would be there for the next daemon? */
static void tell_holder(struct survival *sv)
{
	const bool unheld = lent_is_away();

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

/* What is about to be committed may speak of what the holder has not got. Return: 0; or -errno:
 * nobody could be told. */
static int report_deaf(struct survival *sv)
{
	int r;

	if (!lent_is_away() || sv->deaf)
		return 0;
	r = spawner_holder_deaf(sv->spawner, lent_is_crowded());
	sv->deaf = r == 0;
	turn_due(&sv->turn);
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
	/* Whatever went wrong, it began with that. */
	r = lent_failed() < 0 ? lent_failed() : r;
	if (r == 0)
		r = report_deaf(sv);
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

/* What is written down counts. If the spawner can't be told, it does not for ever. */
static void tell_survives(struct survival *sv)
{
	const int r = spawner_survives(sv->spawner);

	if (r < 0)
		turn_lose(&sv->turn, r);
}

static void on_committed(void *data)
{
	struct survival *sv = data;

	lent_committed();
	if (sv->lends_again) {
		sv->lends_again = false;
		sv->deaf = false;
		turn_due(&sv->turn); /* it is told in the next one, or reported */
		if (!lent_is_away())
			tell_survives(sv);
	}
	if (SHADOW && !sv->turn.lost)
		look(sv);
}

/* Another holder is given all behind the next commit. */
static void on_holder(void *data, int fd, bool never)
{
	struct survival *sv = data;

	if (never)
		lent_give_up(-EPIPE);
	else
		lent_again(fd);
	sv->lends_again = fd >= 0;
	sv->deaf = true; /* as it seems, or there is one */
	turn_due(&sv->turn);
}

static void forget(struct survival *sv)
{
	if (!sv->spawner)
		return;
	spawner_on_holder(sv->spawner, NULL, NULL);
	(void)spawner_estate(sv->spawner, -1, NULL);
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
static int make(struct survival *sv)
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
		(void)spawner_estate(sv->spawner, -1, NULL);
		estate_free(e);
		return r;
	}
	sv->estate = e;
	blackbox_use(revival_box(e));
	spawner_on_holder(sv->spawner, on_holder, sv);
	return 0;
}

static void warn(int err)
{
	log_warn("if this daemon dies, the mount ends: there is no place for what it has: %s",
		 strerror(-err));
}

void survival_new(struct survival *sv)
{
	int r = make(sv);

	sv->fds.number = lent_put;
	if (r < 0)
		warn(r);
}

void survival_resume(struct survival *sv, struct estate *e)
{
	sv->fds.number = lent_put;
	sv->estate = e;
	blackbox_use(revival_box(e));
	spawner_on_holder(sv->spawner, on_holder, sv);
	sv->resumed = true;
}

bool survival_take_over(struct survival *sv, struct estate *e)
{
	struct blackbox *box = revival_box(e);
	int holder, r = spawner_estate(sv->spawner, estate_fd(e), &holder);

	if (r < 0) {
		warn(r);
		return false;
	}
	/* All that its records name, which is closed at the first commit if this has no use for it. */
	lent_again(holder);
	lent_committed();
	if (box)
		*box = (struct blackbox){0}; /* nobody has died */
	survival_resume(sv, e);
	survival_start(sv);
	return true;
}

void survival_go(struct survival *sv)
{
	sv->fs->touched.turn = &sv->turn;
	vm_set_turn(sv->fs->vm, &sv->turn);
}

void survival_start(struct survival *sv)
{
	int r;

	if (!sv->estate && sv->fs && sv->fs->conf->survive)
		tell_mortal(sv);
	if (!sv->estate)
		return;
	lent_verify(SHADOW);
	turn_start(&sv->turn, sv->loop, sv->estate, &turn_ops, sv);
	if (sv->resumed)
		return;
	survival_go(sv);
	r = devfuse_survive(sv->fuse, &sv->turn);
	if (r < 0)
		turn_lose(&sv->turn, r);
}

void survival_begin(struct survival *sv)
{
	if (turn_write(&sv->turn))
		tell_survives(sv);
}

void survival_forgo(struct survival *sv, struct estate *e)
{
	if (sv->fs->conf->survive)
		tell_mortal(sv);
	estate_give_up(e, -ECANCELED);
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
}

void survival_free(struct survival *sv)
{
	blackbox_use(NULL);
	estate_free(sv->estate);
	sv->estate = NULL;
	fdbag_clear(&sv->fds);
}

/* ---- for an heir that takes the mount over ---- */

/* Into an estate that is made for it. */
static int put_all(const struct survival *sv, struct estate *e)
{
	struct fdbag fds = {.number = lent_put};
	int r = put_process(sv, e, &fds);

	if (r == 0)
		r = handover_put(sv->fs, e, &fds);
	if (r == 0)
		r = devfuse_put(sv->fuse, e);
	if (r == 0)
		r = lent_failed();
	return r == 0 ? estate_commit(e) : r;
}

static int leave_once(const struct survival *sv, struct estate **ret_e)
{
	struct estate *e;
	int r = lent_begin(-1);

	if (r < 0)
		return r;
	r = estate_new(&e);
	if (r < 0) {
		lent_end();
		return r;
	}
	r = put_all(sv, e);
	if (r == 0)
		*ret_e = e;
	else
		survival_left(sv, e);
	return r;
}

int survival_leave(struct survival *sv, struct estate **ret_e)
{
	int r;

	sv->fs->record.stats = true; /* which are written now and then else */
	turn_due(&sv->turn);
	turn_now(&sv->turn);
	r = devfuse_may_yield(sv->fuse);
	if (r < 0)
		return r;
	if (!turn_is_on(&sv->turn))
		return leave_once(sv, ret_e);
	if (sv->turn.due || sv->turn.lost)
		return -EAGAIN;
	*ret_e = sv->estate;
	return 0;
}

void survival_left(const struct survival *sv, struct estate *e)
{
	if (e == sv->estate)
		return;
	estate_free(e);
	lent_end();
}
