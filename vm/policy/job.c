/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an order into a job: the program, its arguments, its descriptors, its jail. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "vm/backend/agent_process.h"
#include "vm/build/package_internal.h"
#include "vm/jail/cell.h"
#include "vm/host/kvm.h"
#include "vm/net/jail_spec.h"
#include "job.h"
#include "vm/order/policy_internal.h"
#include "vm/spawn/server.h"
#include "vm/backend/process_jail.h"
#include "vm/backend/qemu_argv.h"
#include "vm/backend/qemu_jail.h"
#include "vm/spawn/wire.h"
#include "vm/task/overlay_diff.h"
#include "vm/base/path.h"
#include "vm/base/util.h"
#include "vm/store/kind.h"
#include "vm/jail/view.h"

#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
#define QEMU_MOST_MB \
	512 /* beside the guest's memory, of a guest that does its worst; then it is killed */
#define STALL_S	       "5"
#define CHANGES_MEMORY (64ull << 20)
#define CHANGES_FILES  1024u
#define CHANGES_CPU_S  600u

/* What a job points to: one is served after the other. */
static struct {
	struct order order;
	union {
		struct {
			struct qemu_jail jail;
			struct qemu_argv argv;
		} machine;
		struct {
			struct process_jail jail;
			struct vm_path path[VM_PATHS_MAX];
			char tree[PATH_MAX], tool[PATH_MAX], layer[PATH_MAX];
			char usr[PATH_MAX + 8], out[PATH_MAX + 100], packed[PATH_MAX + 100];
		} sandbox;
		struct net_jail net;
		struct jail_spec changes;
	};
	char text[16384];
	size_t len;
	bool full;
} scratch;

static void add_string(const char **list, const char *string)
{
	size_t n = 0;

	while (list[n])
		n++;
	if (n < SPAWN_STRINGS_MAX)
		list[n] = string;
	else
		scratch.full = true;
}

void policy_add_args(struct spawn_job *job, const char *const *args)
{
	while (*args)
		add_string(job->argv, *args++);
}

void policy_env(struct spawn_job *job, const char *variable)
{
	add_string(job->envp, variable);
}

const char *policy_text(const char *fmt, ...)
{
	const size_t room = sizeof(scratch.text) - scratch.len;
	char *text = scratch.text + scratch.len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room) {
		scratch.full = true;
		return "";
	}
	scratch.len += (size_t)n + 1;
	return text;
}

static const char *number(uint64_t value)
{
	return policy_text("%" PRIu64, value);
}

/* The next descriptor gets that number. */
static void add_target(struct spawn_job *job, int to)
{
	const uint32_t from = job->ntargets ? job->target[job->ntargets - 1].from + 1 : 0;

	assert(job->ntargets < SPAWN_FDS_MAX);
	job->target[job->ntargets++] = (struct spawn_target){from, to};
}

/* Several of them, up to -1. */
static void add_targets(struct spawn_job *job, const int *to)
{
	while (*to >= 0)
		add_target(job, *to++);
}

/* To one go all words. */
static void add_output(struct spawn_job *job)
{
	add_target(job, STDOUT_FILENO);
	assert(job->ntargets < SPAWN_FDS_MAX);
	job->target[job->ntargets] = job->target[job->ntargets - 1];
	job->target[job->ntargets++].to = STDERR_FILENO;
}

/* ---- what only runs to be asked ---- */

static int version_job(const struct policy *p, struct spawn_job *job)
{
	if (!p->qemu[0])
		return -ENOENT;
	policy_args(job, p->qemu, "--version");
	add_target(job, STDOUT_FILENO);
	return 0;
}

/* In the cell that a machine would have. */
static int trial_job(const struct policy *p, struct spawn_job *job)
{
	struct qemu_jail *jail = &scratch.machine.jail;
	int r;

	if (!p->most.kvm)
		return -EPERM;
	if (!p->qemu[0])
		return -ENOENT;
	r = qemu_jail(p->qemu, true, KVM_PROBE_MB, 1, jail);
	if (r < 0)
		return r;
	job->jail = &jail->spec;
	job->flags = SPAWN_KVM_PROBE;
	policy_args(job, "kvm-trial");
	add_target(job, STDOUT_FILENO);
	return 0;
}

