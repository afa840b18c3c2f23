/* SPDX-License-Identifier: Apache-2.0 */
/* Packing and unpacking of the agent protocol; shared by the agent and by vm/. */
#include "protocol.h"

#include <errno.h>
#include <string.h>

void put_bytes(struct proto_out *o, const void *data, size_t len)
{
	if (o->bad || len > o->cap - o->len) {
		o->bad = true;
		return;
	}
	if (len)
		memcpy(o->data + o->len, data, len);
	o->len += len;
}

void put_u8(struct proto_out *o, uint8_t v)
{
	put_bytes(o, &v, 1);
}

void put_u32(struct proto_out *o, uint32_t v)
{
	const uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
			      (uint8_t)(v >> 24)};

	put_bytes(o, b, sizeof(b));
}

void put_u64(struct proto_out *o, uint64_t v)
{
	put_u32(o, (uint32_t)v);
	put_u32(o, (uint32_t)(v >> 32));
}

void put_str(struct proto_out *o, struct proto_str s)
{
	put_u32(o, s.len);
	put_bytes(o, s.data, s.len);
}

void get_bytes(struct proto_in *in, void *dst, size_t len)
{
	if (in->bad || len > (size_t)(in->end - in->p)) {
		in->bad = true;
		memset(dst, 0, len);
		return;
	}
	memcpy(dst, in->p, len);
	in->p += len;
}

uint8_t get_u8(struct proto_in *in)
{
	uint8_t v;

	get_bytes(in, &v, 1);
	return v;
}

