/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: the agent as first process of a jail on this host's own kernel. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "hosted.h"
#include "jail.h"
#include "survey.h"
#include "trouble.h"
#include "view.h"
#include "vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * The same agent with the same protocol, over a socket pair instead of a machine's port, and with a
 * jail around it instead of a machine. What user code sees is the host's /usr, read-only, with an
 * /etc that has no accounts of the host, and memory of its own to write to. It shares the kernel
 * with the host: that is the difference to a microVM, and why the administrator has to allow it.
 *
 * The agent is PID 1 of the PID namespace. It keeps, inside its user namespace, what it needs to be
 * the system of its users: to end and look at their processes, to start them under the user's id,
 * to serve their files, to set the size of their memory file systems. What it starts has nothing of
 * that. When it ends, the kernel ends all that is left.
 *
 * A start takes little more than the interpreter does, so there are no snapshots; the pool has
 * sandboxes that were started as any other, and exercised. For who finds it empty a jail with an
 * agent is kept in reserve, see shelf.c.
 */

#define USER_ID		    1000
#define PROCESS_OVERHEAD_MB 4 /* the agent, page tables */
#define PROCESSES_DEFAULT   512
#define PROCESSES_AGENT	    88 /* its own, with interpreters that wait */
#define AGENT		    "/run/xsbx/agent"
#define PACKAGES	    "/run/xsbx/packages"
#define HOME		    "/home/user"
#define LAYERS		    "/run/xsbx"
#define STORE		    LAYERS "/work"
#define USER_BIN	    "/run/xsbx/bin"
#define SYSTEM_PATH	    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

#define RESOLV_CONF	    "nameserver 198.18.0.1\noptions timeout:5 attempts:2\n"

#define CAP(name)	    (1ull << CAP_##name)
#define AGENT_CAPS                                                                             \
	(CAP(KILL) | CAP(SYS_PTRACE) | CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(CHOWN) | \
	 CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(SYS_ADMIN))

/* `plan` is what spawn() makes it from; `stream` is ours while it is on the shelf. */
struct backend {
	struct hosted hosted;
	const struct plan *plan;
	int stream;
	int card; /* where its network card comes from, until it is taken, or -1 */
};

/* What one jail is like, with the name of whoever it is for. */
struct plan {
	const char *name;
	size_t len;
	const char *bytes; /* from jail_pack(), without the name */
};

/* Strings that a jail's description points to. */
struct texts {
	char agent[PATH_MAX], drivers[PATH_MAX], bun[PATH_MAX], name[65];
	char home[96], tmp[96];
	char tree[PATH_MAX]; /* an image's files, or "" for the host's */
	char usr[PATH_MAX + 8], etc[10][PATH_MAX + 32];
	char top[5][VIEW_LEADS_MAX]; /* where the links /bin, /lib and so on lead */
};

/* ---- what the sandbox sees ---- */

static void add_limit(struct jail_spec *j, int resource, uint64_t value)
{
	j->rlimits[j->nrlimits++] = (struct jail_rlimit){(uint32_t)resource, 0, value};
}

