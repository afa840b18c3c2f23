/* SPDX-License-Identifier: Apache-2.0 */
/* Reads local objects, chunk by chunk. */
#include "offer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "vm/base/sparse.h"
#include "chunk.h"

/* ---- its files ---- */

static int add_file(struct offer *o, int dir, const char *name)
{
	struct manifest_file *f = &o->m.files[o->m.nfiles];
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!store_key_valid(name) || o->m.nfiles == MANIFEST_FILES_MAX)
		return -EINVAL;
	fd = fileio_open(dir, name);
	if (fd < 0)
		return fd == -EBADMSG ? -EINVAL : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > MANIFEST_FILE_MAX)
		return -EFBIG;
	snprintf(f->name, sizeof(f->name), "%.*s", STORE_KEY_MAX, name);
	f->bytes = (uint64_t)st.st_size;
	o->files[o->m.nfiles++] = steal_fd(&fd);
	return 0;
}

/* But for what an image or a layer was unpacked into, which is made of it where it is needed. */
static int is_shown(const struct dirent *e)
{
	return e->d_name[0] != '.' && strcmp(e->d_name, STORE_TREE) != 0;
}

/* In the order of their names, so that the same object gives the same manifest. */
static int add_files(struct offer *o, int dir)
{
	struct dirent **names = NULL;
	const int n = scandirat(dir, ".", &names, is_shown, alphasort);
	int r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_file(o, dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return r < 0 ? r : o->m.nfiles ? 0 : -EINVAL;
}

int offer_open(const char *dir, enum store_kind kind, const char *key, uint32_t chunk_bytes,
	       struct offer *ret_o)
{
	struct offer *o = ret_o;
	_cleanup_close_ int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	int r;

	*o = (struct offer){.m = {.kind = kind, .chunk_bytes = chunk_bytes}};
	snprintf(o->m.key, sizeof(o->m.key), "%s", key);
	if (parent < 0)
		return -errno;
	fd = openat(parent, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	o->block = malloc(chunk_bytes);
	o->packed = malloc(chunk_stored_max(chunk_bytes));
	r = o->block && o->packed ? add_files(o, fd) : -ENOMEM;
	if (r < 0)
		offer_close(o);
	return r;
}

void offer_close(struct offer *o)
{
	char unused[DIGEST_HEX];

	for (size_t i = 0; i < o->m.nfiles; i++)
		close(o->files[i]);
	manifest_clear(&o->m);
	if (o->sum)
		(void)digest_end(o->sum, unused);
	o->sum = NULL;
	free(o->block);
	free(o->packed);
	o->block = o->packed = NULL;
}

/* ---- its chunks ---- */

size_t offer_chunks(const struct offer *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->m.nfiles; i++)
		n += (size_t)(o->m.files[i].bytes / o->m.chunk_bytes) + 1;
	return n;
}

static int end_file(struct offer *o, struct manifest_file *f)
{
	o->file++;
	o->at = 0;
	return digest_end(steal_ptr(o->sum), f->sha256);
}

/* Return: 1, or 0 if the chunk has nothing but zeroes, or -errno. */
static int take_chunk(struct offer *o)
{
	struct manifest_chunk c = {.file = (uint32_t)o->file,
				   .index = (uint32_t)(o->at / o->m.chunk_bytes)};
	const uint32_t len = manifest_chunk_bytes(&o->m, &c);
	size_t stored = 0;
	int r = fileio_read_at(o->files[o->file], o->block, len, o->at);

	if (r < 0)
		return r;
	sparse_add(o->sum, o->block, len, o->at);
	o->at += len;
	if (sparse_is_zero(o->block, len))
		return 0;
	r = chunk_pack(o->block, len, o->packed, &stored, c.sha256);
	c.stored = (uint32_t)stored;
	if (r == 0)
		r = manifest_add(&o->m, &c);
	return r < 0 ? r : 1;
}

int offer_next(struct offer *o)
{
	while (o->file < o->m.nfiles) {
		struct manifest_file *f = &o->m.files[o->file];
		int r;

		if (!o->sum)
			o->sum = digest_new();
		if (!o->sum)
			return -ENOMEM;
		o->at = sparse_next(o->files[o->file], o->at, (off_t)f->bytes);
		if (o->at < 0)
			return (int)o->at;
		o->at -= o->at < (off_t)f->bytes ? o->at % (off_t)o->m.chunk_bytes : 0;
		r = o->at < (off_t)f->bytes ? take_chunk(o) : end_file(o, f);
		if (r)
			return r;
	}
	return 0;
}