/* ---- machines ---- */

static void machine_targets(const struct order_machine *o, struct spawn_job *job)
{
	static const int always[] = {QEMU_FD_CONTROL,
				     QEMU_FD_AGENT,
				     QEMU_FD_CONSOLE,
				     QEMU_FD_KERNEL,
				     QEMU_FD_INITRD,
				     QEMU_FD_ROOTFS,
				     -1};

	add_output(job);
	add_targets(job, always);
	if (o->flags & ORDER_PACKED)
		add_target(job, QEMU_FD_PACKAGES);
	if (o->mode != MACHINE_COLD) {
		add_target(job, QEMU_FD_RAM);
		add_target(job, QEMU_FD_STATE);
	}
	if (o->flags & ORDER_NETWORK)
		add_target(job, QEMU_FD_CARD);
}

static int machine_job(const struct policy *p, const struct order_machine *o, struct spawn_job *job)
{
	struct qemu_jail *jail = &scratch.machine.jail;
	struct qemu_argv *argv = &scratch.machine.argv;
	const struct qemu_machine machine = {
		.arch = ARCH_MACHINES,
		.qemu = jail->program,
		.version = o->version,
		.name = o->name,
		.mode = (enum machine_mode)o->mode,
		.kvm = o->flags & ORDER_KVM,
		.own_kernel = o->flags & ORDER_OWN_KERNEL,
		.tsc_khz = o->tsc_khz,
		.memory_mb = o->memory_mb,
		.cpus = o->cpus,
		.network = o->flags & ORDER_NETWORK,
		.packages = o->flags & ORDER_PACKED,
		.root = o->flags & ORDER_ROOT,
	};
	int r;

	if (!p->qemu[0])
		return -ENOENT;
	r = qemu_jail(p->qemu, machine.kvm, o->memory_mb + QEMU_MOST_MB, o->cpus, jail);
	if (r < 0)
		return r;
	jail->spec.flags |= p->mitigate ? JAIL_MITIGATE : 0u;
	qemu_argv(&machine, argv);
	for (size_t i = 0; i < argv->argc; i++)
		policy_args(job, argv->argv[i]);
	policy_env(job, "LC_ALL=C");
	machine_targets(o, job);
	job->jail = &jail->spec;
	/* With KVM huge pages make a guest's memory faster; an emulated one's is slow anyway. */
	job->flags = SPAWN_OOM_FIRST | (machine.kvm ? 0u : SPAWN_SMALL_PAGES) |
		     (machine.mode == MACHINE_RECORD ? SPAWN_NICE : 0u);
	return 0;
}

/* Which process that is the spawner knows. */
static int point_job(const struct order_point *o, struct spawn_job *job)
{
	policy_args(job, "ram-copy");
	add_targets(job, (const int[]){RAM_COPY_TALK, RAM_COPY_STREAM, RAM_COPY_DEVICES, -1});
	if (o->whole)
		add_target(job, RAM_COPY_BASE);
	job->ram = (struct ram_copy){
		.machine = o->machine,
		.address = o->address,
		.bytes = (uint64_t)o->memory_mb << 20,
		.whole = o->whole,
	};
	job->flags = SPAWN_RAM | SPAWN_OOM_FIRST;
	return 0;
}

/* ---- processes ---- */

/*
 * Whose rights may be claimed? Ids of a user's own daemon are all his. With root's, a session is root's
 * where nobody else can have any, and else of whoever the daemon says; but what is root's only root's
 * own directories are opened to.
 */
static bool owner_ok(const struct policy *p, const struct sealed_view *v, uint32_t owner,
		     uint32_t group)
{
	if (!v->writes || geteuid() != 0)
		return true;
	if (!p->others) /* the kernel checks the real ids; what waits is made for the effective ones */
		return owner == 0 && (group == getegid() || group == getgid());
	return (owner != 0 || v->roots) && (group != 0 || v->roots_groups || owner == 0) &&
	       !jail_has_id(owner) && !jail_has_id(group);
}

static void show(struct process_cell *c, const char *source, const char *target, bool write)
{
	assert(c->npaths < VM_PATHS_MAX);
	scratch.sandbox.path[c->npaths++] = (struct vm_path){source, target, write};
}

