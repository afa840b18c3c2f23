/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: defaults, files, command line, and derived values. */
#include "daemon.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon_internal.h"
#include "value.h"
#include "vm/base/problem.h"
#include "vm/base/secret_list.h"

#ifndef XSBX_LIBEXECDIR
#define XSBX_LIBEXECDIR "/usr/local/libexec/xsbxfs"
#endif

#ifndef XSBX_DATADIR
#define XSBX_DATADIR "/usr/local/share/xsbxfs"
#endif

#define SYSTEM_DIR  "/var/lib/xsbxfs"
#define SHARED_NAME "shared" /* in it, of images for all; see default_state_dir() */

const char conf_usage[] =
	"Usage: xsbxfs [-f] [-d] [-c FILE] [-o OPTION[,OPTION...]] MOUNTPOINT\n"
	"       xsbxfs --check [-c FILE] [-o OPTION[,OPTION...]]\n"
	"       xsbxfs --prefetch | --export FILE [-c FILE] [-o OPTION[,...]] [TEMPLATE...]\n"
	"       xsbxfs --import FILE [-c FILE] [-o OPTION[,...]]\n"
	"       xsbxfs --takeover [-c FILE] [-o runtime_dir=DIR] MOUNTPOINT\n"
	"\n"
	"Mounts a file system in which each directory is a sandbox for untrusted code.\n"
	"\n"
	"  -f, --foreground     stay in the foreground and log to standard error\n"
	"  -d, --debug          likewise, and trace each run: log_level=debug\n"
	"  -c, --config FILE    read FILE as well; may be given several times\n"
	"      --try-config F   likewise, if there is one that root or the user owns\n"
	"  -o OPTION[,...]      keys of xsbxfs.conf(5), such as max_vms=4, and\n"
	"     allow_other       other users may use the mount too\n"
	"     notify=FIFO       write a byte to FIFO once the mount is ready\n"
	"      --check          say whether this machine can run sandboxes, and what to mend\n"
	"      --log-format F   how lines of the log look: text, or json, one object a line\n"
	"      --prefetch       get or make images and snapshots now, without a mount\n"
	"      --export FILE    likewise, and put them into a file for hosts without a network\n"
	"      --import FILE    put what is in such a file into the cache\n"
	"      --takeover       have this version serve what is mounted there, and change nothing "
	"else\n"
	"      --keys           show all keys, one a line, for programs\n"
	"      --version        show the version\n"
	"  -h, --help           show this text\n"
	"\n"
	"Unmount with: fusermount3 -u MOUNTPOINT\n"
	"Configuration: /etc/xsbxfs.conf, ~/.config/xsbxfs.conf, -c, -o; the later wins.\n";

/* ---- paths ---- */

static char *join(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/* $@variable/@name if that is set to an absolute path, as the XDG specification has it; else @fallback
 * below the home directory. */
static char *xdg_path(const char *variable, const char *fallback, const char *name)
{
	_cleanup_free_ char *dir = NULL;
	const char *value = getenv(variable);

	if (value && *value == '/')
		return join(value, name);
	dir = join(value_home(), fallback);
	return dir ? join(dir, name) : NULL;
}

static char *default_cache_dir(void)
{
	return xdg_path("XDG_CACHE_HOME", ".cache", "xsbxfs");
}

static char *default_runtime_dir(void)
{
	const char *value = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (value && *value == '/')
		return join(value, "xsbxfs");
	if (getuid() == 0) /* /run/xsbxfs has mount points, for everybody */
		return strdup("/run/xsbxfs-0");
	return asprintf(&path, "/tmp/xsbxfs-%u", (unsigned)getuid()) < 0 ? NULL : path;
}

/* Where it lies beside this program, when that runs from where it was built; else where it was
 * installed. */
static char *beside_or(const char *name, const char *installed)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash, *path;

	if (len > 0) {
		self[len] = '\0';
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
		path = join(self, name);
		if (!path || access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return strdup(installed);
}

/* ---- what follows from what was read ---- */

static const struct {
	enum packages_kind kind;
	size_t offset;
	const char *key, *standard;
} lists[] = {
	{PACKAGES_PYTHON, offsetof(struct conf, python_list), "python_list", "pypi-top-10000.txt"},
	{PACKAGES_NPM, offsetof(struct conf, npm_list), "npm_list", "npm-top-10000.txt"},
};

/* Those names of packages that are allowed: a list that is named, or that comes with the program. */
static int settle_packages(struct conf *c, const struct conf_source *src)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct packages_list *l = &c->packages.list[lists[i].kind];
		const char *named = *(char **)((char *)c + lists[i].offset);
		_cleanup_free_ char *standard = NULL;
		int r;

		if (named && strcmp(named, "any") == 0) {
			l->any = true;
			continue;
		}
		standard = join(c->vm.packages.dir, lists[i].standard);
		if (!standard)
			return -ENOMEM;
		r = packages_load(l, lists[i].kind, named ? named : standard);
		/* Without the one that comes with the program, no name is on it. */
		if (r == -ENOMEM || (r < 0 && named))
			return conf_fail(src, -r, "%s: %s cannot be read: %s", lists[i].key,
					 problem_quote(named ? named : standard).text,
					 strerror(-r));
	}
	return 0;
}

