/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of a mount's records: whatever a daemon leaves to its heir, the heir refuses it, or loses some of it, or can go
 * on with it and end. */
/* modules: tests/unit/fixture/fixture.c fs/handover/mount.c fs/handover/losses.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/shadow.c fs/handover/whole.c fs/handover/handles.c fs/handover/generations.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c vm/base/problem_record.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/salvage.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
/* libs: uv cmocka */
#include <errno.h>
#include <stdint.h>

#include "fs/handover/handover.h"
#include "fs/handover/internal.h"
#include "fs/mount.h"
#include "tests/unit/fixture/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds)
{
	(void)s;
	(void)out;
	(void)fds;
	return -EBUSY;
}

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved)
{
	(void)vm;
	(void)fields;
	(void)fds;
	(void)died;
	*ret_saved = fake_saved_new(10, true);
	return 0;
}

/* @died: so there is nobody who would go on if it is refused, and whoever a bad record is of is lost. */
static void try(const uint8_t *data, size_t size, bool died)
{
	struct record_reader reader = record_reader(data, size);
	struct problem why = {0};
	struct fdbag fds = {0};
	struct fixture *fx;
	struct second heir;
	struct record rec;
	struct fs *dead;
	void *state;
	int r = 0;

	fx_setup(&state);
	fx = state;
	second_begin(&heir, fx);
	heir.fs->vm = fx->fs->vm;
	heir.fs->inherited.died = died;
	while (r >= 0 && record_next(&reader, &rec) > 0) {
		if (rec.kind != HANDOVER_SANDBOX && rec.kind != HANDOVER_WORKDIR)
			r = handover_get(heir.fs, &rec, &fds, &why);
	}
	/* It would end here, if it was refused; so nobody minds what is left. */
	if (handover_join(heir.fs, &why) == 0 && r >= 0) {
		dead = fx_serve(fx, heir.fs);
		handover_go(heir.fs);
		(void)fx_serve(fx, dead);
	}
	handover_forget_losses(heir.fs);
	mount_stop(heir.fs);
	fake_settle();
	clock_work();
	second_free(&heir);
	fx_stop(fx);
	fx_teardown(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try(data, size, false);
	try(data, size, true);
	return 0;
}
