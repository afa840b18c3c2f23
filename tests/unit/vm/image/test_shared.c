/* SPDX-License-Identifier: Apache-2.0 */
/* What root has made for all: found if the user has nothing himself, and only if nobody else can have made it. Each refusal
 * beside the same thing as it is taken. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "vm/base/remove.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"
#include "vm/image/digest_cache.h"
#include "vm/image/image.h"
#include "vm/image/layer.h"
#include "vm/image/snapshot.h"
#include "vm/order/policy_internal.h"

#define KEY	 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define STRANGER 4242u

/* All that leads to /tmp is anybody's; to /run, root's. */
static char top[64], own[96], shared[96], agent[96];
static char why[TRUSTED_WHY];

static const char *in(const char *dir, const char *path)
{
	static char full[128][256]; /* more than any test asks for */
	static unsigned n;
	char *to = full[n++ % ARRAY_SIZE(full)];

	snprintf(to, sizeof(full[0]), "%s/%s", dir, path);
	return to;
}

static void make(const char *dir, const char *path)
{
	assert_int_equal(mkdir(in(dir, path), 0755), 0);
}

static void put(const char *dir, const char *path, const char *text)
{
	_cleanup_file_ FILE *f = fopen(in(dir, path), "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fchmod(fileno(f), 0644), 0);
}

/* Points a template to a version, as the build does it: in one step. */
static void point(const char *dir, const char *name, const char *version)
{
	char link[200], target[128];

	snprintf(target, sizeof(target), "../%s", version);
	snprintf(link, sizeof(link), "%s/images/templates/%s", dir, name);
	assert_int_equal(symlink(target, in(dir, "images/link")), 0);
	assert_int_equal(rename(in(dir, "images/link"), link), 0);
}

static void make_raw(const char *dir, const char *version, const char *text)
{
	char path[200];

	snprintf(path, sizeof(path), "images/%s", version);
	make(dir, path);
	snprintf(path, sizeof(path), "images/%s/rootfs.erofs", version);
	put(dir, path, text);
	snprintf(path, sizeof(path), "images/%s/manifest.json", version);
	put(dir, path, "{}");
	point(dir, "raw", version);
}

static int set_up(void **state)
{
	static const char *const dirs[] = {"", "images", "images/templates", "layers", "snapshots"};

	(void)state;
	strcpy(top, "/run/xsbx-shared.XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755) < 0)
		return -1;
	snprintf(own, sizeof(own), "%s/own", top);
	snprintf(shared, sizeof(shared), "%s/shared", top);
	snprintf(agent, sizeof(agent), "%s/agent", top);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		make(own, dirs[i]);
		make(shared, dirs[i]);
	}
	put(top, "agent", "the agent");
	make(shared, "images/kernel-1");
	put(shared, "images/kernel-1/vmlinux", "kernel");
	put(shared, "images/kernel-1/modules.cpio", "modules");
	put(shared, "images/kernel-1/manifest.json", "{}");
	point(shared, "kernel", "kernel-1");
	make_raw(shared, "raw-1", "root's");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return remove_tree(top);
}

static void assert_content(int fd, const char *text)
{
	char got[64] = "";

	assert_true(pread(fd, got, sizeof(got) - 1, 0) >= 0);
	assert_string_equal(got, text);
}

/* ---- images ---- */

static void assert_image(struct images *im, const char *text)
{
	struct image image;
	const char *reason = "";

	if (images_open(im, "raw", &image, &reason) < 0)
		fail_msg("%s", reason);
	assert_content(image.rootfs, text);
}

static void assert_none(struct images *im, const char *words)
{
	struct image image;
	const char *reason = "";

	/* As if there were none, so that the user may have one built. */
	assert_int_equal(images_open(im, "raw", &image, &reason), -ENOENT);
	if (!strstr(reason, words))
		fail_msg("'%s' is not in '%s'", words, reason);
}

static struct images *both(void)
{
	struct images *im = images_new(own, shared, agent, "auto");

	assert_non_null(im);
	return im;
}

/* Own ones come first, whatever is newer. */
static void image_order(void **state)
{
	struct images *im = both(), *alone = images_new(own, NULL, agent, "auto");
	char path[PATH_MAX];
	const char *reason;
	bool is_shared;

	(void)state;
	assert_image(im, "root's");
	assert_int_equal(images_where(im, "raw", path, &is_shared, &reason), 0);
	assert_true(is_shared);
	assert_string_equal(path, in(shared, "images/raw-1"));
	/* Replaced by root, while a mount uses it. */
	make_raw(shared, "raw-2", "root's newer");
	assert_image(im, "root's newer");
	make_raw(own, "raw-1", "the user's");
	assert_image(im, "the user's");
	assert_int_equal(images_where(im, "raw", path, &is_shared, &reason), 0);
	assert_false(is_shared);
	make_raw(shared, "raw-3", "root's newest");
	assert_image(im, "the user's");
	/* ... and only while they are there: a link to nothing is none. */
	assert_int_equal(unlink(in(own, "images/raw-1/rootfs.erofs")), 0);
	assert_int_equal(unlink(in(own, "images/raw-1/manifest.json")), 0);
	assert_int_equal(rmdir(in(own, "images/raw-1")), 0);
	assert_image(im, "root's newest");
	/* Who wants none has none. */
	assert_none(alone, "there is no image 'kernel' in");
	images_free(im);
	images_free(alone);
}

static void own_kernel(void **state)
{
	struct images *im = both();
	struct image image;
	const char *reason;

	(void)state;
	assert_int_equal(images_open(im, "raw", &image, &reason), 0);
	assert_false(image.own);
	make(shared, "images/kernel-own-1");
	put(shared, "images/kernel-own-1/vmlinux", "small");
	put(shared, "images/kernel-own-1/manifest.json", "{}");
	point(shared, "kernel-own", "kernel-own-1");
	assert_int_equal(images_open(im, "raw", &image, &reason), 0);
	assert_true(image.own);
	assert_content(image.kernel, "small");
	assert_int_equal(chown(in(shared, "images/kernel-own-1"), STRANGER, 0), 0);
	assert_int_equal(images_open(im, "raw", &image, &reason), 0);
	assert_false(image.own);
	images_free(im);
}

/* Each part of it in turn is somebody else's, or his to write to. */
static void image_trust(void **state)
{
	static const char *const parts[] = {"",
					    "images",
					    "images/templates",
					    "images/raw-1",
					    "images/raw-1/rootfs.erofs",
					    "images/raw-1/manifest.json",
					    "images/kernel-1/vmlinux",
					    "images/kernel-1/modules.cpio"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *part = in(shared, parts[i]);
		struct images *im = both();
		struct stat st;

		assert_int_equal(stat(part, &st), 0);
		assert_int_equal(chown(part, STRANGER, 0), 0);
		assert_none(im, "belongs to user 4242, not to root");
		assert_int_equal(chown(part, 0, STRANGER), 0);
		assert_int_equal(chmod(part, 0775), 0);
		assert_none(im, "may be written to by its group");
		assert_int_equal(chmod(part, st.st_mode & 07777), 0);
		assert_image(im, "root's");
		images_free(im);
	}
}

static void image_links(void **state)
{
	struct images *im = both();
	char out[] = "/tmp/xsbx-shared.XXXXXX";

	(void)state;
	assert_int_equal(lchown(in(shared, "images/templates/raw"), STRANGER, 0), 0);
	assert_none(im, "belongs to user 4242, not to root");
	/* It leads to where anybody could have put it. */
	assert_non_null(mkdtemp(out));
	assert_int_equal(unlink(in(shared, "images/templates/raw")), 0);
	assert_int_equal(symlink(out, in(shared, "images/templates/raw")), 0);
	assert_none(im, "/tmp may be written to by everybody");
	assert_int_equal(rmdir(out), 0);
	/* To where only root can, like another disk. */
	assert_int_equal(unlink(in(shared, "images/templates/raw")), 0);
	assert_int_equal(rename(in(shared, "images/raw-1"), in(top, "elsewhere")), 0);
	assert_int_equal(symlink(in(top, "elsewhere"), in(shared, "images/templates/raw")), 0);
	assert_image(im, "root's");
	images_free(im);
}

static struct policy *new_policy(const char *shared_dir)
{
	const struct vm_config vm = {.cache_dir = own,
				     .shared_dir = shared_dir,
				     .runtime_dir = top,
				     .agent = agent,
				     .accel = "tcg"};
	const struct policy_config cfg = {.vm = &vm};
	struct policy *p;

	assert_int_equal(policy_new(&cfg, &p), 0);
	return p;
}

/* The daemon and the spawner find the same files, or none. */
static void trees(void **state)
{
	struct policy *p = new_policy(shared), *alone = new_policy(NULL);
	const char *tree = in(shared, "images/raw-1/tree"), *reason;
	struct images *im = both();
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(policy_tree(p, "raw", path), -ENOENT);
	make(shared, "images/raw-1/tree");
	assert_int_equal(policy_tree(p, "raw", path), 0);
	assert_string_equal(path, tree);
	assert_int_equal(images_tree(im, "raw", path, &reason), 0);
	assert_string_equal(path, tree);
	assert_int_equal(policy_tree(alone, "raw", path), -ENOENT);
	assert_int_equal(chmod(tree, 0777), 0);
	assert_int_equal(policy_tree(p, "raw", path), -EPERM);
	assert_int_equal(images_tree(im, "raw", path, &reason), -ENOENT);
	assert_int_equal(chmod(tree, 0755), 0);
	/* The user's own image of that name is another one. */
	make_raw(own, "raw-9", "the user's");
	assert_int_equal(policy_tree(p, "raw", path), -ENOENT);
	assert_int_equal(images_tree(im, "raw", path, &reason), -ENOENT);
	policy_free(p);
	policy_free(alone);
	images_free(im);
}

/* ---- snapshots ---- */

static struct snapshot sample(void)
{
	struct snapshot s;

	assert_int_equal(snapshot_new(&s, 1), 0);
	assert_int_equal(pwrite(s.ram, "memory", 6, 4096), 6);
	assert_int_equal(pwrite(s.state, "devices", 7, 0), 7);
	s.tsc_khz = 2100000;
	assert_int_equal(snapshot_seal(&s), 0);
	return s;
}

/* Has another user load it. Return: what he gets. */
static int load_as_other(const char *dir)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct snapshot s;

		if (setgid(STRANGER) < 0 || setuid(STRANGER) < 0)
			_exit(255);
		_exit(-snapshot_load_shared(dir, KEY, &s, why));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void snapshots(void **state)
{
	static const char *const parts[] = {"snapshots", "snapshots/" KEY, "snapshots/" KEY "/ram",
					    "snapshots/" KEY "/state",
					    "snapshots/" KEY "/manifest.json"};
	const char *dir = in(shared, "snapshots");
	struct snapshot s = sample(), got;
	const mode_t mask = umask(077);

	(void)state;
	assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), -ENOENT);
	assert_int_equal(snapshot_store(dir, KEY, &s, 0, true), 0);
	umask(mask);
	assert_int_equal(load_as_other(dir), 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *part = in(shared, parts[i]);
		struct stat st;

		assert_int_equal(stat(part, &st), 0);
		assert_int_equal(chmod(part, 0775), 0);
		assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), -EPERM);
		assert_non_null(strstr(why, "may be written to by its group"));
		assert_int_equal(chmod(part, st.st_mode & 07777), 0);
		assert_int_equal(chown(part, STRANGER, 0), 0);
		assert_int_equal(load_as_other(dir), -EPERM); /* his own is no better */
		assert_int_equal(chown(part, 0, 0), 0);
	}
	assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), 0);
	assert_true(got.tsc_khz == 2100000 && got.ram >= 0);
	snapshot_close(&got);
	/* What others may not know they can't read. */
	assert_int_equal(snapshot_store(dir, KEY, &s, 0, false), 0);
	assert_int_equal(load_as_other(dir), -EACCES);
	assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), 0);
	snapshot_close(&got);
	put(shared, "snapshots/" KEY "/state", "devices");
	assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), 0); /* the same bytes */
	snapshot_close(&got);
	put(shared, "snapshots/" KEY "/state", "changed");
	assert_int_equal(snapshot_load_shared(dir, KEY, &got, why), -EBADMSG);
	snapshot_close(&s);
}

