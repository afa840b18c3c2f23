/* SPDX-License-Identifier: Apache-2.0 */
/* status.html: what it shows to whom, that it is small, that nothing in it is markup of others, and that reading it is no use. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "fs/session/job.h"
#include "fs/tree/dir.h"
#include "fs/tree/page_static.h"
#include "fs/tree/table.h"
#include "tests/unit/fixture/fixture.h"

#define TOP	   "python/demo/"
#define PAGE	   TOP "status.html"
#define ALICE	   1001u
#define BOB	   1002u
#define OWNER	   1003u
#define WORST_PAGE (1u << 20)

static unsigned times_in(const char *text, const char *words)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, words)); at++)
		n++;
	return n;
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is missing in:\n%.4000s", words, strstr(text, "<body"));
}

static void has_not(const char *text, const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" is in:\n%.300s", words, strstr(text, words));
}

/* The root's page, as a user finds it. Freed by free_pages(). */
static struct buf pages[8];

static const char *root_of(struct fixture *fx, uid_t uid)
{
	static unsigned next;
	struct buf *b = &pages[next++ % ARRAY_SIZE(pages)];
	struct node root, n;

	fx->fs->caller = uid;
	assert_int_equal(node_resolve(fx->fs, ino_make(NODE_ROOT, 0, 0, 0), &root), 0);
	assert_int_equal(dir_lookup(&root, "status.html", &n), 0);
	buf_clear(b);
	assert_int_equal(node_render(&n, b), 0);
	return buf_str(b);
}

static int free_pages(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(pages); i++)
		buf_clear(&pages[i]);
	return fx_teardown(state);
}

/* One style, one script, and a policy in front of both that allows these two and nothing else. */
static void check_frame(const char *text)
{
	const char *policy = strstr(text, "Content-Security-Policy"),
		   *style = strstr(text, "<style>");
	struct page_hash hash;

	assert_int_equal(strncmp(text, "<!doctype html>", 15), 0);
	assert_int_equal(times_in(text, "<style"), 1);
	assert_int_equal(times_in(text, "<script"), 1);
	assert_int_equal(times_in(text, "</script"), 1);
	assert_int_equal(times_in(text, "http-equiv"),
			 2); /* and the refresh of those without scripts */
	assert_int_equal(times_in(text, " style="), 0);
	assert_int_equal(times_in(text, "javascript:"), 0);
	assert_true(policy && style && policy < style);
	has(policy, "default-src 'none'; ");
	assert_int_equal(page_static_hash(page_css(), &hash), 0);
	has(policy, hash.text);
	assert_int_equal(page_static_hash(page_js(), &hash), 0);
	has(policy, hash.text);
	/* What is hashed is what there is. */
	assert_int_equal(strncmp(style + 7, page_css().data, page_css().len), 0);
	assert_int_equal(strncmp(style + 7 + page_css().len, "</style>", 8), 0);
	assert_int_equal(strncmp(strstr(text, "<script>") + 8, page_js().data, page_js().len), 0);
	assert_string_equal(text + strlen(text) - 8, "</html>\n");
}

static void test_session(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	const char *text = fx_cat(fx, PAGE);

	check_frame(text);
	has(text, "None yet.");
	s = fx_run(fx, "print('forty-two')\nsecond line\n");
	s->usage = (struct sandbox_usage){.mem_total_kib = 4096,
					  .mem_available_kib = 1024,
					  .processes = 3,
					  .reached = VM_REACHED_FILES};
	fake_output(s, VM_STDOUT, "42\n");
	fake_output(s, VM_STDERR, "a warning\n");
	text = fx_cat(fx, PAGE);
	has(text, "<span class=\"state running\">running</span>");
	has(text, "print(&#39;forty-two&#39;)\nsecond line\n</pre>");
	fake_exit(s, VM_DONE, 3);
	assert_int_equal(fx_put(fx, TOP "config", "memory_mb = 99999999\n"), -EINVAL);
	fx_checkpoint(fx, s, "before");
	text = fx_cat(fx, PAGE);
	check_frame(text);
	has(text, "<span class=\"state exit\">exit 3</span>");
	has(text, "<h4>stdout, 3 bytes</h4><pre class=\"foreign\">42\n</pre>");
	has(text, "<pre class=\"foreign\">a warning\n</pre>");
	has(text, "3.0 MiB <small>of ");
	has(text, "<code>files_mb</code>");
	has(text, "<b>What to do:</b>");
	has(text, "<title>checkpoint before</title>");
	has(text, "href=\"./runs/1/\"");
}

