/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what this host offers and lacks, and what is really enforced: `doctor`, --check, `isolation`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "confine.h"
#include "vm/base/arch.h"
#include "vm/base/secret_file.h"
#include "vm/base/trusted.h"
#include "vm/host/host.h"
#include "vm/image/image.h"
#include "vm/jail/cgroup.h"
#include "vm/image/layer.h"
#include "vm/net/filter/secret_value.h"
#include "vm/net/jail_spec.h"
#include "vm/sandbox/network.h"
#include "vm/backend/probe.h"
#include "host_check.h"
#include "vm/sandbox/internal.h"

#define MEMORY_LOW_MB 512
#define NOFILE_LOW    1024
#define TEXT	      512
#define TRIALS	      3u
#define SHARED_FIX                                                                                \
	"Everything in it, and each directory that leads there, must be root's, and writable by " \
	"nobody else: xsbxfs-images --shared, as root. Until then each user has his own."

/* Files of layers that are counted while the loop waits: some milliseconds. */
#define FILES_IN_A_HURRY 4000

struct doctor {
	vm_check_fn fn;
	void *data;
	enum vm_level lack; /* how bad it is that there can be no machines */
};

static void printf_like(5, 6) finding(const struct doctor *d, const char *name, enum vm_level level,
				      const char *fix, const char *fmt, ...)
{
	char text[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->fn(d->data, name, level, text, fix);
}

static void check_qemu(const struct doctor *d, const struct probe *p)
{
	if (!p->done && p->tries)
		finding(d, "qemu", VM_WARN, p->problem.fix, "still being asked; so far: %s",
			p->problem.cause);
	else if (!p->done)
		finding(d, "qemu", VM_WARN, "Look again in two seconds.", "still being asked");
	else if (p->fatal && p->problem.code != PROBLEM_KVM_UNUSABLE)
		finding(d, "qemu", d->lack, p->problem.fix, "%s", p->problem.cause);
	else
		finding(d, "qemu", VM_OK, "", "version %s", p->qemu);
}

static void check_accel(const struct doctor *d, const struct probe *p)
{
	if (!p->done)
		finding(d, "kvm", VM_WARN, "Look again in two seconds.", "still being tried out");
	else if (p->fatal && p->problem.code == PROBLEM_KVM_UNUSABLE)
		finding(d, "kvm", d->lack, p->problem.fix, "%s", p->problem.cause);
	else if (strcmp(p->accel, "kvm") == 0)
		finding(d, "kvm", VM_OK, "", "%s", probe_why(p));
	else
		finding(d, "kvm", VM_WARN,
			host_check_kvm_fix("", (enum kvm_state)p->kvm.state, geteuid() == 0),
			"%s%s", probe_why(p), p->unclear ? " It is tried again by itself." : "");
}

static void check_image(const struct doctor *d, struct images *images, const char *name)
{
	char check[NAME_MAX + 8], path[PATH_MAX];
	const char *why;
	bool shared;

	snprintf(check, sizeof(check), "image %s", name);
	if (images_manifest(images, name, &why) &&
	    images_where(images, name, path, &shared, &why) == 0)
		finding(d, check, VM_OK, "", "complete, %s: %.400s", shared ? "shared" : "your own",
			path);
	else
		finding(d, check, d->lack, "Build the images: " IMAGES_COMMAND, "%s", why);
}

static void check_kernel(const struct doctor *d, struct images *images)
{
	char text[TEXT];
	const char *why;

	if (images_kernel(images, text, sizeof(text), &why) < 0)
		finding(d, "kernel", d->lack, "Build the images: " IMAGES_COMMAND, "%s", why);
	else
		finding(d, "kernel", VM_OK, "", "%s", text);
}

/* Those of a directory; not those that @but has as well. Return: how many. */
static unsigned check_images_in(const struct doctor *d, struct images *images, const char *top,
				const char *but)
{
	_cleanup_dir_ DIR *dir = NULL;
	char path[PATH_MAX];
	struct dirent *e;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates", top);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || images_is_kernel(e->d_name))
			continue;
		if (but &&
		    snprintf(path, sizeof(path), "%s/" ARCH_IMAGES "/templates/%s", but,
			     e->d_name) < (int)sizeof(path) &&
		    access(path, F_OK) == 0)
			continue;
		check_image(d, images, e->d_name);
		n++;
	}
	return n;
}

