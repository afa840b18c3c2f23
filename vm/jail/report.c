/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers of a jail are in effect: checked from outside, and in words. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "vm/base/landlock.h"
#include "internal.h"
#include "setup.h"
#include "vm/base/util.h"

#define ENDING_MS 200

static const char *const layer_str[] = {
	[JAIL_L_USER] = "namespace.user",     [JAIL_L_MOUNT] = "namespace.mount",
	[JAIL_L_PID] = "namespace.pid",	      [JAIL_L_IPC] = "namespace.ipc",
	[JAIL_L_UTS] = "namespace.uts",	      [JAIL_L_CGROUP] = "namespace.cgroup",
	[JAIL_L_NET] = "namespace.net",	      [JAIL_L_IDS] = "ids",
	[JAIL_L_CAPS] = "capabilities",	      [JAIL_L_NNP] = "no_new_privs",
	[JAIL_L_SECCOMP] = "seccomp",	      [JAIL_L_LANDLOCK] = "landlock",
	[JAIL_L_MEMORY] = "limit.memory",     [JAIL_L_PIDS] = "limit.processes",
	[JAIL_L_CPU] = "limit.cpu",	      [JAIL_L_COUNTERS] = "limit.counters",
	[JAIL_L_SPECULATION] = "speculation",
};
static_assert(ARRAY_SIZE(layer_str) == JAIL_NLAYERS, "a name for each layer");

/* The names in /proc/PID/ns. */
static const char *const ns_file[] = {
	[JAIL_L_USER] = "user", [JAIL_L_MOUNT] = "mnt", [JAIL_L_PID] = "pid",
	[JAIL_L_IPC] = "ipc",	[JAIL_L_UTS] = "uts",	[JAIL_L_CGROUP] = "cgroup",
	[JAIL_L_NET] = "net",
};

const char *jail_layer_str(enum jail_layer layer)
{
	return layer_str[layer];
}

/* ---- looking ---- */

/* The spawner's own namespaces, which it never leaves. Return: which one, or 0. */
static ino_t own_namespace(enum jail_layer layer)
{
	static ino_t known[ARRAY_SIZE(ns_file)];
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", ns_file[layer]);
	if (!known[layer] && stat(path, &st) == 0)
		known[layer] = st.st_ino;
	return known[layer];
}

static bool other_namespace(int proc, enum jail_layer layer)
{
	const ino_t ours = own_namespace(layer);
	struct stat theirs;
	char path[32];

	snprintf(path, sizeof(path), "ns/%s", ns_file[layer]);
	return ours && fstatat(proc, path, &theirs, 0) == 0 && theirs.st_ino != ours;
}

/* A number of /proc/PID/status. Return: false if there is none of this name. */
static bool status_number(const char *status, const char *name, int base, uint64_t *ret)
{
	const char *line = strstr(status, name);
	char *end;

	if (!line)
		return false;
	line += strlen(name);
	*ret = strtoull(line, &end, base);
	return end != line;
}

static int read_status(int proc, char *out, size_t size)
{
	_cleanup_close_ int fd = openat(proc, "status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	if (n <= 0)
		return -ESRCH;
	out[n] = '\0';
	return 0;
}

static void hold(struct jail_report *r, enum jail_layer layer, bool holds, uint64_t value)
{
	r->layer[layer].state = holds ? JAIL_HOLDS : JAIL_ABSENT;
	r->layer[layer].value = value;
}

/* What /proc/PID/status says of identity and privileges. */
static void look_at_status(const struct jail_spec *spec, const struct jail_cell *cell,
			   const char *status, struct jail_report *r)
{
	static const char *const sets[] = {
		"\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:", "\nCapInh:"};
	uint64_t caps = 0, v = 0;
	bool known = true;

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		known = status_number(status, sets[i], 16, &v) && known;
		caps |= v;
	}
	hold(r, JAIL_L_CAPS, known && !(caps & ~spec->keep_caps), caps);
	hold(r, JAIL_L_NNP, status_number(status, "\nNoNewPrivs:", 10, &v) && v == 1, 0);
	known = status_number(status, "\nSeccomp:", 10, &v) && v == 2;
	if (!status_number(status, "\nSeccomp_filters:", 10, &v))
		v = 1;
	hold(r, JAIL_L_SECCOMP, known, v);
	known = status_number(status, "\nUid:", 10, &v);
	hold(r, JAIL_L_IDS, known && v == jail_first_id(spec, cell), v);
	if (r->layer[JAIL_L_IDS].state == JAIL_HOLDS && !cell->private_ids) {
		r->layer[JAIL_L_IDS].state = JAIL_ABSENT;
		r->layer[JAIL_L_IDS].error = EPERM;
	}
}