/* What installs packages: a program of the host's, or that file of the image which has the same name as the
 * language. */
static const struct {
	const char *name, *tool, *file;
} languages[] = {
	[ORDER_PYTHON] = {"python", "uv", "/usr/local/bin/uv"},
	[ORDER_JAVASCRIPT] = {"javascript", "bun",
			      "/usr/local/lib/node_modules/@oven/bun-linux-x64-baseline/bin/bun"},
};
static_assert(ARRAY_SIZE(languages) == ORDER_NLANGUAGES, "each language");

/* Where it really lies: on the host, or, where that has none, in the image of the language. Return: 0, -ENOENT,
 * -EPERM if the image's leads out of the image. */
static int find_tool(const struct policy *p, uint32_t language, char ret_path[PATH_MAX])
{
	char tree[PATH_MAX], path[PATH_MAX + 100];
	int r;

	if (view_find_program(languages[language].tool, ret_path) == 0)
		return 0;
	r = policy_tree(p, languages[language].name, tree);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s%s", tree, languages[language].file);
	if (!realpath(path, ret_path))
		return -ENOENT;
	/* A link of the image's would lead to something of the host. */
	return path_is_below(ret_path, tree) ? 0 : -EPERM;
}

/* One in which packages are installed, or packed. */
static int add_install(const struct policy *p, const struct order_sandbox *o,
		       struct process_cell *c)
{
	const bool python = o->language == ORDER_PYTHON;
	int r;

	c->memory_mb = PACKAGE_MEMORY_MB;
	c->cpus = PACKAGE_CPUS;
	c->processes = 0;
	c->owner = geteuid();
	c->group = getegid();
	c->file_bytes = p->layer_bytes;
	snprintf(scratch.sandbox.out, sizeof(scratch.sandbox.out), "%s/.tmp-%s/out", p->layers,
		 o->key);
	snprintf(scratch.sandbox.packed, sizeof(scratch.sandbox.packed), "%s/.tmp-%s/packed",
		 p->layers, o->key);
	if (o->view == ORDER_VIEW_PACK) {
		show(c, scratch.sandbox.out, "/layer", false);
		show(c, scratch.sandbox.packed, "/packed", true);
		return 0;
	}
	r = o->image[0] ? policy_tree(p, o->image, scratch.sandbox.tree)
			: find_tool(p, o->language, scratch.sandbox.tool);
	if (r < 0)
		return r;
	snprintf(scratch.sandbox.usr, sizeof(scratch.sandbox.usr), "%s/usr", scratch.sandbox.tree);
	if (o->image[0])
		show(c, scratch.sandbox.usr, "/usr", false);
	else
		show(c, scratch.sandbox.tool,
		     python ? PROCESS_JAIL_BIN "/uv" : PROCESS_JAIL_BIN "/bun", false);
	if (p->offline)
		show(c, p->offline, PACKAGE_MIRROR, false);
	show(c, scratch.sandbox.out, "/layer", true);
	return 0;
}

static int add_view(const struct policy *p, const struct order_sandbox *o, struct process_cell *c)
{
	const struct sealed_view *v;
	int r = 0;

	c->tree = "";
	c->paths = scratch.sandbox.path;
	if (o->view == ORDER_VIEW_INSTALL || o->view == ORDER_VIEW_PACK)
		return add_install(p, o, c);
	if (o->image[0]) {
		r = policy_tree(p, o->image, scratch.sandbox.tree);
		c->tree = scratch.sandbox.tree;
	}
	if (r < 0 || o->view == ORDER_VIEW_NONE)
		return r;
	v = &p->view[o->view - ORDER_VIEW_FIRST];
	if (!owner_ok(p, v, o->owner, o->group))
		return -EPERM;
	c->paths = v->path;
	c->npaths = v->npaths;
	c->work = v->work;
	return 0;
}

/* The agent is told what of the host its users can write to, and where changes are kept. */
static void agent_args(struct spawn_job *job, const struct process_jail *jail)
{
	const struct jail_spec *j = &jail->spec;

	policy_args(job, PROCESS_JAIL_AGENT, "--jail", policy_text("%d", AGENT_PROCESS_AGENT_FD),
		    "--memory", number((j->memory >> 10) - (PROCESS_JAIL_OVERHEAD_MB << 10)));
	for (uint32_t i = 0; i < j->nmounts; i++) {
		if (j->mounts[i].kind != JAIL_RW)
			continue;
		policy_args(job, "--write", j->mounts[i].target);
	}
	if (j->keep)
		policy_args(job, "--store", PROCESS_JAIL_STORE);
}

