/* SPDX-License-Identifier: Apache-2.0 */
/* What this host offers for jails, networks and packages, found without creating any; for `doctor`. */
#include "host_check.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/backend/process_jail.h"
#include "vm/base/path.h"
#include "vm/base/util.h"
#include "vm/jail/view.h"

printf_like(4, 5) static void say(struct host_check *ret, enum vm_level level, const char *fix,
				  const char *fmt, ...)
{
	va_list ap;

	*ret = (struct host_check){.level = level, .fix = fix};
	va_start(ap, fmt);
	vsnprintf(ret->found, sizeof(ret->found), fmt, ap);
	va_end(ap);
}

static bool read_text(const char *root, const char *name, char *out, size_t size)
{
	_cleanup_file_ FILE *f = path_open(root, name);
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

void host_check_userns(const char *root, bool privileged, struct host_check *ret)
{
	const long most = read_number(root, "/proc/sys/user/max_user_namespaces", LONG_MAX);

	if (!exists(root, "/proc/self/ns/user"))
		say(ret, VM_FAIL, "Take a kernel with CONFIG_USER_NS: no sandbox runs without.",
		    "the kernel has none");
	else if (most == 0)
		say(ret, VM_FAIL, "sysctl user.max_user_namespaces=16384, and in /etc/sysctl.d.",
		    "forbidden for everybody (user.max_user_namespaces is 0)");
	else if (privileged)
		say(ret, VM_OK, "", "allowed");
	else if (read_number(root, "/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		say(ret, VM_FAIL,
		    "sysctl kernel.unprivileged_userns_clone=1, and in /etc/sysctl.d; or "
		    "mount as root.",
		    "only root may make them (kernel.unprivileged_userns_clone is 0)");
	else if (read_number(root, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0))
		say(ret, VM_FAIL,
		    "Give xsbxfs an AppArmor profile with the rule `userns,`; or sysctl "
		    "kernel.apparmor_restrict_unprivileged_userns=0; or mount as root.",
		    "AppArmor takes the rights away that they give "
		    "(kernel.apparmor_restrict_unprivileged_userns is 1)");
	else
		say(ret, VM_OK, "", "allowed for every user");
}

void host_check_seccomp(const char *root, struct host_check *ret)
{
	char actions[256];

	if (!read_text(root, "/proc/sys/kernel/seccomp/actions_avail", actions, sizeof(actions)))
		say(ret, VM_FAIL,
		    "Take a kernel with CONFIG_SECCOMP_FILTER: no sandbox runs without.",
		    "the kernel can't filter system calls");
	else if (!strstr(actions, "kill_process"))
		say(ret, VM_FAIL, "Take Linux 4.14 or newer.",
		    "the kernel's filters can't end a process");
	else
		say(ret, VM_OK, "", "the kernel filters system calls");
}

void host_check_landlock(int abi, struct host_check *ret)
{
	if (abi == -EOPNOTSUPP)
		say(ret, VM_WARN,
		    "Add landlock to lsm= on the kernel's command line, for a second layer "
		    "beside the view of files.",
		    "switched off when the kernel was booted");
	else if (abi < 2)
		say(ret, VM_WARN,
		    "Take Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, for a second "
		    "layer beside the view of files.",
		    "the kernel has none, or only its first version");
	else
		say(ret, VM_OK, "", "ABI %d%s", abi,
		    abi < 6 ? " (6, of Linux 6.12, also keeps signals and abstract sockets in)"
			    : "");
}

void host_check_ids(bool privileged, bool private_ids, struct host_check *ret)
{
	if (private_ids)
		say(ret, VM_OK, "", "each sandbox has ids on the host that nobody else has");
	else if (privileged)
		say(ret, VM_WARN,
		    "Mount where root has all ids, not in a container that has a part of them.",
		    "root here can't give ids away: sandboxes have its own on the host");
	else
		say(ret, VM_WARN, "Mount as root: each sandbox then has an id of its own.",
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

void host_check_groups(const struct host_check_group *groups, size_t n, bool privileged,
		       struct host_check *ret)
{
	char there[128] = "", missing[160] = "", *to;
	int error = 0;

	for (size_t i = 0; i < n; i++) {
		const struct host_check_group *g = &groups[i];
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
		say(ret, VM_OK, "", "limits for %s", there);
	else
		say(ret, VM_WARN, groups_fix(error, privileged),
		    "%s%s%sno limits for %s: those of single processes hold instead",
		    *there ? "limits for " : "", there, *there ? "; " : "", missing);
}

void host_check_network(const char *root, bool programs, struct host_check *ret)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/dev/net/tun", root);
	err = access(path, R_OK | W_OK) < 0 ? -errno : 0;
	if (!programs)
		say(ret, VM_WARN, "Install the whole package: they belong beside the agent.",
		    "no xsbxfs-net and xsbxfs-dial: sessions can have no network and no ports");
	else if (err < 0)
		say(ret, VM_WARN, process_jail_tun_fix(err),
		    "virtual machines can have one; process sandboxes, and what installs "
		    "packages, "
		    "can't: /dev/net/tun: %s",
		    strerror(-err));
	else
		say(ret, VM_OK, "", "virtual machines and process sandboxes can have one");
}

const char *host_check_kvm_fix(const char *root, enum kvm_state state, bool privileged)
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

/* ---- what this host has to install packages with, found without installing any ---- */

/*
 * Virtual machines have packages installed by their image's own program. Those of processes that see
 * this host's programs are installed by the one in PATH, or the image's. Where they come from is what
 * the configuration says, or else what the host's own tools say when they are asked, which is when
 * packages are first installed: here it is only seen whether there is a tool to ask.
 */
static const struct {
	const char *what, *installer, *image, *asked;
	const char *keys;  /* of the configuration that say where from */
	const char *build; /* how to have the installer */
	const char *source;
} kinds[] = {
	[HOST_CHECK_PYTHON] = {"Python's", "uv", "python", "pip3", "python_index, python_hosts",
			       "Build the image, which has it: xsbxfs-images python.",
			       "Install pip (python3-pip), or set python_index or python_hosts in "
			       "[packages]."},
	[HOST_CHECK_NPM] = {"npm's", "bun", "javascript", "npm", "npm_registry",
			    "Build the image, which has it: xsbxfs-images javascript.",
			    "Install npm, or set npm_registry in [packages]."},
};
static_assert(ARRAY_SIZE(kinds) == HOST_CHECK_NREGISTRIES, "each registry");

static bool in_path(const char *path, const char *program)
{
	char found[PATH_MAX];

	return path && view_find_program_in(path, program, found) == 0;
}

static bool is_set(const char *value)
{
	return value && *value;
}

/* Says of one registry what is there. Return: "", or how to mend what is not. */
static const char *tell_registry(enum host_check_registry which, const struct vm_packages *cfg,
				 const char *path, bool image, char *out, size_t size)
{
	const bool host = in_path(path, kinds[which].installer);
	const bool set = which == HOST_CHECK_PYTHON
				 ? is_set(cfg->python_index) || is_set(cfg->python_hosts)
				 : is_set(cfg->npm_registry);
	const bool asked = in_path(path, kinds[which].asked);
	char where[64];
	int n;

	if (host)
		snprintf(where, sizeof(where), "in PATH");
	else
		snprintf(where, sizeof(where), "of image %s", kinds[which].image);
	n = host || image ? snprintf(out, size, "%s by %s %s", kinds[which].what,
				     kinds[which].installer, where)
			  : snprintf(out, size, "%s can't be installed: no %s", kinds[which].what,
				     kinds[which].installer);
	if (is_set(cfg->offline))
		return host || image ? "" : kinds[which].build;
	out += MIN((size_t)n, size - 1);
	size -= MIN((size_t)n, size - 1);
	if (set)
		snprintf(out, size, ", from where [packages] says (%s)", kinds[which].keys);
	else if (asked)
		snprintf(out, size, ", from where this host's %s says", kinds[which].asked);
	else
		snprintf(out, size, ", from where is not known: no %s, and [packages] is silent",
			 kinds[which].asked);
	if (!host && !image)
		return kinds[which].build;
	return set || asked ? "" : kinds[which].source;
}

static bool has_file(const char *dir, const char *name, int mode)
{
	char path[PATH_MAX];

	return is_set(dir) &&
	       snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       access(path, mode) == 0;
}

void host_check_packages(const struct vm_packages *cfg, const char *path,
			 const bool image[HOST_CHECK_NREGISTRIES], struct host_check *ret)
{
	char words[HOST_CHECK_NREGISTRIES][150];
	const char *fix = "";

	if (!has_file(cfg->dir, "prepare", X_OK) || !has_file(cfg->dir, "install", R_OK)) {
		say(ret, VM_WARN,
		    "Install the whole package, or name the directory: installer in "
		    "[packages].",
		    "none can be installed: no prepare and install in %.200s",
		    cfg->dir ? cfg->dir : "(nowhere)");
		return;
	}
	if (is_set(cfg->offline) && access(cfg->offline, R_OK | X_OK) < 0) {
		say(ret, VM_WARN, "Correct offline in [packages].",
		    "the directory they come from can't be read: %.200s", cfg->offline);
		return;
	}
	for (int i = 0; i < HOST_CHECK_NREGISTRIES; i++) {
		const char *mend = tell_registry((enum host_check_registry)i, cfg, path, image[i],
						 words[i], sizeof(words[i]));

		fix = *fix ? fix : mend;
	}
	say(ret, *fix ? VM_WARN : VM_OK, fix, "%s; %s%s%.150s", words[HOST_CHECK_PYTHON],
	    words[HOST_CHECK_NPM], is_set(cfg->offline) ? "; all from " : "",
	    is_set(cfg->offline) ? cfg->offline : "");
}

void host_check_layers(const struct host_check_layers *l, struct host_check *ret)
{
	const unsigned long long mib = l->bytes >> 20, most = l->limit >> 20;
	char limit[48] = "no limit";

	if (l->limit)
		snprintf(limit, sizeof(limit), "at most %llu MiB", most);
	if (l->error)
		say(ret, VM_WARN,
		    "Give the user who mounts the right to write there, or name another "
		    "cache_dir: until then, no packages that are missing are installed.",
		    "%.200s: %s", l->dir, strerror(-l->error));
	else
		say(ret, VM_OK, "", "%u, %s%llu MiB, %s, in %.200s", l->n,
		    l->more ? "more than " : "", mib, limit, l->dir);
}