uint32_t get_u32(struct proto_in *in)
{
	uint8_t b[4];

	get_bytes(in, b, sizeof(b));
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t get_u64(struct proto_in *in)
{
	uint64_t low = get_u32(in);

	return low | (uint64_t)get_u32(in) << 32;
}

struct proto_str get_str(struct proto_in *in, uint32_t max)
{
	struct proto_str s = {"", get_u32(in)};

	if (in->bad || s.len > max || s.len > (size_t)(in->end - in->p)) {
		in->bad = true;
		s.len = 0;
		return s;
	}
	s.data = (const char *)in->p;
	in->p += s.len;
	return s;
}

struct proto_str get_rest(struct proto_in *in)
{
	struct proto_str s = {(const char *)in->p, (uint32_t)(in->end - in->p)};

	if (in->bad)
		s.len = 0;
	else
		in->p = in->end;
	return s;
}

bool get_end(const struct proto_in *in)
{
	return !in->bad && in->p == in->end;
}

struct proto_str proto_cstr(const char *s)
{
	return (struct proto_str){s, (uint32_t)strlen(s)};
}

void proto_header_pack(const struct proto_header *h, uint8_t wire[PROTO_HEADER])
{
	struct proto_out o = {wire, 0, PROTO_HEADER, false};

	put_u32(&o, h->length);
	put_u8(&o, (uint8_t)h->type);
	put_u8(&o, (uint8_t)(h->type >> 8));
	put_u8(&o, h->flags);
	put_u8(&o, h->generation);
	put_u32(&o, h->id);
}

int proto_header_unpack(const uint8_t wire[PROTO_HEADER], struct proto_header *ret_h)
{
	struct proto_in in = {wire, wire + PROTO_HEADER, false};
	struct proto_header h;

	h.length = get_u32(&in);
	h.type = get_u8(&in);
	h.type |= (uint16_t)(get_u8(&in) << 8);
	h.flags = get_u8(&in);
	h.generation = get_u8(&in);
	h.id = get_u32(&in);
	if (h.length > PROTO_PAYLOAD_MAX)
		return -EPROTO;
	*ret_h = h;
	return 0;
}

static const char *const type_names[] = {
	[PROTO_HELLO] = "HELLO",
	[PROTO_PING] = "PING",
	[PROTO_SETUP] = "SETUP",
	[PROTO_RUN] = "RUN",
	[PROTO_STDIN] = "STDIN",
	[PROTO_SIGNAL] = "SIGNAL",
	[PROTO_CREDIT] = "CREDIT",
	[PROTO_RESET] = "RESET",
	[PROTO_USAGE] = "USAGE",
	[PROTO_SHUTDOWN] = "SHUTDOWN",
	[PROTO_WARM] = "WARM",
	[PROTO_CLOCK] = "CLOCK",
	[PROTO_TRUST] = "TRUST",
	[PROTO_FREEZE] = "FREEZE",
	[PROTO_F_LOOKUP] = "F_LOOKUP",
	[PROTO_F_FORGET] = "F_FORGET",
	[PROTO_F_GETATTR] = "F_GETATTR",
	[PROTO_F_SETATTR] = "F_SETATTR",
	[PROTO_F_READLINK] = "F_READLINK",
	[PROTO_F_MKDIR] = "F_MKDIR",
	[PROTO_F_SYMLINK] = "F_SYMLINK",
	[PROTO_F_LINK] = "F_LINK",
	[PROTO_F_UNLINK] = "F_UNLINK",
	[PROTO_F_RMDIR] = "F_RMDIR",
	[PROTO_F_RENAME] = "F_RENAME",
	[PROTO_F_OPEN] = "F_OPEN",
	[PROTO_F_CREATE] = "F_CREATE",
	[PROTO_F_READ] = "F_READ",
	[PROTO_F_WRITE] = "F_WRITE",
	[PROTO_F_RELEASE] = "F_RELEASE",
	[PROTO_F_FSYNC] = "F_FSYNC",
	[PROTO_F_FALLOCATE] = "F_FALLOCATE",
	[PROTO_F_SEEK] = "F_SEEK",
	[PROTO_F_OPENDIR] = "F_OPENDIR",
	[PROTO_F_READDIR] = "F_READDIR",
	[PROTO_F_STATFS] = "F_STATFS",
	[PROTO_F_LOCK] = "F_LOCK",
	[PROTO_F_TEST_LOCK] = "F_TEST_LOCK",
	[PROTO_F_DROP_LOCKS] = "F_DROP_LOCKS",
	[PROTO_F_CANCEL_LOCK] = "F_CANCEL_LOCK",
	[PROTO_HELLO_OK] = "HELLO_OK",
	[PROTO_PONG] = "PONG",
	[PROTO_READY] = "READY",
	[PROTO_FAILED] = "FAILED",
	[PROTO_OUTPUT] = "OUTPUT",
	[PROTO_EXIT] = "EXIT",
	[PROTO_STDIN_CREDIT] = "STDIN_CREDIT",
	[PROTO_USAGE_REPLY] = "USAGE_REPLY",
	[PROTO_LOG] = "LOG",
	[PROTO_FILE_REPLY] = "FILE_REPLY",
	[PROTO_CLOCK_OK] = "CLOCK_OK",
	[PROTO_LOCKED] = "LOCKED",
	[PROTO_FROZEN] = "FROZEN",
	[PROTO_TRACED] = "TRACED",
};

const char *proto_type_name(unsigned type)
{
	if (type >= sizeof(type_names) / sizeof(type_names[0]) || !type_names[type])
		return "unknown";
	return type_names[type];
}

void proto_setup_pack(struct proto_out *o, const struct proto_setup *s)
{
	put_str(o, s->language);
	put_u64(o, s->files_bytes);
	put_u64(o, s->tmp_bytes);
	put_u32(o, s->files_inodes);
	put_u32(o, s->tmp_inodes);
	put_u32(o, s->nproc);
	put_u32(o, s->nofile);
	put_u64(o, s->fsize);
	put_u32(o, s->nenv);
	for (uint32_t i = 0; i < s->nenv; i++) {
		put_str(o, s->env[i].name);
		put_str(o, s->env[i].value);
	}
}

int proto_setup_unpack(struct proto_in *in, struct proto_setup *ret_s)
{
	memset(ret_s, 0, sizeof(*ret_s));
	ret_s->language = get_str(in, 32);
	ret_s->files_bytes = get_u64(in);
	ret_s->tmp_bytes = get_u64(in);
	ret_s->files_inodes = get_u32(in);
	ret_s->tmp_inodes = get_u32(in);
	ret_s->nproc = get_u32(in);
	ret_s->nofile = get_u32(in);
	ret_s->fsize = get_u64(in);
	ret_s->nenv = get_u32(in);
	if (in->bad || ret_s->nenv > PROTO_ENV_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < ret_s->nenv; i++) {
		ret_s->env[i].name = get_str(in, 256);
		ret_s->env[i].value = get_str(in, 4096);
	}
	return get_end(in) ? 0 : -EPROTO;
}

void proto_run_pack(struct proto_out *o, const struct proto_run *r)
{
	put_u32(o, r->flags);
	put_u32(o, r->timeout_ms);
	put_u32(o, r->grace_ms);
	put_u64(o, r->limit[0]);
	put_u64(o, r->limit[1]);
	put_u32(o, r->credit);
	put_str(o, r->code);
}

int proto_run_unpack(struct proto_in *in, struct proto_run *ret_r)
{
	ret_r->flags = get_u32(in);
	ret_r->timeout_ms = get_u32(in);
	ret_r->grace_ms = get_u32(in);
	ret_r->limit[0] = get_u64(in);
	ret_r->limit[1] = get_u64(in);
	ret_r->credit = get_u32(in);
	ret_r->code = get_str(in, PROTO_CODE_MAX);
	return get_end(in) ? 0 : -EPROTO;
}

void proto_exit_pack(struct proto_out *o, const struct proto_exit *e)
{
	put_u32(o, e->how);
	put_u32(o, e->status);
	put_u32(o, e->fresh);
	put_u32(o, e->gone);
	put_u64(o, e->wall_us);
	put_u64(o, e->user_us);
	put_u64(o, e->system_us);
	put_u64(o, e->maxrss_kib);
	put_u64(o, e->dropped[0]);
	put_u64(o, e->dropped[1]);
}

int proto_exit_unpack(struct proto_in *in, struct proto_exit *ret_e)
{
	ret_e->how = get_u32(in);
	ret_e->status = get_u32(in);
	ret_e->fresh = get_u32(in);
	ret_e->gone = get_u32(in);
	ret_e->wall_us = get_u64(in);
	ret_e->user_us = get_u64(in);
	ret_e->system_us = get_u64(in);
	ret_e->maxrss_kib = get_u64(in);
	ret_e->dropped[0] = get_u64(in);
	ret_e->dropped[1] = get_u64(in);
	if (!get_end(in) || ret_e->how >= PROTO_NHOW || ret_e->status > 255 || ret_e->fresh > 1 ||
	    ret_e->gone >= PROTO_NGONE)
		return -EPROTO;
	return 0;
}

void proto_usage_pack(struct proto_out *o, const struct proto_usage *u)
{
	put_u64(o, u->mem_total_kib);
	put_u64(o, u->mem_available_kib);
	put_u64(o, u->cpu_us);
	put_u64(o, u->files_used);
	put_u64(o, u->files_total);
	put_u64(o, u->inodes_used);
	put_u64(o, u->inodes_total);
	put_u32(o, u->processes);
}

int proto_usage_unpack(struct proto_in *in, struct proto_usage *ret_u)
{
	ret_u->mem_total_kib = get_u64(in);
	ret_u->mem_available_kib = get_u64(in);
	ret_u->cpu_us = get_u64(in);
	ret_u->files_used = get_u64(in);
	ret_u->files_total = get_u64(in);
	ret_u->inodes_used = get_u64(in);
	ret_u->inodes_total = get_u64(in);
	ret_u->processes = get_u32(in);
	return get_end(in) ? 0 : -EPROTO;
}

void proto_attr_pack(struct proto_out *o, const struct proto_attr *a)
{
	put_u64(o, a->ino);
	put_u32(o, a->mode);
	put_u32(o, a->nlink);
	put_u64(o, a->size);
	put_u64(o, a->blocks);
	put_u64(o, (uint64_t)a->atime);
	put_u64(o, (uint64_t)a->mtime);
	put_u64(o, (uint64_t)a->ctime);
	put_u32(o, a->atime_ns);
	put_u32(o, a->mtime_ns);
	put_u32(o, a->ctime_ns);
}

void proto_attr_get(struct proto_in *in, struct proto_attr *ret_a)
{
	ret_a->ino = get_u64(in);
	ret_a->mode = get_u32(in);
	ret_a->nlink = get_u32(in);
	ret_a->size = get_u64(in);
	ret_a->blocks = get_u64(in);
	ret_a->atime = (int64_t)get_u64(in);
	ret_a->mtime = (int64_t)get_u64(in);
	ret_a->ctime = (int64_t)get_u64(in);
	ret_a->atime_ns = get_u32(in);
	ret_a->mtime_ns = get_u32(in);
	ret_a->ctime_ns = get_u32(in);
}

void proto_entry_pack(struct proto_out *o, const struct proto_entry *e)
{
	put_u64(o, e->node);
	proto_attr_pack(o, &e->attr);
}

void proto_entry_get(struct proto_in *in, struct proto_entry *ret_e)
{
	ret_e->node = get_u64(in);
	proto_attr_get(in, &ret_e->attr);
}

void proto_setattr_pack(struct proto_out *o, const struct proto_setattr *s)
{
	put_u64(o, s->node);
	put_u64(o, s->handle);
	put_u32(o, s->valid);
	put_u32(o, s->mode);
	put_u64(o, s->size);
	put_u64(o, (uint64_t)s->atime);
	put_u64(o, (uint64_t)s->mtime);
	put_u32(o, s->atime_ns);
	put_u32(o, s->mtime_ns);
}

int proto_setattr_unpack(struct proto_in *in, struct proto_setattr *ret_s)
{
	ret_s->node = get_u64(in);
	ret_s->handle = get_u64(in);
	ret_s->valid = get_u32(in);
	ret_s->mode = get_u32(in);
	ret_s->size = get_u64(in);
	ret_s->atime = (int64_t)get_u64(in);
	ret_s->mtime = (int64_t)get_u64(in);
	ret_s->atime_ns = get_u32(in);
	ret_s->mtime_ns = get_u32(in);
	return get_end(in) ? 0 : -EPROTO;
}

void proto_lock_pack(struct proto_out *o, const struct proto_lock *l)
{
	put_u64(o, l->handle);
	put_u64(o, l->owner);
	put_u64(o, l->token);
	put_u64(o, l->start);
	put_u64(o, l->end);
	put_u32(o, l->flags);
	put_u32(o, l->type);
	put_u32(o, l->pid);
}

int proto_lock_unpack(struct proto_in *in, struct proto_lock *ret_l)
{
	ret_l->handle = get_u64(in);
	ret_l->owner = get_u64(in);
	ret_l->token = get_u64(in);
	ret_l->start = get_u64(in);
	ret_l->end = get_u64(in);
	ret_l->flags = get_u32(in);
	ret_l->type = get_u32(in);
	ret_l->pid = get_u32(in);
	if (!get_end(in) || ret_l->end > INT64_MAX || ret_l->start > ret_l->end ||
	    ret_l->type > PROTO_LOCK_EXCLUSIVE ||
	    (ret_l->flags & ~(PROTO_LOCK_WAIT | PROTO_LOCK_WHOLE)))
		return -EPROTO;
	return 0;
}

bool proto_dirent_pack(struct proto_out *o, const struct proto_dirent *d)
{
	if (o->cap - o->len < 8 + 8 + 4 + 4 + (size_t)d->name.len)
		return false;
	put_u64(o, d->ino);
	put_u64(o, d->next);
	put_u32(o, d->type);
	put_str(o, d->name);
	return true;
}

void proto_dirent_get(struct proto_in *in, struct proto_dirent *ret_d)
{
	ret_d->ino = get_u64(in);
	ret_d->next = get_u64(in);
	ret_d->type = get_u32(in);
	ret_d->name = get_str(in, PROTO_NAME_MAX);
}

bool proto_name_ok(struct proto_str s)
{
	if (s.len == 0 || s.len > PROTO_NAME_MAX)
		return false;
	if (memchr(s.data, '/', s.len) || memchr(s.data, '\0', s.len))
		return false;
	return !(s.data[0] == '.' && (s.len == 1 || (s.len == 2 && s.data[1] == '.')));
}
