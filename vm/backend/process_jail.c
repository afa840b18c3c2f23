/* SPDX-License-Identifier: Apache-2.0 */
/* The jail of a process sandbox: what code in it can see. */
#include "process_jail.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "vm/base/guest_net.h"
#include "vm/base/util.h"
#include "vm/base/config.h"
#include "vm/base/spec.h"

/*
 * User code sees the host's /usr, read-only, or an image's, with an /etc without the host's accounts, its
 * own memory file systems for writing, and its template's paths. The agent is the first process; inside
 * its user namespace it keeps the capabilities that it needs to manage user code: to kill and inspect its
 * processes, to start them with the user's id, to serve files, to resize memory file systems. Processes
 * that it starts have none of these.
 */

#define USER_ID		  1000
#define PROCESSES_DEFAULT 512
#define PROCESSES_AGENT	  88 /* its own, with interpreters that wait */
#define SIGNALS		  1024
#define PACKAGES	  "/run/xsbx/packages"
#define HOME		  "/home/user"
#define CA_DIR		  "/run/xsbx/ca" /* where the agent writes the file that VM_CA_FILE leads to */
#define LAYERS		  "/run/xsbx"

#define CAP(name)	  (1ull << CAP_##name)
#define AGENT_CAPS                                                                             \
	(CAP(KILL) | CAP(SYS_PTRACE) | CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(CHOWN) | \
	 CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(SYS_ADMIN))

static void add_limit(struct jail_spec *j, int resource, uint64_t value)
{
	j->rlimits[j->nrlimits++] = (struct jail_rlimit){(uint32_t)resource, 0, value};
}

