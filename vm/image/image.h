/* SPDX-License-Identifier: Apache-2.0 */
/* Images in the cache directory: found, opened, and found again when they are replaced. */
#ifndef XSBX_VM_IMAGE_IMAGE_H
#define XSBX_VM_IMAGE_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct images;

/* What a machine is made of. The descriptors are the cache's; use them at once, or duplicate. */
struct image {
	int kernel;		   /* vmlinux */
	bool own;		   /* it is our own kernel, which needs neither ACPI nor modules */
	int initrd;		   /* sealed memory: the boot modules and the agent */
	int rootfs;		   /* rootfs.erofs */
	const char *initrd_sha256; /* of its bytes, in hexadecimal */
};

/**
 * images_new() - A cache of what is in the cache directory; nothing is opened yet
 * @cache_dir: Holds images/templates/NAME, a link to the current version of an image
 * @agent: The agent's static binary
 * @kernel: "own", "stock", or "auto": our own if it is there
 *
 * Return: The cache, NULL if out of memory.
 */
struct images *images_new(const char *cache_dir, const char *agent, const char *kernel);
void images_free(struct images *im);

/**
 * images_open() - All that a machine with image @name needs, as it is now
 * @ret_why: If it fails: one sentence, valid until the next call
 *
 * Return: 0, -ENOEXEC if it is the agent that is missing, or -errno.
 */
int images_open(struct images *im, const char *name, struct image *ret_image, const char **ret_why);

/* The image's manifest, JSON text, valid until the next call; NULL with @ret_why. */
const char *images_manifest(struct images *im, const char *name, const char **ret_why);

/**
 * images_tree() - Where the files of an image are, unpacked
 * @ret_path: Result, without links
 *
 * Return: 0; -ENOENT with @ret_why, if they were not unpacked, or there is no such image.
 */
int images_tree(struct images *im, const char *name, char ret_path[PATH_MAX], const char **ret_why);

/* Is this the name of a kernel, among those of images? */
bool images_is_kernel(const char *name);

/* Which kernel machines get now, for people: "own 6.1.0". Return: 0, or -errno with @ret_why. */
int images_kernel(struct images *im, char *out, size_t size, const char **ret_why);

#endif
