/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the spawner starts without a jail around them: their arguments and their environment. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vm/base/path.h"
#include "internal.h"
#include "vm/spawn/wire.h"
#include "vm/store/kind.h"
#include "vm/base/util.h"
#include "vm/jail/view.h"

/*
 * They are the user's own scripts, which install programs and talk to his registries, and xsbxfs-store,
 * which confines itself. Of the environment in which xsbxfs was started they get what is listed here.
 * Not among it is anything that would have another program run, or another library loaded.
 */

#define STALL_S "5"

/* What installs packages: a program of the host's, or that file of the image which has the same name as the
 * language. */
static const struct {
	const char *name, *tool, *file;
} languages[] = {
	[ORDER_PYTHON] = {"python", "uv", "/usr/local/bin/uv"},
	[ORDER_JAVASCRIPT] = {"javascript", "bun",
			      "/usr/local/lib/node_modules/@oven/bun-linux-x64-baseline/bin/bun"},
};
static_assert(ARRAY_SIZE(languages) == ORDER_NLANGUAGES, "each language");

/* Passes on variables of our own environment. */
static void pass(struct spawn_job *job, const char *const names[], size_t n)
{
	for (char **e = environ; *e; e++) {
		for (size_t i = 0; i < n; i++) {
			const size_t len = strlen(names[i]);

			if (strncmp(*e, names[i], len) == 0 && (*e)[len] == '=')
				policy_env(job, *e);
		}
	}
}

static void pass_one(struct spawn_job *job, const char *name, const char *value)
{
	if (value)
		policy_env(job, policy_text(job, "%s=%s", name, value));
}

static void add_number(struct spawn_job *job, const char *option, uint64_t value)
{
	policy_arg(job, option);
	policy_arg(job, policy_text(job, "%" PRIu64, value));
}

int policy_store(const struct policy *p, const struct order_store *o, struct spawn_job *job)
{
	static const char *const names[] = {
		"AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN",  "AWS_REGION",
		"AWS_DEFAULT_REGION", STORE_SECRET,
		"SSL_CERT_FILE",      "https_proxy",
		"HTTPS_PROXY",	      "http_proxy",
		"no_proxy",	      "NO_PROXY",
	};
	static const enum store_kind kinds[] = {
		[ORDER_SNAPSHOT] = STORE_SNAPSHOT, [ORDER_LAYER] = STORE_LAYER};
	const enum store_kind kind = kinds[o->kind];

	if (!p->store_url || !(o->get ? p->store_read : p->store_write))
		return -EPERM;
	if (!p->store[0])
		return -ENOENT;
	policy_arg(job, p->store);
	policy_arg(job, "--url");
	policy_arg(job, p->store_url);
	add_number(job, "--timeout", p->store_timeout_s);
	policy_arg(job, "--stall");
	policy_arg(job, STALL_S);
	add_number(job, "--limit", o->limit);
	add_number(job, "--tsc", o->tsc_khz);
	if (p->store_region) {
		policy_arg(job, "--region");
		policy_arg(job, p->store_region);
	}
	if (o->anew)
		policy_arg(job, "--anew");
	policy_arg(job, o->get ? "get" : "put");
	policy_arg(job, store_kind_str(kind));
	policy_arg(job, policy_text(job, "%s", o->key));
	policy_arg(job, policy_text(job, "%s/%s", p->cache, store_kind_dir(kind)));
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_NICE | SPAWN_OOM_FIRST;
	return 0;
}

int policy_image(const struct policy *p, const struct order_image *o, struct spawn_job *job)
{
	static const char *const names[] = {
		"HOME",	       "PATH",	       "TMPDIR",	"USER",
		"LOGNAME",     "http_proxy",   "HTTP_PROXY",	"https_proxy",
		"HTTPS_PROXY", "no_proxy",     "NO_PROXY",	"SSL_CERT_FILE",
		"APT_CONFIG",  "XSBXFS_SUITE", "XSBXFS_MIRROR", "XSBXFS_SECURITY_MIRROR",
	};

	if (!p->builder[0])
		return -ENOENT;
	policy_arg(job, p->builder);
	if (o->unpack)
		policy_arg(job, "--unpack");
	policy_arg(job, policy_text(job, "%s", o->image));
	pass_one(job, "XSBXFS_CACHE", p->cache);
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_NICE | SPAWN_OOM_FIRST | SPAWN_TOOL;
	return 0;
}

int policy_find_tool(const struct policy *p, uint32_t language, char ret_path[PATH_MAX])
{
	char tree[PATH_MAX], path[PATH_MAX + 100];
	int r;

	if (view_find_program(languages[language].tool, ret_path) == 0)
		return 0;
	r = policy_tree(p, languages[language].name, tree);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s%s", tree, languages[language].file);
	if (!realpath(path, ret_path))
		return -ENOENT;
	/* A link of the image's would lead to something of the host. */
	return path_is_below(ret_path, tree) ? 0 : -EPERM;
}

int policy_packages(const struct policy *p, const struct order_packages *o, struct spawn_job *job)
{
	static const char *const names[] = {"HOME", "PATH", "USER", "LOGNAME", "PIP_INDEX_URL"};

	if (!p->prepare[0])
		return -ENOENT;
	policy_arg(job, p->prepare);
	policy_arg(job, languages[o->language].name);
	policy_arg(job, o->image[0] ? "image" : "host");
	if (o->image[0]) {
		policy_arg(job, policy_text(job, "%s", o->image));
	} else {
		policy_arg(job, languages[o->language].tool);
		policy_arg(job, languages[o->language].file);
	}
	pass_one(job, "XSBXFS_CACHE", p->cache);
	pass_one(job, "XSBXFS_PYTHON_INDEX", p->python_index);
	pass_one(job, "XSBXFS_PYTHON_HOSTS", p->python_hosts);
	pass_one(job, "XSBXFS_NPM_REGISTRY", p->npm_registry);
	pass_one(job, "XSBXFS_NPM_HOSTS", p->npm_hosts);
	pass_one(job, "XSBXFS_OFFLINE", p->offline);
	pass(job, names, ARRAY_SIZE(names));
	job->flags = SPAWN_OOM_FIRST | SPAWN_TOOL;
	return 0;
}
