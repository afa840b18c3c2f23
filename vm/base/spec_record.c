/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's specification in a record. See spec_record.h. */
#include "spec_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol.h"
#include "record_table.h"
#include "util.h"

#define MEMORY_MB_MAX (1u << 24)
#define CPUS_MAX      4096u

/* Never reuse one. */
enum {
	TAG_NAME = 1,
	TAG_WHO,
	TAG_IMAGE,
	TAG_LANGUAGE,
	TAG_BACKEND,
	TAG_MEMORY_MB,
	TAG_CPUS,
	TAG_PROCESSES,
	TAG_OPEN_FILES,
	TAG_FILE_SIZE_MB,
	TAG_FILES_MB,
	TAG_FILES_INODES,
	TAG_OWNER,
	TAG_GROUP,
	TAG_PATH, /* fields: TAG_PART_* */
	TAG_IMAGE_VIEW,
	TAG_ROOT,
	TAG_WORK,
	TAG_ENV, /* likewise */
	TAG_NETWORK,
	TAG_TRUSTED_NAMES,
	TAG_ALLOW,
	TAG_PORT, /* likewise */
	TAG_PACKAGES,
	TAG_WARMUP,
	TAG_ALONE,
	TAG_FIRST_RULES,
	TAG_RULES,
	TAG_SECRETS,
	TAG_ASK,
	TAG_ASK_S,
	TAG_LEARN,
	TAG_NET_BYTES,
	TAG_NET_REQUESTS,
	TAG_NET_CONNECTIONS,
	TAG_NET_RATE,
	TAG_USED_BYTES,
	TAG_USED_REQUESTS,
	TAG_USED_CONNECTIONS,
	TAG_SECRETS_FILE,
	TAG_SEED,
	TAG_CLOCK,
	TAG_BEFORE,
	TAG_LEARN_PATHS,
};

enum { TAG_PART_NAME = 1, TAG_PART_VALUE, TAG_PART_FLAG, TAG_PART_GUEST, TAG_PART_HOST };

#define MEMBER(member, tag, max) RECORD_MEMBER(struct sandbox_spec, member, tag, max)

static const struct record_member members[] = {
	MEMBER(backend, TAG_BACKEND, VM_NBACKENDS - 1),
	MEMBER(memory_mb, TAG_MEMORY_MB, MEMORY_MB_MAX),
	MEMBER(cpus, TAG_CPUS, CPUS_MAX),
	MEMBER(limits.processes, TAG_PROCESSES, UINT32_MAX),
	MEMBER(limits.open_files, TAG_OPEN_FILES, UINT32_MAX),
	MEMBER(limits.file_size_mb, TAG_FILE_SIZE_MB, UINT32_MAX),
	MEMBER(limits.files_mb, TAG_FILES_MB, UINT32_MAX),
	MEMBER(limits.files_inodes, TAG_FILES_INODES, UINT32_MAX),
	MEMBER(owner, TAG_OWNER, UINT32_MAX),
	MEMBER(group, TAG_GROUP, UINT32_MAX),
	MEMBER(image_view, TAG_IMAGE_VIEW, 1),
	MEMBER(root, TAG_ROOT, 1),
	MEMBER(network, TAG_NETWORK, 1),
	MEMBER(trusted_names, TAG_TRUSTED_NAMES, 1),
	MEMBER(alone, TAG_ALONE, 1),
	MEMBER(policy.ask, TAG_ASK, 1),
	MEMBER(policy.ask_s, TAG_ASK_S, UINT32_MAX),
	MEMBER(policy.learn, TAG_LEARN, 1),
	MEMBER(policy.most.bytes, TAG_NET_BYTES, UINT64_MAX),
	MEMBER(policy.most.requests, TAG_NET_REQUESTS, UINT64_MAX),
	MEMBER(policy.most.connections, TAG_NET_CONNECTIONS, UINT64_MAX),
	MEMBER(policy.used.bytes, TAG_USED_BYTES, UINT64_MAX),
	MEMBER(policy.used.requests, TAG_USED_REQUESTS, UINT64_MAX),
	MEMBER(policy.used.connections, TAG_USED_CONNECTIONS, UINT64_MAX),
	MEMBER(policy.rate, TAG_NET_RATE, UINT64_MAX),
	MEMBER(before, TAG_BEFORE, UINT32_MAX),
	MEMBER(learn, TAG_LEARN_PATHS, 1),
};

static const struct {
	uint8_t tag;
	uint16_t at;
} texts[] = {
	{TAG_NAME, offsetof(struct sandbox_spec, name)},
	{TAG_WHO, offsetof(struct sandbox_spec, label.who)},
	{TAG_IMAGE, offsetof(struct sandbox_spec, image)},
	{TAG_LANGUAGE, offsetof(struct sandbox_spec, language)},
	{TAG_WORK, offsetof(struct sandbox_spec, work)},
	{TAG_ALLOW, offsetof(struct sandbox_spec, allow)},
	{TAG_FIRST_RULES, offsetof(struct sandbox_spec, policy.first)},
	{TAG_RULES, offsetof(struct sandbox_spec, policy.rules)},
	{TAG_SECRETS, offsetof(struct sandbox_spec, policy.secrets)},
	{TAG_SECRETS_FILE, offsetof(struct sandbox_spec, policy.secrets_file)},
	{TAG_PACKAGES, offsetof(struct sandbox_spec, packages)},
	{TAG_WARMUP, offsetof(struct sandbox_spec, warmup)},
	{TAG_SEED, offsetof(struct sandbox_spec, seed)},
	{TAG_CLOCK, offsetof(struct sandbox_spec, clock)},
};