/* ---- checksums ---- */

static void checksums(void **state)
{
	static struct digest_cache c;
	_cleanup_close_ int fd =
		open(in(shared, "images/raw-1/rootfs.erofs"), O_RDONLY | O_CLOEXEC);
	const char *dir = in(shared, "snapshots"), *file = in(shared, "snapshots/.contents");
	struct fileio_identity id = {0};
	char hex[DIGEST_HEX];
	struct digest_known k;
	int stop = 0;

	(void)state;
	assert_false(digest_cache_load_shared(&c, dir, &id));
	assert_int_equal(digest_cache_compute(fd, &stop, &k), 0);
	assert_int_equal(digest_cache_keep(dir, &k, true), 0);
	assert_true(digest_cache_load_shared(&c, dir, &id));
	assert_int_equal(digest_cache_find(&c, fd, hex), 0);
	assert_string_equal(hex, k.hex);
	assert_false(digest_cache_load_shared(&c, dir, &id)); /* it is read once */
	assert_int_equal(chmod(file, 0664), 0);
	assert_true(digest_cache_load_shared(&c, dir, &id));
	assert_int_equal(digest_cache_find(&c, fd, hex), -EAGAIN);
	assert_int_equal(chmod(file, 0644), 0);
	assert_true(digest_cache_load_shared(&c, dir, &id));
	assert_int_equal(digest_cache_find(&c, fd, hex), 0);
	assert_int_equal(chown(file, STRANGER, 0), 0);
	assert_true(digest_cache_load_shared(&c, dir, &id));
	assert_int_equal(digest_cache_find(&c, fd, hex), -EAGAIN);
}

