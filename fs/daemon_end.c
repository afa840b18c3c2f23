/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the daemon: who asks for it, and what it waits for. See daemon.h. */
#include <stdlib.h>

#include "background.h"
#include "daemon_internal.h"
#include "mount.h"
#include "mountpoint.h"
#include "vm/base/log.h"
#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/spawn/spawner.h"

#define STOP_AFTER_MS 5000 /* the end waits no longer than this for sandboxes */
#define COMMIT_ROUNDS 12   /* ... of that time, for changes that are being made on the host */

void daemon_die(struct daemon *d, const char *why)
{
	log_error("%s", why);
	if (d->heir) { /* nothing is ours */
		if (d->spawner)
			spawner_refuse(d->spawner, why);
		_exit(1);
	}
	background_failed(d->parent, why);
	if (d->fuse.mounted)
		spawner_unmount(d->spawner);
	if (d->spawner) { /* which puts in order what is left */
		spawner_stop(d->spawner);
		exit(1);
	}
	if (d->lock >= 0)
		remove_tree_at_once(d->runtime_dir);
	path_leave_shared(d->conf.vm.runtime_dir);
	exit(1);
}

static void unmount(struct daemon *d)
{
	devfuse_unmount(&d->fuse);
	if (d->over)
		return;
	d->over = true;
	notice_close(&d->notice);
	for (size_t i = 0; i < ARRAY_SIZE(d->signals); i++)
		uv_close((uv_handle_t *)&d->signals[i], NULL);
	/* What is left to wait for, if anything, is a disk: until the timer's time is up. */
	uv_unref((uv_handle_t *)&d->stop_timer);
}

static void on_vm_closed(void *data)
{
	struct daemon *d = data;

	d->fs->vm = NULL;
	unmount(d);
}

static void on_stop_timer(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	const bool commits = d->fs->vm && workdir_under_way(d->fs->vm);

	if (commits && d->rounds++ < COMMIT_ROUNDS) {
		log_info("waiting for a commit, whose changes are being made");
		uv_timer_start(&d->stop_timer, on_stop_timer, STOP_AFTER_MS, 0);
		return;
	}
	if (commits)
		log_error(
			"a commit did not end in time: a part of its changes is made, each file of "
			"it whole");
	else if (d->fs->vm)
		log_warn("some sandboxes, or what is read of a disk, did not end in time; the "
			 "spawner kills what is left of them");
	else
		log_warn("a disk did not answer in time");
	d->late = true;
	unmount(d);
	uv_stop(&d->loop);
}

/* Sessions are asleep, where they are kept. */
static void on_kept(void *data)
{
	struct daemon *d = data;

	d->kept = true;
	if (d->keeper && !keeper_kept_all(d->keeper) && !d->status)
		d->status = 1;
	survival_close(&d->survival);
	mount_stop(d->fs);
	uv_timer_start(&d->stop_timer, on_stop_timer, STOP_AFTER_MS, 0);
	vm_close(d->fs->vm, on_vm_closed, d);
}

void daemon_stop(struct daemon *d, const char *why)
{
	if (d->stopping)
		return;
	d->stopping = true;
	mountpoint_ends(d->runtime_dir);
	log_info("ending: %s", why);
	notice_end(&d->notice, why);
	audit_mount(d->fs, "ending");
	d->succession.ending = true;
	d->succession.status = (uint8_t)d->status;
	survival_describe(&d->survival);
	prefetch_close(&d->prefetch);
	succession_close(&d->succession);
	if (d->keeper)
		keeper_end(d->keeper, false, on_kept, d);
	else
		on_kept(d);
}

/* An end that nobody asked for: the exit status says so. */
void daemon_fail(struct daemon *d, const char *why)
{
	if (!d->stopping)
		d->status = 1;
	daemon_stop(d, why);
}

void daemon_on_spawner_died(void *data)
{
	struct daemon *d = data;

	daemon_fail(d, "the spawner died");
	if (d->keeper && !d->kept)
		keeper_end(d->keeper, true, on_kept, d);
}

void daemon_on_signal(uv_signal_t *handle, int signum)
{
	struct daemon *d = handle->data;

	if (!d->stopping && d->conf.action != CONF_MOUNT)
		d->status = 128 + signum;
	if (d->stopping && d->keeper && !d->kept)
		keeper_end(d->keeper, false, on_kept, d); /* he is in a hurry */
	daemon_stop(handle->data, signum == SIGINT ? "interrupted" : "terminated");
}

void daemon_on_prefetched(void *data, bool failed)
{
	struct daemon *d = data;

	d->status = failed;
	daemon_stop(d, failed ? "not everything is ready" : "everything is ready");
}

void daemon_on_unmounted(void *data, int err, const char *why)
{
	if (err < 0)
		daemon_fail(data, why);
	else
		daemon_stop(data, why);
}
