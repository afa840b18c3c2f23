/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has to make jails and networks of, found without making one; for `doctor`. */
#include "host_check.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/backend/process_jail.h"
#include "vm/base/util.h"

void survey_say(struct survey *ret, enum vm_level level, const char *fix, const char *fmt, ...)
{
	va_list ap;

	*ret = (struct survey){.level = level, .fix = fix};
	va_start(ap, fmt);
	vsnprintf(ret->found, sizeof(ret->found), fmt, ap);
	va_end(ap);
}

static FILE *open_below(const char *root, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", root, name);
	return fopen(path, "re");
}

static bool read_text(const char *root, const char *name, char *out, size_t size)
{
	_cleanup_file_ FILE *f = open_below(root, name);
	const size_t n = f ? fread(out, 1, size - 1, f) : 0;

	out[n] = '\0';
	return n;
}

/* Return: the number in a file, or @otherwise if there is none. */
static long read_number(const char *root, const char *name, long otherwise)
{
	char text[64], *end;
	long n = 0;

	if (!read_text(root, name, text, sizeof(text)))
		return otherwise;
	n = strtol(text, &end, 10);
	return end == text ? otherwise : n;
}

static bool exists(const char *root, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s%s", root, name);
	return lstat(path, &st) == 0;
}

void survey_userns(const char *root, bool privileged, struct survey *ret)
{
	const long most = read_number(root, "/proc/sys/user/max_user_namespaces", LONG_MAX);

	if (!exists(root, "/proc/self/ns/user"))
		survey_say(ret, VM_FAIL,
			   "Take a kernel with CONFIG_USER_NS: no sandbox runs without.",
			   "the kernel has none");
	else if (most == 0)
		survey_say(ret, VM_FAIL,
			   "sysctl user.max_user_namespaces=16384, and in /etc/sysctl.d.",
			   "forbidden for everybody (user.max_user_namespaces is 0)");
	else if (privileged)
		survey_say(ret, VM_OK, "", "allowed");
	else if (read_number(root, "/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		survey_say(ret, VM_FAIL,
			   "sysctl kernel.unprivileged_userns_clone=1, and in /etc/sysctl.d; or "
			   "mount as root.",
			   "only root may make them (kernel.unprivileged_userns_clone is 0)");
	else if (read_number(root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0))
		survey_say(ret, VM_FAIL,
			   "Give xsbxfs an AppArmor profile with the rule `userns,`; or sysctl "
			   "kernel.apparmor_restrict_unprivileged_userns=0; or mount as root.",
			   "AppArmor takes the rights away that they give "
			   "(kernel.apparmor_restrict_unprivileged_userns is 1)");
	else
		survey_say(ret, VM_OK, "", "allowed for every user");
}

void survey_seccomp(const char *root, struct survey *ret)
{
	char actions[256];

	if (!read_text(root, "/proc/sys/kernel/seccomp/actions_avail", actions, sizeof(actions)))
		survey_say(ret, VM_FAIL,
			   "Take a kernel with CONFIG_SECCOMP_FILTER: no sandbox runs without.",
			   "the kernel can't filter system calls");
	else if (!strstr(actions, "kill_process"))
		survey_say(ret, VM_FAIL, "Take Linux 4.14 or newer.",
			   "the kernel's filters can't end a process");
	else
		survey_say(ret, VM_OK, "", "the kernel filters system calls");
}

void survey_landlock(int abi, struct survey *ret)
{
	if (abi == -EOPNOTSUPP)
		survey_say(ret, VM_WARN,
			   "Add landlock to lsm= on the kernel's command line, for a second layer "
			   "beside the view of files.",
			   "switched off when the kernel was booted");
	else if (abi < 2)
		survey_say(ret, VM_WARN,
			   "Take Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, for a second "
			   "layer beside the view of files.",
			   "the kernel has none, or only its first version");
	else
		survey_say(
			ret, VM_OK, "", "ABI %d%s", abi,
			abi < 6 ? " (6, of Linux 6.12, also keeps signals and abstract sockets in)"
				: "");
}

void survey_ids(bool privileged, bool private_ids, struct survey *ret)
{
	if (private_ids)
		survey_say(ret, VM_OK, "", "each sandbox has ids on the host that nobody else has");
	else if (privileged)
		survey_say(
			ret, VM_WARN,
			"Mount where root has all ids, not in a container that has a part of them.",
			"root here can't give ids away: sandboxes have its own on the host");
	else
		survey_say(ret, VM_WARN, "Mount as root: each sandbox then has an id of its own.",
			   "sandboxes have your own id on the host, behind all other walls");
}

static const char *groups_fix(int error, bool privileged)
{
	if (error == -ENOENT || error == -EBUSY)
		return privileged
			       ? "Start it in a group of its own: systemd-run --scope -p "
				 "Delegate=yes xsbxfs ...; without systemd, mount the controllers."
			       : "Start it in a group of its own: systemd-run --user --scope -p "
				 "Delegate=yes xsbxfs ... (cpu may have to be delegated to users "
				 "first: Delegate=cpu memory pids in user@.service).";
	return privileged ? "Mount /sys/fs/cgroup writable."
			  : "Mount as root, or have a group delegated: systemd-run --user --scope "
			    "-p Delegate=yes xsbxfs ...";
}

void survey_groups(const struct survey_group *groups, size_t n, bool privileged, struct survey *ret)
{
	char there[128] = "", missing[160] = "", *to;
	int error = 0;

	for (size_t i = 0; i < n; i++) {
		const struct survey_group *g = &groups[i];
		const bool absent = g->error < 0;
		const size_t size = absent ? sizeof(missing) : sizeof(there);
		size_t len;

		to = absent ? missing : there;
		len = strlen(to);
		if (absent)
			snprintf(to + len, size - len, "%s%s (%s)", len ? ", " : "", g->name,
				 g->error == -ENOENT  ? "not there for us"
				 : g->error == -EBUSY ? "others are in our group"
						      : strerror(-g->error));
		else
			snprintf(to + len, size - len, "%s%s (v%d)", len ? ", " : "", g->name,
				 g->version);
		error = absent ? g->error : error;
	}
	if (!error)
		survey_say(ret, VM_OK, "", "limits for %s", there);
	else
		survey_say(ret, VM_WARN, groups_fix(error, privileged),
			   "%s%s%sno limits for %s: those of single processes hold instead",
			   *there ? "limits for " : "", there, *there ? "; " : "", missing);
}

void survey_network(const char *root, bool programs, struct survey *ret)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/dev/net/tun", root);
	err = access(path, R_OK | W_OK) < 0 ? -errno : 0;
	if (!programs)
		survey_say(
			ret, VM_WARN, "Install the whole package: they belong beside the agent.",
			"no xsbxfs-net and xsbxfs-dial: sessions can have no network and no ports");
	else if (err < 0)
		survey_say(ret, VM_WARN, process_jail_tun_fix(err),
			   "virtual machines can have one; process sandboxes, and what installs "
			   "packages, "
			   "can't: /dev/net/tun: %s",
			   strerror(-err));
	else
		survey_say(ret, VM_OK, "", "virtual machines and process sandboxes can have one");
}

const char *survey_kvm_fix(const char *root, enum kvm_state state, bool privileged)
{
	if (!exists(root, "/dev/kvm"))
		return "Sandboxes run emulated: everything works, several times slower. For KVM: "
		       "modprobe kvm_intel or kvm_amd, virtualisation switched on in the firmware, "
		       "or, in a virtual machine, nested virtualisation.";
	if (state == KVM_UNDECIDED)
		return "Sandboxes run emulated, several times slower, until the host has less to "
		       "do: KVM is tried again from time to time.";
	if (state == KVM_DENIED && privileged)
		return "Sandboxes run emulated, several times slower. Root can make no device "
		       "nodes "
		       "here, as in some containers, so the rights of /dev/kvm itself count: give "
		       "it "
		       "to a group (chgrp kvm /dev/kvm; chmod 660 /dev/kvm).";
	if (state == KVM_DENIED)
		return "Sandboxes run emulated, several times slower. You have no rights on "
		       "/dev/kvm: usermod -aG kvm USER (the group that `ls -l /dev/kvm` shows), "
		       "and log in again.";
	return "Sandboxes run emulated: everything works, several times slower. A host whose KVM "
	       "runs ordinary guests is faster; in a virtual machine that is nested "
	       "virtualisation.";
}
