/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration and of sessions: a table of their sections, types and ranges. */
#include "key.h"

#include <errno.h>
#include <string.h>

#include "daemon.h"
#include "entry.h"
#include "network.h"
#include "paths.h"
#include "ruleset.h"
#include "quota.h"
#include "value.h"
#include "vm/base/arch.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 *
 * A row describes a key: its section, the type of its value and where it is stored, its default, the
 * administrator's limit for it, whether it may change while a sandbox runs, and the comment shown in
 * `config`. Everything else iterates over the table: files, options, `config`, freeing. Only `env.NAME`,
 * which stands for many keys, is handled separately.
 *
 * Some keys depend on others, or on the template: these are handled by settings.c, network.c, paths.c
 * and packages.c.
 */

#define CONF(field)  offsetof(struct conf, field)
#define SET(field)   offsetof(struct settings, field)
#define SPEC(field)  offsetof(struct settings, spec.field)
#define LIMIT(field) offsetof(struct settings_limits, field)
#define MAY(field)   offsetof(struct allowance, field)

#define WEEK_S	     (86400u * 7)
#define MIB	     (1u << 20)
#define NET_MIB	     (1u << 30) /* a PiB */
#define NET_COUNT    1000000000u
#define YES_NO	     .words = {"no", "yes"}
#define BACKENDS     .words = VM_BACKEND_NAMES
#define IDLE_WORDS   .words = {"auto", "hibernate", "close"}

