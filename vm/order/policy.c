/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner may start, according to the configuration. */
#include "policy.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "vm/base/path.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"
#include "policy_internal.h"
#include "vm/host/kvm.h"
#include "vm/base/spec.h"
#include "vm/base/arch.h"
#include "vm/jail/view.h"

/*
 * Theory of operation
 * -------------------
 * The daemon reads data from guests. An attacker who takes it over has its socket to the spawner,
 * which has all privileges of the user who mounted. So the spawner does not trust the daemon: it
 * was forked with this policy in its memory, before the daemon had read any data except the
 * administrator's, and no message changes it. An order (order.h) names one of the programs that
 * xsbxfs consists of, and contains the variable parts as a few bounded numbers and names. The file
 * to execute, its arguments, variables, descriptor numbers, and jail are determined here: programs
 * and host paths from the configuration, variables from the environment in which xsbxfs was
 * started.
 *
 * A compromised daemon can still start the permitted programs, as often as there is room, in jails
 * with the limits of a session, have the memory of those that are machines copied, and the key told
 * of what is kept, which it has had. It can pass its own descriptors to them:
 * a machine's disk, a list of changes.
 * If several users have sessions, and root has mounted, it can lie about the owner of a session,
 * which only the daemon learns from the kernel. So it can act as any user, but only within the
 * directories that templates open for writing, and as root only in those owned by root. It can have a
 * secret fetched, which goes into a pipe of its own making, and a command that an owner has written into
 * his file run.
 */

#define MEMORY_MAX_MB (1u << 20) /* the most that a session can ask for, see fs/config/key.c */
#define CPUS_MAX      64u
#define PROCESSES_MAX 16384u

/* One that is not there yet is looked for where it should be. */
static void find(const char *program, char ret_path[PATH_MAX])
{
	*ret_path = '\0';
	if (!program || !*program || strcmp(program, "none") == 0)
		return;
	if (view_find_program(program, ret_path) < 0)
		snprintf(ret_path, PATH_MAX, "%s", *program == '/' ? program : "");
}

/* The spawner has another working directory. */
static void settle(const char *path, char ret_path[PATH_MAX])
{
	if (!realpath(path, ret_path))
		snprintf(ret_path, PATH_MAX, "%s", path);
}

void policy_prepare(const char *cache_dir, bool publish)
{
	static const struct {
		const char *name;
		mode_t mode;
	} own[] = {{"snapshots", 0700}, {"layers", 0755}};
	char path[PATH_MAX + 16];

	/* What can't be made is missed, and said, where it is needed. */
	(void)path_make(cache_dir, 0700);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		snprintf(path, sizeof(path), "%s/%s", cache_dir, own[i].name);
		if (mkdir(path, own[i].mode) == 0 && publish)
			(void)chmod(path, 0755); /* whatever the umask is */
	}
}

/* Images may lie on another disk, with links to them in the cache. */
static void note_places(struct policy *p, bool *bad)
{
	char path[PATH_MAX + 300], real[PATH_MAX];
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates", p->cache);
	dir = opendir(path);
	while (dir && p->nplaces < POLICY_PLACES_MAX && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates/%s", p->cache,
			 e->d_name);
		if (e->d_name[0] == '.' || !realpath(path, real) || path_is_below(real, p->images))
			continue;
		p->place[p->nplaces++] = copy_text(real, bad);
	}
}

/* ---- views ---- */

static void note_writable(struct sealed_view *v, const char *source)
{
	struct stat st;
	const bool there = stat(source, &st) == 0;

	v->writes = true;
	v->roots = v->roots && there && st.st_uid == 0;
	v->roots_groups = v->roots_groups && there && st.st_gid == 0;
}

static bool is_empty(const struct policy_view *v)
{
	return !v->npaths && !v->work;
}

