/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved, in a record. See saved_record.h. */
#include "saved_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "pack_internal.h"
#include "pack_maker.h"
#include "point.h"
#include "saved.h"
#include "vault.h"
#include "vm/base/digest.h"
#include "vm/base/lent.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"
#include "vm/image/layer.h"

/*
 * Both lie in files in memory, of which the descriptors go along. Those of a machine's memory are not looked at here either: they
 * are for QEMU alone. The records of files are read once more, and a pack is made of them as if a sandbox had sent them.
 */

/* Never reuse. */
enum saved_tag {
	TAG_PACK = 1,
	TAG_PACK_SIZE,
	TAG_CHANGED,
	TAG_LEFT_OUT,
	TAG_POINT,
	TAG_ID,	     /* it is on the disk by this name: that is all */
	TAG_OF,	     /* it is the files of what is on the disk by this name: that is all */
	TAG_DAMAGED, /* of TAG_ID: it was found to be */
};

/* Never reuse. */
enum point_tag {
	TAG_BASE = 1,
	TAG_DISK,
	TAG_STREAM,
	TAG_BYTES,
	TAG_OWN_KERNEL,
	TAG_KVM,
	TAG_GENERATION,
	TAG_TSC,
	TAG_MEMORY,
	TAG_CPUS,
	TAG_NETWORK,
	TAG_ROOT,
	TAG_LAYER,
	TAG_INTERPRETER,
	TAG_MACHINE,
};

#define PACK_MOST    (64ull << 30)
#define ENTRIES_MOST (1u << 24)

/* ---- writing ---- */

static void put_point(const struct point *p, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_BASE, fdbag_put(fds, p->base));
	record_u64(out, TAG_DISK, fdbag_put(fds, p->disk));
	record_u64(out, TAG_STREAM, fdbag_put(fds, p->stream));
	record_u64(out, TAG_BYTES, p->bytes);
	record_u64(out, TAG_OWN_KERNEL, p->own_kernel);
	record_u64(out, TAG_KVM, p->kvm);
	record_u64(out, TAG_GENERATION, p->generation);
	record_u64(out, TAG_TSC, p->tsc_khz);
	record_u64(out, TAG_MEMORY, p->fit.memory_mb);
	record_u64(out, TAG_CPUS, p->fit.cpus);
	record_u64(out, TAG_NETWORK, p->fit.network);
	record_u64(out, TAG_ROOT, p->fit.root);
	record_str(out, TAG_LAYER, p->layer ? p->layer->key : NULL);
	record_str(out, TAG_INTERPRETER, p->fit.interpreter);
	record_str(out, TAG_MACHINE, p->machine);
}

int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds)
{
	const struct pack *pack = saved_pack(s);
	const struct point *point = saved_point(s);

	if (saved_id(s)) {
		record_str(out, TAG_ID, saved_id(s));
		record_u64(out, TAG_DAMAGED, saved_is_damaged(s));
		return 0;
	}
	if (!pack) {
		record_str(out, TAG_OF, saved_files_of(s));
		return 0;
	}
	record_u64(out, TAG_PACK, fdbag_put(fds, pack->fd));
	record_u64(out, TAG_PACK_SIZE, pack->size);
	record_u64(out, TAG_CHANGED, pack->flaws.changed);
	record_u64(out, TAG_LEFT_OUT, pack->flaws.left_out);
	if (point) {
		const size_t at = record_open(out, TAG_POINT);

		put_point(point, out, fds);
		record_close(out, at);
	}
	return fds->failed ? -ENOMEM : 0;
}

/* ---- reading ---- */

static int take_file(const struct record_field *f, struct fdbag *fds, int *ret_fd)
{
	uint32_t n = 0;
	int r = record_get_u32(f, UINT32_MAX, &n);

	if (r < 0 || *ret_fd >= 0)
		return -EBADMSG;
	*ret_fd = fdbag_take(fds, n);
	return n && *ret_fd < 0 ? -EBADMSG : 0;
}

static int take_layer(struct point *p, const struct record_field *f, struct layers *layers)
{
	char key[DIGEST_HEX];
	int r = record_get_str(f, key, sizeof(key));

	if (r < 0 || p->layer || !digest_is_hex(key)) /* else it would be a path */
		return -EBADMSG;
	p->layer = layer_get(layers, key);
	p->fit.layer = p->layer;
	return p->layer ? 0 : -ENOENT;
}

