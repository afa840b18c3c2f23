/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a jail: namespaces, identity, limits and privileges of a process. */
#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm/base/landlock.h"
#include "cgroup.h"
#include "internal.h"
#include "seccomp.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * QEMU, xsbxfs-net and the process backend's sandboxes are all confined by this code; their
 * differences are in struct jail_spec. The spawner calls jail_place(), jail_clone() and
 * jail_verify(); the child calls jail_enter() and then executes its program.
 *
 * The child is cloned into new namespaces of every kind except time. Its ids are mapped by the
 * spawner: if it is root, to a range of host ids that nobody else has, so that even a process that
 * escaped from all namespaces could not signal, trace or read anything of others; else to the
 * daemon's own id, which is the only one the kernel allows. Limits of control groups are set before
 * it executes its first instruction.
 *
 * The order of the child's steps matters:
 *  - sources of mounts are opened first, with the old identity (see mounts.c);
 *  - ids come before PDEATHSIG, which a change of identity clears, and before the mounts, whose
 *    files must belong to an id that exists inside;
 *  - mounts come before Landlock, which forbids them;
 *  - the bounding set needs CAP_SETPCAP and goes before the capabilities do;
 *  - seccomp is last, as it forbids most of the rest.
 *
 * Any step that fails ends the child, and the step, its errno and the object concerned are written
 * to the status pipe; no step is skipped. The exceptions are in the spec (JAIL_OPTIONAL) and in the
 * report: a kernel without Landlock and a host without control groups still have all other layers,
 * and `isolation` shows which are missing. The layers in the report were verified in /proc/PID while
 * the program was already running.
 */

#define CAP_LIMIT 64

static const unsigned namespaces[] = {
	[JAIL_L_USER] = CLONE_NEWUSER, [JAIL_L_MOUNT] = CLONE_NEWNS,
	[JAIL_L_PID] = CLONE_NEWPID,   [JAIL_L_IPC] = CLONE_NEWIPC,
	[JAIL_L_UTS] = CLONE_NEWUTS,   [JAIL_L_CGROUP] = CLONE_NEWCGROUP,
	[JAIL_L_NET] = CLONE_NEWNET,
};

/* ---- in the spawner ---- */

int jail_place(const struct jail_spec *spec, struct jail_cell *ret_cell, struct jail_fault *fault)
{
	struct jail_cell cell;
	int r;

	/* Making it takes longer than all the rest; here it is made once, and children inherit it. */
	r = jail_seccomp_prepare((enum jail_use)spec->use, spec->flags & JAIL_NO_SETID);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_SECCOMP, r, "");
	(void)jail_stat_text(); /* likewise */
	r = jail_cell_take(&cell);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_PLACE, r, "");
	r = jail_cgroup_make(spec, &cell, fault);
	if (r < 0)
		jail_cell_return(&cell);
	else
		*ret_cell = cell;
	return r;
}

void jail_release(struct jail_cell *cell)
{
	if (!cell->taken)
		return;
	jail_cgroup_remove(cell);
	jail_cell_return(cell);
}

static int map_ids(const struct jail_spec *spec, const struct jail_cell *cell, pid_t pid)
{
	char uids[96], gids[96];
	int r = 0;

	if (jail_has_two_ids(spec, cell)) {
		snprintf(uids, sizeof(uids), "0 %u 1\n%u %u 1\n", cell->base, spec->user,
			 jail_user_id(spec, cell));
		memcpy(gids, uids, sizeof(gids));
	} else if (jail_is_as_owner(spec, cell)) {
		snprintf(uids, sizeof(uids), "0 %u 1\n1 %u 2\n", spec->owner, spec->foreign);
		snprintf(gids, sizeof(gids), "0 %u 1\n1 %u 2\n", spec->owner_group, spec->foreign);
	} else {
		snprintf(uids, sizeof(uids), "%u %u 1\n", spec->user, cell->base);
		snprintf(gids, sizeof(gids), "%u %u 1\n", spec->user,
			 cell->private_ids ? cell->base : getegid());
	}
	if (!cell->private_ids)
		r = jail_map_write(pid, "setgroups", "deny");
	if (r == 0)
		r = jail_map_write(pid, "uid_map", uids);
	return r < 0 ? r : jail_map_write(pid, "gid_map", gids);
}

/* Everything that has to be done to the child from outside; then it may go on. */
static int release_child(const struct jail_spec *spec, const struct jail_cell *cell, pid_t pid,
			 int go, struct jail_fault *fault)
{
	int r = map_ids(spec, cell, pid);

	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_IDS_MAP, r, "");
	return write(go, "", 1) == 1 ? 0 : jail_fault_set(fault, JAIL_STEP_SYNC, -errno, "");
}

