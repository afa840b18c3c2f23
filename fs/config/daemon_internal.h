/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the configuration: daemon_key.c, daemon_template.c, daemon_file.c,
 * daemon.c. Only for these, their tests and fuzz targets. */
#ifndef XSBX_FS_CONFIG_DAEMON_INTERNAL_H
#define XSBX_FS_CONFIG_DAEMON_INTERNAL_H

#include <stdio.h>

#include "daemon.h"
#include "key.h"

#define CONF_FILE_BYTES (1u << 20) /* largest configuration file */

/* The origin of a value, for messages; and the buffer for the message. */
struct conf_source {
	const char *file; /* NULL: an option or an argument */
	unsigned line;
	const char *only; /* an image's: the one template that it may name; or NULL */
	char *why;
	size_t why_size;
};

/* Writes "file:line: " and the message to @src; returns -@err. */
int conf_fail(const struct conf_source *src, int err, const char *fmt, ...) printf_like(3, 4);

/* The same for an invalid value (@r, @why), with the prefix @whose. Return: @r. */
int conf_refuse(const struct conf_source *src, int r, const char *whose, const struct problem *why);

/* Sets built-in defaults, with the three built-in templates. Return: 0 or -ENOMEM. */
int conf_init(struct conf *c);

/**
 * conf_set() - Set one key of a section other than [template NAME], or an option
 * @c: Configuration
 * @section: Its section; ignored for an option (@src without a file), which may be from any except
 *	[store]
 * @key: Name
 * @value: Text, or NULL for an option without one
 * @src: Its origin
 *
 * Return: 0, -EINVAL with a message in @src, -ENOMEM.
 */
int conf_set(struct conf *c, enum conf_section section, const char *key, const char *value,
	     const struct conf_source *src);

/* Sets all options of one `-o a,b=c`; a comma is escaped by a backslash. Return: as conf_set(). */
int conf_set_options(struct conf *c, const char *text, const struct conf_source *src);

/* Finds the template called @name, or adds it; one of the configuration has the place of one of an image, if there is
 * no other. Return: NULL on failure, with a message in @src. */
struct conf_template *conf_template_get(struct conf *c, const char *name,
					const struct conf_source *src);

/* Sets one key of a [template NAME] section. Return: as conf_set(). */
int conf_template_set(struct conf_template *t, const char *key, const char *value,
		      const struct conf_source *src);

/* Sets one key of a [quota] section. Return: as conf_set(). */
int conf_quota_set(struct allowance *a, const char *key, const char *value,
		   const struct conf_source *src);

/* Reads sections and keys; @src has the file's name. Return: as conf_set(), -EIO. */
int conf_read(struct conf *c, FILE *file, struct conf_source *src);

/**
 * conf_read_images() - Read the templates that images bring along
 * @c: Configuration with its built-in defaults; one that is wrong is left out, and noted in `notes`
 * @cache_dir: The user's own images
 * @shared_dir: Those that root has built for all, or NULL; of a name that is in both, the user's own
 * @src: For a message
 *
 * Return: 0 or -ENOMEM.
 */
int conf_read_images(struct conf *c, const char *cache_dir, const char *shared_dir,
		     const struct conf_source *src);

/* Return: the bit in `by_image` and `by_conf` of a key that images may set, or 0. */
unsigned conf_image_bit(const char *key);

/* Templates that name an image begin with what that says, so far as the configuration says nothing else; before they are
 * settled. Return: 0 or -ENOMEM. */
int conf_inherit_images(struct conf *c, const struct conf_source *src);

/* Notes that an image's template is left out, and why. Return: 0 or -ENOMEM. */
int conf_leave_out(struct conf *c, const char *why);

/* Reads those files that another configuration has read: its `files`. @src has no file. Return: as
 * conf_read_again(). */
int conf_read_kept(struct conf *c, const struct buf *files, struct conf_source *src);

/* Likewise, but of them only that which @image has brought. */
int conf_read_kept_image(struct conf *c, const struct buf *files, const char *image,
			 const struct conf_source *src);

/* Reads a whole file, at most one byte more than it may have, and keeps it unless it is wrong. @src has its name.
 * Return: as conf_set(), -EIO. */
int conf_read_file(struct conf *c, int fd, struct conf_source *src);

/* Reads those that conf_put() wrote, and the mount point; of an image, one that is wrong is left out. Return: likewise,
 * -EBADMSG. */
int conf_read_again(struct conf *c, struct record_reader fields, struct conf_source *src);

/* Fills in what of the templates follows from other values, checks their settings against the
 * limits, and finds out which of them are to be prepared. Return: as conf_set(). */
int conf_settle_templates(struct conf *c, const struct conf_source *src);

/* Fills in paths derived from others and from the environment, and settles the templates.
 * Return: as conf_set(). */
int conf_settle(struct conf *c, const struct conf_source *src);

#endif
