/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks the agent protocol; shared by the agent and vm/. */
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

#define NAME(type) [PROTO_##type] = #type

static const char *const type_names[] = {
	NAME(HELLO),	  NAME(PING),	     NAME(SETUP),	 NAME(RUN),
	NAME(STDIN),	  NAME(SIGNAL),	     NAME(CREDIT),	 NAME(RESET),
	NAME(USAGE),	  NAME(SHUTDOWN),    NAME(WARM),	 NAME(CLOCK),
	NAME(TRUST),	  NAME(FREEZE),	     NAME(F_LOOKUP),	 NAME(F_FORGET),
	NAME(F_GETATTR),  NAME(F_SETATTR),   NAME(F_READLINK),	 NAME(F_MKDIR),
	NAME(F_SYMLINK),  NAME(F_LINK),	     NAME(F_UNLINK),	 NAME(F_RMDIR),
	NAME(F_RENAME),	  NAME(F_OPEN),	     NAME(F_CREATE),	 NAME(F_READ),
	NAME(F_WRITE),	  NAME(F_RELEASE),   NAME(F_FSYNC),	 NAME(F_FALLOCATE),
	NAME(F_SEEK),	  NAME(F_OPENDIR),   NAME(F_READDIR),	 NAME(F_STATFS),
	NAME(F_LOCK),	  NAME(F_TEST_LOCK), NAME(F_DROP_LOCKS), NAME(F_CANCEL_LOCK),
	NAME(HELLO_OK),	  NAME(PONG),	     NAME(READY),	 NAME(FAILED),
	NAME(OUTPUT),	  NAME(EXIT),	     NAME(STDIN_CREDIT), NAME(USAGE_REPLY),
	NAME(LOG),	  NAME(FILE_REPLY),  NAME(CLOCK_OK),	 NAME(LOCKED),
	NAME(FROZEN),	  NAME(TRACED),	     NAME(LEASE),	 NAME(LEASED),
	NAME(UNLEASED),	  NAME(NOTED),	     NAME(CONTENT),	 NAME(F_TOUCH),
	NAME(JOB),	  NAME(JOB_FORGET),  NAME(JOB_GONE),	 NAME(STDIN_CLOSED),
	NAME(JOB_WINDOW), NAME(WATCH),	     NAME(CHANGED),	 NAME(PACK),
	NAME(UNPACK),	  NAME(PACKED),	     NAME(UNPACKED),	 NAME(REST),
	NAME(WAKE),	  NAME(RESTING),     NAME(POINT),	 NAME(POINTED),
	NAME(RESUME),	  NAME(RESUMED),     NAME(F_HOLD),	 NAME(AUTHOR),
	NAME(LEARN),	  NAME(LEARNED),     NAME(F_ORIGIN)};

const char *proto_type_name(unsigned type)
{
	if (type >= sizeof(type_names) / sizeof(type_names[0]) || !type_names[type])
		return "unknown";
	return type_names[type];
}

bool proto_is_job(uint32_t id)
{
	return id >= PROTO_JOB_ID && id <= PROTO_JOB_LAST;
}

bool proto_keeps_lease(unsigned type)
{
	switch (type) {
	case PROTO_PING:
	case PROTO_STDIN: /* of a run, during which there is none */
	case PROTO_CREDIT:
	case PROTO_USAGE:
	case PROTO_CLOCK:
	case PROTO_TRUST:
	case PROTO_WATCH:
	case PROTO_REST:
	case PROTO_WAKE:
	case PROTO_POINT:
	case PROTO_LEASE: return true;
	default: return type >= PROTO_F_LOOKUP && type <= PROTO_F_ORIGIN;
	}
}

/* ---- structs: their numbers, in the order of the wire ---- */

struct field {
	uint16_t at;
	uint8_t size; /* 4 or 8 */
};

#define F(type, member)                                                                           \
	{                                                                                         \
		offsetof(struct proto_##type, member), sizeof(((struct proto_##type *)0)->member) \
	}

static void put_fields(struct proto_out *o, const void *from, const struct field *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *at = (const char *)from + f[i].at;
		uint64_t v = 0;
		uint32_t low;

		if (f[i].size == sizeof(v)) {
			memcpy(&v, at, sizeof(v));
			put_u64(o, v);
		} else {
			memcpy(&low, at, sizeof(low));
			put_u32(o, low);
		}
	}
}

static void get_fields(struct proto_in *in, void *to, const struct field *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *at = (char *)to + f[i].at;

		if (f[i].size == sizeof(uint64_t))
			memcpy(at, &(uint64_t){get_u64(in)}, sizeof(uint64_t));
		else
			memcpy(at, &(uint32_t){get_u32(in)}, sizeof(uint32_t));
	}
}