/* Those of sessions in the order in which they are shown. */
static const struct key keys[] = {
	{"cache_dir", CONF_GLOBAL, KEY_PATH, CONF(vm.cache_dir)},
	{"shared_dir", CONF_GLOBAL, KEY_PATH, CONF(vm.shared_dir), .words = {"none"}},
	{"runtime_dir", CONF_GLOBAL, KEY_PATH, CONF(vm.runtime_dir)},
	{"spool_dir", CONF_GLOBAL, KEY_PATH, CONF(spool_dir)},
	{"keep", CONF_GLOBAL, KEY_FLAG, CONF(keep), "no", YES_NO},
	{"survive", CONF_GLOBAL, KEY_FLAG, CONF(survive), "yes", YES_NO},
	{"max_deaths", CONF_GLOBAL, KEY_NUMBER, CONF(max_deaths), "6", 1, 1000000},
	{"state_dir", CONF_GLOBAL, KEY_PATH, CONF(state_dir)},
	{"audit_file", CONF_GLOBAL, KEY_PATH, CONF(audit_file)},
	{"audit_rotate_mb", CONF_GLOBAL, KEY_NUMBER, CONF(audit_rotate_mb), "64", 0, MIB},
	{"audit_keep", CONF_GLOBAL, KEY_NUMBER, CONF(audit_keep), "8", 1, 1000},
	{"audit_sync", CONF_GLOBAL, KEY_FLAG, CONF(audit_sync), "no", YES_NO},
	{"audit_required", CONF_GLOBAL, KEY_FLAG, CONF(audit_required), "no", YES_NO},
	{"audit_code", CONF_GLOBAL, KEY_FLAG, CONF(audit_code), "no", YES_NO},
	{"otlp_program", CONF_GLOBAL, KEY_PATH, CONF(vm.trace.program)},
	{"otlp_url", CONF_GLOBAL, KEY_URL, CONF(vm.trace.url)},
	{"qemu", CONF_GLOBAL, KEY_PROGRAM, CONF(vm.qemu), ARCH_QEMU},
	{"agent", CONF_GLOBAL, KEY_PATH, CONF(vm.agent)},
	{"accel", CONF_GLOBAL, KEY_WORD, CONF(vm.accel), "auto", .words = {"auto", "kvm", "tcg"}},
	{"image_builder", CONF_GLOBAL, KEY_PROGRAM, CONF(vm.image_builder)},
	{"backend", CONF_GLOBAL, KEY_CHOICE, CONF(backend), "microvm", BACKENDS},
	{"prepare", CONF_GLOBAL, KEY_TEXT, CONF(prepare), "yes"},
	{"kernel", CONF_GLOBAL, KEY_WORD, CONF(vm.kernel), "auto",
	 .words = {"auto", "own", "stock"}},
	{"allow_other", CONF_GLOBAL, KEY_FLAG, CONF(allow_other), "no", YES_NO},
	{"max_vms", CONF_GLOBAL, KEY_NUMBER, CONF(quota.all.machines), "0", 0, 100000},
	{"max_vms_user", CONF_GLOBAL, KEY_NUMBER, CONF(quota.each.machines), "0", 0, 100000},
	{"memory_overcommit", CONF_GLOBAL, KEY_NUMBER, CONF(vm.memory_percent), "200", 10, 10000},
	{"memory_reserve", CONF_GLOBAL, KEY_SIZE, CONF(vm.reserve_bytes), "0", 0, 16 * MIB},
	{"cpu_overcommit", CONF_GLOBAL, KEY_NUMBER, CONF(vm.cpu_percent), "200", 10, 10000},
	{"admission_queue", CONF_GLOBAL, KEY_NUMBER, CONF(vm.queue), "1024", 1, 100000},
	{"admission_queue_user", CONF_GLOBAL, KEY_NUMBER, CONF(vm.queue_user), "256", 0, 100000},
	{"max_sessions", CONF_GLOBAL, KEY_NUMBER, CONF(quota.each.sessions), "1024", 0, 1000000},
	{"admission_timeout_s", CONF_GLOBAL, KEY_NUMBER, CONF(vm.admission_s), "120", 1, WEEK_S},
	{"boot_timeout_s", CONF_GLOBAL, KEY_NUMBER, CONF(vm.boot_s), "60", 1, 3600},
	{"force_mitigations", CONF_GLOBAL, KEY_FLAG, CONF(vm.mitigate), "no", YES_NO},
	{"snapshot_limit", CONF_GLOBAL, KEY_SIZE, CONF(vm.snapshot_bytes), "4G", 0, 16 * MIB},
	{"output_limit", CONF_GLOBAL, KEY_SIZE, CONF(output_bytes), "64M", 0, MIB},
	{"history_limit", CONF_GLOBAL, KEY_SIZE, CONF(history_bytes), "256M", 0, 16 * MIB},
	{"history_runs", CONF_GLOBAL, KEY_NUMBER, CONF(history_runs), "100", 1, 100000},
	{"key_command", CONF_GLOBAL, KEY_TEXT, CONF(vm.key_command)},
	{"checkpoint_limit", CONF_GLOBAL, KEY_SIZE, CONF(checkpoint_bytes), "4G", 0, 16 * MIB},
	{"max_checkpoints", CONF_GLOBAL, KEY_NUMBER, CONF(max_checkpoints), "32", 1,
	 CHECKPOINTS_MAX},
	{"log_level", CONF_GLOBAL, KEY_CHOICE, CONF(log_level), .words = LOG_LEVEL_NAMES},
	{"log_format", CONF_GLOBAL, KEY_CHOICE, CONF(log_format), "text",
	 .words = LOG_FORMAT_NAMES},

	{"max_memory_mb", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_memory_mb), "0", 128, MIB},
	{"max_cpus", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_cpus), "0", 0, 64},
	{"max_timeout_s", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_timeout_s), "0", 0, WEEK_S},
	{"max_grace_s", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_grace_s), "0", 0, 60},
	{"max_idle_timeout_s", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_idle_timeout_s), "0", 0,
	 WEEK_S},
	{"max_processes", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_processes), "0", 64, 16384},
	{"max_open_files", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_open_files), "0", 64, 65536},
	{"max_file_size_mb", CONF_LIMITS, KEY_NUMBER, CONF(limits.max_file_size_mb), "0", 0, MIB},
	{"max_saved", CONF_LIMITS, KEY_SIZE, CONF(saved_bytes), "16G", 0, 16 * MIB},
	{"allow_process", CONF_LIMITS, KEY_FLAG, CONF(limits.allow_process), "no", YES_NO},
	{"allow_learn", CONF_LIMITS, KEY_FLAG, CONF(limits.allow_learn), "no", YES_NO},
	{"learn_paths", CONF_LIMITS, KEY_TEXT, CONF(learn_paths)},
	{"allow_network", CONF_LIMITS, KEY_FLAG, CONF(allow_network), "yes", YES_NO},
	{"stand_still", CONF_LIMITS, KEY_FLAG, CONF(vm.stand_still), "yes", YES_NO},
	{"max_allow", CONF_LIMITS, KEY_MAX_ALLOW, CONF(limits.max_allow), "*"},
	{"host_ports", CONF_LIMITS, KEY_HOST_PORTS, CONF(limits.host_ports)},
	{"first_rules", CONF_LIMITS, KEY_FIRST_RULES, CONF(limits.first_rules)},
	{"max_net_bytes", CONF_LIMITS, KEY_SIZE, CONF(limits.max_net_bytes), "0", 0, NET_MIB},
	{"max_net_requests", CONF_LIMITS, KEY_COUNT, CONF(limits.max_net_requests), "0", 0,
	 NET_COUNT},
	{"max_net_connections", CONF_LIMITS, KEY_COUNT, CONF(limits.max_net_connections), "0", 0,
	 NET_COUNT},
	{"max_net_rate", CONF_LIMITS, KEY_SIZE, CONF(limits.max_net_rate), "0", 0, MIB},

	{"ca_certificates", CONF_NETWORK, KEY_PATH, CONF(ca_certificates), "host",
	 .words = {"host", "none"}},
	{"proxy", CONF_NETWORK, KEY_SWITCH, CONF(pass_proxy), "none", .words = {"none", "pass"}},
	{"upstream", CONF_NETWORK, KEY_UPSTREAM, CONF(vm.upstream)},

	{"program", CONF_STORE, KEY_PATH, CONF(vm.store.program)},
	{"url", CONF_STORE, KEY_URL, CONF(vm.store.url)},
	{"region", CONF_STORE, KEY_REGION, CONF(vm.store.region)},
	{"read", CONF_STORE, KEY_FLAG, CONF(vm.store.read), "yes", YES_NO},
	{"write", CONF_STORE, KEY_FLAG, CONF(vm.store.write), "no", YES_NO},
	{"timeout_s", CONF_STORE, KEY_NUMBER, CONF(vm.store.timeout_s), "120", 1, 86400},

	{"installer", CONF_PACKAGES, KEY_PATH, CONF(vm.packages.dir)},
	{"python_index", CONF_PACKAGES, KEY_TEXT, CONF(vm.packages.python_index)},
	{"python_hosts", CONF_PACKAGES, KEY_TEXT, CONF(vm.packages.python_hosts)},
	{"npm_registry", CONF_PACKAGES, KEY_TEXT, CONF(vm.packages.npm_registry)},
	{"npm_hosts", CONF_PACKAGES, KEY_TEXT, CONF(vm.packages.npm_hosts)},
	{"offline", CONF_PACKAGES, KEY_PATH, CONF(vm.packages.offline)},
	{"python_list", CONF_PACKAGES, KEY_PATH, CONF(python_list), .words = {"any"}},
	{"npm_list", CONF_PACKAGES, KEY_PATH, CONF(npm_list), .words = {"any"}},
	{"layer_limit", CONF_PACKAGES, KEY_SIZE, CONF(vm.packages.layer_bytes), "4G", 0, 16 * MIB},

	{"notify", CONF_OPTION, KEY_PATH, CONF(notify)},

	{"image", CONF_TEMPLATE, KEY_NAME, SPEC(image)},
	{"language", CONF_TEMPLATE, KEY_WORD, SPEC(language),
	 .words = {"python", "javascript", "raw"}},
	{"pool", CONF_TEMPLATE, KEY_NUMBER, SPEC(pool.target), "1", 0, 1000},
	{"pool_max", CONF_TEMPLATE, KEY_NUMBER, SPEC(pool.most), "1", 0, 1000},
	{"pool_low", CONF_TEMPLATE, KEY_NUMBER, SPEC(pool.low), "1", 0, 1000},
	{"pool_age_s", CONF_TEMPLATE, KEY_NUMBER, SPEC(pool.age_s), "600", 0, WEEK_S},

	{"from", CONF_SESSION, KEY_TEXT, SET(from), "", .flags = KEY_OWN,
	 .comment = "What it begins as a copy of: SESSION, or SESSION@CHECKPOINT."},
	{"backend", CONF_SESSION, KEY_CHOICE, SPEC(backend), "microvm", BACKENDS,
	 .comment = "Where code runs: microvm, or process (where the administrator allows it)."},
	{"memory_mb", CONF_SESSION, KEY_NUMBER, SPEC(memory_mb), "192", 128, MIB,
	 .limit = LIMIT(max_memory_mb), .comment = "Memory of the sandbox in MiB, 128 or more."},
	{"cpus", CONF_SESSION, KEY_NUMBER, SPEC(cpus), "1", 1, 64, .limit = LIMIT(max_cpus),
	 .comment = "Virtual processors, 1 to 64."},
	{"timeout_s", CONF_SESSION, KEY_NUMBER, SET(timeout_s), "30", 0, WEEK_S,
	 KEY_LIVE | KEY_ENDLESS, LIMIT(max_timeout_s),
	 .comment = "Longest time a run may take, in seconds; 0 is no limit."},
	{"grace_s", CONF_SESSION, KEY_NUMBER, SET(grace_s), "2", 0, 60, KEY_LIVE,
	 LIMIT(max_grace_s),
	 .comment = "Seconds between SIGTERM and SIGKILL at that time, 0 to 60."},
	{"idle_timeout_s", CONF_SESSION, KEY_NUMBER, SET(idle_timeout_s), "300", 0, WEEK_S,
	 KEY_LIVE | KEY_ENDLESS, LIMIT(max_idle_timeout_s),
	 .comment = "Seconds without a run until it goes to sleep, or is closed; 0 is never."},
	{"idle", CONF_SESSION, KEY_CHOICE, SET(idle), "auto", .flags = KEY_LIVE, IDLE_WORDS,
	 .comment = "What happens then: hibernate, close; auto is hibernate for a microvm, close "
		    "for a process."},
	{"checkpoint_runs", CONF_SESSION, KEY_NUMBER, SET(checkpoint_runs), "0", 0, CHECKPOINTS_MAX,
	 KEY_LIVE,
	 .comment = "Keep the states after so many of the last runs, as checkpoints/run-N."},
	{"when", CONF_SESSION, KEY_CHOICE, SET(when), "now", .flags = KEY_LIVE,
	 .words = {"now", "idle"},
	 .comment = "When it is saved: now, unless it runs; idle waits until what was asked of it "
		    "before has ended."},
	{"fresh", CONF_SESSION, KEY_FLAG, SET(fresh), "no", .flags = KEY_LIVE, YES_NO,
	 .comment = "yes: every run gets a new sandbox, which is destroyed after it."},
	{"learn", CONF_SESSION, KEY_FLAG, SET(learn), "no", .flags = KEY_LIVE, YES_NO,
	 .comment = "yes: find out what it needs: learned.conf has the paths that a process uses, "
		    "from its next sandbox on; net/learned the rules for its network."},
	{"processes", CONF_SESSION, KEY_NUMBER, SPEC(limits.processes), "512", 64, 16384,
	 .limit = LIMIT(max_processes), .comment = "Processes and threads at once, 64 to 16384."},
	{"open_files", CONF_SESSION, KEY_NUMBER, SPEC(limits.open_files), "4096", 64, 65536,
	 .limit = LIMIT(max_open_files), .comment = "Open files of a process, 64 to 65536."},
	{"file_size_mb", CONF_SESSION, KEY_NUMBER, SPEC(limits.file_size_mb), "0", 0, MIB,
	 KEY_ENDLESS, LIMIT(max_file_size_mb),
	 .comment = "Largest file that code can write, in MiB; 0 is no limit."},
	{"files_mb", CONF_SESSION, KEY_NUMBER, SPEC(limits.files_mb), "0", 0, MIB,
	 .comment = "Room in files/ in MiB, at most three quarters of memory_mb; 0 is two fifths "
		    "of it."},
	{"files_inodes", CONF_SESSION, KEY_NUMBER, SPEC(limits.files_inodes), "0", 0, 16 * MIB,
	 .comment = "Files in files/; 0 is 341 for each MiB of memory_mb."},
	{"packages", CONF_SESSION, KEY_TEXT, SPEC(packages), "",
	 .comment = "Packages to install, each with its version: NAME==VERSION, or NAME@VERSION "
		    "of npm."},
	{"warmup", CONF_SESSION, KEY_TEXT, SPEC(warmup), SPEC_WARMUP_AUTO,
	 .comment = "What machines have done before they are used: auto imports the packages, off "
		    "nothing; "
		    "else a line of code."},
	{"seed", CONF_SESSION, KEY_TEXT, SPEC(seed), "",
	 .comment =
		 "A number that random numbers follow from, so that they are the same in another "
		 "session. Nothing that is made of them is a secret."},
	{"clock", CONF_SESSION, KEY_TEXT, SPEC(clock), "",
	 .comment = "The time at which a machine's clock begins: 2026-01-01T00:00:00, of UTC, and "
		    "running or fixed behind it: at which each run begins."},
	{"cwd", CONF_SESSION, KEY_CWD, 0, .flags = KEY_LIVE,
	 .comment = "Where jobs begin whose config says nothing: absolute, or below files/; else "
		    "files/."},
	{"entrypoint", CONF_SESSION, KEY_ARGV, 0, .flags = KEY_LIVE,
	 .comment = "What a job executes that is started without code and argv: a program and its "
		    "arguments, quoted as in a shell."},
	{"network", CONF_SESSION, KEY_FLAG, SPEC(network), "no", .words = {"off", "on"},
	 .comment = "on: what `allow` names can be reached, and nothing else."},
	{"allow", CONF_SESSION, KEY_ALLOW, 0, "", .flags = KEY_LIVE,
	 .comment = "Names that can be reached: example.com api.example.com:8443 *.example.org"},
	{"rules", CONF_SESSION, KEY_RULES, 0, "", .flags = KEY_LIVE,
	 .comment = "What may be requested there, the first that fits decides: allow GET "
		    "api.example.com/v1* deny * example.com/admin*; also ask."},
	{"secrets", CONF_SESSION, KEY_SECRETS, 0, "", .flags = KEY_LIVE,
	 .comment = "Which secrets go with requests to where, by name: api.example.com bearer "
		    "NAME; also basic USER, header HEADER, query KEY, placeholder."},
	{"secrets_file", CONF_SESSION, KEY_OWN_FILE, SPEC(policy.secrets_file), "",
	 .flags = KEY_LIVE,
	 .comment = "A file of yours with [secret NAME] sections, which only you can read: an "
		    "absolute path."},
	{"ask", CONF_SESSION, KEY_FLAG, SPEC(policy.ask), "no", .flags = KEY_LIVE, YES_NO,
	 .comment = "yes: what nothing allows waits in net/pending for somebody to decide."},
	{"ask_s", CONF_SESSION, KEY_NUMBER, SPEC(policy.ask_s), "120", 1, 86400, KEY_LIVE,
	 .comment = "For so many seconds, 1 to 86400; then it is refused."},
	{"net_bytes", CONF_SESSION, KEY_SIZE, SPEC(policy.most.bytes), "0", 0, NET_MIB,
	 KEY_LIVE | KEY_ENDLESS, LIMIT(max_net_bytes),
	 .comment = "Most bytes over the network, both ways, e.g. 64M; 0 is no limit."},
	{"net_requests", CONF_SESSION, KEY_COUNT, SPEC(policy.most.requests), "0", 0, NET_COUNT,
	 KEY_LIVE | KEY_ENDLESS, LIMIT(max_net_requests),
	 .comment = "Most HTTP requests that are looked into; 0 is no limit."},
	{"net_connections", CONF_SESSION, KEY_COUNT, SPEC(policy.most.connections), "0", 0,
	 NET_COUNT, KEY_LIVE | KEY_ENDLESS, LIMIT(max_net_connections),
	 .comment = "Most connections; 0 is no limit."},
	{"net_rate", CONF_SESSION, KEY_SIZE, SPEC(policy.rate), "0", 0, MIB, KEY_LIVE | KEY_ENDLESS,
	 LIMIT(max_net_rate),
	 .comment = "Most bytes a second, both ways together, e.g. 1M; 0 is no limit."},
	{"ports", CONF_SESSION, KEY_PORTS, 0, .flags = KEY_LIVE,
	 .comment = "Ports of the sandbox to be had at 127.0.0.1: 8080, or 3000:80 to choose that "
		    "one too."},
	{"ro", CONF_SESSION, KEY_RO, 0, .flags = KEY_FIXED,
	 .comment = "What is seen of the host, as everybody may read it: PATH[:TARGET]. Set in "
		    "xsbxfs.conf."},
	{"rw", CONF_SESSION, KEY_RW, 0, .flags = KEY_FIXED,
	 .comment = "What of the host may be changed, with its owner's rights. Set in "
		    "xsbxfs.conf."},
	{"work", CONF_SESSION, KEY_WORK, 0, .flags = KEY_FIXED,
	 .comment = "What files/ begins as; changes are taken over by `commit`. Set in "
		    "xsbxfs.conf."},
	{"view", CONF_SESSION, KEY_SWITCH, SPEC(image_view), "host", .flags = KEY_FIXED,
	 .words = {"host", "image"},
	 .comment = "Whose programs processes see: the host's, or with image those of the "
		    "image."},
	{"root", CONF_SESSION, KEY_FLAG, SPEC(root), "no", .flags = KEY_FIXED,
	 .words = {"no", "yes"},
	 .comment = "May jobs run as root, in a system that can be changed? Set in xsbxfs.conf."},

	{"sessions", CONF_QUOTA, KEY_NUMBER, MAY(sessions), NULL, 0, 1000000},
	{"machines", CONF_QUOTA, KEY_NUMBER, MAY(machines), NULL, 0, 100000},
	{"memory_mb", CONF_QUOTA, KEY_NUMBER, MAY(memory_mb), NULL, 0, 16 * MIB},
	{"cpu_s_day", CONF_QUOTA, KEY_NUMBER, MAY(cpu_s_day), NULL, 0, 1000000000},
	{"disk", CONF_QUOTA, KEY_SIZE, MAY(disk), NULL, 0, 16 * MIB},
	{"checkpoints", CONF_QUOTA, KEY_NUMBER, MAY(checkpoints), NULL, 0, 1000000},
	{"net_bytes_day", CONF_QUOTA, KEY_SIZE, MAY(net_bytes_day), NULL, 0, 16 * MIB},
};