static bool has_machines(const struct conf *c)
{
	for (size_t i = 0; i < c->ntemplates; i++) {
		if (c->template[i].settings.spec.backend == VM_MICROVM)
			return true;
	}
	return false;
}

/* One for each mountpoint: /home/me/box is home-me-box, and a dash in a name two. So none ends in one dash, and
 * /shared, whose name root's images have, can be told from all others by one. */
static char *default_state_dir(const char *mountpoint)
{
	_cleanup_free_ char *name = NULL;
	char *to;

	assert(mountpoint);
	to = name = calloc(2, strlen(mountpoint) + 2);
	if (!name)
		return NULL;
	for (const char *p = mountpoint + (*mountpoint == '/'); *p; p++) {
		if (*p == '-')
			*to++ = '-';
		*to++ = *p == '/' ? '-' : *p;
	}
	if (getuid() == 0) {
		if (strcmp(name, SHARED_NAME) == 0)
			*to = '-';
		return join(SYSTEM_DIR, name);
	}
	to = xdg_path("XDG_STATE_HOME", ".local/state", "xsbxfs");
	if (to) {
		char *path = join(to, name);

		free(to);
		to = path;
	}
	return to;
}

/* Do both lead to one directory? */
static bool same_dir(const char *a, const char *b)
{
	struct stat sa, sb;

	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

/* Where it is: by the configuration, or by the environment, or where it usually is. Return: allocated, or NULL. */
static char *shared_path(const struct conf *c)
{
	const char *value = getenv("XSBXFS_SHARED");

	if (c->vm.shared_dir)
		return strdup(c->vm.shared_dir);
	if (value && (*value == '/' || strcmp(value, "none") == 0))
		return strdup(value);
	return join(SYSTEM_DIR, SHARED_NAME);
}

/* Who fills the shared directory has it as his cache. What a bundle has goes into the cache alone. */
static int settle_shared(struct conf *c)
{
	char *path = shared_path(c);
	bool none;

	free((char *)c->vm.shared_dir);
	c->vm.shared_dir = path;
	if (!path)
		return -ENOMEM;
	c->vm.publish = same_dir(c->vm.cache_dir, c->vm.shared_dir);
	none = c->vm.publish || c->action == CONF_IMPORT || strcmp(c->vm.shared_dir, "none") == 0;
	if (none) {
		free((char *)c->vm.shared_dir);
		c->vm.shared_dir = NULL;
	}
	return 0;
}

/* What of the quotas sandboxes are admitted by. Return: 0 or -ENOMEM. */
static int settle_quotas(struct conf *c)
{
	const struct quotas *q = &c->quota;

	c->vm.max_vms = q->all.machines;
	c->vm.memory_mb = q->all.memory_mb;
	c->vm.max_vms_user = q->each.machines;
	c->vm.memory_mb_user = q->each.memory_mb;
	c->vm_users = calloc(q->n + 1, sizeof(*c->vm_users));
	if (!c->vm_users)
		return -ENOMEM;
	for (size_t i = 0; i < q->n; i++) {
		const struct allowance *a = &q->user[i].may;

		c->vm_users[i] = (struct vm_user){
			.uid = q->user[i].uid,
			.max_vms = allowance_says(a, "machines") ? a->machines : VM_AS_OTHERS,
			.memory_mb = allowance_says(a, "memory_mb") ? a->memory_mb : VM_AS_OTHERS,
		};
	}
	c->vm.users = c->vm_users;
	c->vm.nusers = q->n;
	return 0;
}

int conf_settle(struct conf *c, const struct conf_source *src)
{
	char words[128];
	int r = settle_quotas(c);

	if (r < 0)
		return r;
	if (!c->vm.cache_dir)
		c->vm.cache_dir = default_cache_dir();
	if (!c->vm.cache_dir || settle_shared(c) < 0)
		return -ENOMEM;
	if (!c->vm.runtime_dir)
		c->vm.runtime_dir = default_runtime_dir();
	if (!c->spool_dir && c->vm.cache_dir)
		c->spool_dir = join(c->vm.cache_dir, "spool");
	if (!c->vm.agent)
		c->vm.agent = beside_or("xsbx-agent", XSBX_LIBEXECDIR "/xsbx-agent");
	if (!c->vm.trace.program)
		c->vm.trace.program = beside_or("xsbxfs-trace", XSBX_LIBEXECDIR "/xsbxfs-trace");
	if (!c->vm.store.program)
		c->vm.store.program = beside_or("xsbxfs-store", XSBX_LIBEXECDIR "/xsbxfs-store");
	if (!c->vm.image_builder)
		c->vm.image_builder =
			beside_or("../scripts/images", XSBX_DATADIR "/scripts/images");
	if (!c->vm.packages.dir)
		c->vm.packages.dir =
			beside_or("../images/packages", XSBX_DATADIR "/images/packages");
	if (!c->vm.cache_dir || !c->vm.runtime_dir || !c->spool_dir || !c->vm.agent ||
	    !c->vm.store.program || !c->vm.trace.program || !c->vm.image_builder ||
	    !c->vm.packages.dir)
		return -ENOMEM;
	c->limits.deny_network = !c->allow_network;
	r = secret_list_check(&c->vm.secrets, words);
	if (r < 0)
		return conf_fail(src, EINVAL, "%s", words);
	r = settle_packages(c, src);
	if (r == 0)
		r = conf_inherit_images(c, src);
	if (r == 0)
		r = conf_settle_templates(c, src);
	c->vm.shared = c->allow_other;
	c->vm.host_ports = c->limits.host_ports;
	c->vm.no_machines = !has_machines(c);
	return r;
}

/* ---- files ---- */

/* Whoever may write it chooses what runs. In a sticky directory nobody takes another's file away. */
static int check_writers(const struct stat *st, const char *dir, const struct conf_source *src)
{
	const bool all = st->st_mode & S_IWOTH;

	if (!(st->st_mode & (S_IWOTH | S_IWGRP)) || (dir && (st->st_mode & S_ISVTX)))
		return 0;
	return conf_fail(src, EACCES, "%s may write to %s%s; chmod %s mends that",
			 all ? "everybody" : "its group", dir ? "its directory " : "it",
			 dir ? dir : "", all ? "go-w" : "g-w");
}

/* And whoever may put another directory in the place of one of those that lead to it. */
static int check_way(char *path, const struct conf_source *src)
{
	struct stat st;
	char *slash;
	int r = 0;

	while (r == 0 && (slash = strrchr(path, '/'))) {
		slash[slash == path] = '\0';
		if (stat(path, &st) < 0)
			return conf_fail(src, errno, "its directory %s: %s", path, strerror(errno));
		if (st.st_uid != 0 && st.st_uid != geteuid())
			return conf_fail(
				src, EACCES,
				"its directory %s belongs to user %u; name the file with -c "
				"if you trust it",
				path, (unsigned)st.st_uid);
		r = check_writers(&st, path, src);
		if (slash == path)
			break;
	}
	return r;
}

/* A file found by its place must be its reader's or root's alone; so must the way to it, and, where it is
 * a link, the way to that. */
static int check_place(const char *path, const struct stat *st, const struct conf_source *src)
{
	const char *slash = strrchr(path, '/');
	char way[PATH_MAX + 2], dir[PATH_MAX];
	int r;

	if (st->st_uid != 0 && st->st_uid != geteuid())
		return conf_fail(src, EACCES, "belongs to user %u; name it with -c if you trust it",
				 (unsigned)st->st_uid);
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash ? slash - path + 1 : 0), path);
	if (!realpath(slash ? dir : ".", way))
		return conf_fail(src, errno, "cannot be read: %s", strerror(errno));
	if (strcmp(way, "/") != 0)
		memcpy(way + strlen(way), "/", sizeof("/"));
	r = check_way(way, src);
	if (r == 0 && !realpath(path, way))
		r = conf_fail(src, errno, "cannot be read: %s", strerror(errno));
	return r == 0 ? check_way(way, src) : r;
}

