/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: what their keys mean, and what a mistake in them is answered. */
/* modules: tests/unit/fixture/conf_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/conf_fixture.h"
#include "vm/base/arch.h"
#include "vm/base/secret_list.h"

static const struct {
	const char *name, *image, *language;
} builtin[] = {{"shell", "raw", "raw"},
	       {"python", "python", "python"},
	       {"javascript", "javascript", "javascript"},
	       {"raw", "raw", "raw"},
	       {"dev", "dev", "raw"}};

static void test_defaults(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "\n"), 0);
	assert_int_equal(c.action, CONF_MOUNT);
	assert_string_equal(c.vm.qemu, ARCH_QEMU);
	assert_string_equal(c.vm.accel, "auto");
	assert_string_equal(c.vm.kernel, "auto");
	assert_true(c.output_bytes == 64u << 20);
	assert_true(c.history_bytes == 256u << 20);
	assert_int_equal(c.history_runs, 100);
	assert_int_equal(c.vm.max_vms, 0);
	assert_int_equal(c.quota.each.sessions, 1024);
	assert_true(strncmp(c.vm.cache_dir, dir, strlen(dir)) == 0);
	assert_int_equal(strncmp(c.spool_dir, c.vm.cache_dir, strlen(c.vm.cache_dir)), 0);
	assert_string_equal(c.spool_dir + strlen(c.vm.cache_dir), "/spool");
	assert_non_null(strstr(c.vm.agent, "/xsbx-agent"));
	assert_int_equal(c.ntemplates, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(c.template[i].name, builtin[i].name);
		assert_string_equal(c.template[i].settings.spec.image, builtin[i].image);
		assert_string_equal(c.template[i].settings.spec.language, builtin[i].language);
		/* What nobody uses costs no clone. */
		assert_int_equal(c.template[i].settings.spec.pool.target, i < 4);
		assert_int_equal(c.template[i].prepare, i < 4);
	}
	conf_clear(&c);
}

/* Whoever can't open the audit log is told where it was named. */
static void test_audit_where(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[xsbxfs]\naudit_file = /a/one\naudit_file = /a/two\n"), 0);
	assert_string_equal(c.audit_file, "/a/two");
	assert_string_equal(c.audit_where, "t.conf:3");
	conf_clear(&c);
	assert_int_equal(read_text(&c, "\n"), 0);
	assert_null(c.audit_where);
	conf_clear(&c);
}

static void test_prepare(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[template exam]\nlanguage = python\n"), 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(c.template[i].prepare, i != 4);
	conf_clear(&c);
	assert_int_equal(read_text(&c, "prepare = no\n"), 0);
	assert_false(c.template[0].prepare);
	conf_clear(&c);
	assert_int_equal(
		read_text(&c, "prepare = exam  raw dev\n[template exam]\nlanguage = python\n"), 0);
	assert_false(c.template[0].prepare);
	for (size_t i = 3; i < 6; i++)
		assert_true(c.template[i].prepare);
	conf_clear(&c);
	/* What the configuration says of such a name counts. */
	assert_int_equal(read_text(&c, "[template dev]\nimage = python\npool = 2\n"), 0);
	assert_string_equal(c.template[4].settings.spec.image, "python");
	assert_string_equal(c.template[4].settings.spec.language, "python");
	assert_int_equal(c.template[4].settings.spec.pool.low, 2);
	conf_clear(&c);
	assert_refused("prepare = raw examen\n", "examen");
}