static int sandbox_job(const struct policy *p, const struct order_sandbox *o, struct spawn_job *job)
{
	const bool network = o->flags & ORDER_NETWORK;
	struct process_jail *jail = &scratch.sandbox.jail;
	struct process_cell cell = {
		.name = o->name,
		.memory_mb = o->memory_mb,
		.cpus = o->cpus,
		.processes = o->processes,
		.agent = p->agent,
		.ca = p->ca,
		.owner = o->owner,
		.group = o->group,
		.card_socket = network ? AGENT_PROCESS_CARD_FD : 0,
	};
	int r = p->agent[0] ? add_view(p, o, &cell) : -ENOENT;

	if (r < 0)
		return r;
	if (o->layer[0]) {
		policy_layer(p, o->layer, scratch.sandbox.layer);
		cell.layer = scratch.sandbox.layer;
	}
	r = process_jail(&cell, jail);
	if (r < 0)
		return r;
	jail->spec.flags |= p->mitigate ? JAIL_MITIGATE : 0u;
	agent_args(job, jail);
	policy_env(job, "PATH=" SYSTEM_PATH ":" PROCESS_JAIL_BIN);
	add_target(job, AGENT_PROCESS_AGENT_FD);
	if (network)
		add_target(job, AGENT_PROCESS_CARD_FD);
	add_output(job);
	job->jail = &jail->spec;
	job->flags = SPAWN_OOM_FIRST;
	return 0;
}

/* Of a sandbox that works on a copy of a directory. */
static int changes_job(const struct policy *p, const struct order_changes *o, struct spawn_job *job)
{
	const struct sealed_view *v = &p->view[o->view - ORDER_VIEW_FIRST];
	struct jail_spec *j = &scratch.changes;

	if (!v->work || !owner_ok(p, v, o->owner, o->group) || !jail_is_first_id(o->foreign))
		return -EPERM;
	*j = (struct jail_spec){
		.use = JAIL_CHANGES,
		.flags = JAIL_AS_OWNER,
		.host_name = "work",
		.owner = o->owner,
		.owner_group = o->group,
		.foreign = o->foreign,
		.pids = 4,
		.memory = CHANGES_MEMORY,
		/* The owner's rights, and to read whatever the sandbox has made. */
		.keep_caps = 1ull << CAP_DAC_READ_SEARCH,
		.nrlimits = 3,
		.rlimits = {{RLIMIT_CORE, 0, 1}, /* with 0 a program of the host's could have it */
			    {RLIMIT_NOFILE, 0, CHANGES_FILES},
			    {RLIMIT_CPU, 0, CHANGES_CPU_S}},
	};
	view_show(j, o->commit ? JAIL_RW : JAIL_RO, JAIL_NO_LINKS, v->work, OVERLAY_BASE);
	policy_args(job, o->commit ? OVERLAY_COMMIT : OVERLAY_LIST);
	add_targets(job, (const int[]){OVERLAY_BEGIN_FD, OVERLAY_UPPER_FD, OVERLAY_WORDS_FD, -1});
	job->jail = j;
	job->flags = SPAWN_TREE;
	return 0;
}

/* ---- networks ---- */

static int filter_job(const struct policy *p, const struct order_filter *o, struct spawn_job *job)
{
	int r = net_jail(p->agent, NET_PROGRAM_NET, &scratch.net);

	if (r < 0)
		return r;
	policy_args(job, NET_JAIL_PROGRAM, "--control", "3", o->stream ? "--stream" : "--receive",
		    "4", "--confined");
	policy_env(job, "LC_ALL=C");
	add_targets(job, (const int[]){3, 4, STDERR_FILENO, -1});
	job->jail = &scratch.net.spec;
	job->flags = SPAWN_OOM_FIRST;
	return 0;
}