/* @found: by its place, not named by -c; then it need not exist. */
static int read_file(struct conf *c, const char *path, bool found, struct conf_source *src)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	src->file = path;
	src->line = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (found ? O_NONBLOCK : 0));
	if (fd < 0 && found && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return conf_fail(src, errno, "cannot be read: %s", strerror(errno));
	if (S_ISDIR(st.st_mode) || (found && !S_ISREG(st.st_mode)))
		return conf_fail(src, EINVAL, "is not a file");
	r = S_ISREG(st.st_mode) ? check_writers(&st, NULL, src) : 0;
	if (r == 0 && found)
		r = check_place(path, &st, src);
	return r < 0 ? r : conf_read_file(c, fd, src);
}

/* ---- command line ---- */

struct named_file {
	const char *path;
	bool tried; /* it need not exist */
};

struct arguments {
	struct named_file *files; /* of -c and --try-config, in their order */
	const char **options;	  /* of -o */
	size_t nfiles, noptions;
	const char *mountpoint;
	const char *log_format;	    /* or NULL */
	struct record_reader again; /* of conf_load_again(), which reads no file */
};

/* There is nothing that the mount is made from, so what stands for it is one of two words. */
static bool is_source(const char *word)
{
	return strcmp(word, "none") == 0 || strcmp(word, "xsbxfs") == 0;
}