static void test_pool(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[template raw]\npool = 5\n[template python]\npool = 8\n"
				       "pool_low = 2\npool_age_s = 0\n"),
			 0);
	assert_int_equal(c.template[1].settings.spec.pool.target, 8);
	assert_int_equal(c.template[1].settings.spec.pool.low, 2);
	assert_int_equal(c.template[1].settings.spec.pool.age_s, 0);
	assert_int_equal(c.template[1].settings.spec.pool.most, 8);
	assert_int_equal(c.template[2].settings.spec.pool.most, 4);
	assert_int_equal(c.template[3].settings.spec.pool.target, 5);
	assert_int_equal(c.template[3].settings.spec.pool.most, 5);
	assert_int_equal(c.template[3].settings.spec.pool.low, 5); /* what is taken is replaced */
	assert_int_equal(c.template[2].settings.spec.pool.low, 1);
	conf_clear(&c);
	assert_refused("[template raw]\npool = 1001\n", "pool");
	assert_refused("[template raw]\npool = 2\npool_max = 1\n", "pool_max");
	assert_refused("[template raw]\npool_age_s = soon\n", "pool_age_s");
	assert_refused("[template raw]\npool = 2\npool_low = 3\n", "pool_low");
}

static void test_file(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c,
				   "\xef\xbb\xbf# comment\n; comment\r\n[xsbxfs]\r\n"
				   "max_vms = 3\r\n   cache_dir = /a b\noutput_limit = 8M ; some\n"
				   "history_limit: 2GiB\nhistory_runs=5\nspool_dir = ~/s\n"
				   "accel = tcg\nkernel = stock\nallow_other = yes\nqemu = "
				   "qemu-system-aarch64\n"
				   "[limits] # bounds\nmax_cpus = 4\nmax_memory_mb = 0\n"
				   "[store]\nurl = https://s3.test/b/p\nregion = eu-1\nwrite = "
				   "yes\n"
				   "[template data-1]\nimage = python\ncpus = 2\nenv.A = \" x \"\n"
				   "[ template\traw ]\nmemory_mb = 512\n"),
			 0);
	assert_int_equal(c.vm.max_vms, 3);
	assert_string_equal(c.vm.cache_dir, "/a b");
	assert_true(c.output_bytes == 8u << 20);
	assert_true(c.history_bytes == 2ull << 30);
	assert_int_equal(c.history_runs, 5);
	assert_true(strncmp(c.spool_dir, dir, strlen(dir)) == 0);
	assert_string_equal(c.vm.accel, "tcg");
	assert_string_equal(c.vm.kernel, "stock");
	assert_true(c.allow_other);
	assert_string_equal(c.vm.qemu, "qemu-system-aarch64");
	assert_int_equal(c.limits.max_cpus, 4);
	assert_string_equal(c.vm.store.url, "https://s3.test/b/p");
	assert_string_equal(c.vm.store.region, "eu-1");
	assert_true(c.vm.store.read && c.vm.store.write);
	assert_int_equal(c.ntemplates, 6);
	assert_int_equal(c.template[3].settings.spec.memory_mb, 512);
	assert_string_equal(c.template[5].name, "data-1");
	assert_string_equal(c.template[5].settings.spec.image, "python");
	assert_string_equal(c.template[5].settings.spec.language, "python");
	assert_int_equal(c.template[5].settings.spec.cpus, 2);
	assert_string_equal(c.template[5].settings.spec.env[0].value, " x ");
	conf_clear(&c);
}

static void test_policy(void **state)
{
	struct conf c;
	const struct vm_secret *s;

	(void)state;
	assert_int_equal(
		read_text(&c, "[secret github]\nfrom = env TOKEN\nhosts = api.test plain.test:80\n"
			      "users = 0 1001\n[limits]\nfirst_rules = deny * *:25\n"
			      "max_net_bytes = 2G\nmax_net_requests = 0\n"
			      "[secret other]\nfrom = file /x\nhosts = *.test\n"
			      "[template python]\nnetwork = on\nrules = ask * a.test\n"
			      "secrets = a.test bearer other\nnet_bytes = 1G\n"),
		0);
	assert_int_equal(c.vm.secrets.n, 2);
	s = secret_list_find(&c.vm.secrets, "github");
	assert_true(s && s->from == VM_SECRET_ENV && s->nusers == 2 && !s->refresh_s);
	assert_string_equal(s->argument, "TOKEN");
	assert_string_equal(s->hosts, "api.test:443 plain.test:80");
	assert_string_equal(c.limits.first_rules, "deny * *:25");
	assert_int_equal(c.limits.max_net_bytes, 2ull << 30);
	assert_string_equal(c.template[1].settings.spec.policy.rules, "ask * a.test");
	assert_int_equal(c.template[1].settings.spec.policy.most.bytes, 1u << 30);
	/* No limit of their own is not within the administrator's. */
	assert_int_equal(c.template[0].settings.spec.policy.most.bytes, 2ull << 30);
	conf_clear(&c);
	assert_refused("[secret]\n", "there is no section [secret]");
	assert_refused("[secret a/b]\n", "t.conf:1: the name of a secret");
	assert_refused("[secret x]\nfrom = file x\n", "t.conf:2: from: the path");
	assert_refused("[secret x]\nvalue = y\n", "value: a secret has from, hosts, users");
	assert_refused("[secret x]\nfrom = file /x\n", "[secret x]: hosts is missing");
	assert_refused("[limits]\nfirst_rules = deny a.test\n", "methods and a place follow");
	assert_refused("[limits]\nmax_net_requests = 1M\n", "not a whole number");
	assert_refused("[template python]\nnetwork = on\nrules = permit * a\n",
		       "begins with allow");
	assert_refused("[template python]\nrules = deny * a\n", "with network = on");
}

