/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a pack. See pack_record.h. */
#include "pack_record.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void put_head(struct proto_out *o, enum pack_kind kind, size_t len)
{
	put_u8(o, (uint8_t)kind);
	put_u32(o, (uint32_t)len);
}

static void put_name(struct proto_out *o, const struct pack_record *r)
{
	put_u8(o, (uint8_t)r->name_len);
	put_bytes(o, r->name, r->name_len);
	put_u8(o, 0);
}

static void put_attr(struct proto_out *o, const struct pack_record *r)
{
	put_u32(o, r->mode);
	put_u64(o, (uint64_t)r->mtime);
	put_u32(o, r->mtime_ns);
}

#define ATTR_SIZE 16u

void pack_record_put(struct proto_out *o, const struct pack_record *r)
{
	const size_t named = (size_t)r->name_len + 2;

	switch (r->kind) {
	case PACK_DIR:
	case PACK_OTHER:
		put_head(o, r->kind, ATTR_SIZE + named);
		put_attr(o, r);
		put_name(o, r);
		break;
	case PACK_FILE:
		put_head(o, r->kind, ATTR_SIZE + named + 9);
		put_attr(o, r);
		put_name(o, r);
		put_u64(o, r->size);
		put_u8(o, r->shared);
		break;
	case PACK_LINK:
		put_head(o, r->kind, ATTR_SIZE + named + 5 + r->target_len);
		put_attr(o, r);
		put_name(o, r);
		put_str(o, (struct proto_str){r->target, r->target_len});
		put_u8(o, 0);
		break;
	case PACK_SAME:
		put_head(o, r->kind, named + 4);
		put_name(o, r);
		put_u32(o, r->entry);
		break;
	case PACK_UP: put_head(o, r->kind, 0); break;
	case PACK_NUMBER:
		put_head(o, r->kind, 8);
		put_u64(o, r->number);
		break;
	case PACK_ORIGIN:
		put_head(o, r->kind, named);
		put_name(o, r);
		break;
	case PACK_DATA: o->bad = true; break;
	}
}

void pack_data_begin(struct proto_out *o, uint64_t offset, uint32_t len)
{
	put_head(o, PACK_DATA, 8 + (size_t)len);
	put_u64(o, offset);
}

static void get_name(struct proto_in *in, struct pack_record *r)
{
	struct proto_str name = {.len = get_u8(in)};

	name.data = (const char *)in->p;
	if (in->bad || (!name.len && r->kind != PACK_DIR) ||
	    name.len >= (size_t)(in->end - in->p) || name.data[name.len] != '\0' ||
	    (name.len && !proto_name_ok(name))) {
		in->bad = true;
		return;
	}
	in->p += name.len + 1;
	r->name = name.data;
	r->name_len = name.len;
}

static void get_target(struct proto_in *in, struct pack_record *r)
{
	const struct proto_str target = get_str(in, PROTO_LINK_MAX);

	if (get_u8(in) != 0 || !target.len || memchr(target.data, '\0', target.len))
		in->bad = true;
	r->target = target.data;
	r->target_len = target.len;
}

/* Printable, and not empty. */
static void get_text(struct proto_in *in, struct pack_record *r)
{
	struct proto_str text = {.len = get_u8(in)};

	text.data = (const char *)in->p;
	in->bad = in->bad || !text.len || text.len > PROTO_ORIGIN_MAX ||
		  text.len >= (size_t)(in->end - in->p) || text.data[text.len] != '\0';
	for (uint32_t i = 0; !in->bad && i < text.len; i++)
		in->bad = text.data[i] < ' ' || text.data[i] > '~';
	if (in->bad)
		return;
	in->p += text.len + 1;
	r->name = text.data;
	r->name_len = text.len;
}

/* Does the type in `mode` belong to this kind of record? */
static bool type_ok(const struct pack_record *r)
{
	switch (r->mode & S_IFMT) {
	case S_IFDIR: return r->kind == PACK_DIR;
	case S_IFREG: return r->kind == PACK_FILE;
	case S_IFLNK: return r->kind == PACK_LINK;
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK: return r->kind == PACK_OTHER;
	default: return false;
	}
}

static void get_attr(struct proto_in *in, struct pack_record *r)
{
	r->mode = get_u32(in);
	r->mtime = (int64_t)get_u64(in);
	r->mtime_ns = get_u32(in);
	get_name(in, r);
	if (!type_ok(r) || (r->mode & ~(S_IFMT | PACK_MODE_MASK)) || r->mtime_ns >= 1000000000)
		in->bad = true;
}

static void get_body(struct proto_in *in, struct pack_record *r)
{
	switch (r->kind) {
	case PACK_DIR:
	case PACK_OTHER: get_attr(in, r); return;
	case PACK_FILE:
		get_attr(in, r);
		r->size = get_u64(in);
		r->shared = get_u8(in);
		if (r->size > INT64_MAX)
			in->bad = true;
		return;
	case PACK_DATA:
		r->offset = get_u64(in);
		r->data = in->p;
		r->len = get_rest(in).len;
		if (!r->len || r->offset > INT64_MAX)
			in->bad = true;
		return;
	case PACK_LINK:
		get_attr(in, r);
		get_target(in, r);
		return;
	case PACK_SAME:
		get_name(in, r);
		r->entry = get_u32(in);
		return;
	case PACK_UP: return;
	case PACK_NUMBER:
		r->number = get_u64(in);
		in->bad = in->bad || !r->number;
		return;
	case PACK_ORIGIN: get_text(in, r); return;
	}
	in->bad = true;
}

int pack_record_get(struct proto_in *in, struct pack_record *ret_r)
{
	struct proto_in body = *in;
	uint32_t len;

	*ret_r = (struct pack_record){.name = "", .target = ""};
	if (in->end - in->p < PACK_HEADER)
		return -EAGAIN;
	ret_r->kind = (enum pack_kind)get_u8(&body);
	len = get_u32(&body);
	if (len > PACK_RECORD_MAX - PACK_HEADER)
		return -EPROTO;
	if ((size_t)(body.end - body.p) < len)
		return -EAGAIN;
	body.end = body.p + len;
	get_body(&body, ret_r);
	if (!get_end(&body))
		return -EPROTO;
	in->p = body.end;
	return 0;
}
