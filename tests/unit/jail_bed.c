/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of jails: one with a view of its own, a program that runs in it, and what became of that. */
/* modules: vm */
#include "jail_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "spawner_bed.h"
#include "vm/util.h"

static void on_started(struct child *c)
{
	((struct jail_bed_result *)c->data)->started = true;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct jail_bed_result *r = c->data;

	r->failed = err;
	snprintf(r->step, sizeof(r->step), "%s", step);
	r->over = true;
}

static void on_exited(struct child *c, int status)
{
	struct jail_bed_result *r = c->data;

	r->status = status;
	r->over = true;
}

struct jail_spec jail_bed_usual(void)
{
	return (struct jail_spec){
		.use = JAIL_SANDBOX,
		.flags = JAIL_LANDLOCK | JAIL_LOOPBACK,
		.user = 1000,
		.host_name = "cell",
		.nmounts = 11,
		.mounts = {{JAIL_RO, 0, "/usr", "/usr"},
			   {JAIL_LINK, 0, "usr/bin", "/bin"},
			   {JAIL_LINK, 0, "usr/sbin", "/sbin"},
			   {JAIL_LINK, 0, "usr/lib", "/lib"},
			   {JAIL_LINK, 0, "usr/lib64", "/lib64"},
			   {JAIL_FILE, 0, "root:x:0:0::/:/bin/sh\n", "/etc/passwd"},
			   {JAIL_RO, JAIL_OPTIONAL, "/etc/alternatives", "/etc/alternatives"},
			   {JAIL_DEV, 0, NULL, "/dev"},
			   {JAIL_PROC, 0, NULL, "/proc"},
			   {JAIL_TMPFS, 0, "mode=1777,size=1m,nr_inodes=32", "/tmp"},
			   {JAIL_DIR, 0, NULL, "/empty/dir"}},
		.nrlimits = 2,
		.rlimits = {{RLIMIT_CORE, 0, 1}, {RLIMIT_NOFILE, 0, 256}},
	};
}

void jail_bed_ask(struct jail_bed_result *r, const struct spawn_spec *spec)
{
	memset(r, 0, sizeof(*r));
	r->child.data = r;
	r->child.started = on_started;
	r->child.failed = on_failed;
	r->child.exited = on_exited;
	assert_int_equal(child_start(sp, spec, &r->child), 0);
}

void jail_bed_start(struct jail_bed_result *r, const struct jail_spec *jail, const char *program,
		    const char *script, int out)
{
	const char *const argv[] = {program, "-c", script, NULL};
	const char *const envp[] = {"PATH=/usr/bin:/bin:/usr/sbin:/sbin", NULL};
	const struct free_job job = {.argv = argv,
				     .envp = envp,
				     .target = {{0, STDOUT_FILENO}, {0, STDERR_FILENO}},
				     .ntargets = 2,
				     .jail = jail};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {request, (size_t)n, &out, 1};

	assert_true(n > 0);
	jail_bed_ask(r, &spec);
}

void jail_bed_finish(struct jail_bed_result *r, int in)
{
	ssize_t n;

	while (!r->over)
		uv_run(&loop, UV_RUN_ONCE);
	n = read(in, r->out, sizeof(r->out) - 1);
	r->out[n > 0 ? n : 0] = '\0';
	close(in);
}

void jail_bed_run_with(struct jail_bed_result *r, const struct jail_spec *jail, const char *program,
		       const char *script)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	jail_bed_start(r, jail, program, script, p[1]);
	close(p[1]);
	jail_bed_finish(r, p[0]);
}

void jail_bed_run(struct jail_bed_result *r, const struct jail_spec *jail, const char *script)
{
	jail_bed_run_with(r, jail, "/bin/sh", script);
}

bool jail_bed_works(void)
{
	const struct jail_spec spec = jail_bed_usual();
	struct jail_bed_result r;

	jail_bed_run(&r, &spec, "true");
	if (!r.failed)
		return true;
	print_message("no jail here: %s: %s\n", r.step, strerror(-r.failed));
	return false;
}

bool jail_bed_possible(void)
{
	void *state = NULL;
	bool works;

	spawner_bed_setup(&state);
	works = jail_bed_works();
	spawner_bed_teardown(&state);
	if (!works)
		puts("this host allows no user namespaces: no jail can be made");
	return works;
}