enum {
	OPT_CHECK = 256,
	OPT_PREFETCH,
	OPT_EXPORT,
	OPT_IMPORT,
	OPT_LOG_FORMAT,
	OPT_TAKEOVER,
	OPT_TRY_CONFIG,
	OPT_KEYS,
	OPT_VERSION,
};

static const struct option longopts[] = {
	{"foreground", no_argument, NULL, 'f'},
	{"debug", no_argument, NULL, 'd'},
	{"config", required_argument, NULL, 'c'},
	{"try-config", required_argument, NULL, OPT_TRY_CONFIG},
	{"check", no_argument, NULL, OPT_CHECK},
	{"prefetch", no_argument, NULL, OPT_PREFETCH},
	{"export", required_argument, NULL, OPT_EXPORT},
	{"import", required_argument, NULL, OPT_IMPORT},
	{"log-format", required_argument, NULL, OPT_LOG_FORMAT},
	{"takeover", no_argument, NULL, OPT_TAKEOVER},
	{"keys", no_argument, NULL, OPT_KEYS},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int read_arguments(struct conf *c, struct arguments *a, int argc, char *const argv[],
			  const struct conf_source *src)
{
	int opt;

	optind = 0; /* start anew, whoever used getopt before */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":fdc:o:h", longopts, NULL)) != -1) {
		switch (opt) {
		case 'd': c->debug = true; __attribute__((fallthrough));
		case 'f': c->foreground = true; break;
		case 'c':
		case OPT_TRY_CONFIG:
			a->files[a->nfiles++] = (struct named_file){optarg, opt != 'c'};
			break;
		case 'o': a->options[a->noptions++] = optarg; break;
		case 'h': c->action = CONF_HELP; return 0;
		case OPT_CHECK: c->action = CONF_CHECK; break;
		case OPT_PREFETCH: c->action = CONF_PREFETCH; break;
		case OPT_EXPORT:
		case OPT_IMPORT:
			c->action = opt == OPT_EXPORT ? CONF_EXPORT : CONF_IMPORT;
			c->file = optarg;
			break;
		case OPT_TAKEOVER: c->action = CONF_TAKEOVER; break;
		case OPT_LOG_FORMAT: a->log_format = optarg; break;
		case OPT_KEYS: c->action = CONF_KEYS; return 0;
		case OPT_VERSION: c->action = CONF_VERSION; return 0;
		case ':':
			return conf_fail(src, EINVAL, "%s: a value is missing behind it",
					 argv[optind - 1]);
		default:
			return conf_fail(src, EINVAL, "there is no option \"%s\"; try --help",
					 problem_quote(argv[optind - 1]).text);
		}
	}
	if (c->action == CONF_PREFETCH || c->action == CONF_EXPORT) {
		c->names = argv + optind;
		c->nnames = (size_t)(argc - optind);
		c->foreground = true;
		return 0;
	}
	/* mount(8) calls it as it is in fstab(5): SOURCE MOUNTPOINT. */
	if (argc - optind == 2 && is_source(argv[optind]))
		optind++;
	if (optind < argc)
		a->mountpoint = argv[optind++];
	if (optind < argc)
		return conf_fail(src, EINVAL,
				 "one mount point, please: \"%s\" is too much; try --help",
				 problem_quote(argv[optind]).text);
	return 0;
}

