/* SPDX-License-Identifier: Apache-2.0 */
/* The key that a program tells, with the real spawner and its policy. */
/* modules: vm tests/unit/fixture/saved_fixture.c */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/unit/fixture/saved_fixture.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"
#include "vm/policy/job.h"
#include "vm/sandbox/internal.h"
#include "vm/order/policy.h"
#include "vm/spawn/spawner.h"

#define KEY	"0101010101010101010101010101010101010101010101010101010101010101"
#define ANOTHER "0202020202020202020202020202020202020202020202020202020202020202"

static char top[64];

static void on_closed(void *data)
{
	*(bool *)data = true;
}

/* What comes of it is told by the exit status of a process of its own, for the spawner forks. */
struct keeping {
	const char *command;	   /* or NULL */
	unsigned limit_ms;	   /* or 0: the usual one */
	int result;		   /* of vm_keep() */
	const char *words;	   /* of its cause, or NULL */
	const char *seals, *opens; /* with the vault: leaves this text in a file; finds it there */
};

static int with_vault(const struct keeping *k, struct vault *v)
{
	struct buf sealed = {0}, plain = {0};
	char path[96];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/text", top);
	if (k->seals) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		r = vault_seal(v, k->seals, strlen(k->seals), "text", &sealed);
		if (r == 0 && write(fd, sealed.data, sealed.len) != (ssize_t)sealed.len)
			r = -EIO;
		close(fd);
	}
	if (k->opens) {
		r = buf_load(&sealed, path);
		if (r == 0)
			r = vault_unseal(v, sealed.data, sealed.len, "text", &plain);
		if (r == 0 &&
		    (plain.len != strlen(k->opens) || memcmp(plain.data, k->opens, plain.len) != 0))
			r = -EBADMSG;
	}
	buf_clear(&sealed);
	buf_clear(&plain);
	return r;
}

/* Return: 0 if all is as it should be. */
static int try(const struct keeping *k)
{
	char runtime[96], cache[96];
	struct vm_config cfg = {.runtime_dir = runtime,
				.cache_dir = cache,
				.qemu = "none",
				.agent = "/nonexistent",
				.accel = "tcg",
				.image_builder = "none",
				.key_command = k->command,
				.admission_s = 1,
				.boot_s = 1};
	const struct policy_config permitted = {.vm = &cfg};
	struct spawner_rules rules = {.job = policy_job, .runtime_dir = runtime};
	int state = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct problem why = {0};
	struct spawner *spawner;
	struct policy *policy;
	bool gone = false;
	uv_loop_t loop;
	struct vm *vm;

	snprintf(runtime, sizeof(runtime), "%s/runtime", top);
	snprintf(cache, sizeof(cache), "%s/cache", top);
	(void)mkdir(runtime, 0700);
	(void)mkdir(cache, 0700);
	if (policy_new(&permitted, &policy) < 0)
		return 1;
	cfg.policy = rules.data = policy;
	if (spawner_start(&rules, &spawner) < 0)
		return 2;
	uv_loop_init(&loop);
	if (vm_new(&loop, spawner, &cfg, NULL, NULL, &vm) < 0)
		return 3;
	vm->key_limit_ms = k->limit_ms ? k->limit_ms : vm->key_limit_ms;
	r = vm_keep(vm, state, &why);
	if (r != k->result || (k->words && !strstr(why.cause, k->words))) {
		fprintf(stderr, "%s: %d, %s\n", k->command ? k->command : "", r, why.cause);
		return 4;
	}
	r = r < 0 ? 0 : with_vault(k, vm_vault(vm));
	vm_close(vm, on_closed, &gone);
	while (!gone)
		uv_run(&loop, UV_RUN_ONCE);
	spawner_stop(spawner);
	return r < 0 ? 5 : 0;
}

static void keep(const struct keeping *k)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(try(k));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void in_a_file(void **state)
{
	char path[96];

	(void)state;
	keep(&(struct keeping){.seals = "hello"});
	keep(&(struct keeping){.opens = "hello"});
	snprintf(path, sizeof(path), "%s/key", top);
	assert_int_equal(unlink(path), 0);
	keep(&(struct keeping){.result = -ENOKEY, .words = "is gone"});
	assert_int_equal(access(path, F_OK), -1);
}

static void told_by_a_program(void **state)
{
	char path[96];

	(void)state;
	keep(&(struct keeping){.command = "echo " KEY, .seals = "hello"});
	keep(&(struct keeping){.command = "printf %s " KEY, .opens = "hello"});
	keep(&(struct keeping){.command = "echo " ANOTHER,
			       .result = -EKEYREJECTED,
			       .words = "sealed with another key"});
	keep(&(struct keeping){.command = "echo " KEY, .opens = "hello"});
	/* It is in no file. */
	snprintf(path, sizeof(path), "%s/key", top);
	assert_int_equal(access(path, F_OK), -1);
}

static void the_program_fails(void **state)
{
	(void)state;
	keep(&(struct keeping){.command = "exit 3", .result = -ENOKEY, .words = "exit status 3"});
	keep(&(struct keeping){
		.command = "kill -9 $$", .result = -ENOKEY, .words = "killed by signal 9"});
	keep(&(struct keeping){.command = "true", .result = -ENOKEY, .words = "is no key"});
	keep(&(struct keeping){.command = "echo hello", .result = -ENOKEY, .words = "is no key"});
	keep(&(struct keeping){.command = "yes " KEY,
			       .limit_ms = 300,
			       .result = -ENOKEY,
			       .words = "did not end in"});
	/* What it prints and does not mean. */
	keep(&(struct keeping){
		.command = "echo " KEY "; exit 1", .result = -ENOKEY, .words = "exit status 1"});
}

static int setup(void **state)
{
	(void)state;
	strcpy(top, "/tmp/test_keep.XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(told_by_a_program, setup, teardown),
		cmocka_unit_test_setup_teardown(the_program_fails, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN);
	log_open(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