/* /usr, and what points into it, or, on older systems, lies beside it; of the host, or below t->tree. */
static void add_system(struct jail_spec *j, struct texts *t)
{
	static const char *const top[] = {"/bin", "/sbin", "/lib", "/lib64", "/lib32"};
	static const char *const etc[] = {
		"/etc/alternatives", "/etc/ld.so.cache",     "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/ssl/certs",    "/etc/ca-certificates", "/etc/localtime",	"/etc/mime.types",
		"/etc/terminfo",     "/etc/inputrc",
	};

	static_assert(ARRAY_SIZE(etc) == ARRAY_SIZE(t->etc), "a path for each");
	snprintf(t->usr, sizeof(t->usr), "%s/usr", t->tree);
	view_show(j, JAIL_RO, 0, t->usr, "/usr");
	for (size_t i = 0; i < ARRAY_SIZE(top); i++)
		view_show_top(j, t->tree, top[i], t->top[i]);
	for (size_t i = 0; i < ARRAY_SIZE(etc); i++) {
		snprintf(t->etc[i], sizeof(t->etc[i]), "%s%s", t->tree, etc[i]);
		view_show(j, JAIL_RO, JAIL_OPTIONAL, t->etc[i], etc[i]);
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
}

/* The agent, and beside its file the interpreters' drivers. Return: 0 or -errno. */
static int add_agent(struct jail_spec *j, struct texts *t, const char *agent)
{
	char *slash;

	if (!realpath(agent, t->agent))
		return -errno;
	snprintf(t->drivers, sizeof(t->drivers), "%s", t->agent);
	slash = strrchr(t->drivers, '/');
	snprintf(slash, sizeof(t->drivers) - (size_t)(slash - t->drivers), "/drivers");
	view_show(j, JAIL_RO, 0, t->agent, AGENT);
	if (t->tree[0]) { /* its interpreters have drivers of their own */
		view_show(j, JAIL_LINK, 0, "/usr/lib/xsbx", "/run/xsbx/lib");
		return 0;
	}
	view_show(j, JAIL_RO, 0, t->drivers, "/run/xsbx/lib");
	/* It comes as a file of its own more often than in a package. */
	if (view_find_program("bun", t->bun) == 0 && strncmp(t->bun, "/usr/", 5) != 0)
		view_show(j, JAIL_RO, 0, t->bun, USER_BIN "/bun");
	return 0;
}

/* What the session's template shows, on top of all else. */
static void add_paths(struct jail_spec *j, const struct view *v)
{
	for (size_t i = 0; v && i < v->npaths; i++) {
		const struct vm_path *p = &v->path[i];

		view_show(j, p->write ? JAIL_RW : JAIL_RO,
			  JAIL_NO_LINKS | (p->write ? JAIL_OWNED : 0u), p->source, p->target);
		if (p->write)
			j->flags |= JAIL_NO_SETID;
	}
	if (v) {
		j->owner = v->owner;
		j->owner_group = v->group;
	}
}

/* The working directory begins as one of the host; what is changed is in memory, and the daemon keeps
 * hold of that, so that it can be looked at and taken over when the sandbox is gone. */
static void add_work(struct jail_spec *j, const struct texts *t, const char *work)
{
	view_show(j, JAIL_RO, JAIL_NO_LINKS | JAIL_OWNED, work, LAYERS "/base");
	view_show(j, JAIL_TMPFS, 0, t->home, STORE);
	view_show(j, JAIL_OVERLAY, 0, LAYERS, HOME);
	j->keep = STORE "/upper";
}

static void add_memory(struct jail_spec *j, struct texts *t, const struct view *v, uint64_t memory)
{
	/* Until the agent is told the quotas, with its first message. */
	snprintf(t->home, sizeof(t->home), "mode=755,uid=%d,gid=%d,size=%llu,nr_inodes=65536",
		 USER_ID, USER_ID, (unsigned long long)memory * 2 / 5);
	snprintf(t->tmp, sizeof(t->tmp), "mode=1777,size=%llu,nr_inodes=65536",
		 (unsigned long long)memory * 3 / 10);
	view_show(j, JAIL_DEV, 0, NULL, "/dev");
	view_show(j, JAIL_PROC, 0, NULL, "/proc");
	if (v && v->work)
		add_work(j, t, v->work);
	else
		view_show(j, JAIL_TMPFS, 0, t->home, HOME);
	view_show(j, JAIL_TMPFS, 0, t->tmp, "/tmp");
	view_show(j, JAIL_LINK, 0, "../tmp", "/var/tmp");
}

static int describe_jail(const struct vm *vm, const struct backend_spec *spec, struct jail_spec *j,
			 struct texts *t)
{
	const uint64_t memory = (uint64_t)spec->memory_mb << 20;
	const char *why;
	int r;

	*j = (struct jail_spec){
		.use = JAIL_SANDBOX,
		.flags = JAIL_LOOPBACK | JAIL_TWO_IDS | JAIL_DATA_LIMIT,
		.user = USER_ID,
		.pids = (spec->processes ? spec->processes : PROCESSES_DEFAULT) + PROCESSES_AGENT,
		.cpu_percent = spec->cpus * 100,
		.memory = memory + ((uint64_t)PROCESS_OVERHEAD_MB << 20),
		.keep_caps = AGENT_CAPS,
		.host_name = t->name,
	};
	snprintf(t->name, sizeof(t->name), "%s", spec->name);
	t->tree[0] = '\0';
	if (spec->view && spec->view->image &&
	    images_tree(vm->images, spec->image, t->tree, &why) < 0)
		return -ENOENT;
	add_limit(j, RLIMIT_CORE, 1);
	add_limit(j, RLIMIT_MEMLOCK, 64 << 10);
	add_limit(j, RLIMIT_MSGQUEUE, 0);
	add_limit(j, RLIMIT_NICE, 0);
	add_limit(j, RLIMIT_RTPRIO, 0);
	add_system(j, t);
	add_memory(j, t, spec->view, memory);
	if (spec->layer)
		view_show(j, JAIL_RO, 0, spec->layer->path, PACKAGES);
	r = add_agent(j, t, vm->agent);
	if (vm->ca_path)
		view_show(j, JAIL_RO, JAIL_OPTIONAL, vm->ca_path, VM_CA_FILE);
	add_paths(j, spec->view);
	if (spec->network) {
		j->flags |= JAIL_CARD;
		j->card_socket = HOSTED_CARD_FD;
		view_show(j, JAIL_FILE, 0, RESOLV_CONF, "/etc/resolv.conf");
	}
	return r;
}

/* ---- its life ---- */

static void on_gone(struct hosted *h)
{
	struct backend *b = container_of(h, struct backend, hosted);

	h->events->destroyed(h->data);
	if (b->card >= 0)
		close(b->card);
	free(b);
}

static void on_started(struct child *c)
{
	struct hosted *h = c->data;

	h->vm->jail_seen[VM_PROCESS] = true;
	h->vm->jail[VM_PROCESS] = c->report;
	hosted_started(c);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct vm_problem p;
	char fix[400];

	if (c->no_card) {
		snprintf(
			fix, sizeof(fix),
			"%s Sessions in virtual machines need no such file, installers of packages "
			"do.",
			survey_tun_fix(err));
		trouble_set(&p, TROUBLE_NO_JAIL, fix,
			    "the sandbox can't have a network: /dev/net/tun: %s", strerror(-err));
	} else {
		trouble_set(&p, TROUBLE_NO_JAIL,
			    "See `doctor` for what this host lacks; nothing is run without a jail.",
			    "the sandbox did not start: %s: %s", step, strerror(-err));
	}
	hosted_over(c->data, &p);
}

static void on_exited(struct child *c, int status)
{
	struct vm_problem p;

	/* What earlier runs have died of says nothing about this. */
	if (c->oom_kills > c->gauges.oom_noted && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGKILL)
		trouble_set(&p, TROUBLE_OOM, "Give the session more memory (memory_mb).",
			    "the sandbox's memory was full when its first process needed some");
	else if (WIFSIGNALED(status))
		trouble_set(
			&p, "agent-killed", "Reset the session; more memory may help (memory_mb).",
			"the sandbox's first process was killed by signal %d", WTERMSIG(status));
	else
		trouble_set(&p, "agent-exited", "Reset the session.",
			    "the sandbox's first process ended with status %d",
			    WEXITSTATUS(status));
	hosted_over(c->data, &p);
}

/* The socket on which the jail's card will come, and the jail's end of it. Return: 0 or -errno. */
static int open_card(struct backend *b, int *ret_theirs)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	b->card = sv[0];
	*ret_theirs = sv[1];
	return 0;
}