const char *key_section(enum conf_section section)
{
	static const char *const names[CONF_NSECTIONS] = {
		[CONF_GLOBAL] = "xsbxfs", [CONF_LIMITS] = "limits",	[CONF_NETWORK] = "network",
		[CONF_STORE] = "store",	  [CONF_PACKAGES] = "packages", [CONF_QUOTA] = "quota",
	};

	return names[section];
}

const struct key *key_next(enum conf_section section, const struct key *k)
{
	for (k = k ? k + 1 : keys; k < keys + ARRAY_SIZE(keys); k++) {
		if (k->section == section)
			return k;
	}
	return NULL;
}

const struct key *key_find(enum conf_section section, const char *name)
{
	for_each_key(k, section)
	{
		if (strcmp(k->name, name) == 0)
			return k;
	}
	return NULL;
}

void *key_at(const struct key *k, const void *base)
{
	return (char *)base + k->offset;
}

int key_set(const struct key *k, void *base, const char *value, const struct key_context *ctx,
	    struct problem *why)
{
	struct settings *s = base;

	switch ((int)k->type) {
	case KEY_ALLOW: return netset_allow(s, value, strlen(value), ctx->limits, why);
	case KEY_RULES: return ruleset_rules(s, value, strlen(value), ctx->limits, why);
	case KEY_SECRETS: return ruleset_secrets(s, value, strlen(value), why);
	case KEY_PORTS: return netset_ports(s, value, why);
	case KEY_RO: return paths_set(&s->spec, false, value, why);
	case KEY_RW: return paths_set(&s->spec, true, value, why);
	case KEY_WORK: return paths_set_work(&s->spec, value, why);
	case KEY_CWD: return entry_set_cwd(s, value, why);
	case KEY_ARGV: return entry_set_argv(s, value, why);
	default: return value_set(k, key_at(k, base), value, ctx, why);
	}
}