/* /usr, and what points into it, or, on older systems, lies beside it; of the host, or below t->tree. */
static void add_system(struct jail_spec *j, struct process_jail *t)
{
	static const char *const top[] = {"/bin", "/sbin", "/lib", "/lib64", "/lib32"};
	static const char *const etc[] = {
		"/etc/alternatives", "/etc/ld.so.cache",     "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/ssl/certs",    "/etc/ca-certificates", "/etc/localtime",	"/etc/mime.types",
		"/etc/terminfo",     "/etc/inputrc",
	};
	/* A link in an image would lead to something of the host. */
	const uint32_t links = t->tree[0] ? JAIL_NO_LINKS : 0;

	static_assert(ARRAY_SIZE(etc) == ARRAY_SIZE(t->etc), "a path for each");
	snprintf(t->usr, sizeof(t->usr), "%s/usr", t->tree);
	view_show(j, JAIL_RO, links, t->usr, "/usr");
	for (size_t i = 0; i < ARRAY_SIZE(top); i++)
		view_show_top(j, t->tree, top[i], t->top[i]);
	for (size_t i = 0; i < ARRAY_SIZE(etc); i++) {
		snprintf(t->etc[i], sizeof(t->etc[i]), "%s%s", t->tree, etc[i]);
		view_show(j, JAIL_RO, JAIL_OPTIONAL | links, t->etc[i], etc[i]);
	}
	view_show(j, JAIL_FILE, 0,
		  "root:x:0:0:root:/:/usr/sbin/nologin\n"
		  "user:x:1000:1000:user:/home/user:/bin/bash\n"
		  "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		  "/etc/passwd");
	view_show(j, JAIL_FILE, 0, "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n",
		  "/etc/group");
	view_show(j, JAIL_FILE, 0, "127.0.0.1 localhost\n::1 localhost\n", "/etc/hosts");
	view_show(j, JAIL_FILE, 0, "passwd: files\ngroup: files\nhosts: files dns\n",
		  "/etc/nsswitch.conf");
	view_show(j, JAIL_LINK, 0, "../usr/lib/os-release", "/etc/os-release");
}

/* Does the jail have a directory of its own there, or one that add_system() has shown? */
static bool has_own(const char *name)
{
	static const char *const names[] = {"dev", "etc", "home", "proc", "run",
					    "sys", "tmp", "usr",  "var"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/* What an image has beside that, as /app and /opt, and /bin where it is no link. Which of them come first where there are
 * more than fit is left to the directory. */
static void add_more(struct jail_spec *j, struct process_jail *t)
{
	_cleanup_dir_ DIR *dir = *t->tree ? opendir(t->tree) : NULL;
	struct dirent *e;
	struct stat st;
	size_t n = 0;

	while (dir && n < PROCESS_JAIL_MORE_MAX && (e = readdir(dir))) {
		if (!plain_name_ok(e->d_name) ||
		    strlen(e->d_name) + 2 > sizeof(t->more[n].target) || has_own(e->d_name) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		snprintf(t->more[n].source, sizeof(t->more[n].source), "%s/%.62s", t->tree,
			 e->d_name);
		snprintf(t->more[n].target, sizeof(t->more[n].target), "/%.62s", e->d_name);
		view_show(j, JAIL_RO, JAIL_NO_LINKS, t->more[n].source, t->more[n].target);
		n++;
	}
}

/* The agent, and beside its file the interpreters' drivers. Return: 0 or -errno. */
static int add_agent(struct jail_spec *j, struct process_jail *t, const char *agent)
{
	char *slash;

	if (!realpath(agent, t->agent))
		return -errno;
	snprintf(t->drivers, sizeof(t->drivers), "%s", t->agent);
	slash = strrchr(t->drivers, '/');
	snprintf(slash, sizeof(t->drivers) - (size_t)(slash - t->drivers), "/drivers");
	view_show(j, JAIL_RO, 0, t->agent, PROCESS_JAIL_AGENT);
	if (t->tree[0]) { /* its interpreters have drivers of their own */
		view_show(j, JAIL_LINK, 0, "/usr/lib/xsbx", "/run/xsbx/lib");
		return 0;
	}
	view_show(j, JAIL_RO, 0, t->drivers, "/run/xsbx/lib");
	/* It comes as a file of its own more often than in a package. */
	if (view_find_program("bun", t->bun) == 0 && strncmp(t->bun, "/usr/", 5) != 0)
		view_show(j, JAIL_RO, 0, t->bun, PROCESS_JAIL_BIN "/bun");
	return 0;
}

/* What the session's template shows, on top of all else. */
static void add_paths(struct jail_spec *j, const struct process_cell *c)
{
	for (size_t i = 0; i < c->npaths; i++) {
		const struct vm_path *p = &c->paths[i];

		view_show(j, p->write ? JAIL_RW : JAIL_RO,
			  JAIL_NO_LINKS | (p->write ? JAIL_OWNED : 0u), p->source, p->target);
		if (p->write)
			j->flags |= JAIL_NO_SETID;
	}
	j->owner = c->owner;
	j->owner_group = c->group;
}

/* The working directory begins as one of the host; what is changed is in memory, and the daemon keeps
 * hold of that, so that it can be looked at and taken over when the sandbox is gone. */
static void add_work(struct jail_spec *j, const struct process_jail *t, const char *work)
{
	view_show(j, JAIL_RO, JAIL_NO_LINKS | JAIL_OWNED, work, LAYERS "/base");
	view_show(j, JAIL_TMPFS, 0, t->home, PROCESS_JAIL_STORE);
	view_show(j, JAIL_OVERLAY, 0, LAYERS, HOME);
	j->keep = PROCESS_JAIL_STORE "/upper";
}

static void add_memory(struct jail_spec *j, struct process_jail *t, const char *work,
		       uint64_t memory)
{
	/* Until the agent is told the quotas, with its first message. */
	snprintf(t->home, sizeof(t->home), "mode=755,uid=%d,gid=%d,size=%llu,nr_inodes=65536",
		 USER_ID, USER_ID, (unsigned long long)memory * 2 / 5);
	snprintf(t->tmp, sizeof(t->tmp), "mode=1777,size=%llu,nr_inodes=65536",
		 (unsigned long long)memory * 3 / 10);
	view_show(j, JAIL_DEV, 0, NULL, "/dev");
	view_show(j, JAIL_PROC, 0, NULL, "/proc");
	if (work)
		add_work(j, t, work);
	else
		view_show(j, JAIL_TMPFS, 0, t->home, HOME);
	view_show(j, JAIL_TMPFS, 0, t->tmp, "/tmp");
	view_show(j, JAIL_LINK, 0, "../tmp", "/var/tmp");
}

int process_jail(const struct process_cell *what, struct process_jail *ret_jail)
{
	const struct process_cell *c = what;
	struct process_jail *t = ret_jail;
	const uint64_t memory = (uint64_t)c->memory_mb << 20;
	struct jail_spec *j = &t->spec;
	int r;

	*j = (struct jail_spec){
		.use = JAIL_SANDBOX,
		.flags = JAIL_LOOPBACK | JAIL_TWO_IDS | JAIL_DATA_LIMIT,
		.user = USER_ID,
		.pids = (c->processes ? c->processes : PROCESSES_DEFAULT) + PROCESSES_AGENT,
		.cpu_percent = c->cpus * 100,
		.memory = memory + ((uint64_t)PROCESS_JAIL_OVERHEAD_MB << 20),
		.keep_caps = AGENT_CAPS,
		.host_name = t->name,
	};
	snprintf(t->name, sizeof(t->name), "%s", c->name);
	snprintf(t->tree, sizeof(t->tree), "%s", c->tree);
	add_limit(j, RLIMIT_CORE, 1);
	add_limit(j, RLIMIT_MEMLOCK, 64 << 10);
	add_limit(j, RLIMIT_MSGQUEUE, 0);
	add_limit(j, RLIMIT_SIGPENDING, SIGNALS); /* POSIX timers count as well */
	add_limit(j, RLIMIT_NICE, 0);
	add_limit(j, RLIMIT_RTPRIO, 0);
	if (c->file_bytes)
		add_limit(j, RLIMIT_FSIZE, c->file_bytes);
	add_system(j, t);
	add_more(j, t);
	add_memory(j, t, c->work, memory);
	if (c->layer)
		view_show(j, JAIL_RO, JAIL_NO_LINKS, c->layer, PACKAGES);
	r = add_agent(j, t, c->agent);
	if (c->card_socket) {
		view_show(j, JAIL_TMPFS, 0, "mode=755,size=4m,nr_inodes=16", CA_DIR);
		view_show(j, JAIL_LINK, 0, "ca/ca.pem", VM_CA_FILE);
		/* It knows of no variable, and the host's list in /etc/ssl/certs stays as it is. */
		view_show(j, JAIL_LINK, 0, CA_DIR "/wgetrc", "/etc/wgetrc");
	} else if (c->ca)
		view_show(j, JAIL_RO, JAIL_OPTIONAL | JAIL_NO_LINKS, c->ca, VM_CA_FILE);
	add_paths(j, c);
	if (c->card_socket) {
		j->flags |= JAIL_CARD;
		j->card_socket = c->card_socket;
		view_show(j, JAIL_FILE, 0, NET_RESOLV_CONF, "/etc/resolv.conf");
	}
	return r;
}

const char *process_jail_tun_fix(int err)
{
	switch (err) {
	case -EACCES:
		return "As root: chmod 666 /dev/net/tun, as most distributions have it. It is made "
		       "at boot, so also write a udev rule: KERNEL==\"tun\", MODE=\"0666\".";
	case -EPERM:
		return "The container's engine forbids it: give it the device (--device "
		       "/dev/net/tun).";
	case -ENOENT:
		return "As root: modprobe tun. In a container, have its engine give it the device "
		       "(--device /dev/net/tun).";
	default: return "As root: modprobe tun.";
	}
}