static void test_file_mistakes(void **state)
{
	(void)state;
	assert_refused("[xsbxfs]\n\nmax_vm = 3\n",
		       "t.conf:3: there is no key \"max_vm\" in [xsbxfs]");
	assert_refused("[sandbox]\n", "t.conf:1: there is no section [sandbox]");
	assert_refused("[templateraw]\n", "there is no section");
	assert_refused("[xsbxfs\n", "a section is written [name]");
	assert_refused("[xsbxfs] x\n", "a section is written [name]");
	assert_refused("[xsbxfs]\nmax_vms\n", "t.conf:2: expected");
	assert_refused("[xsbxfs]\nmax_vms = many\n", "max_vms: \"many\"");
	assert_refused("[xsbxfs]\nmax_vms = \n", "max_vms");
	assert_refused("[xsbxfs]\nmax_cpus = 2\n", "belongs into the section [limits]");
	assert_refused("[xsbxfs]\nnotify = /x\n", "only as an option");
	assert_refused("[xsbxfs]\ncache_dir = x/y\n", "does not begin with /");
	assert_refused("[xsbxfs]\nqemu = bin/qemu\n", "does not begin with /");
	assert_refused("[xsbxfs]\ncache_dir =\n", "a path is missing");
	assert_refused("[xsbxfs]\naccel = hvf\n", "\"hvf\" is not auto, kvm or tcg");
	assert_refused("[xsbxfs]\nkernel = mine\n", "\"mine\" is not auto, own or stock");
	assert_refused("[xsbxfs]\noutput_limit = 64 M\n", "is not a size");
	assert_refused("[xsbxfs]\noutput_limit = 64MB\n", "is not a size");
	assert_refused("[xsbxfs]\noutput_limit = 99999999T\n", "is not a size");
	assert_refused("[xsbxfs]\noutput_limit = -1\n", "is not a size");
	assert_refused("[xsbxfs]\noutput_limit = 18446744073709551617\n", "is not a size");
	assert_refused("[xsbxfs]\nallow_other = perhaps\n", "neither yes nor no");
	assert_refused("[xsbxfs]\nbackend = docker\n", "not microvm or process");
	/* Who is allowed what is not decided by what is asked for. */
	assert_refused("[xsbxfs]\nbackend = process\n", "not allowed here");
	assert_refused("[template python]\nbackend = process\n", "not allowed here");
	assert_refused("[limits]\nmax_memory_mb = 64\n",
		       "max_memory_mb: 64 is too small. Write a whole number from 128 to 1048576 "
		       "without a unit, or 0 for no limit.");
	assert_refused("[store]\nurl = ftp://h/b\n", "is not https://");
	assert_refused("[store]\nurl = https://me:secret@h/b\n", "belong into the environment");
	for (size_t i = 0; i < 4; i++) {
		static const char *const none[] = {"http://", "https://", "http:///x",
						   "https://:80"};
		char text[64];

		snprintf(text, sizeof(text), "otlp_url = %s\n", none[i]);
		assert_refused(text, "is not https://HOST/PATH or http://HOST/PATH");
	}
	assert_refused("[network]\nupstream = https://proxy:3128\n", "is not http://HOST:PORT");
	assert_refused("[store]\nregion = Mars\n", "is no region");
	assert_refused("[store]\nmax_vms = 1\n", "belongs into the section [xsbxfs]");
	assert_refused("url = https://h/b\n", "belongs into the section [store]");
	assert_refused("[xsbxfs]\n= 3\n", "there is no key \"\"");
}

