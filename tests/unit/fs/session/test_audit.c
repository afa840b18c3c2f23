/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: text of any bytes; what a daemon that was killed has left is written once by the next. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/session/audit.h"
#include "fs/session/fs.h"

static char path[64];

static void expect_text(const char *bytes, size_t len, const char *want)
{
	json_t *j = audit_text(bytes, len);

	assert_non_null(j);
	assert_int_equal(json_string_length(j), strlen(want));
	assert_string_equal(json_string_value(j), want);
	json_decref(j);
}

#define REPLACED "\xef\xbf\xbd"

static void test_text(void **state)
{
	(void)state;
	expect_text("plain \"\n\x1b", 9, "plain \"\n\x1b");
	expect_text("", 0, "");
	expect_text("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		    "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	expect_text("a\xff"
		    "b",
		    3, "a" REPLACED "b");
	expect_text("a\xc3", 2, "a" REPLACED); /* cut off */
	expect_text("\xc3\xa4\xf0\x9f\x98", 5, "\xc3\xa4" REPLACED REPLACED REPLACED);
	expect_text("\xed\xa0\x80", 3, REPLACED REPLACED REPLACED); /* a surrogate */
	expect_text("\xc0\x80", 2, REPLACED REPLACED);		    /* too long for what it is */
}

static void open_log(struct fs *fs, struct conf *conf, enum audit_how how)
{
	char why[256];

	conf->audit_file = path;
	conf->audit_keep = 1;
	assert_int_equal(audit_open(fs, conf, how, why, sizeof(why)), 0);
	fs->audit->mount = "/mnt";
}

/* Numbers of all lines in the file. */
static void expect_numbers(const char *want)
{
	char line[2048], got[256] = "";
	unsigned long n;
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(sscanf(line, "{\"seq\":%lu,", &n), 1);
		sprintf(got + strlen(got), "%lu ", n);
	}
	fclose(f);
	assert_string_equal(got, want);
}

static void begin(struct fixture *fx)
{
	int fd;

	strcpy(path, "/tmp/audit.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	open_log(fx->fs, &fx->conf, AUDIT_FIRST);
	audit_go(fx->fs);
}

static void end(struct fixture *fx, struct fs *fs)
{
	audit_close(fs);
	fx->conf.audit_file = NULL;
	unlink(path);
}

/* Another daemon, which was left @fields. */
static void succeed(struct fixture *fx, struct buf *fields)
{
	audit_close(fx->fs);
	open_log(fx->fs, &fx->conf, AUDIT_FIRST);
	assert_int_equal(audit_get(fx->fs->audit, record_reader(fields->data, fields->len)), 0);
	audit_go(fx->fs);
}

/* Lines that are committed and not written yet, of which the file has none, some, or all. */
static void test_heirs(void **state)
{
	for (unsigned written = 0; written <= 3; written++) {
		struct fixture *fx = *state;
		struct buf fields = {0};
		struct audit *a;

		begin(fx);
		audit_mount(fx->fs, "before");
		a = fx->fs->audit;
		a->going = false; /* they are kept */
		for (unsigned i = 0; i < 3; i++)
			audit_mount(fx->fs, "kept");
		audit_put(a, &fields);
		for (unsigned i = 0; i < written; i++) {
			const char *line = a->pending.data, *to = strchr(line, '\n') + 1;

			assert_int_equal(rotated_append(&a->file, line, (size_t)(to - line)), 0);
			memmove(a->pending.data, to, a->pending.len - (size_t)(to - line));
			a->pending.len -= (size_t)(to - line);
		}
		a->pending.len = 0;
		succeed(fx, &fields);
		expect_numbers("1 2 3 4 ");
		audit_mount(fx->fs, "after");
		expect_numbers("1 2 3 4 5 ");
		/* What it says is not trusted. */
		for (size_t cut = 1; cut < fields.len; cut++)
			(void)audit_get(fx->fs->audit, record_reader(fields.data, cut));
		end(fx, fx->fs);
		buf_clear(&fields);
	}
}

/* A mount that goes on with the file of one before it; and one whose file is new, by what it was left. */
static void test_goes_on(void **state)
{
	struct fixture *fx = *state;
	struct buf fields = {0};

	begin(fx);
	audit_mount(fx->fs, "one");
	audit_close(fx->fs);
	open_log(fx->fs, &fx->conf, AUDIT_FIRST);
	audit_go(fx->fs);
	audit_mount(fx->fs, "two");
	expect_numbers("1 2 ");
	audit_put(fx->fs->audit, &fields);
	assert_int_equal(truncate(path, 0), 0);
	succeed(fx, &fields);
	audit_mount(fx->fs, "three");
	expect_numbers("3 ");
	end(fx, fx->fs);
	buf_clear(&fields);
}

/* Who asks, and whether somebody does. */
static void test_requests(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *sb;
	char line[2048];
	FILE *f;

	begin(fx);
	sb = fx_run(fx, "print(1)");
	fx->fs->who.known = false;
	fake_exit(sb, VM_DONE, 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "\"what\":\"asked\""));
	assert_non_null(strstr(line, "\"uid\":"));
	assert_null(strstr(line, "print"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "\"what\":\"done\""));
	assert_non_null(strstr(line, "\"by\":\"xsbxfs\""));
	fclose(f);
	end(fx, fx->fs);
}