static void check_images(const struct doctor *d, struct images *images, const char *cache_dir,
			 const char *shared_dir)
{
	unsigned n = check_images_in(d, images, cache_dir, NULL);

	if (shared_dir)
		n += check_images_in(d, images, shared_dir, cache_dir);
	if (!n)
		finding(d, "images", d->lack, "Build the images: " IMAGES_COMMAND,
			"there are none in %.300s/" ARCH_IMAGES "/templates", cache_dir);
}

/* What root has made for all users of this host. */
static void check_shared(const struct doctor *d, const struct vm_config *cfg)
{
	char why[TRUSTED_WHY];
	int fd;

	if (cfg->publish) {
		finding(d, "shared directory", VM_OK, "", "%.300s, filled by this one",
			cfg->cache_dir);
		return;
	}
	if (!cfg->shared_dir) {
		finding(d, "shared directory", VM_OK, "", "none, as shared_dir says");
		return;
	}
	fd = trusted_open(cfg->shared_dir, O_RDONLY | O_DIRECTORY, why);
	if (fd >= 0)
		close(fd);
	if (fd == -ENOENT)
		finding(d, "shared directory", VM_OK, "", "none at %.300s", cfg->shared_dir);
	else if (fd < 0)
		finding(d, "shared directory", VM_WARN, SHARED_FIX, "not used: %s", why);
	else
		finding(d, "shared directory", VM_OK, "", "%.300s", cfg->shared_dir);
}

static void tell(const struct doctor *d, const char *name, const struct host_check *s)
{
	finding(d, name, s->level, s->fix, "%s", s->found);
}

/* Makes namespaces as a jail has them. Return: 0 or -errno; a trial that was killed says nothing, and is made
 * again a few times. */
static int try_namespaces(void)
{
	for (unsigned i = 0; i < TRIALS; i++) {
		const pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
				      CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) < 0
				      ? errno
				      : 0);
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			return -errno;
		if (WIFEXITED(status))
			return -WEXITSTATUS(status);
	}
	return -EINTR;
}

static void check_jails(const struct doctor *d, bool may_try)
{
	const bool privileged = geteuid() == 0;
	struct host_check_group groups[JAIL_NLIMITS];
	struct host_check s;
	int r;

	host_check_userns("", privileged, &s);
	r = may_try && s.level == VM_OK ? try_namespaces() : 0;
	if (r < 0)
		finding(d, "user namespaces", VM_FAIL,
			"In a container, its engine forbids it: give it a seccomp profile that "
			"lets clone3 and unshare pass, and no AppArmor profile that forbids "
			"mounts. In a chroot, the kernel does: enter it with pivot_root.",
			"namespaces can't be made: %s", strerror(-r));
	else
		tell(d, "user namespaces", &s);
	host_check_ids(privileged, jail_has_private_ids(), &s);
	tell(d, "ids", &s);
	host_check_seccomp("", &s);
	tell(d, "seccomp", &s);
	host_check_landlock(confine_landlock(), &s);
	tell(d, "landlock", &s);
	for (enum jail_control c = 0; c < JAIL_NLIMITS; c++) {
		groups[c] = (struct host_check_group){.name = jail_control_str(c)};
		groups[c].error = jail_cgroup_look(c, &groups[c].version);
	}
	host_check_groups(groups, JAIL_NLIMITS, privileged, &s);
	tell(d, "control groups", &s);
}

