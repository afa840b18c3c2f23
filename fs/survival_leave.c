/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon leaves to an heir that takes the mount over from it. See survival.h. */
#include <errno.h>

#include "fs/fuse/devfuse.h"
#include "fs/handover/handover.h"
#include "fs/session/fs.h"
#include "succession.h"
#include "survival.h"
#include "vm/base/estate.h"
#include "vm/base/lent.h"

/* Into an estate that is made for it. */
static int put_all(const struct survival *sv, struct estate *e)
{
	struct fdbag fds = {.number = lent_put};
	int r = succession_put_process(sv->succession, e, &fds);

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