static int dialer_job(const struct policy *p, struct spawn_job *job)
{
	int r = net_jail(p->agent, NET_PROGRAM_DIAL, &scratch.net);

	if (r < 0)
		return r;
	policy_args(job, NET_JAIL_PROGRAM, "3", p->upstream && *p->upstream ? p->upstream : NULL);
	policy_env(job, "LC_ALL=C");
	add_target(job, 3);
	job->jail = &scratch.net.spec;
	return 0;
}

/* ---- without a jail ---- */

/*
 * They are the user's own scripts, which install programs and talk to his registries, and xsbxfs-store,
 * which confines itself. Of the environment in which xsbxfs was started they get what is listed here.
 * Not among it is anything that would have another program run, or another library loaded.
 */

/* Passes on variables of our own environment. */
static void pass(struct spawn_job *job, const char *const names[], size_t n)
{
	for (char **e = environ; *e; e++) {
		for (size_t i = 0; i < n; i++) {
			const size_t len = strlen(names[i]);

			if (strncmp(*e, names[i], len) == 0 && (*e)[len] == '=')
				policy_env(job, *e);
		}
	}
}

static void pass_one(struct spawn_job *job, const char *name, const char *value)
{
	if (value)
		policy_env(job, policy_text("%s=%s", name, value));
}

static int store_job(const struct policy *p, const struct order_store *o, struct spawn_job *job)
{
	static const char *const names[] = {
		"AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN",  "AWS_REGION",
		"AWS_DEFAULT_REGION", STORE_SECRET,
		"SSL_CERT_FILE",      "https_proxy",
		"HTTPS_PROXY",	      "http_proxy",
		"no_proxy",	      "NO_PROXY",
	};
	static const enum store_kind kinds[] = {
		[ORDER_SNAPSHOT] = STORE_SNAPSHOT, [ORDER_LAYER] = STORE_LAYER};
	const enum store_kind kind = kinds[o->kind];

	if (!p->store_url || !(o->get ? p->store_read : p->store_write))
		return -EPERM;
	if (!p->store[0])
		return -ENOENT;
	policy_args(job, p->store, "--url", p->store_url, "--timeout", number(p->store_timeout_s),
		    "--stall", STALL_S, "--limit", number(o->limit), "--tsc", number(o->tsc_khz));
	if (p->store_region)
		policy_args(job, "--region", p->store_region);
	if (o->anew)
		policy_args(job, "--anew");
	policy_args(job, o->get ? "get" : "put", store_kind_str(kind), o->key,
		    policy_text("%s/%s", p->cache, store_kind_dir(kind)));
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_NICE | SPAWN_OOM_FIRST;
	return 0;
}

/* It confines itself. */
static int trace_job(const struct policy *p, struct spawn_job *job)
{
	static const char *const names[] = {
		"OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"SSL_CERT_FILE",
		"https_proxy",
		"HTTPS_PROXY",
		"http_proxy",
		"no_proxy",
		"NO_PROXY",
	};

	if (!p->trace_url || !*p->trace_url)
		return -EPERM;
	if (!p->trace[0])
		return -ENOENT;
	policy_args(job, p->trace, "--url", p->trace_url);
	add_target(job, STDIN_FILENO);
	add_output(job);
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_NICE | SPAWN_OOM_FIRST;
	return 0;
}

/* The configuration's, or what the environment says. */
static void pass_registries(const struct policy *p, struct spawn_job *job)
{
	static const char python[] = "XSBXFS_PYTHON_INDEX", npm[] = "XSBXFS_NPM_REGISTRY";

	pass_one(job, python, p->python_index ? p->python_index : getenv(python));
	pass_one(job, npm, p->npm_registry ? p->npm_registry : getenv(npm));
}

static int image_job(const struct policy *p, const struct order_image *o, struct spawn_job *job)
{
	static const char *const names[] = {
		"HOME",	       "PATH",	       "TMPDIR",	"USER",
		"LOGNAME",     "http_proxy",   "HTTP_PROXY",	"https_proxy",
		"HTTPS_PROXY", "no_proxy",     "NO_PROXY",	"SSL_CERT_FILE",
		"APT_CONFIG",  "XSBXFS_SUITE", "XSBXFS_MIRROR", "XSBXFS_SECURITY_MIRROR",
	};

	if (!p->builder[0])
		return -ENOENT;
	policy_args(job, p->builder);
	if (o->unpack)
		policy_args(job, "--unpack");
	policy_args(job, o->image);
	pass_one(job, "XSBXFS_CACHE", p->cache);
	pass_one(job, "XSBXFS_SHARED", p->shared ? p->shared : "none");
	pass_one(job, "XSBXFS_ARCH", ARCH_FOREIGN ? ARCH_DEBIAN : NULL);
	pass_registries(p, job);
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_NICE | SPAWN_OOM_FIRST | SPAWN_TOOL;
	return 0;
}

