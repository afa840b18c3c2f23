/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that install packages, and pack them into a file system. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "installer.h"

#include "vm/base/problem.h"
#include "vm/build/package_internal.h"
#include "internal.h"

/*
 * Theory of operation
 * -------------------
 * An installer reads what a stranger has written, archives above all, so it has a sandbox of the
 * process backend, whether or not users may have those. It sees the image's programs in the place
 * of the host's, one directory that it can write to, and of the network the registry's hosts. What
 * it leaves there is data: no code of a package has run.
 *
 * A file system is made of it in a second sandbox, with the host's programs and no network at all,
 * which only reads what the first has left.
 */

#define RUN_MS	900000u
#define ASK_MS	20000u
#define OUT_MAX (1u << 20)

/* The same bytes for the same files: no time and no name of this machine. */
static const char pack_script[] =
	"set -e\n"
	"command -v mkfs.erofs >/dev/null || { echo 'error: the program mkfs.erofs is not "
	"installed (erofs-utils)' >&2; exit 1; }\n"
	"echo Packing\n"
	"mkfs.erofs --quiet -x-1 --all-root -T1735689600 -U78736278-6673-4000-8000-7061636b6167 "
	"/packed/layer.erofs /layer/tree >/tmp/log 2>&1 || { s=$?; cat /tmp/log >&2; exit $s; }\n";

static unsigned timeout_ms(const struct package_job *job)
{
	return job->ask ? ASK_MS : RUN_MS;
}

static void on_state(void *data, enum sandbox_state state)
{
	struct installer *in = data;
	const char *script =
		in->jobs->current->step == PACKAGE_RUN ? in->jobs->script : pack_script;
	const struct sandbox_run run = {
		.id = 1,
		.code = script,
		.code_len = strlen(script),
		.timeout_ms = timeout_ms(in->jobs->current),
		.limit = {OUT_MAX, OUT_MAX},
	};
	int r;

	if (state != SANDBOX_READY || in->sent)
		return;
	r = sandbox_run(in->sandbox, &run);
	if (r == -EAGAIN || r == -EBUSY)
		return; /* READY is said once more */
	in->sent = true;
	if (r < 0) {
		problem_set(&in->jobs->why, PROBLEM_PACKAGES_FAILED, "",
			    "the installer was not started: %s", strerror(-r));
		sandbox_close(in->sandbox);
	}
}

static void on_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		      size_t len)
{
	(void)run;
	(void)stream;
	lines_add(&((struct installer *)data)->jobs->lines, bytes, len);
}

static void explain(struct installer *in, const struct vm_result *result)
{
	char quote[700];

	if (result->outcome == VM_TIMEOUT)
		problem_set(&in->jobs->why, PROBLEM_PACKAGES_FAILED,
			    "Try again, or name fewer packages.",
			    "the installer took more than %u seconds",
			    timeout_ms(in->jobs->current) / 1000);
	else if (result->outcome != VM_DONE)
		problem_set(&in->jobs->why, PROBLEM_PACKAGES_FAILED, "",
			    "the installer did not end well (%s) %s",
			    vm_outcome_str(result->outcome), result->problem.cause);
	else if (result->status == 128 + SIGXFSZ) /* as a shell says it; the jail has that limit */
		problem_set(&in->jobs->why, PROBLEM_PACKAGES_FAILED,
			    "Name fewer packages, or raise layer_limit.",
			    "the packages have a file that is larger than all layers may be");
	else
		problem_set(
			&in->jobs->why, PROBLEM_PACKAGES_FAILED,
			tail_contains(&in->jobs->lines.said, "no usable wheels")
				? "Name a version that has a wheel for this Python: packages are "
				  "not built from source here."
				: "Correct `packages` in the session's config, and run again.",
			"the packages can't be installed: %s",
			tail_quote(&in->jobs->lines.said, "error: ", quote, sizeof(quote)));
}

static void on_exit_of_run(void *data, uint32_t run, const struct vm_result *result)
{
	struct installer *in = data;

	(void)run;
	package_jobs_watch_stop(in->jobs);
	/* Why it was ended is known, if we have done that. */
	in->done = result->outcome == VM_DONE && result->status == 0 && !in->jobs->why.code;
	if (!in->done && !in->jobs->why.code)
		explain(in, result);
	sandbox_close(in->sandbox);
}

static void on_closed(void *data, const struct problem *problem)
{
	struct installer *in = data;

	package_jobs_watch_stop(in->jobs);
	in->sandbox = NULL;
	if (!in->done && problem && !in->jobs->why.code) {
		in->jobs->why = *problem;
		problem_wrap(&in->jobs->why, PROBLEM_PACKAGES_FAILED, problem->fix,
			     "the sandbox for the installer did not start: %.900s", problem->cause);
	}
	package_jobs_ran(in->jobs, in->done);
}

static const struct sandbox_events run_events = {
	.state = on_state,
	.output = on_output,
	.exit = on_exit_of_run,
	.closed = on_closed,
};

static int run(void *data)
{
	struct installer *in = data;
	const struct package_job *job = in->jobs->current;
	const bool run = job->step == PACKAGE_RUN;
	const struct sandbox_env env[] = {
		{"XSBX_LANGUAGE", job->need.language},
		{"XSBX_PACKAGES", job->need.packages},
		{"XSBX_INDEX", in->jobs->index},
		{"XSBX_MIRROR", in->jobs->cfg.offline ? PACKAGE_MIRROR : ""},
		{"XSBX_ASK", job->ask ? "1" : ""},
	};
	const struct sandbox_spec spec = {
		.name = "packages",
		.image = "none",
		.language = "raw",
		.backend = VM_PROCESS,
		.memory_mb = PACKAGE_MEMORY_MB,
		.cpus = PACKAGE_CPUS,
		.owner = geteuid(),
		.group = getegid(),
		.install = &in->view,
		.env = env,
		.nenv = run ? ARRAY_SIZE(env) : 0,
		.network = run && !in->jobs->cfg.offline,
		.trusted_names = true,
		.allow = in->jobs->hosts,
		.alone = true,
	};
	int r;

	in->sent = in->done = false;
	in->view = (struct vm_install){!run, job->key, job->need.host ? "" : job->need.image,
				       job->need.language};
	r = sandbox_new(in->vm, &spec, &run_events, in, &in->sandbox);
	if (r < 0)
		return r;
	in->sandbox->meter.free = !job->of_user;
	in->sandbox->meter.payer = job->user;
	package_jobs_watch_start(in->jobs);
	return r;
}

static void stop(void *data)
{
	struct installer *in = data;

	sandbox_close(in->sandbox);
}

static void let_go(void *data)
{
	struct installer *in = data;

	template_free_layers(&in->vm->pool);
}

const struct package_ops installer_ops = {.run = run, .stop = stop, .let_go = let_go};