static void put_pair(struct buf *out, unsigned tag, const char *name, const char *value, bool flag)
{
	const size_t at = record_open(out, tag);

	record_str(out, TAG_PART_NAME, name);
	record_str(out, TAG_PART_VALUE, value);
	record_u64(out, TAG_PART_FLAG, flag);
	record_close(out, at);
}

void spec_put(const struct sandbox_spec *s, struct buf *out)
{
	record_put_members(out, s, members, ARRAY_SIZE(members));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text;

		memcpy(&text, (const char *)s + texts[i].at, sizeof(text));
		record_str(out, texts[i].tag, text);
	}
	for (size_t i = 0; i < s->nenv; i++)
		put_pair(out, TAG_ENV, s->env[i].name, s->env[i].value, false);
	for (size_t i = 0; i < s->npaths; i++)
		put_pair(out, TAG_PATH, s->paths[i].source, s->paths[i].target, s->paths[i].write);
	for (size_t i = 0; i < s->nports; i++) {
		const size_t at = record_open(out, TAG_PORT);

		record_u64(out, TAG_PART_GUEST, s->ports[i].guest);
		record_u64(out, TAG_PART_HOST, s->ports[i].host);
		record_close(out, at);
	}
}

/* A spec whose texts are in one piece of memory: each takes less of it than it took of the record. */
struct loader {
	struct sandbox_spec spec;
	struct sandbox_env env[PROTO_ENV_MAX];
	struct vm_path path[VM_PATHS_MAX];
	struct sandbox_port port[SANDBOX_PORTS_MAX];
	char *next;
	char text[];
};

/* Return: the text, or NULL if it is none. */
static const char *take_text(struct loader *l, const struct record_field *f)
{
	char *text = l->next;

	if (record_get_str(f, text, f->len + 1) < 0)
		return NULL;
	l->next += f->len + 1;
	return text;
}

struct pair {
	const char *name, *value;
	bool flag;
	uint32_t guest, host;
};

/* Return: 0 or -EBADMSG. */
static int take_pair(struct loader *l, const struct record_field *of, struct pair *p)
{
	struct record_reader r = record_inside(of);
	struct record_field f;
	int n;

	*p = (struct pair){.name = ""};
	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_PART_NAME: n = (p->name = take_text(l, &f)) ? 0 : -EBADMSG; break;
		case TAG_PART_VALUE: n = (p->value = take_text(l, &f)) ? 0 : -EBADMSG; break;
		case TAG_PART_FLAG: n = record_get_bool(&f, &p->flag); break;
		case TAG_PART_GUEST: n = record_get_u32(&f, UINT16_MAX, &p->guest); break;
		case TAG_PART_HOST: n = record_get_u32(&f, UINT16_MAX, &p->host); break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	if (!p->value)
		p->value = "";
	return of->is_bytes ? n : -EBADMSG;
}

static int take_list(struct loader *l, const struct record_field *f)
{
	struct sandbox_spec *s = &l->spec;
	struct pair p;

	if (take_pair(l, f, &p) < 0)
		return -EBADMSG;
	if (f->tag == TAG_ENV && s->nenv < ARRAY_SIZE(l->env))
		l->env[s->nenv++] = (struct sandbox_env){p.name, p.value};
	else if (f->tag == TAG_PATH && s->npaths < ARRAY_SIZE(l->path))
		l->path[s->npaths++] = (struct vm_path){p.name, p.value, p.flag};
	else if (f->tag == TAG_PORT && s->nports < ARRAY_SIZE(l->port))
		l->port[s->nports++] = (struct sandbox_port){(uint16_t)p.guest, (uint16_t)p.host};
	else
		return -EBADMSG;
	return 0;
}

static int take_field(struct loader *l, const struct record_field *f)
{
	if (f->tag == TAG_ENV || f->tag == TAG_PATH || f->tag == TAG_PORT)
		return take_list(l, f);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text;

		if (texts[i].tag != f->tag)
			continue;
		text = take_text(l, f);
		memcpy((char *)&l->spec + texts[i].at, &text, sizeof(text));
		return text ? 0 : -EBADMSG;
	}
	return record_take_member(f, &l->spec, members, ARRAY_SIZE(members));
}

int spec_take(struct record_reader r, struct sandbox_spec *dst)
{
	struct loader *l = calloc(1, sizeof(*l) + (size_t)(r.end - r.at));
	struct record_field f;
	int n;

	if (!l)
		return -ENOMEM;
	l->next = l->text;
	l->spec.env = l->env;
	l->spec.paths = l->path;
	l->spec.ports = l->port;
	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(l, &f);
		if (n < 0)
			break;
	}
	if (n == 0 && (!l->spec.memory_mb || !l->spec.language))
		n = -EBADMSG;
	if (n == 0)
		n = spec_copy(dst, &l->spec);
	free(l);
	return n;
}