static int packages_job(const struct policy *p, const struct order_packages *o,
			struct spawn_job *job)
{
	static const char *const names[] = {"HOME", "PATH", "USER", "LOGNAME", "PIP_INDEX_URL"};

	if (!p->prepare[0])
		return -ENOENT;
	policy_args(job, p->prepare, languages[o->language].name, o->image[0] ? "image" : "host");
	if (o->image[0])
		policy_args(job, o->image);
	else
		policy_args(job, languages[o->language].tool, languages[o->language].file);
	pass_one(job, "XSBXFS_CACHE", p->cache);
	pass_one(job, "XSBXFS_SHARED", p->shared ? p->shared : "none");
	pass_one(job, "XSBXFS_PYTHON_INDEX", p->python_index);
	pass_one(job, "XSBXFS_PYTHON_HOSTS", p->python_hosts);
	pass_one(job, "XSBXFS_NPM_REGISTRY", p->npm_registry);
	pass_one(job, "XSBXFS_NPM_HOSTS", p->npm_hosts);
	pass_one(job, "XSBXFS_OFFLINE", p->offline);
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_OOM_FIRST | SPAWN_TOOL;
	return 0;
}

/* With the rights of the user, who has written it into the configuration. */
static void pass_user(struct spawn_job *job)
{
	static const char *const names[] = {
		"HOME",
		"PATH",
		"USER",
		"LOGNAME",
		"XDG_RUNTIME_DIR",
		"GNUPGHOME",
		"CREDENTIALS_DIRECTORY",
	};

	pass(job, names, ARRAY_SIZE(names));
}

static int key_job(const struct policy *p, struct spawn_job *job)
{
	if (!p->key_command)
		return -ENOENT;
	policy_args(job, "/bin/sh", "-c", p->key_command);
	add_target(job, STDOUT_FILENO);
	pass_user(job);
	job->flags = SPAWN_TOOL;
	return 0;
}

/* ---- the table ---- */

static int job_of(const struct policy *p, const struct order *o, struct spawn_job *job)
{
	switch ((enum order_program)o->program) {
	case ORDER_QEMU_VERSION: return version_job(p, job);
	case ORDER_KVM_TRIAL: return trial_job(p, job);
	case ORDER_MACHINE: return machine_job(p, &o->machine, job);
	case ORDER_SANDBOX: return sandbox_job(p, &o->sandbox, job);
	case ORDER_FILTER: return filter_job(p, &o->filter, job);
	case ORDER_DIALER: return dialer_job(p, job);
	case ORDER_CHANGES: return changes_job(p, &o->changes, job);
	case ORDER_POINT: return point_job(&o->point, job);
	case ORDER_STORE: add_output(job); return store_job(p, &o->store, job);
	case ORDER_TRACE: return trace_job(p, job);
	case ORDER_IMAGE: add_output(job); return image_job(p, &o->image, job);
	case ORDER_KEY: return key_job(p, job);
	case ORDER_SECRET: pass_user(job); return secret_job(p, &o->secret, job);
	case ORDER_PACKAGES: add_output(job); return packages_job(p, &o->packages, job);
	case ORDER_LOCAL:
#ifdef XSBX_LOCAL_BACKEND
		return local_job(p, &o->local, job);
#endif
	case ORDER_NPROGRAMS: break;
	}
	return -EPERM;
}

int policy_job(const void *policy, const void *order, size_t len, size_t nfds,
	       struct spawn_job *ret_job)
{
	const struct policy *p = policy;
	int r = order_parse(order, len, nfds, &p->most, &scratch.order);

	if (r < 0)
		return r;
	scratch.len = 0;
	scratch.full = false;
	r = job_of(p, &scratch.order, ret_job);
	if (r == 0 && scratch.full)
		r = -E2BIG;
	return r;
}