static void check_pressure(const struct doctor *d, unsigned pressure)
{
	if (pressure == HOST_PRESSURE_UNKNOWN)
		finding(d, "memory pressure", VM_WARN,
			"Boot with psi=1, or take a kernel with CONFIG_PSI: until then only the "
			"memory that is available decides who is let in.",
			"the kernel does not tell (no /proc/pressure/memory)");
	else
		finding(d, "memory pressure", pressure >= 1000 ? VM_WARN : VM_OK,
			pressure >= 1000 ? "Free some memory: until then no sandbox starts." : "",
			"%u.%02u %% of the last ten seconds", pressure / 100, pressure % 100);
}

static void check_memory(const struct doctor *d)
{
	struct host_reading r;
	struct host h;
	unsigned cpus;

	if (host_open(&h, "") < 0)
		return;
	host_read(&h, &r);
	cpus = host_cpus(&h);
	host_close(&h);
	finding(d, "memory", r.available_mb < MEMORY_LOW_MB ? VM_WARN : VM_OK,
		r.available_mb < MEMORY_LOW_MB ? "Free some memory, or lower memory_mb and max_vms."
					       : "",
		"%llu of %llu MiB are available%s, %u.%02u CPUs",
		(unsigned long long)r.available_mb, (unsigned long long)r.total_mb,
		r.limited_groups ? " (limit of a control group)" : "", cpus / 100, cpus % 100);
	check_pressure(d, r.pressure);
}

static void check_limits(const struct doctor *d)
{
	struct rlimit files = {0};

	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur < NOFILE_LOW)
		finding(d, "limits", VM_WARN, "Raise it: ulimit -n 4096",
			"only %llu files may be open", (unsigned long long)files.rlim_cur);
	else
		finding(d, "limits", VM_OK, "", "%llu open files",
			(unsigned long long)files.rlim_cur);
}

/* Only what is known: the store itself is not asked for this. */
static void check_store(const struct doctor *d, const struct vm *vm, const struct vm_config *cfg)
{
	struct vm_store_status st = {0};

	if (!cfg->store.url || !*cfg->store.url)
		return;
	if (vm)
		vm_store_status(vm, &st);
	if (access(cfg->store.program, X_OK) < 0)
		finding(d, "store", VM_WARN, "Install it, or name it as program in [store].",
			"%s: %s", cfg->store.program, strerror(errno));
	else if (st.problem[0])
		finding(d, "store", VM_WARN,
			"Look at its address, the credentials in the environment, the network. "
			"Everything works without it.",
			"%s", st.problem);
	else
		finding(d, "store", VM_OK, "", "%s: %s%s%s", cfg->store.url,
			cfg->store.read ? "read" : "",
			cfg->store.read && cfg->store.write ? ", " : "",
			cfg->store.write ? "written" : "");
}

/* What sandboxes with a network need beside all else. */
static void check_network(const struct doctor *d, const char *agent)
{
	char path[PATH_MAX];
	struct host_check s;

	host_check_network("",
			   net_jail_find(agent, NET_PROGRAM_NET, path) == 0 &&
				   net_jail_find(agent, NET_PROGRAM_DIAL, path) == 0,
			   &s);
	tell(d, "network", &s);
}

/* Packages, and the layers they are kept in. */
static void check_packages(const struct doctor *d, const struct vm_config *cfg,
			   struct images *images, const char *cache_dir, bool in_a_hurry)
{
	char path[PATH_MAX];
	struct host_check_layers l = {.dir = path, .limit = cfg->packages.layer_bytes};
	struct host_check s;
	const char *why;
	const bool image[HOST_CHECK_NREGISTRIES] = {
		[HOST_CHECK_PYTHON] = images && images_manifest(images, "python", &why),
		[HOST_CHECK_NPM] = images && images_manifest(images, "javascript", &why),
	};

	host_check_packages(&cfg->packages, getenv("PATH"), image, &s);
	tell(d, "packages", &s);
	snprintf(path, sizeof(path), "%s/layers", cache_dir);
	/* It is made when it is first needed, and so is what it is in. */
	if (access(path, F_OK) < 0 && errno == ENOENT)
		l.error = access(cache_dir, W_OK | X_OK) < 0 && errno != ENOENT ? -errno : 0;
	else
		l.error = access(path, W_OK | X_OK) < 0 ? -errno : 0;
	l.more = !layer_usage(path, in_a_hurry ? FILES_IN_A_HURRY : 0, &l.n, &l.bytes);
	host_check_layers(&l, &s);
	tell(d, "package layers", &s);
}