static int take_machine(struct point *p, const struct record_field *f)
{
	const size_t size = MIN(f->len, POINT_MACHINE_MAX) + 1;

	if (p->machine)
		return -EBADMSG;
	p->machine = malloc(size);
	return p->machine ? record_get_str(f, p->machine, size) : -ENOMEM;
}

static int take_point_field(struct point *p, const struct record_field *f, struct layers *layers,
			    struct fdbag *fds)
{
	switch ((enum point_tag)f->tag) {
	case TAG_BASE: return take_file(f, fds, &p->base);
	case TAG_DISK: return take_file(f, fds, &p->disk);
	case TAG_STREAM: return take_file(f, fds, &p->stream);
	case TAG_BYTES: return record_get(f, 0, UINT64_MAX, &p->bytes);
	case TAG_OWN_KERNEL: return record_get_bool(f, &p->own_kernel);
	case TAG_KVM: return record_get_bool(f, &p->kvm);
	case TAG_GENERATION: return record_get_u32(f, UINT32_MAX, &p->generation);
	case TAG_TSC: return record_get(f, 0, UINT64_MAX, &p->tsc_khz);
	case TAG_MEMORY: return record_get_u32(f, 1u << 24, &p->fit.memory_mb);
	case TAG_CPUS: return record_get_u32(f, 1u << 12, &p->fit.cpus);
	case TAG_NETWORK: return record_get_bool(f, &p->fit.network);
	case TAG_ROOT: return record_get_bool(f, &p->fit.root);
	case TAG_LAYER: return take_layer(p, f, layers);
	case TAG_INTERPRETER:
		return record_get_str(f, p->fit.interpreter, sizeof(p->fit.interpreter));
	case TAG_MACHINE: return take_machine(p, f);
	default: return 0;
	}
}

static int take_point(struct record_reader fields, struct layers *layers, struct fdbag *fds,
		      struct point **ret_point)
{
	struct point *p = *ret_point ? NULL : point_new();
	struct record_field f;
	int r;

	if (!p)
		return *ret_point ? -EBADMSG : -ENOMEM;
	while ((r = record_field(&fields, &f)) > 0) {
		r = take_point_field(p, &f, layers, fds);
		if (r < 0)
			break;
	}
	if (r == 0 && (p->base < 0 || p->stream < 0 || !p->fit.memory_mb || !p->fit.cpus))
		r = -EBADMSG;
	if (r == 0)
		*ret_point = p;
	else
		point_unref(p);
	return r;
}

/* Makes a pack of the records in @fd, of @size bytes. */
static int make_pack(int fd, uint64_t size, const struct pack_flaws *flaws, struct pack **ret_pack)
{
	static const struct pack_limits limits = {PACK_MOST, ENTRIES_MOST};
	const int sealed = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
	struct pack_maker *maker = NULL;
	const char *map;
	struct stat st;
	size_t used;
	int r;

	if (fd < 0 || size == 0 || size > PACK_MOST)
		return -EBADMSG;
	/* What is mapped is there, and stays. */
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < size ||
	    (fcntl(fd, F_GET_SEALS) & sealed) != sealed)
		return -EBADMSG;
	map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = pack_maker_new(&limits, &maker);
	if (r == 0)
		r = pack_maker_add(maker, map, size, &used);
	munmap((void *)map, size);
	if (r == 0 && used == size)
		return pack_maker_end(maker, flaws, ret_pack);
	pack_maker_free(maker);
	return r < 0 && r != -EPROTO ? r : -EBADMSG;
}