/* What a sandbox has connected to; it can't fill the disk with that. */
static void test_connections(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *sb;
	unsigned lines = 0, unreported = 0;
	char line[2048];
	const char *more;
	FILE *f;

	sb = fx_run(fx, "x");
	fake_connected(sb, "nobody.example", 1); /* there is no log */
	begin(fx);
	for (unsigned i = 0; i < 150; i++)
		fake_connected(sb, "a.example", 443);
	clock_advance(2000);
	fake_connected(sb, "192.0.2.1", 80);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_non_null(strstr(line, "\"action\":\"connected\""));
		assert_non_null(strstr(line, "\"session\":\"python/demo\""));
		assert_non_null(strstr(line, "\"by\":\"xsbxfs\""));
		assert_non_null(strstr(line, lines++ < 100 ? "\"name\":\"a.example\",\"port\":443"
							   : "\"name\":\"192.0.2.1\",\"port\":80"));
		more = strstr(line, "\"unreported\":");
		unreported += more ? (unsigned)atoi(more + strlen("\"unreported\":")) : 0;
	}
	fclose(f);
	assert_int_equal(lines, 101);
	assert_int_equal(unreported, 50);
	end(fx, fx->fs);
}

/* Lines of what a process has asked for have what it was then, and not what has its number now. */
static void test_asker(void **state)
{
	struct fixture *fx = *state;
	struct who who;
	char line[2048];
	FILE *f;

	begin(fx);
	fx->fs->who = (struct who){.known = true, .ctx.pid = getpid()};
	who = audit_asker(fx->fs);
	assert_string_not_equal(who.program, "");
	f = fopen("/proc/self/cgroup", "r");
	if (f && fgets(line, sizeof(line), f) && strncmp(line, "0::", 3) == 0 &&
	    strlen(line) - 4 < sizeof(who.cgroup)) {
		line[strcspn(line, "\n")] = '\0';
		assert_string_equal(who.cgroup, line + 3);
	}
	if (f)
		fclose(f);
	strcpy(who.cgroup, "/as/it/was");
	fx->fs->who = who;
	audit_mount(fx->fs, "x");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_non_null(strstr(line, "\"cgroup\":\"/as/it/was\""));
	end(fx, fx->fs);
}

/* A file system of this process's own. Return: false: only root can have that. */
static bool mount_little(const char *dir)
{
	return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", dir, "tmpfs", 0, "size=400k") == 0;
}