#define PUT(o, from, fields) put_fields(o, from, fields, sizeof(fields) / sizeof((fields)[0]))
#define GET(in, to, fields)  get_fields(in, to, fields, sizeof(fields) / sizeof((fields)[0]))

static const struct field setup_fields[] = {
	F(setup, files_bytes), F(setup, tmp_bytes), F(setup, files_inodes), F(setup, tmp_inodes),
	F(setup, nproc),       F(setup, nofile),    F(setup, fsize),	    F(setup, nenv)};

static const struct field exact_fields[] = {F(setup, exact), F(setup, before), F(setup, seed),
					    F(setup, clock_ns)};

void proto_setup_pack(struct proto_out *o, const struct proto_setup *s)
{
	put_str(o, s->language);
	PUT(o, s, setup_fields);
	for (uint32_t i = 0; i < s->nenv; i++) {
		put_str(o, s->env[i].name);
		put_str(o, s->env[i].value);
	}
	if (s->exact)
		PUT(o, s, exact_fields);
}

int proto_setup_unpack(struct proto_in *in, struct proto_setup *ret_s)
{
	memset(ret_s, 0, sizeof(*ret_s));
	ret_s->language = get_str(in, 32);
	GET(in, ret_s, setup_fields);
	if (in->bad || ret_s->nenv > PROTO_ENV_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < ret_s->nenv; i++) {
		ret_s->env[i].name = get_str(in, 256);
		ret_s->env[i].value = get_str(in, 4096);
	}
	if (in->bad || in->p == in->end)
		return in->bad ? -EPROTO : 0;
	GET(in, ret_s, exact_fields);
	return get_end(in) && ret_s->exact && !(ret_s->exact & ~PROTO_EXACT_ALL) ? 0 : -EPROTO;
}

static const struct field run_fields[] = {F(run, flags),    F(run, timeout_ms), F(run, grace_ms),
					  F(run, limit[0]), F(run, limit[1]),	F(run, credit)};

void proto_run_pack(struct proto_out *o, const struct proto_run *r)
{
	PUT(o, r, run_fields);
	put_str(o, r->code);
	put_str(o, r->cwd);
	put_str(o, r->env);
}

static bool words_ok(struct proto_str s)
{
	return !s.len || !s.data[s.len - 1];
}

/* Each is NAME=VALUE. */
static bool env_ok(struct proto_str s)
{
	if (!words_ok(s))
		return false;
	for (uint32_t at = 0; at < s.len; at += (uint32_t)strlen(s.data + at) + 1) {
		if (s.data[at] == '=' || !strchr(s.data + at, '='))
			return false;
	}
	return true;
}

static bool cwd_ok(struct proto_str s)
{
	return !memchr(s.data, '\0', s.len);
}

int proto_run_unpack(struct proto_in *in, struct proto_run *ret_r)
{
	GET(in, ret_r, run_fields);
	ret_r->code = get_str(in, PROTO_CODE_MAX);
	ret_r->cwd = get_str(in, PROTO_LINK_MAX);
	ret_r->env = get_str(in, PROTO_CODE_MAX);
	return get_end(in) && cwd_ok(ret_r->cwd) && env_ok(ret_r->env) ? 0 : -EPROTO;
}

static const struct field job_fields[] = {F(job, flags),    F(job, timeout_ms), F(job, grace_ms),
					  F(job, limit[0]), F(job, limit[1]),	F(job, credit),
					  F(job, window),   F(job, nice)};

void proto_job_pack(struct proto_out *o, const struct proto_job *j)
{
	PUT(o, j, job_fields);
	put_str(o, j->language);
	put_str(o, j->cwd);
	put_str(o, j->env);
	put_str(o, j->argv);
	put_str(o, j->code);
}

int proto_job_unpack(struct proto_in *in, struct proto_job *ret_j)
{
	GET(in, ret_j, job_fields);
	ret_j->language = get_str(in, 32);
	ret_j->cwd = get_str(in, PROTO_LINK_MAX);
	ret_j->env = get_str(in, PROTO_CODE_MAX);
	ret_j->argv = get_str(in, PROTO_ARGV_MAX);
	ret_j->code = get_str(in, PROTO_CODE_MAX);
	if (!get_end(in) || !env_ok(ret_j->env) || !words_ok(ret_j->argv) || !cwd_ok(ret_j->cwd) ||
	    (!ret_j->argv.len && !ret_j->code.len) || ret_j->nice > PROTO_NICE_MAX ||
	    (ret_j->flags & ~(PROTO_RUN_STDIN | PROTO_RUN_TRACE | PROTO_JOB_TTY | PROTO_JOB_ROOT)))
		return -EPROTO;
	return 0;
}

