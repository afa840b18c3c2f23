/* SPDX-License-Identifier: Apache-2.0 */
/* `quota` of the root: what its reader has, and may have; for who mounted, all users. */
#include "quota_node.h"

#include <inttypes.h>

#include "fs/session/account.h"
#include "fs/session/fs.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "json.h"
#include "nodes.h"

#define ROWS_MAX 64u /* users in the table */

/* One line. 0 as limit: there is none. */
struct figure {
	const char *name;
	uint64_t used, limit;
	unsigned part; /* so many are one of the unit that is shown */
};

enum { SESSIONS, MACHINES, MEMORY, CPU, DISK, CHECKPOINTS, NET, NFIGURES };

#define US 1000000u

static int64_t this_day(void)
{
	const struct timespec now = clock_now();

	return account_day(&now);
}

static void fill(struct figure f[NFIGURES], const struct allowance *may, struct spent spent)
{
	f[SESSIONS] = (struct figure){"sessions", 0, may->sessions, 1};
	f[MACHINES] = (struct figure){"machines", 0, may->machines, 1};
	f[MEMORY] = (struct figure){"memory_mb", 0, may->memory_mb, 1};
	f[CPU] = (struct figure){"cpu_s_day", spent.cpu_us, (uint64_t)may->cpu_s_day * US, US};
	f[DISK] = (struct figure){"disk", 0, may->disk, 1};
	f[CHECKPOINTS] = (struct figure){"checkpoints", 0, may->checkpoints, 1};
	f[NET] = (struct figure){"net_bytes_day", spent.bytes, may->net_bytes_day, 1};
}

static void figures_of(const struct fs *fs, const struct quota_count *count,
		       struct figure f[NFIGURES])
{
	const struct allowance may = quotas_of(&fs->conf->quota, count->uid);
	struct vm_user_status vm;

	vm_user(fs->vm, count->uid, &vm);
	fill(f, &may, account_of(&fs->accounts, count->uid, this_day()));
	f[SESSIONS].used = roster_of(&fs->roster, count->uid, false);
	f[MACHINES].used = vm.sandboxes;
	f[MACHINES].limit = vm.most;
	f[MEMORY].used = vm.memory_mb;
	f[MEMORY].limit = vm.most_mb;
	f[DISK].used = count->disk;
	f[CHECKPOINTS].used = count->checkpoints;
}

static void figures_of_all(const struct fs *fs, struct figure f[NFIGURES])
{
	struct vm_admission vm;

	vm_admission(fs->vm, &vm);
	fill(f, &fs->conf->quota.all, account_of_all(&fs->accounts, this_day()));
	f[SESSIONS].used = fs->roster.n - fs->roster.nfree;
	f[MACHINES].used = vm.running;
	f[MACHINES].limit = vm.places;
	f[MEMORY].used = vm.promised_mb;
	f[MEMORY].limit = vm.memory_mb;
	f[DISK].used = quota_disk_used(fs, NULL);
	f[CHECKPOINTS].used = quota_checkpoints_used(fs, NULL);
}

/* ---- as text ---- */

/* With thousandths, if it is of parts. */
static void put_used(struct buf *out, const struct figure *f)
{
	buf_printf(out, "%" PRIu64, f->used / f->part);
	if (f->part == US)
		buf_printf(out, ".%03u", (unsigned)(f->used % US / 1000));
}

static void put_limit(struct buf *out, const struct figure *f, const char *none)
{
	if (f->limit)
		buf_printf(out, "%" PRIu64, f->limit / f->part);
	else
		buf_printf(out, "%s", none);
}

static void put_lines(struct buf *out, const struct fs *fs, uid_t uid)
{
	const char *name = quotas_name(&fs->conf->quota, uid);
	struct figure f[NFIGURES];
	struct tm next;
	const uint64_t left = quota_day_left(fs, &next);
	struct quota_count own = {.uid = uid};

	quota_count(fs, &own, 1);
	figures_of(fs, &own, f);
	buf_printf(out, "user: %u%s%s\n", (unsigned)uid, name ? " " : "", name ? name : "");
	for (unsigned i = 0; i < NFIGURES; i++) {
		buf_printf(out, "%s: ", f[i].name);
		put_used(out, &f[i]);
		buf_printf(out, " of ");
		put_limit(out, &f[i], "no limit");
		if (i == CPU || i == NET)
			buf_printf(out, ", anew %04d-%02d-%02dT00:00:00Z, in %" PRIu64 " s",
				   next.tm_year + 1900, next.tm_mon + 1, next.tm_mday, left);
		buf_printf(out, "\n");
	}
}

