/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about one sandbox: how it was started, its usage, its isolation. */
#include <assert.h>
#include <errno.h>

#include "internal.h"
#include "network.h"

static const char *const start_str[] = {
	[START_COLD] = "cold",
	[START_SNAPSHOT] = "snapshot",
	[START_WARM] = "warm",
	[START_SAVED] = "saved",
};
static_assert(ARRAY_SIZE(start_str) == START_NKINDS, "a name for each way to start");

static FILE *open_statm(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	return fopen(path, "re");
}

static uint64_t rss_kib(pid_t pid)
{
	_cleanup_file_ FILE *f = open_statm(pid);
	unsigned long long pages = 0;

	if (!f || fscanf(f, "%*u %llu", &pages) != 1)
		return 0;
	return pages * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

/* Of what it began from. */
static const char *what_is_lost(const struct sandbox *s)
{
	if (!s->files_only && (!s->from || restore_has_memory(s)))
		return "";
	return s->ops->point ? "of what it began from there are files, and no memory"
			     : "of a process sandbox files are saved, and no memory";
}

void sandbox_info(const struct sandbox *s, struct sandbox_info *ret_info)
{
	struct guest_info g;

	guest_info(s->guest, &g);
	*ret_info = (struct sandbox_info){
		.state = s->state,
		.backend = s->ops->name,
		.start = start_str[s->start],
		.accel = g.backend.accel,
		.pid = g.backend.pid,
		.kept = s->kept || restore_has_memory(s),
		.lost = what_is_lost(s),
		.interpreter = g.interpreter,
		.stands_still = g.stands_still,
		.goes_on = g.goes_on,
		.rss_kib = g.backend.pid ? rss_kib(g.backend.pid) : 0,
	};
	if (s->admitted_at)
		ret_info->waited_ms = s->admitted_at - s->asked_at;
	if (s->start == START_WARM)
		return; /* it was ready when it was asked for */
	/* One that stood by, without its interpreter, may have said hello before it was asked for. */
	if (g.hello_at > s->admitted_at)
		ret_info->boot_ms = g.hello_at - s->admitted_at;
	if (g.ready_at > s->admitted_at)
		ret_info->setup_ms = g.ready_at - s->admitted_at - ret_info->boot_ms;
}

int sandbox_usage(const struct sandbox *s, struct sandbox_usage *ret_usage)
{
	return s->guest ? guest_usage(s->guest, ret_usage) : -ENODATA;
}

void sandbox_isolation(const struct sandbox *s,
		       void (*line)(void *data, const char *key, const char *value), void *data)
{
	struct guest_info g;

	guest_info(s->guest, &g);
	if (g.backend.report)
		jail_report_tell(g.backend.report, "", line, data);
	network_tell(s, line, data);
}
