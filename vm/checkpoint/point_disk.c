/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk. See point_disk.h. */
#include "point_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "packed_ram.h"
#include "vm/base/io.h"
#include "vm/base/sparse.h"
#include "vm/base/util.h"

#define BYTES_MAX (1ull << 40)
#define BASE	  "base"
#define STREAM	  "stream"

/* ---- what is kept beside it ---- */

/* Never reused. */
enum {
	FACT_BASE_BYTES = 1,
	FACT_STREAM_BYTES,
	FACT_BASE_SUM,
	FACT_MACHINE,
	FACT_GENERATION,
	FACT_TSC_KHZ,
	FACT_OWN_KERNEL,
	FACT_KVM,
	FACT_MEMORY_MB,
	FACT_CPUS,
	FACT_NETWORK,
	FACT_ROOT,
	FACT_INTERPRETER,
};

void point_facts_put(struct buf *out, const struct point_facts *f)
{
	const struct point *p = &f->point;

	record_u64(out, FACT_BASE_BYTES, f->base_bytes);
	record_u64(out, FACT_STREAM_BYTES, f->stream_bytes);
	record_str(out, FACT_BASE_SUM, f->base_sum);
	record_bytes(out, FACT_MACHINE, f->machine, f->machine_len);
	record_u64(out, FACT_GENERATION, p->generation);
	record_u64(out, FACT_TSC_KHZ, p->tsc_khz);
	record_u64(out, FACT_OWN_KERNEL, p->own_kernel);
	record_u64(out, FACT_KVM, p->kvm);
	record_u64(out, FACT_MEMORY_MB, p->fit.memory_mb);
	record_u64(out, FACT_CPUS, p->fit.cpus);
	record_u64(out, FACT_NETWORK, p->fit.network);
	record_u64(out, FACT_ROOT, p->fit.root);
	record_str(out, FACT_INTERPRETER, p->fit.interpreter);
}

static int get_fact(const struct record_field *field, struct point_facts *f)
{
	struct point *p = &f->point;

	switch (field->tag) {
	case FACT_BASE_BYTES: return record_get(field, 1, BYTES_MAX, &f->base_bytes);
	case FACT_STREAM_BYTES: return record_get(field, 1, BYTES_MAX, &f->stream_bytes);
	case FACT_BASE_SUM: return record_get_str(field, f->base_sum, sizeof(f->base_sum));
	case FACT_GENERATION: return record_get_u32(field, UINT32_MAX, &p->generation);
	case FACT_TSC_KHZ: return record_get(field, 0, UINT64_MAX, &p->tsc_khz);
	case FACT_OWN_KERNEL: return record_get_bool(field, &p->own_kernel);
	case FACT_KVM: return record_get_bool(field, &p->kvm);
	case FACT_MEMORY_MB: return record_get_u32(field, 1u << 20, &p->fit.memory_mb);
	case FACT_CPUS: return record_get_u32(field, 4096, &p->fit.cpus);
	case FACT_NETWORK: return record_get_bool(field, &p->fit.network);
	case FACT_ROOT: return record_get_bool(field, &p->fit.root);
	case FACT_INTERPRETER:
		return record_get_str(field, p->fit.interpreter, sizeof(p->fit.interpreter));
	case FACT_MACHINE:
		if (!field->is_bytes || field->len > POINT_MACHINE_MAX)
			return -EBADMSG;
		f->machine = field->data;
		f->machine_len = field->len;
		return 0;
	default: return 0; /* a later version's */
	}
}

int point_facts_get(const struct record_field *field, struct point_facts *ret_facts)
{
	struct point_facts f = {.point = {.base = -1, .stream = -1, .disk = -1}};
	struct record_reader in = record_inside(field);
	struct record_field each;
	int r;

	while ((r = record_field(&in, &each)) > 0) {
		r = get_fact(&each, &f);
		if (r < 0)
			return r;
	}
	if (r < 0 || !f.base_bytes || !f.stream_bytes || !f.machine ||
	    strlen(f.base_sum) != DIGEST_HEX - 1)
		return -EBADMSG;
	*ret_facts = f;
	return 0;
}

/* ---- files ---- */

