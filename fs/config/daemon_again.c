/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration as it was read, for a daemon that goes on where one has died. */
#include "daemon_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/util.h"

/* Never reuse one. */
enum {
	TAG_MOUNTPOINT = 1,
	TAG_FILE, /* its fields, in the order in which they were read: */
	TAG_USER, /* before them: whom [quota USER] names */
};

enum { TAG_FILE_NAME = 1, TAG_FILE_TEXT, TAG_FILE_IMAGE };

enum { TAG_USER_NAME = 1, TAG_USER_ID };

/* A byte more than there may be shows that there are too many. */
static int slurp(int fd, struct buf *text)
{
	char some[4096];
	ssize_t n;

	do {
		n = read(fd, some, MIN(sizeof(some), CONF_FILE_BYTES + 1 - text->len));
		if (n > 0 && buf_append(text, some, (size_t)n) < 0)
			return -ENOMEM;
	} while ((n > 0 && text->len <= CONF_FILE_BYTES) || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

static int keep(struct conf *c, const struct conf_source *src, const struct buf *text)
{
	const size_t at = record_open(&c->files, TAG_FILE);

	record_str(&c->files, TAG_FILE_NAME, src->file);
	record_str(&c->files, TAG_FILE_IMAGE, src->only);
	record_bytes(&c->files, TAG_FILE_TEXT, text->data, text->len);
	record_close(&c->files, at);
	return c->files.failed ? -ENOMEM : 0;
}

static int parse(struct conf *c, const char *data, size_t len, struct conf_source *src)
{
	_cleanup_file_ FILE *file = NULL;

	if (!len)
		return 0;
	file = fmemopen((void *)data, len, "r");
	return file ? conf_read(c, file, src) : -errno;
}

/* What is wrong is not kept: nobody is to read it again. */
static int apply(struct conf *c, const struct buf *text, struct conf_source *src)
{
	int r = parse(c, text->data, text->len, src);

	return r < 0 ? r : keep(c, src, text);
}

int conf_read_file(struct conf *c, int fd, struct conf_source *src)
{
	struct buf text = {0};
	int r = slurp(fd, &text);

	if (r < 0 && r != -ENOMEM)
		r = conf_fail(src, -r, "cannot be read: %s", strerror(-r));
	if (r == 0)
		r = apply(c, &text, src);
	buf_clear(&text);
	return r;
}

int conf_put(const struct conf *c, struct buf *out)
{
	record_str(out, TAG_MOUNTPOINT, c->mountpoint);
	for (size_t i = 0; i < c->known.n; i++) {
		const size_t at = record_open(out, TAG_USER);

		record_str(out, TAG_USER_NAME, c->known.user[i].name);
		record_u64(out, TAG_USER_ID, c->known.user[i].uid);
		record_close(out, at);
	}
	return buf_append(out, c->files.data, c->files.len);
}

/* ---- once more ---- */

/* @image: only if it is that one's; or NULL */
static int get_file(struct conf *c, struct record_reader fields, const char *image,
		    struct conf_source *src)
{
	struct buf text = {.limit = CONF_FILE_BYTES + 1};
	char name[PATH_MAX] = "", only[PLAIN_NAME_MAX + 1] = "";
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_FILE_NAME)
			r = record_get_str(&f, name, sizeof(name));
		else if (f.tag == TAG_FILE_IMAGE)
			r = record_get_str(&f, only, sizeof(only));
		else if (f.tag == TAG_FILE_TEXT)
			r = record_get_buf(&f, &text);
		if (r < 0)
			break;
	}
	src->file = name;
	src->only = *only ? only : NULL;
	if (r == 0 && (!image || strcmp(only, image) == 0))
		r = apply(c, &text, src);
	/* As at the mount: that goes on without. */
	if (r == -EINVAL && src->only)
		r = conf_leave_out(c, src->why);
	src->file = src->only = NULL;
	buf_clear(&text);
	return r;
}

/* Who has a name may be another one by now, or nobody. */
static int get_user(struct conf *c, struct record_reader fields)
{
	char name[sizeof(c->known.user->name)] = "";
	struct record_field f;
	uid_t uid = 0;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_USER_NAME)
			r = record_get_str(&f, name, sizeof(name));
		else if (f.tag == TAG_USER_ID)
			r = record_get_u32(&f, UINT32_MAX - 1, &uid);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : quotas_know(&c->known, name, uid);
}

int conf_read_again(struct conf *c, struct record_reader fields, struct conf_source *src)
{
	char path[PATH_MAX];
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_MOUNTPOINT && !c->mountpoint) {
			r = record_get_str(&f, path, sizeof(path));
			c->mountpoint = r == 0 ? strdup(path) : NULL;
			if (r == 0 && !c->mountpoint)
				r = -ENOMEM;
		} else if (f.tag == TAG_USER) {
			r = get_user(c, record_inside(&f));
		} else if (f.tag == TAG_FILE) {
			r = get_file(c, record_inside(&f), NULL, src);
		}
		if (r < 0)
			return r;
	}
	return r == 0 && !c->mountpoint ? -EBADMSG : r;
}

static int read_kept(struct conf *c, const struct buf *files, const char *image,
		     struct conf_source *src)
{
	struct record_reader fields = record_reader(files->data, files->len);
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_file(c, record_inside(&f), image, src);
		if (r < 0)
			return r;
	}
	return r;
}

int conf_read_kept(struct conf *c, const struct buf *files, struct conf_source *src)
{
	return read_kept(c, files, NULL, src);
}

int conf_read_kept_image(struct conf *c, const struct buf *files, const char *image,
			 const struct conf_source *src)
{
	struct conf_source mine = *src;

	return read_kept(c, files, image, &mine);
}