/* ---- layers ---- */

static void layers(void **state)
{
	const char *dir = in(shared, "layers/" KEY),
		   *file = in(shared, "layers/" KEY "/layer.erofs");
	struct layer *l;
	struct layers ls;

	(void)state;
	assert_int_equal(layers_init(&ls, own, shared, 0), 0);
	assert_null(layer_get(&ls, KEY));
	make(shared, "layers/" KEY);
	assert_null(layer_get(&ls, KEY));
	put(shared, "layers/" KEY "/layer.erofs", "packages");
	l = layer_get(&ls, KEY);
	assert_non_null(l);
	assert_content(l->file, "packages");
	layer_put(l);
	assert_int_equal(chown(file, STRANGER, 0), 0);
	assert_null(layer_get(&ls, KEY));
	assert_int_equal(chown(file, 0, 0), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_null(layer_get(&ls, KEY));
	assert_int_equal(chmod(dir, 0755), 0);
	make(own, "layers/" KEY);
	put(own, "layers/" KEY "/layer.erofs", "the user's");
	l = layer_get(&ls, KEY);
	assert_non_null(l);
	assert_content(l->file, "the user's");
	layer_put(l);
	layers_fini(&ls);
}

/* Those of processes are directories, which are locked while they are used. */
static void layer_trees(void **state)
{
	struct policy *p = new_policy(shared);
	const char *dir = in(shared, "layers/" KEY);
	_cleanup_close_ int lock = -1;
	char path[PATH_MAX];
	struct layers ls;
	struct layer *l;

	(void)state;
	assert_int_equal(layers_init(&ls, own, shared, 0), 0);
	make(shared, "layers/" KEY);
	make(shared, "layers/" KEY "/tree");
	l = layer_get(&ls, KEY);
	assert_non_null(l);
	policy_layer(p, KEY, path);
	assert_string_equal(path, in(shared, "layers/" KEY "/tree"));
	lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), -1);
	layer_put(l);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	assert_null(layer_get(&ls, KEY)); /* on its way out */
	assert_int_equal(flock(lock, LOCK_UN), 0);
	/* Not root's: the spawner takes it as little as the daemon. */
	assert_int_equal(chown(in(shared, "layers/" KEY "/tree"), STRANGER, 0), 0);
	assert_null(layer_get(&ls, KEY));
	policy_layer(p, KEY, path);
	assert_string_equal(path, in(own, "layers/" KEY "/tree"));
	assert_int_equal(chown(in(shared, "layers/" KEY "/tree"), 0, 0), 0);
	make(own, "layers/" KEY);
	make(own, "layers/" KEY "/tree");
	policy_layer(p, KEY, path);
	assert_string_equal(path, in(own, "layers/" KEY "/tree"));
	policy_free(p);
	layers_fini(&ls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(image_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(own_kernel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(image_trust, set_up, tear_down),
		cmocka_unit_test_setup_teardown(image_links, set_up, tear_down),
		cmocka_unit_test_setup_teardown(trees, set_up, tear_down),
		cmocka_unit_test_setup_teardown(snapshots, set_up, tear_down),
		cmocka_unit_test_setup_teardown(checksums, set_up, tear_down),
		cmocka_unit_test_setup_teardown(layers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(layer_trees, set_up, tear_down),
	};

	if (geteuid() != 0) {
		print_message("needs root, to be an administrator\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