/* Where a mount that a dead daemon left is: realpath(3) cannot see through it, but finds its parent. */
static char *dead_mountpoint(const char *path)
{
	char copy[PATH_MAX], parent[PATH_MAX];
	size_t len = strnlen(path, sizeof(copy));
	const char *name = copy;
	char *slash;

	if (len == sizeof(copy))
		return NULL;
	memcpy(copy, path, len + 1);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	if (slash) {
		*slash = '\0';
		name = slash + 1;
	}
	if (!realpath(slash == copy ? "/" : slash ? copy : ".", parent))
		return NULL;
	return join(strcmp(parent, "/") == 0 ? "" : parent, name);
}

static int find_mountpoint(struct conf *c, const char *path, const struct conf_source *src)
{
	struct stat st;

	if (!path || !*path)
		return conf_fail(src, EINVAL, "where to? Name a directory: xsbxfs MOUNTPOINT");
	c->mountpoint = realpath(path, NULL);
	if (!c->mountpoint && errno == ENOTCONN)
		c->mountpoint = dead_mountpoint(path);
	else if (c->mountpoint && stat(c->mountpoint, &st) == 0 && !S_ISDIR(st.st_mode))
		return conf_fail(src, ENOTDIR, "%s is not a directory", path);
	if (c->mountpoint)
		return 0;
	if (errno == ENOENT)
		return conf_fail(src, ENOENT, "there is no directory %s; make it with: mkdir -p %s",
				 path, path);
	return conf_fail(src, errno, "cannot mount on %s: %s", path, strerror(errno));
}

/* One that is there, and may not answer: it is not looked at, but its parent. */
static int name_mountpoint(struct conf *c, const char *path, const struct conf_source *src)
{
	if (!path || !*path)
		return conf_fail(src, EINVAL, "which? Name it: xsbxfs --takeover MOUNTPOINT");
	c->mountpoint = dead_mountpoint(path);
	return c->mountpoint ? 0 : conf_fail(src, errno, "%s: %s", path, strerror(errno));
}

