/* SPDX-License-Identifier: Apache-2.0 */
/* The start of an heir: a daemon whose mount there is already. See succession.h and revival.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bequest.h"
#include "daemon_internal.h"
#include "fs/session/spec.h"
#include "mount.h"
#include "fs/files/files.h"
#include "fs/handover/handover.h"
#include "mountpoint.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/order/policy.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner.h"

/* With what a daemon has left that has died; then this is the daemon. */
static void revive(struct daemon *d)
{
	char why[1024];

	daemon_prepare_survival(d);
	survival_resume(&d->survival, d->revival.bequest.estate);
	daemon_start_loop(d);
	if (revival_load(&d->revival, &d->succession, &d->survival.turn, why, sizeof(why)) < 0)
		daemon_die(d, why);
	survival_begin(&d->survival);
}

/* With all that the daemon has that serves. What it has written down is what this one would leave: until then its death is
 * nobody's end. */
static void take_over(struct daemon *d)
{
	struct bequest b = {.s = &d->succession};
	bool survives;
	char why[1024];

	daemon_start_loop(d);
	daemon_prepare_survival(d);
	spawner_alive(d->spawner);
	if (succession_receive(&d->succession, &b, why, sizeof(why)) < 0)
		daemon_die(d, why);
	survives = d->conf.survive && survival_take_over(&d->survival, b.estate);
	if (bequest_read(&b, &d->survival.turn) < 0)
		daemon_die(d, b.why.cause);
	bequest_fini(&b);
	if (succession_ready(&d->succession, why, sizeof(why)) < 0)
		daemon_die(d, why);
	if (survives)
		survival_begin(&d->survival);
	else
		survival_forgo(&d->survival, b.estate);
}

/* The spawner takes it only while nothing that was inherited has been read. */
static void bequeath(struct daemon *d)
{
	_cleanup_close_ int conf = daemon_seal(d);

	if (conf >= 0 && spawner_conf(d->spawner, conf) < 0)
		daemon_die(d, "the spawner does not answer");
}

/* Was the end asked for, or begun? That is not forgotten with the daemon that heard of it. */
static bool go_on_ending(struct daemon *d)
{
	if (d->succession.ending)
		d->status = d->succession.status;
	else if (!spawner_asked(d->spawner))
		return false;
	daemon_stop(d, d->succession.ending ? "as had begun before the daemon died"
					    : "asked for before this was the daemon");
	return true;
}

int daemon_meet_spawner(struct daemon *d, const char **ret_words)
{
	const int r = d->spawner ? 0 : spawner_inherit(&d->spawner);

	*ret_words = r == -EOPNOTSUPP
			     ? "the process that starts sandboxes is of another version, and "
			       "lives as long as the mount; unmount to upgrade"
			     : "the spawner is not understood";
	return r;
}

/* Until it is the daemon, it opens what it needs, and changes nothing: the mount is another's. */
void daemon_inherit(struct daemon *d)
{
	const char *words;

	prctl(PR_SET_NAME, "xsbxfs-daemon");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (daemon_meet_spawner(d, &words) < 0)
		daemon_die(d, words);
	if (!d->revival.revives)
		bequeath(d);
	d->runtime_dir = mountpoint_directory(d->conf.vm.runtime_dir, d->conf.mountpoint);
	if (!d->runtime_dir)
		daemon_die(d, "out of memory");
	spawner_alive(d->spawner);
	daemon_find_rules(d);
	policy_forget(d->policy); /* the spawner is another's, and has them */
	if (d->conf.keep && d->conf.vm.key_command)
		daemon_die(d, "with key_command a mount can't be taken over; unmount to upgrade");
	if (d->conf.keep)
		daemon_open_store(d);
	daemon_prepare_fuse(d);
	if (devfuse_inherit(&d->fuse, d->fs, &d->conf, d->spawner, HEIR_FD_CONNECTION, &words) < 0)
		daemon_die(d, words);
	if (d->revival.revives)
		revive(d);
	else
		take_over(d);
	d->heir = false;
	log_to_journal(log_is_journal(STDERR_FILENO, getenv("JOURNAL_STREAM"))); /* now it has it */
	if (!d->conf.foreground || log_has_journal())
		spawner_log(d->spawner);
	notice_start(&d->notice, &d->loop, d->fs, d->spawner);
	audit_go(d->fs);
	if (!d->revival.revives)
		audit_mount(d->fs, "taken over");
	if (d->revival.revives)
		revival_tell(&d->revival, &d->succession);
	if (d->keeper)
		keeper_go(d->keeper);
	vm_host_go(d->fs->vm);
	handover_go(d->fs);
	if (d->revival.last) {
		devfuse_own(&d->fuse);
		if (!go_on_ending(d))
			daemon_fail(d, "the daemon died too often");
		return;
	}
	devfuse_replay(&d->fuse);
	files_replayed(d->fs);
	mount_go_on(d->fs);
	turn_now(&d->survival.turn);
	devfuse_serve(&d->fuse);
	succession_await(&d->succession);
	if (!go_on_ending(d))
		spec_prepare(d->fs);
}