/* ---- the table ---- */

static void put_row(struct buf *out, const char *who, const struct figure f[NFIGURES])
{
	buf_printf(out, "%s", who);
	for (unsigned i = 0; i < NFIGURES; i++) {
		buf_printf(out, " ");
		put_used(out, &f[i]);
		buf_printf(out, "/");
		put_limit(out, &f[i], "-");
	}
	buf_printf(out, "\n");
}

struct rows {
	struct quota_count of[ROWS_MAX];
	size_t n;
	unsigned more; /* that there was no room for */
};

static void add_row(struct rows *rows, uid_t uid)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->of[i].uid == uid)
			return;
	if (rows->n < ROWS_MAX)
		rows->of[rows->n++] = (struct quota_count){.uid = uid};
	else
		rows->more++;
}

/* Those who have something, or a section of their own. */
static void collect(const struct fs *fs, struct rows *rows)
{
	const int64_t day = this_day();

	for (unsigned i = 0; i < fs->roster.nusers; i++)
		if (fs->roster.users[i].n)
			add_row(rows, fs->roster.users[i].uid);
	for (unsigned i = 0; i < fs->accounts.n && rows->n < ROWS_MAX; i++)
		if (fs->accounts.of[i].day >= day && fs->accounts.of[i].spent.cpu_us)
			add_row(rows, fs->accounts.of[i].uid);
	for (size_t i = 0; i < fs->conf->quota.n && rows->n < ROWS_MAX; i++)
		add_row(rows, fs->conf->quota.user[i].uid);
	quota_count(fs, rows->of, rows->n);
}

static void put_table(struct buf *out, const struct fs *fs)
{
	struct figure f[NFIGURES];
	struct rows rows = {.n = 0};
	char who[80];

	collect(fs, &rows);
	figures_of_all(fs, f);
	buf_printf(out, "\nuser");
	for (unsigned i = 0; i < NFIGURES; i++)
		buf_printf(out, " %s", f[i].name);
	buf_printf(out, "\n");
	put_row(out, "all", f);
	for (size_t i = 0; i < rows.n; i++) {
		const char *name = quotas_name(&fs->conf->quota, rows.of[i].uid);

		snprintf(who, sizeof(who), "%u", (unsigned)rows.of[i].uid);
		figures_of(fs, &rows.of[i], f);
		put_row(out, name ? name : who, f);
	}
	if (rows.more)
		buf_printf(out, "# and %u more\n", rows.more);
}

int text_quota(const struct node *n, struct buf *out)
{
	const struct fs *fs = n->fs;
	const uid_t uid = n->sub;

	put_lines(out, fs, uid);
	if (fs->conf->allow_other && (uid == 0 || uid == fs->uid))
		put_table(out, fs);
	return 0;
}

/* ---- as JSON ---- */

static json_t *number(const struct figure *f, uint64_t v)
{
	return f->part > 1 ? json_real((double)v / f->part) : json_integer((json_int_t)v);
}

json_t *quota_json(const struct fs *fs, uid_t uid)
{
	struct figure f[NFIGURES];
	struct quota_count own = {.uid = uid};
	json_t *o = json_object();
	struct tm next;

	quota_count(fs, &own, 1);
	figures_of(fs, &own, f);
	for (unsigned i = 0; i < NFIGURES; i++)
		json_object_set_new(
			o, f[i].name,
			json_pack("{s:o, s:o}", "used", number(&f[i], f[i].used), "limit",
				  f[i].limit ? number(&f[i], f[i].limit) : json_null()));
	json_object_set_new(o, "anew_s", json_integer((json_int_t)quota_day_left(fs, &next)));
	return o;
}