/* Return: -ENOMEM. */
static int remember(struct saved_packs *packs, unsigned number, struct pack *pack)
{
	struct saved_pack_taken *more = packs->at;

	if (!(packs->n &
	      (packs->n - 1))) /* there is room for a power of two of them, or none yet */
		more = reallocarray(packs->at, packs->n ? 2 * packs->n : 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	packs->at = more;
	more[packs->n++] = (struct saved_pack_taken){number, pack_ref(pack)};
	return 0;
}

static struct pack *find_taken(const struct saved_packs *packs, unsigned number)
{
	for (size_t i = 0; i < packs->n; i++)
		if (packs->at[i].number == number)
			return packs->at[i].pack;
	return NULL;
}

void saved_packs_drop(struct saved_packs *packs)
{
	for (size_t i = 0; i < packs->n; i++)
		pack_unref(packs->at[i].pack);
	free(packs->at);
	*packs = (struct saved_packs){0};
}

/* What the fields say of it. */
struct taken {
	uint32_t number; /* of `fd`, -1: it was taken before */
	int fd;
	uint64_t size;
	struct pack_flaws flaws;
	struct point *point;
	char id[SAVED_ID_MAX], of[SAVED_ID_MAX];
	bool damaged;
};

static int take_number(struct taken *t, const struct record_field *f, struct fdbag *fds)
{
	const int r = t->number ? -EBADMSG : record_get_u32(f, UINT32_MAX, &t->number);

	if (r == 0)
		t->fd = fdbag_take(fds, t->number);
	return r;
}

static int take_field(struct taken *t, const struct record_field *f, struct layers *layers,
		      struct fdbag *fds)
{
	switch ((enum saved_tag)f->tag) {
	case TAG_PACK: return take_number(t, f, fds);
	case TAG_PACK_SIZE: return record_get(f, 0, PACK_MOST, &t->size);
	case TAG_CHANGED: return record_get_u32(f, UINT32_MAX, &t->flaws.changed);
	case TAG_LEFT_OUT: return record_get_u32(f, UINT32_MAX, &t->flaws.left_out);
	case TAG_POINT: return take_point(record_inside(f), layers, fds, &t->point);
	case TAG_ID: return record_get_str(f, t->id, sizeof(t->id));
	case TAG_OF: return record_get_str(f, t->of, sizeof(t->of));
	case TAG_DAMAGED: return record_get_bool(f, &t->damaged);
	default: return 0;
	}
}

/* Also one that can't be read any more: whose it is keeps it. So it is with whatever else is wrong with the disk, or the key, if
 * there is nobody who would have it still. */
static int find(struct vault *vault, const char *id, bool died, struct saved **ret_saved)
{
	struct problem why;
	const int r = vault ? vault_find(vault, id, ret_saved, &why) : -ENOENT;

	if (r == -EBADMSG || (died && r < 0 && r != -ENOENT && !saved_take_passes(r)))
		return vault_stand_in(vault, id, ret_saved);
	return r;
}

static int find_whole(struct vault *vault, const struct taken *t, bool died,
		      struct saved **ret_saved)
{
	const int r = find(vault, t->id, died, ret_saved);

	if (r == 0 && t->damaged)
		saved_set_damaged(*ret_saved, true);
	return r;
}

/* The files alone of what is on the disk by the name @id. */
static int find_files(struct vault *vault, const char *id, bool died, struct saved **ret_saved)
{
	struct saved *whole = NULL;
	int r = find(vault, id, died, &whole);

	if (r < 0)
		return r;
	*ret_saved = saved_files_only(whole);
	saved_unref(whole);
	return *ret_saved ? 0 : -ENOMEM;
}

/* The files, of which another record may have been before. */
static int take_pack(const struct taken *t, struct saved_packs *packs, struct pack **ret_pack)
{
	struct pack *before = t->fd < 0 ? find_taken(packs, t->number) : NULL;
	int r;

	if (before && before->size == t->size) {
		*ret_pack = pack_ref(before);
		return 0;
	}
	r = make_pack(t->fd, t->size, &t->flaws, ret_pack);
	if (r == 0)
		r = remember(packs, t->number, *ret_pack);
	if (r == -ENOMEM)
		*ret_pack = pack_unref(*ret_pack);
	return r;
}

int saved_take(struct vault *vault, struct layers *layers, struct saved_packs *packs,
	       struct record_reader fields, struct fdbag *fds, bool died, struct saved **ret_saved)
{
	struct taken t = {.fd = -1};
	struct pack *pack = NULL;
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = take_field(&t, &f, layers, fds);
		if (r < 0)
			break;
	}
	if (r == 0 && (*t.id || *t.of) && !t.number && !t.point)
		return *t.id ? find_whole(vault, &t, died, ret_saved)
			     : find_files(vault, t.of, died, ret_saved);
	if (r == 0)
		r = take_pack(&t, packs, &pack);
	lent_close(&t.fd);
	if (r < 0) {
		point_unref(t.point);
		return r;
	}
	*ret_saved = saved_new(pack, t.point);
	return *ret_saved ? 0 : -ENOMEM;
}
