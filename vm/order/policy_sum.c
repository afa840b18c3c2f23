/* SPDX-License-Identifier: Apache-2.0 */
/* A checksum of what a policy permits, by which the spawner's can be told from another. */
#include "policy_internal.h"

#include <errno.h>

#include "vm/base/record.h"

/* NULL differs from "". */
static void put(struct buf *out, const char *text)
{
	record_u64(out, 1, text != NULL);
	record_str(out, 2, text);
}

static void put_view(struct buf *out, const struct sealed_view *v)
{
	for (size_t i = 0; i < v->npaths; i++) {
		put(out, v->path[i].source);
		put(out, v->path[i].target);
		record_u64(out, 3, v->path[i].write);
	}
	put(out, v->work);
	put(out, NULL); /* an image, in policies of older daemons */
}

/* Never a value. */
static void put_secret(struct buf *out, const struct vm_secret *s)
{
	put(out, s->name);
	put(out, s->argument);
	put(out, s->hosts);
	record_u64(out, 6, s->from);
	record_u64(out, 6, s->refresh_s);
	for (size_t i = 0; i < s->nusers; i++)
		record_u64(out, 7, s->users[i]);
}

/* Not where images are: there may be more of them by now. */
static void put_policy(struct buf *out, const struct policy *p)
{
	const char *const texts[] = {
		p->qemu,	 p->agent,	  p->store,	p->builder,	 p->prepare,
		p->cache,	 p->images,	  p->layers,	p->runtime,	 p->ca,
		p->offline,	 p->key_command,  p->store_url, p->store_region, p->python_index,
		p->python_hosts, p->npm_registry, p->npm_hosts, p->shared,	 p->trace,
		p->trace_url,
	};
	const uint64_t numbers[] = {
		p->most.memory_mb, p->most.cpus,   p->most.processes, p->most.nviews,
		p->others,	   p->mitigate,	   p->layer_bytes,    p->store_timeout_s,
		p->store_read,	   p->store_write, p->most.kvm,	      p->most.local,
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		put(out, texts[i]);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		record_u64(out, 4, numbers[i]);
	for (size_t i = 0; i < p->nviews; i++) {
		record_u64(out, 5, i);
		put_view(out, &p->view[i]);
	}
	for (size_t i = 0; i < p->secrets.n; i++)
		put_secret(out, &p->secrets.secret[i]);
	/* Last, and only where there is one: what an older daemon has mounted can be taken over. */
	if (p->upstream && *p->upstream) {
		record_u64(out, 8, 1);
		put(out, p->upstream);
	}
}

int policy_sum(const struct policy *p, char ret_sum[DIGEST_HEX])
{
	struct buf out = {0};
	int r;

	put_policy(&out, p);
	r = out.failed ? -ENOMEM : digest_of(out.data, out.len, ret_sum);
	buf_clear(&out);
	return r;
}