static const struct field exit_fields[] = {
	F(exit, how),	     F(exit, status),	  F(exit, fresh),      F(exit, gone),
	F(exit, wall_us),    F(exit, user_us),	  F(exit, system_us),  F(exit, maxrss_kib),
	F(exit, dropped[0]), F(exit, dropped[1]), F(exit, read_bytes), F(exit, written_bytes)};

void proto_exit_pack(struct proto_out *o, const struct proto_exit *e)
{
	PUT(o, e, exit_fields);
}

int proto_exit_unpack(struct proto_in *in, struct proto_exit *ret_e)
{
	GET(in, ret_e, exit_fields);
	if (!get_end(in) || ret_e->how >= PROTO_NHOW || ret_e->status > 255 || ret_e->fresh > 1 ||
	    ret_e->gone >= PROTO_NGONE)
		return -EPROTO;
	return 0;
}

static const struct field usage_fields[] = {F(usage, mem_total_kib), F(usage, mem_available_kib),
					    F(usage, cpu_us),	     F(usage, files_used),
					    F(usage, files_total),   F(usage, inodes_used),
					    F(usage, inodes_total),  F(usage, processes)};

void proto_usage_pack(struct proto_out *o, const struct proto_usage *u)
{
	PUT(o, u, usage_fields);
}

int proto_usage_unpack(struct proto_in *in, struct proto_usage *ret_u)
{
	GET(in, ret_u, usage_fields);
	return get_end(in) ? 0 : -EPROTO;
}

static const struct field resumed_fields[] = {F(resumed, version), F(resumed, generation),
					      F(resumed, number), F(resumed, flags),
					      F(resumed, nexecs)};
static const struct field resumed_exec_fields[] = {
	F(resumed_exec, id), F(resumed_exec, flags), F(resumed_exec, sequence),
	F(resumed_exec, granted), F(resumed_exec, credit)};

void proto_resumed_pack(struct proto_out *o, const struct proto_resumed *r)
{
	PUT(o, r, resumed_fields);
	for (uint32_t i = 0; i < r->nexecs; i++)
		PUT(o, &r->exec[i], resumed_exec_fields);
}

int proto_resumed_unpack(struct proto_in *in, struct proto_resumed *ret_r)
{
	GET(in, ret_r, resumed_fields);
	if (in->bad || ret_r->nexecs > sizeof(ret_r->exec) / sizeof(ret_r->exec[0]))
		return -EPROTO;
	for (uint32_t i = 0; i < ret_r->nexecs; i++)
		GET(in, &ret_r->exec[i], resumed_exec_fields);
	return get_end(in) ? 0 : -EPROTO;
}

static const struct field attr_fields[] = {F(attr, ino),      F(attr, mode),	F(attr, nlink),
					   F(attr, size),     F(attr, blocks),	F(attr, atime),
					   F(attr, mtime),    F(attr, ctime),	F(attr, atime_ns),
					   F(attr, mtime_ns), F(attr, ctime_ns)};

void proto_attr_pack(struct proto_out *o, const struct proto_attr *a)
{
	PUT(o, a, attr_fields);
}

void proto_attr_get(struct proto_in *in, struct proto_attr *ret_a)
{
	GET(in, ret_a, attr_fields);
}

void proto_entry_pack(struct proto_out *o, const struct proto_entry *e)
{
	put_u64(o, e->node);
	proto_attr_pack(o, &e->attr);
}

static const struct field setattr_fields[] = {
	F(setattr, node),  F(setattr, handle),	 F(setattr, valid),
	F(setattr, mode),  F(setattr, size),	 F(setattr, atime),
	F(setattr, mtime), F(setattr, atime_ns), F(setattr, mtime_ns)};

void proto_setattr_pack(struct proto_out *o, const struct proto_setattr *s)
{
	PUT(o, s, setattr_fields);
}

int proto_setattr_unpack(struct proto_in *in, struct proto_setattr *ret_s)
{
	GET(in, ret_s, setattr_fields);
	return get_end(in) ? 0 : -EPROTO;
}

static const struct field lock_fields[] = {F(lock, handle), F(lock, owner), F(lock, token),
					   F(lock, start),  F(lock, end),   F(lock, flags),
					   F(lock, type),   F(lock, pid)};

void proto_lock_pack(struct proto_out *o, const struct proto_lock *l)
{
	PUT(o, l, lock_fields);
}

int proto_lock_unpack(struct proto_in *in, struct proto_lock *ret_l)
{
	GET(in, ret_l, lock_fields);
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