/* What sandboxes and users say is text, wherever it comes up. */
static void test_hostile(void **state)
{
	static const char evil[] = "</pre></title></style></svg><script>alert(1)</script>\" "
				   "onload=\"x' \033[31m \xff\xe2\x80\xae\xe2\x80\xac";
	struct fixture *fx = *state;
	struct vm_result r = {.outcome = VM_LOST, .problem = {.code = PROBLEM_FAILED}};
	struct sandbox *s;
	/* Apart, for those who look for it in sources. */
	const char override[] = {'\xe2', '\x80', '\xae', '\0'};
	const char *both[2];

	snprintf(r.problem.cause, sizeof(r.problem.cause), "cause %s", evil);
	snprintf(r.problem.fix, sizeof(r.problem.fix), "fix %s", evil);
	s = fx_run(fx, evil);
	fake_output(s, VM_STDOUT, evil);
	fake_output(s, VM_STDERR, evil);
	fake_result(s, &r);
	fx_job(fx, "job");
	session_problem(fx_demo(fx), &r.problem);
	complaint_tell(fx->fs, fx->fs->caller, &r.problem);
	both[0] = fx_cat(fx, PAGE);
	both[1] = fx_cat(fx, "status.html");
	for (int i = 0; i < 2; i++) {
		check_frame(both[i]);
		has(both[i], "cause &lt;/pre&gt;");
		has(both[i], "fix &lt;/pre&gt;");
		has(both[i], "[U+202E]");
		has_not(both[i], "\033");
		has_not(both[i], "\xff");
		has_not(both[i], override);
		has_not(both[i], " onload=\"");
		assert_int_equal(times_in(both[i], "<svg"), times_in(both[i], "</svg"));
	}
}

static void test_secrets(void **state)
{
	struct fixture *fx = *state;
	const char *text;

	assert_true(fx_put(fx, TOP "config", "env.API_KEY = hunter2\n") == 0);
	text = fx_cat(fx, PAGE);
	has(text, "API_KEY");
	has_not(text, "hunter2");
}

/* Names and states of others are for who mounted, what they do is for nobody else. */
static void test_whose(void **state)
{
	struct fixture *fx = *state;
	struct session *s = fx_demo(fx);
	struct vm_result r = {.outcome = VM_DONE, .status = 1};
	struct sandbox *sandbox = fx_run(fx, "SECRET-CODE");
	const uid_t uid = s->uid;
	struct node root, n;
	struct stat st;
	const char *text;

	fake_output(sandbox, VM_STDOUT, "SECRET-OUTPUT");
	fake_result(sandbox, &r);
	session_problemf(s, PROBLEM_FAILED, "SECRET-FIX", "SECRET-CAUSE");
	s->uid = ALICE;
	fx->fs->uid = OWNER;
	text = root_of(fx, ALICE);
	has(text, "./python/demo/status.html");
	has(text, "SECRET-CODE");
	has(text, "SECRET-CAUSE");
	text = root_of(fx, OWNER);
	has(text, "<bdi>python/demo</bdi> <small class=\"soft\">of user 1001</small>");
	has(text, "run 1: done, exit 1");
	has_not(text, "SECRET");
	text = root_of(fx, BOB);
	has(text, "and 1 of other users");
	has_not(text, "python/demo");
	has_not(text, "SECRET");
	/* Root is one of them, unless it has mounted. */
	has_not(root_of(fx, 0), "SECRET");
	/* The kernel lets nobody else read it; whose it is says its number, whoever asks. */
	assert_int_equal(node_resolve(fx->fs, ino_make(NODE_ROOT, 0, 0, 0), &root), 0);
	fx->fs->caller = BOB;
	assert_int_equal(dir_lookup(&root, "status.html", &n), 0);
	fx->fs->caller = ALICE;
	assert_int_equal(node_resolve(fx->fs, n.ino, &n), 0);
	assert_int_equal(n.sub, BOB);
	assert_int_equal(dir_stat(&n, &st), 0);
	assert_int_equal(st.st_uid, BOB);
	assert_int_equal(st.st_mode, S_IFREG | 0400);
	s->uid = uid;
}

