/* SPDX-License-Identifier: Apache-2.0 */
/* Images in the cache directory, and in the shared one. */
#include "image.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "vm/base/arch.h"
#include "vm/base/buf.h"
#include "cpio.h"
#include "vm/base/digest.h"
#include "vm/base/io.h"
#include "vm/base/path.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A version of an image is a directory that never changes; a link points to the current one. So it is
 * sufficient to check the link's target: if it is the directory whose files are open, they are current,
 * however long ago they were opened; if not, they are reopened. A version that was replaced or removed
 * exists, through the descriptor, as long as a machine uses it.
 *
 * An image is looked for in the user's own cache, and if there is none of that name, in the shared directory,
 * which root has filled for all. There nothing is opened but what only root can have put there.
 *
 * There may be two kernels: the distribution's, which is always built, and our own, which is faster and
 * has a smaller attack surface, but takes minutes to build. It is used if it exists.
 *
 * The initrd is the archive of boot modules of the distribution's kernel, followed by one with the
 * agent as /init; with our own kernel, which has everything built in, it is only the agent. It is
 * built once, in sealed memory, whose pages are shared by all machines.
 */

#define MANIFEST_MAX (1u << 20)
#define STOCK	     "kernel"
#define OWN	     "kernel-own"

enum kernel_wish { KERNEL_AUTO, KERNEL_OWN, KERNEL_STOCK, KERNEL_NWISHES };
static const char *const wish_str[] = {
	[KERNEL_AUTO] = "auto", [KERNEL_OWN] = "own", [KERNEL_STOCK] = "stock"};
static_assert(ARRAY_SIZE(wish_str) == KERNEL_NWISHES, "a name for each wish");

/* An image of which a version is open. */
struct entry {
	TAILQ_ENTRY(entry) link;
	struct fileio_identity dir;
	int rootfs;
	struct buf manifest;
	char name[]; /* as in templates/ */
};

struct images {
	char *templates, *agent;
	char *shared; /* likewise of the shared directory, or NULL */
	TAILQ_HEAD(image_entries, entry) entries;
	struct fileio_identity kernel_dir, agent_file;
	enum kernel_wish wish;
	bool own; /* what is open is our own kernel */
	int kernel, initrd;
	struct buf kernel_manifest;
	char initrd_sha256[DIGEST_HEX];
	char why[512];
};

static enum kernel_wish parse_wish(const char *name)
{
	for (unsigned i = 0; name && i < KERNEL_NWISHES; i++) {
		if (strcmp(name, wish_str[i]) == 0)
			return i;
	}
	return KERNEL_AUTO;
}

struct images *images_new(const char *cache_dir, const char *shared_dir, const char *agent,
			  const char *kernel)
{
	struct images *im = calloc(1, sizeof(*im));

	if (!im)
		return NULL;
	im->wish = parse_wish(kernel);
	TAILQ_INIT(&im->entries);
	im->kernel = im->initrd = -1;
	im->agent = strdup(agent);
	if (asprintf(&im->templates, "%s/" ARCH_IMAGES "/templates", cache_dir) < 0)
		im->templates = NULL;
	if (shared_dir && asprintf(&im->shared, "%s/" ARCH_IMAGES "/templates", shared_dir) < 0)
		im->shared = NULL;
	if (im->agent && im->templates && (im->shared || !shared_dir))
		return im;
	images_free(im);
	return NULL;
}

static void entry_free(struct entry *e)
{
	if (e->rootfs >= 0)
		close(e->rootfs);
	buf_clear(&e->manifest);
	free(e);
}

static void forget(struct images *im, struct entry *e)
{
	if (!e)
		return;
	TAILQ_REMOVE(&im->entries, e, link);
	entry_free(e);
}

static void kernel_close(struct images *im)
{
	if (im->kernel >= 0)
		close(im->kernel);
	if (im->initrd >= 0)
		close(im->initrd);
	im->kernel = im->initrd = -1;
	buf_clear(&im->kernel_manifest);
}

