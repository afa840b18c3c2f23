/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon, from its start to its end. See daemon.h. */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "background.h"
#include "daemon_internal.h"
#include "fs/session/spec.h"
#include "mount.h"
#include "mountpoint.h"
#include "vm/base/log.h"
#include "vm/base/rlimit.h"
#include "vm/base/util.h"
#include "vm/policy/job.h"
#include "vm/spawn/registry.h"
#include "vm/order/policy.h"
#include "vm/spawn/spawner.h"

#define ENDING_MS 60000u /* for one before it to write its sessions, and what they wait for */

static void mount_fuse(struct daemon *d)
{
	const char *why;

	daemon_prepare_fuse(d);
	if (devfuse_mount(&d->fuse, d->fs, &d->conf, d->spawner, &why) < 0)
		daemon_die(d, why);
}

/* Tells the parent, or the file --notify names, that the mount is there. */
static void announce(struct daemon *d)
{
	int fd;

	if (d->conf.notify) {
		fd = open(d->conf.notify, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 || write(fd, "s", 1) != 1)
			log_warn("%s: %s", d->conf.notify, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	if (d->parent >= 0 || log_has_journal())
		spawner_log(d->spawner);
	background_ready(d->parent);
	notice_start(&d->notice, &d->loop, d->fs, d->spawner);
	notice_ready(&d->notice);
}

/* It is forked with all that it may ever be asked for, and believes nothing else. Goes on in the daemon. */
static void start_spawner(struct daemon *d)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0); /* of its own: this is the daemon's */
	_cleanup_close_ int conf = -1;		    /* likewise */
	struct spawner_rules rules = {
		.job = policy_job,
		.settle = policy_settle,
		.runtime_dir = d->runtime_dir,
		.argv = d->argv,
		.cwd = cwd,
		.lock = d->lock,
		.background = d->parent >= 0,
		.deaths = d->conf.max_deaths,
	};

	daemon_find_rules(d);
	conf = daemon_seal(d);
	rules.conf = conf >= 0 ? conf : 0;
	rules.data = d->policy;
	if (d->conf.action == CONF_MOUNT)
		rules.mountpoint = d->conf.mountpoint;
	if (spawner_start(&rules, &d->spawner) < 0)
		daemon_die(d, "cannot fork the spawner");
}

/* What is needed while the mount is there must not lie below it. */
static void check_mountpoint(struct daemon *d)
{
	const struct conf *c = &d->conf;
	const struct mountpoint_use uses[] = {
		{"xsbxfs itself", "/proc/self/exe", false},
		{"the agent", c->vm.agent, false},
		{"xsbxfs-store", c->vm.store.program, false},
		{"xsbxfs-trace", c->vm.trace.program, false},
		{"QEMU", c->vm.qemu, false},
		{"the builder of images", c->vm.image_builder, false},
		{"the installer of packages", c->vm.packages.dir, false},
		{"the cache", c->vm.cache_dir, true},
		{"the shared images", c->vm.shared_dir, true},
		{"the directory of long outputs", c->spool_dir, true},
		{"the runtime directory", c->vm.runtime_dir, true},
		{"the audit log", c->audit_file, false},
		{"the directory of what is kept", c->keep ? c->state_dir : NULL, true},
		{"the system", "/usr", false},
		{"the system", "/etc", false},
		{"the system", "/dev", false},
		{"the system", "/proc", true},
		{"the system", "/sys", true},
	};
	char why[1024];

	if (mountpoint_check(c->mountpoint, uses, ARRAY_SIZE(uses), why, sizeof(why)) < 0)
		daemon_die(d, why);
}

static void start(struct daemon *d)
{
	const bool mounts = d->conf.action == CONF_MOUNT;
	char why[1024];

	rlimit_raise_files();
	signal(SIGPIPE, SIG_IGN);
	if (mounts)
		check_mountpoint(d);
	signal(SIGXFSZ, SIG_IGN); /* a file of output that may not grow is an error like others */
	/* Without a mount, the cache stands for it: it is filled by one at a time. */
	if (mountpoint_claim(d->conf.vm.runtime_dir,
			     mounts ? d->conf.mountpoint : d->conf.vm.cache_dir,
			     mounts && d->conf.keep ? ENDING_MS : 0, &d->runtime_dir, &d->lock, why,
			     sizeof(why)) < 0)
		daemon_die(d, why);
	registry_reap(d->runtime_dir);
	if (mounts && mountpoint_prepare(d->conf.mountpoint, why, sizeof(why)) < 0)
		daemon_die(d, why);
	start_spawner(d);
	if (mounts && d->conf.keep)
		daemon_open_store(d);
	if (mounts) {
		mount_fuse(d);
		background_mounted(d->parent);
		daemon_prepare_survival(d);
	}
	if (mounts && d->conf.survive)
		daemon_survive(d);
	daemon_start_loop(d);
	audit_go(d->fs);
	audit_mount(d->fs, "mounted");
	if (d->keeper)
		keeper_load(d->keeper);
	if (mounts) {
		devfuse_serve(&d->fuse);
		succession_await(&d->succession);
	}
	/* Whoever hears of the mount may kill this at once. */
	survival_begin(&d->survival);
	turn_now(&d->survival.turn);
	if (mounts)
		announce(d);
	if (mounts)
		spec_prepare(d->fs);
	else
		prefetch_start(&d->prefetch);
}

int daemon_run(struct daemon *d)
{
	bool idle;

	d->fs = calloc(1, sizeof(*d->fs));
	if (!d->fs) {
		log_error("out of memory");
		return 1;
	}
	d->prefetch.fs = d->fs;
	d->prefetch.done = daemon_on_prefetched;
	d->prefetch.data = d;
	if (d->heir) {
		daemon_inherit(d);
	} else {
		d->parent = d->conf.foreground ? -1 : background_enter();
		start(d);
		if (d->fuse.mounted)
			log_info("mounted on %s", d->conf.mountpoint);
	}
	uv_run(&d->loop, UV_RUN_DEFAULT);

	uv_close((uv_handle_t *)&d->stop_timer, NULL);
	uv_run(&d->loop, UV_RUN_NOWAIT);

	/* With the mount's memory, or a library's, a thread may still have to do that waits for a disk. */
	idle = mount_fini(d->fs) && !d->late;
	idle = keeper_close(d->keeper) && idle;
	devfuse_free(&d->fuse);
	survival_free(&d->survival);
	(void)uv_loop_close(
		&d->loop); /* where the end took too long, it still has handles, the spawner's too */
	spawner_stop(d->spawner);
	policy_free(d->policy);
	if (!idle)
		_exit(d->status); /* which does not wait for the thread, as exit(3) does */
	free(d->runtime_dir);
	free(d->fs);
	conf_clear(&d->conf);
	return d->status;
}
