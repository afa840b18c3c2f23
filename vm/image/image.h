/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens images in the cache directory and the shared one, and notices when they are replaced. */
#ifndef XSBX_VM_IMAGE_IMAGE_H
#define XSBX_VM_IMAGE_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct images;

/* The files of a machine. The cache owns the descriptors; use them at once, or duplicate them. */
struct image {
	int kernel;		   /* vmlinux */
	bool own;		   /* our own kernel, which needs neither ACPI nor modules */
	int initrd;		   /* sealed memory: the boot modules and the agent */
	int rootfs;		   /* rootfs.erofs */
	const char *initrd_sha256; /* of its bytes, in hexadecimal */
};

/**
 * images_new() - Create a cache of open images; nothing is opened yet
 * @cache_dir: Contains images/templates/NAME, a link to the current version of an image
 * @shared_dir: Likewise, for what is not in @cache_dir, and only what is trusted_open(); or NULL
 * @agent: The agent's static binary
 * @kernel: "own", "stock", or "auto": our own if it exists
 *
 * Return: The cache, NULL if out of memory.
 */
struct images *images_new(const char *cache_dir, const char *shared_dir, const char *agent,
			  const char *kernel);
void images_free(struct images *im);

/**
 * images_open() - Open the current files of image @name for a machine
 * @ret_why: If it fails: one sentence, valid until the next call
 *
 * Return: 0, -ENOEXEC if the agent is missing, or -errno.
 */
int images_open(struct images *im, const char *name, struct image *ret_image, const char **ret_why);

/* The image's manifest, JSON text, valid until the next call; NULL with @ret_why. */
const char *images_manifest(struct images *im, const char *name, const char **ret_why);

/**
 * images_tree() - Find the unpacked files of an image
 * @ret_path: Their directory, without links
 *
 * Return: 0; -ENOENT with @ret_why if they are not unpacked, or there is no such image.
 */
int images_tree(struct images *im, const char *name, char ret_path[PATH_MAX], const char **ret_why);

/**
 * images_where() - Tell where the current version of an image is
 * @name: Of an image, or a kernel
 * @ret_path: Its directory, without links
 * @ret_shared: Whether that is the shared one
 *
 * Return: 0; or -errno with @ret_why.
 */
int images_where(struct images *im, const char *name, char ret_path[PATH_MAX], bool *ret_shared,
		 const char **ret_why);

/* Is this the name of a kernel, among those of images? */
bool images_is_kernel(const char *name);

/* The current kernel of machines, for display: "own 6.1.0". Return: 0, or -errno with @ret_why. */
int images_kernel(struct images *im, char *out, size_t size, const char **ret_why);

#endif
