/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what the daemon can ask of the spawner: whatever it is, only what the configuration names is run. */
/* modules: vm */
/* libs: uv seccomp crypto jansson zstd */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "vm/policy/job.h"
#include "vm/order/order.h"
#include "vm/order/policy.h"
#include "vm/order/policy_internal.h"
#include "vm/spawn/server.h"
#include "vm/vm.h"

/* The first byte is the number of descriptors, the rest the order. */

#define CACHE  "/nonexistent/cache"
#define WORK   "/nonexistent/work"
#define SHOWN  "/nonexistent/shown"
#define MAX_MB 1024u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct policy *make(void)
{
	const struct vm_path path[] = {{SHOWN, "/shown", true}};
	const struct policy_view views[] = {{0}, {.path = path, .npaths = 1}, {.work = WORK}};
	const struct vm_config vm = {
		.cache_dir = CACHE,
		.runtime_dir = "/nonexistent/run",
		.qemu = "/bin/sh",
		.agent = "/bin/sh",
		.accel = "auto",
		.image_builder = "/bin/sh",
		.store = {"https://store/", NULL, "/bin/sh", true, true, 60},
		.packages = {.dir = "/nonexistent/packages"},
	};
	const struct policy_config cfg = {.vm = &vm,
					  .max_memory_mb = MAX_MB,
					  .max_cpus = 4,
					  .max_processes = 1000,
					  .others = true,
					  .view = views,
					  .nviews = 3};
	struct policy *p = NULL;

	setenv("LD_PRELOAD", "/evil.so", 1);
	if (policy_new(&cfg, &p) < 0)
		abort();
	return p;
}

static bool is_below(const char *path, const char *dir)
{
	const size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* What is shown for writing is of the configuration, or a layer that is being made. */
static void check_jail(const struct policy *p, const struct jail_spec *j)
{
	assert(j->nmounts <= JAIL_MOUNTS_MAX && j->nrlimits <= JAIL_RLIMITS_MAX);
	assert(j->use < JAIL_NUSES && j->memory <= (uint64_t)(MAX_MB + 1024) << 20 && j->pids);
	for (uint32_t i = 0; i < j->nmounts; i++) {
		const struct jail_mount *m = &j->mounts[i];

		assert(m->source && m->target && m->target[0] == '/');
		assert(!strstr(m->source, "/../") && !strstr(m->target, "/../"));
		assert(m->kind != JAIL_RW || strcmp(m->source, WORK) == 0 ||
		       strcmp(m->source, SHOWN) == 0 || is_below(m->source, CACHE "/layers"));
		assert(m->kind != JAIL_RW || (m->flags & JAIL_NO_LINKS));
	}
	(void)p;
}

static void check_job(const struct policy *p, const struct spawn_job *job, size_t nfds)
{
	const char *program = job->argv[0];

	assert(program && job->ntargets >= nfds && job->ntargets <= SPAWN_FDS_MAX);
	for (size_t i = 0; i < job->ntargets; i++)
		assert(job->target[i].from < nfds && job->target[i].to < JAIL_FDS_MAX);
	for (size_t i = 0; job->envp[i]; i++)
		assert(strncmp(job->envp[i], "LD_", 3) != 0);
	if (job->jail)
		check_jail(p, job->jail);
	else
		assert(strcmp(program, p->qemu) == 0 || strcmp(program, p->store) == 0 ||
		       strcmp(program, p->builder) == 0 || strcmp(program, p->prepare) == 0 ||
		       job->flags == SPAWN_KVM_PROBE);
	/* No name becomes an option: what begins with a dash is one of ours. */
	for (size_t i = 1; program == p->builder && job->argv[i]; i++)
		assert(job->argv[i][0] != '-' || strcmp(job->argv[i], "--unpack") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy *p;
	struct spawn_job job = {0};

	if (!p)
		p = make();
	if (size == 0)
		return 0;
	if (policy_job(p, data + 1, size - 1, data[0], &job) == 0)
		check_job(p, &job, data[0]);
	return 0;
}
