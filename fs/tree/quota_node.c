/* SPDX-License-Identifier: Apache-2.0 */
/* `quota` of the root: what its reader has, and may have; for who mounted, all users. */
#include "quota_node.h"

#include <inttypes.h>
#include <stdlib.h>

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

static void figures_of(const struct fs *fs, uid_t uid, struct figure f[NFIGURES])
{
	const struct allowance may = quotas_of(&fs->conf->quota, uid);
	struct vm_user_status vm;

	vm_user(fs->vm, uid, &vm);
	fill(f, &may, account_of(&fs->accounts, uid, this_day()));
	f[SESSIONS].used = roster_of(&fs->roster, uid, false);
	f[MACHINES].used = vm.sandboxes;
	f[MACHINES].limit = vm.most;
	f[MEMORY].used = vm.memory_mb;
	f[MEMORY].limit = vm.most_mb;
	f[DISK].used = quota_disk_used(fs, &uid);
	f[CHECKPOINTS].used = quota_checkpoints_used(fs, &uid);
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

	figures_of(fs, uid, f);
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

static void add_row(struct buf *rows, uid_t uid)
{
	const uid_t *have = (const void *)rows->data;

	for (size_t i = 0; i < rows->len / sizeof(uid); i++)
		if (have[i] == uid)
			return;
	(void)buf_append(rows, &uid, sizeof(uid));
}

/* Those who have something, or a section of their own. Return: how many did not fit. */
static unsigned collect(const struct fs *fs, struct buf *rows)
{
	const int64_t day = this_day();
	unsigned more = 0;

	for (unsigned i = 0; i < fs->roster.nusers; i++) {
		if (rows->len / sizeof(uid_t) >= ROWS_MAX)
			more += fs->roster.users[i].n > 0;
		else if (fs->roster.users[i].n)
			add_row(rows, fs->roster.users[i].uid);
	}
	for (unsigned i = 0; i < fs->accounts.n && rows->len / sizeof(uid_t) < ROWS_MAX; i++)
		if (fs->accounts.of[i].day >= day && fs->accounts.of[i].spent.cpu_us)
			add_row(rows, fs->accounts.of[i].uid);
	for (size_t i = 0; i < fs->conf->quota.n && rows->len / sizeof(uid_t) < ROWS_MAX; i++)
		add_row(rows, fs->conf->quota.user[i].uid);
	return more;
}

static void put_table(struct buf *out, const struct fs *fs)
{
	struct figure f[NFIGURES];
	struct buf rows = {0};
	const unsigned more = collect(fs, &rows);
	const uid_t *uid = (const void *)rows.data;
	char who[80];

	figures_of_all(fs, f);
	buf_printf(out, "\nuser");
	for (unsigned i = 0; i < NFIGURES; i++)
		buf_printf(out, " %s", f[i].name);
	buf_printf(out, "\n");
	put_row(out, "all", f);
	for (size_t i = 0; i < rows.len / sizeof(*uid); i++) {
		const char *name = quotas_name(&fs->conf->quota, uid[i]);

		snprintf(who, sizeof(who), "%u", (unsigned)uid[i]);
		figures_of(fs, uid[i], f);
		put_row(out, name ? name : who, f);
	}
	if (more)
		buf_printf(out, "# and %u more\n", more);
	buf_clear(&rows);
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
	json_t *o = json_object();
	struct tm next;

	figures_of(fs, uid, f);
	for (unsigned i = 0; i < NFIGURES; i++)
		json_object_set_new(
			o, f[i].name,
			json_pack("{s:o, s:o}", "used", number(&f[i], f[i].used), "limit",
				  f[i].limit ? number(&f[i], f[i].limit) : json_null()));
	json_object_set_new(o, "anew_s", json_integer((json_int_t)quota_day_left(fs, &next)));
	return o;
}