static void test_hostile_files(void **state)
{
	static const char nul[] = "[xsbxfs]\nmax_\0vms = 3\n";
	char *text = malloc(10000);
	struct conf c;

	(void)state;
	assert_int_equal(read_text_len(&c, nul, sizeof(nul) - 1), -EINVAL);
	assert_says("t.conf:2: this is not a text file");
	conf_clear(&c);

	memset(text, 'x', 9999);
	memcpy(text, "[xsbxfs]\ncache_dir = /", 22);
	text[9999] = '\0';
	assert_refused(text, "t.conf:2: the line is too long");
	free(text);

	text = malloc((1 << 20) + 16);
	memset(text, '\n', (1 << 20) + 16);
	assert_int_equal(read_text_len(&c, text, (1 << 20) + 16), -EINVAL);
	assert_says("at most 1 MiB");
	conf_clear(&c);
	free(text);
}

static void test_long_value(void **state)
{
	char text[SETTINGS_ENV_VALUE + 64];
	struct conf c;
	int n = sprintf(text, "[template raw]\nenv.A = ");

	(void)state;
	memset(text + n, 'v', SETTINGS_ENV_VALUE);
	text[n + SETTINGS_ENV_VALUE] = '\0';
	assert_int_equal(read_text(&c, text), 0);
	assert_int_equal(strlen(c.template[3].settings.spec.env[0].value), SETTINGS_ENV_VALUE);
	conf_clear(&c);
}

static void test_templates(void **state)
{
	char text[4096], *p = text;
	struct conf c;

	(void)state;
	assert_refused("[template data]\n", "[template data]: which language?");
	assert_refused("[template data]\nimage = app\n", "no image \"app\" is here that says it");
	assert_refused("[template data]\nlanguage = perl\n", "t.conf:2: language: \"perl\"");
	assert_refused("[template ../x]\n", "t.conf:1: template \"../x\"");
	assert_refused("[template .x]\n", "begins with");
	assert_refused("[template ]\n", "there is no section [template]");
	assert_refused("[template events]\n", "the mount has a file of that name");
	assert_refused("[template raw]\nimage = a/b\n", "image");
	assert_refused("[template raw]\nmemory_mb = 64\n", "t.conf:2: memory_mb: 64 is too small");
	assert_refused("[template raw]\nnetwork = perhaps\n", "t.conf:2: network");
	assert_refused("[template raw]\nspeed = 9\n", "t.conf:2: there is no setting \"speed\"");
	/* It names what there is, also what only a template has. */
	assert_refused("[template raw]\nspeed = 9\n", " pool_max, ");
	assert_refused("[template raw]\nspeed = 9\n", " rw, ");
	assert_refused("[template raw]\nspeed = 9\n", " and env.NAME.");
	/* inih keeps 49 bytes of a section's name; the template has all of it. */
	assert_int_equal(read_text(&c,
				   "[template a234567890123456789012345678901234567890123456789"
				   "012345678901234]\nlanguage=raw\n"
				   "[template only-a-name-and-an-image-python]\nimage = python\n"),
			 0);
	assert_int_equal(strlen(c.template[5].name), 64);
	assert_string_equal(c.template[6].settings.spec.language, "python");
	conf_clear(&c);
	for (int i = 0; i < CONF_TEMPLATES_MAX; i++)
		p += sprintf(p, "[template t%d]\nlanguage=raw\n", i);
	assert_refused(text, "64 templates are the most");
}