/* Of what changes nothing a user has so many lines a second, and what is beyond is counted. */
static void test_rate(void **state)
{
	struct fixture *fx = *state;
	struct problem p;
	struct audit_rate r = {0};
	uint64_t n = 0;
	char line[2048];
	unsigned lines = 0;
	FILE *f;

	for (unsigned i = 0; i < 250; i++)
		assert_int_equal(audit_rate_take(&r, 1000, 5, &n), i < AUDIT_RATE_BURST);
	assert_true(audit_rate_take(&r, 1001, 5, &n));
	assert_int_equal(n, 0);
	assert_false(audit_rate_take(&r, 1000, 104, &n));
	assert_true(audit_rate_take(&r, 1000, 105, &n));
	assert_int_equal(n, 151);
	assert_false(audit_rate_take(&r, 1000, 106, &n));
	assert_true(audit_rate_take(&r, 1000, 1ull << 40, &n));
	assert_int_equal(n, 1);
	/* Of many users the ones that were heard of the longest ago are forgotten, but for their number. */
	for (unsigned i = 0; i < 2 * AUDIT_RATE_BURST; i++)
		(void)audit_rate_take(&r, 7, 1ull << 39, &n);
	for (unsigned i = 0; i < 2 * AUDIT_RATE_USERS; i++)
		assert_true(audit_rate_take(&r, 2000 + i, (1ull << 41) + i, &n));
	assert_int_equal(audit_rate_rest(&r), AUDIT_RATE_BURST);
	assert_int_equal(audit_rate_rest(&r), 0);
	/* Who has many ids, as a user namespace gives them to anybody, has no more than so many users. */
	r = (struct audit_rate){0};
	for (unsigned i = 0; i < 400 * AUDIT_RATE_USERS; i++)
		lines += audit_rate_take(&r, 3000 + i % (2 * AUDIT_RATE_USERS), 5, &n);
	assert_int_equal(lines, AUDIT_RATE_USERS * AUDIT_RATE_BURST);
	lines = 0;

	begin(fx);
	problem_set(&p, PROBLEM_INVALID, "", "nonsense");
	fx->fs->who = (struct who){.known = true, .ctx.uid = 1000};
	for (unsigned i = 0; i < 150; i++) {
		audit_complaint(fx->fs, &p);
		audit_event(fx->fs, fx_demo(fx), "history", "run 1 removed from the history");
	}
	audit_session(fx_demo(fx), "made"); /* what is done has its line */
	fx->fs->who.known = false;
	audit_complaint(fx->fs, &p);
	audit_mount(fx->fs, "ended");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		lines++;
	fclose(f);
	assert_int_equal(lines, AUDIT_RATE_BURST + 3);
	assert_non_null(strstr(line, "\"unreported\":200"));
	end(fx, fx->fs);
}

/* Of the last line in the file, how many before it had none. */
static unsigned last_unreported(void)
{
	char line[2048] = "";
	const char *more;
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		;
	fclose(f);
	more = strstr(line, "\"unreported\":");
	return more ? (unsigned)atoi(more + strlen("\"unreported\":")) : 0;
}

/* Of whom there is no next line that could say so: the mount's does, if need be another daemon's. */
static void test_nobody_left(void **state)
{
	struct fixture *fx = *state;
	struct buf fields = {0};
	struct sandbox *sb;
	struct problem p;

	sb = fx_run(fx, "x");
	begin(fx);
	for (unsigned i = 0; i < 150; i++)
		fake_connected(sb, "a.example", 443);
	session_destroy(fx_demo(fx));
	problem_set(&p, PROBLEM_INVALID, "", "nonsense");
	fx->fs->who = (struct who){.known = true, .ctx.uid = 1000};
	for (unsigned i = 0; i < 107; i++)
		audit_complaint(fx->fs, &p);
	audit_put(fx->fs->audit, &fields);
	succeed(fx, &fields);
	audit_mount(fx->fs, "taken over");
	assert_int_equal(last_unreported(), 50 + 7);
	audit_mount(fx->fs, "ended");
	assert_int_equal(last_unreported(), 0);
	end(fx, fx->fs);
	buf_clear(&fields);
}

/* That lines were lost is told where they are missing, whatever waits by then for the end of the turn. */
static void test_lost(void **state)
{
	struct fixture *fx = *state;
	struct problem why = {0};
	struct audit *a;

	begin(fx);
	audit_mount(fx->fs, "1");
	a = fx->fs->audit;
	a->next = 4;
	a->untold = 2;
	a->going = false;
	audit_mount(fx->fs, "4");
	a->required = true;
	a->changed = false;
	assert_int_equal(audit_may(fx->fs, 0, &why), 0);
	assert_true(a->changed);
	assert_int_equal(a->untold, 0);
	a->going = true;
	audit_flush(fx->fs);
	expect_numbers("1 3 4 ");
	end(fx, fx->fs);
}