static int spawn(struct hosted *h, const struct backend_spec *spec, int stream, int console)
{
	struct backend *b = container_of(h, struct backend, hosted);
	const struct plan *plan = b->plan;
	_cleanup_close_ int card = -1;
	char number[16], memory[24];
	const char *argv[8 + 2 * JAIL_MOUNTS_MAX] = {AGENT, "--jail", number, "--memory", memory};
	const char *const envp[] = {"PATH=" SYSTEM_PATH ":" USER_BIN, NULL};
	struct spawn_fd fds[4] = {
		{stream, HOSTED_AGENT_FD}, {console, STDOUT_FILENO}, {console, STDERR_FILENO}};
	struct jail_spec jail;
	struct spawn_spec s = {argv, envp, fds, 3, SPAWN_OOM_FIRST, &jail};
	int r = jail_unpack(plan->bytes, plan->len, &jail);
	size_t n = 5;

	(void)spec;
	if (r < 0)
		return r;
	jail.host_name = plan->name;
	for (uint32_t i = 0; i < jail.nmounts; i++) {
		if (jail.mounts[i].kind != JAIL_RW)
			continue;
		argv[n++] = "--write";
		argv[n++] = jail.mounts[i].target;
	}
	if (*jail.keep) {
		argv[n++] = "--store";
		argv[n++] = STORE;
	}
	snprintf(number, sizeof(number), "%d", HOSTED_AGENT_FD);
	snprintf(memory, sizeof(memory), "%llu",
		 (unsigned long long)((jail.memory >> 10) - (PROCESS_OVERHEAD_MB << 10)));
	if (jail.flags & JAIL_CARD)
		r = open_card(b, &card);
	if (r < 0)
		return r;
	if (card >= 0)
		fds[s.nfds++] = (struct spawn_fd){card, HOSTED_CARD_FD};
	h->child.started = on_started;
	h->child.failed = on_failed;
	h->child.exited = on_exited;
	return child_start(h->vm->spawner, &s, &h->child);
}