static void test_templates_within_limits(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[template raw]\ncpus = 2\n[limits]\nmax_cpus = 2\n"
				       "max_memory_mb = 128\nmax_timeout_s = 10\n"),
			 0);
	assert_int_equal(c.template[1].settings.spec.memory_mb, 128);
	assert_int_equal(c.template[1].settings.timeout_s, 10);
	assert_int_equal(c.template[3].settings.spec.cpus, 2);
	conf_clear(&c);
	assert_refused("[template raw]\ncpus = 4\n[limits]\nmax_cpus = 2\n",
		       "[template raw]: cpus");
}

static void test_network(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[template raw]\nnetwork = on\nallow = Example.com, "
				       "*.example.org:8443\nports = 3000:80 8080\n"
				       "[limits]\nmax_allow = example.com *.example.org:8443\n"),
			 0);
	assert_string_equal(c.template[3].settings.spec.allow, "example.com *.example.org:8443");
	assert_int_equal(c.template[3].settings.spec.nports, 2);
	assert_int_equal(c.template[3].settings.spec.ports[0].host, 3000);
	assert_false(c.limits.deny_network);
	conf_clear(&c);
	assert_refused("[template raw]\nallow = example.com\n", "network = on");
	assert_refused("[limits]\nmax_allow = a..b\n", "t.conf:2: max_allow: a..b");
	assert_refused("[template raw]\nnetwork = on\nallow = example.com\n[limits]\n"
		       "max_allow = example.org\n",
		       "[template raw]: allow: the administrator does not allow \"example.com\"");
	assert_refused("[template raw]\nnetwork = on\n[limits]\nallow_network = no\n",
		       "[template raw]: network: sandboxes may have none");
	/* This machine's ports are opened somewhere else than they are named. */
	assert_int_equal(read_text(&c, "[template raw]\nnetwork = on\nallow = host.internal:5432\n"
				       "[limits]\nhost_ports = 5432\n"),
			 0);
	conf_clear(&c);
	assert_refused("[template raw]\nnetwork = on\nallow = host.internal:5433\n"
		       "[limits]\nhost_ports = 5432\n",
		       "[template raw]: allow: host.internal:5433");
	assert_int_equal(read_text(&c, "[limits]\nallow_network = no\n[template raw]\nports=80\n"),
			 0);
	assert_true(c.limits.deny_network);
	conf_clear(&c);
}

/* The example says nothing as it is, and the defaults once its keys are uncommented. */
static void test_example(void **state)
{
	struct conf_source src = {.file = "example", .why = why, .why_size = sizeof(why)};
	struct conf c;
	char line[256], text[16384];
	size_t n = 0;
	FILE *file;

	(void)state;
	if (!example)
		skip();
	assert_int_equal(conf_init(&c), 0);
	assert_int_equal(conf_read(&c, example, &src), 0);
	assert_int_equal(c.ntemplates, 5);
	conf_clear(&c);

	rewind(example);
	while (fgets(line, sizeof(line), example)) {
		const char *from = line[0] == '#' && !strchr(" .", line[1]) ? line + 1 : line;

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", from);
		assert_true(n < sizeof(text));
	}
	file = fmemopen(text, n, "r");
	assert_non_null(file);
	assert_int_equal(conf_init(&c), 0);
	assert_int_equal(conf_read(&c, file, &src), 0);
	assert_int_equal(conf_settle(&c, &src), 0);
	fclose(file);
	assert_int_equal(c.vm.admission_s, 120);
	assert_int_equal(c.vm.boot_s, 60);
	assert_true(c.output_bytes == 64u << 20 && c.history_bytes == 256u << 20);
	assert_int_equal(c.ntemplates, 6);
	assert_int_equal(c.template[5].settings.spec.memory_mb, 1024);
	conf_clear(&c);
}