static void submit(struct fixture *fx, char c, size_t len, int want)
{
	const struct timespec now = {0};
	struct buf code = {0};
	const unsigned before = fx_demo(fx)->last_number;

	while (len--)
		assert_int_equal(buf_append(&code, &c, 1), 0);
	assert_int_equal(session_submit(fx_demo(fx), &code, &now), want);
	assert_int_equal(fx_demo(fx)->last_number, before + !want);
	buf_clear(&code);
}

/* Nothing is done whose line is longer than the room that there is, with the lines before it. */
static void test_room(void **state)
{
	struct fixture *fx = *state;
	struct settings with = {0};
	struct problem why = {0};
	char dir[] = "/tmp/audit.XXXXXX";

	assert_non_null(mkdtemp(dir));
	if (!mount_little(dir)) {
		print_message("only as root: a disk with little room\n");
		assert_int_equal(rmdir(dir), 0);
		return;
	}
	snprintf(path, sizeof(path), "%s/log", dir);
	fx->conf.audit_required = fx->conf.audit_code = true;
	open_log(fx->fs, &fx->conf, AUDIT_FIRST);
	audit_go(fx->fs);
	submit(fx, 'a', 600u << 10, -ENOSPC);
	assert_int_equal(problem_kept(&fx_demo(fx)->front.error)->code, PROBLEM_NOT_AUDITED);
	submit(fx, '\x01', 100u << 10, -ENOSPC);
	submit(fx, '"', 200u << 10, -ENOSPC);
	submit(fx, '\xff', 120u << 10, -ENOSPC);
	submit(fx, 'a', 100u << 10, 0);
	/* Settings: all that they say may be new. */
	assert_int_equal(settings_copy(&with, &fx_demo(fx)->settings), 0);
	assert_int_equal(audit_may_set(fx_demo(fx), &with, &why), 0);
	free((char *)with.spec.packages);
	with.spec.packages = malloc(300u << 10);
	assert_non_null(with.spec.packages);
	memset((char *)with.spec.packages, 'a', 300u << 10);
	((char *)with.spec.packages)[(300u << 10) - 1] = '\0';
	assert_int_equal(audit_may_set(fx_demo(fx), &with, &why), -ENOSPC);
	settings_clear(&with);
	/* What waits for the end of the turn takes room. */
	fx->fs->audit->going = false;
	for (unsigned i = 0; i < 300; i++)
		audit_event(fx->fs, fx_demo(fx), "commit",
			    "0123456789012345678901234567890123456789012345678901234567890"
			    "12345678901234567890123456789012345678901234567890123456789");
	assert_true(fx->fs->audit->pending.len > 60u << 10);
	submit(fx, 'a', 200u << 10, -ENOSPC);
	fx->fs->audit->pending.len = 0;
	submit(fx, 'a', 200u << 10, 0);
	assert_int_equal(fx->fs->audit->lost, 0);
	fx->conf.audit_required = fx->conf.audit_code = false;
	end(fx, fx->fs);
	assert_int_equal(umount2(dir, MNT_DETACH) | rmdir(dir), 0);
}

/* Where it was named is where that is mended. */
static void test_where(void **state)
{
	struct fixture *fx = *state;
	char why[1024];

	fx->conf.audit_file = (char *)"/proc/none/x.jsonl";
	assert_int_equal(audit_open(fx->fs, &fx->conf, AUDIT_FIRST, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "audit_file /proc/none/x.jsonl: No such file or directory");
	fx->conf.audit_where = (char *)"/home/me/x.conf:7";
	assert_int_equal(audit_open(fx->fs, &fx->conf, AUDIT_FIRST, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "/home/me/x.conf:7: audit_file /proc/none/x.jsonl: No such file "
				 "or directory");
	fx->conf.audit_where = (char *)"/etc/xsbxfs.conf:12";
	assert_int_equal(audit_open(fx->fs, &fx->conf, AUDIT_TAKES_OVER, why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "/etc/xsbxfs.conf:12: audit_file"));
	assert_non_null(strstr(why, "/etc/xsbxfs/NAME.conf"));
	assert_null(fx->fs->audit);
	fx->conf.audit_file = fx->conf.audit_where = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text), fx_test(test_heirs), fx_test(test_goes_on),
		fx_test(test_requests),	     fx_test(test_where), fx_test(test_asker),
		fx_test(test_room),	     fx_test(test_rate),  fx_test(test_connections),
		fx_test(test_nobody_left),   fx_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