void images_free(struct images *im)
{
	struct entry *e;

	if (!im)
		return;
	while ((e = TAILQ_FIRST(&im->entries)))
		forget(im, e);
	kernel_close(im);
	free(im->templates);
	free(im->shared);
	free(im->agent);
	free(im);
}

/* Keeps a sentence for the caller. Return: @r. */
static int printf_like(3, 4) fail(struct images *im, int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(im->why, sizeof(im->why), fmt, ap);
	va_end(ap);
	return r;
}

/* A version of an image. */
struct version {
	const char *name;
	int dir;
	bool shared;
	struct fileio_identity id;
};

static void version_close(struct version *v)
{
	if (v->dir >= 0)
		close(v->dir);
}

#define _cleanup_version_ _cleanup_(version_close)

/* The same of the shared directory: the user's own has none. */
static int open_shared(struct images *im, struct version *v)
{
	char path[PATH_MAX], why[TRUSTED_WHY];

	if (!im->shared || path_join(path, im->shared, "", v->name) < 0)
		return fail(im, -ENOENT, "there is no image '%s' in %s", v->name, im->templates);
	v->dir = trusted_open(path, O_PATH | O_DIRECTORY, why);
	v->shared = true;
	if (v->dir == -ENOENT)
		return fail(im, -ENOENT, "there is no image '%s' in %s, nor in %s", v->name,
			    im->templates, im->shared);
	/* What is there for all and can't be used is like nothing: the user may make his own. */
	if (v->dir < 0)
		return fail(im, -ENOENT,
			    "there is no image '%s' in %s, and the shared one is not used: %s",
			    v->name, im->templates, why);
	return 0;
}

/* The directory that a template's link leads to now. */
static int open_version(struct images *im, const char *name, struct version *ret_v)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	*ret_v = (struct version){.name = name, .dir = -1};
	if (!name[0] || name[0] == '.' || strchr(name, '/'))
		return fail(im, -EINVAL, "'%s' is no name of an image", name);
	snprintf(path, sizeof(path), "%s/%s", im->templates, name);
	ret_v->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret_v->dir < 0 && errno == ENOENT) {
		r = open_shared(im, ret_v);
		if (r < 0)
			return r;
	}
	if (ret_v->dir < 0 || fstat(ret_v->dir, &st) < 0)
		return fail(im, -errno, "the image '%s' can't be opened: %s", name,
			    strerror(errno));
	ret_v->id = fileio_identity(&st);
	return 0;
}