/* Return: 0 or -errno. */
static int make(struct vm *vm, const struct plan *plan, const struct backend_events *events,
		void *data, struct backend **ret_backend, int *ret_stream)
{
	struct backend *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->hosted = (struct hosted){.vm = vm, .events = events, .data = data, .gone = on_gone};
	b->stream = b->card = -1;
	b->plan = plan;
	r = hosted_start(&b->hosted, NULL, spawn, ret_stream);
	b->plan = NULL;
	if (r == 0)
		*ret_backend = b;
	else if (b->card >= 0)
		close(b->card);
	if (r < 0)
		free(b);
	return r;
}

/* Return: bytes, or -errno. */
static ssize_t describe(const struct vm *vm, const struct backend_spec *spec, char *out,
			size_t size)
{
	struct texts *t = malloc(sizeof(*t));
	struct jail_spec jail;
	ssize_t n = t ? describe_jail(vm, spec, &jail, t) : -ENOMEM;

	if (n == 0) {
		jail.host_name = "";
		n = jail_pack(&jail, out, size);
	}
	free(t);
	return n;
}

static void explain(struct vm *vm, const struct backend_spec *spec, int err, struct vm_problem *p)
{
	const char *why = strerror(-err);
	char path[PATH_MAX];

	if (spec->view && spec->view->image)
		(void)images_tree(vm->images, spec->image, path, &why);
	trouble_set(p, TROUBLE_NO_JAIL, "", "the sandbox can't be started: %s", why);
}

static int process_start(struct vm *vm, const struct backend_spec *spec,
			 const struct backend_events *events, void *data,
			 struct backend **ret_backend, int *ret_stream,
			 struct vm_problem *ret_problem)
{
	char bytes[SPAWN_MESSAGE_MAX];
	const ssize_t len = describe(vm, spec, bytes, sizeof(bytes));
	const struct plan plan = {spec->name, (size_t)len, bytes};
	struct backend *b = NULL;
	int r = (int)len;

	if (len > 0 && !spec->background)
		b = shelf_take(&vm->shelf, bytes, (size_t)len, events, data);
	if (b) {
		*ret_stream = steal_fd(&b->stream);
		*ret_backend = b;
		return 1;
	}
	if (len > 0)
		r = make(vm, &plan, events, data, ret_backend, ret_stream);
	if (r < 0)
		explain(vm, spec, r, ret_problem);
	return MIN(r, 0);
}

static void process_destroy(struct backend *b)
{
	if (b->stream >= 0)
		close(b->stream);
	b->stream = -1;
	hosted_destroy(&b->hosted);
}

static void process_info(struct backend *b, struct backend_info *ret_info)
{
	const pid_t pid = hosted_pid(&b->hosted);

	*ret_info = (struct backend_info){.accel = "none",
					  .kept = pid ? b->hosted.child.kept : -1,
					  .pid = pid,
					  .report = pid ? &b->hosted.child.report : NULL,
					  .gauges = pid ? &b->hosted.child.gauges : NULL};
}

static int process_take_card(struct backend *b, bool *ret_stream)
{
	*ret_stream = false;
	return b->card < 0 ? -EBUSY : steal_fd(&b->card);
}

static void process_drain(struct backend *b)
{
	hosted_drain(&b->hosted);
}

/* ---- on the shelf ---- */

static struct backend *shelf_make(struct vm *vm, const void *bytes, size_t len,
				  const struct backend_events *events, void *data)
{
	const struct plan plan = {"sandbox", len, bytes};
	struct backend *b = NULL;
	int stream = -1;

	if (make(vm, &plan, events, data, &b, &stream) == 0)
		b->stream = stream;
	return b;
}

static bool shelf_alive(const struct backend *b)
{
	struct pollfd p = {.fd = b->hosted.child.pidfd, .events = POLLIN};

	return hosted_pid(&b->hosted) && poll(&p, 1, 0) == 0;
}

static void shelf_give(struct backend *b, const struct backend_events *events, void *data)
{
	b->hosted.events = events;
	b->hosted.data = data;
}

const struct shelf_ops process_shelf_ops = {
	.make = shelf_make,
	.alive = shelf_alive,
	.give = shelf_give,
	.destroy = process_destroy,
};

const struct backend_ops backend_process = {
	.name = "process",
	.views = true,
	.pools = true,
	.overhead_mb = PROCESS_OVERHEAD_MB,
	.start = process_start,
	.destroy = process_destroy,
	.info = process_info,
	.take_card = process_take_card,
	.drain = process_drain,
};