/* A device that was given to it needs no group's rights. */
static bool keeps_group(const struct jail_spec *spec, const struct jail_cell *cell)
{
	return cell->private_ids && (spec->flags & JAIL_HOST_GROUP) && !jail_device_given();
}

/* The groups of the host have to be chosen before there is a namespace without them. */
static pid_t fork_as(const struct jail_spec *spec, const struct jail_cell *cell,
		     struct clone_args *args)
{
	const bool group = keeps_group(spec, cell);
	const gid_t only = spec->host_group;
	gid_t ours[NGROUPS_MAX];
	int n = group ? getgroups(ARRAY_SIZE(ours), ours) : 0;
	pid_t pid;

	if (n < 0 || (group && setgroups(1, &only) < 0))
		return -errno;
	pid = (pid_t)syscall(SYS_clone3, args, sizeof(*args));
	if (pid < 0)
		pid = -errno;
	if (group && pid != 0 && setgroups((size_t)n, ours) < 0)
		abort(); /* it never fails for root, and others' children must not get this */
	return pid;
}

pid_t jail_clone(const struct jail_spec *spec, struct jail_cell *cell, int *ret_pidfd, int *ret_go,
		 struct jail_fault *fault)
{
	struct clone_args args = {.exit_signal = SIGCHLD, .flags = CLONE_PIDFD};
	int go[2], pidfd = -1, r;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return jail_fault_set(fault, JAIL_STEP_CLONE, -errno, "");
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		if (i != JAIL_L_NET || !(spec->flags & JAIL_HOST_NET))
			args.flags |= namespaces[i];
	args.pidfd = (uintptr_t)&pidfd;
	if (cell->into >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)cell->into;
	}
	r = idmap_open(spec, cell, fault);
	jail_device_open(spec, cell);
	jail_card_find(spec);
	pid = r < 0 ? r : fork_as(spec, cell, &args);
	if (r == 0 && pid < 0 && cell->into_counts) { /* not there then */
		args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		cell->groups &= ~(1u << JAIL_C_COUNT);
		pid = fork_as(spec, cell, &args);
	}
	if (pid == 0) {
		close(go[1]);
		*ret_go = go[0];
		return 0;
	}
	idmap_close();
	jail_device_close();
	jail_card_lose();
	if (r == 0)
		r = pid < 0 ? jail_fault_set(fault, JAIL_STEP_CLONE, (int)pid, "")
			    : release_child(spec, cell, pid, go[1], fault);
	close(go[0]);
	close(go[1]);
	if (r < 0 && pid > 0)
		jail_child_kill(pid);
	if (r < 0 && pidfd >= 0)
		close(pidfd);
	if (r < 0)
		return r;
	*ret_pidfd = pidfd;
	return pid;
}

/* ---- in the child ---- */

int jail_join(const struct jail_cell *cell, struct jail_fault *fault)
{
	const int r = jail_cgroup_enter(cell);

	return r < 0 ? jail_fault_set(fault, JAIL_STEP_CGROUP, r, "") : 0;
}

static int enter_ids(const struct jail_spec *spec, const struct jail_cell *cell)
{
	const uid_t id = jail_has_two_ids(spec, cell) ? 0 : spec->user;

	/* The one group that may be kept is one that cannot be named inside. */
	if (cell->private_ids && !keeps_group(spec, cell) && setgroups(0, NULL) < 0)
		return -errno;
	if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
		return -errno;
	return 0;
}

static int limit_one(const struct jail_rlimit *l)
{
	struct rlimit now;

	if (getrlimit((int)l->resource, &now) < 0)
		return -errno;
	now.rlim_max = MIN(now.rlim_max, l->value);
	now.rlim_cur = now.rlim_max;
	return setrlimit((int)l->resource, &now) < 0 ? -errno : 0;
}

static int limit(const struct jail_spec *spec, const struct jail_cell *cell)
{
	const struct jail_rlimit data = {RLIMIT_DATA, 0, spec->memory};
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < spec->nrlimits; i++)
		r = limit_one(&spec->rlimits[i]);
	if (r == 0 && (spec->flags & JAIL_DATA_LIMIT) && spec->memory &&
	    cell->report.layer[JAIL_L_MEMORY].state != JAIL_HOLDS)
		r = limit_one(&data);
	return r;
}