/* Opens a file of a version. Return: a descriptor or -errno. */
static int open_file(struct images *im, const struct version *v, const char *file)
{
	char why[TRUSTED_WHY];
	int fd;

	if (v->shared) {
		fd = trusted_open_at(v->dir, file, O_RDONLY, why);
		return fd < 0 ? fail(im, -ENOENT, "the shared image '%s' can't be used: %s",
				     v->name, why)
			      : fd;
	}
	fd = openat(v->dir, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(im, -errno, "the image '%s' is not complete: %s: %s", v->name, file,
			    strerror(errno));
	return fd;
}

static int read_manifest(struct images *im, const struct version *v, struct buf *b)
{
	_cleanup_close_ int fd = open_file(im, v, "manifest.json");
	const char *name = v->name;
	ssize_t n;

	if (fd < 0)
		return fd;
	b->limit = MANIFEST_MAX;
	do {
		if (buf_reserve(b, 4096) < 0)
			return fail(im, -EFBIG, "the manifest of the image '%s' is too large",
				    name);
		n = read(fd, b->data + b->len, 4096);
		if (n < 0)
			return fail(im, -errno, "the manifest of the image '%s' can't be read: %s",
				    name, strerror(errno));
		b->len += (size_t)n;
	} while (n > 0);
	return buf_str(b) ? 0 : -ENOMEM;
}

static struct entry *find(struct images *im, const char *name)
{
	struct entry *e;

	TAILQ_FOREACH(e, &im->entries, link) {
		if (strcmp(e->name, name) == 0)
			return e;
	}
	return NULL;
}

/* The current version of an image that has a root file system. */
static int load(struct images *im, const char *name, struct entry **ret_entry)
{
	struct entry *e = find(im, name), *fresh;
	_cleanup_version_ struct version v;
	int r = open_version(im, name, &v);

	if (r < 0) {
		forget(im, e);
		return r;
	}
	if (e && fileio_same(&e->dir, &v.id)) {
		*ret_entry = e;
		return 0;
	}
	forget(im, e);
	fresh = calloc(1, sizeof(*fresh) + strlen(name) + 1);
	if (!fresh)
		return fail(im, -ENOMEM, "there is no memory");
	memcpy(fresh->name, name, strlen(name) + 1);
	fresh->dir = v.id;
	fresh->rootfs = open_file(im, &v, "rootfs.erofs");
	r = fresh->rootfs < 0 ? fresh->rootfs : read_manifest(im, &v, &fresh->manifest);
	if (r < 0) {
		entry_free(fresh);
		return r;
	}
	TAILQ_INSERT_TAIL(&im->entries, fresh, link);
	*ret_entry = fresh;
	return 0;
}

/* Puts the initrd together; @modules may be -1. Return: a descriptor or -errno. */
static int make_initrd(int modules, int agent)
{
	const unsigned seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_close_ int fd = memfd_create("xsbx-initrd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat m = {0}, a;
	int r = 0;

	if (fd < 0 || (modules >= 0 && fstat(modules, &m) < 0) || fstat(agent, &a) < 0)
		return -errno;
	if (modules >= 0)
		r = cpio_archive(fd, modules, (size_t)m.st_size);
	if (r == 0)
		r = cpio_file(fd, "init", 0755, agent, (size_t)a.st_size);
	if (r == 0)
		r = cpio_end(fd);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* The checksum of what is in memory anyway, two megabytes: some milliseconds, once. */
static int sum_up(int fd, char ret_hex[DIGEST_HEX])
{
	struct digest *d = digest_new();
	char block[16384];
	off_t at = 0;
	ssize_t n;

	while (d && (n = pread(fd, block, sizeof(block), at)) > 0) {
		digest_add(d, block, (size_t)n);
		at += n;
	}
	return digest_end(d, ret_hex);
}

/* The kernel to take: ours if it is there, whoever has built it, unless the other one is asked for. */
static bool wants_own(struct images *im)
{
	_cleanup_version_ struct version v = {.dir = -1};

	if (im->wish != KERNEL_AUTO)
		return im->wish == KERNEL_OWN;
	return open_version(im, OWN, &v) == 0;
}

/* Opens what is in the directory of a kernel, and puts the initrd together. */
static int open_kernel(struct images *im, const struct version *v, int agent)
{
	_cleanup_close_ int kernel = open_file(im, v, "vmlinux");
	_cleanup_close_ int modules = -1, initrd = -1;
	char sha256[DIGEST_HEX];
	int r;

	if (kernel < 0)
		return -ENOENT;
	if (strcmp(v->name, STOCK) == 0) {
		modules = open_file(im, v, "modules.cpio");
		if (modules < 0)
			return -ENOENT;
	}
	initrd = make_initrd(modules, agent);
	r = initrd < 0 ? initrd : sum_up(initrd, sha256);
	if (r < 0)
		return fail(im, r, "the initrd could not be made: %s", strerror(-r));
	kernel_close(im);
	r = read_manifest(im, v, &im->kernel_manifest);
	if (r < 0) {
		buf_clear(&im->kernel_manifest);
		return r;
	}
	im->kernel = steal_fd(&kernel);
	im->initrd = steal_fd(&initrd);
	memcpy(im->initrd_sha256, sha256, sizeof(sha256));
	return 0;
}

static int load_kernel(struct images *im)
{
	_cleanup_version_ struct version v = {.dir = -1};
	_cleanup_close_ int agent = -1;
	struct fileio_identity agent_id;
	const bool own = wants_own(im);
	struct stat st;
	int r;

	r = open_version(im, own ? OWN : STOCK, &v);
	if (r < 0)
		return r;
	agent = open(im->agent, O_RDONLY | O_CLOEXEC);
	if (agent < 0 || fstat(agent, &st) < 0)
		return fail(im, -ENOEXEC, "the agent %s can't be opened: %s", im->agent,
			    strerror(errno));
	agent_id = fileio_identity(&st);
	if (im->initrd >= 0 && fileio_same(&v.id, &im->kernel_dir) &&
	    fileio_same(&agent_id, &im->agent_file))
		return 0;
	r = open_kernel(im, &v, agent);
	if (r < 0)
		return r;
	im->own = own;
	im->kernel_dir = v.id;
	im->agent_file = agent_id;
	return 0;
}

/* An image, with the kernel that it needs. */
static int load_all(struct images *im, const char *name, struct entry **ret_entry,
		    const char **ret_why)
{
	int r = load_kernel(im);

	*ret_why = im->why;
	return r < 0 ? r : load(im, name, ret_entry);
}

int images_open(struct images *im, const char *name, struct image *ret_image, const char **ret_why)
{
	struct entry *e = NULL;
	int r = load_all(im, name, &e, ret_why);

	if (r < 0 || !e)
		return r;
	*ret_image = (struct image){im->kernel, im->own, im->initrd, e->rootfs, im->initrd_sha256};
	return 0;
}

const char *images_manifest(struct images *im, const char *name, const char **ret_why)
{
	struct entry *e = NULL;
	int r = load_all(im, name, &e, ret_why);

	return r < 0 || !e ? NULL : buf_str(&e->manifest);
}

bool images_is_kernel(const char *name)
{
	return strcmp(name, STOCK) == 0 || strcmp(name, OWN) == 0;
}

int images_kernel(struct images *im, char *out, size_t size, const char **ret_why)
{
	json_t *manifest;
	const char *release;
	int r = load_kernel(im);

	*ret_why = im->why;
	if (r < 0)
		return r;
	manifest = json_loadb(im->kernel_manifest.data, im->kernel_manifest.len, 0, NULL);
	release = json_string_value(json_object_get(manifest, "release"));
	snprintf(out, size, "%s %.100s", im->own ? "own" : "stock",
		 release ? release : "(unnamed)");
	json_decref(manifest);
	return 0;
}

/* Has the user one of that name? Then the shared one is not looked at. */
static bool is_own(const struct images *im, const char *name)
{
	char path[PATH_MAX];

	return path_join(path, im->templates, "", name) == 0 && access(path, F_OK) == 0;
}

int images_tree(struct images *im, const char *name, char ret_path[PATH_MAX], const char **ret_why)
{
	char path[PATH_MAX];

	*ret_why = im->why;
	snprintf(path, sizeof(path), "%s/%s/tree", im->templates, name);
	if (realpath(path, ret_path))
		return 0;
	if (im->shared && !is_own(im, name) &&
	    snprintf(path, sizeof(path), "%s/%s/tree", im->shared, name) < (int)sizeof(path) &&
	    trusted_dir(path, ret_path) == 0)
		return 0;
	return fail(im, -ENOENT,
		    "the image '%s' was not unpacked in %s; xsbxfs-images --unpack %s does it",
		    name, im->templates, name);
}

int images_where(struct images *im, const char *name, char ret_path[PATH_MAX], bool *ret_shared,
		 const char **ret_why)
{
	_cleanup_version_ struct version v;
	int r = open_version(im, name, &v);

	*ret_why = im->why;
	if (r == 0)
		r = trusted_path(v.dir, ret_path);
	*ret_shared = v.shared;
	return r;
}