static int size_of(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

/* Return: 0 or -errno. */
static int write_ram(const struct seal_key *key, const char *what, int dir, const char *name,
		     int from, uint64_t size)
{
	_cleanup_close_ int to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct file_sink file = file_sink(to);
	struct sealer *sealer = NULL;
	int r = to < 0 ? -errno : sealer_new(key, what, &file.sink, &sealer);

	if (r == 0)
		r = packed_ram_write(from, size, sealer_sink(sealer));
	if (r == 0)
		r = sealer_end(sealer);
	sealer_free(sealer);
	return r == 0 && fsync(to) < 0 ? -errno : r;
}

/* Return: a sealed file in memory, or -errno. */
static int read_ram(const struct seal_key *key, const char *what, int dir, const char *name,
		    uint64_t size)
{
	_cleanup_close_ int from = fileio_open(dir, name);
	struct file_source file = file_source(from);
	struct unsealer *unsealer;
	int r;

	if (from < 0)
		return from == -ENOENT ? -EBADMSG : from;
	r = unsealer_new(key, what, &file.source, &unsealer);
	if (r < 0)
		return r;
	r = packed_ram_read(unsealer_source(unsealer), size);
	unsealer_free(unsealer);
	return r;
}

/* ---- storing ---- */

static int store_base(const struct seal_key *key, const char *what, int dir, int bases,
		      const struct point *p, const struct point_facts *f)
{
	char name[SEAL_NAME];
	int r = seal_name(key, f->base_sum, name);

	if (r < 0)
		return r;
	/* Where that can't be, for one reason or another, this point has its own. */
	if (linkat(bases, name, dir, BASE, 0) == 0)
		return 0;
	r = write_ram(key, what, dir, BASE, p->base, f->base_bytes);
	if (r == 0)
		(void)!linkat(dir, BASE, bases, name, 0);
	return r;
}

int point_store(const struct seal_key *key, const char *id, int dir, int bases,
		const struct point *p, const char *base_sum, struct point_facts *ret_facts)
{
	struct point_facts f = {.point = *p,
				.machine = p->machine ? p->machine : POINT_UNDESCRIBED};
	int r = size_of(p->base, &f.base_bytes);

	f.machine_len = strlen(f.machine);
	if (r == 0)
		r = size_of(p->stream, &f.stream_bytes);
	if (r == 0 && *base_sum)
		snprintf(f.base_sum, sizeof(f.base_sum), "%s", base_sum);
	else if (r == 0)
		r = sparse_sum(p->base, (off_t)f.base_bytes, f.base_sum);
	if (r == 0)
		r = store_base(key, seal_purpose("base", f.base_sum).text, dir, bases, p, &f);
	if (r == 0)
		r = write_ram(key, seal_purpose("stream", id).text, dir, STREAM, p->stream,
			      f.stream_bytes);
	if (r == 0)
		*ret_facts = f;
	return r;
}

/* ---- loading ---- */

static int load_files(const struct seal_key *key, const char *id, int dir,
		      const struct point_facts *f, int base, struct point *p)
{
	p->stream = read_ram(key, seal_purpose("stream", id).text, dir, STREAM, f->stream_bytes);
	if (p->stream < 0)
		return p->stream;
	if (base < 0)
		p->base = read_ram(key, seal_purpose("base", f->base_sum).text, dir, BASE,
				   f->base_bytes);
	else
		p->base = fcntl(base, F_DUPFD_CLOEXEC, 3);
	return p->base >= 0 ? 0 : base < 0 ? p->base : -errno;
}

int point_load(const struct seal_key *key, const char *id, int dir, const struct point_facts *f,
	       int base, struct point **ret_point)
{
	struct point *p = point_new();
	struct stat st = {0};
	int r;

	if (!p)
		return -ENOMEM;
	p->generation = f->point.generation;
	p->tsc_khz = f->point.tsc_khz;
	p->own_kernel = f->point.own_kernel;
	p->kvm = f->point.kvm;
	p->fit = f->point.fit;
	p->machine = strndup(f->machine, f->machine_len);
	r = p->machine ? load_files(key, id, dir, f, base, p) : -ENOMEM;
	if (r == 0 && fstat(p->stream, &st) < 0)
		r = -errno;
	if (r < 0) {
		point_unref(p);
		return r;
	}
	p->bytes = (uint64_t)st.st_blocks * 512; /* the base is counted where bases are */
	*ret_point = p;
	return 0;
}

void point_clean(int bases)
{
	_cleanup_dir_ DIR *d = fileio_list(bases, ".");
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.' &&
		    fstatat(bases, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_nlink == 1)
			(void)unlinkat(bases, e->d_name, 0);
	}
}