static int set_caps(uint64_t effective, uint64_t inheritable)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];

	for (int i = 0; i < 2; i++) {
		d[i].effective = d[i].permitted = (uint32_t)(effective >> (32 * i));
		d[i].inheritable = (uint32_t)(inheritable >> (32 * i));
	}
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

/* Nothing that it runs gets more than it was left with: not by being root in its namespace, not by
 * a file's capabilities or set-id bits. */
static int drop_privileges(uint64_t keep)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
				   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	int last = 0, r;

	for (int cap = 0; cap < CAP_LIMIT; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0)
			break;
		last = cap;
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	}
	r = set_caps((2ull << last) - 1, keep);
	if (r < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	for (int cap = 0; cap <= last; cap++) {
		if ((keep >> cap & 1) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -errno;
	}
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return set_caps(keep, keep);
}

/* What may be written is what is mounted writable, or a file in memory. */
static int confine_files(const struct jail_spec *spec)
{
	struct landlock_rule rules[JAIL_MOUNTS_MAX + JAIL_FDS_MAX];
	char paths[JAIL_FDS_MAX][32];
	struct stat st;
	size_t n = 0;
	int r;

	for (uint32_t i = 0; i < spec->nmounts; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		if (m->kind == JAIL_RW || m->kind == JAIL_TMPFS)
			rules[n++] = (struct landlock_rule){m->target, true};
		else if (m->kind == JAIL_DEV || m->kind == JAIL_PROC)
			rules[n++] = (struct landlock_rule){m->target, false};
	}
	/* QEMU can only be told of files by path; what it has open it may open again. */
	for (int fd = 0; spec->use == JAIL_QEMU && fd < JAIL_FDS_MAX; fd++) {
		snprintf(paths[fd], sizeof(paths[fd]), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			rules[n++] = (struct landlock_rule){paths[fd], .read = true};
	}
	r = landlock_confine(rules, n, LANDLOCK_READ_ALL | LANDLOCK_SCOPED);
	return r < 0 ? r : 0;
}

/* From the last mount to the last privilege. */
static int close_doors(const struct jail_spec *spec, const struct jail_cell *cell,
		       struct jail_fault *fault)
{
	int r = limit(spec, cell);

	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_RLIMITS, r, "");
	if (spec->flags & JAIL_MITIGATE)
		jail_mitigate();
	r = drop_privileges(spec->keep_caps);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_PRIVILEGES, r, "");
	if (spec->flags & JAIL_LANDLOCK)
		r = confine_files(spec);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_LANDLOCK, r, "");
	r = jail_seccomp_install((enum jail_use)spec->use, spec->flags & JAIL_NO_SETID);
	return r < 0 ? jail_fault_set(fault, JAIL_STEP_SECCOMP, r, "") : 0;
}

int jail_keep(const struct jail_spec *spec, pid_t pid, int *ret_fd, struct jail_fault *fault)
{
	char path[PATH_MAX];
	int fd;

	*ret_fd = -1;
	if (!spec->keep || !*spec->keep)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, spec->keep);
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return jail_fault_set(fault, JAIL_STEP_KEEP, -errno, spec->keep);
	*ret_fd = fd;
	return 0;
}

int jail_enter(const struct jail_spec *spec, struct jail_cell *cell, int go, void (*tied)(int data),
	       int data, struct jail_fault *fault)
{
	int fds[JAIL_MOUNTS_MAX], card = -1, r;
	char byte;

	/* The end of file means that the parent gave up, or is gone. */
	if (read(go, &byte, 1) != 1)
		return jail_fault_set(fault, JAIL_STEP_SYNC, -EPIPE, "");
	close(go);
	r = jail_mounts_open(spec, fds, fault);
	if (r < 0)
		return r;
	if (spec->flags & JAIL_CARD)
		r = card = jail_card_open();
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_CARD, r, "");
	r = enter_ids(spec, cell);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_IDS, r, "");
	tied(data);
	if (sethostname(spec->host_name, strlen(spec->host_name)) < 0)
		return jail_fault_set(fault, JAIL_STEP_HOST_NAME, -errno, "");
	if (spec->flags & JAIL_LOOPBACK)
		r = jail_loopback_up();
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_LOOPBACK, r, "");
	if (card >= 0)
		r = jail_card_set_up(card, spec->card_socket);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_CARD, r, "");
	r = jail_budget_set(spec);
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_BUDGET, r, "");
	r = jail_mounts_build(spec, fds, fault);
	return r < 0 ? r : close_doors(spec, cell, fault);
}