static int read_files(struct conf *c, const struct arguments *a, struct conf_source *src)
{
	_cleanup_free_ char *user = xdg_path("XDG_CONFIG_HOME", ".config", "xsbxfs.conf");
	int r;

	if (!user)
		return -ENOMEM;
	r = read_file(c, CONF_SYSTEM_FILE, true, src);
	if (r >= 0)
		r = read_file(c, user, true, src);
	for (size_t i = 0; i < a->nfiles && r >= 0; i++)
		r = read_file(c, a->files[i].path, a->files[i].tried, src);
	return r;
}

static int read_options(struct conf *c, const struct arguments *a, struct conf_source *src)
{
	int r = 0;

	src->file = NULL;
	for (size_t i = 0; i < a->noptions && r >= 0; i++)
		r = conf_set_options(c, a->options[i], src);
	return r;
}

/* As @first says where they are. */
static int read_images(struct conf *c, const struct conf *first, const char *standard,
		       const struct conf_source *src)
{
	const char *const cache = first->vm.cache_dir ? first->vm.cache_dir : standard;
	_cleanup_free_ char *shared = shared_path(first);

	if (!shared)
		return -ENOMEM;
	return conf_read_images(c, cache, strcmp(shared, "none") == 0 ? NULL : shared, src);
}

/* Images come before the configuration, which says where they are: it is read first, and then, as it was read, applied
 * behind them. */
static int read_first(struct conf *c, const struct arguments *a, struct conf_source *src)
{
	_cleanup_free_ char *standard = default_cache_dir();
	struct conf first;
	int r = conf_init(&first);

	first.action = c->action;
	if (r == 0)
		r = standard ? read_files(&first, a, src) : -ENOMEM;
	if (r >= 0)
		r = read_options(&first, a, src);
	if (r >= 0 && c->action != CONF_TAKEOVER && c->action != CONF_IMPORT)
		r = read_images(c, &first, standard, src);
	if (r >= 0)
		r = conf_read_kept(c, &first.files, src);
	conf_clear(&first);
	return r;
}

static int load_all(struct conf *c, const struct arguments *a, struct conf_source *src)
{
	int r = a->again.at ? conf_read_again(c, a->again, src) : read_first(c, a, src);

	if (r >= 0)
		r = read_options(c, a, src);
	if (r >= 0 && a->log_format)
		r = conf_set(c, CONF_GLOBAL, "log_format", a->log_format, src);
	if (r >= 0)
		r = conf_settle(c, src);
	if (r >= 0 && c->action == CONF_MOUNT && !c->mountpoint)
		r = find_mountpoint(c, a->mountpoint, src);
	else if (r >= 0 && c->action == CONF_TAKEOVER)
		r = name_mountpoint(c, a->mountpoint, src);
	if (r >= 0 && c->keep && c->action == CONF_MOUNT && !c->state_dir) {
		c->state_dir = default_state_dir(c->mountpoint);
		r = c->state_dir ? r : -ENOMEM;
	}
	if (r >= 0 && c->action != CONF_MOUNT && c->action != CONF_TAKEOVER && a->mountpoint)
		r = conf_fail(src, EINVAL, "without a mount, no mount point is needed");
	return r;
}

int conf_load(struct conf *c, int argc, char *const argv[], char *ret_why, size_t why_size)
{
	return conf_load_again(c, argc, argv, (struct record_reader){0}, ret_why, why_size);
}

int conf_load_again(struct conf *c, int argc, char *const argv[], struct record_reader fields,
		    char *ret_why, size_t why_size)
{
	struct conf_source src = {.why = ret_why, .why_size = why_size};
	struct arguments a = {.again = fields};
	int r;

	snprintf(ret_why, why_size, "out of memory");
	r = conf_init(c);
	if (r < 0)
		return r;
	/* Each argument can hold one -c or -o at most. */
	a.files = calloc((size_t)argc + 1, sizeof(*a.files));
	a.options = calloc((size_t)argc + 1, sizeof(*a.options));
	r = a.files && a.options ? read_arguments(c, &a, argc, argv, &src) : -ENOMEM;
	if (r >= 0 && c->action != CONF_VERSION && c->action != CONF_HELP && c->action != CONF_KEYS)
		r = load_all(c, &a, &src);
	free(a.files);
	free(a.options);
	return r;
}