static void look_at_landlock(const struct jail_spec *spec, struct jail_report *r)
{
	struct jail_finding *f = &r->layer[JAIL_L_LANDLOCK];
	int abi = landlock_abi();

	if (abi < 2) {
		f->state = JAIL_ABSENT;
		f->error = (int16_t)(abi < 0 ? -abi : EOPNOTSUPP);
		return;
	}
	f->value = (uint64_t)abi;
	f->state = spec->flags & JAIL_LANDLOCK ? JAIL_HOLDS : JAIL_UNASKED;
}

/* The program runs, so what jail_budget_set() writes was taken; of limits the kernel can be asked. */
static void look_at_counters(const struct jail_spec *spec, pid_t pid, struct jail_report *r)
{
	struct rlimit now;
	bool known = true;
	uint64_t value = 0;

	for (uint32_t i = 0; i < spec->nrlimits; i++) {
		if (spec->rlimits[i].resource != RLIMIT_SIGPENDING)
			continue;
		known = prlimit(pid, RLIMIT_SIGPENDING, NULL, &now) == 0 &&
			now.rlim_max <= spec->rlimits[i].value;
		value = known ? now.rlim_max : 0;
	}
	hold(r, JAIL_L_COUNTERS, known, value);
	r->layer[JAIL_L_COUNTERS].error = known ? 0 : EPERM;
}

/* Is it ending? Then there is nothing left to look at, and nothing left to confine. It loses its
 * namespaces a moment before it can be waited for. */
static bool ended(pid_t pid)
{
	const struct timespec pause = {0, 1000000};

	for (int ms = 0; ms < ENDING_MS; ms++) {
		siginfo_t info = {0};

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) < 0 || info.si_pid)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int look(const struct jail_spec *spec, pid_t pid, int proc, struct jail_cell *cell,
		struct jail_fault *fault)
{
	static const enum jail_layer needed[] = {JAIL_L_CAPS, JAIL_L_NNP, JAIL_L_SECCOMP};
	struct jail_report *r = &cell->report;
	char status[8192];

	for (size_t i = 0; i < ARRAY_SIZE(ns_file); i++) {
		if (i == JAIL_L_NET && (spec->flags & JAIL_HOST_NET))
			continue;
		hold(r, (enum jail_layer)i, other_namespace(proc, (enum jail_layer)i), 0);
		if (r->layer[i].state != JAIL_HOLDS)
			return jail_fault_set(fault, JAIL_STEP_VERIFY, -EPERM, layer_str[i]);
	}
	if (read_status(proc, status, sizeof(status)) < 0)
		return jail_fault_set(fault, JAIL_STEP_VERIFY, -ESRCH, "process");
	look_at_status(spec, cell, status, r);
	hold(r, JAIL_L_SPECULATION, true, jail_speculation(status));
	look_at_landlock(spec, r);
	look_at_counters(spec, pid, r);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (r->layer[needed[i]].state != JAIL_HOLDS)
			return jail_fault_set(fault, JAIL_STEP_VERIFY, -EPERM,
					      layer_str[needed[i]]);
	}
	if (cell->private_ids && r->layer[JAIL_L_IDS].state != JAIL_HOLDS)
		return jail_fault_set(fault, JAIL_STEP_VERIFY, -EPERM, layer_str[JAIL_L_IDS]);
	return 0;
}