static bool file_lacks(const char *path, char ret_why[static SECRET_FILE_WHY])
{
	_cleanup_close_ int fd = secret_file_open(path, getuid(), true, ret_why);
	char first[SECRET_VALUE_MIN];
	ssize_t n, i = 0;

	if (fd < 0)
		return true;
	n = read(fd, first, sizeof(first));
	while (i < n && (unsigned char)first[i] >= ' ' && first[i] != 0x7f)
		i++;
	explicit_bzero(first, sizeof(first));
	if (n < 0)
		snprintf(ret_why, SECRET_FILE_WHY, "%.900s: %s", path, strerror(errno));
	else if (n == 0)
		snprintf(ret_why, SECRET_FILE_WHY, "%s is empty", path);
	else
		snprintf(ret_why, SECRET_FILE_WHY,
			 "%.900s: its first line is no value: that has %d characters or more", path,
			 SECRET_VALUE_MIN);
	return i < SECRET_VALUE_MIN;
}

/* The first word of it is run, without a shell. */
static bool command_lacks(const char *line, char ret_why[static SECRET_FILE_WHY])
{
	_cleanup_free_ char *path = strndup(line, strcspn(line, " \t"));
	struct stat st;
	int err = path ? 0 : ENOMEM;

	if (path && (stat(path, &st) < 0 || access(path, X_OK) < 0))
		err = errno;
	else if (path && !S_ISREG(st.st_mode))
		err = EACCES;
	snprintf(ret_why, SECRET_FILE_WHY, "%.900s: %s", path ? path : line, strerror(err));
	return err != 0;
}

/* What is in the way of a secret's value here and now. Return: is anything? */
static bool lacks(const struct vm_secret *s, char ret_why[static SECRET_FILE_WHY])
{
	const char *value;

	switch (s->from) {
	case VM_SECRET_FILE: return file_lacks(s->argument, ret_why);
	case VM_SECRET_ENV:
		value = getenv(s->argument);
		snprintf(ret_why, SECRET_FILE_WHY, "the variable %s is not set here, or empty",
			 s->argument);
		return !value || !*value;
	case VM_SECRET_COMMAND: return command_lacks(s->argument, ret_why);
	case VM_SECRET_NOWHERE: break;
	}
	snprintf(ret_why, SECRET_FILE_WHY, "it comes from nowhere");
	return true;
}

/* A daemon can't look: neither files nor commands of others are in its reach. */
static void check_secrets(const struct doctor *d, const struct vm_config *cfg, bool may_look)
{
	static const char *const from[] = {[VM_SECRET_FILE] = "file",
					   [VM_SECRET_ENV] = "env",
					   [VM_SECRET_COMMAND] = "command"};

	for (size_t i = 0; i < cfg->secrets.n; i++) {
		const struct vm_secret *s = &cfg->secrets.secret[i];
		char name[64], why[SECRET_FILE_WHY];

		snprintf(name, sizeof(name), "secret %s", s->name);
		if (may_look && lacks(s, why))
			finding(d, name, VM_WARN,
				"Until then what it is to go with is refused, and `error` of these "
				"sessions says so",
				"%.400s", why);
		else
			finding(d, name, VM_OK, "", "from %s, for %.300s%s", from[s->from],
				s->hosts,
				may_look ? ""
					 : "; whether it is there says xsbxfs --check, and `error` "
					   "of who needs it");
	}
}