static void test_quotas(void **state)
{
	struct allowance a;
	struct conf c;

	(void)state;
	assert_int_equal(read_text(&c, "[quota]\nsessions = 5\nmachines = 2\ndisk = 1G\n"
				       "[quota root]\ncpu_s_day = 60\nsessions = 0\n"
				       "[quota 7] ; a number\nmachines = 1\n"
				       "[quota 0]\nnet_bytes_day = 10K\n"
				       "[ quota  all ]\nmachines = 9\nmemory_mb = 512\n"),
			 0);
	assert_int_equal(c.quota.n, 2);
	a = quotas_of(&c.quota, 0); /* by its name and by its number */
	assert_int_equal(a.sessions, 0);
	assert_int_equal(a.machines, 2);
	assert_int_equal(a.cpu_s_day, 60);
	assert_true(a.disk == 1u << 30 && a.net_bytes_day == 10240);
	assert_string_equal(quotas_name(&c.quota, 0), "root");
	a = quotas_of(&c.quota, 7);
	assert_int_equal(a.sessions, 5);
	assert_int_equal(a.machines, 1);
	assert_null(quotas_name(&c.quota, 7));
	a = quotas_of(&c.quota, 8);
	assert_int_equal(a.sessions, 5);
	assert_int_equal(a.cpu_s_day, 0);
	/* What sandboxes are admitted by. */
	assert_int_equal(c.vm.max_vms, 9);
	assert_int_equal(c.vm.memory_mb, 512);
	assert_int_equal(c.vm.max_vms_user, 2);
	assert_int_equal(c.vm.memory_mb_user, 0);
	assert_int_equal(c.vm.nusers, 2);
	assert_int_equal(c.vm.users[0].uid, 0);
	assert_true(c.vm.users[0].max_vms == VM_AS_OTHERS);
	assert_int_equal(c.vm.users[1].max_vms, 1);
	conf_clear(&c);
	/* The other names of these are the same keys. */
	assert_int_equal(read_text(&c, "max_sessions = 3\nmax_vms = 4\nmax_vms_user = 5\n"
				       "[quota]\nsessions = 6\n[quota all]\nmachines = 7\n"
				       "[xsbxfs]\nmax_vms = 8\n"),
			 0);
	assert_int_equal(c.quota.each.sessions, 6);
	assert_int_equal(c.quota.each.machines, 5);
	assert_int_equal(c.vm.max_vms, 8);
	conf_clear(&c);
	assert_refused("[quota nobody-of-that-name]\n", "no user \"nobody-of-that-name\"");
	assert_refused("[quota 4294967295]\n", "no user");
	assert_refused("[quota 12x]\n", "no user");
	assert_refused("[quota]\ncpus = 3\n", "no key \"cpus\" in [quota]");
	assert_refused("[quota]\ndisk = much\n", "disk");
	assert_refused("[quota]\nsessions = -1\n", "sessions");
	assert_refused("cpu_s_day = 3\n", "belongs into a section [quota]");
	assert_refused("[quotas]\n", "[quota all]");
}

static void test_many_quotas(void **state)
{
	struct buf text = {0};
	struct conf c;

	(void)state;
	for (unsigned i = 0; i < QUOTA_USERS_MAX; i++)
		(void)buf_printf(&text, "[quota %u]\nsessions = %u\n", i + 5, i);
	assert_int_equal(read_text_len(&c, text.data, text.len), 0);
	assert_int_equal(quotas_of(&c.quota, 1004).sessions, 999);
	conf_clear(&c);
	(void)buf_printf(&text, "[quota 4]\n");
	(void)buf_append(&text, "", 1);
	assert_refused(text.data, "more than 1024 users");
	buf_clear(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_audit_where),
		cmocka_unit_test(test_prepare),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_file_mistakes),
		cmocka_unit_test(test_hostile_files),
		cmocka_unit_test(test_long_value),
		cmocka_unit_test(test_templates),
		cmocka_unit_test(test_templates_within_limits),
		cmocka_unit_test(test_network),
		cmocka_unit_test(test_quotas),
		cmocka_unit_test(test_many_quotas),
		cmocka_unit_test(test_example),
	};

	return cmocka_run_group_tests(tests, conf_fixture_setup, conf_fixture_teardown);
}