int jail_verify(const struct jail_spec *spec, pid_t pid, struct jail_cell *cell,
		struct jail_fault *fault)
{
	_cleanup_close_ int proc = -1;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	proc = open(path, O_PATH | O_CLOEXEC);
	if (proc < 0)
		return jail_fault_set(fault, JAIL_STEP_VERIFY, -errno, "process");
	r = look(spec, pid, proc, cell, fault);
	return r < 0 && ended(pid) ? 0 : r;
}

/* ---- words ---- */

static void absent_str(enum jail_layer layer, const struct jail_finding *f, char *out, size_t size)
{
	if (layer == JAIL_L_IDS)
		snprintf(out, size, "the daemon's own id on the host (private ids need root)");
	else if (layer == JAIL_L_LANDLOCK && f->error == EOPNOTSUPP)
		snprintf(out, size, "none: the kernel has none, or only its first version");
	else if (layer == JAIL_L_MEMORY && f->value)
		snprintf(out, size,
			 "%llu MiB for each process, none for all (no control group: %s)",
			 (unsigned long long)f->value >> 20, strerror(f->error));
	else if (layer >= JAIL_L_MEMORY && f->error == ENOENT)
		snprintf(out, size, "none: no control group for it can be made");
	else
		snprintf(out, size, "none: %s", strerror(f->error));
}

static void counters_str(unsigned long long signals, char *out, size_t size)
{
	const int n = snprintf(out, size,
			       "inotify " JAIL_INOTIFY_INSTANCES " and " JAIL_INOTIFY_WATCHES
			       "; no fanotify, no namespaces, no huge pages, no socket filters");

	if (signals && n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n, "; timers and signals %llu", signals);
}

static void value_str(enum jail_layer layer, const struct jail_finding *f, char *out, size_t size)
{
	const unsigned long long v = f->value;

	if (layer == JAIL_L_IDS)
		snprintf(out, size, "private, %llu on the host", v);
	else if (layer == JAIL_L_CAPS && !v)
		snprintf(out, size, "none");
	else if (layer == JAIL_L_CAPS)
		snprintf(out, size, "%#llx, of its own user namespace", v);
	else if (layer == JAIL_L_LANDLOCK)
		snprintf(out, size, "on, ABI %llu", v);
	else if (layer == JAIL_L_SECCOMP)
		snprintf(out, size, "on, allow list");
	else if (layer == JAIL_L_MEMORY)
		snprintf(out, size, "%llu MiB, control groups v%u", v >> 20, f->version);
	else if (layer == JAIL_L_CPU)
		snprintf(out, size, "%llu %% of a processor, control groups v%u", v, f->version);
	else if (layer == JAIL_L_PIDS)
		snprintf(out, size, "%llu, control groups v%u", v, f->version);
	else if (layer == JAIL_L_COUNTERS)
		counters_str(v, out, size);
	else if (layer == JAIL_L_SPECULATION)
		jail_speculation_str(v, out, size);
	else
		snprintf(out, size, layer < JAIL_L_IDS ? "own" : "on");
}

void jail_finding_str(const struct jail_report *r, enum jail_layer layer, char *out, size_t size)
{
	const struct jail_finding *f = &r->layer[layer];

	if (f->state == JAIL_UNASKED)
		snprintf(out, size, "not asked for");
	else if (f->state == JAIL_ABSENT)
		absent_str(layer, f, out, size);
	else
		value_str(layer, f, out, size);
}

void jail_report_tell(const struct jail_report *r, const char *prefix,
		      void (*line)(void *data, const char *key, const char *value), void *data)
{
	char key[64], words[128];

	for (enum jail_layer l = 0; l < JAIL_NLAYERS; l++) {
		if (r->layer[l].state == JAIL_UNASKED)
			continue;
		snprintf(key, sizeof(key), "%s%s", prefix, jail_layer_str(l));
		jail_finding_str(r, l, words, sizeof(words));
		line(data, key, words);
	}
}