void vm_doctor(struct vm *vm, const struct vm_config *cfg, vm_check_fn fn, void *data)
{
	const struct doctor d = {fn, data, cfg->no_machines ? VM_WARN : VM_FAIL};
	struct images *images =
		vm ? vm->backends.images
		   : images_new(cfg->cache_dir, cfg->shared_dir, cfg->agent, cfg->kernel);
	struct probe *now = vm ? NULL : calloc(1, sizeof(*now));
	const struct probe *p = vm ? &vm->backends.probe : now;

	if (now)
		probe_sync(now, cfg->qemu, cfg->accel);
	if (vm && !vm->backends.machine->needs_image) {
		finding(&d, "backend", VM_WARN, "", "plain processes, for tests only");
	} else if (p && images) {
		check_qemu(&d, p);
		check_accel(&d, p);
		check_kernel(&d, images);
		check_images(&d, images, vm ? vm->ctx.cache_dir : cfg->cache_dir, cfg->shared_dir);
		check_shared(&d, cfg);
	}
	check_jails(&d, !vm);
	check_network(&d, cfg->agent);
	check_packages(&d, cfg, images, vm ? vm->ctx.cache_dir : cfg->cache_dir, vm != NULL);
	check_memory(&d);
	check_limits(&d);
	check_store(&d, vm, cfg);
	check_secrets(&d, cfg, !vm);
	free(now);
	if (!vm)
		images_free(images);
}

/* What the last sandbox of the process backend had. */
static void tell_process(const struct vm *vm,
			 void (*line)(void *data, const char *key, const char *value), void *data)
{
	if (!vm->backends.jail_seen[VM_PROCESS])
		return;
	line(data, "process", "a jail on the host's own kernel; as seen at the last start:");
	jail_report_tell(&vm->backends.jail[VM_PROCESS], "process.", line, data);
	line(data, "process.view",
	     "the host's /usr, or its image's where `view = image`, read-only, and what its "
	     "template shows; /home/user and /tmp in memory, with quotas");
	line(data, "process.user",
	     "code runs as uid 1000 inside, without capabilities, under Landlock if there is any; "
	     "it can install no filters of system calls itself");
}

/* Only what is so. What is planned is not listed. */
void vm_isolation(struct vm *vm, void (*line)(void *data, const char *key, const char *value),
		  void *data)
{
	char text[TEXT];

	tell_process(vm, line, data);
	network_tell_all(vm, line, data);
	if (!vm->backends.machine->needs_image) {
		line(data, "local", "none: plain processes of this host, for tests only");
		return;
	}
	snprintf(text, sizeof(text), "a virtual machine of its own per session (QEMU%s%s, %s)",
		 *vm->backends.probe.qemu ? " " : "", vm->backends.probe.qemu,
		 vm->backends.probe.accel);
	line(data, "microvm", text);
	line(data, "microvm.kernel", "its own Linux kernel; nothing is shared with the host's");
	line(data, "microvm.devices",
	     "serial console, one read-only disk, a second one where it has packages, one byte "
	     "stream to the agent, and a network card where the session has a network or ports; "
	     "nothing else");
	line(data, "microvm.network",
	     "none, but with `network` or `ports`: then a card that leads to its filter alone");
	line(data, "microvm.disk", "read-only root; /home/user and /tmp in memory, with quotas");
	line(data, "microvm.user", "code runs as uid 1000 without capabilities or new privileges");
	line(data, "qemu.sandbox",
	     "its own filter on top: no new programs, no changes of identity, no obsolete calls");
	line(data, "qemu.privileges", "dies with its parent; no core dumps");
	line(data, "qemu.descriptors",
	     "only its own: kernel, initrd and disks read-only, its memory and state, console, "
	     "agent, control, card");
	line(data, "qemu",
	     vm->backends.jail_seen[VM_MICROVM]
		     ? "in a cell, without which it is not started; as seen at the last start:"
		     : "in a cell, without which it is not started; none was started yet");
	if (vm->backends.jail_seen[VM_MICROVM])
		jail_report_tell(&vm->backends.jail[VM_MICROVM], "qemu.", line, data);
	line(data, "qemu.view",
	     "its program, the host's libraries and firmware, read-only; its own /proc, the few "
	     "usual devices; 64 MiB of /dev/shm, in which Landlock, if there is any, lets it "
	     "make nothing");
}