static void seal_view(struct sealed_view *to, const struct policy_view *from, bool *bad)
{
	to->roots = to->roots_groups = true;
	to->work = copy_text(from->work, bad);
	for (size_t i = 0; i < from->npaths && i < VM_PATHS_MAX; i++) {
		to->path[to->npaths++] =
			(struct vm_path){copy_text(from->path[i].source, bad),
					 copy_text(from->path[i].target, bad), from->path[i].write};
		if (from->path[i].write)
			note_writable(to, from->path[i].source);
	}
	if (from->work)
		note_writable(to, from->work);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool shows(const struct sealed_view *s, const struct sandbox_spec *spec)
{
	if (s->npaths != spec->npaths || !same(s->work, spec->work))
		return false;
	for (size_t i = 0; i < s->npaths; i++) {
		const struct vm_path *a = &s->path[i], *b = &spec->paths[i];

		if (strcmp(a->source, b->source) != 0 || strcmp(a->target, b->target) != 0 ||
		    a->write != b->write)
			return false;
	}
	return true;
}

int policy_find_view(const struct policy *p, const struct sandbox_spec *spec)
{
	if (!spec || (!spec->npaths && !spec->work))
		return ORDER_VIEW_NONE;
	for (size_t i = 0; i < p->nviews; i++) {
		if (shows(&p->view[i], spec))
			return (int)(ORDER_VIEW_FIRST + i);
	}
	return -ENOENT;
}

/* ---- */

static unsigned least(unsigned limit, unsigned most)
{
	return limit ? MIN(limit, most) : most;
}

static void seal_vm(struct policy *p, const struct vm_config *vm, bool *bad)
{
	const struct vm_packages *packages = &vm->packages;
	char path[PATH_MAX];

	settle(vm->cache_dir, p->cache);
	snprintf(path, sizeof(path), "%.*s/" ARCH_IMAGES, PATH_MAX - 16, p->cache);
	settle(path, p->images);
	snprintf(path, sizeof(path), "%.*s/layers", PATH_MAX - 8, p->cache);
	settle(path, p->layers);
	settle(vm->runtime_dir, p->runtime);
	find(vm->qemu, p->qemu);
	find(vm->agent, p->agent);
	find(vm->image_builder, p->builder);
	find(vm->store.program, p->store);
	find(vm->trace.program, p->trace);
	if (packages->dir && snprintf(path, sizeof(path), "%s/prepare", packages->dir) < PATH_MAX)
		find(path, p->prepare);
	p->shared = copy_text(vm->shared_dir, bad);
	p->ca = copy_text(vm->ca_path, bad);
	p->key_command = copy_text(vm->key_command, bad);
	p->layer_bytes = packages->layer_bytes;
	if (packages->offline && realpath(packages->offline, path))
		p->offline = copy_text(path, bad);
	else
		p->offline = copy_text(packages->offline, bad);
	p->store_url = copy_text(vm->store.url, bad);
	p->trace_url = copy_text(vm->trace.url, bad);
	p->upstream = copy_text(vm->upstream, bad);
	p->store_region = copy_text(vm->store.region, bad);
	p->store_timeout_s = vm->store.timeout_s;
	p->store_read = vm->store.read;
	p->store_write = vm->store.write;
	p->python_index = copy_text(packages->python_index, bad);
	p->python_hosts = copy_text(packages->python_hosts, bad);
	p->npm_registry = copy_text(packages->npm_registry, bad);
	p->npm_hosts = copy_text(packages->npm_hosts, bad);
	note_places(p, bad);
}

int policy_new(const struct policy_config *cfg, struct policy **ret_policy)
{
	struct policy *p = calloc(1, sizeof(*p));
	enum accel_wish wish = ACCEL_AUTO;
	bool bad = false;

	if (!p)
		return -ENOMEM;
	(void)accel_wish_parse(cfg->vm->accel, &wish);
	p->others = cfg->others;
	p->mitigate = cfg->vm->mitigate;
	p->most = (struct order_limits){
		.memory_mb = least(cfg->max_memory_mb, MEMORY_MAX_MB),
		.cpus = least(cfg->max_cpus, CPUS_MAX),
		.processes = least(cfg->max_processes, PROCESSES_MAX),
		.kvm = wish != ACCEL_TCG,
#ifdef XSBX_LOCAL_BACKEND
		.local = true,
#endif
	};
	seal_vm(p, cfg->vm, &bad);
	if (cfg->state_dir)
		settle(cfg->state_dir, p->state);
	if (cfg->spool_dir)
		settle(cfg->spool_dir, p->spool);
	policy_seal_secrets(p, &cfg->vm->secrets, &bad);
	p->view = calloc(cfg->nviews + 1, sizeof(*p->view));
	/* What shows nothing has no number: there may be more of these by the next daemon, or fewer, as images come and go. */
	for (size_t i = 0; p->view && i < cfg->nviews; i++) {
		if (!is_empty(&cfg->view[i]))
			seal_view(&p->view[p->nviews++], &cfg->view[i], &bad);
	}
	p->most.nviews = (uint32_t)p->nviews;
	if (bad || !p->view) {
		policy_free(p);
		return -ENOMEM;
	}
	*ret_policy = p;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;

	char *const strings[] = {p->key_command,  p->ca,	   p->offline,	    p->store_url,
				 p->store_region, p->python_index, p->python_hosts, p->npm_registry,
				 p->npm_hosts,	  p->shared,	   p->trace_url,    p->upstream};

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free(strings[i]);
	for (size_t i = 0; i < p->nplaces; i++)
		free(p->place[i]);
	for (size_t i = 0; i < p->nviews; i++) {
		struct sealed_view *v = &p->view[i];

		for (size_t k = 0; k < v->npaths; k++) {
			free((char *)v->path[k].source);
			free((char *)v->path[k].target);
		}
		free(v->work);
	}
	free(p->view);
	policy_free_secrets(p);
	free(p);
}

/* Nobody but root can have put it there, so it need not be in a directory for images. */
static int shared_tree(const struct policy *p, const char *image, char ret_path[PATH_MAX])
{
	char path[PATH_MAX];

	/* With the name taken, the shared one is another image. */
	if (!p->shared ||
	    snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates/%s", p->cache, image) >=
		    (int)sizeof(path) ||
	    access(path, F_OK) == 0 ||
	    snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates/%s/tree", p->shared,
		     image) >= (int)sizeof(path))
		return -ENOENT;
	return trusted_dir(path, ret_path);
}

void policy_layer(const struct policy *p, const char *key, char ret_path[PATH_MAX])
{
	char own[PATH_MAX + 100], path[PATH_MAX];
	bool there;

	snprintf(own, sizeof(own), "%s/%s/tree", p->layers, key);
	there = access(own, F_OK) == 0;
	if (!there && p->shared &&
	    snprintf(path, sizeof(path), "%s/layers/%s/tree", p->shared, key) < (int)sizeof(path) &&
	    trusted_dir(path, ret_path) == 0)
		return;
	/* One that is not there is missed, and said, where it is mounted. */
	snprintf(ret_path, PATH_MAX, "%.*s", PATH_MAX - 1, own);
}

int policy_tree(const struct policy *p, const char *image, char ret_path[PATH_MAX])
{
	char path[PATH_MAX + 200];

	snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates/%s/tree", p->cache, image);
	if (!realpath(path, ret_path))
		return shared_tree(p, image, ret_path);
	if (path_is_below(ret_path, p->images))
		return 0;
	for (size_t i = 0; i < p->nplaces; i++) {
		if (path_is_below(ret_path, p->place[i]))
			return 0;
	}
	return -EPERM;
}
