/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration permits the spawner to start. */
#include "permit.h"

#include <errno.h>
#include <string.h>

#include "vm/spawn/policy.h"
#include "fs/config/daemon.h"
#include "fs/tree/report.h"

int permit(const struct conf *conf, const char *runtime_dir, const char *ca_path,
	   struct policy **ret_policy)
{
	const size_t n = conf->ntemplates;
	_cleanup_free_ struct policy_view *views = calloc(n + 1, sizeof(*views));
	struct vm_config vm = report_vm_config(conf);
	const struct policy_config cfg = {
		.vm = &vm,
		.max_memory_mb = conf->limits.max_memory_mb,
		.max_cpus = conf->limits.max_cpus,
		.max_processes = conf->limits.max_processes,
		.others = conf->allow_other,
		.view = views,
		.nviews = n,
	};
	int r = views ? 0 : -ENOMEM;

	vm.runtime_dir = runtime_dir;
	vm.ca_path = ca_path;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;

		views[i] = (struct policy_view){
			.path = spec->paths,
			.npaths = spec->npaths,
			.work = spec->work,
			.image = spec->image_view ? spec->image : NULL,
		};
	}
	policy_prepare(vm.cache_dir);
	if (r == 0)
		r = policy_new(&cfg, ret_policy);
	return r;
}