int key_print(const struct key *k, const void *base, struct buf *out)
{
	const struct settings *s = base;

	switch ((int)k->type) {
	case KEY_ALLOW: return buf_printf(out, "%s", s->spec.allow);
	case KEY_RULES: return buf_printf(out, "%s", s->spec.policy.rules);
	case KEY_SECRETS: return buf_printf(out, "%s", s->spec.policy.secrets);
	case KEY_PORTS: return netset_print_ports(&s->spec, out);
	case KEY_RO: return paths_print(&s->spec, false, out);
	case KEY_RW: return paths_print(&s->spec, true, out);
	case KEY_WORK: return s->spec.work ? buf_printf(out, "%s", s->spec.work) : 0;
	case KEY_CWD: return s->cwd ? buf_printf(out, "%s", s->cwd) : 0;
	case KEY_ARGV: return s->entrypoint ? buf_printf(out, "%s", s->entrypoint) : 0;
	default: return value_print(k, key_at(k, base), out);
	}
}

int key_init(enum conf_section first, enum conf_section last, void *base)
{
	const struct key_context ctx = {.limits = NULL};
	struct problem why;

	for (const struct key *k = keys; k < keys + ARRAY_SIZE(keys); k++) {
		if (k->section >= first && k->section <= last && k->standard &&
		    key_set(k, base, k->standard, &ctx, &why) < 0)
			return -ENOMEM;
	}
	return 0;
}

void key_clear(enum conf_section first, enum conf_section last, void *base)
{
	for (const struct key *k = keys; k < keys + ARRAY_SIZE(keys); k++) {
		if (k->section >= first && k->section <= last && k->type >= KEY_TEXT &&
		    k->type < KEY_NPLAIN)
			free(*(char **)key_at(k, base));
	}
}