/* A mount with ten thousand sessions has a small page, with those that are active above the others. */
static void test_many(void **state)
{
	struct fixture *fx = *state;
	struct session *s, *last = NULL;
	const char *text;
	char name[32];

	for (unsigned i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_int_equal(session_create(fx->fs, 1, name, ALICE, ALICE, &s), 0);
		s->created.tv_sec += i;
		session_problemf(s, PROBLEM_FAILED, "Mend it.", "number %u is broken", i);
		s->front.error_mtime = s->state_mtime = s->created;
		last = i == 50 ? s : last;
	}
	last->state = SESSION_RUNNING;
	text = root_of(fx, ALICE);
	check_frame(text);
	assert_true(strlen(text) < 128 * 1024);
	has(text, "<div class=\"big\">10001</div>");
	assert_int_equal(times_in(text, "<td data-is=\"last run\">"), 100);
	has(text, "and 9900 more, which were active before these");
	has(text, "and 9980 more sessions have an <code>error</code>");
	has(text, "and 1 of other users");
	has(strstr(text, "<tbody>"), "raw/s9999");
	/* The first of all is the one that runs. */
	text = strstr(text, "<tbody>");
	has(text, "raw/s50/");
	assert_true(strstr(text, "raw/s50/") < strstr(text, "raw/s9999/"));
	has_not(text, "raw/s9000/");
	last->state = SESSION_NEW;
}

/* The most that one session can show, all of it of what becomes longest. */
static void test_most(void **state)
{
	struct fixture *fx = *state;
	const size_t len = 1 << 16;
	char *quotes = malloc(len + 1), path[64];
	struct sandbox *s;

	memset(quotes, '"', len);
	quotes[len] = '\0';
	for (unsigned i = 0; i < 99; i++) {
		s = fx_run(fx, quotes);
		fake_output_bytes(s, VM_STDOUT, quotes, 8192);
		fake_output_bytes(s, VM_STDERR, quotes, 8192);
		fake_exit(s, VM_DONE, 1);
	}
	for (unsigned i = 0; i < 30; i++) {
		snprintf(path, sizeof(path), TOP "jobs/j%u", i);
		assert_int_equal(fx_mkdir(fx, path), 0);
		snprintf(path, sizeof(path), TOP "jobs/j%u/in", i);
		assert_true(fx_put(fx, path, quotes) == 0);
	}
	assert_in_range(fx_size(fx, PAGE), 300000, WORST_PAGE);
	assert_in_range(strlen(root_of(fx, fx_demo(fx)->uid)), 10000, 128 * 1024);
	has(fx_cat(fx, PAGE), "older ones: <a href");
	has(fx_cat(fx, PAGE), "and 18 older ones");
	free(quotes);
}

/* Neither wakes a session that is asleep, nor keeps one from falling asleep. */
static void test_no_use(void **state)
{
	struct fixture *fx = *state;
	uint64_t idle;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	idle = fx_demo(fx)->idle_since;
	clock_advance(1000);
	fx_cat(fx, PAGE);
	fx_cat(fx, "status.html");
	assert_int_equal(fx_demo(fx)->idle_since, idle);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fake_settle();
	fx_expect(fx, TOP "state", "closed\n");
	has(fx_cat(fx, PAGE), "<span class=\"state closed\">closed</span>");
	fx_expect(fx, TOP "state", "closed\n");
	assert_int_equal(fake_alive(), 0);
}

static void test_asleep(void **state)
{
	struct fixture *fx = *state;

	fx_asleep(fx);
	has(fx_cat(fx, PAGE), "asleep since ");
	has(root_of(fx, fx_demo(fx)->uid), "<span class=\"state asleep\">asleep</span>");
	fx_expect(fx, TOP "state", "asleep\n");
	assert_int_equal(fake_alive(), 0);
}

#define page_test(name) cmocka_unit_test_setup_teardown(name, fx_setup, free_pages)

int main(void)
{
	const struct CMUnitTest tests[] = {
		page_test(test_session), page_test(test_hostile), page_test(test_secrets),
		page_test(test_whose),	 page_test(test_many),	  page_test(test_most),
		page_test(test_no_use),	 page_test(test_asleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
